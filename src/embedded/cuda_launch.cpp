// Embedded kernels on NVIDIA GPUs.
#include "embedded/driver.h"
#include "embedded/launch.h"
#include "embedded/status.h"

#include "kernel_abi/TensorMapPlan.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdlib>
#include <memory>
#include <mutex>

using namespace nereid;
using namespace nereid::embedded;

namespace {

/// A variant in the driver: loaded once for all devices, prepared for each.
struct Loaded {
  Library library = nullptr;
  Kernel kernel = nullptr;
  struct OnDevice {
    std::atomic<bool> ready = false;
    Function function = nullptr; ///< in the primary context
  };
  std::unique_ptr<OnDevice[]> devices;
};

uint64_t checksumOf(const void *data, uint64_t bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (uint64_t i = 0; i < bytes; ++i)
    hash = (hash ^ static_cast<const unsigned char *>(data)[i]) * 0x100000001b3;
  return hash;
}

std::mutex loadMutex;

nrd_status load(const CudaApi &driver, const Chosen &chosen, Loaded *&out) {
  const nrd_embedded_cuda &code = *chosen.variant.cuda;
  if (checksumOf(code.image, code.image_bytes) != code.checksum)
    return fail(NRD_STATUS_DAMAGED, "the machine code of kernel `%s` is damaged",
                chosen.kernel.name);
  auto made = std::make_unique<Loaded>();
  Result result = driver.cuLibraryLoadData(&made->library, code.image, nullptr, nullptr, 0, nullptr,
                                           nullptr, 0);
  if (result == Success)
    result = driver.cuLibraryGetKernel(&made->kernel, made->library, code.entry);
  if (nrd_status status = driver.check(result, "load kernel ", chosen.kernel.name))
    return status;
  made->devices = std::make_unique<Loaded::OnDevice[]>(size_t(driver.deviceCount));
  out = made.release(); // kept for the life of the process, as the tables are
  return NRD_OK;
}

/// Loads the variant and prepares it for the device, whose context is current.
nrd_status prepare(const CudaApi &driver, const Gpu &gpu, const Chosen &chosen, int device,
                   Loaded *&loaded) {
  const nrd_embedded_cuda &code = *chosen.variant.cuda;
  std::lock_guard lock(loadMutex);
  std::atomic_ref<void *> slot(chosen.state.loaded);
  loaded = static_cast<Loaded *>(slot.load(std::memory_order_relaxed));
  if (!loaded)
    if (nrd_status status = load(driver, chosen, loaded))
      return status;
  slot.store(loaded, std::memory_order_release);
  Loaded::OnDevice &there = loaded->devices[size_t(device)];
  if (there.ready.load(std::memory_order_relaxed))
    return NRD_OK;

  int maxThreads = 0, staticShared = 0;
  Result result =
      driver.cuKernelGetAttribute(&maxThreads, FunctionMaxThreads, loaded->kernel, device);
  if (result == Success)
    result =
        driver.cuKernelGetAttribute(&staticShared, FunctionSharedBytes, loaded->kernel, device);
  if (nrd_status status = driver.check(result, "load kernel ", chosen.kernel.name))
    return status;
  int64_t shared = int64_t(code.shared_bytes) + staticShared;
  if (shared > gpu.maxShared)
    return fail(NRD_STATUS_RESOURCES,
                "kernel `%s` needs %" PRId64 " bytes of shared memory, %s has %d",
                chosen.kernel.name, shared, gpu.name, gpu.maxShared);
  if (int(code.num_warps) * 32 > maxThreads)
    return fail(NRD_STATUS_RESOURCES, "kernel `%s` needs %d threads a block, at most %d can run",
                chosen.kernel.name, int(code.num_warps) * 32, maxThreads);
  if (shared > 48 * 1024) {
    driver.cuKernelSetCacheConfig(loaded->kernel, PreferShared, device);
    result = driver.cuKernelSetAttribute(FunctionMaxDynamicShared, int(code.shared_bytes),
                                         loaded->kernel, device);
  }
  if (result == Success && code.num_ctas > PortableCluster)
    result = driver.cuKernelSetAttribute(FunctionLargeClusters, 1, loaded->kernel, device);
  Context current = nullptr;
  if (result == Success)
    result = driver.cuCtxGetCurrent(&current);
  if (result == Success && current == gpu.context)
    result = driver.cuKernelGetFunction(&there.function, loaded->kernel);
  if (nrd_status status = driver.check(result, "prepare kernel ", chosen.kernel.name))
    return status;
  there.ready.store(true, std::memory_order_release);
  return NRD_OK;
}

int64_t evaluate(const nrd_embedded_number &number, const uint64_t *slots) {
  using Op = gpu::HostNumber::Op;
  uint64_t stack[maxDepth];
  unsigned top = 0; // how many are on it
  for (uint64_t i = 0; i < number.count; ++i) {
    const nrd_embedded_step &step = number.steps[i];
    auto bits = unsigned(step.value);
    switch (Op(step.op)) {
    case Op::Argument:
      stack[top++] = slots[step.value];
      continue;
    case Op::Constant:
      stack[top++] = uint64_t(step.value);
      continue;
    case Op::SignExtend:
      stack[top - 1] = uint64_t(int64_t(stack[top - 1] << (64 - bits)) >> (64 - bits));
      continue;
    case Op::ZeroExtend:
      stack[top - 1] = stack[top - 1] << (64 - bits) >> (64 - bits);
      continue;
    default:
      break;
    }
    uint64_t right = stack[--top];
    uint64_t &left = stack[top - 1];
    left = Op(step.op) == Op::Add   ? left + right
           : Op(step.op) == Op::Sub ? left - right
           : Op(step.op) == Op::Mul ? left * right
                                    : left << right;
  }
  return top ? int64_t(stack[0]) : 0;
}

nrd_status encodeMap(const CudaApi &driver, const nrd_embedded_map &plan, const uint64_t *slots,
                     TensorMap &map) {
  // The driver counts dimensions from the innermost on, and strides in bytes.
  unsigned rank = plan.rank;
  uint64_t sizes[5], strides[5] = {};
  uint32_t box[5], steps[5];
  for (unsigned i = 0; i < rank; ++i) {
    sizes[i] = uint64_t(evaluate(plan.shape[rank - 1 - i], slots));
    box[i] = plan.box[rank - 1 - i];
    steps[i] = 1;
  }
  for (unsigned i = 0; i + 1 < rank; ++i)
    strides[i] = uint64_t(evaluate(plan.strides[rank - 2 - i], slots)) * plan.element_bytes;
  auto base = uint64_t(evaluate(plan.base, slots));
  bool describable = base % 16 == 0;
  for (unsigned i = 0; i < rank; ++i)
    describable &= sizes[i] >= 1 && sizes[i] <= INT32_MAX;
  for (unsigned i = 0; i + 1 < rank; ++i)
    describable &= strides[i] >= 16 && strides[i] < uint64_t(1) << 40 && strides[i] % 16 == 0;
  if (plan.optional && !describable) {
    map = {};
    return NRD_OK;
  }
  Result result = driver.cuTensorMapEncodeTiled(
      &map, int(plan.element), rank, reinterpret_cast<void *>(uintptr_t(base)), sizes, strides, box,
      steps, NoInterleave, swizzleOf(plan.swizzle_bytes), PromoteTo256,
      plan.pads_nan ? FillNaN : FillZero);
  // Kernels look at the first 16 bytes of an optional map alone.
  if (result == Success && (!plan.optional || map.words[0] || map.words[1]))
    return NRD_OK;
  if (plan.optional) {
    map = {};
    return NRD_OK;
  }
  return fail(NRD_STATUS_ARGUMENT,
              "the copy engine cannot describe the tensor `%s`: its address must be a multiple of "
              "16, its sizes positive, its strides multiples of 16 bytes",
              plan.name);
}

} // namespace

