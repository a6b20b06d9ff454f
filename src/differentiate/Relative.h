// Tangents over values, for the rules of quotients and logarithms.
//
// Where an exponential overflows, so does its slope, and the chain rule multiplies that by a slope
// of 0: of 1 / (1 + e^u) it computes 0 * infinity. The product of both is finite, since e^u * du
// over 1 + e^u is the share of e^u in the sum, at most 1, times du. So these rules do not divide
// the tangent of the denominator, or of a logarithm's operand; they compute the quotient from the
// operations that made the value:
//
//   of e^u                 du                   of a * b       those of a and b, added
//   of cosh(u)             tanh(u) * du         of a / b       their difference
//   of a term of a sum     the term's own, times the share of the term in the sum, which is 1 where
//   the term is infinite
//
// Only values that are computed with exponentials are treated so; for others the quotient is one.
#pragma once

#include "differentiate/Rules.h"

namespace nereid::differentiate {

/// Whether `value`, a denominator or the operand of a logarithm, is computed with exponentials of
/// what has tangents: by sums, products, quotients, roots, selections, conversions and broadcasts.
/// It and its tangent may both be infinite.
bool hasExponentials(const Dual &d, mlir::Value value);

/// The tangent of `value` over `value`, null without one. `reciprocal`: one over the value, if
/// there is one. `isDenominator`: what it is for is 0 where `value` is infinite.
mlir::Value relativeTangent(const Dual &d, mlir::Value value, bool isDenominator,
                            mlir::Value reciprocal = {});

/// The same of a `part` of the sum `whole`, over `whole`.
mlir::Value tangentOver(const Dual &d, mlir::Value part, mlir::Value whole);

/// The tangent of operand 0 for a function whose slope is 0 where the operand is infinite
/// (`negativeOnly`: minus infinity), and falls faster than exponentials grow: 0 there if the
/// operand is computed with exponentials.
mlir::Value settledTangent(const Dual &d, mlir::Value operand, bool negativeOnly = false);

} // namespace nereid::differentiate
