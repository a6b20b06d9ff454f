#include "runtime/devices/cuda_context.h"

#include "runtime/devices/arguments.h"
#include "runtime/devices/cuda.h"
#include "runtime/fork.h"
#include "runtime/launch_state.h"
#include "support/first_use.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <vector>

using namespace nereid;
using namespace nereid::runtime;
using namespace nereid::runtime::cuda;

namespace {

struct DeviceSlot {
  std::once_flag once;
  DeviceInfo info;
  std::atomic<Context> primary = nullptr;
  std::mutex mutex;
};

/// One slot a device; made with the first use, when their number is known.
DeviceSlot &slotOf(const Driver &driver, int device) {
  static constinit FirstUse<std::vector<DeviceSlot>> slots;
  auto make = [&] { return std::vector<DeviceSlot>(size_t(driver.deviceCount)); };
  return slots.get(make)[size_t(device)];
}

ErrorPtr checkNumber(const Driver &driver, int device) {
  if (device >= 0 && device < driver.deviceCount)
    return nullptr;
  return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::NoSuchCudaDevice, device,
                   driver.deviceCount);
}

int attributeOf(const Driver &driver, int attribute, int device) {
  int value = 0;
  driver.cuDeviceGetAttribute(&value, attribute, device);
  return value;
}

constexpr std::pair<const char *, int> furtherAttributes[] = {
    {"max_num_regs", MaxRegistersPerBlock},
    {"multiprocessor_count", MultiprocessorCount},
    {"max_shared_mem_per_multiprocessor", MaxSharedPerMultiprocessor},
    {"warpSize", WarpSize},
    {"sm_clock_rate", ClockRate},
    {"mem_clock_rate", MemoryClockRate},
    {"mem_bus_width", MemoryBusWidth},
    {"l2_cache_size", L2CacheSize},
    {"max_threads_per_block", MaxThreadsPerBlock},
};

/// The last kernels that were launched, newest at `recentNext - 1`.
constexpr unsigned recentSize = 8;
std::atomic<const std::string *> recent[recentSize];
std::atomic<unsigned> recentNext = 0;

std::string recentText() {
  std::string text;
  llvm::SmallVector<const std::string *> seen;
  unsigned next = recentNext.load();
  for (unsigned i = 1; i <= recentSize && seen.size() < 4; ++i) {
    const std::string *name = recent[(next - i) % recentSize].load();
    if (!name || llvm::is_contained(seen, name))
      continue;
    seen.push_back(name);
    text += (text.empty() ? "`" : ", before it `") + *name + "`";
  }
  return text.empty() ? "none of Nereid's" : text;
}

} // namespace

const std::string *cuda::internedName(std::string_view name) {
  Working working; // a fork now would leave the lock taken in the child
  static std::mutex mutex;
  static auto *names = new llvm::StringMap<std::unique_ptr<std::string>>();
  std::lock_guard lock(mutex);
  auto &slot = (*names)[name];
  if (!slot)
    slot = std::make_unique<std::string>(name);
  return slot.get();
}

void cuda::noteOther(const std::string *name) {
  launchState.latestName.store(name, std::memory_order_relaxed);
  recent[recentNext.fetch_add(1, std::memory_order_relaxed) % recentSize].store(
      name, std::memory_order_relaxed);
}

ErrorPtr cuda::callError(const Driver &driver, Result result, std::string_view doing) {
  if (isSticky(result))
    return makeError(NRD_ERROR_RUNTIME, "", diag::KernelFailedOnGpu, driver.describe(result),
                     recentText());
  return makeError(result == ErrorOutOfMemory ? NRD_ERROR_RESOURCES : NRD_ERROR_RUNTIME, "",
                   diag::CudaCallFailed, doing, driver.describe(result));
}

ErrorPtr ContextScope::change(int device, int current) {
  if (ErrorPtr error = checkNumber(driver, device))
    return error;
  DeviceSlot &slot = slotOf(driver, device);
  Context primary = slot.primary.load(std::memory_order_acquire);
  if (!primary) {
    std::lock_guard lock(slot.mutex);
    primary = slot.primary.load(std::memory_order_relaxed);
    if (!primary) {
      if (Result result = driver.cuDevicePrimaryCtxRetain(&primary, device))
        return callError(driver, result, "open device " + std::to_string(device));
      slot.primary.store(primary, std::memory_order_release); // kept for the life of the process
    }
  }
  bool stay = current < 0;
  Result result = stay ? driver.cuCtxSetCurrent(primary) : driver.cuCtxPushCurrent_v2(primary);
  if (result != Success)
    return callError(driver, result, "enter the context of device " + std::to_string(device));
  pushed = !stay;
  return nullptr;
}

ErrorPtr cuda::deviceInfo(const Driver &driver, int device, const DeviceInfo *&out) {
  if (ErrorPtr error = checkNumber(driver, device))
    return error;
  DeviceSlot &slot = slotOf(driver, device);
  std::call_once(slot.once, [&] {
    DeviceInfo &info = slot.info;
    info.arch = attributeOf(driver, ComputeCapabilityMajor, device) * 10 +
                attributeOf(driver, ComputeCapabilityMinor, device);
    info.maxShared = attributeOf(driver, MaxSharedPerBlockOptin, device);
    info.multiprocessors = attributeOf(driver, MultiprocessorCount, device);
    for (int axis = 0; axis < 3; ++axis)
      info.maxGrid[axis] = attributeOf(driver, MaxGridX + axis, device);
    char name[256] = "unknown GPU";
    driver.cuDeviceGetName(name, sizeof name, device);
    info.name = name;
    for (auto [name, attribute] : furtherAttributes)
      info.further.emplace_back(name, attributeOf(driver, attribute, device));
  });
  out = &slot.info;
  return nullptr;
}

