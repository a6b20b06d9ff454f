// Conversions between the six float types.
//
// Conversions that the hardware lacks are computed on the bits. A conversion that takes two steps
// rounds the first one to odd (towards zero, and the last bit set where anything was lost), so that
// the second sees that the number was not exact: f64 goes to the narrow types through f32 in this
// way (Boldo and Melquiond: f32 has more than two bits to spare over each).
#include "gpu/emit/Elements.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

/// The codes of an 8-bit float: NaN, and the largest finite number, which overflow and infinities
/// give.
struct Narrow {
  int exponentBits, mantissaBits;
  int nan, largest;
  int bias() const { return (1 << (exponentBits - 1)) - 1; }
  int signShift() const { return 31 - exponentBits - mantissaBits; }
};
constexpr Narrow e5m2Codes = {5, 2, 0x7f, 0x7b};
constexpr Narrow e4m3Codes = {4, 3, 0x7f, 0x7e};
constexpr uint32_t f32Infinity = 0x7f800000;

llvm::Value *f32Constant(Emitter &e, double value) {
  return llvm::ConstantFP::get(e.b.getFloatTy(), value);
}

/// An f32 as a narrow type's code in an i32, by integer arithmetic.
llvm::Value *narrowCode(Emitter &e, llvm::Value *value, const Narrow &type, bool towardsZero) {
  llvm::IRBuilder<> &b = e.b;
  llvm::Value *bits = b.CreateBitCast(value, b.getInt32Ty());
  llvm::Value *a = b.CreateAnd(bits, 0x7fffffff);
  int shift = 23 - type.mantissaBits;
  // Normal results: rebias, round at the last bit kept; a carry into the exponent is right.
  llvm::Value *rebased = b.CreateSub(a, e.i32(int64_t(127 - type.bias()) << 23));
  if (!towardsZero) {
    llvm::Value *isOdd = b.CreateAnd(b.CreateLShr(a, shift), 1);
    rebased = b.CreateAdd(b.CreateAdd(rebased, e.i32((1 << (shift - 1)) - 1)), isOdd);
  }
  llvm::Value *normal = b.CreateLShr(rebased, shift);
  // Subnormal results: adding this constant puts the type's quantum into the last bit of the sum.
  int smallest = 1 - type.bias();
  llvm::Value *magnitude = b.CreateBitCast(a, b.getFloatTy());
  llvm::Value *quantise = f32Constant(e, std::ldexp(1.0, smallest - type.mantissaBits + 23));
  llvm::Value *sum = b.CreateFAdd(magnitude, quantise);
  llvm::Value *subnormal =
      b.CreateSub(b.CreateBitCast(sum, b.getInt32Ty()), b.CreateBitCast(quantise, b.getInt32Ty()));
  if (towardsZero) {
    llvm::Value *above = b.CreateFCmpOGT(b.CreateFSub(sum, quantise), magnitude);
    subnormal = b.CreateSub(subnormal, b.CreateZExt(above, b.getInt32Ty()));
  }
  llvm::Value *isSmall = b.CreateFCmpOLT(magnitude, f32Constant(e, std::ldexp(1.0, smallest)));
  llvm::Value *code = b.CreateSelect(isSmall, subnormal, normal);
  code = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, code, e.i32(type.largest));
  code = b.CreateSelect(b.CreateICmpUGT(a, e.i32(f32Infinity)), e.i32(type.nan), code);
  llvm::Value *sign =
      b.CreateAnd(b.CreateLShr(bits, type.signShift()), 1u << (31 - type.signShift()));
  return b.CreateOr(code, sign);
}

llvm::Value *toF32(Emitter &e, llvm::Value *value, mlir::Type from) {
  llvm::IRBuilder<> &b = e.b;
  if (!tile::isFloat8(from))
    return value->getType()->isFloatTy() ? value : b.CreateFPExt(value, b.getFloatTy());
  return b.CreateFPExt(convertFloat(e, value, from, Float16Type::get(from.getContext())),
                       b.getFloatTy());
}

/// f64 to f32 towards zero, or to odd.
llvm::Value *truncateF64(Emitter &e, llvm::Value *value, bool toOdd) {
  llvm::Value *result = e.truncateDouble(value);
  if (!toOdd)
    return result;
  llvm::Value *lost = e.b.CreateFCmpUNE(e.b.CreateFPExt(result, e.b.getDoubleTy()), value);
  llvm::Value *bits = e.b.CreateBitCast(result, e.b.getInt32Ty());
  return e.b.CreateBitCast(e.b.CreateOr(bits, e.b.CreateZExt(lost, e.b.getInt32Ty())),
                           e.b.getFloatTy());
}

