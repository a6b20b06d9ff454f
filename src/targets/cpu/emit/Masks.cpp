#include "targets/cpu/emit/Masks.h"

#include "targets/cpu/emit/Elements.h"
#include "targets/cpu/emit/Plan.h"

using namespace mlir;

namespace nereid::cpu {

using Predicate = arith::CmpIPredicate;

static bool isTensor(Value value) {
  return isa<RankedTensorType>(value.getType());
}

/// A point of a mask; of a scalar it has no coordinates.
static TensorPoint placeOf(Value mask, ArrayRef<Index> point) {
  return {mask, isTensor(mask) ? Point(point) : Point()};
}

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

// `running + i * stride` is below `fixed` for how many i, the first of which is 0?
std::optional<Masks::Prefix> Masks::comparison(arith::CmpIOp compare, ArrayRef<Index> point) {
  std::optional<Form> running = forms.of(compare.getLhs(), point),
                      fixed = forms.of(compare.getRhs(), point);
  if (!running || !fixed)
    return std::nullopt;
  Predicate predicate = compare.getPredicate();
  if (predicate != Predicate::slt && predicate != Predicate::sle && predicate != Predicate::ult &&
      predicate != Predicate::ule) {
    predicate = mirrored(predicate);
    std::swap(running, fixed);
  }
  if (predicate == Predicate::eq || fixed->strides[0] || fixed->strides.size() != 1)
    return std::nullopt;
  std::optional<int64_t> stride = running->strides[0] ? Emit::constant(running->strides[0]) : 0;
  Emit &e = k.e;
  unsigned bits = running->base.getType().getIntOrFloatBitWidth();
  if (!stride || *stride < 0 || *stride > 1024 || bits < 8 || extent > (int64_t(1) << 32))
    return std::nullopt;
  if (*stride == 0) {
    Value holds = e.cmp(predicate, running->base, fixed->base);
    Value count = k.b.createOrFold<arith::SelectOp>(e.loc, holds, e.i64(extent), e.i64(0));
    return Prefix{count, count};
  }
  // In i64, where numbers of fewer bits do not wrap; the largest of 64 bits are refused below.
  bool isSigned = predicate == Predicate::slt || predicate == Predicate::sle;
  bool isWide = bits == 64;
  auto wide = [&](Value value) -> Value {
    if (isWide)
      return value;
    if (isSigned)
      return e.resize(value, k.b.getI64Type());
    return k.b.createOrFold<arith::ExtUIOp>(e.loc, k.b.getI64Type(), value);
  };
  Value begin = wide(running->base), end = wide(fixed->base);
  int64_t reach = (extent - 1) * *stride;
  int64_t greatest = isSigned || isWide ? INT64_MAX >> (64 - bits) : (int64_t(1) << bits) - 1;
  // Numbers of 64 bits without a sign that have the highest bit set are refused, too.
  Value wraps = e.cmp(Predicate::ugt, begin, e.i64(greatest - reach));
  if (isSigned)
    wraps = e.cmp(Predicate::sgt, begin, e.i64(greatest - reach));
  Value isAbove = e.cmp(isSigned ? Predicate::sgt : Predicate::ugt, end, begin);
  if (predicate == Predicate::sle || predicate == Predicate::ule)
    isAbove = e.cmp(isSigned ? Predicate::sge : Predicate::uge, end, begin);
  // The distance may take all 64 bits.
  Value distance =
      k.b.createOrFold<arith::MinUIOp>(e.loc, e.sub(end, begin), e.i64(extent * *stride));
  if (predicate == Predicate::sle || predicate == Predicate::ule)
    distance = e.add(distance, e.i64(1));
  if (*stride != 1)
    distance = k.b.createOrFold<arith::DivUIOp>(e.loc, e.add(distance, e.i64(*stride - 1)),
                                                e.i64(*stride));
  distance = e.min(distance, e.i64(extent));
  Value zero = e.i64(0);
  Value count = k.b.createOrFold<arith::SelectOp>(e.loc, isAbove, distance, zero);
  if (Emit::constant(wraps) == 0)
    return Prefix{count, count};
  return Prefix{k.b.createOrFold<arith::SelectOp>(e.loc, wraps, zero, count),
                k.b.createOrFold<arith::SelectOp>(e.loc, wraps, e.i64(extent), count)};
}

std::optional<Masks::Prefix> Masks::prefixOf(Value mask, ArrayRef<Index> point) {
  TensorPoint place = placeOf(mask, point);
  if (auto known = prefixes.find(place); known != prefixes.end())
    return known->second;
  auto compute = [&]() -> std::optional<Prefix> {
    Value scalar;
    Operation *op = mask.getDefiningOp();
    if (!isTensor(mask))
      scalar = k.scalar(mask);
    else if (!runsWith(point))
      scalar = outside.at(mask, point);
    else if (auto splat = dyn_cast_if_present<tile::SplatOp>(op))
      scalar = k.scalar(splat.getSrc());
    if (scalar) {
      Value count = k.b.createOrFold<arith::SelectOp>(k.e.loc, scalar, k.e.i64(extent), k.e.i64(0));
      return Prefix{count, count};
    }
    if (!op || k.buffers.count(mask))
      return std::nullopt;
    if (isa<arith::AndIOp>(op)) {
      std::optional<Prefix> left = prefixOf(op->getOperand(0), point);
      std::optional<Prefix> right = left ? prefixOf(op->getOperand(1), point) : std::nullopt;
      if (!right)
        return std::nullopt;
      return Prefix{k.e.min(left->on, right->on), k.e.min(left->off, right->off)};
    }
    if (movesElements(op)) {
      std::optional<Point> source = sourcePoint(op, point, k.e);
      return source ? prefixOf(op->getOperand(0), *source) : std::nullopt;
    }
    if (auto compare = dyn_cast<arith::CmpIOp>(op))
      return comparison(compare, point);
    return std::nullopt;
  };
  std::optional<Prefix> prefix = compute();
  prefixes[place] = prefix;
  return prefix;
}

bool Masks::add(Value mask, ArrayRef<Index> point, bool ofAccess) {
  std::optional<Prefix> prefix = prefixOf(mask, point);
  if (!prefix)
    return false;
  TensorPoint place = placeOf(mask, point);
  if (offSet.insert(place).second)
    lastOff = lastOff ? k.e.max(lastOff, prefix->off) : prefix->off;
  if (ofAccess && onSet.insert(place).second)
    firstOn = firstOn ? k.e.min(firstOn, prefix->on) : prefix->on;
  return true;
}

/// Whether a value can be computed at any time: from ranges and numbers, without memory. What else
/// a tensor in memory was computed from may be gone, or be another by now.
static bool isAlwaysKnown(Value value) {
  SmallVector<Value> stack{value};
  llvm::DenseSet<Value> seen;
  while (!stack.empty()) {
    Value next = stack.pop_back_val();
    if (!isTensor(next) || !seen.insert(next).second)
      continue;
    Operation *op = next.getDefiningOp();
    if (!op || isa<tile::LoadOp>(op) || !isVirtual(op))
      return false;
    llvm::append_range(stack, op->getOperands());
  }
  return true;
}

void Masks::collectMask(Value mask, ArrayRef<Index> point) {
  if (!add(mask, point, true))
    collect(mask, point);
}

void Masks::collect(Value first, ArrayRef<Index> firstPoint) {
  struct Place {
    Value value;
    Point point;
    bool isInMemory; // what it is computed from is not evaluated any more
  };
  SmallVector<Place> stack;
  auto push = [&](Value value, ArrayRef<Index> at, bool isInMemory) {
    if (isTensor(value) && runsWith(at))
      stack.push_back({value, Point(at), isInMemory});
  };
  push(first, firstPoint, false);
  while (!stack.empty()) {
    auto [value, at, isInMemory] = stack.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || !isVirtual(op) || !seen.insert(TensorPoint{value, at}).second)
      continue;
    isInMemory = isInMemory || k.buffers.count(value);
    auto tryAdding = [&, at = ArrayRef<Index>(at), isInMemory = isInMemory](Value mask,
                                                                            bool ofAccess) {
      return (!isInMemory || isAlwaysKnown(mask)) && add(mask, at, ofAccess && !isInMemory);
    };
    if (isa<arith::CmpIOp, arith::AndIOp>(op) && tile::elementOf(value.getType()).isInteger(1) &&
        tryAdding(value, false))
      continue;
    if (auto load = dyn_cast<tile::LoadOp>(op); load && load.getMask()) {
      if (!tryAdding(load.getMask(), true))
        push(load.getMask(), at, isInMemory);
      if (load.getOther())
        push(load.getOther(), at, isInMemory);
      if (!isInMemory)
        push(load.getPtr(), at, false);
      continue;
    }
    std::optional<Point> source = at;
    if (movesElements(op))
      source = sourcePoint(op, at, k.e);
    if (source)
      for (Value operand : op->getOperands())
        push(operand, *source, isInMemory);
  }
}

