// Expressions over lanes: arithmetic written with operators that emits arith operations on scalars
// or vectors.
//
//   LaneBuilder l(builder, loc, features);
//   Lane x = l(value);
//   Lane y = l.fma(x, x, 1.0) * 0.5;     // a number takes the type of the lane beside it
//
// Operators choose the float or the integer operation by the element type; integers are signless,
// `>>` is logical.
#pragma once
#include "targets/cpu/Features.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"

#include <type_traits>

namespace nereid::cpu {

class LaneBuilder;

class Lane {
public:
  Lane(mlir::Value value, const LaneBuilder *lanes) : value(value), lanes(lanes) {}
  mlir::Value get() const { return value; }
  mlir::Type type() const { return value.getType(); }
  mlir::Type element() const { return mlir::getElementTypeOrSelf(type()); }
  bool isFloat() const { return llvm::isa<mlir::FloatType>(element()); }
  const LaneBuilder &emitter() const { return *lanes; }

private:
  mlir::Value value;
  const LaneBuilder *lanes;
};

class LaneBuilder {
public:
  LaneBuilder(mlir::OpBuilder &builder, mlir::Location loc, const Features &features)
      : builder(builder), loc(loc), features(features) {}

  Lane operator()(mlir::Value value) const { return Lane(value, this); }

  // `type` with the element type replaced.
  static mlir::Type withElement(mlir::Type type, mlir::Type element) {
    if (auto shaped = llvm::dyn_cast<mlir::ShapedType>(type))
      return shaped.clone(element);
    return element;
  }

  // A number in every lane, of the type of `like`.
  template <typename Number> Lane constant(Lane like, Number number) const {
    mlir::Type element = like.element();
    mlir::TypedAttr attribute;
    if (llvm::isa<mlir::FloatType>(element))
      attribute = builder.getFloatAttr(element, double(number));
    else
      attribute = builder.getIntegerAttr(
          element, llvm::APInt(element.getIntOrFloatBitWidth(), uint64_t(number), false, true));
    if (auto shaped = llvm::dyn_cast<mlir::ShapedType>(like.type()))
      attribute = mlir::DenseElementsAttr::get(shaped, mlir::Attribute(attribute));
    return (*this)(mlir::arith::ConstantOp::create(builder, loc, attribute));
  }

  template <typename Op> Lane make(Lane a, Lane b) const {
    return (*this)(Op::create(builder, loc, a.get(), b.get()));
  }

  // a * b + c, with one rounding where the machine can; without, both roundings are within every
  // function's bound.
  Lane fma(Lane a, Lane b, Lane c) const;
  template <typename B, typename C> Lane fma(Lane a, B b, C c) const {
    return fma(a, lane(a, b), lane(a, c));
  }
  // c[0] + c[1] * x + ... by Horner's rule.
  template <size_t count> Lane polynomial(Lane x, const double (&c)[count]) const {
    Lane sum = constant(x, c[count - 1]);
    for (size_t i = count - 1; i-- > 0;)
      sum = fma(sum, x, constant(x, c[i]));
    return sum;
  }

  Lane select(Lane condition, Lane a, Lane b) const {
    return (*this)(mlir::arith::SelectOp::create(builder, loc, condition.get(), a.get(), b.get()));
  }
  template <typename Number> Lane select(Lane condition, Number a, Lane b) const {
    return select(condition, constant(b, a), b);
  }
  Lane compare(mlir::arith::CmpFPredicate predicate, Lane a, Lane b) const {
    return (*this)(mlir::arith::CmpFOp::create(builder, loc, predicate, a.get(), b.get()));
  }
  Lane compare(mlir::arith::CmpIPredicate predicate, Lane a, Lane b) const {
    return (*this)(mlir::arith::CmpIOp::create(builder, loc, predicate, a.get(), b.get()));
  }
  // The arithmetic shift right.
  Lane sra(Lane a, int64_t count) const {
    return make<mlir::arith::ShRSIOp>(a, constant(a, count));
  }

  // The bits of floats as integers, and back to floats of the element type `element`.
  Lane bits(Lane a) const {
    auto integer = builder.getIntegerType(a.element().getIntOrFloatBitWidth());
    return (*this)(
        mlir::arith::BitcastOp::create(builder, loc, withElement(a.type(), integer), a.get()));
  }
  Lane asFloat(Lane a, mlir::Type element) const {
    return (*this)(
        mlir::arith::BitcastOp::create(builder, loc, withElement(a.type(), element), a.get()));
  }
  // As a float of the width of the integer: f32 or f64.
  Lane asFloat(Lane a) const {
    return asFloat(a, a.element().isInteger(32) ? mlir::Type(builder.getF32Type())
                                                : builder.getF64Type());
  }

