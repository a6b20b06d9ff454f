// What rows are kept as while the threads of a program exchange partial results.
//
// A kernel loads a row of bf16, computes with it in fp32, reduces that, and uses it again: the norm
// of a row keeps its values while their sum is computed. In fp32 they take twice the registers of
// the row. With half the registers more blocks fit on a multiprocessor, and one of them waits for
// memory while another one computes. So where a cluster runs a program, values that follow element
// by element from a narrower load are computed again behind a reduction, of the load's result. The
// operations are the same, and so are all results. Neither exponentials nor programs of one block
// gain (docs/notes/performance.md). NEREID_KEEP_NARROW turns it on.
//
// In a gradient kernel, which keeps the gradients of its outputs across the reductions of its
// forward values, conversions of what was loaded are repeated where only one block would fit, and
// nothing else is.
//
// Common subexpressions would be merged again by LLVM and by the assembler, therefore the load's
// result passes through `ngpu.renew`.
#include "gpu/Passes.h"
#include "gpu/schedule/KeptWords.h"
#include "ir/ngpu/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

/// Registers of a thread from which on fewer are worth computing again: with less than 48 for rows
/// and some beside them, four blocks of 8 warps fit on a multiprocessor.
constexpr int64_t kFewRegisters = 48;
/// Registers of a thread beside what it keeps.
constexpr int64_t kFurtherRegisters = 16;
/// Registers that a value must save.
constexpr int64_t kLeastSaved = 8;
/// Operations that compute an element again at most.
constexpr size_t kMostAsked = 10, kMostInGradients = 1;

/// Is this worth computing twice?
bool isCheap(Operation *op) {
  // Quotients by one number are products with its reciprocal.
  if (isa<arith::DivFOp>(op))
    return isa_and_nonnull<tile::SplatOp>(op->getOperand(1).getDefiningOp());
  if (isa<arith::RemFOp, arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp,
          tile::DivRNOp, tile::SqrtRNOp, tile::ExternOp>(op))
    return false;
  return !isa_and_nonnull<math::MathDialect>(op->getDialect()) ||
         isa<math::AbsFOp, math::FmaOp>(op);
}

bool collect(Value value, llvm::SetVector<Value> &loads, llvm::SetVector<Operation *> &ops,
             size_t most) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (isa<tile::LoadOp>(op)) {
    loads.insert(value);
    return true;
  }
  // The same for all elements, or for a row of many: they take few registers.
  if (auto repeated = dyn_cast<tile::BroadcastOp>(op))
    return repeated.getSrc().getType().getNumElements() * 16 <= repeated.getType().getNumElements();
  if (isa<tile::SplatOp, tile::RangeOp, arith::ConstantOp>(op) || ops.contains(op))
    return true;
  if (auto renewed = dyn_cast<ngpu::RenewOp>(op)) {
    loads.insert(renewed.getSrc());
    ops.insert(op);
    return true;
  }
  if (!tile::isElementwise(op) || !isMemoryEffectFree(op) || op->getNumResults() != 1 ||
      !isCheap(op))
    return false;
  for (Value operand : op->getOperands())
    if (isa<RankedTensorType>(operand.getType()) && !collect(operand, loads, ops, most))
      return false;
  ops.insert(op);
  return ops.size() <= most;
}

/// The results of loads of which `value`, a tensor in tile IR, can be computed again element by
/// element, with numbers that are the same for all elements or follow from indices, and `ops`,
/// which do that in the order of the program. False where the loads take as many words as `value`
/// or more, or where the computation is long.
bool computedOfNarrower(Value value, llvm::SetVector<Value> &loads,
                        llvm::SetVector<Operation *> &ops, size_t most) {
  if (!collect(value, loads, ops, most) || loads.empty())
    return false;
  int64_t words = 0;
  for (Value load : loads)
    words += wordsOf(load.getType());
  return words < wordsOf(value.getType());
}

/// Computes `value` again behind `reduction`, for what uses it there.
void computeAgain(Value value, Operation *reduction, int64_t threads, size_t most,
                  int32_t &number) {
  Block *block = reduction->getBlock();
  auto isBehind = [&](Operation *user) {
    Operation *ancestor = block->findAncestorOpInBlock(*user);
    return ancestor && ancestor != reduction && reduction->isBeforeInBlock(ancestor);
  };
  Operation *first = nullptr;
  for (Operation *user : value.getUsers())
    if (isBehind(user)) {
      Operation *ancestor = block->findAncestorOpInBlock(*user);
      if (!first || ancestor->isBeforeInBlock(first))
        first = ancestor;
    }
  llvm::SetVector<Value> loads;
  llvm::SetVector<Operation *> ops;
  if (!first || !computedOfNarrower(value, loads, ops, most))
    return;
  int64_t saved = wordsOf(value.getType());
  for (Value load : loads)
    saved -= wordsOf(load.getType());
  if (saved < kLeastSaved * threads)
    return;
  OpBuilder builder(first);
  IRMapping mapping;
  for (Value load : loads)
    mapping.map(load, ngpu::RenewOp::create(builder, value.getLoc(), load.getType(), load,
                                            builder.getI32IntegerAttr(number++)));
  for (Operation *op : ops) {
    if (auto renewed = dyn_cast<ngpu::RenewOp>(op))
      mapping.map(renewed.getResult(), mapping.lookup(renewed.getSrc()));
    else
      builder.clone(*op, mapping);
  }
  value.replaceUsesWithIf(mapping.lookup(value),
                          [&](OpOperand &use) { return isBehind(use.getOwner()); });
}

} // namespace

void keepNarrow(func::FuncOp kernel, const GpuOptions &options) {
  int64_t threads = int64_t(options.numWarps) * options.machine.lanes;
  int64_t kept = wordsKept(kernel);
  size_t most = kMostAsked;
  if (!options.keepsNarrow || options.numBlocks == 1) {
    // Where a second block fits anyhow, the repeated conversions take longer than is gained.
    bool fitsTwice = 2 * (kept + kFurtherRegisters * threads) <= int64_t(options.machine.registers);
    if (!kernel->hasAttr("tile.gradients") || fitsTwice)
      return;
    most = kMostInGradients;
  }
  if (kept < kFewRegisters * threads)
    return;
  SmallVector<Operation *> reductions;
  kernel.walk([&](Operation *op) {
    if (isa<tile::ReduceOp, tile::ScanOp>(op))
      reductions.push_back(op);
  });
  int32_t number = 0;
  for (Operation *reduction : reductions) {
    SmallVector<Value> before; // operations are added meanwhile
    for (Operation &op : *reduction->getBlock()) {
      if (&op == reduction)
        break;
      if (op.getNumResults() == 1 && isa<RankedTensorType>(op.getResult(0).getType()))
        before.push_back(op.getResult(0));
    }
    // What is computed last first: then nothing of which it is computed is needed itself.
    for (Value value : llvm::reverse(before))
      computeAgain(value, reduction, threads, most, number);
  }
}

} // namespace nereid::gpu
