// WidenOffsets: offsets into large tensors are computed in 64 bits.
//
// `pid * BLOCK + arange` and `rows * stride` are 32-bit integers, which wrap, and a wrapped offset
// is an address outside of the tensor. Where an argument has so many elements that its offsets come
// near 2^31
// (`tile.large`, a fact of the launch), the integers that lead to its addresses are computed a
// second time with 64 bits, if the integer analysis cannot exclude that they wrap. So are the
// comparisons that mask its accesses: a wrapped offset would be below every bound.
//
// Repeated operations: additions, subtractions, multiplications, shifts by constants, minima,
// maxima and selections, through shapes and through loops that carry them. Results of other
// operations are extended: remainders, quotients and bits, because they may be meant to be those of
// a wrapped number (hashing), loaded values, arguments, program ids, loop counters. Other uses of a
// number see it wrap as before: docs/wide-offsets.md.
//
// Runs after the inliner, which shows where pointers come from, and before additions to pointers
// are taken apart.
#include "transforms/Passes.h"

#include "ir/tile/Dialect.h"
#include "transforms/IntegerAnalysis.h"
#include "transforms/Provenance.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace nereid::transforms {
#define GEN_PASS_DEF_WIDENOFFSETS
#include "transforms/Passes.h.inc"

namespace {
using namespace nereid::tile;

constexpr unsigned wideBits = 64;

unsigned widthOf(Value value) {
  auto type = dyn_cast<IntegerType>(elementOf(value.getType()));
  return type ? type.getWidth() : 0;
}

/// Ops that rearrange elements and know nothing of their values.
bool isShape(Operation *op) {
  return isView(op) || isa<SplatOp, UnsplatOp>(op);
}

bool isShiftByConstant(Operation *op) {
  return isa<arith::ShLIOp>(op) && matchPattern(op->getOperand(1), m_Constant());
}

/// Whether the wide result is computed from the wide operands.
bool isRepeated(Operation *op) {
  return isShape(op) || isShiftByConstant(op) ||
         isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::MinSIOp, arith::MaxSIOp,
             arith::ExtSIOp, HintOp>(op);
}

class Widener {
public:
  explicit Widener(func::FuncOp kernel) : kernel(kernel), rewriter(kernel.getContext()) {
    IntegerAnalysis analysis(kernel);
    // Around loops until nothing changes.
    for (size_t before = ~size_t(0); before != wrapping.size();) {
      before = wrapping.size();
      kernel.walk<WalkOrder::PreOrder>([&](Operation *op) { findWrapping(op, analysis); });
    }
  }

  bool any() const { return !wrapping.empty(); }

  void run(llvm::function_ref<bool(Value)> isLarge) {
    SmallVector<Operation *> ops;
    kernel.walk([&](Operation *op) {
      if (isa<AddPtrOp, LoadOp, StoreOp, Atomic>(op) && isLarge(op->getOperand(0)))
        ops.push_back(op);
    });
    for (Operation *op : ops) {
      if (auto add = dyn_cast<AddPtrOp>(op)) {
        if (mayWrap(add.getOffset()))
          add.getOffsetMutable().assign(wide(add.getOffset()));
        continue;
      }
      auto remask = [&](auto access) {
        if (access.getMask())
          access.getMaskMutable().assign(wideMask(access.getMask()));
      };
      llvm::TypeSwitch<Operation *>(op).Case<LoadOp, StoreOp, Atomic>(remask);
    }
  }

private:
  bool mayWrap(Value value) const { return wrapping.contains(value); }
  void findWrapping(Operation *op, const IntegerAnalysis &analysis);
  static bool overflows(Operation *op, const IntegerAnalysis &analysis);
  Value wide(Value value);
  Value wideMask(Value mask);
  scf::ForOp widenCarried(scf::ForOp loop);
  Type wideType(Value value) {
    return withShapeOf(rewriter.getIntegerType(wideBits), value.getType());
  }
  void insertBehind(Value value) {
    if (Operation *op = value.getDefiningOp())
      rewriter.setInsertionPointAfter(op);
    else
      rewriter.setInsertionPointToStart(cast<BlockArgument>(value).getOwner());
  }

