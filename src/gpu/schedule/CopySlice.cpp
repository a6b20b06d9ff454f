#include "gpu/schedule/CopySlice.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace nereid::gpu {

bool CopySlice::add(Value value) {
  if (auto result = dyn_cast<OpResult>(value))
    return addResult(result);
  auto arg = cast<BlockArgument>(value);
  Operation *parent = arg.getOwner()->getParentOp();
  if (isa<func::FuncOp>(parent))
    return true;
  auto loop = dyn_cast<scf::ForOp>(parent);
  if (!loop)
    return false;
  if (arg == loop.getInductionVar())
    return addOp(loop) && addControl(loop);
  return addResult(loop->getResult(arg.getArgNumber() - 1));
}

bool CopySlice::addResult(OpResult result) {
  Operation *op = result.getOwner();
  if (!isa<scf::ForOp, scf::IfOp>(op))
    return addOp(op) && addControl(op);
  if (!carried[op].insert(result.getResultNumber()))
    return true;
  if (!addOp(op) || !addControl(op))
    return false;
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return add(loop.getInitArgs()[result.getResultNumber()]) &&
           add(loop.getBody()->getTerminator()->getOperand(result.getResultNumber()));
  return llvm::all_of(op->getRegions(), [&](Region &region) {
    return add(region.front().getTerminator()->getOperand(result.getResultNumber()));
  });
}

bool CopySlice::addOp(Operation *op) {
  if (!ops.insert(op).second)
    return true;
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return add(loop.getLowerBound()) && add(loop.getUpperBound()) && add(loop.getStep());
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return add(branch.getCondition());
  auto isTensor = [](Type type) { return isa<RankedTensorType>(type); };
  if (op->getNumRegions() || llvm::any_of(op->getResultTypes(), isTensor))
    return false;
  auto load = dyn_cast<tile::LoadOp>(op);
  if (load ? load.getIsVolatile() || !runsAhead(load) : !isMemoryEffectFree(op))
    return false;
  return llvm::all_of(op->getOperands(),
                      [&](Value operand) { return !isTensor(operand.getType()) && add(operand); });
}

bool CopySlice::addControl(Operation *op) {
  Operation *parent = op->getParentOp();
  if (isa<func::FuncOp>(parent))
    return true;
  return isa<scf::ForOp, scf::IfOp>(parent) && addOp(parent) && addControl(parent);
}

SmallVector<unsigned> CopySlice::numbersOf(Operation *op) const {
  auto found = carried.find(op);
  if (found == carried.end())
    return {};
  SmallVector<unsigned> numbers(found->second.begin(), found->second.end());
  llvm::sort(numbers);
  return numbers;
}

void CopySlice::clone(OpBuilder &builder, Block &block, IRMapping &map, Visitor before) {
  for (Operation &op : block.without_terminator()) {
    before(op, builder, map);
    if (!ops.contains(&op))
      continue;
    if (isa<scf::ForOp>(op))
      cloneFor(builder, &op, map, before);
    else if (isa<scf::IfOp>(op))
      cloneIf(builder, &op, map, before);
    else
      builder.clone(op, map);
  }
}

/// `block` of a fresh loop or branch becomes the slice of `from`; it yields the values `numbers`.
static void fill(Block &block, Block &from, ArrayRef<unsigned> numbers, IRMapping &map,
                 llvm::function_ref<void(OpBuilder &, IRMapping &)> body) {
  if (block.mightHaveTerminator())
    block.getTerminator()->erase();
  OpBuilder builder = OpBuilder::atBlockEnd(&block);
  body(builder, map);
  SmallVector<Value> yields;
  Operation *yield = from.getTerminator();
  for (unsigned number : numbers)
    yields.push_back(map.lookupOrDefault(yield->getOperand(number)));
  scf::YieldOp::create(builder, yield->getLoc(), yields);
}

void CopySlice::cloneFor(OpBuilder &builder, Operation *op, IRMapping &map, Visitor before) {
  auto loop = cast<scf::ForOp>(op);
  SmallVector<unsigned> numbers = numbersOf(op);
  SmallVector<Value> inits;
  for (unsigned number : numbers)
    inits.push_back(map.lookupOrDefault(loop.getInitArgs()[number]));
  auto fresh = scf::ForOp::create(builder, op->getLoc(), map.lookupOrDefault(loop.getLowerBound()),
                                  map.lookupOrDefault(loop.getUpperBound()),
                                  map.lookupOrDefault(loop.getStep()), inits,
                                  /*bodyBuilder=*/nullptr, loop.getUnsignedCmp());
  map.map(loop.getInductionVar(), fresh.getInductionVar());
  for (auto [i, number] : llvm::enumerate(numbers)) {
    map.map(loop.getRegionIterArg(number), fresh.getRegionIterArg(i));
    map.map(loop->getResult(number), fresh->getResult(i));
  }
  fill(*fresh.getBody(), *loop.getBody(), numbers, map,
       [&](OpBuilder &inside, IRMapping &inner) { clone(inside, *loop.getBody(), inner, before); });
}

void CopySlice::cloneIf(OpBuilder &builder, Operation *op, IRMapping &map, Visitor before) {
  auto branch = cast<scf::IfOp>(op);
  SmallVector<unsigned> numbers = numbersOf(op);
  SmallVector<Type> types;
  for (unsigned number : numbers)
    types.push_back(op->getResult(number).getType());
  auto fresh =
      scf::IfOp::create(builder, op->getLoc(), types, map.lookupOrDefault(branch.getCondition()),
                        /*withElseRegion=*/branch.elseBlock() != nullptr);
  for (auto [i, number] : llvm::enumerate(numbers))
    map.map(op->getResult(number), fresh->getResult(i));
  for (auto [from, to] : llvm::zip(op->getRegions(), fresh->getRegions()))
    if (!from.empty())
      fill(to.front(), from.front(), numbers, map, [&](OpBuilder &inside, IRMapping &inner) {
        clone(inside, from.front(), inner, before);
      });
}

} // namespace nereid::gpu
