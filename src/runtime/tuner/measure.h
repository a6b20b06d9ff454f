// Time on a device, and what a tuner does to arrays between the runs that it times.
//
// On the CPU a launch is done when it returns, and the clock tells. On a GPU it is the time between
// two events of the stream, after a write to a buffer larger than the L2 cache, so that each run
// finds it cold; the times are there when the stream has got to them.
#pragma once

#include "nereid/nereid.h"
#include "runtime/error.h"
#include "runtime/target_name.h"

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

  /// Around one launch. `end` also after a launch that failed.
  virtual ErrorPtr begin() = 0;
  virtual ErrorPtr end() = 0;
  /// Waits, and gives the milliseconds of all runs since the last call.
  virtual ErrorPtr collect(std::vector<double> &times) = 0;

  virtual ErrorPtr zero(void *array, size_t bytes) = 0;
  virtual ErrorPtr save(const void *array, size_t bytes, std::unique_ptr<Saved> &out) = 0;
  virtual ErrorPtr restore(void *array, size_t bytes, const Saved &saved) = 0;
};

std::unique_ptr<Meter> cpuMeter();
/// On the stream of a GPU (a CUstream).
ErrorPtr cudaMeter(int device, void *stream, std::unique_ptr<Meter> &out);

} // namespace nereid::runtime
