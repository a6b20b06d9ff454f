// The CUDA devices of this machine, as far as the dispatcher and the C ABI ask: which there are,
// which one a launch is for, and what they can do. Launching itself is behind `cudaDevice()`.
#pragma once

#include "nereid/nereid.h"
#include "runtime/error.h"

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

/// The device that the kernel was prepared on last; -1 before that.
int deviceOfLatest(const nrd_kernel &kernel);

/// The CUstream that a launch on a device goes to.
void *streamOfLaunch(const nrd_launch &launch, int device);
void setStreamProvider(nrd_stream_provider provider);

} // namespace nereid::runtime::cuda
