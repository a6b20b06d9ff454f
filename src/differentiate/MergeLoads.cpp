#include "differentiate/MergeLoads.h"

#include "differentiate/Access.h"
#include "transforms/Provenance.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/CSE.h"
#include "llvm/ADT/SetVector.h"

#include <map>

using namespace mlir;

namespace nereid::differentiate {
namespace {

/// No address of a program that anybody writes takes more operations.
constexpr size_t mostOperations = 64;

class Merger {
public:
  Merger(func::FuncOp kernel, ArrayRef<Argument> arguments)
      : kernel(kernel), arguments(arguments), provenance(kernel),
        written(provenance.writtenArguments(kernel)) {}

  void hoist() {
    SmallVector<scf::ForOp> loops; // inner ones first
    kernel.walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (scf::ForOp loop : loops)
      for (auto load : llvm::make_early_inc_range(loop.getBody()->getOps<tile::LoadOp>()))
        if (isCandidate(load))
          hoist(load, loop);
  }

  void merge() {
    DominanceInfo dominance(kernel);
    std::map<std::array<const void *, 3>, SmallVector<tile::LoadOp>> seen;
    SmallVector<tile::LoadOp> merged;
    kernel.walk<WalkOrder::PreOrder>([&](tile::LoadOp load) {
      if (!isCandidate(load))
        return;
      auto pointer = [](Value value) { return value.getAsOpaquePointer(); };
      SmallVector<tile::LoadOp> &same =
          seen[{pointer(load.getPtr()), pointer(load.getMask()), pointer(load.getOther())}];
      for (tile::LoadOp earlier : same)
        if (dominance.dominates(earlier.getOperation(), load.getOperation())) {
          load.replaceAllUsesWith(earlier.getResult());
          merged.push_back(load);
          return;
        }
      same.push_back(load);
    });
    for (tile::LoadOp load : merged)
      load.erase();
  }

private:
  bool isCandidate(tile::LoadOp load) const {
    int argument = provenance.of(load.getPtr()).only();
    return argument >= 0 && arguments[argument].tangent >= 0 && arguments[argument].isInput &&
           !(unsigned(argument) < written.size() && written.test(argument)) &&
           !load.getIsVolatile();
  }

  /// Adds to `ops`, in the order of the program, what computes a value in the loop; false where
  /// that differs between rounds.
  static bool collect(Value value, scf::ForOp loop, llvm::SetVector<Operation *> &ops) {
    if (!loop.getRegion().isAncestor(value.getParentRegion()))
      return true;
    Operation *op = value.getDefiningOp();
    if (!op || op->getParentOp() != loop || op->getNumRegions() || !isPure(op))
      return false;
    if (ops.contains(op))
      return true;
    for (Value operand : op->getOperands())
      if (!collect(operand, loop, ops))
        return false;
    ops.insert(op);
    return ops.size() <= mostOperations;
  }

  static void hoist(tile::LoadOp load, scf::ForOp loop) {
    llvm::SetVector<Operation *> ops;
    for (Value operand : load->getOperands())
      if (!collect(operand, loop, ops))
        return;
    for (Operation *op : ops)
      op->moveBefore(loop);
    load->moveBefore(loop);
    APInt lower, upper;
    if (matchPattern(loop.getLowerBound(), m_ConstantInt(&lower)) &&
        matchPattern(loop.getUpperBound(), m_ConstantInt(&upper)) && !loop.getUnsignedCmp() &&
        lower.slt(upper))
      return;
    // A loop without rounds reads nothing.
    OpBuilder builder(load);
    Location loc = load.getLoc();
    auto less = loop.getUnsignedCmp() ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt;
    Value runs =
        arith::CmpIOp::create(builder, loc, less, loop.getLowerBound(), loop.getUpperBound());
    if (isa<RankedTensorType>(load.getPtr().getType()))
      runs = tile::SplatOp::create(
          builder, loc, tile::withShapeOf(runs.getType(), load.getPtr().getType()), runs);
    if (Value mask = load.getMask())
      runs = arith::AndIOp::create(builder, loc, mask, runs);
    load.getMaskMutable().assign(runs);
  }

  mutable func::FuncOp kernel;
  ArrayRef<Argument> arguments;
  transforms::Provenance provenance;
  llvm::BitVector written;
};

} // namespace

void mergeLoads(func::FuncOp kernel, ArrayRef<Argument> arguments) {
  auto mergeAddresses = [&] {
    IRRewriter rewriter(kernel.getContext());
    DominanceInfo dominance(kernel);
    eliminateCommonSubExpressions(rewriter, dominance, kernel);
  };
  mergeAddresses();
  Merger(kernel, arguments).hoist();
  mergeAddresses();
  Merger(kernel, arguments).merge();
}

} // namespace nereid::differentiate