bool Masks::isOn(Value mask, ArrayRef<Index> point) const {
  return onSet.contains(placeOf(mask, point));
}

bool Masks::isOff(Value mask, ArrayRef<Index> point) const {
  return offSet.contains(placeOf(mask, point));
}

bool Masks::isUniformOff(Value value, ArrayRef<Index> point) {
  if (!isTensor(value) || !runsWith(point, 0) || isOff(value, point))
    return true;
  TensorPoint place{value, Point(point)};
  if (auto known = uniform.find(place); known != uniform.end())
    return known->second;
  bool result = computeUniformOff(value, point);
  uniform[place] = result;
  return result;
}

bool Masks::computeUniformOff(Value value, ArrayRef<Index> point) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return isa<SplatElementsAttr>(constant.getValue());
  if (isa<tile::SplatOp>(op))
    return true;
  if (auto load = dyn_cast<tile::LoadOp>(op))
    return !load.getIsVolatile() && load.getMask() && isOff(load.getMask(), point) &&
           (!load.getOther() || isUniformOff(load.getOther(), point));
  if (movesElements(op)) {
    std::optional<Point> source = sourcePoint(op, point, k.e);
    return source && isUniformOff(op->getOperand(0), *source);
  }
  if (auto select = dyn_cast<arith::SelectOp>(op); select && isOff(select.getCondition(), point))
    return isUniformOff(select.getFalseValue(), point);
  if (isa<arith::AndIOp>(op) && tile::elementOf(value.getType()).isInteger(1) &&
      llvm::any_of(op->getOperands(), [&](Value operand) { return isOff(operand, point); }))
    return true;
  return Emit::isElementwise(op) && isMemoryEffectFree(op) &&
         llvm::all_of(op->getOperands(),
                      [&](Value operand) { return isUniformOff(operand, point); });
}

} // namespace nereid::cpu
