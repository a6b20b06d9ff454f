// What depends on the inputs: a forward fixpoint over the whole kernel.
//
// A value that is a float and depends on an input has a tangent. A pointer or descriptor made from
// an argument with a tangent has a shadow. An integer that holds bits of a float with a tangent, or
// some of them, is marked: a float made from it again would depend on the inputs in a way that no
// rule knows. Comparisons and conversions to integers end all of this, since what they give is
// constant in pieces.
#pragma once

#include "differentiate/Differentiate.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace nereid::differentiate {

/// What differentiation has to know of one argument of the kernel.
struct Argument {
  int tangent = -1; ///< the number of the argument that is its tangent
  bool isInput = false, isOutput = false;
};

/// Of all arguments, from their attributes.
llvm::SmallVector<Argument> argumentsOf(mlir::func::FuncOp kernel);

/// The name of an argument in the source.
std::string argumentName(mlir::func::FuncOp kernel, unsigned number);

enum Carries : uint8_t { Nothing = 0, Tangent = 1, Bits = 2, Shadow = 4 };

class Activity {
public:
  Activity(mlir::func::FuncOp kernel, llvm::ArrayRef<Argument> arguments);

  uint8_t of(mlir::Value value) const { return carried.lookup(value); }
  bool hasTangent(mlir::Value value) const { return of(value) & Tangent; }
  bool hasShadow(mlir::Value value) const { return of(value) & Shadow; }
  bool hasBits(mlir::Value value) const { return of(value) & Bits; }
  bool hasAny(mlir::ValueRange values) const {
    return llvm::any_of(values, [&](mlir::Value value) { return of(value) != Nothing; });
  }

  /// `to` takes the place of `from`.
  void replaced(mlir::Value from, mlir::Value to) {
    carried[to] = of(from);
    carried.erase(from);
  }

private:
  bool join(mlir::Value to, uint8_t what);
  bool joinAll(mlir::ValueRange to, mlir::ValueRange from);
  bool visit(mlir::Operation &op);
  bool visitControl(mlir::Operation &op);
  bool visitCombiner(mlir::Operation &op);
  bool visitMap(mlir::Operation &op);
  uint8_t result(mlir::Operation &op, mlir::Value value, uint8_t operands) const;

  llvm::DenseMap<mlir::Value, uint8_t> carried;
};

} // namespace nereid::differentiate
