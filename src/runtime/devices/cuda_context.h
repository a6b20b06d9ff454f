// Devices and contexts of CUDA: the context of a launch is the thread's current one when it is on
// the right device (so torch and Nereid share it), else the device's primary context, which is what
// torch and the CUDA runtime use as well.
#pragma once

#include "runtime/devices/cuda_driver.h"

#include <atomic>
#include <mutex>

namespace nereid::runtime::cuda {

/// What is known of a device for the life of the process.
struct DeviceInfo {
  int arch = 0;      ///< 90
  int maxShared = 0; ///< bytes of shared memory that a block can have
  int multiprocessors = 0;
  int64_t maxGrid[3] = {}; ///< programs along each axis
  std::string name;
  /// By the names that Triton gives them.
  std::vector<std::pair<const char *, int>> further;
};

ErrorPtr deviceInfo(const Driver &driver, int device, const DeviceInfo *&out);

/// The device of the calling thread's context; -1 when it has none.
inline int contextDevice(const Driver &driver) {
  Device device = -1;
  return driver.cuCtxGetDevice(&device) == Success ? device : -1;
}

/// Makes a context of `device` current on this thread while the object lives. A thread without any
/// context keeps it, as after the first call of the CUDA runtime.
class ContextScope {
public:
  explicit ContextScope(const Driver &driver) : driver(driver) {}
  ContextScope(const ContextScope &) = delete;
  ~ContextScope() {
    Context popped;
    if (pushed)
      driver.cuCtxPopCurrent_v2(&popped);
  }
  ErrorPtr enter(int device) {
    int current = contextDevice(driver);
    return current == device ? nullptr : change(device, current);
  }
  /// The context that is current now.
  Context current() const {
    Context context = nullptr;
    driver.cuCtxGetCurrent(&context);
    return context;
  }

private:
  ErrorPtr change(int device, int current);
  const Driver &driver;
  bool pushed = false;
};

/// A failed call of the driver, in words. `doing`: "open device 0", "load `kernel`"...; when an
/// earlier kernel is what failed, the error says so and names the last ones.
ErrorPtr callError(const Driver &driver, Result result, std::string_view doing);

/// `name`, where it lives for ever.
const std::string *internedName(std::string_view name);

} // namespace nereid::runtime::cuda
