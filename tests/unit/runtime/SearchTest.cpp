// The order in which configurations are measured, and the choice.
#include "runtime/tuner/search.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

#include <array>

#include <cmath>
#include <map>
#include <random>

using namespace nereid::runtime;

namespace {

/// A machine whose configurations take known times, and whose clock runs with its work.
struct Machine {
  explicit Machine(std::vector<double> milliseconds)
      : costs(std::move(milliseconds)), launches(costs.size()) {}

  Search search(double budget = std::numeric_limits<double>::infinity(), bool plain = false,
                bool wakes = false) {
    return Search({costs.size(), budget, plain, wakes, [this] { return seconds; }});
  }

  void work(Search &search, const Search::Task &task) {
    std::vector<double> times;
    for (unsigned run = 0; run < task.runs; ++run) {
      double cost = costs[task.config] * drift(seconds) * noise(task.config);
      ++launches[task.config];
      times.push_back(cost);
      seconds += cost / 1000;
    }
    search.report(task.config, times.data(), times.size());
    steps[task.config].push_back(task.step);
    total += task.runs;
  }

  /// Until it is done or waits.
  void run(Search &search) {
    for (Search::Task task = search.next();
         task.step != Search::Step::Done && task.step != Search::Step::Wait; task = search.next())
      work(search, task);
  }

  void runAll(Search &search) {
    for (size_t i = 0; i < costs.size(); ++i)
      search.ready(i);
    run(search);
  }

  std::vector<double> costs;
  std::vector<unsigned> launches; ///< so far, of each configuration
  std::function<double(size_t)> noise = [](size_t) { return 1.0; };
  std::function<double(double)> drift = [](double) { return 1.0; };
  double seconds = 100;
  std::map<size_t, std::vector<Search::Step>> steps;
  unsigned total = 0;
};

using Step = Search::Step;

TEST(Search, ChoosesTheFastest) {
  Machine machine({3.0, 1.0, 2.0, 1.5});
  Search search = machine.search();
  machine.runAll(search);
  EXPECT_EQ(search.best(), 1u);
  EXPECT_DOUBLE_EQ(search.timing(1)->median, 1.0);
  EXPECT_DOUBLE_EQ(search.timing(0)->median, 3.0);
  EXPECT_FALSE(search.cutShort());
}

TEST(Search, WhatIsClearlySlowerIsOnlyLookedAt) {
  Machine machine({1.0, 1.1, 5.0, 100.0});
  Search search = machine.search();
  machine.runAll(search);
  for (size_t slow : {2, 3})
    EXPECT_EQ(std::count(machine.steps[slow].begin(), machine.steps[slow].end(), Step::Look),
              long(machine.steps[slow].size()));
  EXPECT_EQ(machine.launches[2], 4u); // three, and one when all the others had been looked at
  EXPECT_EQ(machine.launches[3], 2u);
  EXPECT_EQ(std::count(machine.steps[1].begin(), machine.steps[1].end(), Step::Measure), 1);
}

TEST(Search, TheBestAreComparedInTurns) {
  Machine machine({1.02, 1.00, 1.04, 2.0});
  Search search = machine.search();
  machine.runAll(search);
  EXPECT_EQ(std::count(machine.steps[0].begin(), machine.steps[0].end(), Step::Compare), 4);
  EXPECT_EQ(std::count(machine.steps[1].begin(), machine.steps[1].end(), Step::Compare), 4);
  EXPECT_EQ(std::count(machine.steps[2].begin(), machine.steps[2].end(), Step::Compare), 4);
  EXPECT_EQ(std::count(machine.steps[3].begin(), machine.steps[3].end(), Step::Compare), 0);
  EXPECT_EQ(search.best(), 1u);
}

TEST(Search, TheBestTwoAreAlwaysCompared) {
  Machine machine({1.00, 1.09, 2.0});
  Search search = machine.search();
  machine.runAll(search);
  EXPECT_EQ(machine.steps[0].back(), Step::Compare);
  EXPECT_EQ(machine.steps[1].back(), Step::Compare);
}

TEST(Search, ADriftingClockDoesNotChoose) {
  // The machine gets slower all the time: the second configuration is measured later and looks
  // slower.
  Machine machine({1.02, 1.00});
  machine.drift = [start = machine.seconds](double now) { return 1 + (now - start) * 0.8; };
  Search search = machine.search();
  machine.runAll(search);
  EXPECT_EQ(search.best(), 1u);
}

TEST(Search, ASleepyStartDoesNotChoose) {
  // The first configurations meet a machine at a third less than its clock.
  Machine machine({1.00, 1.30, 1.35, 1.08, 1.4, 1.5});
  machine.drift = [start = machine.seconds](double now) { return now < start + 0.012 ? 1.5 : 1.0; };
  Search search = machine.search();
  machine.runAll(search);
  EXPECT_EQ(search.best(), 0u);
}

/// Numbers from 0 to 1, the same everywhere.
struct Dice {
  std::mt19937 bits;
  explicit Dice(unsigned seed) : bits(seed) {}
  double operator()() { return double(bits()) / 4294967296.0; }
};

/// A machine as a GPU is when other threads compile: the first runs of a configuration take ten
/// times as long, every twentieth run up to three times, at the beginning everything half as long
/// again, and all of them differ by a few percent.
Machine noisy(std::vector<double> costs, Dice &dice, unsigned coldRuns) {
  Machine machine(std::move(costs));
  std::vector<unsigned> cold;
  for (size_t i = 0; i < machine.costs.size(); ++i)
    cold.push_back(unsigned(dice() * (coldRuns + 1)));
  machine.drift = [start = machine.seconds](double now) { return now < start + 0.03 ? 1.5 : 1.0; };
  machine.noise = [cold, runs = std::vector<unsigned>(cold.size()), &dice](size_t config) mutable {
    double factor = 1 + 0.03 * dice() * dice();
    if (dice() < 0.05)
      factor *= 1 + 2 * dice();
    return factor * (runs[config]++ < cold[config] ? 10 : 1);
  };
  return machine;
}

class NoisySearch : public ::testing::TestWithParam<double> {};

TEST_P(NoisySearch, NothingGoodIsRuledOut) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Dice dice(seed);
    std::vector<double> costs;
    for (size_t count = 4 + size_t(dice() * 20); costs.size() < count;)
      costs.push_back(GetParam() * std::pow(seed % 2 ? 2.0 : 50.0, dice()));
    costs[size_t(dice() * double(costs.size()))] = GetParam();
    Machine machine = noisy(costs, dice, /*coldRuns=*/2);
    Search search = machine.search();
    machine.runAll(search);
    EXPECT_LT(costs[*search.best()], 1.02 * GetParam()) << "seed " << seed;
    for (size_t i = 0; i < costs.size(); ++i)
      if (costs[i] < 1.05 * GetParam())
        EXPECT_EQ(llvm::count(machine.steps[i], Step::Measure), 1) << "seed " << seed << ": " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Milliseconds, NoisySearch, ::testing::Values(0.05, 0.5, 5.0, 50.0));

