// Sums in loops of a kernel that the compiler wrote, taken over lanes once.
//
// The transpose of a value that all lanes of a block use is a sum over the block, and in a loop
// over blocks one for each block: threads exchange their parts, and meet at barriers, in every
// iteration. Such a loop carries the block of sums instead, each thread its own elements, and what
// the lanes have is added behind the loop:
//
//   s' = s + sum(x)    becomes    b' = b + x,  and behind the loop  s + sum(b)
//
// as far as registers allow. Of nested loops the inner one goes on with the block of the outer one.
//
// Other kernels add in the order of their authors.
#include "gpu/Passes.h"
#include "ir/tile/Combiner.h"
#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

/// Registers of a thread that hold what a loop carries in place of sums.
constexpr int64_t kMostRegisters = 32;

/// The sum over the lanes of a block that a loop adds to what it carries in a place; null where it
/// does something else with one of these.
tile::ReduceOp sumOf(scf::ForOp loop, unsigned place) {
  BlockArgument carried = loop.getRegionIterArg(place);
  auto add = loop.getYieldedValues()[place].getDefiningOp<arith::AddFOp>();
  if (!add || !carried.hasOneUse() || !add->hasOneUse() || add->getBlock() != loop.getBody() ||
      !llvm::is_contained(add->getOperands(), Value(carried)))
    return {};
  Value other = add.getLhs() == carried ? add.getRhs() : add.getLhs();
  auto sum = other.getDefiningOp<tile::ReduceOp>();
  if (!sum || !other.hasOneUse() || sum->getNumOperands() != 1 ||
      sum->getBlock() != loop.getBody() ||
      tile::combinerKind(sum->getRegion(0)) != tile::CombinerKind::AddF)
    return {};
  return sum;
}

int64_t registersOf(Type type, int64_t threads) {
  int64_t elements = 1;
  for (int64_t size : tile::shapeOf(type))
    elements *= size;
  return llvm::divideCeil(elements, threads) * tile::sizeInBytes(tile::elementOf(type)) / 4;
}

/// The loop inside that gives a block and begins with zeros; null for another block.
scf::ForOp loopFromZero(Value block, scf::ForOp around) {
  auto result = dyn_cast<OpResult>(block);
  auto loop = result ? dyn_cast<scf::ForOp>(result.getOwner()) : scf::ForOp();
  bool isPlain = loop && loop->getBlock() == around.getBody() && block.hasOneUse();
  return isPlain && matchPattern(loop.getInitArgs()[result.getResultNumber()], m_AnyZeroFloat())
             ? loop
             : scf::ForOp();
}

void deferSums(scf::ForOp loop, int64_t threads) {
  int64_t registers = 0;
  for (unsigned place = 0; place < loop.getNumRegionIterArgs(); ++place) {
    tile::ReduceOp sum = sumOf(loop, place);
    if (!sum)
      continue;
    Value block = sum->getOperand(0);
    Type type = block.getType();
    int64_t needed = registersOf(type, threads);
    if (tile::sizeInBytes(tile::elementOf(type)) < 4 || registers + needed > kMostRegisters)
      continue;
    registers += needed;
    Location loc = sum.getLoc();
    OpBuilder builder(loop);
    Value init = loop.getInitArgs()[place];
    Value zero =
        arith::ConstantOp::create(builder, loc, cast<TypedAttr>(builder.getZeroAttr(type)));
    BlockArgument carried = loop.getRegionIterArg(place);
    Operation *add = loop.getYieldedValues()[place].getDefiningOp();
    loop.getInitArgsMutable()[place].set(zero);
    carried.setType(type);
    OpResult result = loop->getResult(place);
    result.setType(type);

    Operation *terminator = loop.getBody()->getTerminator();
    builder.setInsertionPoint(terminator);
    if (scf::ForOp inner = loopFromZero(block, loop)) {
      inner.getInitArgsMutable()[cast<OpResult>(block).getResultNumber()].set(carried);
      terminator->setOperand(place, block);
    } else {
      terminator->setOperand(place,
                             arith::AddFOp::create(builder, loc, carried, block).getResult());
    }
    add->erase();

    builder.setInsertionPointAfter(loop);
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : result.getUses())
      uses.push_back(&use);
    IRMapping map;
    map.map(block, result);
    Value whole = builder.clone(*sum, map)->getResult(0);
    sum->erase();
    if (!matchPattern(init, m_AnyZeroFloat()))
      whole = arith::AddFOp::create(builder, loc, init, whole);
    for (OpOperand *use : uses)
      use->set(whole);
  }
}

} // namespace

void deferSums(func::FuncOp kernel, const GpuOptions &options) {
  if (!kernel->hasAttr("tile.gradients"))
    return;
  SmallVector<scf::ForOp> loops; // inner ones first
  kernel->walk([&](scf::ForOp loop) { loops.push_back(loop); });
  for (scf::ForOp loop : loops)
    deferSums(loop, int64_t(options.numWarps) * options.machine.lanes);
}

} // namespace nereid::gpu
