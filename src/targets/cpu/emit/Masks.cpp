#include "targets/cpu/emit/Masks.h"

using namespace mlir;

namespace nereid::cpu {

using Predicate = arith::CmpIPredicate;

static Predicate mirrored(Predicate predicate) {
  switch (predicate) {
  case Predicate::sgt:
    return Predicate::slt;
  case Predicate::sge:
    return Predicate::sle;
  case Predicate::ugt:
    return Predicate::ult;
  case Predicate::uge:
    return Predicate::ule;
  default:
    return Predicate::eq; // not of the form
  }
}

void Masks::add(Value mask, ArrayRef<Index> point, Kernel &k, Forms &forms, Elements &outside) {
  if (!possible)
    return;
  if (!isa<RankedTensorType>(mask.getType())) {
    uniform.push_back(k.scalar(mask));
    return;
  }
  if (!runsWith(point)) {
    uniform.push_back(outside.at(mask, point));
    return;
  }
  possible = false;
  Operation *op = mask.getDefiningOp();
  if (!op || k.buffers.count(mask))
    return;
  if (isa<arith::AndIOp>(op)) {
    possible = true;
    add(op->getOperand(0), point, k, forms, outside);
    add(op->getOperand(1), point, k, forms, outside);
    return;
  }
  if (auto splat = dyn_cast<tile::SplatOp>(op)) {
    possible = true;
    uniform.push_back(k.scalar(splat.getSrc()));
    return;
  }
  if (movesElements(op)) {
    std::optional<Point> source = sourcePoint(op, point, k.e);
    possible = source.has_value();
    if (source)
      add(op->getOperand(0), *source, k, forms, outside);
    return;
  }
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!compare)
    return;
  std::optional<Form> left = forms.of(compare.getLhs(), point),
                      right = forms.of(compare.getRhs(), point);
  if (!left || !right)
    return;
  Predicate predicate = compare.getPredicate();
  if (predicate != Predicate::slt && predicate != Predicate::sle && predicate != Predicate::ult &&
      predicate != Predicate::ule) {
    predicate = mirrored(predicate);
    std::swap(left, right);
  }
  if (predicate == Predicate::eq || right->strides[0] || right->strides.size() != 1)
    return;
  std::optional<int64_t> stride = left->strides[0] ? Emit::constant(left->strides[0]) : 0;
  if (!stride || *stride < 0 || *stride > 1024) // a chunk is far shorter than the range of the type
    return;
  possible = true;
  limits.push_back({*left, right->base, *stride, predicate});
}

Value Masks::allHold(Kernel &k, Elements &lanes) const {
  Value all;
  for (Value condition : uniform)
    all = k.e.both(all, condition);
  for (const Limit &limit : limits) {
    Value first = lanes.firstOf(limit.running);
    Value last = k.e.add(first, k.e.integer(first.getType(), (lanes.width - 1) * limit.stride));
    bool isSigned = limit.predicate == Predicate::slt || limit.predicate == Predicate::sle;
    // A chunk that wraps ends below its beginning.
    all = k.e.both(all, k.e.cmp(isSigned ? Predicate::sle : Predicate::ule, first, last));
    all = k.e.both(all, k.e.cmp(limit.predicate, last, limit.fixed));
  }
  return all;
}

} // namespace nereid::cpu
