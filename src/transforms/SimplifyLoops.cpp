// SimplifyLoops: loops carry as little as they can, and nothing whose structure they hide.
//
// A kernel advances blocks of pointers: `a_ptrs += BLOCK_K * stride_ak`. As a loop-carried tensor
// that is a buffer of addresses to keep and to update, and its structure (a base and a range) is
// out of sight inside the loop. Rewritten
//
//   for ... iter_args(%ptrs = %init)           for ... iter_args(%moved = 0 : i64)
//     ... load %ptrs                     =>      ... load addptr(%init, splat %moved)
//     yield addptr(%ptrs, splat %s)              yield %moved + extsi(%s)
//
// the loop carries one scalar, and `combine` then moves it into the base pointer. The offset is
// carried in 64 bits since `tile.addptr` extends each of its offsets; addresses are 64 bits wide,
// so the sums agree exactly. A tensor of integers is carried in its own width, where the sums wrap
// alike. Tensors that advance by the same amounts share one scalar.
//
// Loop-carried values that reach no effect and no used result are dropped. Loops of no round or one
// round, and values that no round changes, are removed by the canonicalisation in `combine`.
#include "transforms/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace nereid::transforms {
#define GEN_PASS_DEF_SIMPLIFYLOOPS
#include "transforms/Passes.h.inc"

