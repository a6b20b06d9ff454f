#include "transforms/Provenance.h"

#include "ir/tile/Dialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace nereid::transforms;
namespace tile = nereid::tile;

static bool isPointerLike(Type type) {
  return isa<tile::PtrType>(getElementTypeOrSelf(type));
}

const Origins &Provenance::of(Value value) const {
  static const Origins none;
  auto found = origins.find(value);
  return found == origins.end() ? none : found->second;
}

bool Provenance::join(Value to, const Origins &from) {
  if (from.empty())
    return false;
  Origins source = from; // `from` may live in the map that is about to grow
  Origins &target = origins[to];
  llvm::BitVector before = target.arguments;
  bool unknownBefore = target.unknown;
  target.arguments |= source.arguments;
  target.unknown |= source.unknown;
  return target.unknown != unknownBefore || target.arguments != before;
}

bool Provenance::visit(Operation &op) {
  bool changed = false;
  auto joinAll = [&](ValueRange to, ValueRange from) {
    for (auto [a, b] : llvm::zip(to, from))
      changed |= join(a, of(b));
  };
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
    for (ValueRange from : {ValueRange(loop.getInitArgs()), ValueRange(yield.getResults())}) {
      joinAll(loop.getRegionIterArgs(), from);
      joinAll(loop.getResults(), from);
    }
    return changed;
  }
  if (auto loop = dyn_cast<scf::WhileOp>(op)) {
    joinAll(loop.getBeforeArguments(), loop.getInits());
    joinAll(loop.getBeforeArguments(), loop.getYieldOp().getResults());
    joinAll(loop.getAfterArguments(), loop.getConditionOp().getArgs());
    joinAll(loop.getResults(), loop.getConditionOp().getArgs());
    return changed;
  }
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    for (Region *region : branch.getRegions())
      if (!region->empty() && branch.getNumResults())
        joinAll(branch.getResults(), region->front().getTerminator()->getOperands());
    return changed;
  }
  Origins all;
  if (isa<tile::LoadOp, tile::DescLoadOp, tile::DescGatherOp, func::CallOp, tile::Atomic>(op)) {
    // The origin of loaded values is unknown.
    all.unknown = true;
    for (Value result : op.getResults())
      if (isPointerLike(result.getType()))
        changed |= join(result, all);
    return changed;
  }
  bool isSelect = isa<arith::SelectOp>(op);
  for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
    if (isSelect && i == 0)
      continue;
    all.arguments |= of(operand).arguments;
    all.unknown |= of(operand).unknown;
  }
  if (isa<tile::IntToPtrOp>(op) && all.empty())
    all.unknown = true;
  for (Value result : op.getResults())
    changed |= join(result, all);
  for (Region &region : op.getRegions()) // combiners
    for (Block &block : region)
      for (Value argument : block.getArguments())
        changed |= join(argument, all);
  return changed;
}

Provenance::Provenance(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments())
    if (isPointerLike(argument.getType())) {
      Origins self;
      self.arguments.resize(function.getNumArguments());
      self.arguments.set(argument.getArgNumber());
      origins[argument] = self;
    }
  bool changed = true;
  while (changed) {
    changed = false;
    function.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) { changed |= visit(*op); });
  }
}

llvm::BitVector Provenance::writtenArguments(func::FuncOp function) const {
  llvm::BitVector written(function.getNumArguments());
  auto write = [&](Value pointer) {
    const Origins &from = of(pointer);
    if (from.unknown)
      written.set();
    else
      written |= from.arguments;
  };
  function.walk([&](Operation *op) {
    if (auto store = dyn_cast<tile::StoreOp>(op))
      write(store.getPtr());
    else if (auto atomic = dyn_cast<tile::Atomic>(op); atomic && atomic.changesMemory())
      write(atomic.getPtr());
    else if (isa<func::CallOp>(op))
      for (Value operand : op->getOperands())
        write(operand);
    else if (isa<tile::ExternOp, tile::InlineAsmOp>(op) && !isMemoryEffectFree(op))
      for (Value operand : op->getOperands()) // addresses, maybe as integers
        if (!of(operand).empty())
          write(operand);
  });
  written.resize(function.getNumArguments());
  return written;
}
