// The arithmetic of runs behind IntegerAnalysis (which explains what a run is): how each operation
// on integers acts on the aligned groups of equal difference along one dimension. Free of MLIR but
// for the ranges.
#pragma once
#include "transforms/IntegerAnalysis.h"

namespace nereid::transforms {

/// The divisibility of zero, and the greatest there is.
constexpr int64_t kAnyDivisibility = int64_t(1) << 62;

/// The greatest power of two that divides `value`; `kAnyDivisibility` for 0.
int64_t powerOfTwoIn(int64_t value);

/// One operand of an operation, along one dimension of `size` elements of `bits` bits each. Several
/// functions need the range of all elements as well.
struct RunOperand {
  Run run;
  int64_t size;
  unsigned bits;
  const mlir::ConstantIntRanges *range;
};

/// `run` in the normal form: clamped to the size, the step reduced to `bits` bits, none where the
/// length is 1.
Run normalized(Run run, int64_t size, unsigned bits);

/// The length of the longest aligned groups that lie within groups of either length.
int64_t commonLength(int64_t a, int64_t b, int64_t size);

/// `run` cut into groups of `length`, which divides its length (or its length is the size).
Run cut(Run run, int64_t length);

/// A power of two that divides every element of runs like this.
int64_t divisibilityOfElements(const Run &run);

/// No two neighbours of a run differ by a wrap, when elements are taken as signed or unsigned
/// numbers.
bool runsNeverWrap(const RunOperand &a, bool isSigned);

/// The part of the runs in which no wrap occurs, hence the runs of the extension to more bits.
Run extendedRun(const RunOperand &a, bool isSigned);

// Results are normal. `plain` says that elements may be taken as unsigned numbers: the operation is
// unsigned, or its operands are known not to be negative.
Run addRuns(const RunOperand &a, const RunOperand &b);
Run subRuns(const RunOperand &a, const RunOperand &b);
Run mulRuns(const RunOperand &a, const RunOperand &b);
Run divRuns(const RunOperand &a, const RunOperand &b, bool plain, bool floors);
Run remRuns(const RunOperand &a, const RunOperand &b, bool plain);
Run andRuns(const RunOperand &a, const RunOperand &b);
/// a < b (`orEqual`: a <= b), also for its negation.
Run lessRuns(const RunOperand &a, const RunOperand &b, bool orEqual);
Run equalRuns(const RunOperand &a, const RunOperand &b);
/// One of the two, chosen anew in every group of `choice` elements.
Run eitherRun(const RunOperand &a, const RunOperand &b, int64_t choice);
/// Of an operation of which nothing is known but that it is computed element by element.
Run elementwiseRun(const RunOperand &a, const RunOperand &b);

/// The runs of a row-major tensor of shape `from` under shape `to`.
llvm::SmallVector<Run, 2> reshapedRuns(llvm::ArrayRef<Run> runs, llvm::ArrayRef<int64_t> from,
                                       llvm::ArrayRef<int64_t> to, int64_t divisibilityOfAll,
                                       unsigned bits);

} // namespace nereid::transforms
