#include "targets/cpu/emit/Forms.h"

using namespace mlir;

namespace nereid::cpu {

bool Forms::require(Value condition) {
  if (auto known = Emit::constant(condition))
    return *known != 0;
  if (!assume)
    return false;
  if (!llvm::is_contained(assumptions, condition))
    assumptions.push_back(condition);
  return true;
}

std::optional<Form> Forms::of(Value value, ArrayRef<Index> point) {
  TensorPoint place{value, Point(point)};
  if (auto known = memo.find(place); known != memo.end())
    return known->second;
  size_t mark = assumptions.size(), foundBefore = found.size();
  std::optional<Form> form = compute(value, point);
  if (!form && assumptions.size() > mark) {
    // The assumptions of the parts will not be checked, so their forms are dropped, too.
    assumptions.resize(mark);
    for (const TensorPoint &part : ArrayRef<TensorPoint>(found).drop_front(foundBefore))
      memo.erase(part);
    found.resize(foundBefore);
  }
  memo[place] = form;
  found.push_back(place);
  return form;
}

// Least and greatest distance from the base over the nest, as i64.
std::pair<Value, Value> Forms::span(const Form &form, ArrayRef<Value> counts) {
  Value low = k.e.i64(0), high = low;
  for (auto [d, stride] : llvm::enumerate(form.strides)) {
    if (!stride)
      continue;
    bool isCounted = !counts.empty() && counts[d];
    Value last = isCounted ? k.e.sub(counts[d], k.e.i64(1)) : k.e.i64(extents[d] - 1);
    Value reach = k.e.mul(k.e.resize(stride, k.b.getI64Type()), last);
    Value zero = k.e.i64(0);
    low = k.e.add(low, k.e.min(reach, zero));
    high = k.e.add(high, k.e.max(reach, zero));
  }
  return {low, high};
}

std::pair<Value, Value> Forms::bounds(const Form &form, bool isUnsigned, ArrayRef<Value> counts) {
  auto [low, high] = span(form, counts);
  Value base = form.base;
  if (isa<LLVM::LLVMPointerType>(base.getType()))
    base = LLVM::PtrToIntOp::create(k.b, k.e.loc, k.b.getI64Type(), base);
  else if (isUnsigned && !base.getType().isInteger(64))
    base = k.b.createOrFold<arith::ExtUIOp>(k.e.loc, k.b.getI64Type(), base);
  else
    base = k.e.resize(base, k.b.getI64Type());
  return {k.e.add(base, low), k.e.add(base, high)};
}

// An aligned block of 2^n values has no multiple of 2^n inside, so no boundary of the type's range.
bool Forms::cannotWrap(const Form &form) {
  auto [low, high] = span(form);
  auto from = Emit::constant(low), to = Emit::constant(high);
  if (!from || !to || *from != 0)
    return false;
  if (*to == 0)
    return true;
  unsigned zeros =
      std::min(k.knownZeros(form.base), form.base.getType().getIntOrFloatBitWidth() - 1);
  return zeros < 63 && *to < (int64_t(1) << zeros);
}

std::optional<Form> Forms::extended(const Form &form, Type to, bool isUnsigned) {
  unsigned bits = form.base.getType().getIntOrFloatBitWidth();
  if (!cannotWrap(form)) {
    auto [low, high] = bounds(form, isUnsigned);
    int64_t least = isUnsigned ? 0 : -(int64_t(1) << (bits - 1));
    int64_t greatest = isUnsigned ? (int64_t(1) << bits) - 1 : (int64_t(1) << (bits - 1)) - 1;
    Value fits = k.e.both(k.e.cmp(arith::CmpIPredicate::sge, low, k.e.i64(least)),
                          k.e.cmp(arith::CmpIPredicate::sle, high, k.e.i64(greatest)));
    if (!require(fits))
      return std::nullopt;
  }
  Form result;
  result.base = isUnsigned ? k.b.createOrFold<arith::ExtUIOp>(k.e.loc, to, form.base)
                           : k.e.resize(form.base, to);
  for (Value stride : form.strides)
    result.strides.push_back(stride ? k.e.resize(stride, to) : Value());
  return result;
}

std::optional<Form> Forms::remainder(const Form &form, Value divisor) {
  auto [low, high] = bounds(form);
  Value wide = k.e.resize(divisor, k.b.getI64Type());
  Value safe = k.e.max(wide, k.e.i64(1));
  Value quotient = k.b.createOrFold<arith::DivSIOp>(k.e.loc, low, safe);
  Value last = k.b.createOrFold<arith::DivSIOp>(k.e.loc, high, safe);
  if (!require(k.e.cmp(arith::CmpIPredicate::sgt, wide, k.e.i64(0))) ||
      !require(k.e.cmp(arith::CmpIPredicate::sge, low, k.e.i64(0))) ||
      !require(k.e.cmp(arith::CmpIPredicate::eq, quotient, last)))
    return std::nullopt;
  unsigned bits = form.base.getType().getIntOrFloatBitWidth();
  if (bits < 64 && !cannotWrap(form))
    if (!require(k.e.cmp(arith::CmpIPredicate::sle, high, k.e.i64((int64_t(1) << (bits - 1)) - 1))))
      return std::nullopt;
  Form result = form;
  Value whole = k.e.resize(k.e.mul(quotient, wide), form.base.getType());
  result.base = k.e.sub(form.base, whole);
  return result;
}

Form Forms::plus(const Form &lhs, const Form &rhs, bool negate) {
  Form result;
  result.base = negate ? k.e.sub(lhs.base, rhs.base) : k.e.add(lhs.base, rhs.base);
  for (auto [l, r] : llvm::zip(lhs.strides, rhs.strides)) {
    Value stride = l;
    if (r) {
      if (negate)
        stride = k.e.sub(l ? l : k.e.integer(r.getType(), 0), r);
      else
        stride = l ? k.e.add(l, r) : r;
    }
    result.strides.push_back(stride);
  }
  return result;
}

static bool isInvariant(const Form &form) {
  return llvm::none_of(form.strides, [](Value stride) { return bool(stride); });
}

std::optional<Form> Forms::compute(Value value, ArrayRef<Index> point) {
  Form form;
  form.strides.resize(extents.size());
  Type element = tile::elementOf(value.getType());
  if (!isa<IntegerType, tile::PtrType>(element))
    return std::nullopt;
  if (!isa<RankedTensorType>(value.getType())) {
    form.base = k.scalar(value);
    return form;
  }
  if (!runsWith(point)) {
    form.base = scalarAt(value, point);
    return form;
  }
  Operation *op = value.getDefiningOp();
  if (!op || k.buffers.count(value))
    return std::nullopt;
  Emit &e = k.e;
  if (auto range = dyn_cast<tile::RangeOp>(op)) {
    Type i32 = k.b.getI32Type();
    form.base = e.integer(i32, range.getStart());
    if (point[0].base)
      form.base = e.add(form.base, e.resize(point[0].base, i32));
    form.strides[point[0].dim] = e.integer(i32, 1);
    return form;
  }
  if (auto splat = dyn_cast<tile::SplatOp>(op)) {
    form.base = k.scalar(splat.getSrc());
    return form;
  }
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto dense = dyn_cast<SplatElementsAttr>(constant.getValue());
    if (!dense)
      return std::nullopt;
    form.base = e.constantOf(dense.getSplatValue<Attribute>(), element);
    return form;
  }
  if (movesElements(op)) {
    std::optional<Point> source = sourcePoint(op, point, e);
    return source ? of(op->getOperand(0), *source) : std::nullopt;
  }
  if (!Emit::isElementwise(op) || llvm::any_of(op->getOperandTypes(), [](Type type) {
        return !isa<IntegerType, tile::PtrType>(tile::elementOf(type));
      }))
    return std::nullopt;
  SmallVector<Form> in;
  for (Value operand : op->getOperands()) {
    auto operandPoint = isa<RankedTensorType>(operand.getType()) ? point : ArrayRef<Index>();
    std::optional<Form> part = of(operand, operandPoint);
    if (!part)
      return std::nullopt;
    in.push_back(std::move(*part));
  }
  if (llvm::all_of(in, isInvariant)) {
    form.base = e.elementwise(op, llvm::map_to_vector(in, [](Form &f) { return f.base; }), 1);
    return form;
  }
  if (isa<arith::AddIOp>(op))
    return plus(in[0], in[1], false);
  if (isa<arith::SubIOp>(op))
    return plus(in[0], in[1], true);
  if (isa<arith::MulIOp>(op)) {
    if (isInvariant(in[0]))
      std::swap(in[0], in[1]);
    if (!isInvariant(in[1]))
      return std::nullopt;
    form.base = e.mul(in[0].base, in[1].base);
    for (auto [d, stride] : llvm::enumerate(in[0].strides))
      if (stride)
        form.strides[d] = e.mul(stride, in[1].base);
    return form;
  }
  if (isa<arith::ShLIOp>(op) && isInvariant(in[1])) {
    form.base = k.b.createOrFold<arith::ShLIOp>(e.loc, in[0].base, in[1].base);
    for (auto [d, stride] : llvm::enumerate(in[0].strides))
      if (stride)
        form.strides[d] = k.b.createOrFold<arith::ShLIOp>(e.loc, stride, in[1].base);
    return form;
  }
  if (isa<arith::TruncIOp>(op)) {
    if (element.isInteger(1))
      return std::nullopt;
    form.base = e.resize(in[0].base, element);
    for (auto [d, stride] : llvm::enumerate(in[0].strides))
      if (stride)
        form.strides[d] = e.resize(stride, element);
    return form;
  }
  if (isa<arith::ExtSIOp, arith::ExtUIOp>(op)) {
    if (tile::elementOf(op->getOperand(0).getType()).isInteger(1))
      return std::nullopt;
    return extended(in[0], element, isa<arith::ExtUIOp>(op));
  }
  if (isa<arith::RemSIOp>(op) && isInvariant(in[1]))
    return remainder(in[0], in[1].base);
  if (isa<tile::AddPtrOp>(op)) {
    Form offset = in[1];
    if (!offset.base.getType().isInteger(64)) {
      std::optional<Form> wide = extended(offset, k.b.getI64Type(), false);
      if (!wide)
        return std::nullopt;
      offset = *wide;
    }
    Value size = e.i64(tile::sizeInBytes(cast<tile::PtrType>(element).getPointee()));
    form.base = e.advance(in[0].base, e.mul(offset.base, size));
    for (auto [d, strides] : llvm::enumerate(llvm::zip(in[0].strides, offset.strides))) {
      auto [pointerStride, offsetStride] = strides;
      Value stride = pointerStride;
      if (offsetStride) {
        Value bytes = e.mul(offsetStride, size);
        stride = stride ? e.add(stride, bytes) : bytes;
      }
      form.strides[d] = stride;
    }
    return form;
  }
  if (isa<tile::PtrCastOp>(op))
    return in[0];
  if (isa<tile::PtrToIntOp>(op) && element.isInteger(64)) {
    form = in[0];
    form.base = LLVM::PtrToIntOp::create(k.b, e.loc, element, form.base);
    return form;
  }
  return std::nullopt;
}

} // namespace nereid::cpu
