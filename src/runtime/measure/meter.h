// Time on a device, and what a tuner does to arrays between the runs that it times: one code for
// the tuner and for nrd_kernel_measure.
//
// On the CPU a launch is done when it returns, and the clock tells. On a GPU it is the time between
// two events of the stream; the times are there when the stream has got to them. Runs with cold
// caches come after a write to memory larger than they are.
#pragma once

#include "nereid/nereid.h"
#include "runtime/error.h"

#include "llvm/ADT/ArrayRef.h"

#include <memory>
#include <vector>

namespace nereid::runtime {

/// Memory of a device that goes with the object.
class Saved {
public:
  virtual ~Saved() = default;
};

class Meter {
public:
  virtual ~Meter() = default;

  /// Around what is timed; before it the caches are emptied if the meter is a cold one. `end` also
  /// after a launch that failed.
  virtual ErrorPtr begin() = 0;
  virtual ErrorPtr end() = 0;
  /// Waits, and gives the milliseconds of all runs since the last call.
  virtual ErrorPtr collect(std::vector<double> &times) = 0;
  /// Milliseconds below which a run must be one of several that are timed together: launching takes
  /// longer than it does, or the clock does not tell.
  virtual double resolution() const = 0;

  virtual ErrorPtr zero(void *array, size_t bytes) = 0;
  virtual ErrorPtr save(const void *array, size_t bytes, std::unique_ptr<Saved> &out) = 0;
  virtual ErrorPtr restore(void *array, size_t bytes, const Saved &saved) = 0;

  /// Whether caches are emptied from now on.
  void setCold(bool is) { cold = is; }

protected:
  bool cold = false;
};

std::unique_ptr<Meter> cpuMeter();
/// On the stream of a GPU (a CUstream).
ErrorPtr cudaMeter(int device, void *stream, std::unique_ptr<Meter> &out);

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

} // namespace cuda
} // namespace nereid::runtime
