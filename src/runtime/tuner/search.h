// Which configuration is measured next, and which one is chosen: a state machine without clocks or
// kernels of its own, so that every face measures in its own way and all choose alike.
//
// In order of the configurations, as they become ready (compiled):
//   1. Look: a few runs of each as it becomes ready. Those that are not far from the best are
//      looked at again, in the opposite order, and the better look counts: the first ones may have
//      met a device that was still asleep, or a machine that was busy compiling. What is clearly
//      slower than the best is out.
//   2. Measure: the others, best first, for longer.
//   3. Compare: the two or three best within a few percent, in turns, so that a clock that drifts
//      (or a machine that is busy for a while) meets all of them alike. Their times of the turns
//      alone count.
// A `plain` search measures each configuration once: the caller's way of measuring takes as long as
// it takes. A budget ends the search at its end, with the best of those in the last step that was
// reached; at least one configuration is always measured.
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
  enum class Step : uint8_t { Look, Measure, Compare, Wait, Done };

  struct Task {
    Step step = Step::Done;
    size_t config = 0;
    /// Run it for this long (its own time), but so often at least and at most.
    double milliseconds = 0;
    unsigned minRuns = 0, maxRuns = 0;
    /// One run that takes longer says enough.
    double giveUp = std::numeric_limits<double>::infinity();
  };

  struct Plan {
    size_t count = 0;
    double budget = std::numeric_limits<double>::infinity(); ///< seconds
    bool plain = false;
    std::function<double()> now; ///< seconds; by default a steady clock
  };

  explicit Search(Plan plan);

  /// It can be measured from now on; or never.
  void ready(size_t config);
  void fail(size_t config);

  /// What to do now. Wait: nothing is ready that could be measured.
  Task next();
  /// The times of the runs that `next` asked for, at least one.
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

  /// "tuning matmul: 7 of 20 measured, 3 failed, best 0.4120 ms, 3 s".
  std::string progress(std::string_view kernel) const;

private:
  enum class State : uint8_t { Waiting, Ready, Failed };
  struct Candidate {
    State state = State::Waiting;
    std::vector<double> looked, measured, compared;
    const std::vector<double> &times() const {
      return !compared.empty() ? compared : !measured.empty() ? measured : looked;
    }
  };

  Task look();
  void lookAgain();
  void choosePlausible();
  void chooseFinalists();
  /// Those whose look came within a factor of the best one's, best first.
  std::vector<size_t> lookedWithin(double factor) const;
  std::vector<size_t> byMedian(std::vector<size_t> configs) const;

  Plan plan;
  double start;
  Step step;
  bool again = false; ///< the second looks
  std::vector<Candidate> candidates;
  std::vector<size_t> queue; ///< of all but the first looks
  size_t position = 0;
  bool stopped = false;
};

} // namespace nereid::runtime