/// A code of an 8-bit float as f16, which holds every one.
llvm::Value *f8ToF16(Emitter &e, llvm::Value *code, mlir::Type from) {
  llvm::IRBuilder<> &b = e.b;
  llvm::Value *wide = b.CreateZExt(code, b.getInt16Ty());
  if (isa<Float8E5M2Type>(from)) // the upper half of an f16
    return b.CreateBitCast(b.CreateShl(wide, 8), b.getHalfTy());
  if (e.convertsFloat8())
    return b.CreateExtractElement(e.unpackE4M3(wide), uint64_t(0));
  // Exponent and mantissa at their places in f16 are the number times 2^-8, subnormals included.
  llvm::Value *magnitude = b.CreateAnd(wide, 0x7f);
  llvm::Value *scaled = b.CreateFMul(b.CreateBitCast(b.CreateShl(magnitude, 7), b.getHalfTy()),
                                     llvm::ConstantFP::get(b.getHalfTy(), 256.0));
  llvm::Value *bits = b.CreateBitCast(scaled, b.getInt16Ty());
  bits = b.CreateSelect(b.CreateICmpEQ(magnitude, b.getInt16(0x7f)), b.getInt16(0x7e00), bits);
  llvm::Value *sign = b.CreateShl(b.CreateAnd(wide, 0x80), 8);
  return b.CreateBitCast(b.CreateOr(bits, sign), b.getHalfTy());
}

llvm::Value *f32ToNarrow(Emitter &e, llvm::Value *value, mlir::Type to, bool towardsZero) {
  llvm::IRBuilder<> &b = e.b;
  if (to.isBF16() || to.isF16())
    return e.narrow(value, e.type(to), towardsZero);
  if (!towardsZero && e.convertsFloat8())
    return b.CreateTrunc(e.packFloat8(value, f32Constant(e, 0), to), b.getInt8Ty());
  return b.CreateTrunc(
      narrowCode(e, value, isa<Float8E5M2Type>(to) ? e5m2Codes : e4m3Codes, towardsZero),
      b.getInt8Ty());
}

} // namespace

llvm::Value *convertFloat(Emitter &e, llvm::Value *value, mlir::Type from, mlir::Type to,
                          bool towardsZero) {
  if (from == to)
    return value;
  llvm::IRBuilder<> &b = e.b;
  if (from.isF64()) {
    if (to.isF32() && !towardsZero)
      return b.CreateFPTrunc(value, b.getFloatTy());
    if (to.isF16() && !towardsZero)
      return b.CreateFPTrunc(value, b.getHalfTy());
    llvm::Value *single = truncateF64(e, value, /*toOdd=*/!to.isF32() && !towardsZero);
    return to.isF32() ? single : f32ToNarrow(e, single, to, towardsZero);
  }
  if (tile::isFloat8(from)) {
    llvm::Value *half = f8ToF16(e, value, from);
    if (to.isF16())
      return half;
    return convertFloat(e, half, Float16Type::get(from.getContext()), to, towardsZero);
  }
  if (to.isF64())
    return b.CreateFPExt(value, b.getDoubleTy());
  llvm::Value *single = toF32(e, value, from);
  return to.isF32() ? single : f32ToNarrow(e, single, to, towardsZero);
}

Values convertFloats(Emitter &e, llvm::ArrayRef<llvm::Value *> values, mlir::Type from,
                     mlir::Type to, bool towardsZero) {
  llvm::IRBuilder<> &b = e.b;
  Values results;
  bool pairs = values.size() % 2 == 0 && !from.isF64() && !towardsZero;
  bool toF8 = tile::isFloat8(to) && e.convertsFloat8() && pairs;
  bool fromE4M3 = isa<Float8E4M3FNType>(from) && e.convertsFloat8() && pairs && !tile::isFloat8(to);
  bool toHalf = (to.isF16() || to.isBF16()) && from.isF32() && pairs;
  if (!toF8 && !fromE4M3 && !toHalf) {
    for (llvm::Value *value : values)
      results.push_back(convertFloat(e, value, from, to, towardsZero));
    return results;
  }
  auto f16 = Float16Type::get(from.getContext());
  for (unsigned i = 0; i < values.size(); i += 2) {
    if (fromE4M3) {
      llvm::Value *high = b.CreateShl(b.CreateZExt(values[i + 1], b.getInt16Ty()), 8);
      llvm::Value *both = e.unpackE4M3(
          b.CreateOr(b.CreateZExt(values[i], b.getInt16Ty()), high, "", /*IsDisjoint=*/true));
      if (to.isBF16()) // by way of fp32, from which one instruction makes two; all of it is exact
        both = e.narrowPair(
            b.CreateFPExt(b.CreateExtractElement(both, uint64_t(0)), b.getFloatTy()),
            b.CreateFPExt(b.CreateExtractElement(both, 1), b.getFloatTy()), e.type(to));
      for (uint64_t k = 0; k < 2; ++k) {
        llvm::Value *element = b.CreateExtractElement(both, k);
        results.push_back(to.isBF16() ? element : convertFloat(e, element, f16, to));
      }
      continue;
    }
    llvm::Value *low = toF32(e, values[i], from), *high = toF32(e, values[i + 1], from);
    if (toF8) {
      llvm::Value *codes = e.packFloat8(low, high, to);
      results.push_back(b.CreateTrunc(codes, b.getInt8Ty()));
      results.push_back(b.CreateTrunc(b.CreateLShr(codes, 8), b.getInt8Ty()));
      continue;
    }
    llvm::Value *both = e.narrowPair(low, high, e.type(to));
    for (uint64_t k = 0; k < 2; ++k)
      results.push_back(b.CreateExtractElement(both, k));
  }
  return results;
}

} // namespace nereid::gpu
