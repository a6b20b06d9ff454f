// Affine forms of blocks: what a tensor of integers or pointers is as a sum over its dimensions,
//
//     base + sum of step[d] * index[d],
//
// where base and steps are polynomials over scalars of the kernel, as whole numbers.
//
// The forms are found by walking back from a value of a loop. Scalars from outside of the loop are
// left as they are; inside, arithmetic is followed down to the loop's variable, and what the loop
// carries and advances by the same amount in each turn is written in terms of that variable.
//
// Wrapping. Additions and products of 32-bit numbers agree with those of whole numbers modulo 2^32.
// So a form of a 32-bit value is right if its result is in the range of 32 bits, whatever happened
// on the way. Where that matters (a sign extension, a comparison, a remainder) the forms note a
// condition, which the caller proves or tests at run time.
//
// Remainders. `(start + index) % bound` is the identity up to the first index at which it begins
// anew. Such a dimension is given the form of its dividend, and `Wrap` says where that ends to be
// right: for `start + index < bound`. `where(x < bound, x, anything)` is treated alike.
#pragma once

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <vector>

namespace nereid::transforms {

/// A polynomial with integer coefficients over scalar values. An overflow of a coefficient makes it
/// invalid, for good.
class Polynomial {
public:
  using Factors = llvm::SmallVector<mlir::Value, 2>; ///< none: the constant term
  struct Term {
    Factors factors;
    int64_t coefficient;
  };

  Polynomial() = default; ///< 0
  static Polynomial number(int64_t value);
  static Polynomial of(mlir::Value value);

  bool isValid() const { return valid; }
  bool isZero() const { return valid && terms.empty(); }
  std::optional<int64_t> constant() const;
  /// The value that this is, without a factor or another term; null.
  mlir::Value value() const;
  llvm::ArrayRef<Term> all() const { return terms; }
  bool contains(mlir::Value value) const;

  Polynomial plus(const Polynomial &other, int64_t times = 1) const;
  Polynomial times(const Polynomial &other) const;
  /// All coefficients divided; invalid where that leaves a rest.
  Polynomial dividedBy(int64_t divisor) const;
  bool operator==(const Polynomial &other) const { return plus(other, -1).isZero(); }

private:
  void add(llvm::ArrayRef<mlir::Value> factors, int64_t coefficient);

  llvm::SmallVector<Term, 2> terms; ///< in the order in which they came
  bool valid = true;
};

/// Where the form of a dimension stops to be right.
struct Wrap {
  Polynomial start; ///< of the dividend, at index 0
  Polynomial bound;
};

struct BlockForm {
  Polynomial base;
  llvm::SmallVector<Polynomial, 3> steps; ///< by dimension
  llvm::SmallVector<std::optional<Wrap>, 3> wraps;
};

/// A tensor of pointers: an argument of the kernel and offsets in elements.
struct PointerForm {
  mlir::Value argument;
  BlockForm offsets;
};

/// A mask: `index[dim] < limit` for all of these.
struct MaskLimit {
  unsigned dim;
  Polynomial limit;
};

/// `base + sum of step[d] * index[d]` must be within [least, most] for all indices below `sizes`.
struct FormCondition {
  BlockForm form;
  llvm::SmallVector<int64_t, 3> sizes;
  int64_t least, most;
};

/// Forms of the values of one loop: its variable of 32 bits, a constant step above 0.
class AffineForms {
public:
  explicit AffineForms(mlir::scf::ForOp loop) : loop(loop) {}

  /// Nothing where there is no such form; `why` then says what is in the way.
  std::optional<BlockForm> block(mlir::Value tensor);
  std::optional<PointerForm> pointers(mlir::Value tensor);
  std::optional<llvm::SmallVector<MaskLimit>> mask(mlir::Value tensor);

  /// Under these conditions the forms found so far are right.
  std::vector<FormCondition> conditions;
  const char *why = nullptr;

private:
  std::optional<Polynomial> scalar(mlir::Value value);
  std::optional<Polynomial> scalarInLoop(mlir::Value value);
  std::optional<Polynomial> expanded(mlir::Value value);
  std::optional<Polynomial> arithmetic(mlir::Operation *op,
                                       std::optional<Polynomial> (AffineForms::*of)(mlir::Value));
  std::optional<Polynomial> carried(unsigned number);
  std::optional<Polynomial> addedTo(mlir::Value pointer, mlir::Value end);
  bool scalarPointer(mlir::Value pointer, PointerForm &form);
  std::optional<BlockForm> reshaped(mlir::Operation *op, BlockForm form);
  std::optional<BlockForm> wrapped(BlockForm form, mlir::Value divisor, mlir::Type type);
  std::optional<llvm::SmallVector<MaskLimit>> comparison(mlir::Operation *op);
  void require(FormCondition condition);
  void mustFit(const BlockForm &form, mlir::Type type);
  void mustFit(const Polynomial &number, mlir::Type type);
  std::nullopt_t no(const char *reason) {
    if (!why)
      why = reason;
    return std::nullopt;
  }
  bool isInside(mlir::Value value) const;

  mlir::scf::ForOp loop;
  unsigned depth = 0;
};

} // namespace nereid::transforms
