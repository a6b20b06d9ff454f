#include "targets/cpu/emit/Elements.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace nereid::cpu {

Value Elements::current(const Index &index) {
  if (index.dim < 0)
    return index.base ? index.base : k.e.i64(0);
  Value value = iv[index.dim];
  return index.base ? k.e.add(index.base, value) : value;
}

Value Elements::at(Value value, ArrayRef<Index> point) {
  if (!isa<RankedTensorType>(value.getType()))
    return k.scalar(value);
  if (outside && !runsWith(point)) {
    OpBuilder::InsertionGuard guard(k.b);
    if (outside->anchor)
      k.b.setInsertionPoint(outside->anchor);
    return outside->at(value, point);
  }
  TensorPoint place{value, Point(point)};
  if (Value known = memo.lookup(place))
    return known;
  Value result = compute(value, point);
  memo[place] = result;
  return result;
}

// base + sum of the loop variables times their strides, without the lanes' part.
Value Elements::addressOf(const Form &form) {
  Value result = form.base;
  bool isPointer = isa<LLVM::LLVMPointerType>(result.getType());
  for (auto [d, stride] : llvm::enumerate(form.strides)) {
    if (!stride)
      continue;
    if (isPointer)
      result = k.e.advance(result, k.e.mul(iv[d], stride));
    else
      result = k.e.add(result, k.e.mul(k.e.resize(iv[d], stride.getType()), stride));
  }
  return result;
}

Value Elements::fromForm(const Form &form) {
  Value first = addressOf(form);
  Value stride = laneDim >= 0 ? form.strides[laneDim] : Value();
  if (!stride || width == 1)
    return first;
  Value base = k.e.splat(first, width);
  Type element = getElementTypeOrSelf(base);
  Value steps = k.e.iota(element, width);
  if (Emit::constant(stride) != 1)
    steps = k.e.mul(steps, k.e.splat(stride, width));
  return k.e.add(base, steps);
}

Elements::Access Elements::access(Value pointer, ArrayRef<Index> point, int64_t size) {
  if (std::optional<Form> form = forms ? forms->known(pointer, point) : std::nullopt) {
    Value stride = laneDim >= 0 ? form->strides[laneDim] : Value();
    if (!stride || width == 1 || Emit::constant(stride) == 0)
      return {Access::Scalar, addressOf(*form)};
    if (Emit::constant(stride) == size)
      return {Access::Contiguous, addressOf(*form)};
    if (auto distance = Emit::constant(stride))
      return {Access::Scattered, fromForm(*form), addressOf(*form), *distance};
    return {Access::Scattered, fromForm(*form)};
  }
  Value address = at(pointer, point);
  if (Emit::widthOf(address) == 1)
    return {Access::Scalar, address};
  return {Access::Scattered, address};
}

std::optional<bool> Elements::knownMask(Value mask, ArrayRef<Index> point) const {
  if (known == Known::On && masks->isOn(mask, point))
    return true;
  if (known == Known::Off && masks->isOff(mask, point))
    return false;
  return std::nullopt;
}

// Null: none, or one that is on.
Value Elements::maskAt(Value mask, ArrayRef<Index> point) {
  if (!mask)
    return {};
  std::optional<bool> isOn = knownMask(mask, point);
  if (!isOn) {
    mask = at(mask, isa<RankedTensorType>(mask.getType()) ? point : ArrayRef<Index>());
    if (std::optional<int64_t> constant = Emit::constant(mask))
      isOn = *constant != 0;
  }
  if (!isOn)
    return mask;
  return *isOn ? Value() : k.e.integer(k.b.getI1Type(), 0);
}

std::optional<int64_t> Elements::spreadOf(const Access &place, Type element) {
  int64_t size = tile::sizeInBytes(element);
  if (!place.first || place.stride % size || !Emit::isSpread(place.stride / size))
    return std::nullopt;
  return place.stride / size;
}

