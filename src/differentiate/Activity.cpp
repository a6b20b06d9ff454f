#include "differentiate/Activity.h"

#include "differentiate/OnlineSums.h"
#include "differentiate/Rules.h"
#include "ir/tile/WithTangent.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace nereid::differentiate {

SmallVector<Argument> argumentsOf(func::FuncOp kernel) {
  SmallVector<Argument> arguments(kernel.getNumArguments());
  for (unsigned i = 0; i < arguments.size(); ++i) {
    if (auto tangent = kernel.getArgAttrOfType<IntegerAttr>(i, "tile.tangent"))
      arguments[i].tangent = int(tangent.getInt());
    arguments[i].isInput = bool(kernel.getArgAttr(i, "tile.wrt"));
    arguments[i].isOutput = bool(kernel.getArgAttr(i, "tile.out"));
  }
  return arguments;
}

std::string argumentName(func::FuncOp kernel, unsigned number) {
  auto name = kernel.getArgAttrOfType<StringAttr>(number, "tile.name");
  return name ? name.str() : "argument " + std::to_string(number);
}

static bool isFloat(Type type) {
  return isa<FloatType>(tile::elementOf(type));
}

static bool isAddress(Type type) {
  return isa<tile::PtrType, tile::DescType>(tile::elementOf(type));
}

Activity::Activity(func::FuncOp kernel, ArrayRef<Argument> arguments) {
  for (auto [argument, value] : llvm::zip(arguments, kernel.getArguments())) {
    if (argument.tangent < 0)
      continue;
    if (isAddress(value.getType()))
      carried[value] = Shadow;
    else if (isFloat(value.getType()) && argument.isInput)
      carried[value] = Tangent;
  }
  bool changed = true;
  while (changed) {
    changed = false;
    kernel.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (op->hasAttr(constantAttribute))
        return WalkResult::skip();
      changed |= visit(*op);
      return WalkResult::advance();
    });
  }
}

bool Activity::join(Value to, uint8_t what) {
  uint8_t before = of(to);
  if ((before | what) == before)
    return false;
  carried[to] = before | what;
  return true;
}

bool Activity::joinAll(ValueRange to, ValueRange from) {
  bool changed = false;
  for (auto [a, b] : llvm::zip(to, from))
    changed |= join(a, of(b));
  return changed;
}

bool Activity::visitControl(Operation &op) {
  bool changed = false;
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
    for (ValueRange from : {ValueRange(loop.getInitArgs()), ValueRange(yield.getResults())}) {
      changed |= joinAll(loop.getRegionIterArgs(), from);
      changed |= joinAll(loop.getResults(), from);
    }
  } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
    changed |= joinAll(loop.getBeforeArguments(), loop.getInits());
    changed |= joinAll(loop.getBeforeArguments(), loop.getYieldOp().getResults());
    changed |= joinAll(loop.getAfterArguments(), loop.getConditionOp().getArgs());
    changed |= joinAll(loop.getResults(), loop.getConditionOp().getArgs());
  } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
    for (Region *region : branch.getRegions())
      if (!region->empty() && branch.getNumResults())
        changed |= joinAll(branch.getResults(), region->front().getTerminator()->getOperands());
  }
  return changed;
}

/// Both sides of a combiner are elements, or what it gave before.
bool Activity::visitCombiner(Operation &op) {
  Block &body = op.getRegion(0).front();
  unsigned count = op.getNumOperands();
  ValueRange left = body.getArguments().take_front(count);
  ValueRange right = body.getArguments().drop_front(count);
  Operation *yield = body.getTerminator();
  bool changed = false;
  for (ValueRange from : {ValueRange(op.getOperands()), ValueRange(yield->getOperands())}) {
    changed |= joinAll(left, from);
    changed |= joinAll(right, from);
    changed |= joinAll(op.getResults(), from);
  }
  return changed;
}

bool Activity::visitMap(Operation &op) {
  auto map = cast<tile::MapElementwiseOp>(op);
  Block &body = map.getBody().front();
  unsigned pack = map.getPack();
  bool changed = false;
  for (auto [i, source] : llvm::enumerate(map.getSrcs()))
    for (unsigned k = 0; k < pack; ++k)
      changed |= join(body.getArgument(i * pack + k), of(source));
  for (auto [i, yielded] : llvm::enumerate(body.getTerminator()->getOperands()))
    changed |= join(map.getResult()[i / pack], of(yielded));
  return changed;
}

/// Whether all that uses a value gives it another tangent.
static bool isDetached(Value value) {
  return llvm::all_of(value.getUses(), [](OpOperand &use) {
    return tile::isWithTangent(use.getOwner()) && use.getOperandNumber() == 0;
  });
}

/// What a result carries, of an operation without regions; `operands` is what they carry together.
uint8_t Activity::result(Operation &op, Value value, uint8_t operands) const {
  Type type = value.getType();
  // What memory behind a shadow holds.
  if (isa<tile::LoadOp, tile::DescLoadOp, tile::DescGatherOp, tile::Atomic>(op)) {
    if (isAddress(type) || (isa<tile::LoadOp>(op) && isDetached(value)))
      return Nothing;
    uint8_t mine = isFloat(type) ? Tangent : Bits;
    return (operands & Shadow ? mine : Nothing) | (operands & mine);
  }
  if (tile::isWithTangent(&op))
    return of(op.getOperand(1)) & Tangent;
  if (isa<arith::SelectOp>(op))
    return of(op.getOperand(1)) | of(op.getOperand(2));
  if (isa<tile::AddPtrOp>(op))
    return of(op.getOperand(0)) & Shadow;
  const Row *row = findRow(op.getName().getStringRef());
  if (auto device = dyn_cast<tile::ExternOp>(op))
    row = device.getLibrary() == "libdevice" ? findDeviceRow(device.getSymbol()) : nullptr;
  if (row && row->kind == Row::Kind::Compares)
    return Nothing;
  if (row && row->kind == Row::Kind::Inactive)
    return isa<IntegerType>(tile::elementOf(type)) ? operands & Bits : Nothing;
  if (isFloat(type))
    return operands & Tangent;
  if (isAddress(type))
    return operands & Shadow;
  return operands & (Tangent | Bits) ? Bits : Nothing;
}

bool Activity::visit(Operation &op) {
  if (isa<scf::ForOp, scf::WhileOp, scf::IfOp>(op))
    return visitControl(op);
  if (isa<tile::ReduceOp, tile::ScanOp>(op))
    return visitCombiner(op);
  if (isa<tile::MapElementwiseOp>(op))
    return visitMap(op);
  uint8_t operands = Nothing;
  for (Value operand : op.getOperands())
    operands |= of(operand);
  if (!operands)
    return false;
  bool changed = false;
  for (Value value : op.getResults())
    changed |= join(value, result(op, value, operands));
  return changed;
}

} // namespace nereid::differentiate
