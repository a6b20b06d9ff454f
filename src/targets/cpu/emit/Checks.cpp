// Checks of accesses (checked mode) and assertions: what happens before a lane is known to fail.
//
// Nearly all addresses are affine in the position inside the block, and nearly all masks are
// `offsets < n`. Then the lanes that are on form a box, and an affine number takes its least and
// its greatest value at corners of it. So a few scalar comparisons show that a condition holds in
// all lanes that are on (Corners). Where they do not, because some lane fails or because the
// condition is not of the form, the lanes are looked at one by one, which finds the first that
// fails.
#include "targets/cpu/emit/Checks.h"

#include "targets/cpu/emit/Elements.h"
#include "targets/cpu/emit/Masks.h"

using namespace mlir;

namespace nereid::cpu {

using Predicate = arith::CmpIPredicate;

namespace {

/// Strides of fewer bytes: a sum of four of them times an extent of at most 2^20 fits 63 bits.
constexpr int64_t leastRefused = int64_t(1) << 40;
constexpr int64_t mostElements = int64_t(1) << 20;

class Corners {
public:
  Corners(Kernel &k, ArrayRef<int64_t> shape)
      : k(k), e(k.e), shape(shape), outside(k),
        forms(k, shape, true, [this](Value v, ArrayRef<Index> p) { return outside.at(v, p); }) {
    for (int64_t size : shape)
      counts.push_back(e.i64(size));
  }

  Value allHold(Value condition, Value mask);

private:
  Point everywhere() const {
    Point point;
    for (auto [d, size] : llvm::enumerate(shape))
      point.push_back(size == 1 ? Index{} : Index{Value(), int(d)});
    return point;
  }
  void restrictTo(Value mask, ArrayRef<Index> point);
  std::optional<Value> holds(Value value, ArrayRef<Index> point, bool wanted);
  std::optional<Value> holds(arith::CmpIOp compare, ArrayRef<Index> point, bool wanted);
  Value either(Value lhs, Value rhs) { return k.b.createOrFold<arith::OrIOp>(e.loc, lhs, rhs); }
  Value flag(bool value) { return e.integer(k.b.getI1Type(), value); }
  Value negatedUnless(Value condition, bool wanted) {
    return wanted ? condition : k.b.createOrFold<arith::XOrIOp>(e.loc, condition, flag(true));
  }

