// Tensor maps of a launch: the copy engine's descriptions of tensors, made from the arguments.
#pragma once

#include "kernel_abi/TensorMapPlan.h"
#include "runtime/devices/cuda_driver.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/JSON.h"

#include <memory>
#include <mutex>

namespace nereid::runtime::cuda {

/// The tensor maps of one kernel. A map depends on its numbers alone (address, sizes, strides), so
/// the maps of earlier launches with equal numbers are used again. May be asked by several threads.
class TensorMapCache {
public:
  /// The maps of these plans, one each: always the same plans. `slots`: the arguments of the kernel
  /// as they are passed. An error names the tensor that the copy engine cannot describe; an
  /// optional map is zeros instead.
  ErrorPtr get(const Driver &driver, llvm::ArrayRef<gpu::TensorMapPlan> plans,
               const uint64_t *slots, llvm::SmallVectorImpl<TensorMap> &maps);

private:
  struct Entry {
    llvm::SmallVector<uint64_t, 16> numbers;
    llvm::SmallVector<TensorMap, 4> maps;
  };
  static constexpr size_t entryCount = 64; ///< a power of two; numbers decide which may hold them

  std::mutex mutex;
  std::unique_ptr<Entry[]> entries;
};

/// The plans as JSON, for who launches the kernel without this library. A number is a list of
/// steps, each an operation (gpu::HostNumber::Op) and its value.
llvm::json::Array describeTensorMaps(llvm::ArrayRef<gpu::TensorMapPlan> plans);

} // namespace nereid::runtime::cuda
