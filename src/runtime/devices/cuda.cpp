#include "runtime/devices/cuda.h"

#include "runtime/compile.h"
#include "runtime/devices/arguments.h"
#include "runtime/devices/cuda_context.h"
#include "runtime/devices/device.h"
#include "runtime/devices/tensor_maps.h"
#include "targets/nvidia/kernel_abi.h"

#include <mutex>

using namespace nereid;
using namespace nereid::runtime;
using namespace nereid::runtime::cuda;
using nvidia::LaunchInfo;
using targets::ScalarKind;

namespace {

std::atomic<nrd_stream_provider> streamProvider = nullptr;

std::string sm(int arch, bool specific) {
  return "sm_" + std::to_string(arch) + (specific ? "a" : "");
}

/// While it lives, this thread may load and unload code although some stream is being captured into
/// a graph: nothing of that belongs into the graph, and it disturbs none.
class CaptureUndisturbed {
public:
  explicit CaptureUndisturbed(const Driver &driver) : driver(driver) {
    driver.cuThreadExchangeStreamCaptureMode(&mode);
  }
  CaptureUndisturbed(const CaptureUndisturbed &) = delete;
  ~CaptureUndisturbed() { driver.cuThreadExchangeStreamCaptureMode(&mode); }

private:
  const Driver &driver;
  int mode = 2; ///< relaxed; the thread's own while this lives
};

/// A kernel's code in the driver: loaded when it is first launched, once for all devices; each
/// device is prepared when it first runs there.
class CudaCode final : public DeviceCode {
public:
  explicit CudaCode(const nrd_kernel &kernel)
      : info(*static_cast<const LaunchInfo *>(kernel.entry)), name(internedName(kernel.name)) {}

  ~CudaCode() override {
    // At the end of the process the driver may be gone already, and in a forked child it is; then
    // there is nothing to unload.
    if (library && Driver::tryGet()) {
      CaptureUndisturbed undisturbed(*driver);
      driver->cuLibraryUnload(library);
    }
  }

  struct OnDevice {
    std::atomic<bool> ready = false;
    int registers = 0, localBytes = 0, maxThreads = 0, staticShared = 0;
    /// The kernel in the context that was current when it was prepared: launching this is quicker
    /// than launching the kernel, which the driver has to look up.
    Context context = nullptr;
    Function function = nullptr;
  };

  /// What the device said of the kernel; loads and prepares it the first time.
  ErrorPtr prepare(const Driver &cuda, const nrd_kernel &kernel, int device, OnDevice *&out) {
    // `devices` is published by `loaded` and never changes again.
    if (loaded.load(std::memory_order_acquire)) {
      out = &devices[size_t(device)];
      if (out->ready.load(std::memory_order_acquire)) [[likely]]
        return nullptr;
    }
    return prepareSlowly(cuda, kernel, device, out);
  }

  const LaunchInfo &info;
  const std::string *const name;
  Kernel function = nullptr;
  Library library = nullptr;

private:
  ErrorPtr prepareSlowly(const Driver &cuda, const nrd_kernel &kernel, int device, OnDevice *&out);
  ErrorPtr load(const Driver &cuda, const nrd_kernel &kernel);

