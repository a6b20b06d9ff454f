#include "targets/cpu/emit/Emit.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace nereid::cpu {

Type Emit::lower(Type element) const {
  if (isa<tile::PtrType>(element))
    return ptr();
  if (tile::isFloat8(element))
    return b.getI8Type();
  return element;
}

Type Emit::lanes(Type element, int64_t width) const {
  if (width == 1)
    return lower(element);
  if (isa<tile::PtrType>(element))
    return VectorType::get({width}, b.getI64Type());
  return VectorType::get({width}, lower(element));
}

int64_t Emit::widthOf(Value lanes) {
  auto type = dyn_cast<VectorType>(lanes.getType());
  return type ? type.getNumElements() : 1;
}

//--- integers
//-----------------------------------------------------------------------------------------------

Value Emit::constantOp(TypedAttr value) {
  if (!constantBlock)
    return arith::ConstantOp::create(b, loc, value);
  Value &known = constants[{value, value.getType()}];
  if (!known) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(constantBlock);
    known = arith::ConstantOp::create(b, loc, value);
  }
  return known;
}

Value Emit::integer(Type type, int64_t value) {
  auto element = cast<IntegerType>(getElementTypeOrSelf(type));
  APInt bits(64, value, true);
  TypedAttr attribute = b.getIntegerAttr(element, bits.sextOrTrunc(element.getWidth()));
  if (auto vector = dyn_cast<VectorType>(type))
    attribute = DenseElementsAttr::get(vector, bits.sextOrTrunc(element.getWidth()));
  return constantOp(attribute);
}

std::optional<int64_t> Emit::constant(Value value) {
  APInt bits;
  if (value && matchPattern(value, m_ConstantInt(&bits)) && bits.getBitWidth() <= 64)
    return bits.getSExtValue();
  return std::nullopt;
}

Value Emit::add(Value lhs, Value rhs) {
  return b.createOrFold<arith::AddIOp>(loc, lhs, rhs);
}
Value Emit::sub(Value lhs, Value rhs) {
  return b.createOrFold<arith::SubIOp>(loc, lhs, rhs);
}
Value Emit::mul(Value lhs, Value rhs) {
  return b.createOrFold<arith::MulIOp>(loc, lhs, rhs);
}
Value Emit::min(Value lhs, Value rhs) {
  return b.createOrFold<arith::MinSIOp>(loc, lhs, rhs);
}
Value Emit::max(Value lhs, Value rhs) {
  return b.createOrFold<arith::MaxSIOp>(loc, lhs, rhs);
}
Value Emit::cmp(arith::CmpIPredicate predicate, Value lhs, Value rhs) {
  return b.createOrFold<arith::CmpIOp>(loc, predicate, lhs, rhs);
}
Value Emit::both(Value lhs, Value rhs) {
  if (!lhs || !rhs)
    return lhs ? lhs : rhs;
  return b.createOrFold<arith::AndIOp>(loc, lhs, rhs);
}

Value Emit::resize(Value value, Type type) {
  unsigned from = getElementTypeOrSelf(value).getIntOrFloatBitWidth();
  unsigned to = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  if (auto vector = dyn_cast<VectorType>(value.getType()); vector && !isa<VectorType>(type))
    type = vector.clone(type);
  if (from == to)
    return value;
  if (from < to)
    return b.createOrFold<arith::ExtSIOp>(loc, type, value);
  return b.createOrFold<arith::TruncIOp>(loc, type, value);
}

Value Emit::displaced(Value base, int64_t step, int64_t offset) {
  if (!base || (step == 1 && offset == 0))
    return offset ? add(base ? base : i64(0), i64(offset)) : base;
  if (auto known = constant(base))
    return i64(*known * step + offset);
  Value &result = displacements[{base, step, offset}];
  if (!result) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointAfterValue(base);
    result = add(mul(base, i64(step)), i64(offset));
  }
  return result;
}

//--- lanes
//--------------------------------------------------------------------------------------------------

Value Emit::splat(Value scalar, int64_t width) {
  if (width == 1 || isa<VectorType>(scalar.getType()))
    return scalar;
  if (isa<LLVM::LLVMPointerType>(scalar.getType()))
    scalar = LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), scalar);
  return b.createOrFold<vector::BroadcastOp>(loc, VectorType::get({width}, scalar.getType()),
                                             scalar);
}

Value Emit::iota(Type integer, int64_t width) {
  auto type = VectorType::get({width}, integer);
  SmallVector<APInt> values;
  for (int64_t i = 0; i < width; ++i)
    values.push_back(APInt(64, i).zextOrTrunc(integer.getIntOrFloatBitWidth()));
  return constantOp(DenseElementsAttr::get(type, values));
}

Value Emit::extract(Value lanes, int64_t lane) {
  return vector::ExtractOp::create(b, loc, lanes, lane);
}

Value Emit::shuffle(Value lanes, ArrayRef<int64_t> order) {
  return vector::ShuffleOp::create(b, loc, lanes, lanes, order);
}

