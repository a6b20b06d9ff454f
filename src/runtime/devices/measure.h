// Timing launches: what the devices do for nrd_kernel_measure.
#pragma once

#include "nereid/measure.h"
#include "runtime/error.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace nereid::runtime {

/// When a measurement has gone on for long enough. Emptying caches takes longer than most kernels:
/// that time counts, too, though less.
class Progress {
public:
  Progress(const nrd_measure_plan &plan, size_t capacity)
      : least(std::max<uint32_t>(plan.min_runs, 1)),
        most(plan.max_runs ? std::min<size_t>(plan.max_runs, capacity) : capacity),
        duration(plan.duration) {}
  bool wantsMore() const {
    using Milliseconds = std::chrono::duration<double, std::milli>;
    double passed = Milliseconds(std::chrono::steady_clock::now() - start).count();
    return runs < most && (runs < least || (measured < duration && passed < 5 * duration));
  }
  void add(double ms) {
    ++runs;
    measured += ms;
  }

private:
  size_t least, most, runs = 0;
  double duration, measured = 0;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

/// Memory of the CPU that is read and written to push everything else out of its caches.
class CacheSweeper {
public:
  void sweep();

private:
  std::vector<char> memory;
};

namespace cuda {

/// Copies of host memory on a GPU, for the time of a measurement.
class HostCopies {
public:
  HostCopies() = default;
  HostCopies(const HostCopies &) = delete;
  ~HostCopies();
  /// Replaces the pointers of `args` that point into host memory with a known extent.
  ErrorPtr make(llvm::MutableArrayRef<nrd_arg> args, int device);

private:
  std::vector<unsigned long long> blocks;
  int device = 0;
};

using Launch = llvm::function_ref<ErrorPtr(const nrd_launch &launch)>;
/// Milliseconds of each run on the stream of `launch`, whose device is set.
ErrorPtr measure(Launch run, nrd_launch launch, const nrd_measure_plan &plan, size_t capacity,
                 std::vector<double> &times);

} // namespace cuda
} // namespace nereid::runtime