  const Driver *driver = nullptr;
  std::atomic<bool> loaded = false;
  std::mutex mutex;
  std::unique_ptr<OnDevice[]> devices;
};

ErrorPtr CudaCode::load(const Driver &cuda, const nrd_kernel &kernel) {
  auto image = kernel.code->object();
  if (!image)
    return makeError(NRD_ERROR_RUNTIME, "", diag::StageUnavailable, "cubin", kernel.name,
                     llvm::toString(image.takeError()));
  Library opened = nullptr;
  Result result =
      cuda.cuLibraryLoadData(&opened, image->data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result == Success) {
    result = cuda.cuLibraryGetKernel(&function, opened, info.entry.c_str());
    if (result != Success)
      cuda.cuLibraryUnload(opened);
  }
  if (isSticky(result))
    return callError(cuda, result, "load");
  if (result != Success)
    return makeError(result == ErrorOutOfMemory ? NRD_ERROR_RESOURCES : NRD_ERROR_RUNTIME, "",
                     diag::CudaLoadFailed, kernel.name, cuda.describe(result));
  driver = &cuda;
  library = opened;
  devices = std::make_unique<OnDevice[]>(size_t(cuda.deviceCount));
  loaded.store(true, std::memory_order_release);
  return nullptr;
}

ErrorPtr outOfResources(const nrd_kernel &kernel, const char *what, int64_t required,
                        int64_t limit) {
  return resourceError(what, required, limit, kernel.name, configurationText(kernel.request));
}

ErrorPtr CudaCode::prepareSlowly(const Driver &cuda, const nrd_kernel &kernel, int device,
                                 OnDevice *&out) {
  const DeviceInfo *gpu;
  if (ErrorPtr error = deviceInfo(cuda, device, gpu))
    return error;
  // Code for sm_80 runs on every later sm_8x; code that uses features of one architecture only
  // there.
  bool fits = info.archSpecific ? info.arch == gpu->arch
                                : info.arch / 10 == gpu->arch / 10 && info.arch <= gpu->arch;
  if (!fits)
    return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::ArchitectureMismatch, kernel.name,
                     sm(info.arch, info.archSpecific), gpu->name, sm(gpu->arch, false));
  std::lock_guard lock(mutex);
  CaptureUndisturbed undisturbed(cuda);
  if (!loaded.load(std::memory_order_relaxed))
    if (ErrorPtr error = load(cuda, kernel))
      return error;
  OnDevice &there = devices[size_t(device)];
  out = &there;
  if (there.ready.load(std::memory_order_relaxed))
    return nullptr;

  Result result = Success;
  const std::pair<int, int *> wanted[] = {{FunctionRegisters, &there.registers},
                                          {FunctionLocalBytes, &there.localBytes},
                                          {FunctionMaxThreads, &there.maxThreads},
                                          {FunctionSharedBytes, &there.staticShared}};
  for (auto [attribute, value] : wanted)
    if (result == Success)
      result = cuda.cuKernelGetAttribute(value, attribute, function, device);
  if (result != Success)
    return isSticky(result) ? callError(cuda, result, "load")
                            : makeError(NRD_ERROR_RUNTIME, "", diag::CudaLoadFailed, kernel.name,
                                        cuda.describe(result));
  if (info.sharedBytes + there.staticShared > gpu->maxShared)
    return outOfResources(kernel, "shared memory", info.sharedBytes + there.staticShared,
                          gpu->maxShared);
  if (info.numWarps * 32 > there.maxThreads)
    return outOfResources(kernel, "threads", info.numWarps * 32, there.maxThreads);
  if (info.sharedBytes + there.staticShared > 48 * 1024) {
    cuda.cuKernelSetCacheConfig(function, PreferShared, device);
    result = cuda.cuKernelSetAttribute(FunctionMaxDynamicShared, int(info.sharedBytes), function,
                                       device);
    if (result != Success)
      return callError(cuda, result, "reserve shared memory for `" + kernel.name + "`");
  }
  result = cuda.cuCtxGetCurrent(&there.context);
  if (result == Success)
    result = cuda.cuKernelGetFunction(&there.function, function);
  if (result != Success)
    return callError(cuda, result, "load `" + kernel.name + "`");
  there.ready.store(true, std::memory_order_release);
  return nullptr;
}

class CudaDevice final : public runtime::Device {
public:
  std::unique_ptr<DeviceCode> attach(const nrd_kernel &kernel) const override {
    return std::make_unique<CudaCode>(kernel);
  }

  ErrorPtr launch(const nrd_kernel &kernel, llvm::ArrayRef<nrd_arg> args,
                  const nrd_launch &launch) const override;

  void describe(const nrd_kernel &kernel, llvm::json::Object &out) const override {
    if (!kernel.entry) // only its texts were wanted
      return;
    const auto &info = *static_cast<const LaunchInfo *>(kernel.entry);
    const Options &options = kernel.request.options;
    out["name"] = info.entry;
    out["arch"] = info.arch;
    out["arch_specific"] = info.archSpecific;
    out["warp_size"] = 32;
    out["num_warps"] = info.numWarps;
    out["num_ctas"] = info.numCtas;
    out["num_stages"] = options.numStages;
    out["maxnreg"] = options.maxRegisters ? llvm::json::Value(options.maxRegisters) : nullptr;
    out["shared"] = info.sharedBytes;
    out["registers"] = info.registers;
    out["global_scratch_size"] = info.globalScratchBytes;
    out["global_scratch_align"] = info.globalScratchAlign;
    out["tensor_maps"] = int64_t(info.tensorMaps.size());
    if (!info.tensorMaps.empty())
      out["tensor_map_plans"] = describeTensorMaps(info.tensorMaps);
    out["profile_scratch_size"] = 0;
    out["profile_scratch_align"] = 1;
    out["launch_pdl"] = options.pdl;
    out["launch_cooperative_grid"] = options.cooperative;
  }

