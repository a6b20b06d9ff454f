#include "runtime/devices/cuda.h"

#include "explain/Occupancy.h"
#include "kernel_abi/nvidia.h"
#include "runtime/compile.h"
#include "runtime/devices/arguments.h"
#include "runtime/devices/cuda_context.h"
#include "runtime/devices/device.h"
#include "runtime/devices/tensor_maps.h"
#include "runtime/request.h"
#include "support/settings.h"

#include <mutex>
#include <optional>

using namespace nereid;
using namespace nereid::runtime;
using namespace nereid::runtime::cuda;
using nvidia::LaunchInfo;

namespace {

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

  struct OnDevice : Ready {
    std::atomic<bool> ready = false;
    int registers = 0, localBytes = 0, maxThreads = 0, staticShared = 0;
  };

  /// Gives the kernel on a device; loads and prepares it the first time.
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
  mutable TensorMapCache maps;

private:
  ErrorPtr prepareSlowly(const Driver &cuda, const nrd_kernel &kernel, int device, OnDevice *&out);
  ErrorPtr load(const Driver &cuda, const nrd_kernel &kernel);

  const Driver *driver = nullptr;
  std::atomic<bool> loaded = false;
  std::mutex mutex;
  std::unique_ptr<OnDevice[]> devices;
};

ErrorPtr CudaCode::load(const Driver &cuda, const nrd_kernel &kernel) {
  std::string why;
  std::optional<std::string> image = kernel.code->object(why);
  if (!image)
    return makeError(NRD_ERROR_RUNTIME, "", diag::StageUnavailable, "cubin", kernel.name, why);
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

/// Blocks that a multiprocessor is to have before programs are no longer divided among blocks.
unsigned blocksToFill(const DeviceInfo &gpu, const CudaCode::OnDevice &there) {
  auto multiprocessor = explain::multiprocessorOf(gpu.arch);
  if (Settings::current().splitProducts != "full" || !multiprocessor)
    return 1;
  explain::BlockNeeds needs{int(there.threads), there.registers,
                            int(there.sharedBytes) + there.staticShared};
  return std::clamp(explain::occupancyOf(*multiprocessor, needs).blocks, 1, 2);
}

/// Finds how many blocks or clusters of a kernel the device runs at the same time.
ErrorPtr countRunning(const Driver &cuda, const nrd_kernel &kernel, const DeviceInfo &gpu,
                      CudaCode::OnDevice &there) {
  int number = 0;
  Result result;
  if (there.blocks == 1) {
    result = cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(
        &number, there.function, int(there.threads), there.sharedBytes);
    number *= gpu.multiprocessors;
  } else {
    LaunchAttribute cluster = {};
    cluster.kind = LaunchAttribute::ClusterDimension;
    cluster.cluster[0] = there.blocks;
    cluster.cluster[1] = cluster.cluster[2] = 1;
    LaunchConfig config{
        {there.blocks, 1, 1}, {there.threads, 1, 1}, there.sharedBytes, nullptr, &cluster, 1};
    result = cuda.cuOccupancyMaxActiveClusters(&number, there.function, &config);
  }
  if (result != Success)
    return callError(cuda, result, "count the blocks of `" + kernel.name + "` that fit");
  // Not every GPU has room for clusters that are larger than what all have to run.
  if (number < 1 && there.blocks > PortableCluster)
    return outOfResources(
        kernel, "blocks of a cluster (`num_ctas`, or NEREID_CLUSTERS=0 where it is not given)",
        there.blocks, PortableCluster);
  // None: the launch fails, and says why.
  there.running = unsigned(std::max(number, 1));
  return nullptr;
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
  there.number = device;
  there.threads = unsigned(info.numWarps) * 32;
  there.sharedBytes = unsigned(info.sharedBytes);
  there.blocks = unsigned(info.numCtas);
  if (!kernel.request.options.cooperative && !kernel.request.options.pdl) {
    there.mostSplits = unsigned(info.mostSplits);
    there.pairs = info.pairs;
  }
  there.name = name;
  there.needsExtras = kernel.request.options.cooperative || kernel.request.options.pdl ||
                      info.numCtas > 1 || there.mostSplits > 1 || there.pairs ||
                      info.isPersistent || !info.tensorMaps.empty() || info.globalScratchBytes;
  there.currentContext = cuda.cuCtxGetCurrent;
  there.launchKernel = cuda.cuLaunchKernel;

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
  if (there.mostSplits > 1)
    there.splitRoom = unsigned(gpu->multiprocessors) * blocksToFill(*gpu, there);
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
  if (info.numCtas > PortableCluster) {
    result = cuda.cuKernelSetAttribute(FunctionLargeClusters, 1, function, device);
    if (result != Success)
      return callError(cuda, result, "allow large clusters for `" + kernel.name + "`");
  }
  result = cuda.cuCtxGetCurrent(&there.context);
  if (result == Success)
    result = cuda.cuKernelGetFunction(&there.function, function);
  if (result != Success)
    return callError(cuda, result, "load `" + kernel.name + "`");
  if (info.isPersistent || info.numCtas > PortableCluster)
    if (ErrorPtr error = countRunning(cuda, kernel, *gpu, there))
      return error;
  if (!info.isPersistent)
    there.running = 0;
  there.ready.store(true, std::memory_order_release);
  kernel.ready.store(&there, std::memory_order_release);
  return nullptr;
}

class CudaDevice final : public runtime::Device {
public:
  std::unique_ptr<DeviceCode> attach(const nrd_kernel &kernel) const override {
    return std::make_unique<CudaCode>(kernel);
  }

  ErrorPtr launch(const nrd_kernel &kernel, llvm::ArrayRef<nrd_arg> args,
                  const nrd_launch &launch) const override;
  bool launchPacked(const nrd_kernel &kernel, llvm::ArrayRef<nrd_arg> args, Slots &slots,
                    const ReadyKernel *ready, const nrd_launch &launch,
                    ErrorPtr &error) const override;

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
    out["most_splits"] = info.mostSplits;
    out["pairs"] = info.pairs;
    out["persistent"] = info.isPersistent;
    out["num_stages"] = options.numStages;
    out["maxnreg"] = options.maxRegisters ? llvm::json::Value(options.maxRegisters) : nullptr;
    out["shared"] = info.sharedBytes;
    out["registers"] = info.registers;
    if (auto multiprocessor = explain::multiprocessorOf(info.arch);
        multiprocessor && info.registers)
      out["resident_blocks"] =
          explain::occupancyOf(*multiprocessor, {int(info.numWarps) * 32, int(info.registers),
                                                 int(info.sharedBytes)})
              .blocks;
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

/// A pointer that the device does not reach; the error names the argument that sent the kernel
/// there.
ErrorPtr outOfReach(const nrd_kernel &kernel, llvm::ArrayRef<nrd_arg> args, size_t index,
                    int device) {
  const nrd_arg &arg = args[index];
  const std::string &name = kernel.params[index].name;
  const auto *other = llvm::find_if(args, [&](const nrd_arg &each) {
    return pointsToMemory(each) && each.memory == NRD_MEMORY_CUDA + device;
  });
  if (arg.memory >= NRD_MEMORY_CUDA) {
    int64_t there = arg.memory - NRD_MEMORY_CUDA;
    if (other == args.end())
      return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::PointerOnOtherGpu, name, there,
                       device);
    return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::PointersOnTwoGpus, name, there,
                     kernel.params[size_t(other - args.begin())].name, device);
  }
  if (other == args.end())
    return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::PointerNotOnGpu, int64_t(index), name);
  return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::PointersInTwoPlaces, name,
                   kernel.params[size_t(other - args.begin())].name, device, int64_t(index));
}

