#include "runtime/devices/cuda_context.h"
#include "runtime/devices/measure.h"
#include "support/settings.h"

#include <algorithm>
#include <dlfcn.h>

namespace nereid::runtime::cuda {
namespace {

using Event = struct EventObject *;

/// What only measuring needs of the driver.
#define NEREID_CUDA_MEASURING_FUNCTIONS(X)                                                         \
  X(cuMemAlloc_v2, (DevicePointer *, size_t))                                                      \
  X(cuMemFree_v2, (DevicePointer))                                                                 \
  X(cuMemcpyHtoD_v2, (DevicePointer, const void *, size_t))                                        \
  X(cuMemsetD8Async, (DevicePointer, unsigned char, size_t, Stream))                               \
  X(cuEventCreate, (Event *, unsigned))                                                            \
  X(cuEventDestroy_v2, (Event))                                                                    \
  X(cuEventRecord, (Event, Stream))                                                                \
  X(cuEventSynchronize, (Event))                                                                   \
  X(cuEventElapsedTime, (float *, Event, Event))

struct Measuring {
#define NEREID_DECLARE(Name, Params) Result(*Name) Params = nullptr;
  NEREID_CUDA_MEASURING_FUNCTIONS(NEREID_DECLARE)
#undef NEREID_DECLARE