  ErrorPtr properties(const nrd_kernel &kernel, int ordinal,
                      nrd_kernel_properties &out) const override;
};

/// Of a kernel that was compiled where there is no GPU.
ErrorPtr notLoadable(const nrd_kernel &kernel) {
  if (ErrorPtr missing = cuda::check())
    return missing;
  return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::NotForThisMachine, kernel.name,
                   kernel.request.target.text());
}

/// The GPU's address of a pointer argument that lies on the host, when it has one (pinned memory).
ErrorPtr hostPointer(const Driver &cuda, const nrd_kernel &kernel, size_t index, uint64_t &slot) {
  DevicePointer address = 0;
  if (!slot || cuda.cuPointerGetAttribute(&address, PointerDevicePointer, slot) == Success) {
    slot = slot ? address : 0;
    return nullptr;
  }
  return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::PointerNotOnGpu, int64_t(index),
                   kernel.params[index].name);
}

ErrorPtr launchError(const Driver &cuda, const nrd_kernel &kernel, const CudaCode::OnDevice &there,
                     int64_t programs, Result result) {
  const LaunchInfo &info = *static_cast<const LaunchInfo *>(kernel.entry);
  if (isSticky(result))
    return callError(cuda, result, "launch");
  if (result == ErrorCooperativeTooLarge)
    return makeError(NRD_ERROR_RESOURCES, "", diag::CooperativeTooLarge, programs, kernel.name);
  if (result == ErrorLaunchOutOfResources)
    return outOfResources(kernel, "registers", int64_t(info.numWarps) * 32 * there.registers,
                          64 * 1024);
  return makeError(result == ErrorOutOfMemory ? NRD_ERROR_RESOURCES : NRD_ERROR_RUNTIME, "",
                   diag::CudaLaunchFailed, kernel.name, cuda.describe(result));
}

} // namespace