TEST(Search, AWholeGroupOfTheBestIsMeasured) {
  // Twenty that are all but equal: none is left out for want of time, each has a little of it.
  std::vector<double> costs;
  for (int i = 0; i < 20; ++i)
    costs.push_back(1 + 0.002 * i);
  std::swap(costs[0], costs[19]);
  Machine machine(costs);
  Search search = machine.search();
  machine.runAll(search);
  for (size_t i = 0; i < costs.size(); ++i)
    EXPECT_EQ(llvm::count(machine.steps[i], Step::Measure), 1);
  EXPECT_EQ(search.best(), 19u);
  EXPECT_LT(machine.total, 20 * (9 + 4 + 10) + 3 * 4 * 10u);
}

TEST(Search, TheMarginIsTheNoiseSeen) {
  auto marginOf = [](double spread) {
    Machine machine({1.0, 1.1, 1.2, 1.3});
    // The second looks, which come in the opposite order, meet another machine.
    machine.drift = [start = machine.seconds, spread](double now) {
      return now < start + 0.021 ? 1 + spread : 1.0;
    };
    Search search = machine.search();
    machine.runAll(search);
    return search.margin();
  };
  EXPECT_NEAR(marginOf(0), 0.1, 1e-9); // the least
  EXPECT_NEAR(marginOf(0.12), 0.24, 1e-9);
  EXPECT_NEAR(marginOf(2), 0.6, 1e-9); // the most
}

/// The table in docs/tuning.md.
TEST(Search, WhatItCosts) {
  auto launchesAt = [](double milliseconds) {
    // One is best, one within 5 %, one within 10 %, one within 60 %, six to 15 times, ten worse.
    std::vector<double> costs = {1, 1.04, 1.08, 1.5};
    costs.insert(costs.end(), 6, 8.0);
    costs.insert(costs.end(), 10, 30.0);
    for (double &cost : costs)
      cost *= milliseconds;
    Machine machine(costs);
    Search search = machine.search();
    machine.runAll(search);
    EXPECT_EQ(search.best(), 0u);
    return std::array{machine.launches[0], machine.launches[2], machine.launches[3],
                      machine.launches[4], machine.launches[10]};
  };
  EXPECT_EQ(launchesAt(0.1), (std::array{366u, 202u, 51u, 4u, 3u}));
  EXPECT_EQ(launchesAt(1), (std::array{73u, 36u, 7u, 4u, 2u}));
  EXPECT_EQ(launchesAt(100), (std::array{17u, 9u, 6u, 4u, 2u}));
}

TEST(Search, AStuckOneRunsOnce) {
  Machine machine({1.0, 20000.0, 1.1});
  Search search = machine.search();
  machine.runAll(search);
  EXPECT_EQ(machine.launches[1], 1u);
  EXPECT_DOUBLE_EQ(search.timing(1)->median, 20000);
  EXPECT_EQ(search.best(), 0u);
}

