#include "differentiate/CountRounds.h"

#include "differentiate/Blocks.h"
#include "ir/tile/WithTangent.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace nereid::differentiate {
namespace {

enum class Effect { None, Read, Other };

/// Of an operation alone, without its regions.
Effect effectOf(Operation *op) {
  if (auto load = dyn_cast<tile::LoadOp>(op))
    return load.getIsVolatile() ? Effect::Other : Effect::Read;
  if (op->hasTrait<OpTrait::IsTerminator>() || op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() ||
      isMemoryEffectFree(op))
    return Effect::None;
  return Effect::Other;
}

/// The part of a loop that its condition depends on.
class Slice {
public:
  explicit Slice(scf::WhileOp loop) : loop(loop) {
    need(loop.getConditionOp().getCondition());
    while (!pending.empty())
      visit(pending.pop_back_val());
  }

  /// Whether it can be computed a second time with the same result.
  bool isRepeatable() {
    bool reads = false;
    for (Operation *op : operations)
      if (op->walk([&](Operation *inner) {
              reads |= effectOf(inner) == Effect::Read;
              return effectOf(inner) == Effect::Other ? WalkResult::interrupt()
                                                      : WalkResult::advance();
            }).wasInterrupted())
        return false;
    return !reads || !loop->walk([](Operation *op) {
                            return effectOf(op) == Effect::Other ? WalkResult::interrupt()
                                                                 : WalkResult::advance();
                          })
                          .wasInterrupted();
  }

  /// The loop with this part and a counter, before the original one.
  Value count() {
    Location loc = loop.getLoc();
    OpBuilder builder(loop);
    Type integer = builder.getI32Type();
    Value zero = arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(integer, 0));
    Value one = arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(integer, 1));
    for (Value value : captured)
      map.map(value, detached(builder, value));
    SmallVector<Value> inits{zero};
    for (unsigned i : carried)
      inits.push_back(detached(builder, loop.getInits()[i]));
    SmallVector<Type> results{integer};
    for (unsigned i : passed)
      results.push_back(loop.getConditionOp().getArgs()[i].getType());
    auto here = [&](Value value) { return map.lookupOrDefault(value); };
    auto before = [&](OpBuilder &b, Location, ValueRange arguments) {
      for (auto [i, value] : llvm::zip(carried, arguments.drop_front()))
        map.map(loop.getBeforeArguments()[i], value);
      cloneBlock(b, *loop.getBeforeBody());
      SmallVector<Value> given{arguments[0]};
      for (unsigned i : passed)
        given.push_back(here(loop.getConditionOp().getArgs()[i]));
      scf::ConditionOp::create(b, loc, here(loop.getConditionOp().getCondition()), given);
    };
    auto after = [&](OpBuilder &b, Location, ValueRange arguments) {
      for (auto [i, value] : llvm::zip(passed, arguments.drop_front()))
        map.map(loop.getAfterArguments()[i], value);
      cloneBlock(b, *loop.getAfterBody());
      SmallVector<Value> next{arith::AddIOp::create(b, loc, arguments[0], one)};
      for (unsigned i : carried)
        next.push_back(here(loop.getYieldOp().getResults()[i]));
      scf::YieldOp::create(b, loc, next);
    };
    Value rounds = scf::WhileOp::create(builder, loc, results, inits, before, after).getResult(0);
    return hasFloats() ? Value(arith::AddIOp::create(builder, loc, rounds, one)) : rounds;
  }

private:
  bool isInside(Region *region) {
    return loop.getBefore().isAncestor(region) || loop.getAfter().isAncestor(region);
  }

  void need(Value value) {
    if (needed.insert(value))
      pending.push_back(value);
  }

  void visit(Value value) {
    if (!isInside(value.getParentRegion())) {
      captured.insert(value);
      return;
    }
    auto argument = dyn_cast<BlockArgument>(value);
    if (argument && argument.getOwner() == loop.getBeforeBody()) {
      carried.insert(argument.getArgNumber());
      need(loop.getYieldOp().getResults()[argument.getArgNumber()]);
      return;
    }
    if (argument && argument.getOwner() == loop.getAfterBody()) {
      passed.insert(argument.getArgNumber());
      need(loop.getConditionOp().getArgs()[argument.getArgNumber()]);
      return;
    }
    Operation *op = value.getDefiningOp();
    if (!op)
      return; // an argument of a region inside an operation that is needed as a whole
    Block &block = loop.getBefore().isAncestor(op->getParentRegion()) ? *loop.getBeforeBody()
                                                                      : *loop.getAfterBody();
    op = block.findAncestorOpInBlock(*op);
    if (!operations.insert(op))
      return;
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        need(operand);
    });
  }

  bool hasFloats() const {
    return llvm::any_of(
        needed, [](Value value) { return isa<FloatType>(tile::elementOf(value.getType())); });
  }

  /// A float without a tangent; any other value as it is.
  static Value detached(OpBuilder &builder, Value value) {
    if (!isa<FloatType>(tile::elementOf(value.getType())))
      return value;
    Value zero = zeroOf(builder, value.getLoc(), value.getType());
    return tile::ExternOp::create(builder, value.getLoc(), value.getType(), ValueRange{value, zero},
                                  tile::tangentSymbol, tile::tangentLibrary, /*pure=*/true,
                                  /*path=*/nullptr)
        .getResult();
  }

  void cloneBlock(OpBuilder &builder, Block &block) {
    for (Operation &op : block.without_terminator()) {
      if (!operations.contains(&op))
        continue;
      Operation *clone = builder.clone(op, map);
      clone->walk([&](tile::LoadOp load) {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointAfter(load);
        Value constant = detached(builder, load.getResult());
        if (constant == load.getResult())
          return;
        load.getResult().replaceAllUsesExcept(constant, constant.getDefiningOp());
        if (load == clone)
          map.map(op.getResult(0), constant);
      });
    }
  }

  scf::WhileOp loop;
  SmallVector<Value> pending;
  llvm::SetVector<Value> needed;
  llvm::SetVector<Value> captured;
  llvm::SetVector<Operation *> operations;   ///< of the two blocks themselves
  llvm::SetVector<unsigned> carried, passed; ///< numbers of arguments of the two blocks
  IRMapping map;
};

} // namespace

Value countedRounds(scf::WhileOp loop) {
  Slice slice(loop);
  return slice.isRepeatable() ? slice.count() : Value();
}

} // namespace nereid::differentiate
