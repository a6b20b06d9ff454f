#include "transforms/IntegerAnalysis.h"

#include "ir/tile/Dialect.h"
#include "transforms/RunArithmetic.h"

#include "mlir/Analysis/DataFlow/SparseAnalysis.h"
#include "mlir/Analysis/DataFlow/Utils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/Utils/InferIntRangeCommon.h"

using namespace mlir;
using llvm::APInt;

namespace nereid::transforms {
using namespace nereid::tile;

namespace {

/// Bits of an integer or pointer (or tensor of them); 0 of anything else.
unsigned bitsOf(Type type) {
  Type element = elementOf(type);
  if (isa<PtrType, IndexType>(element))
    return 64;
  if (auto integer = dyn_cast<IntegerType>(element))
    return integer.getWidth();
  return 0;
}

int64_t unitOf(Type type) {
  auto ptr = dyn_cast<PtrType>(elementOf(type));
  return ptr ? sizeInBytes(ptr.getPointee()) : 1;
}

llvm::SmallVector<int64_t, 2> sizesOf(Type type) {
  auto shape = shapeOf(type);
  return shape.empty() ? llvm::SmallVector<int64_t, 2>{1}
                       : llvm::SmallVector<int64_t, 2>(shape.begin(), shape.end());
}

/// What holds of any value of the type; no runs and no range when it is not of integers or
/// pointers.
IntegerInfo unknown(Type type) {
  IntegerInfo info;
  if (unsigned bits = bitsOf(type)) {
    info.dims.assign(sizesOf(type).size(), Run{});
    info.bounds = ConstantIntRanges::maxRange(bits);
    info.unit = unitOf(type);
  }
  return info;
}

/// All elements equal to one number of the given divisibility.
IntegerInfo uniform(Type type, int64_t divisibility, const ConstantIntRanges &range) {
  IntegerInfo info = unknown(type);
  auto sizes = sizesOf(type);
  for (unsigned d = 0; d < sizes.size(); ++d)
    info.dims[d] = {sizes[d], 0, divisibility};
  info.bounds = range;
  return info;
}

ConstantIntRanges signedRange(unsigned bits, int64_t lo, int64_t hi) {
  return ConstantIntRanges::fromSigned(APInt(bits, lo, true, true), APInt(bits, hi, true, true));
}

/// Adds what follows from the rest: a known number is uniform, what divides all elements divides
/// the first.
void strengthen(IntegerInfo &info, Type type) {
  if (auto constant = info.constant(); constant && !isa<PtrType>(elementOf(type))) {
    info = uniform(type, powerOfTwoIn(constant->getSExtValue()), *info.bounds);
    return;
  }
  int64_t all = info.divisibilityOfAll();
  for (Run &run : info.dims)
    run.divisibility = std::max(run.divisibility, all);
}

/// The state of one value: nothing yet (not known to be computed), or facts. Ranges that keep
/// growing, as those of loop-carried values do, are widened to the full range after a few rounds;
/// runs and divisibilities can only shrink through divisors and end by themselves.
class InfoLattice : public dataflow::AbstractSparseLattice {
public:
  using AbstractSparseLattice::AbstractSparseLattice;

  ChangeResult join(const AbstractSparseLattice &rhs) override {
    auto &other = static_cast<const InfoLattice &>(rhs);
    return other.info ? join(*other.info) : ChangeResult::NoChange;
  }

  ChangeResult join(const IntegerInfo &other) {
    if (!info) {
      info = other;
      return ChangeResult::Change;
    }
    if (!info->bounds)
      return ChangeResult::NoChange;
    IntegerInfo joined = *info;
    auto sizes = sizesOf(getAnchor().getType());
    for (unsigned d = 0; d < sizes.size(); ++d)
      joined.dims[d] = eitherRun({info->dims[d], sizes[d], 0, nullptr},
                                 {other.dims[d], sizes[d], 0, nullptr}, sizes[d]);
    joined.bounds = info->bounds->rangeUnion(*other.bounds);
    if (!(*joined.bounds == *info->bounds) && ++rounds > kRoundsBeforeWidening)
      joined.bounds = ConstantIntRanges::maxRange(bitsOf(getAnchor().getType()));
    if (joined == *info)
      return ChangeResult::NoChange;
    info = joined;
    return ChangeResult::Change;
  }

  void print(llvm::raw_ostream &os) const override {
    if (info)
      info->print(os);
  }

  std::optional<IntegerInfo> info;

private:
  static constexpr int kRoundsBeforeWidening = 4;
  int rounds = 0;
};

/// What `tile.assume` promises of one scalar.
struct Promise {
  std::optional<ConstantIntRanges> range;
  int64_t divisibility = 1;

