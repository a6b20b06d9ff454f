// Devices, streams and memory: nereid/device.h.
#include "nereid/device.h"

#include "embedded/cpu_features.h"
#include "embedded/driver.h"
#include "embedded/guard.h"
#include "embedded/status.h"
#include "targets/cpu/executor/Executor.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

using namespace nereid;
using namespace nereid::embedded;

namespace {

/// A call of the driver with the context of a device.
template <typename Call> nrd_status onGpu(int32_t device, const char *doing, Call call) {
  nrd_status status;
  const CudaApi *driver = CudaApi::get(status);
  const Gpu *gpu = driver ? driver->gpu(device, status) : nullptr;
  if (!gpu)
    return status;
  GpuScope context(*driver);
  status = context.enter(device, *gpu);
  return status == NRD_OK ? driver->check(call(*driver), doing) : status;
}

DevicePointer address(const void *place) {
  return DevicePointer(reinterpret_cast<uintptr_t>(place));
}

Stream native(nrd_stream stream) {
  return static_cast<Stream>(stream.handle);
}

/// A pointer that must not be null is.
nrd_status nullArgument(const char *function, const char *argument) {
  return fail(NRD_STATUS_ARGUMENT, "`%s` needs its argument `%s`, which is null", function,
              argument);
}

/// The processor by the name that Linux has for it.
void cpuName(char *name, size_t size) {
  std::snprintf(name, size, "CPU");
  std::FILE *file = std::fopen("/proc/cpuinfo", "re");
  if (!file)
    return;
  char line[256];
  while (std::fgets(line, sizeof line, file))
    if (std::strncmp(line, "model name", 10) == 0) {
      if (const char *colon = std::strchr(line, ':')) {
        std::snprintf(name, size, "%s", colon + 2);
        name[std::strcspn(name, "\n")] = 0;
      }
      break;
    }
  std::fclose(file);
}

} // namespace

int32_t nrd_gpu_count(void) try {
  const CudaApi *driver = CudaApi::tryGet();
  return driver ? driver->deviceCount : 0;
}
NRD_CATCH_GIVE(0)

nrd_status nrd_device_get_info(int32_t device, nrd_device_info *out) try {
  if (!out)
    return nullArgument(__func__, "out");
  nrd_device_info info{};
  info.size = sizeof info;
  if (out->size < sizeof info)
    return fail(NRD_STATUS_ARGUMENT, "`size` of the device's information is %zu, expected %zu",
                out->size, sizeof info);
  if (device == NRD_DEVICE_CPU) {
    cpuName(info.name, sizeof info.name);
    info.cores = cpu::visibleCores();
    info.memory = int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
    info.features = cpuFeatures();
  } else {
    nrd_status status;
    const CudaApi *driver = CudaApi::get(status);
    const Gpu *gpu = driver ? driver->gpu(device, status) : nullptr;
    if (!gpu)
      return status;
    std::memcpy(info.name, gpu->name, sizeof info.name);
    info.arch = gpu->arch;
    info.cores = gpu->cores;
    size_t bytes = 0;
    driver->cuDeviceTotalMem_v2(&bytes, device);
    info.memory = int64_t(bytes);
  }
  *out = info;
  return NRD_OK;
}
NRD_CATCH_STATUS

int32_t nrd_device_of(const void *place) try {
  const CudaApi *driver = place ? CudaApi::tryGet() : nullptr;
  unsigned type = 0;
  int device = -1;
  if (!driver ||
      driver->cuPointerGetAttribute(&type, PointerMemoryType, address(place)) != Success ||
      type != MemoryDevice ||
      driver->cuPointerGetAttribute(&device, PointerDeviceOrdinal, address(place)) != Success)
    return NRD_DEVICE_CPU;
  return device;
}
NRD_CATCH_GIVE(NRD_DEVICE_CPU)

nrd_status nrd_memory_allocate(int32_t device, size_t bytes, void **out) try {
  if (!out)
    return nullArgument(__func__, "out");
  *out = nullptr;
  if (!bytes)
    return NRD_OK;
  if (device == NRD_DEVICE_CPU) {
    constexpr size_t alignment = 64;
    if (bytes <= SIZE_MAX - alignment)
      *out = std::aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
    return *out ? NRD_OK : fail(NRD_STATUS_RESOURCES, "no %zu bytes of memory are left", bytes);
  }
  return onGpu(device, "reserve memory on the GPU", [&](const CudaApi &driver) {
    DevicePointer memory = 0;
    Result result = driver.cuMemAlloc_v2(&memory, bytes);
    *out = reinterpret_cast<void *>(uintptr_t(memory));
    return result;
  });
}
NRD_CATCH_STATUS

nrd_status nrd_memory_free(int32_t device, void *memory) try {
  if (device == NRD_DEVICE_CPU) {
    std::free(memory);
    return NRD_OK;
  }
  if (!memory)
    return NRD_OK;
  return onGpu(device, "give memory of the GPU back",
               [&](const CudaApi &driver) { return driver.cuMemFree_v2(address(memory)); });
}
NRD_CATCH_STATUS

nrd_status nrd_memory_copy(nrd_stream stream, void *to, const void *from, size_t bytes) try {
  if (!bytes)
    return NRD_OK;
  if (!to || !from)
    return nullArgument(__func__, to ? "from" : "to");
  if (stream.device == NRD_DEVICE_CPU) {
    std::memmove(to, from, bytes);
    return NRD_OK;
  }
  return onGpu(stream.device, "copy memory", [&](const CudaApi &driver) {
    return driver.cuMemcpyAsync(address(to), address(from), bytes, native(stream));
  });
}
NRD_CATCH_STATUS

nrd_status nrd_memory_fill(nrd_stream stream, void *to, uint8_t value, size_t bytes) try {
  if (!bytes)
    return NRD_OK;
  if (!to)
    return nullArgument(__func__, "to");
  if (stream.device == NRD_DEVICE_CPU) {
    std::memset(to, value, bytes);
    return NRD_OK;
  }
  return onGpu(stream.device, "fill memory", [&](const CudaApi &driver) {
    return driver.cuMemsetD8Async(address(to), value, bytes, native(stream));
  });
}
NRD_CATCH_STATUS

nrd_status nrd_stream_create(int32_t device, nrd_stream *out) try {
  if (!out)
    return nullArgument(__func__, "out");
  *out = {device, 0, nullptr};
  if (device == NRD_DEVICE_CPU)
    return NRD_OK;
  constexpr unsigned nonBlocking = 1;
  return onGpu(device, "make a stream", [&](const CudaApi &driver) {
    Stream stream = nullptr;
    Result result = driver.cuStreamCreate(&stream, nonBlocking);
    out->handle = stream;
    return result;
  });
}
NRD_CATCH_STATUS

nrd_status nrd_stream_destroy(nrd_stream stream) try {
  if (stream.device == NRD_DEVICE_CPU || !stream.handle)
    return NRD_OK;
  return onGpu(stream.device, "give a stream back",
               [&](const CudaApi &driver) { return driver.cuStreamDestroy_v2(native(stream)); });
}
NRD_CATCH_STATUS

nrd_status nrd_stream_synchronize(nrd_stream stream) try {
  if (stream.device == NRD_DEVICE_CPU)
    return NRD_OK;
  return onGpu(stream.device, "wait for the stream",
               [&](const CudaApi &driver) { return driver.cuStreamSynchronize(native(stream)); });
}
NRD_CATCH_STATUS
