// The interface of devices: starting a kernel of the target of the same name, and facts about a
// kernel. Everything else about a device stays behind this interface.
#pragma once

#include "runtime/error.h"
#include "runtime/target_name.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/JSON.h"

#include <memory>

namespace nereid::runtime {

/// Data of a device for a kernel (loaded modules); freed with the kernel.
class DeviceCode {
public:
  virtual ~DeviceCode() = default;
};

/// A kernel on a device where nothing is left to do before a launch of it. The device adds what it
/// needs.
struct ReadyKernel {
  int number = 0; ///< of the device
};

/// One slot of 8 bytes for each parameter of the code (ParamSlot::codeParams); a narrow value is in
/// the slot's first bytes.
using Slots = llvm::SmallVector<uint64_t, 48>;

class Device {
public:
  virtual ~Device() = default;

  /// Called once, when the kernel is compiled.
  virtual std::unique_ptr<DeviceCode> attach(const nrd_kernel &) const { return nullptr; }

  /// Launches with one argument per parameter of the function (constants are skipped), which must
  /// match the kernel's specialisation as far as their kinds go. A grid with a zero launches
  /// nothing.
  virtual ErrorPtr launch(const nrd_kernel &kernel, llvm::ArrayRef<nrd_arg> args,
                          const nrd_launch &launch) const = 0;

  /// The same with the arguments packed already (`slots`), which LaunchPattern has compared; on a
  /// GPU the kernel is ready there (`ready`). False, and nothing has happened, where it takes
  /// `launch` to do it.
  virtual bool launchPacked(const nrd_kernel &kernel, llvm::ArrayRef<nrd_arg> args, Slots &slots,
                            const ReadyKernel *ready, const nrd_launch &launch,
                            ErrorPtr &error) const = 0;

  /// Adds to the kernel's metadata what concerns only this device's kernels.
  virtual void describe(const nrd_kernel &, llvm::json::Object &) const {}

  /// The kernel's properties on device number `ordinal` (registers, limits), loading it there.
  virtual ErrorPtr properties(const nrd_kernel &kernel, int ordinal,
                              nrd_kernel_properties &out) const;
};

const Device &cpuDevice();
const Device &cudaDevice();
inline const Device &deviceOf(Backend backend) {
  return backend == Backend::Cpu ? cpuDevice() : cudaDevice();
}

} // namespace nereid::runtime