ErrorPtr CudaDevice::launch(const nrd_kernel &kernel, llvm::ArrayRef<nrd_arg> args,
                            const nrd_launch &launch) const {
  if (!kernel.onDevice) [[unlikely]]
    return notLoadable(kernel);
  auto &code = static_cast<CudaCode &>(*kernel.onDevice);
  const LaunchInfo &info = code.info;
  Slots slots;
  bool empty;
  if (ErrorPtr error = packArguments(kernel, args, slots))
    return error;
  if (ErrorPtr error = checkGrid(launch, empty))
    return error;

  const Driver *driver;
  int device;
  if (ErrorPtr error = Driver::get(driver))
    return error;
  if (ErrorPtr error = deviceOfLaunch(args, &launch, device))
    return error;
  ContextScope context(*driver);
  if (ErrorPtr error = context.enter(device))
    return error;

  for (size_t i = 0, slot = 0; i < args.size(); ++i) {
    if (!kernel.params[i].passed)
      continue;
    if (pointsToMemory(args[i]) && (args[i].memory == NRD_MEMORY_HOST ||
                                    args[i].memory == NRD_MEMORY_HOST_TENSOR)) [[unlikely]]
      if (ErrorPtr error = hostPointer(*driver, kernel, i, slots[slot]))
        return error;
    slot += kernel.params[i].codeParams();
  }
  if (empty)
    return nullptr;

  CudaCode::OnDevice *there;
  if (ErrorPtr error = code.prepare(*driver, kernel, device, there))
    return error;

  LaunchConfig config{};
  for (int axis = 0; axis < 3; ++axis)
    config.grid[axis] = launch.grid[axis];
  config.grid[0] *= unsigned(info.numCtas);
  if (launch.grid[1] > 65535 || launch.grid[2] > 65535) [[unlikely]] {
    const DeviceInfo *gpu;
    if (ErrorPtr error = deviceInfo(*driver, device, gpu))
      return error;
    for (int axis = 1; axis < 3; ++axis)
      if (int64_t(launch.grid[axis]) > gpu->maxGrid[axis])
        return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::GpuGridTooLarge, axis,
                         int64_t(launch.grid[axis]), gpu->maxGrid[axis]);
  }
  config.block[0] = unsigned(info.numWarps) * 32;
  config.block[1] = config.block[2] = 1;
  config.sharedBytes = unsigned(info.sharedBytes);
  config.stream = static_cast<Stream>(streamOfLaunch(launch, device));

  LaunchAttribute attributes[3];
  auto add = [&](int kind) -> LaunchAttribute & {
    LaunchAttribute &attribute = attributes[config.attributeCount++];
    attribute = {};
    attribute.kind = kind;
    return attribute;
  };
  config.attributes = attributes;
  if (kernel.request.options.cooperative)
    add(LaunchAttribute::Cooperative).flag = 1;
  if (kernel.request.options.pdl)
    add(LaunchAttribute::ProgrammaticSerialization).flag = 1;
  if (info.numCtas > 1) {
    LaunchAttribute &cluster = add(LaunchAttribute::ClusterDimension);
    cluster.cluster[0] = unsigned(info.numCtas);
    cluster.cluster[1] = cluster.cluster[2] = 1;
  }

  llvm::SmallVector<TensorMap, 4> maps;
  if (!info.tensorMaps.empty())
    if (ErrorPtr error = encodeTensorMaps(*driver, info.tensorMaps, slots.data(), maps))
      return error;

  int64_t programs = int64_t(launch.grid[0]) * launch.grid[1] * launch.grid[2];
  DevicePointer scratch = 0;
  if (info.globalScratchBytes) {
    Result result = driver->cuMemAllocAsync(&scratch, size_t(info.globalScratchBytes * programs),
                                            config.stream);
    if (result != Success)
      return callError(*driver, result, "reserve scratch memory for `" + kernel.name + "`");
  }
  slots.push_back(scratch);
  slots.push_back(0); // profile scratch
  llvm::SmallVector<void *, 48> params;
  for (uint64_t &slot : slots)
    params.push_back(&slot);
  for (TensorMap &map : maps)
    params.push_back(&map);

  // A kernel can stand for its function in any context.
  Function function = context.current() == there->context
                          ? there->function
                          : reinterpret_cast<Function>(code.function);
  Result result =
      config.attributeCount
          ? driver->cuLaunchKernelEx(&config, function, params.data(), nullptr)
          : driver->cuLaunchKernel(function, config.grid[0], config.grid[1], config.grid[2],
                                   config.block[0], config.block[1], config.block[2],
                                   config.sharedBytes, config.stream, params.data(), nullptr);
  if (scratch)
    driver->cuMemFreeAsync(scratch, config.stream);
  if (result != Success) [[unlikely]]
    return launchError(*driver, kernel, *there, programs, result);
  noteLaunch(code.name);
  return nullptr;
}

ErrorPtr CudaDevice::properties(const nrd_kernel &kernel, int ordinal,
                                nrd_kernel_properties &out) const {
  if (!kernel.onDevice)
    return notLoadable(kernel);
  auto &code = static_cast<CudaCode &>(*kernel.onDevice);
  const Driver *driver;
  if (ErrorPtr error = Driver::get(driver))
    return error;
  ContextScope context(*driver);
  if (ErrorPtr error = context.enter(ordinal))
    return error;
  CudaCode::OnDevice *there;
  if (ErrorPtr error = code.prepare(*driver, kernel, ordinal, there))
    return error;
  out = {};
  out.registers = there->registers;
  out.spills = there->localBytes / 4;
  out.max_threads = there->maxThreads;
  out.shared_bytes = code.info.sharedBytes + there->staticShared;
  Function function = there->function;
  Module module = nullptr;
  Result result = context.current() == there->context
                      ? Success
                      : driver->cuKernelGetFunction(&function, code.function);
  if (result == Success)
    result = driver->cuLibraryGetModule(&module, code.library);
  if (result != Success)
    return callError(*driver, result, "load `" + kernel.name + "`");
  out.function = function;
  out.module = module;
  return nullptr;
}

void *cuda::streamOfLaunch(const nrd_launch &launch, int device) {
  nrd_stream_provider provider = streamProvider.load(std::memory_order_acquire);
  return launch.with_stream || launch.stream || !provider ? launch.stream : provider(device);
}

void cuda::setStreamProvider(nrd_stream_provider provider) {
  streamProvider.store(provider, std::memory_order_release);
}

const runtime::Device &runtime::cudaDevice() {
  static const CudaDevice device;
  return device;
}
