#include "differentiate/Marks.h"

#include "differentiate/Blocks.h"
#include "differentiate/CountRounds.h"
#include "differentiate/Refuse.h"
#include "ir/tile/WithTangent.h"
#include "transforms/Provenance.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace nereid::differentiate {
namespace {

constexpr llvm::StringLiteral recomputeAttribute = "tile.recompute";

void drop(Operation *mark) {
  mark->getResult(0).replaceAllUsesWith(mark->getOperand(0));
  mark->erase();
}

//===--- saved values ---===//

/// The store that belongs to a mark: that through the same pointers before it.
tile::StoreOp storeOf(Operation *mark) {
  for (Operation *op = mark->getPrevNode(); op; op = op->getPrevNode())
    if (auto store = dyn_cast<tile::StoreOp>(op); store && store.getPtr() == mark->getOperand(1))
      return store;
  return nullptr;
}

std::optional<Refusal> loadSaved(func::FuncOp kernel, ArrayRef<Argument> arguments,
                                 ArrayRef<Operation *> marks) {
  transforms::Provenance provenance(kernel);
  for (Operation *mark : marks)
    for (unsigned argument : provenance.of(mark->getOperand(1)).arguments.set_bits())
      if (arguments[argument].tangent >= 0 || kernel.getArgAttr(argument, "tile.named"))
        return refuse(mark->getLoc(), diag::GradientOfSaved, argumentName(kernel, argument));
  for (Operation *mark : marks) {
    if (tile::StoreOp store = storeOf(mark))
      store.erase();
    OpBuilder builder(mark);
    Location loc = mark->getLoc();
    Value value = mark->getOperand(0), pointer = mark->getOperand(1);
    Value mask = mark->getNumOperands() > 2 ? mark->getOperand(2) : Value();
    Value other = mark->getNumOperands() > 3 ? mark->getOperand(3) : Value();
    Type stored = cast<tile::PtrType>(tile::elementOf(pointer.getType())).getPointee();
    Value loaded = tile::LoadOp::create(builder, loc, tile::withShapeOf(stored, pointer.getType()),
                                        pointer, mask, other);
    loaded = convertTo(builder, loaded, tile::elementOf(value.getType()));
    auto linked = tile::ExternOp::create(builder, loc, value.getType(), ValueRange{loaded, value},
                                         tile::tangentSymbol, tile::tangentLibrary, /*pure=*/true,
                                         /*path=*/nullptr);
    mark->getResult(0).replaceAllUsesWith(linked.getResult());
    mark->erase();
  }
  return std::nullopt;
}

//===--- loops with a bound ---===//

/// How often a body runs that the author says, or the range of a `for` that is left early: null
/// for neither. Both are known before the loop.
Value boundOf(scf::WhileOp loop) {
  SmallVector<Value> conjuncts{loop.getConditionOp().getCondition()};
  Block &before = *loop.getBeforeBody(), &after = *loop.getAfterBody();
  auto isOutside = [&](Value value) {
    return !loop.getBefore().isAncestor(value.getParentRegion()) &&
           !loop.getAfter().isAncestor(value.getParentRegion());
  };
  auto constantBefore = [&](Value value) -> Value {
    Operation *op = value.getDefiningOp();
    if (isOutside(value))
      return value;
    if (!op || op->getNumOperands() || !op->hasTrait<OpTrait::ConstantLike>())
      return Value();
    OpBuilder builder(loop);
    return builder.clone(*op)->getResult(0);
  };
  for (size_t i = 0; i < conjuncts.size(); ++i) {
    Operation *op = conjuncts[i].getDefiningOp();
    if (!op)
      continue;
    if (isa<arith::AndIOp>(op))
      llvm::append_range(conjuncts, op->getOperands());
    if (tile::isDerivativeMark(op, tile::boundSymbol)) {
      Value count = op->getOperand(1);
      // A number that is written inside the loop is computed before it.
      if (auto cast = count.getDefiningOp<arith::TruncIOp>(); cast && isOutside(cast.getIn()))
        return OpBuilder(loop).clone(*cast)->getResult(0);
      if (Value outside = constantBefore(count))
        return outside;
    }
    auto compare = dyn_cast<arith::CmpIOp>(op);
    if (!compare || (compare.getPredicate() != arith::CmpIPredicate::slt &&
                     compare.getPredicate() != arith::CmpIPredicate::ult))
      continue;
    // i < stop, where i is carried and every round adds a step.
    auto variable = dyn_cast<BlockArgument>(compare.getLhs());
    if (!variable || variable.getOwner() != &before || !isOutside(compare.getRhs()))
      continue;
    unsigned carried = variable.getArgNumber();
    auto next = loop.getYieldOp().getResults()[carried].getDefiningOp<arith::AddIOp>();
    auto inside = next ? dyn_cast<BlockArgument>(next.getLhs()) : BlockArgument();
    if (!inside || inside.getOwner() != &after || !isOutside(next.getRhs()) ||
        loop.getConditionOp().getArgs()[inside.getArgNumber()] != variable)
      continue;
    OpBuilder builder(loop);
    Location loc = loop.getLoc();
    Value start = loop.getInits()[carried], stop = compare.getRhs(), step = next.getRhs();
    Value zero = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(start.getType()));
    Value one = arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(start.getType(), 1));
    Value length = arith::SubIOp::create(builder, loc, stop, start);
    Value up =
        arith::AddIOp::create(builder, loc, length, arith::SubIOp::create(builder, loc, step, one));
    Value runs = arith::CmpIOp::create(builder, loc, compare.getPredicate(), start, stop);
    return arith::SelectOp::create(builder, loc, runs,
                                   arith::DivUIOp::create(builder, loc, up, step), zero);
  }
  return Value();
}

