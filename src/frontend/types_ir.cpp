// The types of the language in tile IR.
#include "frontend/types.h"

#include "ir/tile/Dialect.h"

#include "mlir/IR/BuiltinTypes.h"

namespace nereid::frontend {

static mlir::Type scalarToIR(DType scalar, mlir::MLIRContext &context) {
  switch (scalar) {
  case DType::Void:
    return mlir::NoneType::get(&context);
  case DType::Int1:
  case DType::Int8:
  case DType::Int16:
  case DType::Int32:
  case DType::Int64:
  case DType::UInt8:
  case DType::UInt16:
  case DType::UInt32:
  case DType::UInt64:
    return mlir::IntegerType::get(&context, info(scalar).bits);
  case DType::Float8E5:
    return mlir::Float8E5M2Type::get(&context);
  case DType::Float8E4NV:
    return mlir::Float8E4M3FNType::get(&context);
  // Bytes to every target: their conversions are written in the language.
  case DType::Float8E5B16:
  case DType::Float8E4B8:
  case DType::Float8E4B15:
    return mlir::IntegerType::get(&context, 8);
  case DType::Float16:
    return mlir::Float16Type::get(&context);
  case DType::BFloat16:
    return mlir::BFloat16Type::get(&context);
  case DType::Float32:
    return mlir::Float32Type::get(&context);
  case DType::Float64:
    return mlir::Float64Type::get(&context);
  }
  llvm_unreachable("every dtype has a type in the IR");
}

mlir::Type Type::toIR(mlir::MLIRContext &context) const {
  // A pointer to nothing can be moved and cast: by bytes.
  // A bool in memory is a byte.
  bool isByte = (isPointer && scalar == DType::Void) || (isDescriptor && scalar == DType::Int1);
  mlir::Type element = scalarToIR(isByte ? DType::Int8 : scalar, context);
  if (isDescriptor)
    return tile::DescType::get(&context, block, element,
                               padsNaN ? tile::Padding::NaN : tile::Padding::Zero);
  if (isPointer)
    element = tile::PtrType::get(&context, element, addressSpace);
  return isBlock() ? mlir::RankedTensorType::get(shape, element) : element;
}

} // namespace nereid::frontend