  func::FuncOp kernel;
  IRRewriter rewriter;
  llvm::DenseSet<Value> wrapping; ///< may differ from what they are in 64 bits
  llvm::DenseMap<Value, Value> known;
};

/// May the result of this one op be beyond its type?
bool Widener::overflows(Operation *op, const IntegerAnalysis &analysis) {
  unsigned bits = widthOf(op->getResult(0));
  auto bounds = [&](Value value) -> std::pair<APInt, APInt> {
    if (const IntegerInfo *info = analysis.lookup(value))
      return {info->range().smin().sext(4 * wideBits), info->range().smax().sext(4 * wideBits)};
    return {APInt::getSignedMinValue(bits).sext(4 * wideBits),
            APInt::getSignedMaxValue(bits).sext(4 * wideBits)};
  };
  auto [a, b] = bounds(op->getOperand(0));
  auto [c, d] = bounds(op->getOperand(1));
  SmallVector<APInt> results;
  if (isa<arith::AddIOp>(op)) {
    results = {a + c, b + d};
  } else if (isa<arith::SubIOp>(op)) {
    results = {a - d, b - c};
  } else if (isa<arith::MulIOp>(op)) {
    results = {a * c, a * d, b * c, b * d};
  } else { // a shift by a constant
    unsigned by = unsigned(std::min<uint64_t>(d.getLimitedValue(), wideBits));
    results = {a.shl(by), b.shl(by)};
  }
  return llvm::any_of(results, [&](const APInt &x) { return !x.isSignedIntN(bits); });
}

void Widener::findWrapping(Operation *op, const IntegerAnalysis &analysis) {
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    for (auto [i, argument] : llvm::enumerate(loop.getRegionIterArgs())) {
      unsigned bits = widthOf(argument);
      if (bits > 1 && bits < wideBits &&
          (mayWrap(loop.getInitArgs()[i]) || mayWrap(loop.getYieldedValues()[i]))) {
        wrapping.insert(argument);
        wrapping.insert(loop.getResult(i));
      }
    }
    return;
  }
  if (op->getNumResults() != 1 || widthOf(op->getResult(0)) <= 1 ||
      !(isRepeated(op) || isa<arith::SelectOp>(op)))
    return;
  Value result = op->getResult(0);
  bool wraps = llvm::any_of(op->getOperands(), [&](Value operand) { return mayWrap(operand); });
  if (!wraps && widthOf(result) < wideBits &&
      (isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op) || isShiftByConstant(op)))
    wraps = overflows(op, analysis);
  if (wraps)
    wrapping.insert(result);
}

/// The loop carries its numbers that wrap with 64 bits as well; the new loop.
scf::ForOp Widener::widenCarried(scf::ForOp loop) {
  SmallVector<unsigned> indices;
  for (auto [i, argument] : llvm::enumerate(loop.getRegionIterArgs()))
    if (mayWrap(argument))
      indices.push_back(i);
  auto wides = [&](auto valueOf) {
    // Twice, because what comes later may replace a loop that an earlier one belongs to.
    for (unsigned i : indices)
      wide(valueOf(i));
    return llvm::map_to_vector(indices, [&](unsigned i) { return wide(valueOf(i)); });
  };
  SmallVector<Value> inits = wides([&](unsigned i) { return loop.getInitArgs()[i]; });
  SmallVector<Value> before(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
  llvm::append_range(before, loop.getResults());

  rewriter.setInsertionPoint(loop);
  auto carry = [&](OpBuilder &, Location, ArrayRef<BlockArgument> added) -> SmallVector<Value> {
    for (auto [i, argument] : llvm::zip_equal(indices, added))
      known[loop.getRegionIterArgs()[i]] = argument;
    return wides([&](unsigned i) { return loop.getYieldedValues()[i]; });
  };
  auto wider = cast<scf::ForOp>(*loop.replaceWithAdditionalYields(
      rewriter, inits, /*replaceInitOperandUsesInLoop=*/false, carry));

  // Facts about the old loop's values hold for the new one's.
  SmallVector<Value> after(wider.getRegionIterArgs().drop_back(inits.size()));
  llvm::append_range(after, wider.getResults().drop_back(inits.size()));
  llvm::DenseMap<Value, Value> renamed;
  for (auto [old, now] : llvm::zip_equal(before, after))
    renamed[old] = now;
  auto name = [&](Value value) {
    Value now = renamed.lookup(value);
    return now ? now : value;
  };
  llvm::DenseMap<Value, Value> stillKnown;
  for (auto [value, there] : known)
    stillKnown[name(value)] = name(there);
  known = std::move(stillKnown);
  for (auto [old, now] : renamed)
    if (wrapping.erase(old))
      wrapping.insert(now);
  for (auto [at, i] : llvm::enumerate(indices))
    known[wider.getResult(i)] = wider.getResults().take_back(inits.size())[at];
  return wider;
}

/// The same number with 64 bits, as if no step towards it had wrapped.
Value Widener::wide(Value value) {
  if (Value there = known.lookup(value))
    return there;
  if (auto argument = dyn_cast<BlockArgument>(value); argument && mayWrap(value)) {
    unsigned index = argument.getArgNumber() - 1;
    auto loop = cast<scf::ForOp>(argument.getOwner()->getParentOp());
    return known.lookup(widenCarried(loop).getRegionIterArgs()[index]);
  }
  Operation *op = value.getDefiningOp();
  Value result;
  if (!mayWrap(value)) {
    insertBehind(value);
    result = widthOf(value) == wideBits
                 ? value
                 : arith::ExtSIOp::create(rewriter, value.getLoc(), wideType(value), value);
  } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
    unsigned index = cast<OpResult>(value).getResultNumber();
    return known.lookup(widenCarried(loop).getResult(index));
  } else if (isa<arith::ExtSIOp>(op)) {
    result = wide(op->getOperand(0));
  } else {
    auto isNumber = [](Value operand) { return widthOf(operand) > 1; };
    for (Value operand : llvm::make_filter_range(op->getOperands(), isNumber))
      wide(operand); // may replace a loop, and so this op's operands
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(isNumber(operand) ? wide(operand) : operand);
    insertBehind(value);
    Operation *repeated = rewriter.clone(*op);
    repeated->setOperands(operands);
    result = repeated->getResult(0);
    result.setType(wideType(value));
    // The overflow flags of the narrow operation do not hold for the wide one.
    if (isa<arith::ArithIntegerOverflowFlagsInterface>(repeated))
      repeated->setAttr("overflowFlags", arith::IntegerOverflowFlagsAttr::get(
                                             op->getContext(), arith::IntegerOverflowFlags::none));
  }
  return known[value] = result;
}

