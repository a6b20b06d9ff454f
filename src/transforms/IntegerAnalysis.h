// What is known, at compile time, about the integers and pointers of a kernel.
//
// A target that meets `tile.load %ptrs` must find out that the 1024 addresses are really one
// address and a count. This analysis tells. Everything it tells follows from one idea:
//
//   *Along one dimension of a tensor, split the indices into aligned groups of `length` elements
//    (0..length-1, length..2*length-1, ...; the last group may be short). Within each group,
//    consecutive elements differ by `step`. The first element of each group is a multiple of
//    `divisibility`.*
//
// Such a group is called a run. The three properties that code generators ask for are special
// cases:
//
//   step 0, constancy:   `tile.splat %x` has length = the size and the divisibility of %x
//   step 1, contiguity:  `tile.range 0..1024` has length 1024 and divisibility 2^62 (it starts at
//   0) step s, strided:     `4 * tile.range + 2` has length 1024, step 4 and divisibility 2
//
// Runs are closed under the arithmetic of addresses: a sum of runs is a run of the greatest
// common length whose step is the sum of the steps; a product with a constant multiplies the step;
// `x % m` and `x / m` cut runs to where no multiple of `m` lies inside a group. A run that is cut
// into shorter ones gets the divisibility that holds at every new beginning: gcd(old, step * new
// length).
//
// A tensor has one run per dimension, each valid for every choice of the other coordinates. With
// rows m and columns n, `m[:, None] * stride + n[None, :]` has along dimension 1 the run (length N,
// step 1, divisibility of stride), and along dimension 0 nothing, unless stride is a known
// constant.
//
// Wrapping. Integers wrap, so all statements about steps and divisibility hold modulo 2^width: the
// divisibility is a power of two, hence no wrap disturbs it, and `step` is a difference modulo
// 2^width. What wrapping does break is sign extension: the i32 run 2^31-2, 2^31-1, -2^31 is
// contiguous, its extension to 64 bits is not. `tile.addptr` extends its offset; there, and at
// `arith.extsi/extui`, a run is kept only as far as a wrap inside it is excluded: by the value
// range, or because an aligned group of 2^k elements that starts at a multiple of 2^k never crosses
// a power of two (which is why `pid * 1024 + range(0, 1024)` is contiguous although `pid * 1024`
// may overflow). Signed division and remainder keep runs only where the dividend is known not to be
// negative.
//
// A pointer counts as its 64-bit address: steps and divisibility are in bytes; `contiguity()`
// divides by the size of the pointee.
//
// Value ranges hold for all elements of a tensor together, signed and unsigned, and start from:
// program ids in [0, 2^31-1) or below `tile.max_programs` (an array of three i64 on the kernel, the
// grid's promised extent per axis), loop bounds, constants, `tile.assume`. A range of one number is
// a known constant.
//
// Speculative mode. Often a run holds at run time though nothing in the kernel proves it: `(pid *
// 128 + range) % M` where pid * 128 might in principle have overflowed. With `Mode::Speculative`
// the analysis assumes that offsets never wrap and that dividends are not negative. Its answers
// must be guarded: test the first and last element of the run, or the whole vector of addresses,
// before relying on them. `Mode::NonNegativeDividends` assumes the latter alone: with a positive
// divisor its answers are wrong only for a kernel that computes with negative remainders of
// addresses, which lie before what the addresses count from.
//
// The analysis makes no assumptions about aliasing of pointers.
//
// Related: AxisInfo of Triton (contiguity, divisibility and constancy as three numbers; no steps,
// no ranges, wraps ignored), and MLIR's integer range analysis, whose transfer functions serve here
// for the ranges.
#pragma once
#include "mlir/IR/Operation.h"
#include "mlir/Interfaces/InferIntRangeInterface.h"

#include <memory>
#include <optional>

namespace nereid::transforms {

/// One dimension of one value; see above. `length` is at least 1 and at most the size; `step` is 0
/// where `length` is 1 and the size is not.
struct Run {
  int64_t length = 1;
  int64_t step = 0;
  int64_t divisibility = 1; // a power of two, at most 2^62 (that of zero)

  bool operator==(const Run &) const = default;
};

/// What is known of one scalar or tensor of integers or pointers.
class IntegerInfo {
public:
  /// Of a tensor one run per dimension; of a scalar exactly one, of length 1.
  llvm::ArrayRef<Run> runs() const { return dims; }
  const Run &run(unsigned dim) const { return dims[dim]; }

  /// The longest aligned groups along `dim` of consecutive integers, or of adjacent pointees.
  int64_t contiguity(unsigned dim) const { return dims[dim].step == unit ? dims[dim].length : 1; }

  /// The longest aligned groups along `dim` of equal elements.
  int64_t constancy(unsigned dim) const { return dims[dim].step == 0 ? dims[dim].length : 1; }

  /// A power of two that divides the first element of every run along `dim` (an address: in bytes).
  int64_t divisibility(unsigned dim = 0) const { return dims[dim].divisibility; }

  /// A power of two that divides every element.
  int64_t divisibilityOfAll() const;

  /// Bounds of all elements as signed and as unsigned numbers of the value's width (a pointer: 64).
  const mlir::ConstantIntRanges &range() const { return *bounds; }
  bool isNonNegative() const { return bounds->smin().isNonNegative(); }

  /// The number that every element is.
  std::optional<llvm::APInt> constant() const { return bounds->getConstantValue(); }

  /// All elements are known to be one and the same number (known or not).
  bool isUniform(llvm::ArrayRef<int64_t> shape) const;

  /// Bytes of the pointee for a pointer, 1 for an integer: the step of a contiguous run.
  int64_t elementUnit() const { return unit; }

  void print(llvm::raw_ostream &os) const;

  // Built by the analysis only.
  llvm::SmallVector<Run, 2> dims;
  std::optional<mlir::ConstantIntRanges> bounds;
  int64_t unit = 1;
  bool operator==(const IntegerInfo &other) const;
};

enum class Mode { Proven, NonNegativeDividends, Speculative };

/// Runs over `root` (a function or a module) once, at construction; the answers are those of the
/// moment and are void when the IR changes. Costs one sparse forward dataflow pass.
class IntegerAnalysis {
public:
  explicit IntegerAnalysis(mlir::Operation *root, Mode mode = Mode::Proven);
  ~IntegerAnalysis();
  IntegerAnalysis(IntegerAnalysis &&) noexcept;

  /// Null for a value that is neither integer nor pointer (nor tensor of these), or that is never
  /// computed.
  const IntegerInfo *lookup(mlir::Value value) const;

  /// Short forms of `lookup`, with 1 where nothing is known.
  int64_t contiguity(mlir::Value value, unsigned dim) const;
  int64_t constancy(mlir::Value value, unsigned dim) const;
  int64_t divisibility(mlir::Value value, unsigned dim) const;

  /// Whether the runs of the integer `value` along `dim` stay runs of the same length and step when
  /// each element is sign-extended, that is: no run crosses from the largest to the smallest
  /// number.
  bool signExtensionKeepsRuns(mlir::Value value, unsigned dim) const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace nereid::transforms