/// The address under which the current device reaches memory that lies elsewhere: pinned memory of
/// the host, memory of another device where PyTorch or the program has opened the way to it. An
/// error when there is none.
ErrorPtr foreignPointer(const Driver &cuda, const nrd_kernel &kernel, llvm::ArrayRef<nrd_arg> args,
                        size_t index, int device, uint64_t &slot) {
  DevicePointer address = 0;
  if (!slot || cuda.cuPointerGetAttribute(&address, PointerDevicePointer, slot) == Success) {
    slot = slot ? address : 0;
    return nullptr;
  }
  return outOfReach(kernel, args, index, device);
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

/// Whether no pointer is known to lie elsewhere than on this device.
bool allReachable(llvm::ArrayRef<nrd_arg> args, int device) {
  const int here = NRD_MEMORY_CUDA + device;
  bool reachable = true;
  for (const nrd_arg &arg : args)
    reachable &= arg.memory == NRD_MEMORY_UNKNOWN || arg.memory == here || !pointsToMemory(arg);
  return reachable;
}

/// What a launch needs beyond its grid and parameters: attributes, tensor maps, scratch memory.
struct Extras {
  LaunchAttribute attributes[3];
  unsigned attributeCount = 0;
  llvm::SmallVector<TensorMap, 4> maps;
  DevicePointer scratch = 0;

  LaunchAttribute &add(int kind) {
    LaunchAttribute &attribute = attributes[attributeCount++];
    attribute = {};
    attribute.kind = kind;
    return attribute;
  }
};

/// The blocks of a cluster that runs a program: where there may be several, as many as fill the
/// device with the programs of the grid, if there are enough iterations for them.
unsigned blocksOfProgram(const Ready &ready, const LaunchInfo &info, int64_t programs,
                         const Slots &slots) {
  unsigned blocks = ready.blocks;
  if (ready.mostSplits == 1 || programs * 2 > ready.splitRoom)
    return blocks;
  int64_t iterations = info.splitRule.iterations(slots.data());
  for (int32_t least : info.splitRule.least) {
    if (programs * blocks * 2 > ready.splitRoom || iterations < least)
      break;
    blocks *= 2;
  }
  return blocks;
}

/// How many programs of the first axis are started: of a persistent kernel as many as run at the
/// same time with those of the other axes.
unsigned programsAlongX(const Ready &ready, const nrd_launch &launch) {
  if (!ready.running)
    return launch.grid[0];
  uint64_t others = uint64_t(launch.grid[1]) * launch.grid[2];
  return unsigned(std::min<uint64_t>(launch.grid[0], llvm::divideCeil(ready.running, others)));
}

ErrorPtr makeExtras(const Driver &driver, const nrd_kernel &kernel, const LaunchInfo &info,
                    TensorMapCache &maps, int64_t programs, unsigned cluster, Stream stream,
                    const Slots &slots, Extras &out) {
  if (kernel.request.options.cooperative)
    out.add(LaunchAttribute::Cooperative).flag = 1;
  if (kernel.request.options.pdl)
    out.add(LaunchAttribute::ProgrammaticSerialization).flag = 1;
  if (cluster > 1) {
    LaunchAttribute &size = out.add(LaunchAttribute::ClusterDimension);
    size.cluster[0] = cluster;
    size.cluster[1] = size.cluster[2] = 1;
  }
  if (!info.tensorMaps.empty())
    if (ErrorPtr error = maps.get(driver, info.tensorMaps, slots.data(), out.maps))
      return error;
  if (!info.globalScratchBytes)
    return nullptr;
  Result result =
      driver.cuMemAllocAsync(&out.scratch, size_t(info.globalScratchBytes * programs), stream);
  return result == Success
             ? nullptr
             : callError(driver, result, "reserve scratch memory for `" + kernel.name + "`");
}

ErrorPtr launchWithExtras(const Driver &driver, const nrd_kernel &kernel, const CudaCode &code,
                          const Ready &ready, Function function, const nrd_launch &launch,
                          Slots &slots, Result &result) {
  if (ready.blocks > 1) {
    const DeviceInfo *gpu;
    if (ErrorPtr error = deviceInfo(driver, ready.number, gpu))
      return error;
    int64_t most = gpu->maxGrid[0] / int64_t(ready.blocks);
    if (int64_t(launch.grid[0]) > most)
      return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::GpuGridTooLarge, 0,
                       int64_t(launch.grid[0]), most);
  }
  auto stream = static_cast<Stream>(streamOfLaunch(launch, ready.number));
  int64_t programs = int64_t(launch.grid[0]) * launch.grid[1] * launch.grid[2];
  unsigned blocks = blocksOfProgram(ready, code.info, programs, slots);
  unsigned cluster = ready.pairs && launch.grid[0] % 2 == 0 ? 2 : blocks;
  Extras extras;
  if (ErrorPtr error = makeExtras(driver, kernel, code.info, code.maps, programs, cluster, stream,
                                  slots, extras))
    return error;
  slots.push_back(extras.scratch);
  slots.push_back(ready.running ? launch.grid[0] : 0); // profile scratch
  llvm::SmallVector<void *, 64> params;
  for (uint64_t &slot : slots)
    params.push_back(&slot);
  for (TensorMap &map : extras.maps)
    params.push_back(&map);
  unsigned x = programsAlongX(ready, launch) * blocks;
  if (extras.attributeCount) {
    LaunchConfig config{{x, launch.grid[1], launch.grid[2]},
                        {ready.threads, 1, 1},
                        ready.sharedBytes,
                        stream,
                        extras.attributes,
                        extras.attributeCount};
    result = driver.cuLaunchKernelEx(&config, function, params.data(), nullptr);
  } else {
    result = driver.cuLaunchKernel(function, x, launch.grid[1], launch.grid[2], ready.threads, 1, 1,
                                   ready.sharedBytes, stream, params.data(), nullptr);
  }
  if (extras.scratch)
    driver.cuMemFreeAsync(extras.scratch, stream);
  return nullptr;
}

