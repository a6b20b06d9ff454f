#include "targets/cpu/codegen/NarrowFloats.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace nereid::cpu {
namespace {

/// The type with its narrow floats replaced, or null when it has none.
Type bitsType(Type type, const Features &features) {
  Type element = getElementTypeOrSelf(type);
  if (!element.isBF16() && !(element.isF16() && !features.f16c))
    return {};
  Type bits = IntegerType::get(type.getContext(), 16);
  if (auto vector = dyn_cast<VectorType>(type))
    return vector.clone(bits);
  return type == element ? bits : Type();
}

/// An operand of a machine's instruction (of a matrix product) keeps its type.
bool isForInstruction(Value value) {
  return !value.use_empty() && llvm::all_of(value.getUsers(), [](Operation *user) {
    return isa<LLVM::CallIntrinsicOp>(user);
  });
}

Attribute bitsOf(Attribute value, Type type) {
  if (auto number = dyn_cast<FloatAttr>(value))
    return IntegerAttr::get(type, number.getValue().bitcastToAPInt());
  if (auto elements = dyn_cast<DenseFPElementsAttr>(value))
    return elements.mapValues(getElementTypeOrSelf(type),
                              [](const llvm::APFloat &number) { return number.bitcastToAPInt(); });
  return value;
}

} // namespace

void carryNarrowFloatsAsBits(ModuleOp module, const Features &features) {
  llvm::SmallVector<LLVM::BitcastOp> casts;
  module.walk([&](Operation *op) {
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          if (Type bits = bitsType(argument.getType(), features))
            argument.setType(bits);
    for (Value result : op->getResults())
      if (isForInstruction(result))
        continue;
      else if (Type bits = bitsType(result.getType(), features)) {
        result.setType(bits);
        if (auto constant = dyn_cast<LLVM::ConstantOp>(op))
          constant.setValueAttr(bitsOf(constant.getValue(), bits));
      }
    if (auto cast = dyn_cast<LLVM::BitcastOp>(op))
      casts.push_back(cast);
  });
  for (LLVM::BitcastOp cast : casts)
    if (cast.getArg().getType() == cast.getType()) {
      cast.replaceAllUsesWith(cast.getArg());
      cast.erase();
    }
}

} // namespace nereid::cpu