Value Elements::load(tile::LoadOp op, ArrayRef<Index> point) {
  Type element = tile::elementOf(op.getType());
  Value mask = maskAt(op.getMask(), point);
  bool isOff = mask && Emit::constant(mask) == 0;
  Value other = op.getOther()
                    ? at(op.getOther(),
                         isa<RankedTensorType>(op.getOther().getType()) ? point : ArrayRef<Index>())
                    : Value();
  if (isOff && !op.getIsVolatile())
    return other ? other : k.e.zero(element, 1);
  Access place = access(op.getPtr(), point, tile::sizeInBytes(element));
  bool uniformMask = !mask || Emit::widthOf(mask) == 1;
  if (place.kind == Access::Scalar && uniformMask && (!other || Emit::widthOf(other) == 1))
    return k.e.guardedLoad(element, place.address, mask, other, op.getIsVolatile());
  if (other)
    other = k.e.splat(other, width);
  if (place.kind == Access::Contiguous) {
    if (ahead.steps)
      fetchAhead(op, point, place.address);
    if (!mask)
      return k.e.load(element, place.address, width, op.getIsVolatile());
    return k.e.maskedLoad(element, place.address, k.e.splat(mask, width), other);
  }
  if (std::optional<int64_t> steps = spreadOf(place, element);
      steps && (!mask || k.e.canMaskSpread()) && !op.getIsVolatile())
    return k.e.loadSpread(element, place.first, *steps, width,
                          mask ? k.e.splat(mask, width) : Value(), other);
  // Single loads are quicker than a gather, unless the addresses have to be taken out of lanes.
  if (place.first && !mask)
    return k.e.loadEach(element, place.first, place.stride, width, op.getIsVolatile());
  Value addresses = k.e.splat(place.address, width);
  return k.e.gather(element, addresses, mask ? k.e.splat(mask, width) : Value(), other);
}

// One line of the cache after the other. An address that is none does no harm.
void Elements::fetchAhead(tile::LoadOp op, ArrayRef<Index> point, Value address) {
  constexpr int64_t line = 64;
  std::optional<Form> form = forms->known(op.getPtr(), point);
  Value stride = form ? form->strides[ahead.dim] : Value();
  if (!stride)
    return;
  address = k.e.advance(address, k.e.mul(stride, k.e.i64(ahead.steps)));
  int64_t bytes = width * tile::sizeInBytes(tile::elementOf(op.getType()));
  auto number = [&](int32_t value) { return k.b.getI32IntegerAttr(value); };
  for (int64_t at = 0; at < bytes; at += line)
    LLVM::Prefetch::create(k.b, k.e.loc, k.e.advance(address, at), /*rw=*/number(0),
                           /*hint=*/number(3), /*cache=*/number(1));
}

void Elements::store(tile::StoreOp op, ArrayRef<Index> point) {
  Type element = tile::elementOf(op.getValue().getType());
  Value mask = maskAt(op.getMask(), point);
  if (mask && Emit::constant(mask) == 0)
    return;
  Value value =
      at(op.getValue(), isa<RankedTensorType>(op.getValue().getType()) ? point : ArrayRef<Index>());
  Access place = access(op.getPtr(), point, tile::sizeInBytes(element));
  if (width == 1)
    return k.e.guardedStore(element, place.address, value, mask);
  value = k.e.splat(value, width);
  if (place.kind == Access::Contiguous) {
    if (!mask)
      return k.e.store(element, place.address, value);
    return k.e.maskedStore(element, place.address, value, k.e.splat(mask, width));
  }
  if (std::optional<int64_t> steps = spreadOf(place, element);
      steps && (!mask || k.e.canMaskSpread()) && k.e.canStoreSpread(*steps))
    return k.e.storeSpread(element, place.first, *steps, value,
                           mask ? k.e.splat(mask, width) : Value());
  k.e.scatter(element, k.e.splat(place.address, width), value,
              mask ? k.e.splat(mask, width) : Value());
}

// Byte offset of the (first) element, and the distance in elements from lane to lane.
Value Elements::offsetIn(const Buffer &buffer, ArrayRef<Index> point, int64_t &laneStride) {
  Value offset = k.e.i64(0);
  laneStride = 0;
  int64_t size = tile::sizeInBytes(buffer.type.getElementType());
  for (size_t d = point.size(); d-- > 0;) {
    int64_t stride = buffer.stride(d);
    offset = k.e.add(offset, k.e.mul(current(point[d]), k.e.i64(stride * size)));
    if (point[d].dim >= 0 && point[d].dim == laneDim)
      laneStride += stride;
  }
  return offset;
}

