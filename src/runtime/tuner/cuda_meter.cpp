#include "runtime/devices/cuda_context.h"
#include "runtime/tuner/measure.h"
#include "support/settings.h"

#include <algorithm>
#include <dlfcn.h>
#include <utility>

using namespace nereid;
using namespace nereid::runtime;
using namespace nereid::runtime::cuda;

namespace {

using Event = struct EventObject *;

/// What only measuring needs of the driver.
#define NEREID_CUDA_EVENT_FUNCTIONS(X)                                                             \
  X(cuEventCreate, (Event *, unsigned))                                                            \
  X(cuEventDestroy_v2, (Event))                                                                    \
  X(cuEventRecord, (Event, Stream))                                                                \
  X(cuEventElapsedTime, (float *, Event, Event))                                                   \
  X(cuStreamSynchronize, (Stream))                                                                 \
  X(cuMemsetD8Async, (DevicePointer, unsigned char, size_t, Stream))                               \
  X(cuMemcpyDtoDAsync_v2, (DevicePointer, DevicePointer, size_t, Stream))

struct EventFunctions {
#define NEREID_DECLARE(Name, Params) Result(*Name) Params = nullptr;
  NEREID_CUDA_EVENT_FUNCTIONS(NEREID_DECLARE)
#undef NEREID_DECLARE

  /// From the driver's library, which is open already.
  static ErrorPtr get(EventFunctions &out) {
    void *library = dlopen(Settings::current().cudaLibrary().c_str(), RTLD_NOW | RTLD_LOCAL);
#define NEREID_RESOLVE(Name, Params)                                                               \
  out.Name = library ? reinterpret_cast<Result(*) Params>(dlsym(library, #Name)) : nullptr;        \
  if (!out.Name)                                                                                   \
    return makeError(NRD_ERROR_RUNTIME, "", diag::CudaDriverTooOld, #Name);
    NEREID_CUDA_EVENT_FUNCTIONS(NEREID_RESOLVE)
#undef NEREID_RESOLVE
    return nullptr;
  }
};

DevicePointer address(const void *pointer) {
  return reinterpret_cast<DevicePointer>(pointer);
}

class CudaMeter final : public Meter {
public:
  CudaMeter(const Driver &driver, const EventFunctions &events, int device, void *stream)
      : driver(driver), events(events), device(device), stream(static_cast<Stream>(stream)) {}

  ~CudaMeter() override {
    ContextScope context(driver);
    if (context.enter(device))
      return;
    for (Event event : pool)
      events.cuEventDestroy_v2(event);
    if (flushed)
      driver.cuMemFreeAsync(flushed, stream);
  }

  ErrorPtr prepare() {
    return within([&] {
      int l2 = 0;
      driver.cuDeviceGetAttribute(&l2, L2CacheSize, device);
      flushBytes = std::max<size_t>(size_t(l2) * 2, size_t(256) << 20);
      return driver.cuMemAllocAsync(&flushed, flushBytes, stream);
    });
  }

  ErrorPtr begin() override {
    return within([&] {
      while (pool.size() < used + 2) {
        Event event = nullptr;
        if (Result result = events.cuEventCreate(&event, 0); result != Success)
          return result;
        pool.push_back(event);
      }
      Result result = events.cuMemsetD8Async(flushed, 0, flushBytes, stream);
      return result == Success ? events.cuEventRecord(pool[used], stream) : result;
    });
  }

  ErrorPtr end() override {
    return within([&] {
      Result result = events.cuEventRecord(pool[used + 1], stream);
      used += 2;
      return result;
    });
  }

  ErrorPtr collect(std::vector<double> &times) override {
    size_t count = std::exchange(used, 0);
    times.clear();
    return within([&] {
      Result result = events.cuStreamSynchronize(stream);
      for (size_t i = 0; result == Success && i < count; i += 2) {
        float milliseconds = 0;
        result = events.cuEventElapsedTime(&milliseconds, pool[i], pool[i + 1]);
        times.push_back(milliseconds);
      }
      return result;
    });
  }

  ErrorPtr zero(void *array, size_t bytes) override {
    return within([&] { return events.cuMemsetD8Async(address(array), 0, bytes, stream); });
  }
  ErrorPtr save(const void *array, size_t bytes, std::unique_ptr<Saved> &out) override {
    auto saved = std::make_unique<Copy>(*this);
    ErrorPtr error = within([&] {
      Result result = driver.cuMemAllocAsync(&saved->memory, bytes, stream);
      return result == Success
                 ? events.cuMemcpyDtoDAsync_v2(saved->memory, address(array), bytes, stream)
                 : result;
    });
    out = std::move(saved);
    return error;
  }
  ErrorPtr restore(void *array, size_t bytes, const Saved &saved) override {
    return within([&] {
      return events.cuMemcpyDtoDAsync_v2(address(array), static_cast<const Copy &>(saved).memory,
                                         bytes, stream);
    });
  }

private:
  struct Copy final : Saved {
    explicit Copy(CudaMeter &meter) : meter(meter) {}
    ~Copy() override {
      if (memory)
        meter.driver.cuMemFreeAsync(memory, meter.stream);
    }
    CudaMeter &meter;
    DevicePointer memory = 0;
  };

  template <typename Work> ErrorPtr within(Work work) {
    ContextScope context(driver);
    if (ErrorPtr error = context.enter(device))
      return error;
    Result result = work();
    return result == Success ? nullptr : callError(driver, result, "measure a kernel");
  }

  const Driver &driver;
  EventFunctions events;
  int device;
  Stream stream;
  std::vector<Event> pool;
  size_t used = 0;
  DevicePointer flushed = 0;
  size_t flushBytes = 0;
};

} // namespace

ErrorPtr runtime::cudaMeter(int device, void *stream, std::unique_ptr<Meter> &out) {
  const Driver *driver;
  if (ErrorPtr error = Driver::get(driver))
    return error;
  EventFunctions events;
  if (ErrorPtr error = EventFunctions::get(events))
    return error;
  auto meter = std::make_unique<CudaMeter>(*driver, events, device, stream);
  if (ErrorPtr error = meter->prepare())
    return error;
  out = std::move(meter);
  return nullptr;
}
