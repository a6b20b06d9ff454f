// Tensor maps for the descriptors that the copy engine serves (`tile.make_descriptor` with
// `copy_engine`): planned for the launcher first, then their accesses are written in terms of
// buffers, copies and mbarriers.
#pragma once
#include "gpu/Options.h"
#include "ir/ngpu/Dialect.h"
#include "kernel_abi/TensorMapPlan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/Error.h"

namespace nereid::gpu {

/// Numbers the descriptors (their `number`) and notes on the kernel how many there are
/// (`ngpu.tensor_maps`); their plans, in order. Those that a launcher cannot make, or that the
/// device has no copy engine for, lose their mark and become pointers. Runs on tile IR, before
/// layouts.
llvm::Expected<std::vector<TensorMapPlan>> planTensorMaps(mlir::func::FuncOp kernel,
                                                          const GpuOptions &options);

/// The map of a numbered descriptor.
mlir::Value tensorMapOf(mlir::OpBuilder &builder, mlir::Value desc);

/// The buffer that a copy of `desc` fills, or that is stored through it: the block, in the layout
/// of `tmaLayout`.
ngpu::BufferType copyBufferOf(tile::DescType desc);

/// May ordinary instructions of the kernel have written global memory before `access`, or have
/// waited for others who did? The engine sees that only behind a fence for global memory.
bool followsWrites(mlir::Operation *access);

/// A buffer that is one mbarrier.
ngpu::BufferType mbarrierType(mlir::MLIRContext *context);

/// What is left after pipelining: each load waits for its copy, each store for the engine to have
/// read its buffer, or to have written memory where that may be accessed again. Loads that follow
/// one another share an mbarrier. Stores of divided kernels may end later (OverlapStores.h); true:
/// some do. `plans`: of the kernel's maps; of a map without one it is not known whose memory it
/// describes. Runs on IR with layouts.
bool lowerTensorCopies(mlir::func::FuncOp kernel, const GpuOptions &options,
                       llvm::MutableArrayRef<TensorMapPlan> plans);

} // namespace nereid::gpu