/// Hands the kernel to the driver; the context of `there` is current.
ErrorPtr start(const Driver &driver, const nrd_kernel &kernel, const CudaCode::OnDevice &there,
               Function function, const nrd_launch &launch, Slots &slots) {
  const auto &code = static_cast<const CudaCode &>(*kernel.onDevice);
  if (isTall(launch)) [[unlikely]] {
    const DeviceInfo *gpu;
    if (ErrorPtr error = deviceInfo(driver, there.number, gpu))
      return error;
    for (int axis = 1; axis < 3; ++axis)
      if (int64_t(launch.grid[axis]) > gpu->maxGrid[axis])
        return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::GpuGridTooLarge, axis,
                         int64_t(launch.grid[axis]), gpu->maxGrid[axis]);
  }
  Result result;
  if (!there.needsExtras) [[likely]] {
    size_t count = slots.size();
    slots.resize_for_overwrite(count + 2);
    result = startPlain(there, function, launch, slots.data(), count);
  } else if (ErrorPtr error =
                 launchWithExtras(driver, kernel, code, there, function, launch, slots, result)) {
    return error;
  }
  if (result != Success) [[unlikely]]
    return launchError(driver, kernel, there,
                       int64_t(launch.grid[0]) * launch.grid[1] * launch.grid[2], result);
  noteLaunch(there.name);
  return nullptr;
}

} // namespace

