#include "gpu/schedule/SharedCopies.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

/// Is the result of `op` the same for the same operands, whichever program computes it and when?
bool isFunctionOfOperands(Operation *op) {
  return op->getNumRegions() == 0 && isMemoryEffectFree(op) &&
         !isa<tile::ExternOp, tile::InlineAsmOp, ngpu::ClusterRankOp>(op);
}

/// What differs between the programs of a pair: what depends on the program's index along the first
/// axis, or on what is not known to be the same.
class Varying {
public:
  explicit Varying(func::FuncOp kernel) {
    unsigned before;
    do {
      before = values.size();
      kernel.walk([&](Operation *op) { visit(op); });
    } while (values.size() != before);
  }
  bool contains(Value value) const { return values.contains(value); }
  /// May the two run what is in it differently often?
  bool isUneven(Operation *op) const {
    if (auto loop = dyn_cast<scf::ForOp>(op))
      return contains(loop.getLowerBound()) || contains(loop.getUpperBound()) ||
             contains(loop.getStep());
    if (auto branch = dyn_cast<scf::IfOp>(op))
      return contains(branch.getCondition());
    return true;
  }

private:
  void addAll(ValueRange some) { values.insert(some.begin(), some.end()); }
  void visit(Operation *op);

  llvm::DenseSet<Value> values;
};

void Varying::visit(Operation *op) {
  if (isa<func::FuncOp>(op))
    return;
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    if (isUneven(op))
      addAll(loop.getBody()->getArguments()), addAll(loop.getResults());
    Operation *yield = loop.getBody()->getTerminator();
    for (auto [init, next, arg, result] : llvm::zip(loop.getInitArgs(), yield->getOperands(),
                                                    loop.getRegionIterArgs(), loop.getResults()))
      if (contains(init) || contains(next))
        addAll({arg, result});
    return;
  }
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    if (isUneven(op))
      return addAll(branch.getResults());
    for (Region &region : branch->getRegions())
      if (!region.empty())
        for (auto [value, result] :
             llvm::zip(region.front().getTerminator()->getOperands(), branch.getResults()))
          if (contains(value))
            values.insert(result);
    return;
  }
  auto id = dyn_cast<tile::ProgramIdOp>(op);
  if ((id && id.getAxis() == 0) || !isFunctionOfOperands(op) ||
      llvm::any_of(op->getOperands(), [&](Value operand) { return contains(operand); }))
    addAll(op->getResults());
  for (Region &region : op->getRegions())
    for (Block &block : region)
      addAll(block.getArguments());
}

/// Computes the other program's values.
class OtherProgram {
public:
  explicit OtherProgram(func::FuncOp kernel) : kernel(kernel), varying(kernel) {}

  /// Whether the other program runs `loop` at the same time (i1). Null: they are not known to go
  /// through it together.
  Value beside(scf::ForOp loop);
  /// Its value where this program has `value`; null if that is not known. Only for values that this
  /// program has when both run.
  Value of(Value value);
  bool isSame(Value value) const { return !varying.contains(value); }

private:
  Value isPair();
  Value enter(scf::ForOp loop, Value before);
  Value enter(scf::IfOp branch, bool isThen, Value before);
  Value compute(Value value);

  func::FuncOp kernel;
  Varying varying;
  llvm::DenseMap<Value, Value> others;
  SmallVector<Operation *> branches; ///< around the loop, which only one of them may run
  Value pair;
};

Value OtherProgram::isPair() {
  if (!pair) {
    OpBuilder b = OpBuilder::atBlockBegin(&kernel.getBody().front());
    Location loc = kernel.getLoc();
    Value size = ngpu::ClusterSizeOp::create(b, loc);
    Value two = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(2));
    pair = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, size, two);
  }
  return pair;
}

Value OtherProgram::of(Value value) {
  if (isSame(value))
    return value;
  auto found = others.find(value);
  if (found != others.end())
    return found->second;
  Value other = compute(value);
  others[value] = other;
  return other;
}

