// Times of the stages of a compilation.
#pragma once
#include "targets/target.h"

#include <chrono>

namespace nereid::targets {

/// Measures the stages of a compilation, from one call to the next.
class StageClock {
public:
  explicit StageClock(std::vector<StageTime> &times) : times(times) {}
  void done(const char *name) {
    auto now = std::chrono::steady_clock::now();
    times.push_back({name, std::chrono::duration<double, std::milli>(now - last).count()});
    last = now;
  }

private:
  std::vector<StageTime> &times;
  std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
};

} // namespace nereid::targets
