// Tensor maps of a launch: what the copy engine is told about tensors, made of the arguments.
#pragma once

#include "gpu/TensorMapPlan.h"
#include "runtime/devices/cuda_driver.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace nereid::runtime::cuda {

/// The driver's CUtensorMap.
struct alignas(64) TensorMap {
  uint64_t words[16];
};
static_assert(sizeof(TensorMap) == 128);

/// The maps of these plans, one each. `slots`: the arguments of the kernel as they are passed. An
/// error names the tensor that the copy engine cannot describe.
ErrorPtr encodeTensorMaps(const Driver &driver, llvm::ArrayRef<gpu::TensorMapPlan> plans,
                          const uint64_t *slots, llvm::SmallVectorImpl<TensorMap> &maps);

} // namespace nereid::runtime::cuda
