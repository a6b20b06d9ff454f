// The table of functions, and what does not depend on the precision.
#include "targets/cpu/math/Math.h"

#include "targets/cpu/math/Emitters.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace nereid::cpu {
namespace {

using llvm::ArrayRef;
using mlir::Value;

using Emitter = Lane (*)(const LaneBuilder &, ArrayRef<Lane>);

template <typename Op> Lane native(const LaneBuilder &l, ArrayRef<Lane> x) {
  return l(Op::create(l.builder, l.loc, x[0].get()));
}

Lane fma(const LaneBuilder &l, ArrayRef<Lane> x) {
  if (l.features.fma)
    return l(mlir::math::FmaOp::create(l.builder, l.loc, x[0].get(), x[1].get(), x[2].get()));
  if (x[0].element().isF64()) {
    declareLibm(l, "fma", x[0].element(), 3);
    return callLibm(l, "fma", x);
  }
  // The product of two f32 is exact in f64. The sum is rounded to odd there, so that rounding it
  // again to f32 rounds the true sum: TwoSum gives the error, whose sign says which neighbour is
  // the truncated one.
  mlir::Type wide = l.builder.getF64Type();
  Lane p = l.convert<mlir::arith::ExtFOp>(x[0], wide) * l.convert<mlir::arith::ExtFOp>(x[1], wide);
  Lane c = l.convert<mlir::arith::ExtFOp>(x[2], wide);
  Lane sum = p + c, other = sum - p;
  Lane error = (p - (sum - other)) + (c - other);
  Lane bits = l.bits(sum);
  // An even sum that is not exact moves one unit towards the error.
  Lane towardsZero = (error > 0.0) ^ (sum > 0.0);
  Lane moved = l.select(towardsZero, bits - 1, bits + 1);
  Lane inexact = ((error < 0.0) | (error > 0.0)) & ((bits & 1) == 0);
  Lane odd = l.asFloat(l.select(inexact, moved, bits));
  return l.convert<mlir::arith::TruncFOp>(odd, x[0].element());
}

Lane rsqrt(const LaneBuilder &l, ArrayRef<Lane> x) {
  return 1.0 / native<mlir::math::SqrtOp>(l, x);
}

Lane sigmoidF64(const LaneBuilder &l, ArrayRef<Lane> x) {
  // With the exponential of -|x|, so that neither end overflows.
  Lane negated = 0.0 - l.abs(x[0]);
  Lane e = expF64(l, negated);
  // Far from 0 the exponential, which may be subnormal, is the result or counts for nothing.
  Lane divided = l.select(negated < -40.0, 0x1p-100, e);
  Lane quotient = l.select(x[0] < 0.0, divided, l.constant(e, 1.0)) / (divided + 1.0);
  return l.select(x[0] < -40.0, e, quotient);
}

// Rounding without an instruction for it: adding 2^23 (2^52) to |x| leaves no bits of the fraction.
Lane roundEven(const LaneBuilder &l, Lane x) {
  Lane a = l.abs(x), limit = l.constant(x, x.element().isF64() ? 0x1p52 : 0x1p23);
  return l.select(a < limit, l.copysign((a + limit) - limit, x), x);
}
template <MathKind kind, typename Op> Lane rounding(const LaneBuilder &l, ArrayRef<Lane> operands) {
  // The nearest, halves away, has no instruction anywhere but on AArch64.
  if (l.features.rounding && kind != MathKind::Round)
    return native<Op>(l, operands);
  Lane x = operands[0], nearest = roundEven(l, x);
  if constexpr (kind == MathKind::RoundEven)
    return nearest;
  if constexpr (kind == MathKind::Floor)
    return l.copysign(nearest - l.select(nearest > x, 1.0, l.constant(x, 0.0)), x);
  if constexpr (kind == MathKind::Ceil)
    return l.copysign(nearest + l.select(nearest < x, 1.0, l.constant(x, 0.0)), x);
  Lane a = l.abs(x), n = l.abs(nearest);
  if constexpr (kind == MathKind::Trunc)
    return l.copysign(n - l.select(n > a, 1.0, l.constant(x, 0.0)), x);
  return l.copysign(n + l.select(a - n >= 0.5, 1.0, l.constant(x, 0.0)), x);
}

Lane powWide(const LaneBuilder &l, ArrayRef<Lane> x) {
  if (l.features.fma)
    return powF64(l, x);
  declareLibm(l, "pow", x[0].element(), 2);
  return callLibm(l, "pow", x);
}

struct Row {
  MathKind kind;
  unsigned operands;
  Emitter f32, f64;
};
constexpr Row table[] = {
    {MathKind::Exp, 1, expF32, expF64},
    {MathKind::Exp2, 1, exp2F32, exp2F64},
    {MathKind::Expm1, 1, expm1F32, expm1F64},
    {MathKind::Log, 1, logF32, logF64},
    {MathKind::Log2, 1, log2F32, log2F64},
    {MathKind::Log1p, 1, log1pF32, log1pF64},
    {MathKind::Sin, 1, sinF32, sinF64},
    {MathKind::Cos, 1, cosF32, cosF64},
    {MathKind::Sqrt, 1, native<mlir::math::SqrtOp>, native<mlir::math::SqrtOp>},
    {MathKind::Rsqrt, 1, rsqrt, rsqrt},
    {MathKind::Erf, 1, erfF32, erfF64},
    {MathKind::Tanh, 1, tanhF32, tanhF64},
    {MathKind::Sigmoid, 1, sigmoidF32, sigmoidF64},
    {MathKind::Pow, 2, powF32, powWide},
    {MathKind::Fma, 3, fma, fma},
    {MathKind::Abs, 1, native<mlir::math::AbsFOp>, native<mlir::math::AbsFOp>},
    {MathKind::Floor, 1, rounding<MathKind::Floor, mlir::math::FloorOp>,
     rounding<MathKind::Floor, mlir::math::FloorOp>},
    {MathKind::Ceil, 1, rounding<MathKind::Ceil, mlir::math::CeilOp>,
     rounding<MathKind::Ceil, mlir::math::CeilOp>},
    {MathKind::Trunc, 1, rounding<MathKind::Trunc, mlir::math::TruncOp>,
     rounding<MathKind::Trunc, mlir::math::TruncOp>},
    {MathKind::Round, 1, rounding<MathKind::Round, mlir::math::RoundOp>,
     rounding<MathKind::Round, mlir::math::RoundOp>},
    {MathKind::RoundEven, 1, rounding<MathKind::RoundEven, mlir::math::RoundEvenOp>,
     rounding<MathKind::RoundEven, mlir::math::RoundEvenOp>},
};
static_assert(std::size(table) == size_t(MathKind::RoundEven) + 1, "a row for each kind, in order");

} // namespace