  template <typename Op> Lane convert(Lane a, mlir::Type element) const {
    return (*this)(Op::create(builder, loc, withElement(a.type(), element), a.get()));
  }

  Lane abs(Lane a) const { return (*this)(mlir::math::AbsFOp::create(builder, loc, a.get())); }
  Lane copysign(Lane magnitude, Lane sign) const {
    return make<mlir::math::CopySignOp>(magnitude, sign);
  }
  // NaN stays NaN.
  Lane atMost(Lane a, double limit) const;
  Lane atLeast(Lane a, double limit) const;

  template <typename Number> Lane lane(Lane like, Number number) const {
    if constexpr (std::is_same_v<Number, Lane>)
      return number;
    else
      return constant(like, number);
  }

  mlir::OpBuilder &builder;
  mlir::Location loc;
  const Features &features;
};

// Operators between lanes, and between a lane and a number.
#define NEREID_LANE_OPERATOR(op, FloatOp, IntOp)                                                   \
  inline Lane operator op(Lane a, Lane b) {                                                        \
    return a.isFloat() ? a.emitter().make<mlir::arith::FloatOp>(a, b)                              \
                       : a.emitter().make<mlir::arith::IntOp>(a, b);                               \
  }                                                                                                \
  template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number>>>            \
  Lane operator op(Lane a, Number b) {                                                             \
    return a op a.emitter().constant(a, b);                                                        \
  }                                                                                                \
  template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number>>>            \
  Lane operator op(Number a, Lane b) {                                                             \
    return b.emitter().constant(b, a) op b;                                                        \
  }
NEREID_LANE_OPERATOR(+, AddFOp, AddIOp)
NEREID_LANE_OPERATOR(-, SubFOp, SubIOp)
NEREID_LANE_OPERATOR(*, MulFOp, MulIOp)
NEREID_LANE_OPERATOR(/, DivFOp, DivUIOp)
#undef NEREID_LANE_OPERATOR

#define NEREID_LANE_OPERATOR(op, IntOp)                                                            \
  inline Lane operator op(Lane a, Lane b) {                                                        \
    return a.emitter().make<mlir::arith::IntOp>(a, b);                                             \
  }                                                                                                \
  inline Lane operator op(Lane a, int64_t b) {                                                     \
    return a op a.emitter().constant(a, b);                                                        \
  }
NEREID_LANE_OPERATOR(&, AndIOp)
NEREID_LANE_OPERATOR(|, OrIOp)
NEREID_LANE_OPERATOR(^, XOrIOp)
NEREID_LANE_OPERATOR(<<, ShLIOp)
NEREID_LANE_OPERATOR(>>, ShRUIOp)
#undef NEREID_LANE_OPERATOR

// Comparisons: ordered for floats (false with a NaN), signed for integers.
#define NEREID_LANE_COMPARISON(op, Float, Int)                                                     \
  inline Lane operator op(Lane a, Lane b) {                                                        \
    return a.isFloat() ? a.emitter().compare(mlir::arith::CmpFPredicate::Float, a, b)              \
                       : a.emitter().compare(mlir::arith::CmpIPredicate::Int, a, b);               \
  }                                                                                                \
  template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number>>>            \
  Lane operator op(Lane a, Number b) {                                                             \
    return a op a.emitter().constant(a, b);                                                        \
  }
NEREID_LANE_COMPARISON(<, OLT, slt)
NEREID_LANE_COMPARISON(>, OGT, sgt)
NEREID_LANE_COMPARISON(<=, OLE, sle)
NEREID_LANE_COMPARISON(>=, OGE, sge)
NEREID_LANE_COMPARISON(==, OEQ, eq)
#undef NEREID_LANE_COMPARISON

inline Lane LaneBuilder::fma(Lane a, Lane b, Lane c) const {
  if (!features.fma)
    return a * b + c;
  return (*this)(mlir::math::FmaOp::create(builder, loc, a.get(), b.get(), c.get()));
}
inline Lane LaneBuilder::atMost(Lane a, double limit) const {
  return select(a > limit, limit, a);
}
inline Lane LaneBuilder::atLeast(Lane a, double limit) const {
  return select(a < limit, limit, a);
}

} // namespace nereid::cpu
