#include "ir/tile/Dialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

#define GET_OP_CLASSES
#include "ir/tile/Ops.cpp.inc"

using namespace mlir;

namespace nereid::tile {

#define VERIFY(OP) LogicalResult OP::verify() { return success(); }
VERIFY(RangeOp) VERIFY(SplatOp) VERIFY(UnsplatOp) VERIFY(BroadcastOp) VERIFY(ExpandDimsOp) VERIFY(ReshapeOp)
VERIFY(TransOp) VERIFY(JoinOp) VERIFY(SplitOp) VERIFY(CatOp) VERIFY(AddPtrOp) VERIFY(IntToPtrOp) VERIFY(PtrToIntOp)
VERIFY(PtrCastOp) VERIFY(FpCastOp) VERIFY(LoadOp) VERIFY(StoreOp) VERIFY(AtomicRMWOp) VERIFY(AtomicCASOp)
VERIFY(ExternOp) VERIFY(DotOp) VERIFY(ReduceOp) VERIFY(ScanOp) VERIFY(HintOp) VERIFY(AssertOp)
#define FOLD(OP) OpFoldResult OP::fold(FoldAdaptor) { return {}; }
FOLD(RangeOp) FOLD(SplatOp) FOLD(UnsplatOp) FOLD(BroadcastOp) FOLD(ExpandDimsOp) FOLD(ReshapeOp) FOLD(TransOp)
FOLD(AddPtrOp) FOLD(PtrCastOp) FOLD(FpCastOp) FOLD(MulHiUOp)
#define CANON(OP) void OP::getCanonicalizationPatterns(RewritePatternSet &, MLIRContext *) {}
CANON(BroadcastOp) CANON(ExpandDimsOp) CANON(ReshapeOp) CANON(TransOp) CANON(SplitOp) CANON(AddPtrOp) CANON(LoadOp)
CANON(StoreOp) CANON(DotOp) CANON(ReduceOp) CANON(AssumeOp) CANON(AssertOp)

void LoadOp::getEffects(SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  effects.emplace_back(MemoryEffects::Read::get());
  if (getIsVolatile())
    effects.emplace_back(MemoryEffects::Write::get());
}

void ExternOp::getEffects(SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  if (getPure())
    return;
  effects.emplace_back(MemoryEffects::Read::get());
  effects.emplace_back(MemoryEffects::Write::get());
}

} // namespace nereid::tile