//--- memory
//-------------------------------------------------------------------------------------------------

Value Emit::advance(Value pointer, Value bytes) {
  if (constant(bytes) == 0)
    return pointer;
  return LLVM::GEPOp::create(b, loc, ptr(), b.getI8Type(), pointer,
                             ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(bytes)});
}

// Memory holds an i1 as a byte and a pointer lane as an address. 16-bit floats are moved as their
// bits: LLVM converts them through f32, by calls, where it takes a masked access of them apart.
Type Emit::memoryLanes(Type element, int64_t width) const {
  if (element.isInteger(1))
    element = b.getI8Type();
  else if (element.isF16() || element.isBF16())
    element = b.getI16Type();
  return lanes(element, width);
}

Value Emit::toMemory(Type element, Value value) {
  Type type = memoryLanes(element, widthOf(value));
  if (element.isInteger(1))
    return arith::ExtUIOp::create(b, loc, type, value);
  if (element.isF16() || element.isBF16())
    return arith::BitcastOp::create(b, loc, type, value);
  return value;
}

Value Emit::fromMemory(Type element, Value value) {
  if (element.isInteger(1))
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value,
                                 integer(value.getType(), 0));
  if (element.isF16() || element.isBF16())
    return arith::BitcastOp::create(b, loc, lanes(element, widthOf(value)), value);
  return value;
}

Value Emit::loadEach(Type element, Value first, int64_t stride, int64_t width, bool isVolatile) {
  SmallVector<Value> elements;
  for (int64_t lane = 0; lane < width; ++lane) {
    Value bits =
        LLVM::LoadOp::create(b, loc, memoryLanes(element, 1), advance(first, lane * stride),
                             tile::sizeInBytes(element), isVolatile);
    if (isa<tile::PtrType>(element))
      bits = LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), bits);
    elements.push_back(bits);
  }
  Value lanes = vector::FromElementsOp::create(
      b, loc, cast<VectorType>(memoryLanes(element, width)), elements);
  return fromMemory(element, lanes);
}

static SmallVector<int64_t> reversed(int64_t width) {
  return llvm::map_to_vector(llvm::seq(width), [&](int64_t lane) { return width - 1 - lane; });
}

// The mask of `width` elements of memory, of which the first is number `start`: elements that
// belong to a lane (every `steps`-th) are as the lane's mask (null: on), the others are off.
Value Emit::spreadMask(Value mask, int64_t steps, int64_t start, int64_t width) {
  SmallVector<int64_t> order;
  SmallVector<bool> isLane;
  for (int64_t place = start; place < start + width; ++place) {
    order.push_back(std::min(place / steps, width - 1));
    isLane.push_back(place % steps == 0 && place / steps < width);
  }
  auto type = VectorType::get({width}, b.getI1Type());
  Value lanes =
      arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, ArrayRef<bool>(isLane)));
  return mask ? arith::AndIOp::create(b, loc, shuffle(mask, order), lanes) : lanes;
}

Value Emit::loadSpread(Type element, Value first, int64_t steps, int64_t width, Value mask,
                       Value other) {
  assert(isSpread(steps) && (!mask || canMaskSpread()));
  int64_t size = tile::sizeInBytes(element);
  auto orOther = [&](Value lanes) {
    if (!mask || !other)
      return lanes;
    return Value(arith::SelectOp::create(b, loc, mask, lanes, other));
  };
  if (steps == -1) {
    Value low = advance(first, -(width - 1) * size);
    Value loaded = mask ? maskedLoad(element, low, shuffle(mask, reversed(width)), Value())
                        : load(element, low, width);
    return orOther(shuffle(loaded, reversed(width)));
  }
  // As many registers as there are steps; the last one ends with the last lane.
  int64_t span = steps * (width - 1) + 1;
  Value lanes;
  for (int64_t piece = 0; piece < steps; ++piece) {
    int64_t start = std::min(piece * width, span - width);
    Type type = memoryLanes(element, width);
    Value place = advance(first, start * size), loaded;
    if (mask)
      loaded = LLVM::MaskedLoadOp::create(
          b, loc, type, place, spreadMask(mask, steps, start, width),
          zero(getElementTypeOrSelf(type), width), b.getI32IntegerAttr(int32_t(size)), nullptr);
    else
      loaded = LLVM::LoadOp::create(b, loc, type, place, unsigned(size));
    SmallVector<int64_t> order;
    for (int64_t lane = 0; lane < width; ++lane) {
      int64_t place = lane * steps, from = place / width;
      order.push_back(from == piece               ? (piece ? width : 0) + place - start
                      : from < piece && piece > 1 ? lane
                      : from < piece              ? place
                                                  : 0);
    }
    // What the first register has is put in order together with the second one's.
    lanes = piece ? vector::ShuffleOp::create(b, loc, lanes, loaded, order) : loaded;
  }
  return orOther(fromMemory(element, lanes));
}

