// Which configuration is measured next, and which one is chosen: a state machine without clocks or
// kernels of its own, so that every face measures in its own way and all choose alike.
//
// Single runs are unreliable, and always in the same direction: loading, a sleeping clock, a busy
// machine make them slower, by any factor. What rules a configuration out is therefore its fastest
// run so far (`floor`), compared with the fastest run of the best one. In order of the
// configurations, as they become ready (compiled):
//   0. Wake, where the device sleeps when idle: the first configuration runs until it gets no
//      faster.
//   1. Look: one run that is for loading, one or two more, and, unless all were far from the best,
//      as many as it takes to see.
//   2. Look again, when all have been looked at, in the opposite order: as long as before at those
//      that are not clearly slower; briefly at the others, the quick ones first, while that costs
//      little: nothing is ruled out by a moment in which the machine was busy. How much the two
//      looks at a configuration differ is the noise of this machine.
//   3. Measure, best first, for longer: all that are within that noise of the best. The more they
//      are, the shorter.
//   4. Compare: the two or three best, in turns, so that a clock that drifts (or a machine that is
//      busy for a while) meets all of them alike. Their times of the turns alone count.
// A `plain` search measures each configuration once: the caller's way of measuring takes as long as
// it takes. A budget ends the search at its end, with the best of those in the last step that was
// reached; at least one configuration is always measured. docs/tuning.md has the costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nereid::runtime {

/// Median, 20th and 80th percentile in milliseconds.
struct Timing {
  double median = std::numeric_limits<double>::infinity();
  double low = median, high = median;
};

/// Of times in any order; at least one.
Timing summarise(std::vector<double> times);

class Search {
public:
  enum class Step : uint8_t { Look, Measure, Compare, Wake, Wait, Done };

  struct Task {
    Step step = Step::Done;
    size_t config = 0;
    unsigned runs = 0; ///< run it so often, and report the time of each
  };

  struct Plan {
    size_t count = 0;
    double budget = std::numeric_limits<double>::infinity(); ///< seconds
    bool plain = false;
    bool wakes = false;               ///< the device sleeps when it is idle
    std::function<double()> now = {}; ///< seconds; by default a steady clock
  };

  explicit Search(Plan plan);

  /// It can be measured from now on; or never.
  void ready(size_t config);
  void fail(size_t config);

  /// What to do now. Wait: nothing is ready that could be measured.
  Task next();
  /// The milliseconds of the runs that `next` asked for, in their order, at least one.
  void report(size_t config, const double *times, size_t count);

  /// Seconds left of the budget, not below 0; infinite without one.
  double remaining() const;
  double elapsed() const;
  /// Whether the budget ended it before every configuration had been measured.
  bool cutShort() const { return stopped; }

  /// The fastest so far; nothing while none was measured.
  std::optional<size_t> best() const;
  /// What is known of one; infinite when it failed, nothing when it was not measured.
  std::optional<Timing> timing(size_t config) const;
  /// How much slower than the best by its fastest run (0.1: a tenth) rules a configuration out.
  double margin() const;

  /// "tuning matmul: 7 of 20 measured, 3 failed, best 0.4120 ms, 3 s".
  std::string progress(std::string_view kernel) const;

private:
  enum class State : uint8_t { Waiting, Ready, Failed };
  /// Of the first look: what has been done.
  enum class Stage : uint8_t { Untried, Loaded, Once, Tried, Looked };
  /// Of the second one.
  enum class Again : uint8_t { No, Briefly, Fully };
  struct Candidate {
    State state = State::Waiting;
    Stage stage = Stage::Untried;
    Again again = Again::No;
    double floor = std::numeric_limits<double>::infinity(); ///< the fastest of all runs
    double first = floor, second = floor;                   ///< ... of the looks
    std::vector<double> looked, measured, compared;
    const std::vector<double> &times() const {
      return !compared.empty() ? compared : !measured.empty() ? measured : looked;
    }
  };

  bool isWaking() const { return plan.wakes && !plan.plain && !waking.done; }
  std::optional<Task> wake() const;
  Task look();
  std::optional<Task> lookAt(size_t config, double fastest);
  bool lookAgain();
  static unsigned settles(const Candidate &candidate);
  void choosePlausible();
  void chooseFinalists();
  void woken(double fastest);
  /// Those that can run and whose fastest run is within a factor of the best one's, best first.
  std::vector<size_t> within(double factor) const;
  double fastestRun() const;
  std::vector<size_t> byMedian(std::vector<size_t> configs) const;

  Plan plan;
  double start;
  Step step;
  bool again = false; ///< the second looks
  double spent = 0;   ///< milliseconds of all runs
  std::vector<Candidate> candidates;
  std::vector<size_t> queue; ///< of all but the first looks
  size_t position = 0;
  double each = 0; ///< milliseconds that one of the queue is measured for
  bool stopped = false;
  struct {
    double begin = -1, part = 0; ///< seconds; when it and its present part began
    double before = std::numeric_limits<double>::infinity(), best = before;
    bool done = false;
  } waking;
};

} // namespace nereid::runtime