Value anyLane(const LaneBuilder &l, Lane condition) {
  auto vector = llvm::dyn_cast<mlir::VectorType>(condition.type());
  if (!vector)
    return condition.get();
  Value flat = condition.get();
  if (vector.getRank() != 1)
    flat = mlir::vector::ShapeCastOp::create(
        l.builder, l.loc, mlir::VectorType::get({vector.getNumElements()}, vector.getElementType()),
        flat);
  return mlir::vector::ReductionOp::create(l.builder, l.loc, mlir::vector::CombiningKind::OR, flat);
}

Lane nearestInteger(const LaneBuilder &l, Lane x) {
  mlir::Type integer = LaneBuilder::withElement(x.type(), l.builder.getI32Type());
  auto vector = llvm::dyn_cast<mlir::VectorType>(x.type());
  if (!vector || vector.getRank() == 1)
    return l(mlir::LLVM::LrintOp::create(l.builder, l.loc, integer, x.get()));
  auto flat = mlir::VectorType::get({vector.getNumElements()}, vector.getElementType());
  Lane row =
      nearestInteger(l, l(mlir::vector::ShapeCastOp::create(l.builder, l.loc, flat, x.get())));
  return l(mlir::vector::ShapeCastOp::create(l.builder, l.loc, integer, row.get()));
}

void declareLibm(const LaneBuilder &l, llvm::StringRef name, mlir::Type element,
                 unsigned operands) {
  mlir::OpBuilder &b = l.builder;
  auto module = b.getInsertionBlock()->getParentOp()->getParentOfType<mlir::ModuleOp>();
  if (module.lookupSymbol(name))
    return;
  mlir::OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(module.getBody());
  llvm::SmallVector<mlir::Type> inputs(operands, element);
  mlir::LLVM::LLVMFuncOp::create(b, l.loc, name,
                                 mlir::LLVM::LLVMFunctionType::get(element, inputs));
}

Lane callLibm(const LaneBuilder &l, llvm::StringRef name, ArrayRef<Lane> operands) {
  mlir::OpBuilder &b = l.builder;
  mlir::Type element = operands[0].element(), type = operands[0].type();
  auto call = [&](ArrayRef<Value> arguments) {
    return mlir::LLVM::CallOp::create(b, l.loc, mlir::TypeRange(element), name, arguments)
        .getResult();
  };
  llvm::SmallVector<Value> arguments;
  auto vector = llvm::dyn_cast<mlir::VectorType>(type);
  if (!vector) {
    for (Lane operand : operands)
      arguments.push_back(operand.get());
    return l(call(arguments));
  }
  int64_t count = vector.getNumElements();
  auto flat = mlir::VectorType::get({count}, element);
  llvm::SmallVector<Value> sources;
  for (Lane operand : operands)
    sources.push_back(vector == flat
                          ? operand.get()
                          : mlir::vector::ShapeCastOp::create(b, l.loc, flat, operand.get()));
  Value result = sources[0];
  for (int64_t i = 0; i < count; ++i) {
    arguments.clear();
    for (Value source : sources)
      arguments.push_back(mlir::vector::ExtractOp::create(b, l.loc, source, i));
    result = mlir::vector::InsertOp::create(b, l.loc, call(arguments), result, i);
  }
  if (vector != flat)
    result = mlir::vector::ShapeCastOp::create(b, l.loc, vector, result);
  return l(result);
}

Value emitMath(mlir::OpBuilder &builder, mlir::Location loc, MathKind kind,
               mlir::ValueRange operands, const Features &features) {
  const Row &row = table[size_t(kind)];
  assert(row.kind == kind && operands.size() == row.operands);
  LaneBuilder l(builder, loc, features);
  llvm::SmallVector<Lane> lanes;
  for (Value operand : operands)
    lanes.push_back(l(operand));
  return (lanes[0].element().isF64() ? row.f64 : row.f32)(l, lanes).get();
}

} // namespace nereid::cpu
