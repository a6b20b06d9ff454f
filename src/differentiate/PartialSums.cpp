// Gradients of what many programs read, without atomic additions.
//
// The launcher gives such a gradient a matrix of zeros, with a row for each program that it
// launches, and adds the rows in a second launch. It launches fewer programs than the kernel has:
// each of them computes those whose numbers differ by a multiple of how many are launched, one
// after the other, and adds what they contribute to its own row. So the order of all additions is
// fixed. What has the same addresses in all programs, as a row of weights, is summed in registers
// and added to the row at the end.
#include "differentiate/Transposer.h"

#include "differentiate/Blocks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace nereid::differentiate {

/// What computes a value from the kernel's arguments, in the order of the program; false where it
/// differs between programs.
static bool collectInvariant(Value value, llvm::SetVector<Operation *> &ops) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return isa<func::FuncOp>(cast<BlockArgument>(value).getOwner()->getParentOp());
  if (ops.contains(op))
    return true;
  if (isa<tile::ProgramIdOp>(op) || op->getNumRegions() || !isPure(op) ||
      !isa<func::FuncOp>(op->getParentOp()))
    return false;
  if (!llvm::all_of(op->getOperands(),
                    [&](Value operand) { return collectInvariant(operand, ops); }))
    return false;
  ops.insert(op);
  return true;
}

bool Transposer::sumInRegisters(tile::LoadOp load, Value a) {
  if (builder.getInsertionBlock() != &kernel.getBody().front() ||
      !contributions.find(load)->second.owner.isUnconditional())
    return false;
  RowSum sum{here(load.getPtr()), load.getMask() ? here(load.getMask()) : Value(), a};
  llvm::SetVector<Operation *> ops;
  if (!collectInvariant(sum.address, ops) || (sum.mask && !collectInvariant(sum.mask, ops)))
    return false;
  rowSums.push_back(sum);
  return true;
}

void Transposer::addToStored(Value address, Value mask, Value a) {
  Location loc = a.getLoc();
  tile::BarrierOp::create(builder, loc); // another thread may have stored what is read here
  Value stored = tile::LoadOp::create(builder, loc, a.getType(), address, mask, Value());
  tile::StoreOp::create(builder, loc, address,
                        arith::AddFOp::create(builder, loc, stored, a).getResult(), mask);
}

void Transposer::distributePrograms() {
  auto programs = kernel->getAttrOfType<DenseI64ArrayAttr>("tile.programs");
  if (!programs)
    return;
  Block &body = kernel.getBody().front();
  Operation *end = body.getTerminator();
  Location loc = kernel.getLoc();
  SmallVector<Operation *> all;
  for (Operation &op : body.without_terminator())
    all.push_back(&op);

  builder.setInsertionPointToStart(&body);
  auto product = [&](Value x, Value y) -> Value {
    return arith::MulIOp::create(builder, loc, x, y);
  };
  SmallVector<Value> counts;
  for (int64_t argument : programs.asArrayRef())
    counts.push_back(kernel.getArgument(argument));
  Value own = tile::ProgramIdOp::create(builder, loc, builder.getI32Type(), 0);
  Value launched = tile::NumProgramsOp::create(builder, loc, builder.getI32Type(), 0);
  Value plane = product(counts[0], counts[1]), total = product(plane, counts[2]);
  Value wide = arith::ExtSIOp::create(builder, loc, builder.getI64Type(), own);
  IRMapping map;
  for (auto [gradient, row] : rows) {
    Value begin = kernel.getArgument(gradient);
    Value distance = product(wide, kernel.getArgument(row));
    auto moved = tile::AddPtrOp::create(builder, loc, begin.getType(), begin, distance);
    begin.replaceAllUsesExcept(moved, moved);
    map.map(begin, moved); // of a number the address is the argument
  }
  SmallVector<Value> zeros;
  for (const RowSum &sum : rowSums)
    zeros.push_back(zeroOf(builder, loc, sum.value.getType()));
  auto loop = scf::ForOp::create(builder, loc, own, total, launched, zeros);
  Block *round = loop.getBody();
  if (!round->empty())
    round->back().erase();
  builder.setInsertionPointToEnd(round);
  Value number = loop.getInductionVar();
  Value inPlane = arith::RemSIOp::create(builder, loc, number, plane);
  SmallVector<Value> ids{arith::RemSIOp::create(builder, loc, inPlane, counts[0]),
                         arith::DivSIOp::create(builder, loc, inPlane, counts[0]),
                         arith::DivSIOp::create(builder, loc, number, plane)};
  for (Operation *op : all)
    op->moveBefore(round, round->end());
  SmallVector<Value> next;
  builder.setInsertionPointToEnd(round);
  for (auto [sum, carried] : llvm::zip(rowSums, loop.getRegionIterArgs()))
    next.push_back(arith::AddFOp::create(builder, loc, carried, sum.value));
  scf::YieldOp::create(builder, loc, next);

  builder.setInsertionPoint(end);
  auto copied = [&](Value value) -> Value {
    llvm::SetVector<Operation *> ops;
    auto collect = [&](auto &&self, Value of) -> void {
      Operation *op = of.getDefiningOp();
      if (!op || op->getBlock() != round || ops.contains(op))
        return;
      for (Value operand : op->getOperands())
        self(self, operand);
      ops.insert(op);
    };
    collect(collect, value);
    for (Operation *op : ops)
      if (!map.contains(op->getResult(0)))
        builder.clone(*op, map);
    return map.lookupOrDefault(value);
  };
  for (auto [sum, result] : llvm::zip(rowSums, loop.getResults()))
    addToStored(copied(sum.address), sum.mask ? copied(sum.mask) : Value(), result);

  kernel.walk([&](Operation *op) {
    if (op == own.getDefiningOp() || op == launched.getDefiningOp())
      return;
    if (auto id = dyn_cast<tile::ProgramIdOp>(op))
      op->getResult(0).replaceAllUsesWith(ids[id.getAxis()]);
    else if (auto count = dyn_cast<tile::NumProgramsOp>(op))
      op->getResult(0).replaceAllUsesWith(counts[count.getAxis()]);
  });
}

} // namespace nereid::differentiate
