// Conversions between element types.
#include "frontend/semantic.h"
#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace nereid::frontend {

namespace arith = mlir::arith;

llvm::LogicalResult Semantic::checkConvertible(DType type, SourceSpan at) {
  if (!options.strict || !isFloat8(type))
    return llvm::success();
  // What Triton has: in software fp8e4b15 on GPUs, fp8e5b16 on the CPU.
  int arch = 0;
  llvm::StringRef target = options.targetName;
  bool onGpu = target.consume_front("cuda:") && !target.getAsInteger(10, arch);
  llvm::SmallVector<llvm::StringRef, 3> supported;
  if (onGpu)
    supported.push_back("fp8e4b15");
  if (!onGpu || arch >= 89)
    supported.push_back("fp8e4nv");
  supported.push_back("fp8e5");
  if (!onGpu)
    supported.push_back("fp8e5b16");
  if (llvm::is_contained(supported, info(type).shortName))
    return llvm::success();
  std::string names;
  for (llvm::StringRef name : supported)
    names += (names.empty() ? "'" : ", '") + name.str() + "'";
  return error(diag::Float8NotSupported, at, info(type).shortName, names);
}

// The functions are in src/prelude/float8.py.
FailureOr<Tensor> Semantic::castSoftware(const Tensor &value, DType to, CastOptions how,
                                         SourceSpan at) {
  auto run = [&](llvm::StringRef name, llvm::ArrayRef<Tensor> operands,
                 std::initializer_list<int64_t> known) -> FailureOr<Tensor> {
    std::vector<Value> args(operands.begin(), operands.end());
    for (int64_t each : known)
      args.push_back(Value::integer(each));
    auto result =
        evaluator.call(*languageMember("triton.language", name), args, {}, at ? at : currentSpan);
    return failed(result) ? FailureOr<Tensor>(llvm::failure()) : toTensor(*result, at);
  };
  DType from = value.type.scalar;
  const DTypeInfo &type = info(isSoftwareFloat8(from) ? from : to);
  int64_t hasNan = (isSoftwareFloat8(from) ? from : to) != DType::Float8E4B15;
  if (isSoftwareFloat8(from)) {
    auto code = bitcast(value, value.type.withScalar(DType::UInt8), at);
    auto wide = run("_float8_to_float32", *code, {type.mantissaBits, type.exponentBias, hasNan});
    return failed(wide) ? wide : cast(*wide, Type::of(to), how, at);
  }
  auto single =
      from == DType::Float64 ? run("_float64_to_odd", value, {}) : cast(value, DType::Float32, at);
  if (failed(single))
    return single;
  // The sign of NaN is read from the source: conversions between floats do not keep it on GPUs.
  const Tensor &source = isFloat(from) ? value : *single;
  int64_t width = info(source.type.scalar).bits;
  DType unsignedBits = width == 8    ? DType::UInt8
                       : width == 16 ? DType::UInt16
                       : width == 32 ? DType::UInt32
                                     : DType::UInt64;
  auto bits = bitcast(source, source.type.withScalar(unsignedBits), at);
  int64_t towardsZero = how.rounding == CastOptions::Rounding::TowardsZero;
  auto code =
      run("_float32_to_float8", {*single, *bits},
          {width, type.mantissaBits, type.exponentBias, hasNan ? 0x7f : 0x7e, hasNan, towardsZero});
  return failed(code) ? code : bitcast(*code, code->type.withScalar(to), at);
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

  if (isSoftwareFloat8(from) || isSoftwareFloat8(to))
    return castSoftware(value, to, how, at);

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