Value Elements::read(const Buffer &buffer, ArrayRef<Index> point) {
  int64_t laneStride;
  Type element = buffer.type.getElementType();
  Value address = k.e.advance(buffer.base, offsetIn(buffer, point, laneStride));
  if (width == 1 || laneStride == 0)
    return k.e.load(element, address, 1);
  if (laneStride == 1)
    return k.e.load(element, address, width);
  if (Emit::isSpread(laneStride))
    return k.e.loadSpread(element, address, laneStride, width);
  Value steps = k.e.iota(k.b.getI64Type(), width);
  steps = k.e.mul(steps, k.e.integer(steps.getType(), laneStride * tile::sizeInBytes(element)));
  return k.e.gather(element, k.e.add(k.e.splat(address, width), steps), nullptr, nullptr);
}

void Elements::write(const Buffer &buffer, ArrayRef<Index> point, Value value) {
  int64_t laneStride;
  Type element = buffer.type.getElementType();
  Value address = k.e.advance(buffer.base, offsetIn(buffer, point, laneStride));
  if (laneStride == 0 && Emit::widthOf(value) > 1)
    value = k.e.extract(value, width - 1);
  if (width == 1 || laneStride == 0)
    return k.e.store(element, address, value);
  value = k.e.splat(value, width);
  if (laneStride == 1)
    return k.e.store(element, address, value);
  if (k.e.canStoreSpread(laneStride))
    return k.e.storeSpread(element, address, laneStride, value);
  Value steps = k.e.iota(k.b.getI64Type(), width);
  steps = k.e.mul(steps, k.e.integer(steps.getType(), laneStride * tile::sizeInBytes(element)));
  k.e.scatter(element, k.e.add(k.e.splat(address, width), steps), value, nullptr);
}

// Elements of `source` at `point`, but for dimension `axis`, where they are at `along`: an i64, or
// lanes of it.
Value Elements::readAlong(Value source, ArrayRef<Index> point, unsigned axis, Value along) {
  Emit &e = k.e;
  Type element = tile::elementOf(source.getType());
  Point place(point);
  place[axis] = {};
  if (Emit::widthOf(along) == 1)
    place[axis].base = along;
  Buffer buffer = k.buffers.lookup(source);
  if (!buffer) {
    if (width == 1) { // every coordinate stands still inside the body
      for (Index &index : place)
        index = {current(index), -1};
      Elements inside(k); // its values belong here, not before the loops
      return inside.at(source, place);
    }
    k.fail(source.getDefiningOp(), "internal error: a tensor that is read at other places than the "
                                   "one computed is not in memory");
    return e.zero(element, 1);
  }
  if (Emit::widthOf(along) == 1)
    return read(buffer, place);
  int64_t laneStride, size = tile::sizeInBytes(element), stride = size * buffer.stride(axis);
  Value first = e.advance(buffer.base, offsetIn(buffer, place, laneStride));
  Value offsets = e.mul(along, e.integer(along.getType(), stride));
  if (laneStride)
    offsets = e.add(offsets, e.mul(e.iota(k.b.getI64Type(), width),
                                   e.integer(along.getType(), laneStride * size)));
  return e.gather(element, e.add(e.splat(first, width), offsets), nullptr, nullptr);
}

Value Elements::exchanged(tile::ExchangeOp op, ArrayRef<Index> point) {
  Emit &e = k.e;
  const Index &index = point[op.getAxis()];
  Value now = current(index);
  auto flipped = [&](Value number, int64_t mask) {
    return k.b.createOrFold<arith::XOrIOp>(e.loc, number, e.integer(number.getType(), mask));
  };
  int64_t mask = op.getMask();
  if (width == 1 || index.dim < 0 || index.dim != laneDim)
    return readAlong(op.getSrc(), point, op.getAxis(), flipped(now, mask));
  Buffer buffer = k.buffers.lookup(op.getSrc());
  if (!buffer || index.base) // lanes that may begin anywhere
    return readAlong(op.getSrc(), point, op.getAxis(),
                     flipped(e.add(e.splat(now, width), e.iota(k.b.getI64Type(), width)), mask));
  // Lanes begin at a multiple of their number: the partners are the lanes of one other place.
  Point place(point);
  place[op.getAxis()].base = e.sub(flipped(now, mask & ~(width - 1)), now);
  Value partners = read(buffer, place);
  SmallVector<int64_t> order;
  for (int64_t lane = 0; lane < width; ++lane)
    order.push_back(lane ^ (mask & (width - 1)));
  return mask & (width - 1) ? e.shuffle(partners, order) : partners;
}

