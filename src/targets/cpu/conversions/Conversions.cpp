// Conversions by integer arithmetic on the bits. Everything narrow goes through f32, which holds
// every f16, bf16 and 8-bit value exactly; f64 goes there rounded to odd, so that the second
// rounding sees whether bits were lost (Boldo and Melquiond: f32 has more than two bits to spare
// over each narrow type).
#include "targets/cpu/conversions/Conversions.h"

#include "targets/cpu/LaneBuilder.h"

namespace nereid::cpu {
namespace {

// The layout of a narrow type and what overflow gives.
struct Narrow {
  int exponentBits, mantissaBits;
  int nan;          // code of the quiet NaN
  int overflow;     // largest result, rounding to nearest: infinity, or the largest finite where it
                    // saturates
  int overflowZero; // the same, towards zero
  int infinity;     // what an infinity becomes

  int bias() const { return (1 << (exponentBits - 1)) - 1; }
  int signShift() const { return 31 - exponentBits - mantissaBits; }
};
constexpr Narrow f16 = {5, 10, 0x7e00, 0x7c00, 0x7bff, 0x7c00};
constexpr Narrow e5m2 = {5, 2, 0x7f, 0x7b, 0x7b, 0x7b};
constexpr Narrow e4m3 = {4, 3, 0x7f, 0x7e, 0x7e, 0x7e};

constexpr int64_t f32Infinity = 0x7f800000;

double twoTo(int exponent) {
  return std::ldexp(1.0, exponent);
}

// f32 lanes to the type's code, in i32 lanes.
Lane narrowCode(const LaneBuilder &l, Lane x, const Narrow &type, bool towardsZero) {
  Lane bits = l.bits(x);
  Lane a = bits & 0x7fffffff;
  int shift = 23 - type.mantissaBits;
  // Normal results: rebias, round at the last bit kept. A carry into the exponent is right as it
  // is.
  Lane rebased = a - (int64_t(127 - type.bias()) << 23);
  if (!towardsZero)
    rebased = rebased + ((int64_t(1) << (shift - 1)) - 1) + ((a >> shift) & 1);
  Lane normal = rebased >> shift;
  // Subnormal results: adding this constant puts the type's quantum into the last bit of the sum.
  int smallest = 1 - type.bias();
  Lane magnitude = l.asFloat(a);
  double quantise = twoTo(smallest - type.mantissaBits + 23);
  Lane sum = magnitude + quantise;
  Lane subnormal = l.bits(sum) - l.bits(l.constant(x, quantise));
  if (towardsZero)
    subnormal = subnormal - l.select(sum - quantise > magnitude, 1, l.constant(subnormal, 0));
  Lane code = l.select(magnitude < twoTo(smallest), subnormal, normal);
  // A magnitude too small to rebias has been replaced; so `code` is not negative here.
  int largest = towardsZero ? type.overflowZero : type.overflow;
  code = l.select(code > largest, largest, code);
  if (towardsZero && type.infinity != type.overflowZero)
    code = l.select(a == f32Infinity, type.infinity, code);
  code = l.select(a > f32Infinity, type.nan, code);
  return code | ((bits >> type.signShift()) & (int64_t(1) << (31 - type.signShift())));
}

Lane bf16Code(const LaneBuilder &l, Lane x, bool towardsZero) {
  Lane bits = l.bits(x), top = bits >> 16;
  Lane rounded = towardsZero ? top : (bits + 0x7fff + (top & 1)) >> 16;
  return l.select((bits & 0x7fffffff) > f32Infinity, top | 0x40, rounded);
}

// A narrow code in i32 lanes as f32. Normal arithmetic on normal numbers, so that a host that
// flushes subnormals changes nothing.
Lane widenCode(const LaneBuilder &l, Lane code, const Narrow &type) {
  int width = type.exponentBits + type.mantissaBits, shift = 23 - type.mantissaBits;
  Lane a = code & ((int64_t(1) << width) - 1);
  Lane moved = a << shift;
  int64_t rebias = 127 - type.bias();
  Lane normal = moved + (rebias << 23);
  double smallest = twoTo(1 - type.bias());
  Lane subnormal = l.bits(l.asFloat(moved + ((rebias + 1) << 23)) - smallest);
  Lane bits = l.select(a < (int64_t(1) << type.mantissaBits), subnormal, normal);
  if (type.mantissaBits != 3) // infinities and NaNs share the top exponent
    bits = l.select(a >= (((int64_t(1) << type.exponentBits) - 1) << type.mantissaBits),
                    moved | f32Infinity, bits);
  else
    bits = l.select(a == type.nan, 0x7fc00000, bits);
  return l.asFloat(bits | ((code << type.signShift()) & 0x80000000));
}

// f64 to f32 towards zero, or to odd: when bits are lost, the neighbour with the odd last bit.
Lane truncateF64(const LaneBuilder &l, Lane x, bool toOdd) {
  Lane nearest = l.convert<mlir::arith::TruncFOp>(x, l.builder.getF32Type());
  Lane back = l.abs(l.convert<mlir::arith::ExtFOp>(nearest, x.element())), a = l.abs(x);
  Lane bits = l.bits(nearest), above = back > a;
  Lane zero = l.constant(bits, 0);
  bits = bits - l.select(above, 1, zero);
  if (toOdd)
    bits = bits | l.select(above | (back < a), 1, zero);
  return l.asFloat(bits);
}

Lane toF32(const LaneBuilder &l, Lane x) {
  mlir::Type element = x.element(), i32 = l.builder.getI32Type();
  if (element.isF32())
    return x;
  if (element.isF16() && l.features.f16c)
    return l.convert<mlir::arith::ExtFOp>(x, l.builder.getF32Type());
  Lane code = l.convert<mlir::arith::ExtUIOp>(l.bits(x), i32);
  if (element.isBF16())
    return l.asFloat(code << 16);
  if (element.isF16())
    return widenCode(l, code, f16);
  return widenCode(l, code, llvm::isa<mlir::Float8E5M2Type>(element) ? e5m2 : e4m3);
}

Lane fromF32(const LaneBuilder &l, Lane x, mlir::Type element, bool towardsZero) {
  if (element.isF32())
    return x;
  if (element.isF16() && l.features.f16c && !towardsZero)
    return l.convert<mlir::arith::TruncFOp>(x, element);
  Lane code = element.isBF16() ? bf16Code(l, x, towardsZero)
                               : narrowCode(l, x,
                                            element.isF16()                            ? f16
                                            : llvm::isa<mlir::Float8E5M2Type>(element) ? e5m2
                                                                                       : e4m3,
                                            towardsZero);
  auto integer = l.builder.getIntegerType(element.getIntOrFloatBitWidth());
  return l.asFloat(l.convert<mlir::arith::TruncIOp>(code, integer), element);
}

} // namespace

mlir::Value emitFloatCast(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value source,
                          mlir::Type element, bool towardsZero, const Features &features) {
  LaneBuilder l(builder, loc, features);
  Lane x = l(source);
  if (x.element() == element)
    return source;
  if (x.element().isF64()) {
    if (element.isF32() && !towardsZero)
      return l.convert<mlir::arith::TruncFOp>(x, element).get();
    return fromF32(l, truncateF64(l, x, !element.isF32()), element, towardsZero).get();
  }
  Lane single = toF32(l, x);
  if (element.isF64())
    return l.convert<mlir::arith::ExtFOp>(single, element).get();
  return fromF32(l, single, element, towardsZero).get();
}

} // namespace nereid::cpu