nrd_status embedded::launchCuda(const Chosen &chosen, const nrd_embedded_launch &how, int device,
                                const uint64_t *slots, bool run) {
  const nrd_embedded_cuda &code = *chosen.variant.cuda;
  nrd_status status;
  const CudaApi &driver = *CudaApi::tryGet(); // was asked for the device before
  const Gpu &gpu = *driver.gpu(device, status);
  GpuScope context(driver);
  if ((status = context.enter(device, gpu))) [[unlikely]]
    return status;
  std::atomic_ref<void *> slot(chosen.state.loaded);
  auto *loaded = static_cast<Loaded *>(slot.load(std::memory_order_acquire));
  if (!loaded || !loaded->devices[size_t(device)].ready.load(std::memory_order_acquire))
      [[unlikely]]
    if ((status = prepare(driver, gpu, chosen, device, loaded)))
      return status;
  if (!run || !how.grid[0] || !how.grid[1] || !how.grid[2])
    return NRD_OK;

  uint64_t passed[maxSlots + 2];
  unsigned count = passedSlots(chosen, slots, passed);
  TensorMap maps[maxMaps];
  if (code.map_count > maxMaps)
    return fail(NRD_STATUS_DAMAGED, "the table of kernel `%s` is damaged", chosen.kernel.name);
  for (uint64_t i = 0; i < code.map_count; ++i)
    if ((status = encodeMap(driver, code.maps[i], passed, maps[i])))
      return status;

  LaunchConfig config{};
  for (int axis = 0; axis < 3; ++axis) {
    config.grid[axis] = how.grid[axis];
    uint32_t most = uint32_t(gpu.maxGrid[axis]);
    if (axis == 0)
      most /= code.num_ctas;
    if (how.grid[axis] > most) [[unlikely]]
      return fail(NRD_STATUS_ARGUMENT, "axis %d of the grid of `%s` is %u, at most %u on %s", axis,
                  chosen.kernel.name, how.grid[axis], most, gpu.name);
  }
  config.grid[0] *= code.num_ctas;
  config.block[0] = code.num_warps * 32;
  config.block[1] = config.block[2] = 1;
  config.sharedBytes = unsigned(code.shared_bytes);
  config.stream = how.has_stream ? static_cast<Stream>(how.stream.handle) : nullptr;
  LaunchAttribute attributes[3];
  auto add = [&](int kind) -> LaunchAttribute & {
    LaunchAttribute &attribute = attributes[config.attributeCount++];
    attribute = {};
    attribute.kind = kind;
    attribute.flag = 1;
    config.attributes = attributes;
    return attribute;
  };
  if (code.cooperative)
    add(LaunchAttribute::Cooperative);
  if (code.pdl)
    add(LaunchAttribute::ProgrammaticSerialization);
  if (code.num_ctas > 1) {
    LaunchAttribute &cluster = add(LaunchAttribute::ClusterDimension);
    cluster.cluster[0] = code.num_ctas;
    cluster.cluster[1] = cluster.cluster[2] = 1;
  }

  DevicePointer scratch = 0;
  if (code.scratch_bytes) {
    uint64_t programs = uint64_t(how.grid[0]) * how.grid[1] * how.grid[2];
    Result result = driver.cuMemAllocAsync(&scratch, code.scratch_bytes * programs, config.stream);
    if ((status = driver.check(result, "reserve scratch memory for kernel ", chosen.kernel.name)))
      return status;
  }
  passed[count++] = scratch;
  passed[count++] = 0; // profile scratch
  void *params[maxSlots + 2 + maxMaps];
  unsigned paramCount = 0;
  for (unsigned i = 0; i < count; ++i)
    params[paramCount++] = &passed[i];
  for (uint64_t i = 0; i < code.map_count; ++i)
    params[paramCount++] = &maps[i];

  Function function = loaded->devices[size_t(device)].function;
  Context current = nullptr;
  if (!function || driver.cuCtxGetCurrent(&current) != Success || current != gpu.context)
      [[unlikely]] // a kernel stands for its function in any context
    function = reinterpret_cast<Function>(loaded->kernel);
  Result result = config.attributeCount
                      ? driver.cuLaunchKernelEx(&config, function, params, nullptr)
                      : driver.cuLaunchKernel(function, config.grid[0], config.grid[1],
                                              config.grid[2], config.block[0], 1, 1,
                                              config.sharedBytes, config.stream, params, nullptr);
  if (scratch)
    driver.cuMemFreeAsync(scratch, config.stream);
  return driver.check(result, "launch kernel ", chosen.kernel.name);
}
