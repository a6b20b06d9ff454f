// The CUDA devices of this machine, as far as the dispatcher and the C ABI ask: which there are,
// which one a launch is for, and what they can do. Launching itself is behind `cudaDevice()`.
#pragma once

#include "nereid/nereid.h"
#include "runtime/devices/cuda_driver.h"
#include "runtime/devices/device.h"
#include "runtime/error.h"
#include "runtime/launch_state.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/JSON.h"

#include <cstdint>

namespace nereid::runtime::cuda {

/// Number of usable devices; 0 without a driver. The first call opens the driver.
int deviceCount();
/// "13.0": what the driver speaks.
std::string driverVersion();
/// Success, or which part is missing.
ErrorPtr check();
/// The device of the calling thread's current context, else 0.
ErrorPtr currentDevice(int &out);
ErrorPtr setCurrentDevice(int device);

/// The device that a launch is for: the one it names, else the current one where the pointers are
/// (or could be) there, else that of the first pointer.
ErrorPtr deviceOfLaunch(llvm::ArrayRef<nrd_arg> args, const nrd_launch *launch, int &out);

/// 90 for sm_90. Success only with a driver and this device.
ErrorPtr architecture(int device, int &out);

/// Whose memory an address is in.
enum class MemoryKind : uint8_t {
  Pageable, ///< ordinary memory of the host, or none: no GPU reaches it
  Pinned,   ///< memory of the host that GPUs reach
  Device
};
/// Everything is pageable without a driver, and before the driver is initialised: this opens the
/// driver's library and does not initialise it.
MemoryKind memoryKindOf(const void *address);
/// Whether there is a driver library, with devices or not; does not initialise it.
bool hasDriver();
inline bool isDeviceMemory(const void *address) {
  return memoryKindOf(address) == MemoryKind::Device;
}

/// The number of the device whose memory the address is in; -1 for other addresses and without a
/// driver.
int deviceOfAddress(const void *address);

/// Name, arch, multiprocessor_count, max_shared_mem, max_num_regs, warpSize, sm_clock_rate,
/// mem_clock_rate, mem_bus_width, l2_cache_size.
ErrorPtr properties(int device, llvm::json::Object &out);

ErrorPtr synchronize(int device);

/// A kernel on a device where it is ready to be launched: what a launch of it takes, side by side.
/// Never changes once it is ready.
struct alignas(64) Ready : ReadyKernel {
  /// The kernel in the context that was current when it was prepared: launching this is quicker
  /// than launching the kernel, which the driver has to look up.
  Context context = nullptr;
  Function function = nullptr;
  decltype(Driver::cuCtxGetCurrent) currentContext = nullptr;
  decltype(Driver::cuLaunchKernel) launchKernel = nullptr;
  const std::string *name = nullptr;     ///< for `noteLaunch`
  unsigned threads = 0, sharedBytes = 0; ///< of a block
  unsigned blocks = 1;                   ///< of a program: those of a cluster
  unsigned mostSplits = 1;               ///< of a program, if the launch may choose how many
  unsigned splitRoom = 0;                ///< blocks of a whole grid that are then started at most
  bool pairs = false;                    ///< programs of an even grid are started in pairs
  unsigned running = 0;                  ///< blocks or clusters of a persistent kernel at the same
                                         ///< time; 0: it is none
  bool needsExtras = false;              ///< a launch takes more than grid and parameters
};

/// What a kernel of a GPU keeps as ready (`nrd_kernel::ready`) is one of these.
inline const Ready &readyOf(const ReadyKernel &ready) {
  return static_cast<const Ready &>(ready);
}

/// The CUstream that a launch on a device goes to.
inline void *streamOfLaunch(const nrd_launch &launch, int device) {
  nrd_stream_provider provider = launchState.streamProvider.load(std::memory_order_acquire);
  return launch.with_stream || launch.stream || !provider ? launch.stream : provider(device);
}
void setStreamProvider(nrd_stream_provider provider);

/// Notes that a kernel of this name was launched; the text must live for ever (`internedName`).
void noteOther(const std::string *name);
inline void noteLaunch(const std::string *name) {
  if (launchState.latestName.load(std::memory_order_relaxed) != name) [[unlikely]]
    noteOther(name);
}

/// Whether it takes a question to know that the grid is not too large for a GPU.
inline bool isTall(const nrd_launch &launch) {
  return launch.grid[1] > 65535 || launch.grid[2] > 65535;
}

/// Whether a launch may go where a kernel is ready without any further question: its grid is an
/// ordinary one, it is meant for this device, and its context is the thread's.
inline bool isReadyFor(const Ready &ready, const nrd_launch &launch) {
  bool empty = launch.grid[0] == 0 || launch.grid[1] == 0 || launch.grid[2] == 0;
  if (launchState.inherited.load(std::memory_order_relaxed) || empty ||
      launch.grid[0] > uint32_t(INT32_MAX) || isTall(launch) ||
      (launch.device && launch.device != ready.number + 1)) [[unlikely]]
    return false;
  Context current = nullptr;
  ready.currentContext(&current);
  return current == ready.context;
}

/// The driver's launch of a kernel that needs no extras; it takes two empty pointers (scratch
/// memory, profile scratch memory) after its arguments, for which `slots` has room behind `count`.
/// `function`: its own, or the kernel.
inline Result startPlain(const Ready &ready, Function function, const nrd_launch &launch,
                         uint64_t *slots, size_t count) {
  constexpr size_t inlineSize = 50;
  auto stream = static_cast<Stream>(streamOfLaunch(launch, ready.number));
  slots[count] = slots[count + 1] = 0;
  void *few[inlineSize], **params = few;
  std::unique_ptr<void *[]> many;
  if (count + 2 > inlineSize) [[unlikely]] {
    many = std::make_unique_for_overwrite<void *[]>(count + 2);
    params = many.get();
  }
#pragma clang loop vectorize(disable) unroll(disable)
  for (size_t i = 0; i < count + 2; ++i)
    params[i] = slots + i;
  return ready.launchKernel(function, launch.grid[0], launch.grid[1], launch.grid[2], ready.threads,
                            1, 1, ready.sharedBytes, stream, params, nullptr);
}

/// The error for a launch that the driver refused.
ErrorPtr refused(const nrd_kernel &kernel, const Ready &ready, const nrd_launch &launch,
                 Result result);

/// Launches a kernel that is ready (`isReadyFor`) with packed arguments.
ErrorPtr startWithExtras(const nrd_kernel &kernel, const Ready &ready, const nrd_launch &launch,
                         Slots &slots);
inline ErrorPtr startReady(const nrd_kernel &kernel, const Ready &ready, const nrd_launch &launch,
                           Slots &slots) {
  if (ready.needsExtras) [[unlikely]]
    return startWithExtras(kernel, ready, launch, slots);
  size_t count = slots.size();
  slots.resize_for_overwrite(count + 2);
  if (Result result = startPlain(ready, ready.function, launch, slots.data(), count)) [[unlikely]]
    return refused(kernel, ready, launch, result);
  noteLaunch(ready.name);
  return nullptr;
}

} // namespace nereid::runtime::cuda
