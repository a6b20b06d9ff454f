// Parts of a kernel that different warps run at the same time.
//
// The block is launched with the warps of all parts. Those of the further parts leave the kernel's
// code at its entry, give back registers, compute what their part begins with, such as the place of
// a tile, and wait for the kernel's own warps at a barrier until these have prepared the mbarriers.
// Then they run the rest of their part, and end. The kernel's own go on as if they were alone:
// barrier 0 is theirs, with their number of threads.
#include "targets/nvidia/emit/Emitter.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace mlir;

namespace nereid::nvidia {
namespace {

/// Barrier 0 is the kernel's own warps'; 1 is that of all; each further part has the next one.
constexpr unsigned barrierOfAll = 1, firstPartBarrier = 2;

void meetAll(Emitter &e) {
  e.intrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_count,
              {e.i32(barrierOfAll), e.i32(32 * e.launchedWarps())});
}

/// Where the warps part. In a pair the other block has then prepared its mbarriers, too.
void meetBeforeParts(Emitter &e) {
  meetAll(e);
  e.barrierOfPair();
}

/// Groups of four warps take or give back registers; they have had `launched`.
void setRegisters(Emitter &e, int32_t registers, bool more) {
  if (registers)
    e.ptx(e.b.getVoidTy(),
          std::string("setmaxnreg.") + (more ? "inc" : "dec") + ".sync.aligned.u32 " +
              std::to_string(registers) + ";",
          "", {}, /*sideEffects=*/true, /*convergent=*/true);
}

/// Numbers that the rest of a part uses are computed here, beside the other warps, and not where
/// LLVM would move them, to their first use behind the barrier.
void keepBefore(Emitter &e, mlir::Value value) {
  llvm::Type *type = e.type(value.getType());
  if (type->isIntegerTy(32) && !isa<llvm::Constant>(e.scalar(value)))
    e.set(value, {e.ptx(type, "mov.b32 $0, $1;", "=r,r", {e.scalar(value)}, /*sideEffects=*/true)});
}

/// A part's code, with the barrier before the first op that may touch memory or wait.
void emitPart(Emitter &e, Block &part) {
  Operation *first = &part.front();
  while (first != part.getTerminator() && !first->getNumRegions() && isMemoryEffectFree(first))
    first = first->getNextNode();
  for (Operation *op = &part.front(); op != first && !e.failed(); op = op->getNextNode()) {
    e.emitOp(op);
    for (mlir::Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) {
            return !part.findAncestorOpInBlock(*user)->isBeforeInBlock(first);
          }))
        keepBefore(e, result);
  }
  meetBeforeParts(e);
  for (Operation *op = first; op != part.getTerminator() && !e.failed(); op = op->getNextNode())
    e.emitOp(op);
}

/// The further parts, one after the other: warps go to theirs, those that are left over end.
void emitFurtherParts(Emitter &e, ngpu::WarpSpecializeOp op, bool meetAgain) {
  ngpu::FurtherWarps further = ngpu::furtherWarps(op);
  llvm::Value *thread = e.intrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, {});
  llvm::BasicBlock *end = e.block("part.end");
  for (auto [number, first] : llvm::enumerate(further.first)) {
    unsigned warps = op.getPartitionWarps()[number];
    bool isLast = number + 1 == further.first.size();
    unsigned next = isLast ? e.launchedWarps() : further.first[number + 1];
    llvm::BasicBlock *other = isLast ? nullptr : e.block("next.part");
    if (!isLast) {
      llvm::BasicBlock *mine = e.block("part");
      e.b.CreateCondBr(e.b.CreateICmpULT(thread, e.i32(32 * next)), mine, other);
      e.enter(mine);
    }
    setRegisters(e, op.getRegisters()[number + 1], /*more=*/false);
    if (first + warps < next) { // a group of four has idle warps
      llvm::BasicBlock *working = e.block("part.working"), *idle = e.block("part.idle");
      e.b.CreateCondBr(e.b.CreateICmpULT(thread, e.i32(32 * (first + warps))), working, idle);
      e.enter(idle);
      meetBeforeParts(e);
      e.b.CreateBr(end);
      e.enter(working);
    }
    e.beginRegion(first, warps, firstPartBarrier + number);
    if (number == 0)
      e.prefetchMaps();
    emitPart(e, op.getParts()[number + 1].front());
    e.endRegion();
    if (e.failed())
      return;
    e.b.CreateBr(end);
    if (other)
      e.enter(other);
  }
  end->moveAfter(&e.b.GetInsertBlock()->getParent()->back());
  e.b.SetInsertPoint(end);
  if (meetAgain)
    meetAll(e);
  e.barrierOfPair(); // that of the consumers at their end, which all warps of the pair come to
  e.b.CreateRetVoid();
}

} // namespace

bool emitWarpSpecialize(Emitter &e, Operation *op) {
  auto parts = dyn_cast<ngpu::WarpSpecializeOp>(op);
  if (!parts)
    return false;
  llvm::BasicBlock *further = e.furtherWarps();
  if (!further)
    return e.fail(op, "internal error: a kernel is divided among warps once"), true;
  // At the end of the kernel no barrier is needed.
  bool meetAgain = !op->getNextNode()->hasTrait<OpTrait::IsTerminator>();
  meetBeforeParts(e);
  setRegisters(e, parts.getRegisters()[0], /*more=*/true);
  Block &own = parts.getParts()[0].front();
  e.emitBlock(own);
  if (e.failed())
    return true;
  for (auto [result, value] : llvm::zip(parts.getResults(), own.getTerminator()->getOperands()))
    e.set(result, e.get(value));
  if (meetAgain)
    meetAll(e);

  llvm::BasicBlock *after = e.b.GetInsertBlock();
  e.b.SetInsertPoint(further);
  emitFurtherParts(e, parts, meetAgain);
  e.b.SetInsertPoint(after);
  return true;
}

} // namespace nereid::nvidia
