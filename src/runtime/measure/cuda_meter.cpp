#include "runtime/devices/cuda_context.h"
#include "runtime/measure/meter.h"
#include "support/settings.h"

#include <algorithm>
#include <dlfcn.h>
#include <utility>

using namespace nereid;
using namespace nereid::runtime;
using namespace nereid::runtime::cuda;

namespace {

/// What only measuring needs of the driver.
struct Calls {
#define NEREID_DECLARE(Name, Params) Result(*Name) Params = nullptr;
  NEREID_CUDA_MEMORY_FUNCTIONS(NEREID_DECLARE)
  NEREID_CUDA_EVENT_FUNCTIONS(NEREID_DECLARE)
#undef NEREID_DECLARE

  /// From the driver's library, which is open already.
  static ErrorPtr get(const Calls *&out) {
    static const Calls once;
    if (once.missing)
      return makeError(NRD_ERROR_RUNTIME, "", diag::CudaDriverTooOld, once.missing);
    out = &once;
    return nullptr;
  }

private:
  Calls() {
    void *library = dlopen(Settings::current().cudaLibrary().c_str(), RTLD_NOW | RTLD_LOCAL);
#define NEREID_RESOLVE(Name, Params)                                                               \
  Name = library ? reinterpret_cast<Result(*) Params>(dlsym(library, #Name)) : nullptr;            \
  if (!Name)                                                                                       \
    missing = #Name;
    NEREID_CUDA_MEMORY_FUNCTIONS(NEREID_RESOLVE)
    NEREID_CUDA_EVENT_FUNCTIONS(NEREID_RESOLVE)
#undef NEREID_RESOLVE
  }
  const char *missing = nullptr;
};

DevicePointer address(const void *pointer) {
  return reinterpret_cast<DevicePointer>(pointer);
}

class CudaMeter final : public Meter {
public:
  CudaMeter(const Driver &driver, const Calls &calls, int device, void *stream)
      : driver(driver), calls(calls), device(device), stream(static_cast<Stream>(stream)) {}

  ~CudaMeter() override {
    ContextScope context(driver);
    if (context.enter(device))
      return;
    for (Event event : pool)
      calls.cuEventDestroy_v2(event);
    if (flushed)
      driver.cuMemFreeAsync(flushed, stream);
  }

  ErrorPtr begin() override {
    return within([&] {
      while (pool.size() < used + 2) {
        Event event = nullptr;
        if (Result result = calls.cuEventCreate(&event, 0); result != Success)
          return result;
        pool.push_back(event);
      }
      Result result = cold ? flush() : Success;
      return result == Success ? calls.cuEventRecord(pool[used], stream) : result;
    });
  }

  ErrorPtr end() override {
    return within([&] {
      Result result = calls.cuEventRecord(pool[used + 1], stream);
      used += 2;
      return result;
    });
  }

  ErrorPtr collect(std::vector<double> &times) override {
    size_t count = std::exchange(used, 0);
    times.clear();
    return within([&] {
      Result result = calls.cuStreamSynchronize(stream);
      for (size_t i = 0; result == Success && i < count; i += 2) {
        float milliseconds = 0;
        result = calls.cuEventElapsedTime(&milliseconds, pool[i], pool[i + 1]);
        times.push_back(milliseconds);
      }
      return result;
    });
  }

  // A few launches take that long, and events tell half microseconds apart.
  double resolution() const override { return 0.2; }

  ErrorPtr zero(void *array, size_t bytes) override {
    return within([&] { return calls.cuMemsetD8Async(address(array), 0, bytes, stream); });
  }
  ErrorPtr save(const void *array, size_t bytes, std::unique_ptr<Saved> &out) override {
    auto saved = std::make_unique<Copy>(*this);
    ErrorPtr error = within([&] {
      Result result = driver.cuMemAllocAsync(&saved->memory, bytes, stream);
      return result == Success ? calls.cuMemcpyAsync(saved->memory, address(array), bytes, stream)
                               : result;
    });
    out = std::move(saved);
    return error;
  }
  ErrorPtr restore(void *array, size_t bytes, const Saved &saved) override {
    return within([&] {
      return calls.cuMemcpyAsync(address(array), static_cast<const Copy &>(saved).memory, bytes,
                                 stream);
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

  /// Replaces the contents of the second-level cache.
  Result flush() {
    if (!flushed) {
      int l2 = 0;
      driver.cuDeviceGetAttribute(&l2, L2CacheSize, device);
      flushBytes = std::max<size_t>(size_t(l2) * 2, size_t(256) << 20);
      if (Result result = driver.cuMemAllocAsync(&flushed, flushBytes, stream); result != Success)
        return result;
    }
    return calls.cuMemsetD8Async(flushed, 0, flushBytes, stream);
  }

  template <typename Work> ErrorPtr within(Work work) {
    ContextScope context(driver);
    if (ErrorPtr error = context.enter(device))
      return error;
    Result result = work();
    return result == Success ? nullptr : callError(driver, result, "measure a kernel");
  }

  const Driver &driver;
  const Calls &calls;
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
  const Calls *calls;
  if (ErrorPtr error = Calls::get(calls))
    return error;
  out = std::make_unique<CudaMeter>(*driver, *calls, device, stream);
  return nullptr;
}

HostCopies::~HostCopies() {
  const Driver *driver = Driver::tryGet();
  const Calls *calls = nullptr;
  if (blocks.empty() || !driver || Calls::get(calls))
    return;
  ContextScope scope(*driver);
  if (scope.enter(device))
    return;
  for (DevicePointer block : blocks)
    calls->cuMemFree_v2(block);
}

ErrorPtr HostCopies::make(llvm::MutableArrayRef<nrd_arg> args, int where) {
  device = where;
  const Driver *driver = nullptr;
  if (ErrorPtr error = Driver::get(driver))
    return error;
  const Calls *calls = nullptr;
  if (ErrorPtr error = Calls::get(calls))
    return error;
  ContextScope scope(*driver);
  if (ErrorPtr error = scope.enter(device))
    return error;
  for (nrd_arg &arg : args) {
    if (arg.kind != NRD_ARG_POINTER || arg.memory != NRD_MEMORY_HOST || !arg.low)
      continue;
    auto bytes = size_t(static_cast<const char *>(arg.high) - static_cast<const char *>(arg.low));
    DevicePointer block = 0;
    if (Result result = calls->cuMemAlloc_v2(&block, std::max<size_t>(bytes, 1)))
      return callError(*driver, result, "allocate memory");
    blocks.push_back(block);
    Result result = bytes ? calls->cuMemcpyAsync(block, address(arg.low), bytes, nullptr) : Success;
    if (result == Success)
      result = calls->cuStreamSynchronize(nullptr); // the kernel's stream may not wait for that one
    if (result != Success)
      return callError(*driver, result, "copy to the GPU");
    auto offset = static_cast<const char *>(arg.p) - static_cast<const char *>(arg.low);
    arg.p = reinterpret_cast<void *>(block + DevicePointer(offset));
    arg.low = reinterpret_cast<void *>(block);
    arg.high = reinterpret_cast<void *>(block + bytes);
    arg.memory = uint8_t(NRD_MEMORY_CUDA + device);
  }
  return nullptr;
}