// A slice with steps along running coordinates.
Value Elements::sliced(tile::SliceOp op, ArrayRef<Index> point) {
  Emit &e = k.e;
  Point place(point);
  std::optional<unsigned> lanes;
  for (unsigned d = 0; d < place.size(); ++d) {
    int64_t step = op.getSteps()[d], offset = op.getOffsets()[d];
    if (step == 1 || place[d].dim < 0 || place[d].dim != laneDim || width == 1) {
      bool runs = step == 1 && place[d].dim >= 0;
      Value base = runs ? (place[d].base ? place[d].base : e.i64(0)) : current(place[d]);
      place[d] = {e.add(e.mul(base, e.i64(step)), e.i64(offset)), runs ? place[d].dim : -1};
      continue;
    }
    assert(!lanes && "lanes run along one dimension");
    lanes = d;
  }
  Buffer buffer = k.buffers.lookup(op.getSrc());
  if (!lanes)
    return buffer ? read(buffer, place) : readAlong(op.getSrc(), place, 0, current(place[0]));
  int64_t step = op.getSteps()[*lanes], offset = op.getOffsets()[*lanes];
  Value first = e.add(e.mul(current(place[*lanes]), e.i64(step)), e.i64(offset));
  if (buffer && Emit::isSpread(step) && *lanes + 1 == place.size() && !buffer.swapped) {
    Type element = buffer.type.getElementType();
    int64_t others;
    place[*lanes] = {first, -1};
    Value address = e.advance(buffer.base, offsetIn(buffer, place, others));
    return e.loadSpread(element, address, step, width);
  }
  Value along = e.iota(k.b.getI64Type(), width);
  along = e.add(e.splat(first, width), e.mul(along, e.integer(along.getType(), step)));
  return readAlong(op.getSrc(), place, *lanes, along);
}

Value Elements::gathered(tile::GatherOp op, ArrayRef<Index> point) {
  Emit &e = k.e;
  Value index = at(op.getIndices(), point);
  // Whatever the index is, only the source is read.
  int64_t size = tile::shapeOf(op.getSrc().getType())[op.getAxis()];
  Type i64 = e.lanes(k.b.getI64Type(), Emit::widthOf(index));
  if (index.getType() != i64)
    index = arith::ExtSIOp::create(k.b, e.loc, i64, index);
  index = arith::MinUIOp::create(k.b, e.loc, index, e.integer(i64, size - 1));
  return readAlong(op.getSrc(), point, op.getAxis(), index);
}

// Lanes divided by one number: multiplied by its reciprocal, which leaves the loop; at most 1.5
// units in the last place from the quotient (`div_rn` is exact). A processor takes about 16 clocks
// to divide 16 lanes, and half a clock to multiply them. The reciprocal of a number below 2^-126 or
// above 2^126 would be infinite or subnormal: it is taken of the number times a power of two, by
// which the product is multiplied in turn.
Value Elements::quotient(Value lhs, Value rhs) {
  OpBuilder &b = k.b;
  Location loc = k.e.loc;
  auto number = [&](double value) -> Value {
    return k.e.constantOf(b.getF32FloatAttr(float(value)), b.getF32Type());
  };
  Value size = math::AbsFOp::create(b, loc, rhs);
  auto is = [&](arith::CmpFPredicate predicate, double limit) -> Value {
    return arith::CmpFOp::create(b, loc, predicate, size, number(limit));
  };
  Value factor = arith::SelectOp::create(b, loc, is(arith::CmpFPredicate::OGT, 0x1p126),
                                         number(0x1p-32), number(1));
  factor = arith::SelectOp::create(b, loc, is(arith::CmpFPredicate::OLT, 0x1p-126), number(0x1p32),
                                   factor);
  Value scaled = arith::MulFOp::create(b, loc, rhs, factor);
  Value reciprocal = arith::DivFOp::create(b, loc, number(1), scaled);
  Value product = arith::MulFOp::create(b, loc, lhs, k.e.splat(reciprocal, Emit::widthOf(lhs)));
  return arith::MulFOp::create(b, loc, product, k.e.splat(factor, Emit::widthOf(lhs)));
}

