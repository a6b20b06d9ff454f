// NVIDIA's driver for the small run time: opened when the first GPU is asked for, with the devices'
// contexts.
#pragma once

#include "embedded/cuda_interface.h"
#include "nereid/device.h"

namespace nereid::embedded {

using namespace cuda_driver;

struct Gpu {
  int arch = 0;
  int cores = 0;
  int maxShared = 0; ///< bytes of shared memory that a block can have
  int maxGrid[3] = {};
  char name[96] = {};
  /// The primary context: kept for the life of the process, shared with the CUDA runtime's users.
  Context context = nullptr;
};

struct CudaApi {
#define NEREID_DECLARE(Name, Params) Result(*Name) Params = nullptr;
  NEREID_CUDA_FUNCTIONS(NEREID_DECLARE)
  NEREID_CUDA_MEMORY_FUNCTIONS(NEREID_DECLARE)
#undef NEREID_DECLARE
  int deviceCount = 0;

  /// Null, with the reason kept, when no GPU can be used.
  static const CudaApi *get(nrd_status &status);
  /// Null when no GPU can be used.
  static const CudaApi *tryGet();

  /// The device of this number with its context; null, with the reason kept.
  const Gpu *gpu(int device, nrd_status &status) const;
  /// Success, or what was being done and what the driver says to it.
  nrd_status check(Result result, const char *doing, const char *what = "") const;
};

/// Makes the context of a device current on this thread while the object lives. A thread without
/// any context keeps it, as after the first call of the CUDA runtime.
class GpuScope {
public:
  explicit GpuScope(const CudaApi &driver) : driver(driver) {}
  GpuScope(const GpuScope &) = delete;
  ~GpuScope() {
    Context popped;
    if (pushed)
      driver.cuCtxPopCurrent_v2(&popped);
  }
  nrd_status enter(int device, const Gpu &gpu) {
    Device current = -1;
    bool has = driver.cuCtxGetDevice(&current) == Success;
    if (has && current == device) [[likely]]
      return NRD_OK;
    pushed = has;
    return driver.check(has ? driver.cuCtxPushCurrent_v2(gpu.context)
                            : driver.cuCtxSetCurrent(gpu.context),
                        "enter the context of the GPU");
  }

private:
  const CudaApi &driver;
  bool pushed = false;
};

} // namespace nereid::embedded