  /// The driver must be open.
  static ErrorPtr get(const Measuring *&out) {
    static const Measuring once;
    if (!once.missing.empty())
      return makeError(NRD_ERROR_RUNTIME, "", diag::CudaDriverTooOld, once.missing);
    out = &once;
    return nullptr;
  }

private:
  Measuring() {
    void *library = dlopen(Settings::current().cudaLibrary().c_str(), RTLD_NOW | RTLD_LOCAL);
#define NEREID_RESOLVE(Name, Params)                                                               \
  Name = library ? reinterpret_cast<Result(*) Params>(dlsym(library, #Name)) : nullptr;            \
  if (!Name)                                                                                       \
    missing = #Name;
    NEREID_CUDA_MEASURING_FUNCTIONS(NEREID_RESOLVE)
#undef NEREID_RESOLVE
  }
  std::string missing;
};

/// Two events and the memory that is overwritten to empty the second-level cache.
struct Tools {
  const Driver *driver = nullptr;
  const Measuring *call = nullptr;
  Event begin = nullptr, end = nullptr;
  DevicePointer sweep = 0;
  size_t sweepBytes = 0;

  ErrorPtr check(Result result, const char *doing) const {
    return result == Success ? nullptr : callError(*driver, result, doing);
  }
  ~Tools() {
    if (begin)
      call->cuEventDestroy_v2(begin);
    if (end)
      call->cuEventDestroy_v2(end);
    if (sweep)
      call->cuMemFree_v2(sweep);
  }
};

/// Milliseconds of `count` launches in a row, each.
ErrorPtr timeOf(const Tools &tools, Launch run, const nrd_launch &launch, size_t count, bool cold,
                double &out) {
  auto stream = static_cast<Stream>(launch.stream);
  if (cold)
    if (ErrorPtr error = tools.check(
            tools.call->cuMemsetD8Async(tools.sweep, 0, tools.sweepBytes, stream), "empty caches"))
      return error;
  if (ErrorPtr error = tools.check(tools.call->cuEventRecord(tools.begin, stream), "measure"))
    return error;
  for (size_t i = 0; i < count; ++i)
    if (ErrorPtr error = run(launch))
      return error;
  if (ErrorPtr error = tools.check(tools.call->cuEventRecord(tools.end, stream), "measure"))
    return error;
  if (ErrorPtr error = tools.check(tools.call->cuEventSynchronize(tools.end), "measure"))
    return error;
  float ms = 0;
  if (ErrorPtr error =
          tools.check(tools.call->cuEventElapsedTime(&ms, tools.begin, tools.end), "measure"))
    return error;
  out = double(ms) / double(count);
  return nullptr;
}

} // namespace

HostCopies::~HostCopies() {
  const Driver *driver = Driver::tryGet();
  const Measuring *call = nullptr;
  if (blocks.empty() || !driver || Measuring::get(call))
    return;
  ContextScope scope(*driver);
  if (scope.enter(device))
    return;
  for (DevicePointer block : blocks)
    call->cuMemFree_v2(block);
}

ErrorPtr HostCopies::make(llvm::MutableArrayRef<nrd_arg> args, int where) {
  device = where;
  const Driver *driver = nullptr;
  if (ErrorPtr error = Driver::get(driver))
    return error;
  const Measuring *call = nullptr;
  if (ErrorPtr error = Measuring::get(call))
    return error;
  ContextScope scope(*driver);
  if (ErrorPtr error = scope.enter(device))
    return error;
  for (nrd_arg &arg : args) {
    if (arg.kind != NRD_ARG_POINTER || arg.memory != NRD_MEMORY_HOST || !arg.low)
      continue;
    auto bytes = size_t(static_cast<const char *>(arg.high) - static_cast<const char *>(arg.low));
    DevicePointer block = 0;
    if (Result result = call->cuMemAlloc_v2(&block, std::max<size_t>(bytes, 1)))
      return callError(*driver, result, "allocate memory");
    blocks.push_back(block);
    if (bytes)
      if (Result result = call->cuMemcpyHtoD_v2(block, arg.low, bytes))
        return callError(*driver, result, "copy to the GPU");
    auto offset = static_cast<const char *>(arg.p) - static_cast<const char *>(arg.low);
    arg.p = reinterpret_cast<void *>(block + DevicePointer(offset));
    arg.low = reinterpret_cast<void *>(block);
    arg.high = reinterpret_cast<void *>(block + bytes);
    arg.memory = uint8_t(NRD_MEMORY_CUDA + device);
  }
  return nullptr;
}

ErrorPtr measure(Launch run, nrd_launch launch, const nrd_measure_plan &plan, size_t capacity,
                 std::vector<double> &times) {
  Tools tools;
  if (ErrorPtr error = Driver::get(tools.driver))
    return error;
  if (ErrorPtr error = Measuring::get(tools.call))
    return error;
  ContextScope scope(*tools.driver);
  if (ErrorPtr error = scope.enter(launch.device - 1))
    return error;
  launch.with_stream = 1;
  for (Event *event : {&tools.begin, &tools.end})
    if (ErrorPtr error = tools.check(tools.call->cuEventCreate(event, 0), "make an event"))
      return error;
  if (plan.cold) {
    int cache = 0;
    tools.driver->cuDeviceGetAttribute(&cache, L2CacheSize, launch.device - 1);
    tools.sweepBytes = std::max<size_t>(size_t(cache) * 4, size_t(64) << 20);
    if (ErrorPtr error = tools.check(tools.call->cuMemAlloc_v2(&tools.sweep, tools.sweepBytes),
                                     "allocate memory"))
      return error;
  }
  // The first run loads the code.
  double once = 0, each = 0;
  if (ErrorPtr error = timeOf(tools, run, launch, 1, false, once))
    return error;
  if (ErrorPtr error = timeOf(tools, run, launch, once < 10 ? 5 : 1, false, each))
    return error;
  size_t warmups = each > 0 ? size_t(std::min(plan.warmup / each, 1e5)) : 0;
  for (size_t i = 0; i < warmups; ++i)
    if (ErrorPtr error = run(launch))
      return error;
  // Events tell half microseconds apart.
  size_t inRow = plan.cold || each <= 0 ? 1 : std::clamp<size_t>(size_t(0.2 / each), 1, 100);
  for (Progress progress(plan, capacity); progress.wantsMore();) {
    double ms = 0;
    if (ErrorPtr error = timeOf(tools, run, launch, inRow, plan.cold, ms))
      return error;
    times.push_back(ms);
    progress.add(ms * double(inRow));
  }
  return nullptr;
}

} // namespace nereid::runtime::cuda