// The value of an op that a known mask decides.
std::optional<Value> Elements::withoutMasks(Operation *op, ArrayRef<Index> point) {
  auto decided = [&](Value mask) -> std::optional<bool> {
    Value value = maskAt(mask, point);
    if (!value)
      return true;
    if (Emit::constant(value) == 0)
      return false;
    return std::nullopt;
  };
  auto place = [&](Value value) {
    return isa<RankedTensorType>(value.getType()) ? point : ArrayRef<Index>();
  };
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    if (std::optional<bool> isOn = decided(select.getCondition())) {
      Value chosen = *isOn ? select.getTrueValue() : select.getFalseValue();
      return at(chosen, place(chosen));
    }
    return std::nullopt;
  }
  if (!isa<arith::AndIOp>(op) || !tile::elementOf(op->getResult(0).getType()).isInteger(1))
    return std::nullopt;
  for (int side : {0, 1})
    if (std::optional<bool> isOn = decided(op->getOperand(side))) {
      Value other = op->getOperand(1 - side);
      return *isOn ? at(other, place(other)) : k.e.integer(k.b.getI1Type(), 0);
    }
  return std::nullopt;
}

Buffer Elements::bufferOf(Value value, ArrayRef<Index> point) const {
  if (Buffer other = k.transposed.lookup(value))
    for (auto [d, index] : llvm::enumerate(point))
      if (index.dim >= 0 && index.dim == laneDim && other.type.getDimSize(d) != 1 &&
          other.stride(d) == 1)
        return other;
  return k.buffers.lookup(value);
}

/// Whether each element of `value` is a number of the narrower type `narrow`, or NaN.
static bool isExactIn(Value value, Type narrow, unsigned depth = 0) {
  constexpr unsigned deepest = 5; // operations are seen once for each use
  Operation *op = value.getDefiningOp();
  if (!op || depth > deepest)
    return false;
  if (isa<arith::ExtFOp>(op))
    return tile::elementOf(op->getOperand(0).getType()) == narrow;
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto number = dyn_cast<FloatAttr>(constant.getValue());
    if (auto dense = dyn_cast<SplatElementsAttr>(constant.getValue()))
      number = dyn_cast<FloatAttr>(dense.getSplatValue<Attribute>());
    if (!number)
      return false;
    bool loses = false;
    llvm::APFloat rounded = number.getValue();
    rounded.convert(cast<FloatType>(narrow).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                    &loses);
    return !loses;
  }
  ValueRange chosen = op->getOperands(); // of which the result is one, perhaps with another sign
  if (isa<arith::SelectOp>(op))
    chosen = chosen.drop_front();
  else if (isa<math::CopySignOp>(op))
    chosen = chosen.take_front();
  else if (!movesElements(op) && !isa<tile::SplatOp, math::AbsFOp, arith::NegFOp, arith::MaximumFOp,
                                      arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp>(op))
    return false;
  return llvm::all_of(chosen, [&](Value each) { return isExactIn(each, narrow, depth + 1); });
}

// A conversion to 16 bits of what is a number of 16 bits already: null for any other. What only
// changes signs is done in 16 bits, as it is twice as many lanes a register.
Value Elements::narrowed(Operation *op, ArrayRef<Index> point) {
  Type element = tile::elementOf(op->getResult(0).getType());
  if (!isa<arith::TruncFOp, tile::FpCastOp>(op) || !(element.isBF16() || element.isF16()) ||
      !isExactIn(op->getOperand(0), element))
    return {};
  Operation *source = op->getOperand(0).getDefiningOp();
  bool isSign = isa<math::AbsFOp, arith::NegFOp, math::CopySignOp>(source);
  if (isSign && llvm::all_of(source->getOperands(), [&](Value operand) {
        auto extension = operand.getDefiningOp<arith::ExtFOp>();
        return extension && tile::elementOf(extension.getIn().getType()) == element;
      })) {
    SmallVector<Value> operands;
    for (Value operand : source->getOperands()) {
      Value narrow = operand.getDefiningOp<arith::ExtFOp>().getIn();
      bool isTensor = isa<RankedTensorType>(narrow.getType());
      operands.push_back(lanesAt(narrow, isTensor ? point : ArrayRef<Index>()));
    }
    OperationState state(k.e.loc, source->getName(), operands, operands.front().getType());
    return k.b.create(state)->getResult(0);
  }
  if (!element.isBF16())
    return {};
  bool isTensor = isa<RankedTensorType>(op->getOperand(0).getType());
  return k.e.upperHalf(at(op->getOperand(0), isTensor ? point : ArrayRef<Index>()));
}

