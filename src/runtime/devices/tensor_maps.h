// Tensor maps of a launch: the copy engine's descriptions of tensors, made from the arguments.
#pragma once

#include "kernel_abi/TensorMapPlan.h"
#include "runtime/devices/cuda_driver.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/JSON.h"

namespace nereid::runtime::cuda {

/// The maps of these plans, one each. `slots`: the arguments of the kernel as they are passed. An
/// error names the tensor that the copy engine cannot describe.
ErrorPtr encodeTensorMaps(const Driver &driver, llvm::ArrayRef<gpu::TensorMapPlan> plans,
                          const uint64_t *slots, llvm::SmallVectorImpl<TensorMap> &maps);

/// The plans as JSON, for who launches the kernel without this library. A number is a list of
/// steps, each an operation (gpu::HostNumber::Op) and its value.
llvm::json::Array describeTensorMaps(llvm::ArrayRef<gpu::TensorMapPlan> plans);

} // namespace nereid::runtime::cuda