/// A mask in which no comparison looks at a wrapped number.
Value Widener::wideMask(Value mask) {
  if (Value there = known.lookup(mask))
    return there;
  Operation *op = mask.getDefiningOp();
  if (!op)
    return mask;
  SmallVector<Value> operands;
  if (auto compare = dyn_cast<arith::CmpIOp>(op)) {
    bool isSigned = compare.getPredicate() <= arith::CmpIPredicate::sge; // eq and ne too
    if (widthOf(compare.getLhs()) <= 1 || !isSigned ||
        !(mayWrap(compare.getLhs()) || mayWrap(compare.getRhs())))
      return mask;
    wide(compare.getLhs()); // see above
    wide(compare.getRhs());
    operands = {wide(compare.getLhs()), wide(compare.getRhs())};
  } else if (isShape(op) || isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op)) {
    for (Value operand : op->getOperands())
      wideMask(operand);
    for (Value operand : op->getOperands())
      operands.push_back(wideMask(operand));
    if (llvm::equal(operands, op->getOperands()))
      return mask;
  } else {
    return mask;
  }
  insertBehind(mask);
  Operation *repeated = rewriter.clone(*op);
  repeated->setOperands(operands);
  return known[mask] = repeated->getResult(0);
}

struct WidenOffsets : impl::WidenOffsetsBase<WidenOffsets> {
  void runOnOperation() override {
    auto kernel = dyn_cast<func::FuncOp>(getOperation());
    if (!kernel || kernel.isDeclaration())
      return;
    llvm::BitVector large(kernel.getNumArguments());
    for (unsigned i = 0; i < large.size(); ++i)
      large[i] = bool(kernel.getArgAttr(i, "tile.large"));
    if (large.none())
      return;
    Provenance provenance(kernel);
    Widener widener(kernel);
    if (!widener.any())
      return;
    // Asked before anything changes.
    llvm::DenseSet<Value> pointers;
    kernel.walk([&](Operation *op) {
      if (!isa<AddPtrOp, LoadOp, StoreOp, Atomic>(op))
        return;
      llvm::BitVector arguments = provenance.of(op->getOperand(0)).arguments;
      arguments.resize(large.size());
      if (arguments.anyCommon(large))
        pointers.insert(op->getOperand(0));
    });
    widener.run([&](Value pointer) { return pointers.contains(pointer); });
  }
};

} // namespace
} // namespace nereid::transforms
