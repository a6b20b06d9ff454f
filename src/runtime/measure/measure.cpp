#include "runtime/measure/measure.h"

#include <algorithm>
#include <chrono>

using namespace nereid::runtime;

namespace {

/// The first runs load code and start threads.
constexpr size_t warmupsAtLeast = 3;
/// Runs that are waited for together: a GPU must not wait for the next launch.
constexpr double together = 1;
constexpr size_t mostTogether = 16, mostInRow = 100;
/// Emptying caches takes longer than most kernels: that time counts, too, though less.
constexpr double patience = 5;

double steadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace

ErrorPtr nereid::runtime::measure(Meter &meter, llvm::function_ref<ErrorPtr()> run,
                                  const nrd_measure_plan &plan, size_t capacity,
                                  std::vector<double> &times, std::function<double()> seconds) {
  if (!seconds)
    seconds = steadySeconds;
  std::vector<double> part;
  // `count` times, each the mean of `inRow` runs, into `part`.
  auto timed = [&](size_t count, size_t inRow) -> ErrorPtr {
    ErrorPtr error;
    for (size_t i = 0; i < count && !error; ++i) {
      error = meter.begin();
      for (size_t j = 0; j < inRow && !error; ++j)
        error = run();
      if (ErrorPtr stop = meter.end(); !error)
        error = std::move(stop);
    }
    ErrorPtr drained = meter.collect(part);
    if (!error)
      error = std::move(drained);
    for (double &time : part)
      time /= double(inRow);
    return error;
  };
  auto runsFor = [](double milliseconds, double each, size_t most) {
    return each > 0 ? size_t(std::clamp(milliseconds / each, 1.0, double(most))) : most;
  };

  meter.setCold(false);
  double each = 0, warm = 0;
  for (size_t done = 0, count = 1; done < warmupsAtLeast || warm < plan.warmup; done += count) {
    count = each > 0 ? runsFor(plan.warmup - warm, each, mostTogether) : 1;
    if (ErrorPtr error = timed(1, count))
      return error;
    each = part.front();
    warm += std::max(each, 1e-5) * double(count); // an end, whatever the clock says
  }

  meter.setCold(plan.cold);
  size_t inRow = plan.cold ? 1 : runsFor(meter.resolution(), each, mostInRow);
  size_t least = std::max<uint32_t>(plan.min_runs, 1);
  size_t most = plan.max_runs ? std::min<size_t>(plan.max_runs, capacity) : capacity;
  double measured = 0, start = seconds();
  while (times.size() < most &&
         (times.size() < least ||
          (measured < plan.duration && (seconds() - start) * 1000 < patience * plan.duration))) {
    size_t count = runsFor(together, each * double(inRow), mostTogether);
    if (ErrorPtr error = timed(std::min(count, most - times.size()), inRow))
      return error;
    for (double time : part) {
      times.push_back(time);
      measured += time * double(inRow);
    }
  }
  return nullptr;
}
