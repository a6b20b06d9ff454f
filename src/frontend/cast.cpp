// Conversions between element types.
#include "frontend/semantic.h"
#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace nereid::frontend {

namespace arith = mlir::arith;

llvm::LogicalResult Semantic::checkConvertible(DType type, SourceSpan at) {
  if (type != DType::Float8E4B15 && type != DType::Float8E4B8 && type != DType::Float8E5B16)
    return llvm::success();
  return error(diag::Float8NotSupported, at, info(type).shortName, "'fp8e5', 'fp8e4nv'");
}

FailureOr<Tensor> Semantic::bitcast(const Tensor &value, const Type &target, SourceSpan at) {
  if (value.type.isPointer || target.isPointer)
    return castPointer(value, target, at);
  unsigned from = info(value.type.scalar).bits, to = info(target.scalar).bits;
  if (from != to)
    return error(diag::BitcastWidth, at, from, to);
  mlir::Type ir = target.toIR(*builder.getContext());
  if (value.ir.getType() == ir)
    return wrap(value.ir, target);
  return wrap(arith::BitcastOp::create(builder, loc(), ir, value.ir), target);
}

FailureOr<Tensor> Semantic::castPointer(const Tensor &value, const Type &target, SourceSpan at) {
  mlir::Type ir = target.toIR(*builder.getContext());
  const Type &source = value.type;
  if (source.isPointer && target.isPointer) {
    if (value.ir.getType() == ir)
      return wrap(value.ir, target);
    return wrap(tile::PtrCastOp::create(builder, loc(), ir, value.ir), target);
  }
  if (source.isPointer && isInt(target.scalar) && info(target.scalar).bits == 64)
    return wrap(tile::PtrToIntOp::create(builder, loc(), ir, value.ir), target);
  if (source.isPointer && isBool(target.scalar)) {
    Type address = Type::of(DType::Int64, source.shape);
    mlir::Value bits =
        tile::PtrToIntOp::create(builder, loc(), address.toIR(*builder.getContext()), value.ir);
    return emitCompare(CompareOp::NotEq, wrap(bits, address), constant(0, address));
  }
  if (target.isPointer && isInt(source.scalar) && info(source.scalar).bits == 64)
    return wrap(tile::IntToPtrOp::create(builder, loc(), ir, value.ir), target);
  return error(diag::CannotCast, at, source.element().str(), target.element().str(),
               "only 64-bit integers and pointers convert into one another");
}

FailureOr<Tensor> Semantic::cast(const Tensor &value, const Type &element, CastOptions how,
                                 SourceSpan at) {
  Type target = element.withShape(value.type.shape);
  const Type &source = value.type;
  DType from = source.scalar, to = target.scalar;
  if (target == source) {
    Tensor same = value;
    same.literal = nullptr;
    return same;
  }
  if (to == DType::Void)
    return error(diag::CannotCast, at, source.element().str(), "void", "it has no values");
  if (how.bitcast)
    return bitcast(value, target, at);

  using Rounding = CastOptions::Rounding;
  bool pointers = source.isPointer || target.isPointer;
  bool narrows = !pointers && isFloat(from) && isFloat(to) && info(to).bits < info(from).bits;
  if (how.rounding != Rounding::Default && !narrows)
    return error(diag::RoundingNotNarrowing, at, source.element().str(), target.element().str());
  if (pointers)
    return castPointer(value, target, at);
  if (failed(checkConvertible(from, at)) || failed(checkConvertible(to, at)))
    return llvm::failure();

  mlir::Type ir = target.toIR(*builder.getContext());
  auto through32 = [&]() -> FailureOr<Tensor> {
    auto middle = cast(value, DType::Float32, at);
    return failed(middle) ? middle : cast(*middle, to, at);
  };
  auto made = [&](mlir::Value result) { return FailureOr<Tensor>(wrap(result, target)); };

  if (isFloat(from) && isFloat(to)) {
    if (isFloat8(from) || isFloat8(to) || how.rounding == Rounding::TowardsZero) {
      auto rounding =
          how.rounding == Rounding::TowardsZero ? tile::Rounding::RTZ : tile::Rounding::RTNE;
      return made(tile::FpCastOp::create(builder, loc(), ir, value.ir, rounding));
    }
    if (info(from).bits == info(to).bits) // fp16 and bf16
      return through32();
    if (narrows)
      return made(arith::TruncFOp::create(builder, loc(), ir, value.ir));
    return made(arith::ExtFOp::create(builder, loc(), ir, value.ir));
  }
  if (isBool(to)) // fp8 too: the comparison is done in fp32
    return isFloat8(from)
               ? through32()
               : FailureOr<Tensor>(emitCompare(CompareOp::NotEq, value, constant(0, source)));
  if (isInt(from) && isInt(to)) {
    unsigned width = info(from).bits, wanted = info(to).bits;
    if (width == wanted)
      return made(value.ir);
    if (width > wanted)
      return made(arith::TruncIOp::create(builder, loc(), ir, value.ir));
    if (isSignedInt(from))
      return made(arith::ExtSIOp::create(builder, loc(), ir, value.ir));
    return made(arith::ExtUIOp::create(builder, loc(), ir, value.ir));
  }
  if (isFloat8(from) || isFloat8(to))
    return through32();
  if (isFloat(from)) {
    if (info(from).bits == 16)
      return through32();
    if (isSignedInt(to))
      return made(arith::FPToSIOp::create(builder, loc(), ir, value.ir));
    return made(arith::FPToUIOp::create(builder, loc(), ir, value.ir));
  }
  if (isSignedInt(from))
    return made(arith::SIToFPOp::create(builder, loc(), ir, value.ir));
  return made(arith::UIToFPOp::create(builder, loc(), ir, value.ir));
}

} // namespace nereid::frontend
