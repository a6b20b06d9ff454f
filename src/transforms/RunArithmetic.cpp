#include "transforms/RunArithmetic.h"

#include <algorithm>
#include <numeric>

using llvm::APInt;

namespace nereid::transforms {
namespace {

int64_t timesDivisibility(int64_t a, int64_t b) {
  return a >= kAnyDivisibility / b ? kAnyDivisibility : a * b;
}

/// Products and sums of steps wrap, as the elements do.
int64_t wrapMul(int64_t a, int64_t b) {
  return int64_t(uint64_t(a) * uint64_t(b));
}
int64_t wrapAdd(int64_t a, int64_t b) {
  return int64_t(uint64_t(a) + uint64_t(b));
}

bool isPowerOfTwo(int64_t value) {
  return value > 0 && (value & (value - 1)) == 0;
}

std::optional<int64_t> constantOf(const RunOperand &a) {
  if (auto value = a.range->getConstantValue())
    return value->getSExtValue();
  return std::nullopt;
}

/// The number of elements of `a` in groups that begin at a multiple of `block` and stay below the
/// next one; 1 if there is no such grouping. Blocks are powers of two of at most half of all
/// numbers, so no group wraps, signed or unsigned.
int64_t elementsPerBlock(const Run &a, int64_t block, int64_t size, unsigned bits) {
  block = std::min({block, a.divisibility, int64_t(1) << std::min(bits - 1, 62u)});
  if (!isPowerOfTwo(a.step) || a.step >= block)
    return 1;
  return std::min(size, commonLength(a.length, block / a.step, size));
}

/// Both operands cut to groups that are runs of both.
struct Pair {
  Run a, b;
  Pair(const RunOperand &left, const RunOperand &right) {
    int64_t length = commonLength(left.run.length, right.run.length, left.size);
    a = cut(left.run, length);
    b = cut(right.run, length);
  }
  bool uniform() const { return a.step == 0 && b.step == 0; }
};

} // namespace

int64_t powerOfTwoIn(int64_t value) {
  uint64_t lowest = uint64_t(value) & (~uint64_t(value) + 1);
  return lowest == 0 ? kAnyDivisibility : int64_t(std::min(uint64_t(kAnyDivisibility), lowest));
}

Run normalized(Run run, int64_t size, unsigned bits) {
  run.length = std::min(run.length, size);
  if (run.length == 1)
    run.step = 0;
  else if (bits < 64)
    run.step = int64_t(uint64_t(run.step) << (64 - bits)) >> (64 - bits);
  return run;
}

int64_t commonLength(int64_t a, int64_t b, int64_t size) {
  if (a >= size)
    return b;
  if (b >= size)
    return a;
  return std::gcd(a, b);
}

Run cut(Run run, int64_t length) {
  if (length >= run.length)
    return run;
  run.divisibility = std::min(run.divisibility, powerOfTwoIn(wrapMul(run.step, length)));
  run.length = length;
  if (length == 1)
    run.step = 0;
  return run;
}

int64_t divisibilityOfElements(const Run &run) {
  return std::min(run.divisibility, powerOfTwoIn(run.step));
}

bool runsNeverWrap(const RunOperand &a, bool isSigned) {
  if (a.run.step == 0)
    return true;
  // With room of one step at either end of the range there is no neighbour beyond the wrap.
  APInt step(a.bits, uint64_t(std::abs(a.run.step)), /*isSigned=*/false, /*implicitTrunc=*/true);
  if (step.isZero() || step.isNegative())
    return false;
  if (isSigned)
    return a.range->smax().sle(APInt::getSignedMaxValue(a.bits) - step) ||
           a.range->smin().sge(APInt::getSignedMinValue(a.bits) + step);
  return a.range->umax().ule(APInt::getMaxValue(a.bits) - step) || a.range->umin().uge(step);
}

Run extendedRun(const RunOperand &a, bool isSigned) {
  if (runsNeverWrap(a, isSigned))
    return a.run;
  return cut(a.run, elementsPerBlock(a.run, kAnyDivisibility, a.size, a.bits));
}

Run addRuns(const RunOperand &a, const RunOperand &b) {
  Pair p(a, b);
  return normalized(
      {p.a.length, wrapAdd(p.a.step, p.b.step), std::min(p.a.divisibility, p.b.divisibility)},
      a.size, a.bits);
}

Run subRuns(const RunOperand &a, const RunOperand &b) {
  Pair p(a, b);
  return normalized({p.a.length, wrapAdd(p.a.step, wrapMul(p.b.step, -1)),
                     std::min(p.a.divisibility, p.b.divisibility)},
                    a.size, a.bits);
}

Run mulRuns(const RunOperand &a, const RunOperand &b) {
  if (!constantOf(b) && constantOf(a))
    return mulRuns(b, a);
  if (auto factor = constantOf(b))
    return normalized({a.run.length, wrapMul(a.run.step, *factor),
                       timesDivisibility(a.run.divisibility, powerOfTwoIn(*factor))},
                      a.size, a.bits);
  Pair p(a, b);
  if (p.uniform())
    return {p.a.length, 0, timesDivisibility(p.a.divisibility, p.b.divisibility)};
  return {1, 0, timesDivisibility(divisibilityOfElements(a.run), divisibilityOfElements(b.run))};
}

Run divRuns(const RunOperand &a, const RunOperand &b, bool plain, bool floors) {
  auto divisor = constantOf(b);
  // A division by a power of two that leaves nothing over is exact, whatever the signs.
  auto quotient = [&](int64_t divisibility) {
    return divisor && isPowerOfTwo(*divisor) && divisibility >= *divisor ? divisibility / *divisor
                                                                         : 1;
  };
  Pair p(a, b);
  if (p.uniform())
    return {p.a.length, 0, quotient(p.a.divisibility)};
  Run none = {1, 0, quotient(divisibilityOfElements(a.run))};
  if (p.b.step != 0 || !(plain || floors))
    return none;
  if (divisor && *divisor > 0 && p.a.step % *divisor == 0) {
    RunOperand whole = a;
    whole.run = p.a;
    if (runsNeverWrap(whole, /*isSigned=*/floors))
      return normalized({p.a.length, p.a.step / *divisor, quotient(p.a.divisibility)}, a.size,
                        a.bits);
  }
  int64_t length = elementsPerBlock(p.a, p.b.divisibility, a.size, a.bits);
  return length > 1 ? Run{length, 0, 1} : none;
}

Run remRuns(const RunOperand &a, const RunOperand &b, bool plain) {
  if (plain && b.range->smin().isNonNegative() && a.range->umax().ult(b.range->umin()))
    return a.run;
  Pair p(a, b);
  if (p.uniform())
    return {p.a.length, 0, std::min(p.a.divisibility, p.b.divisibility)};
  if (plain && p.b.step == 0) {
    int64_t length = elementsPerBlock(p.a, p.b.divisibility, a.size, a.bits);
    if (length > 1) {
      Run run = cut(p.a, length);
      run.divisibility = std::min(run.divisibility, p.b.divisibility);
      return normalized(run, a.size, a.bits);
    }
  }
  return {1, 0, std::min(divisibilityOfElements(a.run), divisibilityOfElements(b.run))};
}

Run andRuns(const RunOperand &a, const RunOperand &b) {
  if (!constantOf(b) && constantOf(a))
    return andRuns(b, a);
  if (auto mask = b.range->getConstantValue()) {
    if (mask->isMask() && !mask->isAllOnes()) { // x & (2^t - 1) is x mod 2^t
      APInt modulus = *mask + 1;
      auto range = mlir::ConstantIntRanges::constant(modulus);
      RunOperand m = {{a.size, 0, powerOfTwoIn(modulus.getSExtValue())}, a.size, a.bits, &range};
      return remRuns(a, m, /*plain=*/true);
    }
    if ((~*mask).isMask()) { // x & ~(2^t - 1) rounds down to a multiple of 2^t
      int64_t block = powerOfTwoIn(mask->getSExtValue());
      if (int64_t length = elementsPerBlock(a.run, block, a.size, a.bits); length > 1)
        return {length, 0, block};
    }
  }
  Pair p(a, b);
  if (p.uniform())
    return {p.a.length, 0, std::max(p.a.divisibility, p.b.divisibility)};
  return {1, 0, std::max(divisibilityOfElements(a.run), divisibilityOfElements(b.run))};
}

Run lessRuns(const RunOperand &a, const RunOperand &b, bool orEqual) {
  Pair p(a, b);
  if (p.uniform())
    return {p.a.length, 0, 1};
  // Within a block that begins at a multiple of K, all elements are on the same side of any
  // multiple of K: a < n for n a multiple of K, and a <= n for n + 1 one.
  auto against = [&](const RunOperand &x, const Run &run, const RunOperand &limit,
                     const Run &limitRun, bool next) -> Run {
    int64_t block = limitRun.divisibility;
    if (next) {
      auto value = constantOf(limit);
      if (!value)
        return {};
      block = powerOfTwoIn(wrapAdd(*value, 1));
      // The largest number has no successor.
      if (limit.range->getConstantValue()->isMaxValue() ||
          limit.range->getConstantValue()->isMaxSignedValue())
        return {};
    }
    return {elementsPerBlock(run, block, x.size, x.bits), 0, 1};
  };
  if (p.b.step == 0)
    return against(a, p.a, b, p.b, orEqual);
  if (p.a.step == 0) // a < b is not (b <= a).
    return against(b, p.b, a, p.a, !orEqual);
  return {};
}

Run equalRuns(const RunOperand &a, const RunOperand &b) {
  Pair p(a, b);
  return p.a.step == p.b.step ? Run{p.a.length, 0, 1} : Run{};
}

Run eitherRun(const RunOperand &a, const RunOperand &b, int64_t choice) {
  int64_t length = commonLength(commonLength(a.run.length, b.run.length, a.size), choice, a.size);
  Run x = cut(a.run, length), y = cut(b.run, length);
  if (x.step != y.step) {
    x = cut(x, 1);
    y = cut(y, 1);
  }
  return {x.length, x.step, std::min(x.divisibility, y.divisibility)};
}

Run elementwiseRun(const RunOperand &a, const RunOperand &b) {
  Pair p(a, b);
  return p.uniform() ? Run{p.a.length, 0, 1} : Run{};
}

llvm::SmallVector<Run, 2> reshapedRuns(llvm::ArrayRef<Run> runs, llvm::ArrayRef<int64_t> from,
                                       llvm::ArrayRef<int64_t> to, int64_t divisibilityOfAll,
                                       unsigned bits) {
  // Along the row-major order of all elements there are runs too: the innermost dimension's,
  // continued through the next one where that goes on with the same step.
  Run flat = {1, 0, divisibilityOfAll};
  for (int i = int(from.size()) - 1; i >= 0; --i) {
    if (from[i] == 1)
      continue;
    Run run = runs[i];
    if (flat.length == 1)
      flat.step = run.length > 1 ? run.step : 0;
    else if (normalized({2, wrapMul(flat.step, flat.length), 1}, 2, bits).step != run.step)
      break;
    if (run.length == 1)
      break;
    int64_t length = std::gcd(run.length, from[i]);
    run = cut(run, length);
    flat.divisibility = std::max(flat.divisibility, run.divisibility);
    flat.length *= length;
    if (length < from[i])
      break;
  }
  // Hand it out to the new dimensions from the innermost.
  llvm::SmallVector<Run, 2> result(to.size(), Run{1, 0, divisibilityOfAll});
  int64_t remaining = flat.length, stride = 1, divisibility = flat.divisibility;
  for (int i = int(to.size()) - 1; i >= 0; --i) {
    if (to[i] == 1 || remaining == 1)
      continue;
    int64_t length = std::gcd(remaining, to[i]);
    // A run along this dimension begins at any index of the inner ones, and at any group of this
    // and of the outer ones.
    int64_t begins = std::min(divisibility, powerOfTwoIn(wrapMul(flat.step, stride * length)));
    if (stride > 1)
      begins = std::min(begins, powerOfTwoIn(flat.step));
    result[i] = normalized({length, wrapMul(flat.step, stride), begins}, to[i], bits);
    if (length < to[i])
      break;
    stride *= to[i];
    remaining /= to[i];
  }
  for (Run &run : result)
    run.divisibility = std::max(run.divisibility, divisibilityOfAll);
  return result;
}

} // namespace nereid::transforms
