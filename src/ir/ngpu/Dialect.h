// The ngpu dialect: tile programs on a GPU. Ops.td and Types.td describe it; the helpers here are
// what passes and emitters ask of its types.
#pragma once
#include "ir/tile/Dialect.h"
#include "layout/LinearLayout.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace nereid::ngpu {

/// Effects on shared memory, which no access to global memory can touch.
struct SharedMemory : mlir::SideEffects::Resource::Base<SharedMemory> {
  llvm::StringRef getName() override { return "<shared memory>"; }
};
/// The queue of asynchronous copies of a thread.
struct AsyncCopies : mlir::SideEffects::Resource::Base<AsyncCopies> {
  llvm::StringRef getName() override { return "<asynchronous copies>"; }
};

/// A buffer of one i64.
bool isMBarrier(mlir::Type type);

} // namespace nereid::ngpu

#include "ir/ngpu/Dialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/ngpu/Attributes.h.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/ngpu/Types.h.inc"
#define GET_OP_CLASSES
#include "ir/ngpu/Ops.h.inc"

namespace nereid::ngpu {

/// Loads ngpu and all that tile IR is made of.
void loadDialects(mlir::MLIRContext &context);

/// The layout of a tensor that has one; null for a scalar or a tensor without.
LayoutAttr layoutOf(mlir::Type type);

/// `type` (a tensor) with this layout.
mlir::RankedTensorType withLayout(mlir::Type type, LayoutAttr layout);
mlir::RankedTensorType withLayout(mlir::Type type, const layout::LinearLayout &layout);

/// Registers a thread holds of a tensor with a layout: those of the core times the odd repeats.
unsigned registerCount(mlir::RankedTensorType type);

/// Where register `reg` of a thread is, without the part that lane and warp add (by XOR to the
/// core's coordinates): core coordinates and the repeat's displacement.
struct RegisterPlace {
  layout::Coords core;
  layout::Coords repeatOffset; ///< added after the XOR
};
RegisterPlace registerPlace(mlir::RankedTensorType type, unsigned reg);

/// `ngpu.num_warps` of the kernel around `op` (within a part of warp_specialize: of that part).
unsigned warpCount(mlir::Operation *op);
/// `ngpu.num_blocks` of the kernel around `op`: blocks that run one program, a power of two.
unsigned blockCount(mlir::Operation *op);
/// Of a kernel whose programs a cluster of any number of blocks runs, up to this one
/// (`sum_blocks`).
constexpr llvm::StringLiteral splitsName = "ngpu.splits";
/// The number; 1 where it is missing.
unsigned splitCount(mlir::Operation *kernel);
/// Of a kernel whose programs 2i and 2i + 1 along the first axis may be the blocks of one cluster,
/// if the launcher starts them so: a pair (`shared` copies).
constexpr llvm::StringLiteral pairsName = "ngpu.pairs";
bool isPaired(mlir::Operation *kernel);
/// Of a kernel whose blocks or clusters run several programs each (`programs`).
constexpr llvm::StringLiteral persistentName = "ngpu.persistent";
/// Of a kernel whose blocks send one another partial results of reductions (SendPartials.cpp): the
/// bytes of a slot for them, of which there are two behind two mbarriers, where the block's shared
/// memory begins.
constexpr llvm::StringLiteral sendBytesName = "ngpu.send_bytes";
/// The number; 0 where it is missing.
unsigned sendBytes(mlir::Operation *kernel);
/// Bytes of the mbarriers in front of the slots.
constexpr unsigned kSendBarrierBytes = 16;
/// The mark of a reduction that does so.
constexpr llvm::StringLiteral sendsName = "ngpu.sends";
/// The mark of a loop whose copies another part of warp_specialize issues.
constexpr llvm::StringLiteral specialisedName = "ngpu.specialised";
/// The mark of a `local_alloc` each part of which only one group of four warps accesses, ordered by
/// `group_barrier`: no barrier of the block is needed for it.
constexpr llvm::StringLiteral byGroupName = "ngpu.by_group";
/// The warps that parts of warp_specialize have in a kernel besides its own.
struct FurtherWarps {
  llvm::SmallVector<unsigned> first; ///< of each part, counted from the block's first warp
  unsigned count = 0;                ///< all of them, those that idle included
};
FurtherWarps furtherWarps(WarpSpecializeOp op);
/// The only warp_specialize of a kernel; null when there is none.
WarpSpecializeOp warpSpecializeOf(mlir::Operation *kernel);
/// Lanes of a warp: `ngpu.num_lanes` of the kernel around `op`.
unsigned laneCount(mlir::Operation *op);
/// `ngpu.scratch`: where the scratch shared memory of an op begins, in bytes from the start of the
/// block's; nothing for an op that has none.
std::optional<uint32_t> scratchOffset(mlir::Operation *op);
void setScratchOffset(mlir::Operation *op, uint32_t bytes);
/// Threads that execute `op`.
inline unsigned threadCount(mlir::Operation *op) {
  return laneCount(op) * warpCount(op);
}

} // namespace nereid::ngpu
