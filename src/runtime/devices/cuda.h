// The CUDA devices of this machine, as far as the dispatcher and the C ABI ask: which there are,
// which one a launch is for, and what they can do. Launching itself is behind `cudaDevice()`.
#pragma once

#include "nereid/nereid.h"
#include "runtime/devices/cuda_driver.h"
#include "runtime/error.h"
#include "runtime/launch_state.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/JSON.h"

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

/// Whether the address is in memory of some device; false without a driver.
bool isDeviceMemory(const void *address);

/// The number of the device whose memory the address is in; -1 for other addresses and without a
/// driver.
int deviceOfAddress(const void *address);

/// Name, arch, multiprocessor_count, max_shared_mem, max_num_regs, warpSize, sm_clock_rate,
/// mem_clock_rate, mem_bus_width, l2_cache_size.
ErrorPtr properties(int device, llvm::json::Object &out);

ErrorPtr synchronize(int device);

/// A kernel on a device where it is ready to be launched: what a launch of it takes, side by side.
/// Never changes once it is ready.
struct alignas(64) Ready {
  /// The kernel in the context that was current when it was prepared: launching this is quicker
  /// than launching the kernel, which the driver has to look up.
  Context context = nullptr;
  Function function = nullptr;
  decltype(Driver::cuCtxGetCurrent) currentContext = nullptr;
  decltype(Driver::cuLaunchKernel) launchKernel = nullptr;
  const std::string *name = nullptr;     ///< for `noteLaunch`
  unsigned threads = 0, sharedBytes = 0; ///< of a block
  unsigned blocks = 1;                   ///< of a program: those of a cluster
  int number = 0;                        ///< of the device
  bool needsExtras = false;              ///< a launch takes more than grid and parameters
};

/// Where the kernel was prepared last; null before that.
const Ready *readyLatest(const nrd_kernel &kernel);

/// The CUstream that a launch on a device goes to.
inline void *streamOfLaunch(const nrd_launch &launch, int device) {
  nrd_stream_provider provider = launchState.streamProvider.load(std::memory_order_acquire);
  return launch.with_stream || launch.stream || !provider ? launch.stream : provider(device);
}
void setStreamProvider(nrd_stream_provider provider);

} // namespace nereid::runtime::cuda