  Kernel &k;
  Emit &e;
  ArrayRef<int64_t> shape;
  Elements outside;
  Forms forms;
  SmallVector<Value> counts; // of the lanes that may be on along each dimension, i64
  Value assumed;             // under which `counts` are right; null: always
};

// Takes from `counts` what a mask is known to switch off. A part of a conjunction that says nothing
// is left out: then more lanes than those that are on must hold. A mask that is itself computed
// from masks of the form (their disjunction or negation, what was loaded with them) may be on where
// they are off, so it says nothing.
void Corners::restrictTo(Value mask, ArrayRef<Index> point) {
  Operation *op = mask.getDefiningOp();
  bool isTensor = isa<RankedTensorType>(mask.getType());
  if (!op && isTensor)
    return;
  if (isa_and_nonnull<arith::AndIOp>(op))
    return restrictTo(op->getOperand(0), point), restrictTo(op->getOperand(1), point);
  if (isTensor && movesElements(op)) {
    if (std::optional<Point> source = sourcePoint(op, point, e))
      restrictTo(op->getOperand(0), *source);
    return;
  }
  // Of one dimension, or of none.
  int dim = -1;
  if (isTensor)
    for (const Index &index : point) {
      if (index.dim >= 0 && dim >= 0 && index.dim != dim)
        return;
      dim = std::max(dim, index.dim);
    }
  Point along;
  if (isTensor)
    for (const Index &index : point)
      along.push_back({index.base, index.dim >= 0 ? 0 : -1});
  dim = std::max(dim, 0);
  if (shape.empty())
    return;
  Forms own(k, shape[dim], true, [this](Value v, ArrayRef<Index> p) { return outside.at(v, p); });
  Masks masks(k, own, outside, shape[dim]);
  masks.collectMask(mask, along);
  if (!masks.isOff(mask, along))
    return;
  counts[dim] = e.min(counts[dim], masks.off());
  for (Value assumption : own.assumptions)
    assumed = e.both(assumed, assumption);
}

// A number compared with one that is the same in all lanes, or two affine numbers.
std::optional<Value> Corners::holds(arith::CmpIOp compare, ArrayRef<Index> point, bool wanted) {
  Predicate predicate = compare.getPredicate();
  bool ordered = predicate == Predicate::sge || predicate == Predicate::sle;
  bool equal = predicate == (wanted ? Predicate::eq : Predicate::ne);
  if (!(ordered && wanted) && !equal)
    return std::nullopt;
  std::optional<Form> lhs = forms.of(compare.getLhs(), point),
                      rhs = lhs ? forms.of(compare.getRhs(), point) : std::nullopt;
  if (!rhs || !lhs->base.getType().isInteger(64))
    return std::nullopt;
  Value result;
  if (equal) {
    result = e.cmp(Predicate::eq, lhs->base, rhs->base);
    for (auto [left, right] : llvm::zip(lhs->strides, rhs->strides))
      if (left != right)
        result =
            e.both(result, e.cmp(Predicate::eq, left ? left : e.i64(0), right ? right : e.i64(0)));
    return result;
  }
  Value first = lhs->base, last = lhs->base;
  for (auto [d, stride] : llvm::enumerate(lhs->strides)) {
    if (rhs->strides[d])
      return std::nullopt;
    if (!stride)
      continue;
    if (std::optional<int64_t> known = Emit::constant(stride)) {
      if (*known <= -leastRefused || *known >= leastRefused)
        return std::nullopt;
    } else {
      result = e.both(result, e.both(e.cmp(Predicate::slt, stride, e.i64(leastRefused)),
                                     e.cmp(Predicate::sgt, stride, e.i64(-leastRefused))));
    }
    Value reach = e.mul(stride, e.sub(counts[d], e.i64(1)));
    first = e.add(first, e.min(reach, e.i64(0)));
    last = e.add(last, e.max(reach, e.i64(0)));
  }
  // Both ends, and the numbers in between do not wrap around.
  result = e.both(result, e.cmp(Predicate::sle, first, last));
  result = e.both(result, e.cmp(predicate, first, rhs->base));
  return e.both(result, e.cmp(predicate, last, rhs->base));
}

/// A scalar condition under which all lanes that are on have the value `wanted`.
std::optional<Value> Corners::holds(Value value, ArrayRef<Index> point, bool wanted) {
  if (!isa<RankedTensorType>(value.getType()))
    return negatedUnless(k.scalar(value), wanted);
  Operation *op = value.getDefiningOp();
  if (!op || k.buffers.count(value))
    return std::nullopt;
  if (auto splat = dyn_cast<tile::SplatOp>(op))
    return negatedUnless(k.scalar(splat.getSrc()), wanted);
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto dense = dyn_cast<SplatElementsAttr>(constant.getValue());
    return dense ? std::optional(flag(dense.getSplatValue<bool>() == wanted)) : std::nullopt;
  }
  if (movesElements(op)) {
    std::optional<Point> source = sourcePoint(op, point, e);
    return source ? holds(op->getOperand(0), *source, wanted) : std::nullopt;
  }
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    return holds(compare, point, wanted);
  if (isa<arith::XOrIOp>(op))
    for (int side : {0, 1}) {
      auto constant = op->getOperand(side).getDefiningOp<arith::ConstantOp>();
      auto dense =
          constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
      if (dense)
        return holds(op->getOperand(1 - side), point, wanted != dense.getSplatValue<bool>());
    }
  if (!isa<arith::AndIOp, arith::OrIOp>(op))
    return std::nullopt;
  std::optional<Value> left = holds(op->getOperand(0), point, wanted);
  std::optional<Value> right = holds(op->getOperand(1), point, wanted);
  if (isa<arith::AndIOp>(op) == wanted)
    return left && right ? std::optional(e.both(*left, *right)) : std::nullopt;
  return left && right ? std::optional(either(*left, *right)) : left ? left : right;
}

Value Corners::allHold(Value condition, Value mask) {
  int64_t elements = 1;
  for (int64_t size : shape)
    elements *= size;
  if (shape.size() > 4 || elements > mostElements || k.forcedScalar)
    return {};
  if (mask)
    restrictTo(mask, isa<RankedTensorType>(mask.getType()) ? everywhere() : Point());
  std::optional<Value> all = holds(condition, everywhere(), true);
  if (!all)
    return {};
  Value result = e.both(assumed, *all);
  for (Value assumption : forms.assumptions)
    result = e.both(result, assumption);
  if (!mask)
    return result;
  Value none;
  for (Value count : counts) {
    Value isEmpty = e.cmp(Predicate::sle, count, e.i64(0));
    none = none ? either(none, isEmpty) : isEmpty;
  }
  return none ? either(result, e.both(assumed, none)) : result;
}

} // namespace

Value allLanesHold(Kernel &k, Value condition, Value mask) {
  auto type = dyn_cast<RankedTensorType>(condition.getType());
  if (!type)
    return {};
  return Corners(k, type.getShape()).allHold(condition, mask);
}

} // namespace nereid::cpu