/// Its rounds evaluate the condition, and run the body while it holds.
void writeAsFor(scf::WhileOp loop, Value bound) {
  OpBuilder builder(loop);
  Location loc = loop.getLoc();
  Type integer = bound.getType();
  Value zero = arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(integer, 0));
  Value one = arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(integer, 1));
  // The condition is evaluated once more than the body runs.
  Value rounds = arith::AddIOp::create(builder, loc, bound, one);
  SmallVector<Value> inits{arith::ConstantOp::create(builder, loc, builder.getBoolAttr(true))};
  llvm::append_range(inits, loop.getInits());
  size_t given = inits.size();
  for (Type type : loop.getResultTypes())
    inits.push_back(isa<FloatType>(tile::elementOf(type))
                        ? zeroOf(builder, loc, type)
                        : ub::PoisonOp::create(builder, loc, type).getResult());
  auto bounded = scf::ForOp::create(builder, loc, zero, rounds, one, inits);
  Block *body = bounded.getBody();
  if (!body->empty())
    body->back().erase();
  ValueRange carried = bounded.getRegionIterArgs();
  builder.setInsertionPointToEnd(body);
  auto round = scf::IfOp::create(builder, loc, carried.getTypes(), carried[0], /*withElse=*/true);
  scf::YieldOp::create(builder, loc, round.getResults());
  auto begin = [&](Region &region) {
    if (region.empty())
      region.emplaceBlock();
    Block &block = region.front();
    if (!block.empty())
      block.back().erase();
    builder.setInsertionPointToEnd(&block);
  };
  begin(round.getElseRegion());
  scf::YieldOp::create(builder, loc, carried);

  begin(round.getThenRegion());
  IRMapping map;
  map.map(loop.getBeforeArguments(), carried.slice(1, given - 1));
  for (Operation &op : loop.getBeforeBody()->without_terminator())
    builder.clone(op, map);
  auto here = [&](Value value) { return map.lookupOrDefault(value); };
  Value condition = here(loop.getConditionOp().getCondition());
  SmallVector<Value> passed = llvm::map_to_vector(loop.getConditionOp().getArgs(), here);
  auto run =
      scf::IfOp::create(builder, loc, ValueRange(loop.getBeforeArguments()).getTypes(), condition,
                        /*withElse=*/true);
  {
    OpBuilder::InsertionGuard guard(builder);
    begin(run.getElseRegion());
    scf::YieldOp::create(builder, loc, carried.slice(1, given - 1));
    begin(run.getThenRegion());
    map.map(loop.getAfterArguments(), passed);
    for (Operation &op : loop.getAfterBody()->without_terminator())
      builder.clone(op, map);
    scf::YieldOp::create(builder, loc, llvm::map_to_vector(loop.getYieldOp().getResults(), here));
  }
  SmallVector<Value> next{condition};
  llvm::append_range(next, run.getResults());
  llvm::append_range(next, passed);
  scf::YieldOp::create(builder, loc, next);

  builder.setInsertionPointAfter(bounded);
  Value isTooLong = bounded.getResult(0);
  for (auto [i, result] : llvm::enumerate(loop.getResults())) {
    Value value = bounded.getResult(given + i);
    if (isa<FloatType>(tile::elementOf(value.getType()))) {
      // A factor, so that gradients are NaN, too.
      Type element = tile::elementOf(value.getType());
      Value factor = arith::SelectOp::create(
          builder, loc, isTooLong,
          constantOf(builder, loc, element, std::numeric_limits<double>::quiet_NaN()),
          constantOf(builder, loc, element, 1.0));
      if (isa<RankedTensorType>(value.getType()))
        factor = tile::SplatOp::create(builder, loc, value.getType(), factor);
      value = arith::MulFOp::create(builder, loc, value, factor);
    }
    result.replaceAllUsesWith(value);
  }
  loop.erase();
}

} // namespace

std::optional<Refusal> applyMarks(func::FuncOp kernel, ArrayRef<Argument> arguments, bool isReverse,
                                  bool loadsSaved) {
  SmallVector<Operation *> saved, recomputed;
  kernel.walk([&](Operation *op) {
    if (tile::isDerivativeMark(op, tile::savedSymbol))
      saved.push_back(op);
    else if (tile::isDerivativeMark(op, tile::recomputedSymbol))
      recomputed.push_back(op);
  });
  for (Operation *mark : recomputed) {
    if (auto loop = mark->getParentOfType<scf::ForOp>())
      loop->setAttr(recomputeAttribute, UnitAttr::get(kernel.getContext()));
    drop(mark);
  }
  if (isReverse && loadsSaved) {
    if (std::optional<Refusal> refusal = loadSaved(kernel, arguments, saved))
      return refusal;
  } else {
    llvm::for_each(saved, drop);
  }
  if (isReverse) {
    Activity activity(kernel, arguments);
    SmallVector<scf::WhileOp> loops; // innermost first
    kernel.walk([&](scf::WhileOp loop) {
      if (llvm::any_of(loop.getResults(), [&](Value v) { return activity.hasTangent(v); }))
        loops.push_back(loop);
    });
    for (scf::WhileOp loop : loops) {
      Value bound = boundOf(loop);
      if (bound || (bound = countedRounds(loop)))
        writeAsFor(loop, bound);
    }
  }
  SmallVector<Operation *> bounds;
  kernel.walk([&](Operation *op) {
    if (tile::isDerivativeMark(op, tile::boundSymbol))
      bounds.push_back(op);
  });
  llvm::for_each(bounds, drop);
  return std::nullopt;
}

bool isRecomputed(scf::ForOp loop) {
  return loop->hasAttr(recomputeAttribute);
}

} // namespace nereid::differentiate
