// Sums of a loop in a gradient kernel, whose threads exchange them once and not in every iteration.
//
//   for ...: total += tl.sum(value)
//
// ends each iteration at a barrier, where no thread has a load in flight. In kernels that the
// compiler wrote, the loop adds blocks, and their sum is taken behind it:
//
//   for ...: totals += value
//   total = tl.sum(totals)
//
// so far as the blocks fit into registers. Of nested loops the inner ones come first, so that what
// an outer loop adds of them is exchanged behind the outer loop. The additions are made in another
// order, but in the same one in every run. Kernels of an author keep theirs.
#include "gpu/Passes.h"
#include "ir/tile/Combiner.h"
#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

/// Registers of a thread that hold the blocks of one loop: with 32, group norm kept 32 more over
/// two nested loops, and its code was not faster (docs/notes/performance.md, "Gradients on GPUs").
constexpr int64_t kMostRegisters = 16;

struct LoopSum {
  unsigned number; ///< of the value that the loop carries
  tile::ReduceOp sum;
};

/// The sum that is added to a carried value in each iteration, and used for nothing else; null
/// where there is none.
tile::ReduceOp addedSum(scf::ForOp loop, unsigned number) {
  BlockArgument carried = loop.getRegionIterArg(number);
  auto added = loop.getYieldedValues()[number].getDefiningOp<arith::AddFOp>();
  if (!added || !added->hasOneUse() || !carried.hasOneUse() ||
      (added.getLhs() != carried && added.getRhs() != carried) || added.getLhs() == added.getRhs())
    return nullptr;
  Value other = added.getLhs() == carried ? added.getRhs() : added.getLhs();
  auto sum = other.getDefiningOp<tile::ReduceOp>();
  if (!sum || !other.hasOneUse() || sum->getBlock() != loop.getBody() ||
      sum.getSrcs().size() != 1 ||
      tile::combinerKind(sum.getCombine()) != tile::CombinerKind::AddF ||
      tile::elementOf(other.getType()).getIntOrFloatBitWidth() < 32)
    return nullptr;
  return sum;
}

/// Where an inner loop that adds up a block begins with zero, if nothing but a sum reads the block;
/// null otherwise.
OpOperand *zeroBegin(Value block, Block *body) {
  auto loop = block.getDefiningOp<scf::ForOp>();
  if (!loop || loop->getBlock() != body || !block.hasOneUse())
    return nullptr;
  OpOperand &begin = loop.getInitArgsMutable()[cast<OpResult>(block).getResultNumber()];
  return matchPattern(begin.get(), m_AnyZeroFloat()) ? &begin : nullptr;
}

int64_t registersOf(Type tensor, int64_t threads) {
  int64_t bytes = tile::sizeInBytes(tile::elementOf(tensor));
  for (int64_t size : tile::shapeOf(tensor))
    bytes *= size;
  return llvm::divideCeil(llvm::divideCeil(bytes, threads), 4);
}

void sumBehind(scf::ForOp loop, int64_t threads) {
  SmallVector<LoopSum> sums;
  int64_t registers = 0;
  for (unsigned number = 0; number < loop.getNumRegionIterArgs(); ++number) {
    tile::ReduceOp sum = addedSum(loop, number);
    if (!sum)
      continue;
    int64_t needed = registersOf(sum.getSrcs()[0].getType(), threads);
    if (registers + needed > kMostRegisters)
      continue;
    registers += needed;
    sums.push_back({number, sum});
  }
  if (sums.empty())
    return;

  OpBuilder builder(loop);
  Location loc = loop.getLoc();
  SmallVector<Value> begin(loop.getInitArgs());
  for (LoopSum &each : sums)
    begin[each.number] = arith::ConstantOp::create(
        builder, loc, builder.getZeroAttr(each.sum.getSrcs()[0].getType()));
  auto wide = scf::ForOp::create(builder, loc, loop.getLowerBound(), loop.getUpperBound(),
                                 loop.getStep(), begin);
  wide->setAttrs(loop->getAttrDictionary());
  Block *body = wide.getBody();
  if (!body->empty())
    body->back().erase();
  body->getOperations().splice(body->end(), loop.getBody()->getOperations());
  loop.getInductionVar().replaceAllUsesWith(wide.getInductionVar());
  Operation *yield = body->getTerminator();
  for (LoopSum &each : sums) {
    Operation *added = yield->getOperand(each.number).getDefiningOp();
    Value carried = wide.getRegionIterArg(each.number), block = each.sum.getSrcs()[0];
    if (OpOperand *begin = zeroBegin(block, body)) {
      begin->set(carried);
      yield->setOperand(each.number, block);
    } else {
      builder.setInsertionPoint(added);
      yield->setOperand(each.number,
                        arith::AddFOp::create(builder, added->getLoc(), carried, block));
    }
    added->erase();
  }
  builder.setInsertionPointAfter(wide);
  for (LoopSum &each : sums) {
    Operation *sum = each.sum;
    auto behind = cast<tile::ReduceOp>(builder.clone(*sum));
    behind.getSrcsMutable().assign(wide.getResult(each.number));
    sum->erase();
    Value first = loop.getInitArgs()[each.number], total = behind->getResult(0);
    if (!matchPattern(first, m_AnyZeroFloat()))
      total = arith::AddFOp::create(builder, loc, first, total);
    loop.getResult(each.number).replaceAllUsesWith(total);
  }
  for (unsigned number = 0; number < loop.getNumRegionIterArgs(); ++number) {
    if (wide.getResult(number).getType() != loop.getResult(number).getType())
      continue;
    loop.getRegionIterArg(number).replaceAllUsesWith(wide.getRegionIterArg(number));
    loop.getResult(number).replaceAllUsesWith(wide.getResult(number));
  }
  loop.erase();
}

} // namespace

void sumLoops(func::FuncOp kernel, const GpuOptions &options) {
  if (!kernel->hasAttr("tile.gradients"))
    return;
  SmallVector<scf::ForOp> loops; // inner ones first
  kernel->walk([&](scf::ForOp loop) { loops.push_back(loop); });
  for (scf::ForOp loop : loops)
    sumBehind(loop, int64_t(options.numWarps) * options.machine.lanes);
}

} // namespace nereid::gpu