void Emit::storeSpread(Type element, Value first, int64_t steps, Value value, Value mask) {
  assert(canStoreSpread(steps) && (!mask || canMaskSpread()));
  int64_t size = tile::sizeInBytes(element), width = widthOf(value);
  if (steps == -1) {
    Value low = advance(first, -(width - 1) * size), lanes = shuffle(value, reversed(width));
    return mask ? maskedStore(element, low, lanes, shuffle(mask, reversed(width)))
                : store(element, low, lanes);
  }
  Value lanes = toMemory(element, value);
  for (int64_t piece = 0; piece < steps; ++piece) {
    SmallVector<int64_t> order;
    for (int64_t place = piece * width; place < (piece + 1) * width; ++place)
      order.push_back(place / steps);
    LLVM::MaskedStoreOp::create(b, loc, vector::ShuffleOp::create(b, loc, lanes, lanes, order),
                                advance(first, piece * width * size),
                                spreadMask(mask, steps, piece * width, width),
                                b.getI32IntegerAttr(int32_t(size)));
  }
}

Value Emit::load(Type element, Value pointer, int64_t width, bool isVolatile) {
  Value value = LLVM::LoadOp::create(b, loc, memoryLanes(element, width), pointer,
                                     tile::sizeInBytes(element), isVolatile);
  return fromMemory(element, value);
}

void Emit::store(Type element, Value pointer, Value value) {
  LLVM::StoreOp::create(b, loc, toMemory(element, value), pointer, tile::sizeInBytes(element));
}

Value Emit::maskedLoad(Type element, Value pointer, Value mask, Value other) {
  int64_t width = widthOf(mask);
  Type type = memoryLanes(element, width);
  Value fill = other ? toMemory(element, other) : zero(getElementTypeOrSelf(type), width);
  Value value = LLVM::MaskedLoadOp::create(
      b, loc, type, pointer, mask, fill, b.getI32IntegerAttr(tile::sizeInBytes(element)), nullptr);
  return fromMemory(element, value);
}

void Emit::maskedStore(Type element, Value pointer, Value value, Value mask) {
  LLVM::MaskedStoreOp::create(b, loc, toMemory(element, value), pointer, mask,
                              b.getI32IntegerAttr(tile::sizeInBytes(element)));
}

static Value pointers(Emit &e, Value addresses) {
  auto type = VectorType::get({Emit::widthOf(addresses)}, e.ptr());
  return LLVM::IntToPtrOp::create(e.b, e.loc, type, addresses);
}

Value Emit::gather(Type element, Value addresses, Value mask, Value other) {
  int64_t width = widthOf(addresses);
  Type type = memoryLanes(element, width);
  if (!mask && features.slowGathers) {
    SmallVector<Value> elements;
    for (int64_t lane = 0; lane < width; ++lane) {
      Value place = LLVM::IntToPtrOp::create(b, loc, ptr(), extract(addresses, lane));
      elements.push_back(LLVM::LoadOp::create(b, loc, getElementTypeOrSelf(type), place,
                                              tile::sizeInBytes(element)));
    }
    return fromMemory(element,
                      vector::FromElementsOp::create(b, loc, cast<VectorType>(type), elements));
  }
  if (!mask)
    mask = integer(VectorType::get({width}, b.getI1Type()), 1);
  Value fill = other ? toMemory(element, other) : zero(getElementTypeOrSelf(type), width);
  Value value = LLVM::masked_gather::create(b, loc, type, pointers(*this, addresses), mask, fill,
                                            b.getI32IntegerAttr(tile::sizeInBytes(element)));
  return fromMemory(element, value);
}

void Emit::scatter(Type element, Value addresses, Value value, Value mask) {
  if (!mask)
    mask = integer(VectorType::get({widthOf(addresses)}, b.getI1Type()), 1);
  LLVM::masked_scatter::create(b, loc, toMemory(element, value), pointers(*this, addresses), mask,
                               b.getI32IntegerAttr(tile::sizeInBytes(element)));
}

Value Emit::guardedLoad(Type element, Value pointer, Value condition, Value other,
                        bool isVolatile) {
  if (!condition || constant(condition) == -1 || constant(condition) == 1)
    return load(element, pointer, 1, isVolatile);
  auto branch = scf::IfOp::create(b, loc, TypeRange{lower(element)}, condition, true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&branch.getThenRegion().front());
  Value loaded = load(element, pointer, 1, isVolatile);
  scf::YieldOp::create(b, loc, loaded);
  b.setInsertionPointToStart(&branch.getElseRegion().front());
  Value fill = other ? other : zero(element, 1);
  scf::YieldOp::create(b, loc, fill);
  return branch.getResult(0);
}

void Emit::guardedStore(Type element, Value pointer, Value value, Value condition) {
  if (!condition || constant(condition) == -1 || constant(condition) == 1)
    return store(element, pointer, value);
  auto branch = scf::IfOp::create(b, loc, condition, false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&branch.getThenRegion().front());
  store(element, pointer, value);
}

} // namespace nereid::cpu