ErrorPtr CudaDevice::launch(const nrd_kernel &kernel, llvm::ArrayRef<nrd_arg> args,
                            const nrd_launch &launch) const {
  if (!kernel.onDevice) [[unlikely]]
    return notLoadable(kernel);
  auto &code = static_cast<CudaCode &>(*kernel.onDevice);
  Slots slots;
  bool empty;
  if (ErrorPtr error = packArguments(kernel, args, slots))
    return error;
  // For the context of the last launches a single query of the driver is enough: which context is
  // current.
  if (const ReadyKernel *there = kernel.ready.load(std::memory_order_acquire)) [[likely]]
    if (ErrorPtr error; allReachable(args, there->number) &&
                        launchPacked(kernel, args, slots, there, launch, error)) [[likely]]
      return error;

  if (ErrorPtr error = checkGrid(launch, empty))
    return error;
  const Driver *driver;
  if (ErrorPtr error = Driver::get(driver))
    return error;
  int device;
  if (ErrorPtr error = deviceOfLaunch(args, &launch, device))
    return error;
  ContextScope context(*driver);
  if (ErrorPtr error = context.enter(device))
    return error;
  for (size_t i = 0, slot = 0; i < args.size(); ++i) {
    if (!kernel.params[i].passed)
      continue;
    if (pointsToMemory(args[i]) && args[i].memory != NRD_MEMORY_UNKNOWN &&
        args[i].memory != NRD_MEMORY_CUDA + device)
      if (ErrorPtr error = foreignPointer(*driver, kernel, args, i, device, slots[slot]))
        return error;
    slot += kernel.params[i].codeParams();
  }
  if (empty)
    return nullptr;
  CudaCode::OnDevice *there;
  if (ErrorPtr error = code.prepare(*driver, kernel, device, there))
    return error;
  // A kernel can stand for its function in any context.
  Function function = context.current() == there->context
                          ? there->function
                          : reinterpret_cast<Function>(code.function);
  return start(*driver, kernel, *there, function, launch, slots);
}

bool CudaDevice::launchPacked(const nrd_kernel &kernel, llvm::ArrayRef<nrd_arg>, Slots &slots,
                              const ReadyKernel *ready, const nrd_launch &launch,
                              ErrorPtr &error) const {
  if (!isReadyFor(readyOf(*ready), launch)) [[unlikely]]
    return false;
  error = startReady(kernel, readyOf(*ready), launch, slots);
  return true;
}

ErrorPtr cuda::startWithExtras(const nrd_kernel &kernel, const Ready &ready,
                               const nrd_launch &launch, Slots &slots) {
  return start(*Driver::tryGet(), kernel, static_cast<const CudaCode::OnDevice &>(ready),
               ready.function, launch, slots);
}

ErrorPtr cuda::refused(const nrd_kernel &kernel, const Ready &ready, const nrd_launch &launch,
                       Result result) {
  return launchError(*Driver::tryGet(), kernel, static_cast<const CudaCode::OnDevice &>(ready),
                     int64_t(launch.grid[0]) * launch.grid[1] * launch.grid[2], result);
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

void cuda::setStreamProvider(nrd_stream_provider provider) {
  launchState.streamProvider.store(provider, std::memory_order_release);
}

const runtime::Device &runtime::cudaDevice() {
  static const CudaDevice device;
  return device;
}
