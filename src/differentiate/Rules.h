// Derivatives of operations, one row each in Rules.def.
#pragma once

#include "ir/tile/Dialect.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace nereid::differentiate {

/// An operation with tangents, and what rules write their derivatives with. A null value is a
/// tangent that is zero; every function takes and gives it.
class Dual {
public:
  using TangentOf = llvm::function_ref<mlir::Value(mlir::Value)>;

  Dual(mlir::OpBuilder &builder, mlir::Operation *op, TangentOf tangentOf)
      : builder(builder), op(op), tangentOf(tangentOf) {}

  /// Operand `i`, its tangent, and the result.
  mlir::Value x(unsigned i = 0) const { return op->getOperand(i); }
  mlir::Value t(unsigned i = 0) const { return tangentOf(op->getOperand(i)); }
  /// The tangent of a value that an operand is computed from.
  mlir::Value tangent(mlir::Value value) const { return tangentOf(value); }
  mlir::Value y() const { return op->getResult(0); }
  unsigned operands() const { return op->getNumOperands(); }

  /// A number of the result's type.
  mlir::Value number(double value) const;
  mlir::Value add(mlir::Value a, mlir::Value b) const;
  mlir::Value subtract(mlir::Value a, mlir::Value b) const;
  /// Null when either is.
  mlir::Value multiply(mlir::Value a, mlir::Value b) const;
  mlir::Value scale(mlir::Value a, double factor) const;
  mlir::Value divide(mlir::Value a, mlir::Value b) const;
  mlir::Value negate(mlir::Value a) const;
  /// An operation of one operand by name, or of two of one type.
  mlir::Value call(llvm::StringRef name, mlir::ValueRange operands) const;
  /// Another function of the device library, `name` without its prefix and suffix.
  mlir::Value device(llvm::StringRef name, mlir::Value operand) const;
  /// The same operation on other operands.
  mlir::Value again(mlir::ValueRange operands) const;
  /// A comparison of floats that orders, by its arith predicate: "olt".
  mlir::Value compare(llvm::StringRef predicate, mlir::Value a, mlir::Value b) const;
  mlir::Value logical(llvm::StringRef name, mlir::Value a, mlir::Value b) const {
    return call(name, {a, b});
  }
  /// Where the condition holds `a`, elsewhere `b`; null when both are.
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b) const;

  mlir::OpBuilder &builder;
  mlir::Operation *const op;

private:
  TangentOf tangentOf;
};

/// Computes the tangent of an operation's one result.
using RuleFunction = mlir::Value (*)(const Dual &);

struct Row {
  enum class Kind : uint8_t { Rule, Moves, Walked, Compares, Inactive, Refused };
  Kind kind;
  RuleFunction rule = nullptr;
  const char *why = ""; ///< of what is inactive or refused
};

/// The row of an operation by its name; null when there is none.
const Row *findRow(llvm::StringRef operation);
/// The row of a symbol of the device library; null when there is none.
const Row *findDeviceRow(llvm::StringRef symbol);
/// The row of assembly that the front end writes itself; null for an author's.
const Row *findAssemblyRow(llvm::StringRef assembly);

} // namespace nereid::differentiate