namespace {
using namespace nereid::tile;

/// One uniform summand: a scalar of the loop or of outside, or a constant.
using Step = OpFoldResult;

/// The scalar that a splat repeats; null if `value` is none.
Step uniformOf(Value value) {
  if (auto splat = value.getDefiningOp<SplatOp>())
    return splat.getSrc();
  SplatElementsAttr constant;
  if (matchPattern(value, m_Constant(&constant)))
    return constant.getSplatValue<Attribute>();
  return {};
}

/// How a round changes the carried tensor: by the sum of these. Empty where it does something else.
llvm::SmallVector<Step> stepsOf(scf::ForOp loop, unsigned index) {
  Value carried = loop.getRegionIterArg(index), next = loop.getYieldedValues()[index];
  llvm::SmallVector<Step> steps;
  while (next != carried) {
    Operation *def = next.getDefiningOp();
    if (!def || def->getBlock() != loop.getBody())
      return {};
    Step step;
    if (auto move = dyn_cast<AddPtrOp>(def)) {
      step = uniformOf(move.getOffset());
      next = move.getPtr();
    } else if (auto add = dyn_cast<arith::AddIOp>(def)) {
      step = uniformOf(add.getRhs());
      next = add.getLhs();
      if (!step) {
        step = uniformOf(add.getLhs());
        next = add.getRhs();
      }
    }
    if (!step)
      return {};
    steps.push_back(step);
  }
  return steps;
}

/// Tensors of one kind (pointers, or integers of one width) that advance by the same steps.
struct Group {
  Type scalar; // of the carried offset
  llvm::SmallVector<Step> steps;
  llvm::SmallVector<unsigned> members; // indices of iteration arguments
};

/// Gives back the loop that has taken the place of `loop`.
scf::ForOp carryScalars(scf::ForOp loop, IRRewriter &rewriter) {
  llvm::SmallVector<Group> groups;
  for (unsigned i = 0; i < loop.getNumRegionIterArgs(); ++i) {
    Type type = loop.getRegionIterArg(i).getType();
    if (!isa<RankedTensorType>(type) || !isa<IntegerType, PtrType>(elementOf(type)))
      continue;
    auto steps = stepsOf(loop, i);
    if (steps.empty())
      continue;
    Type scalar = isa<PtrType>(elementOf(type)) ? rewriter.getI64Type() : elementOf(type);
    auto *group = llvm::find_if(
        groups, [&](const Group &g) { return g.scalar == scalar && g.steps == steps; });
    if (group == groups.end()) {
      groups.push_back({scalar, steps, {}});
      group = &groups.back();
    }
    group->members.push_back(i);
  }
  if (groups.empty())
    return loop;

  Location loc = loop.getLoc();
  rewriter.setInsertionPoint(loop);
  llvm::SmallVector<Value> zeros;
  for (const Group &group : groups)
    zeros.push_back(
        arith::ConstantOp::create(rewriter, loc, rewriter.getIntegerAttr(group.scalar, 0)));
  unsigned first = loop.getNumRegionIterArgs();
  auto nextOffsets = [&](OpBuilder &builder, Location loc, ArrayRef<BlockArgument> arguments) {
    llvm::SmallVector<Value> next;
    for (auto [group, argument] : llvm::zip(groups, arguments)) {
      Value sum = argument;
      for (Step step : group.steps) {
        Value scalar = dyn_cast<Value>(step);
        if (!scalar)
          scalar = arith::ConstantOp::create(builder, loc, cast<TypedAttr>(cast<Attribute>(step)));
        if (scalar.getType() != group.scalar)
          scalar = arith::ExtSIOp::create(builder, loc, group.scalar, scalar);
        sum = arith::AddIOp::create(builder, loc, sum, scalar);
      }
      next.push_back(sum);
    }
    return next;
  };
  auto replaced =
      loop.replaceWithAdditionalYields(rewriter, zeros,
                                       /*replaceInitOperandUsesInLoop=*/false, nextOffsets);
  if (failed(replaced))
    return loop;
  auto result = cast<scf::ForOp>(replaced->getOperation());

  auto moved = [&](Value init, Value offset) -> Value {
    Value offsets =
        SplatOp::create(rewriter, loc, withShapeOf(offset.getType(), init.getType()), offset);
    if (isa<PtrType>(elementOf(init.getType())))
      return AddPtrOp::create(rewriter, loc, init.getType(), init, offsets);
    return arith::AddIOp::create(rewriter, loc, init, offsets);
  };
  auto yield = cast<scf::YieldOp>(result.getBody()->getTerminator());
  for (auto [g, group] : llvm::enumerate(groups))
    for (unsigned i : group.members) {
      Value init = result.getInitArgs()[i];
      BlockArgument carried = result.getRegionIterArg(i);
      rewriter.setInsertionPointToStart(result.getBody());
      rewriter.replaceAllUsesWith(carried, moved(init, result.getRegionIterArg(first + g)));
      rewriter.setInsertionPointAfter(result);
      if (!result.getResult(i).use_empty())
        rewriter.replaceAllUsesWith(result.getResult(i), moved(init, result.getResult(first + g)));
      // Now nothing changes it, and canonicalisation drops it.
      rewriter.modifyOpInPlace(yield, [&] { yield->setOperand(i, carried); });
    }
  return result;
}

/// Carried values that end in nothing yield themselves from now on; canonicalisation drops them.
void cutDeadValues(scf::ForOp loop, IRRewriter &rewriter) {
  llvm::DenseSet<Value> live;
  llvm::SmallVector<Value> work;
  auto need = [&](Value value) {
    if (live.insert(value).second)
      work.push_back(value);
  };
  auto needOperands = [&](Operation *op) {
    op->walk([&](Operation *inner) { llvm::for_each(inner->getOperands(), need); });
  };
  for (auto [result, yielded] : llvm::zip(loop.getResults(), loop.getYieldedValues()))
    if (!result.use_empty())
      need(yielded);
  for (Operation &op : loop.getBody()->without_terminator())
    if (!wouldOpBeTriviallyDead(&op))
      needOperands(&op);
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (argument.getOwner() == loop.getBody() && argument != loop.getInductionVar())
        need(loop.getTiedLoopYieldedValue(argument)->get());
    } else if (value.getParentBlock() == loop.getBody()) {
      needOperands(value.getDefiningOp());
    }
  }
  auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
  for (auto [i, argument] : llvm::enumerate(loop.getRegionIterArgs()))
    if (!live.contains(argument) && loop.getResult(i).use_empty())
      rewriter.modifyOpInPlace(yield, [&] { yield->setOperand(i, argument); });
}

struct SimplifyLoopsPass : public impl::SimplifyLoopsBase<SimplifyLoopsPass> {
  void runOnOperation() override {
    llvm::SmallVector<scf::ForOp> loops;
    getOperation()->walk([&](scf::ForOp loop) { loops.push_back(loop); }); // Inner ones first.
    IRRewriter rewriter(&getContext());
    for (scf::ForOp loop : loops)
      cutDeadValues(carryScalars(loop, rewriter), rewriter);
  }
};

} // namespace
} // namespace nereid::transforms