Value OtherProgram::compute(Value value) {
  Operation *op = value.getDefiningOp(); // null for what loops carry
  if (!op || isa<RankedTensorType>(value.getType()) || op->getNumResults() != 1)
    return {};
  OpBuilder b(op->getContext());
  b.setInsertionPointAfter(op);
  if (isa<tile::ProgramIdOp>(op)) {
    // Alone it stays in the grid.
    Value flip = arith::ExtUIOp::create(b, op->getLoc(), b.getI32Type(), isPair());
    return arith::XOrIOp::create(b, op->getLoc(), value, flip);
  }
  // In a branch that the other program does not take, its values are computed without need.
  bool maySkip =
      llvm::any_of(branches, [&](Operation *branch) { return branch->isProperAncestor(op); });
  if (!isFunctionOfOperands(op) || (maySkip && !isSpeculatable(op)))
    return {};
  IRMapping map;
  for (Value operand : op->getOperands()) {
    Value other = of(operand);
    if (!other)
      return {};
    map.map(operand, other);
  }
  return b.clone(*op, map)->getResult(0);
}

/// Whether it has an iteration, too, when this program has one, both counting from their first.
Value OtherProgram::enter(scf::ForOp loop, Value before) {
  Value lower = of(loop.getLowerBound()), upper = of(loop.getUpperBound());
  if (!lower || !upper || varying.contains(loop.getStep()))
    return {};
  OpBuilder b = OpBuilder::atBlockBegin(loop.getBody());
  Location loc = loop.getLoc();
  Value mine = loop.getInductionVar();
  Value distance = arith::SubIOp::create(b, loc, mine, loop.getLowerBound());
  Value rest = arith::SubIOp::create(b, loc, upper, lower); // exact as unsigned numbers
  auto less = loop.getUnsignedCmp() ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt;
  Value runs = arith::CmpIOp::create(b, loc, less, lower, upper);
  Value inside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, distance, rest);
  Value both = arith::AndIOp::create(b, loc, runs, inside);
  Value beside = arith::AndIOp::create(b, loc, before, both);
  // Where it has none its values are this program's, which can be computed.
  Value its = arith::AddIOp::create(b, loc, lower, distance);
  others[mine] = arith::SelectOp::create(b, loc, beside, its, mine);
  return beside;
}

Value OtherProgram::enter(scf::IfOp branch, bool isThen, Value before) {
  Value condition = of(branch.getCondition());
  if (!condition)
    return {};
  branches.push_back(branch);
  OpBuilder b(branch);
  Location loc = branch.getLoc();
  if (!isThen) {
    Value yes = arith::ConstantOp::create(b, loc, b.getBoolAttr(true));
    condition = arith::XOrIOp::create(b, loc, condition, yes);
  }
  return arith::AndIOp::create(b, loc, before, condition);
}

Value OtherProgram::beside(scf::ForOp loop) {
  SmallVector<Operation *> around; // from the loop outwards
  for (Operation *op = loop; op != kernel; op = op->getParentOp())
    around.push_back(op);
  Value beside = isPair();
  bool repeated = false; // by a loop around
  for (auto [i, op] : llvm::enumerate(llvm::reverse(around))) {
    if (varying.isUneven(op)) {
      if (repeated || op == loop)
        return {};
      if (auto tiles = dyn_cast<scf::ForOp>(op)) {
        beside = enter(tiles, beside);
      } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
        Operation *inside = around[around.size() - 2 - i];
        beside =
            enter(branch, branch.getThenRegion().isAncestor(inside->getParentRegion()), beside);
      } else {
        return {};
      }
      if (!beside)
        return {};
    }
    repeated |= isa<LoopLikeOpInterface>(op);
  }
  return beside;
}

} // namespace

std::optional<SharedCopies> findSharedCopies(func::FuncOp kernel, scf::ForOp loop,
                                             ArrayRef<tile::DescLoadOp> loads) {
  OtherProgram other(kernel);
  SharedCopies result;
  result.beside = other.beside(loop);
  if (!result.beside)
    return std::nullopt;
  for (tile::DescLoadOp load : loads) {
    OpBuilder b(load);
    Value shared = result.beside;
    for (Value coord : load.getCoords()) {
      if (other.isSame(coord))
        continue;
      Value its = other.of(coord);
      if (!its) {
        shared = {};
        break;
      }
      Value equal = arith::CmpIOp::create(b, load.getLoc(), arith::CmpIPredicate::eq, coord, its);
      shared = arith::AndIOp::create(b, load.getLoc(), shared, equal);
    }
    result.shared.push_back(other.isSame(load.getDesc()) ? shared : Value());
  }
  if (llvm::none_of(result.shared, [](Value shared) { return bool(shared); }))
    return std::nullopt;
  return result;
}

} // namespace nereid::gpu