void cuda::remember(const Driver &driver) {
  const DeviceInfo *info;
  for (int device = 0; device < driver.deviceCount; ++device)
    (void)deviceInfo(driver, device, info);
}

//===--- queries
//--------------------------------------------------------------------------------===//

int cuda::deviceCount() {
  const Driver *driver = Driver::tryKnown();
  return driver ? driver->deviceCount : 0;
}

std::string cuda::driverVersion() {
  const Driver *driver = Driver::tryKnown();
  int version = driver ? driver->version : 0;
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

ErrorPtr cuda::check() {
  const Driver *driver;
  return Driver::get(driver);
}

ErrorPtr cuda::currentDevice(int &out) {
  const Driver *driver;
  if (ErrorPtr error = Driver::known(driver))
    return error;
  out = std::max(contextDevice(*driver), 0);
  return nullptr;
}

ErrorPtr cuda::setCurrentDevice(int device) {
  const Driver *driver;
  if (ErrorPtr error = Driver::get(driver))
    return error;
  Context primary;
  if (ErrorPtr error = checkNumber(*driver, device))
    return error;
  Result result = driver->cuDevicePrimaryCtxRetain(&primary, device);
  if (result == Success)
    result = driver->cuCtxSetCurrent(primary);
  return result == Success ? nullptr
                           : callError(*driver, result, "open device " + std::to_string(device));
}

ErrorPtr cuda::deviceOfLaunch(llvm::ArrayRef<nrd_arg> args, const nrd_launch *launch, int &out) {
  const Driver *driver;
  if (ErrorPtr error = Driver::known(driver))
    return error;
  if (launch && launch->device) {
    out = launch->device - 1;
    return checkNumber(*driver, out);
  }
  // All on one device, as usual: that one, whatever is current.
  int first = -1;
  bool several = false;
  for (const nrd_arg &arg : args) {
    int device = arg.memory - NRD_MEMORY_CUDA;
    if (device < 0 || device == first || !pointsToMemory(arg))
      continue;
    several = first >= 0;
    first = several ? first : device;
  }
  out = first;
  if (first >= 0 && !several) [[likely]]
    return nullptr;
  int current = contextDevice(*driver);
  out = first < 0 ? std::max(current, 0) : first;
  for (const nrd_arg &arg : args)
    if (several && pointsToMemory(arg) && arg.memory == NRD_MEMORY_CUDA + current)
      out = current;
  return nullptr;
}

ErrorPtr cuda::architecture(int device, int &out) {
  // Asked by every launch: what is known is one look away.
  static std::atomic<uint16_t> known[64];
  bool keeps = device >= 0 && size_t(device) < std::size(known);
  if (keeps && (out = known[device].load(std::memory_order_relaxed))) [[likely]]
    return nullptr;
  const Driver *driver;
  const DeviceInfo *info;
  if (ErrorPtr error = Driver::known(driver))
    return error;
  if (ErrorPtr error = deviceInfo(*driver, device, info))
    return error;
  out = info->arch;
  if (keeps)
    known[device].store(uint16_t(out), std::memory_order_relaxed);
  return nullptr;
}

bool cuda::hasDriver() {
  return Driver::tryOpen() != nullptr;
}

cuda::MemoryKind cuda::memoryKindOf(const void *address) {
  const Driver *driver = Driver::tryOpen();
  unsigned type = 0;
  if (!address || !driver || launchState.inherited.load(std::memory_order_relaxed) ||
      driver->cuPointerGetAttribute(&type, PointerMemoryType, DevicePointer(uintptr_t(address))) !=
          Success)
    return MemoryKind::Pageable;
  return type == MemoryDevice ? MemoryKind::Device
         : type == MemoryHost ? MemoryKind::Pinned
                              : MemoryKind::Pageable;
}

int cuda::deviceOfAddress(const void *address) {
  int device = -1;
  bool found = isDeviceMemory(address) &&
               Driver::tryOpen()->cuPointerGetAttribute(
                   &device, PointerDeviceOrdinal, DevicePointer(uintptr_t(address))) == Success;
  return found ? device : -1;
}

ErrorPtr cuda::properties(int device, llvm::json::Object &out) {
  const Driver *driver;
  const DeviceInfo *info;
  if (ErrorPtr error = Driver::known(driver))
    return error;
  if (ErrorPtr error = deviceInfo(*driver, device, info))
    return error;
  out["name"] = info->name;
  out["arch"] = info->arch;
  out["max_shared_mem"] = info->maxShared;
  for (auto [name, value] : info->further)
    out[name] = value;
  return nullptr;
}

ErrorPtr cuda::synchronize(int device) {
  const Driver *driver;
  if (ErrorPtr error = Driver::get(driver))
    return error;
  ContextScope context(*driver);
  if (ErrorPtr error = context.enter(device))
    return error;
  if (Result result = driver->cuCtxSynchronize())
    return callError(*driver, result, "wait for device " + std::to_string(device));
  return nullptr;
}