  void within(const ConstantIntRanges &other) {
    range = range ? range->intersection(other) : other;
  }
  void apply(IntegerInfo &info) const {
    if (range) {
      auto both = info.bounds->intersection(*range);
      // A promise that cannot hold leaves the kernel undefined; keep a well-formed range.
      bool possible = both.smin().sle(both.smax()) && both.umin().ule(both.umax());
      info.bounds = possible ? both : *range;
    }
    info.dims[0].divisibility = std::max(info.dims[0].divisibility, divisibility);
  }
};

/// May control not come back from an op? What stands behind it may then not be reached.
bool mayNotReturn(Operation &op) {
  if (isa<AssertOp, Atomic, ExternOp, InlineAsmOp, CallOpInterface>(op))
    return true;
  return op.walk([](scf::WhileOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// The predicate p' for which `b p' a` says what `a p b` says.
arith::CmpIPredicate swapped(arith::CmpIPredicate predicate) {
  using P = arith::CmpIPredicate;
  switch (predicate) {
  case P::slt:
    return P::sgt;
  case P::sle:
    return P::sge;
  case P::sgt:
    return P::slt;
  case P::sge:
    return P::sle;
  case P::ult:
    return P::ugt;
  case P::ule:
    return P::uge;
  case P::ugt:
    return P::ult;
  case P::uge:
    return P::ule;
  case P::eq:
  case P::ne:
    return predicate;
  }
  llvm_unreachable("all predicates are listed");
}

/// The numbers x with `x predicate limit`; nothing where they are all numbers, none or no range.
std::optional<ConstantIntRanges> numbersThat(arith::CmpIPredicate predicate, const APInt &limit) {
  using P = arith::CmpIPredicate;
  unsigned bits = limit.getBitWidth();
  APInt smin = APInt::getSignedMinValue(bits), smax = APInt::getSignedMaxValue(bits);
  APInt umin = APInt::getMinValue(bits), umax = APInt::getMaxValue(bits);
  switch (predicate) {
  case P::eq:
    return ConstantIntRanges::fromSigned(limit, limit);
  case P::ne:
    return std::nullopt;
  case P::slt:
    if (limit.isMinSignedValue())
      return std::nullopt;
    return ConstantIntRanges::fromSigned(smin, limit - 1);
  case P::sle:
    return ConstantIntRanges::fromSigned(smin, limit);
  case P::sgt:
    if (limit.isMaxSignedValue())
      return std::nullopt;
    return ConstantIntRanges::fromSigned(limit + 1, smax);
  case P::sge:
    return ConstantIntRanges::fromSigned(limit, smax);
  case P::ult:
    if (limit.isZero())
      return std::nullopt;
    return ConstantIntRanges::fromUnsigned(umin, limit - 1);
  case P::ule:
    return ConstantIntRanges::fromUnsigned(umin, limit);
  case P::ugt:
    if (limit.isMaxValue())
      return std::nullopt;
    return ConstantIntRanges::fromUnsigned(limit + 1, umax);
  case P::uge:
    return ConstantIntRanges::fromUnsigned(limit, umax);
  }
  llvm_unreachable("all predicates are listed");
}

/// Collects the promises that hold wherever their value is defined: the assumption must be reached
/// whenever the definition is, so both stand in one block with nothing between them that may not
/// return.
class PromiseCollector {
public:
  explicit PromiseCollector(Operation *root) {
    root->walk([&](AssumeOp assume) { add(assume.getCondition(), assume); });
  }
  llvm::DenseMap<Value, Promise> take() { return std::move(promises); }

private:
  void add(Value condition, Operation *assume) {
    if (auto both = condition.getDefiningOp<arith::AndIOp>()) {
      add(both.getLhs(), assume);
      add(both.getRhs(), assume);
    } else if (auto compare = condition.getDefiningOp<arith::CmpIOp>()) {
      add(compare, assume);
    }
  }
  void add(arith::CmpIOp compare, Operation *assume);
  void addDivisor(Operation *remainder, Operation *assume);
  static bool holdsAtDefinition(Value value, Operation *assume);

  llvm::DenseMap<Value, Promise> promises;
};

bool PromiseCollector::holdsAtDefinition(Value value, Operation *assume) {
  Block *block = value.getParentBlock();
  Operation *reached = assume;
  while (reached) {
    Operation *first = reached->getBlock() != block ? &reached->getBlock()->front()
                       : value.getDefiningOp()      ? value.getDefiningOp()->getNextNode()
                                                    : &block->front();
    for (Operation *op = first; op != reached; op = op->getNextNode())
      if (mayNotReturn(*op))
        return false;
    if (reached->getBlock() == block)
      return true;
    // A region that always runs.
    auto parent = dyn_cast<RegionBranchOpInterface>(reached->getParentOp());
    if (!parent)
      return false;
    SmallVector<Attribute> unknown(parent->getNumOperands());
    SmallVector<InvocationBounds> bounds;
    parent.getRegionInvocationBounds(unknown, bounds);
    unsigned region = reached->getParentRegion()->getRegionNumber();
    if (region >= bounds.size() || bounds[region].getLowerBound() < 1)
      return false;
    reached = parent;
  }
  return false;
}

void PromiseCollector::add(arith::CmpIOp compare, Operation *assume) {
  Value value = compare.getLhs();
  auto predicate = compare.getPredicate();
  APInt number;
  if (!matchPattern(compare.getRhs(), m_ConstantInt(&number))) {
    if (!matchPattern(value, m_ConstantInt(&number)))
      return;
    value = compare.getRhs();
    predicate = swapped(predicate);
  }
  if (!holdsAtDefinition(value, assume))
    return;
  if (std::optional<ConstantIntRanges> range = numbersThat(predicate, number))
    promises[value].within(*range);
  if (predicate == arith::CmpIPredicate::eq && number.isZero() && value.getDefiningOp())
    addDivisor(value.getDefiningOp(), assume);
}

/// `x % c == 0` and `x & (c - 1) == 0` tell what divides x.
void PromiseCollector::addDivisor(Operation *remainder, Operation *assume) {
  APInt divisor;
  if (remainder->getNumOperands() != 2 ||
      !matchPattern(remainder->getOperand(1), m_ConstantInt(&divisor)) ||
      !holdsAtDefinition(remainder->getOperand(0), assume))
    return;
  Value x = remainder->getOperand(0);
  auto divides = [&](const APInt &number) {
    promises[x].divisibility =
        std::max(promises[x].divisibility, powerOfTwoIn(number.getSExtValue()));
  };
  if (isa<arith::RemSIOp, arith::RemUIOp>(remainder) && !divisor.isZero())
    divides(divisor);
  else if (isa<arith::AndIOp>(remainder) && divisor.isMask())
    divides(divisor + 1);
}

class Dataflow : public dataflow::SparseForwardDataFlowAnalysis<InfoLattice> {
public:
  Dataflow(DataFlowSolver &solver, Mode mode, const llvm::DenseMap<Value, Promise> &promises)
      : SparseForwardDataFlowAnalysis(solver), mode(mode), promises(promises) {}

  LogicalResult visitOperation(Operation *op, ArrayRef<const InfoLattice *> operands,
                               ArrayRef<InfoLattice *> results) override {
    Infos infos;
    for (const InfoLattice *operand : operands) {
      if (!operand->info)
        return success(); // Not computed yet.
      infos.push_back(&*operand->info);
    }
    for (auto [lattice, result] : llvm::zip(results, op->getResults())) {
      IntegerInfo info = unknown(result.getType());
      if (info.bounds) {
        transfer(op, infos, result, info);
        strengthen(info, result.getType());
      }
      set(lattice, info);
    }
    return success();
  }

  void visitNonControlFlowArguments(Operation *op, const RegionSuccessor &successor,
                                    ArrayRef<InfoLattice *> arguments,
                                    unsigned firstIndex) override {
    auto loop = dyn_cast<scf::ForOp>(op);
    if (!loop || arguments.empty() || arguments[0]->getAnchor() != loop.getInductionVar()) {
      SparseForwardDataFlowAnalysis::visitNonControlFlowArguments(op, successor, arguments,
                                                                  firstIndex);
      return;
    }
    auto of = [&](Value value) {
      return getLatticeElementFor(getProgramPointBefore(loop.getBody()), value);
    };
    const InfoLattice *lower = of(loop.getLowerBound()), *upper = of(loop.getUpperBound()),
                      *step = of(loop.getStep());
    if (!lower->info || !upper->info || !step->info)
      return;
    IntegerInfo info = unknown(loop.getInductionVar().getType());
    auto &lo = lower->info->range(), &hi = upper->info->range();
    // The last number is below the upper bound; with all three known it is known.
    auto last = [&](const APInt &bound, const APInt &first, bool isSigned) {
      if (isSigned ? bound.sle(first) : bound.ule(first))
        return first; // The body does not run.
      auto start = lower->info->constant(), by = step->info->constant();
      if (start && by && !by->isZero() && upper->info->constant())
        return *start + (bound - 1 - *start).udiv(*by) * *by;
      return bound - 1;
    };
    info.bounds =
        loop.getUnsignedCmp()
            ? ConstantIntRanges::fromUnsigned(lo.umin(), last(hi.umax(), lo.umin(), false))
            : ConstantIntRanges::fromSigned(lo.smin(), last(hi.smax(), lo.smin(), true));
    info.dims[0].divisibility = std::min(lower->info->divisibility(), step->info->divisibility());
    strengthen(info, loop.getInductionVar().getType());
    set(arguments[0], info);
  }

protected:
  void setToEntryState(InfoLattice *lattice) override {
    Value value = lattice->getAnchor();
    IntegerInfo info = unknown(value.getType());
    if (auto argument = dyn_cast<BlockArgument>(value); argument && info.bounds)
      if (auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
          function && argument.getOwner() == &function.front())
        if (auto divisor = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(),
                                                                  "tile.divisibility"))
          for (Run &run : info.dims)
            run.divisibility = powerOfTwoIn(divisor.getInt());
    set(lattice, info);
  }

private:
  using Infos = llvm::SmallVector<const IntegerInfo *, 4>;
  using BinaryRuns = llvm::function_ref<Run(const RunOperand &, const RunOperand &)>;

  void set(InfoLattice *lattice, IntegerInfo info) {
    auto promise = promises.find(lattice->getAnchor());
    if (promise != promises.end() && info.bounds) {
      promise->second.apply(info);
      strengthen(info, lattice->getAnchor().getType());
    }
    propagateIfChanged(lattice, lattice->join(info));
  }

  static RunOperand operand(const IntegerInfo &info, unsigned dim, int64_t size) {
    return {info.dims[dim], size, info.bounds->smin().getBitWidth(), &info.range()};
  }

  static void binary(const Infos &infos, Value result, IntegerInfo &info, BinaryRuns runs) {
    auto sizes = sizesOf(result.getType());
    for (unsigned d = 0; d < sizes.size(); ++d)
      info.dims[d] = runs(operand(*infos[0], d, sizes[d]), operand(*infos[1], d, sizes[d]));
  }

  /// Sign or zero extension of `src` to 64 bits or to the bits of `info`.
  void extend(const IntegerInfo &src, ArrayRef<int64_t> sizes, bool isSigned, IntegerInfo &info) {
    for (unsigned d = 0; d < sizes.size(); ++d)
      info.dims[d] = mode == Mode::Speculative ? src.dims[d]
                                               : extendedRun(operand(src, d, sizes[d]), isSigned);
    unsigned bits = info.bounds->smin().getBitWidth();
    info.bounds = isSigned ? intrange::extSIRange(src.range(), bits)
                           : intrange::extUIRange(src.range(), bits);
  }

  /// A shift by a known amount is a product or a quotient with a power of two.
  static std::optional<IntegerInfo> powerFor(const IntegerInfo &amount, Type type) {
    auto shift = amount.constant();
    if (!shift || shift->uge(shift->getBitWidth()))
      return std::nullopt;
    APInt power = APInt::getOneBitSet(shift->getBitWidth(), shift->getZExtValue());
    return uniform(type, powerOfTwoIn(power.getSExtValue()), ConstantIntRanges::constant(power));
  }

  void transfer(Operation *op, const Infos &in, Value result, IntegerInfo &info) {
    if (isa<TileDialect>(op->getDialect()))
      return transferTile(op, in, result, info);
    if (hasSameElements(op)) {
      info = *in[0];
      return;
    }
    if (std::optional<ConstantIntRanges> range = rangeOfConstant(op)) {
      info.bounds = *range; // `strengthen` does the rest.
      return;
    }
    inferRange(op, in, result, info);
    transferArith(op, in, result, info);
  }

  static std::optional<ConstantIntRanges> rangeOfConstant(Operation *op) {
    std::optional<ConstantIntRanges> range;
    DenseIntElementsAttr dense;
    APInt number;
    if (matchPattern(op, m_ConstantInt(&number)))
      return ConstantIntRanges::constant(number);
    if (matchPattern(op, m_Constant(&dense)))
      for (const APInt &value : dense.getValues<APInt>()) {
        auto one = ConstantIntRanges::constant(value);
        range = range ? range->rangeUnion(one) : one;
      }
    return range;
  }

  /// Ranges of arith come from MLIR, for tensors and scalars alike.
  static void inferRange(Operation *op, const Infos &in, Value result, IntegerInfo &info) {
    auto inferable = dyn_cast<InferIntRangeInterface>(op);
    if (!inferable || !llvm::all_of(in, [](const IntegerInfo *i) { return bool(i->bounds); }))
      return;
    llvm::SmallVector<ConstantIntRanges> ranges;
    for (const IntegerInfo *operand : in)
      ranges.push_back(operand->range());
    inferable.inferResultRanges(ranges, [&](Value value, const ConstantIntRanges &range) {
      if (value == result && range.smin().getBitWidth() == bitsOf(result.getType()))
        info.bounds = range;
    });
  }

  /// The runs of arithmetic, by kind of op.
  void transferArith(Operation *op, const Infos &in, Value result, IntegerInfo &info) {
    auto plain = [&](bool isUnsigned) {
      return isUnsigned || mode != Mode::Proven || in[0]->isNonNegative();
    };
    auto shortened = [&] {
      auto sizes = sizesOf(result.getType());
      for (unsigned d = 0; d < sizes.size(); ++d)
        info.dims[d] = normalized(in[0]->dims[d], sizes[d], bitsOf(result.getType()));
    };
    llvm::TypeSwitch<Operation *>(op)
        .Case<arith::AddIOp>([&](auto) { binary(in, result, info, addRuns); })
        .Case<arith::SubIOp>([&](auto) { binary(in, result, info, subRuns); })
        .Case<arith::MulIOp>([&](auto) { binary(in, result, info, mulRuns); })
        .Case<arith::DivSIOp, arith::DivUIOp>([&](Operation *div) {
          bool ok = plain(isa<arith::DivUIOp>(div));
          binary(in, result, info, [&](const RunOperand &a, const RunOperand &b) {
            return divRuns(a, b, ok, /*floors=*/false);
          });
        })
        .Case<arith::RemSIOp, arith::RemUIOp>([&](Operation *rem) {
          bool ok = plain(isa<arith::RemUIOp>(rem));
          binary(in, result, info,
                 [&](const RunOperand &a, const RunOperand &b) { return remRuns(a, b, ok); });
        })
        .Case<arith::ShLIOp, arith::ShRUIOp, arith::ShRSIOp>(
            [&](Operation *shift) { transferShift(shift, in, result, info); })
        .Case<arith::AndIOp>([&](auto) { binary(in, result, info, andRuns); })
        .Case<arith::OrIOp, arith::XOrIOp>(
            [&](Operation *bits) { transferOr(bits, in, result, info); })
        .Case<arith::CmpIOp>([&](arith::CmpIOp compare) {
          binary(in, result, info, [&](const RunOperand &a, const RunOperand &b) {
            return comparedRuns(compare.getPredicate(), a, b);
          });
        })
        .Case<arith::MinSIOp, arith::MaxSIOp, arith::MinUIOp, arith::MaxUIOp>(
            [&](Operation *extremum) { transferExtremum(extremum, in, result, info); })
        .Case<arith::SelectOp>(
            [&](arith::SelectOp select) { transferSelect(select, in, result, info); })
        .Case<arith::ExtSIOp>([&](auto) { extend(*in[0], sizesOf(result.getType()), true, info); })
        .Case<arith::ExtUIOp>([&](auto) { extend(*in[0], sizesOf(result.getType()), false, info); })
        .Case<arith::TruncIOp>([&](auto) { shortened(); })
        .Case<arith::IndexCastOp>([&](auto) {
          if (bitsOf(result.getType()) < in[0]->range().smin().getBitWidth())
            shortened();
          else
            extend(*in[0], sizesOf(result.getType()), true, info);
        });
  }

  static void transferShift(Operation *shift, const Infos &in, Value result, IntegerInfo &info) {
    auto power = powerFor(*in[1], result.getType());
    if (!power) {
      binary(in, result, info, elementwiseRun);
      if (isa<arith::ShLIOp>(shift)) // Zeros come in from below: what divided x still does.
        for (Run &run : info.dims)
          run.divisibility = in[0]->divisibilityOfAll();
      return;
    }
    Infos with = {in[0], &*power};
    if (isa<arith::ShLIOp>(shift))
      return binary(with, result, info, mulRuns);
    bool isSigned = isa<arith::ShRSIOp>(shift);
    binary(with, result, info, [&](const RunOperand &a, const RunOperand &b) {
      return divRuns(a, b, /*plain=*/!isSigned, /*floors=*/isSigned);
    });
  }

  static void transferOr(Operation *bits, const Infos &in, Value result, IntegerInfo &info) {
    // Without a common bit it is a sum.
    auto below = [](const IntegerInfo &a, const IntegerInfo &b) {
      return a.range().umax().ult(uint64_t(b.divisibilityOfAll()));
    };
    if (below(*in[0], *in[1]) || below(*in[1], *in[0]))
      return binary(in, result, info, addRuns);
    // x ^ -1 is -1 - x.
    if (auto ones = in[1]->constant(); isa<arith::XOrIOp>(bits) && ones && ones->isAllOnes())
      return binary({in[1], in[0]}, result, info, subRuns);
    binary(in, result, info, [](const RunOperand &a, const RunOperand &b) {
      Run run = elementwiseRun(a, b);
      run.divisibility = std::min(divisibilityOfElements(a.run), divisibilityOfElements(b.run));
      return run;
    });
  }

  static Run comparedRuns(arith::CmpIPredicate predicate, const RunOperand &a,
                          const RunOperand &b) {
    using P = arith::CmpIPredicate;
    switch (predicate) {
    case P::eq:
    case P::ne:
      return equalRuns(a, b);
    case P::slt:
    case P::ult:
      return lessRuns(a, b, false);
    case P::sle:
    case P::ule:
      return lessRuns(a, b, true);
    case P::sgt:
    case P::ugt:
      return lessRuns(b, a, false);
    case P::sge:
    case P::uge:
      return lessRuns(b, a, true);
    }
    llvm_unreachable("all predicates are listed");
  }

  static void transferExtremum(Operation *op, const Infos &in, Value result, IntegerInfo &info) {
    bool isSigned = isa<arith::MinSIOp, arith::MaxSIOp>(op);
    bool isMin = isa<arith::MinSIOp, arith::MinUIOp>(op);
    auto below = [&](const IntegerInfo &a, const IntegerInfo &b) {
      return isSigned ? a.range().smax().sle(b.range().smin())
                      : a.range().umax().ule(b.range().umin());
    };
    bool firstIsLess = below(*in[0], *in[1]), secondIsLess = below(*in[1], *in[0]);
    if (firstIsLess || secondIsLess) {
      info.dims = in[firstIsLess == isMin ? 0 : 1]->dims;
      return;
    }
    binary(in, result, info, [](const RunOperand &a, const RunOperand &b) {
      // One of the two, the same one for a whole group only where both are constant in it.
      return eitherRun(a, b, elementwiseRun(a, b).length);
    });
  }

  static void transferSelect(arith::SelectOp select, const Infos &in, Value result,
                             IntegerInfo &info) {
    bool scalar = !isa<RankedTensorType>(select.getCondition().getType());
    if (auto known = in[0]->constant()) {
      info = *in[known->isZero() ? 2 : 1];
      return;
    }
    auto sizes = sizesOf(result.getType());
    for (unsigned d = 0; d < sizes.size(); ++d)
      info.dims[d] = eitherRun(operand(*in[1], d, sizes[d]), operand(*in[2], d, sizes[d]),
                               scalar ? sizes[d] : in[0]->constancy(d));
    info.bounds = in[1]->range().rangeUnion(in[2]->range());
  }

  void transferTile(Operation *op, const Infos &in, Value result, IntegerInfo &info) {
    Type type = result.getType();
    auto sizes = sizesOf(type);
    unsigned rank = sizes.size();
    auto anyElement = [&](const IntegerInfo &src) { // A rearrangement in an unknown order.
      info.dims.assign(rank, {1, 0, src.divisibilityOfAll()});
      info.bounds = src.bounds;
    };
    llvm::TypeSwitch<Operation *>(op)
        .Case<ProgramIdOp>([&](ProgramIdOp id) {
          info.bounds = signedRange(32, 0, maxPrograms(op, id.getAxis()) - 1);
        })
        .Case<NumProgramsOp>([&](NumProgramsOp number) {
          info.bounds = signedRange(32, 1, maxPrograms(op, number.getAxis()));
        })
        .Case<RangeOp>([&](RangeOp range) {
          int64_t start = int32_t(range.getStart()), end = int32_t(range.getEnd());
          info.dims[0] = normalized({sizes[0], 1, powerOfTwoIn(start)}, sizes[0], 32);
          info.bounds = signedRange(32, start, end - 1);
        })
        .Case<SplatOp>([&](auto) { info = uniform(type, in[0]->divisibility(), in[0]->range()); })
        .Case<UnsplatOp>([&](auto) {
          info.dims[0] = {1, 0, in[0]->divisibilityOfAll()};
          info.bounds = in[0]->bounds;
        })
        .Case<BroadcastOp>([&](BroadcastOp broadcast) {
          auto from = shapeOf(broadcast.getSrc().getType());
          for (unsigned d = 0; d < rank; ++d)
            info.dims[d] = from[d] == sizes[d] ? in[0]->dims[d]
                                               : Run{sizes[d], 0, in[0]->dims[d].divisibility};
          info.bounds = in[0]->bounds;
        })
        .Case<ExpandDimsOp>([&](ExpandDimsOp expand) {
          info.dims = in[0]->dims;
          info.dims.insert(info.dims.begin() + expand.getAxis(),
                           Run{1, 0, in[0]->divisibilityOfAll()});
          info.bounds = in[0]->bounds;
        })
        .Case<TransOp>([&](TransOp trans) {
          for (unsigned d = 0; d < rank; ++d)
            info.dims[d] = in[0]->dims[trans.getOrder()[d]];
          info.bounds = in[0]->bounds;
        })
        .Case<ReshapeOp>([&](ReshapeOp reshape) {
          auto from = sizesOf(reshape.getSrc().getType());
          if (reshape.getAnyOrder() && !in[0]->isUniform(from))
            return anyElement(*in[0]);
          info.dims =
              reshapedRuns(in[0]->dims, from, sizes, in[0]->divisibilityOfAll(), bitsOf(type));
          info.bounds = in[0]->bounds;
        })
        .Case<JoinOp>([&](JoinOp join) {
          int64_t all = std::min(in[0]->divisibilityOfAll(), in[1]->divisibilityOfAll());
          bool same = join.getLhs() == join.getRhs();
          for (unsigned d = 0; d + 1 < rank; ++d)
            info.dims[d] =
                eitherRun(operand(*in[0], d, sizes[d]), operand(*in[1], d, sizes[d]), sizes[d]);
          info.dims[rank - 1] = {same ? 2 : 1, 0, all};
          info.bounds = in[0]->range().rangeUnion(in[1]->range());
        })
        .Case<SplitOp>([&](SplitOp split) {
          if (isa<RankedTensorType>(type))
            info.dims.assign(in[0]->dims.begin(), in[0]->dims.end() - 1);
          else
            info.dims[0] = {1, 0, in[0]->divisibilityOfAll()};
          info.bounds = in[0]->bounds;
        })
        .Case<CatOp>([&](CatOp cat) {
          unsigned axis = cat.getDim();
          for (unsigned d = 0; d < rank; ++d) {
            if (d != axis) {
              info.dims[d] =
                  eitherRun(operand(*in[0], d, sizes[d]), operand(*in[1], d, sizes[d]), sizes[d]);
              continue;
            }
            // Groups must not straddle the seam.
            int64_t seam = shapeOf(cat.getLhs().getType())[d];
            int64_t length = std::gcd(std::gcd(in[0]->dims[d].length, in[1]->dims[d].length), seam);
            Run a = cut(in[0]->dims[d], length), b = cut(in[1]->dims[d], length);
            info.dims[d] = eitherRun({a, sizes[d], 0, nullptr}, {b, sizes[d], 0, nullptr}, length);
          }
          info.bounds = in[0]->range().rangeUnion(in[1]->range());
        })
        .Case<AddPtrOp>([&](AddPtrOp add) {
          // Offset, extended to 64 bits, times the size of the pointee, plus address.
          IntegerInfo offset = *in[1];
          if (bitsOf(add.getOffset().getType()) < 64) {
            offset.bounds = ConstantIntRanges::maxRange(64);
            extend(*in[1], sizes, true, offset);
          }
          auto bytes = ConstantIntRanges::constant(APInt(64, info.unit));
          for (unsigned d = 0; d < rank; ++d) {
            RunOperand unit = {{sizes[d], 0, powerOfTwoIn(info.unit)}, sizes[d], 64, &bytes};
            RunOperand moved = {mulRuns(operand(offset, d, sizes[d]), unit), sizes[d], 64,
                                &info.range()};
            info.dims[d] = addRuns(operand(*in[0], d, sizes[d]), moved);
          }
        })
        .Case<IntToPtrOp, PtrToIntOp, PtrCastOp>([&](auto) { info.dims = in[0]->dims; })
        .Case<LoadOp>([&](LoadOp load) {
          // One address, one mask, one `other`: one value.
          if (load.getIsVolatile())
            return;
          for (unsigned d = 0; d < rank; ++d) {
            int64_t length = sizes[d];
            for (auto [i, info] : llvm::enumerate(in)) {
              if (!info->bounds)
                return;
              length = commonLength(length, info->constancy(d), sizes[d]);
            }
            info.dims[d] = {length, 0, 1};
          }
        })
        .Case<MulHiUOp>([&](auto) { binary(in, result, info, elementwiseRun); })
        .Case<HintOp>([&](HintOp hint) {
          info = *in[0];
          for (unsigned d = 0; d < rank; ++d) {
            auto promise = [&](int64_t length, int64_t step) {
              Run old = info.dims[d];
              length = std::min(length, sizes[d]);
              if (length <= 1 || (old.step == step && old.length >= length))
                return;
              bool sameStarts = length % old.length == 0 || length == sizes[d];
              info.dims[d] = normalized(
                  {length, step, sameStarts ? old.divisibility : info.divisibilityOfAll()},
                  sizes[d], bitsOf(type));
            };
            if (auto lengths = hint.getContiguity())
              promise((*lengths)[d], info.unit);
            if (auto lengths = hint.getConstancy())
              promise((*lengths)[d], 0);
            if (auto divisors = hint.getDivisibility())
              info.dims[d].divisibility =
                  std::max(info.dims[d].divisibility, powerOfTwoIn((*divisors)[d]));
          }
        });
  }

  static int64_t maxPrograms(Operation *op, unsigned axis) {
    int64_t most = std::numeric_limits<int32_t>::max();
    if (auto function = op->getParentOfType<func::FuncOp>())
      if (auto limits = function->getAttrOfType<DenseI64ArrayAttr>("tile.max_programs"))
        if (axis < limits.size() && limits[axis] > 0)
          most = std::min(most, limits[axis]);
    return most;
  }

  Mode mode;
  const llvm::DenseMap<Value, Promise> &promises;
};

} // namespace

int64_t IntegerInfo::divisibilityOfAll() const {
  int64_t all = 1;
  for (const Run &run : dims)
    all = std::max(all, divisibilityOfElements(run));
  return all;
}

bool IntegerInfo::isUniform(llvm::ArrayRef<int64_t> shape) const {
  for (auto [run, size] : llvm::zip(dims, shape))
    if (run.step != 0 || run.length < size)
      return false;
  return true;
}

bool IntegerInfo::operator==(const IntegerInfo &other) const {
  return unit == other.unit && dims == other.dims && bounds == other.bounds;
}

void IntegerInfo::print(llvm::raw_ostream &os) const {
  if (!bounds) {
    os << "nothing";
    return;
  }
  if (auto value = constant()) {
    os << "= " << value->getSExtValue();
    return;
  }
  llvm::interleave(
      dims, os,
      [&](const Run &run) {
        os << run.length << " by " << run.step << " from ";
        if (run.divisibility == kAnyDivisibility)
          os << "0";
        else
          os << run.divisibility << "x";
      },
      ", ");
  auto full = ConstantIntRanges::maxRange(bounds->smin().getBitWidth());
  if (bounds->smin() != full.smin() || bounds->smax() != full.smax())
    os << ", signed " << bounds->smin().getSExtValue() << " to " << bounds->smax().getSExtValue();
  else if (bounds->umin() != full.umin() || bounds->umax() != full.umax())
    os << ", unsigned " << bounds->umin().getZExtValue() << " to " << bounds->umax().getZExtValue();
}

struct IntegerAnalysis::State {
  DataFlowSolver solver;
  llvm::DenseMap<Value, Promise> promises;
};

IntegerAnalysis::IntegerAnalysis(Operation *root, Mode mode) : state(std::make_unique<State>()) {
  state->promises = PromiseCollector(root).take();
  dataflow::loadBaselineAnalyses(state->solver);
  state->solver.load<Dataflow>(mode, state->promises);
  // A failure leaves states empty, which reads as nothing known.
  (void)state->solver.initializeAndRun(root);
}

IntegerAnalysis::~IntegerAnalysis() = default;
IntegerAnalysis::IntegerAnalysis(IntegerAnalysis &&) noexcept = default;

const IntegerInfo *IntegerAnalysis::lookup(Value value) const {
  auto *lattice = state->solver.lookupState<InfoLattice>(value);
  return lattice && lattice->info && lattice->info->bounds ? &*lattice->info : nullptr;
}

int64_t IntegerAnalysis::contiguity(Value value, unsigned dim) const {
  auto *info = lookup(value);
  return info ? info->contiguity(dim) : 1;
}

int64_t IntegerAnalysis::constancy(Value value, unsigned dim) const {
  auto *info = lookup(value);
  return info ? info->constancy(dim) : 1;
}

int64_t IntegerAnalysis::divisibility(Value value, unsigned dim) const {
  auto *info = lookup(value);
  return info ? info->divisibility(dim) : 1;
}

bool IntegerAnalysis::signExtensionKeepsRuns(Value value, unsigned dim) const {
  auto *info = lookup(value);
  if (!info)
    return false;
  Run run = info->run(dim);
  return extendedRun({run, sizesOf(value.getType())[dim], bitsOf(value.getType()), &info->range()},
                     /*isSigned=*/true) == run;
}

} // namespace nereid::transforms
