#include "embedded/driver.h"

#include "embedded/status.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <new>

using namespace nereid;
using namespace nereid::embedded;

namespace {

/// What opening the driver gave, for the life of the process.
struct Opened {
  CudaApi driver;
  char problem[512] = "";

  Opened() {
    // The name that tests and unusual systems give; the same variable as the library's setting.
    const char *given = std::getenv("NEREID_LIBCUDA");
    void *library = dlopen(given && *given ? given : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char *why = dlerror();
      std::snprintf(problem, sizeof problem, "there is no CUDA driver: %s", why ? why : "unknown");
      return;
    }
#define NEREID_RESOLVE(Name, Params)                                                               \
  driver.Name = reinterpret_cast<Result(*) Params>(dlsym(library, #Name));                         \
  if (!driver.Name) {                                                                              \
    std::snprintf(problem, sizeof problem,                                                         \
                  "the CUDA driver is too old: it has no `%s`, CUDA 12.0 is needed", #Name);       \
    return;                                                                                        \
  }
    NEREID_CUDA_FUNCTIONS(NEREID_RESOLVE)
    NEREID_CUDA_MEMORY_FUNCTIONS(NEREID_RESOLVE)
#undef NEREID_RESOLVE
    Result result = driver.cuInit(0);
    if (result == Success)
      result = driver.cuDeviceGetCount(&driver.deviceCount);
    if (result != Success) {
      const char *name = nullptr;
      driver.cuGetErrorName(result, &name);
      std::snprintf(problem, sizeof problem, "no GPU can be used: %s", name ? name : "unknown");
    } else if (!driver.deviceCount) {
      std::snprintf(problem, sizeof problem, "no GPU can be used: the driver reports 0 devices");
    }
  }
};

const Opened &opened() {
  static const Opened *once = new Opened();
  return *once;
}

struct GpuSlot {
  std::once_flag once;
  Gpu gpu;
  Result result = Success;
};

} // namespace

const CudaApi *CudaApi::get(nrd_status &status) {
  const Opened &once = opened();
  status = NRD_OK;
  if (!*once.problem) [[likely]]
    return &once.driver;
  status = fail(NRD_STATUS_NO_DEVICE, "%s", once.problem);
  return nullptr;
}

const CudaApi *CudaApi::tryGet() {
  return *opened().problem ? nullptr : &opened().driver;
}

const Gpu *CudaApi::gpu(int device, nrd_status &status) const {
  if (device < 0 || device >= deviceCount) {
    status = fail(NRD_STATUS_NO_DEVICE, "there is no GPU number %d: this machine has %d", device,
                  deviceCount);
    return nullptr;
  }
  static auto *slots = new GpuSlot[size_t(deviceCount)];
  GpuSlot &slot = slots[device];
  std::call_once(slot.once, [&] {
    auto attribute = [&](int number) {
      int value = 0;
      cuDeviceGetAttribute(&value, number, device);
      return value;
    };
    Gpu &gpu = slot.gpu;
    gpu.arch = attribute(ComputeCapabilityMajor) * 10 + attribute(ComputeCapabilityMinor);
    gpu.cores = attribute(MultiprocessorCount);
    gpu.maxShared = attribute(MaxSharedPerBlockOptin);
    for (int axis = 0; axis < 3; ++axis)
      gpu.maxGrid[axis] = attribute(MaxGridX + axis);
    cuDeviceGetName(gpu.name, sizeof gpu.name, device);
    slot.result = cuDevicePrimaryCtxRetain(&gpu.context, device);
  });
  status = check(slot.result, "open the GPU");
  return status == NRD_OK ? &slot.gpu : nullptr;
}

nrd_status CudaApi::check(Result result, const char *doing, const char *what) const {
  if (result == Success) [[likely]]
    return NRD_OK;
  const char *name = nullptr, *text = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  if (!name)
    name = "unknown error";
  if (isSticky(result))
    return fail(NRD_STATUS_FAILED, "a kernel failed on the GPU before this call: %s: %s", name,
                text ? text : "");
  return fail(result == ErrorOutOfMemory ? NRD_STATUS_RESOURCES : NRD_STATUS_FAILED,
              "cannot %s%s: %s: %s", doing, what, name, text ? text : "");
}