TEST(Search, ASleepyDeviceIsWokenUp) {
  Machine machine({1.0, 0.9});
  machine.drift = [start = machine.seconds](double now) {
    return std::max(1.0, 1.5 - 3 * (now - start)); // awake after a sixth of a second
  };
  Search search = machine.search(/*budget=*/100, /*plain=*/false, /*wakes=*/true);
  search.fail(0);
  EXPECT_EQ(search.next().step, Step::Wait);
  search.ready(1);
  Search::Task task = search.next();
  EXPECT_EQ(task.step, Step::Wake);
  machine.run(search);
  EXPECT_EQ(machine.steps[1].front(), Step::Wake);
  EXPECT_DOUBLE_EQ(search.timing(1)->high, 0.9); // no time before that counts
  EXPECT_GT(machine.seconds, 100 + 1.0 / 6);
}

TEST(Search, WakingUpHasAnEnd) {
  Machine machine({1.0, 0.9});
  machine.drift = [start = machine.seconds](double now) { return std::exp(start - now); };
  Search search = machine.search(/*budget=*/100, /*plain=*/false, /*wakes=*/true);
  machine.runAll(search);
  EXPECT_LT(llvm::count(machine.steps[0], Step::Wake), 300);
  EXPECT_GT(llvm::count(machine.steps[0], Step::Look), 0);
  Machine slow({3000.0, 4000.0});
  Search other = slow.search(/*budget=*/100, /*plain=*/false, /*wakes=*/true);
  slow.runAll(other);
  EXPECT_EQ(llvm::count(slow.steps[0], Step::Wake), 2); // one loads it
}

TEST(Search, WaitsForWhatIsNotReady) {
  Machine machine({1.0, 2.0});
  Search search = machine.search();
  EXPECT_EQ(search.next().step, Step::Wait);
  search.ready(1);
  Search::Task task = search.next();
  EXPECT_EQ(task.step, Step::Look);
  EXPECT_EQ(task.config, 1u);
  machine.run(search);
  EXPECT_EQ(search.next().step, Step::Wait);
  search.ready(0);
  machine.run(search);
  EXPECT_EQ(search.best(), 0u);
}

TEST(Search, FailuresCountAsInfinitelySlow) {
  Machine machine({1.0, 2.0, 3.0});
  Search search = machine.search();
  search.ready(1);
  search.fail(0);
  search.fail(2);
  machine.run(search);
  EXPECT_EQ(search.best(), 1u);
  EXPECT_TRUE(std::isinf(search.timing(0)->median));
  search.fail(1); // while it was measured
  EXPECT_FALSE(search.best());
  EXPECT_EQ(search.next().step, Step::Done);
}

TEST(Search, ABudgetEndsIt) {
  Machine machine(std::vector<double>(100, 50.0));
  machine.costs[3] = 40;
  Search search = machine.search(/*budget=*/2);
  machine.runAll(search);
  EXPECT_TRUE(search.cutShort());
  EXPECT_LT(machine.seconds, 102.5);
  EXPECT_EQ(search.best(), 3u);
  EXPECT_FALSE(search.timing(99));
  EXPECT_EQ(search.remaining(), 0);
}

TEST(Search, OneIsMeasuredWhateverTheBudget) {
  Machine machine({1.0, 0.5});
  Search search = machine.search(/*budget=*/0.001);
  machine.seconds += 5; // compiling
  EXPECT_EQ(search.next().step, Step::Wait);
  search.ready(0);
  search.ready(1);
  machine.run(search);
  EXPECT_EQ(search.best(), 0u);
  EXPECT_TRUE(search.cutShort());
}

TEST(Search, ABudgetThatSufficesLeavesNothingOut) {
  Machine machine({1.0, 2.0});
  Search search = machine.search(/*budget=*/10);
  machine.runAll(search);
  EXPECT_FALSE(search.cutShort());
  EXPECT_GT(search.remaining(), 9);
}

TEST(Search, APlainOneMeasuresEachOnce) {
  Machine machine({3.0, 1.0, 1.0});
  Search search = machine.search(std::numeric_limits<double>::infinity(), /*plain=*/true);
  machine.runAll(search);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(machine.steps[i], std::vector{Step::Measure});
  EXPECT_EQ(machine.total, 3u);
  EXPECT_EQ(search.best(), 1u); // the first of equals
}

TEST(Search, SaysWhereItStands) {
  Machine machine({0.5, 1.0});
  Search search = machine.search();
  EXPECT_EQ(search.progress("f"), "tuning f: 0 of 2 measured, 0 s");
  search.fail(1);
  search.ready(0);
  machine.work(search, search.next());
  machine.seconds += 3;
  EXPECT_EQ(search.progress("f"), "tuning f: 1 of 2 measured, 1 failed, best 0.5000 ms, 3 s");
}

TEST(Search, Percentiles) {
  Timing timing = summarise({5, 1, 3, 2, 4, 6});
  EXPECT_DOUBLE_EQ(timing.median, 3.5);
  EXPECT_DOUBLE_EQ(timing.low, 2);
  EXPECT_DOUBLE_EQ(timing.high, 5);
  EXPECT_DOUBLE_EQ(summarise({7}).high, 7);
}

} // namespace
