// The order in which configurations are measured, and the choice.
#include "runtime/tuner/search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

using namespace nereid::runtime;

namespace {

/// A machine whose configurations take known times, and whose clock runs with its work.
struct Machine {
  explicit Machine(std::vector<double> milliseconds) : costs(std::move(milliseconds)) {}

  Search search(double budget = std::numeric_limits<double>::infinity(), bool plain = false) {
    return Search({costs.size(), budget, plain, [this] { return seconds; }});
  }

  void work(Search &search, const Search::Task &task) {
    std::vector<double> times;
    double cost = costs[task.config] * drift(seconds);
    auto runs = unsigned(std::clamp<double>(task.milliseconds / cost, task.minRuns, task.maxRuns));
    if (cost > task.giveUp)
      runs = 1;
    for (unsigned run = 0; run < runs; ++run) {
      cost = costs[task.config] * drift(seconds);
      times.push_back(cost);
      seconds += cost / 1000;
    }
    search.report(task.config, times.data(), times.size());
    steps[task.config].push_back(task.step);
    total += runs;
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
  EXPECT_EQ(machine.steps[2], std::vector{Step::Look});
  EXPECT_EQ(machine.steps[3], std::vector{Step::Look});
  EXPECT_EQ(machine.steps[1], (std::vector{Step::Look, Step::Look, Step::Measure}));
  EXPECT_EQ(machine.steps[0].front(), Step::Look);
  EXPECT_LT(machine.seconds, 100 + 0.2); // the slow one ran once
}

TEST(Search, TheBestAreComparedInTurns) {
  Machine machine({1.02, 1.00, 1.04, 2.0});
  Search search = machine.search();
  machine.runAll(search);
  EXPECT_EQ(std::count(machine.steps[0].begin(), machine.steps[0].end(), Step::Compare), 4);
  EXPECT_EQ(std::count(machine.steps[1].begin(), machine.steps[1].end(), Step::Compare), 4);
  EXPECT_EQ(std::count(machine.steps[2].begin(), machine.steps[2].end(), Step::Compare), 4);
  EXPECT_EQ(machine.steps[3].size(), 1u);
  EXPECT_EQ(search.best(), 1u);
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

TEST(Search, WaitsForWhatIsNotReady) {
  Machine machine({1.0, 2.0});
  Search search = machine.search();
  EXPECT_EQ(search.next().step, Step::Wait);
  search.ready(1);
  Search::Task task = search.next();
  EXPECT_EQ(task.step, Step::Look);
  EXPECT_EQ(task.config, 1u);
  machine.work(search, task);
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