Value Elements::compute(Value value, ArrayRef<Index> point) {
  if (std::optional<bool> isOn = knownMask(value, point))
    return k.e.integer(k.b.getI1Type(), *isOn);
  if (Buffer buffer = bufferOf(value, point)) {
    if (known != Known::Off || width == 1 || !runsWith(point, laneDim) ||
        !masks->isUniformOff(value, point))
      return read(buffer, point);
    Point last(point); // all elements are as the last one, which does not change with the lanes
    for (Index &index : last)
      if (index.dim == laneDim)
        index = {k.e.add(index.base ? index.base : k.e.i64(0), k.e.i64(masks->extent - 1)), -1};
    return at(value, last);
  }
  if (forms)
    if (std::optional<Form> form = forms->known(value, point))
      return fromForm(*form);
  Operation *op = value.getDefiningOp();
  Emit &e = k.e;
  llvm::SaveAndRestore<Location> place(e.loc, op ? op->getLoc() : e.loc);
  Type element = tile::elementOf(value.getType());
  if (!op) {
    k.fail(nullptr, "a block argument has no buffer");
    return e.zero(element, 1);
  }
  if (isa<tile::RangeOp>(op)) {
    Type i32 = k.b.getI32Type();
    int64_t start = cast<tile::RangeOp>(op).getStart();
    Value first = e.add(e.resize(current(point[0]), i32), e.integer(i32, start));
    if (width == 1 || point[0].dim != laneDim)
      return first;
    return e.add(e.splat(first, width), e.iota(i32, width));
  }
  if (auto splat = dyn_cast<tile::SplatOp>(op))
    return k.scalar(splat.getSrc());
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (auto dense = dyn_cast<SplatElementsAttr>(constant.getValue()))
      return e.constantOf(dense.getSplatValue<Attribute>(), element);
    return read(k.constantBuffer(constant), point);
  }
  if (auto load = dyn_cast<tile::LoadOp>(op))
    return this->load(load, point);
  if (movesElements(op)) {
    if (std::optional<Point> source = sourcePoint(op, point, e))
      return at(op->getOperand(0), *source);
    if (auto slice = dyn_cast<tile::SliceOp>(op))
      return sliced(slice, point);
    if (width == 1) { // every coordinate stands still inside the body
      Point still;
      for (const Index &index : point)
        still.push_back({current(index), -1});
      if (std::optional<Point> source = sourcePoint(op, still, e)) {
        Elements inside(k); // its values belong here, not before the loops
        return inside.at(op->getOperand(0), *source);
      }
    }
    k.fail(op, "a reshape reached code generation in an irregular place");
    return e.zero(element, 1);
  }
  if (auto exchange = dyn_cast<tile::ExchangeOp>(op))
    return exchanged(exchange, point);
  if (auto gather = dyn_cast<tile::GatherOp>(op))
    return gathered(gather, point);
  if (known != Known::Nothing)
    if (std::optional<Value> chosen = withoutMasks(op, point))
      return *chosen;
  if (Value narrow = narrowed(op, point))
    return narrow;
  if (Emit::isElementwise(op)) {
    SmallVector<Value> operands;
    int64_t widest = 1;
    for (Value operand : op->getOperands()) {
      bool isTensor = isa<RankedTensorType>(operand.getType());
      operands.push_back(at(operand, isTensor ? point : ArrayRef<Index>()));
      widest = std::max(widest, Emit::widthOf(operands.back()));
    }
    if (isa<arith::DivFOp>(op) && element.isF32() && widest > 1 && Emit::widthOf(operands[1]) == 1)
      return quotient(operands[0], operands[1]);
    for (Value &operand : operands)
      operand = e.splat(operand, widest);
    return e.elementwise(op, operands, widest);
  }
  k.fail(op, "this operation has no elementwise meaning");
  return e.zero(element, 1);
}

} // namespace nereid::cpu
