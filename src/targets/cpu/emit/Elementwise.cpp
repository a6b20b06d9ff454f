// What each elementwise op means on scalars and lanes. Most ops of arith and math mean the same on
// every shape and are copied; the rest is spelled out here: pointers, 16-bit float arithmetic (done
// in f32 and rounded after every op, as the language defines it), integer division (which must not
// trap on a lane that nobody reads), conversions between floats.
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "targets/cpu/conversions/Conversions.h"
#include "targets/cpu/emit/Emit.h"
#include "targets/cpu/math/DeviceMath.h"

using namespace mlir;

namespace nereid::cpu {

bool Emit::isElementwise(Operation *op) {
  if (op->getNumResults() != 1 || op->getNumRegions() != 0)
    return false;
  if (auto external = dyn_cast<tile::ExternOp>(op))
    return external.getPure();
  return tile::isElementwise(op) || isa<tile::HintOp>(op);
}

Value Emit::clone(Operation *op, ArrayRef<Value> operands, Type result) {
  OperationState state(loc, op->getName());
  state.addOperands(operands);
  state.addTypes(result);
  for (NamedAttribute attribute : op->getAttrs())
    if (!attribute.getName().getValue().starts_with("tile."))
      state.addAttribute(attribute.getName(), attribute.getValue());
  return b.create(state)->getResult(0);
}

Value Emit::zero(Type element, int64_t width) {
  Type type = lanes(element, width);
  if (isa<LLVM::LLVMPointerType>(type))
    return LLVM::ZeroOp::create(b, loc, type);
  return constantOp(cast<TypedAttr>(b.getZeroAttr(type)));
}

Value Emit::constantOf(Attribute attribute, Type element) {
  Type type = lower(element);
  if (auto number = dyn_cast<FloatAttr>(attribute); number && isa<IntegerType>(type))
    return arith::ConstantOp::create(b, loc,
                                     b.getIntegerAttr(type, number.getValue().bitcastToAPInt()));
  return constantOp(cast<TypedAttr>(attribute));
}

// A type like `like` (scalar or lanes) with another element.
static Type withElement(Type like, Type element) {
  if (auto vector = dyn_cast<VectorType>(like))
    return vector.clone(element);
  return element;
}

Value Emit::convertFloat(Value value, Type from, Type to, bool towardsZero) {
  if (from == to)
    return value;
  // 8-bit floats are kept as their bits.
  if (lower(from) != from)
    value = arith::BitcastOp::create(b, loc, withElement(value.getType(), from), value);
  value = emitFloatCast(b, loc, value, to, towardsZero, features);
  if (lower(to) != to)
    value = arith::BitcastOp::create(b, loc, withElement(value.getType(), lower(to)), value);
  return value;
}

Value Emit::upperHalf(Value value) {
  Type type = value.getType();
  Value bits = arith::BitcastOp::create(b, loc, withElement(type, b.getI32Type()), value);
  bits = arith::ShRUIOp::create(b, loc, bits, integer(bits.getType(), 16));
  bits = arith::TruncIOp::create(b, loc, withElement(type, b.getIntegerType(16)), bits);
  return arith::BitcastOp::create(b, loc, withElement(type, b.getBF16Type()), bits);
}

//--- integer division
//---------------------------------------------------------------------------------------

static Value quotientOf(Emit &e, bool isSigned, Value n, Value d) {
  if (isSigned)
    return e.b.createOrFold<arith::DivSIOp>(e.loc, n, d);
  return e.b.createOrFold<arith::DivUIOp>(e.loc, n, d);
}

// Quotients of lanes of 64-bit integers, by divisors that are neither 0 nor -1. Processors have no
// instruction for lanes: LLVM writes one division of scalars for each, which for 64 lanes is 700
// instructions and a thousand cycles. Numbers below 2^51, which offsets are, are divided in f64,
// where that is exact (the quotient of two integers below 2^53 is at least 2^-53 of itself away
// from the next integer). They go there and back by adding 1.5 * 2^52, whose lowest bits then are
// the integer's: every instruction set has additions of lanes. Larger numbers take a loop.
static Value quotientOfLanes(Emit &e, bool isSigned, Value n, Value d) {
  OpBuilder &b = e.b;
  Location loc = e.loc;
  auto type = cast<VectorType>(n.getType());
  VectorType f64 = type.clone(b.getF64Type());
  constexpr int64_t bound = int64_t(1) << 51, magicBits = 0x4338000000000000;
  auto isSmall = [&](Value v) {
    if (isSigned)
      return e.cmp(arith::CmpIPredicate::ult, e.add(v, e.integer(type, bound)),
                   e.integer(type, 2 * bound));
    return e.cmp(arith::CmpIPredicate::ult, v, e.integer(type, bound));
  };
  Value areSmall = vector::ReductionOp::create(b, loc, vector::CombiningKind::AND,
                                               e.both(isSmall(n), isSmall(d)));
  auto inDouble = [&](OpBuilder &, Location) {
    Value magic = arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(f64, llvm::bit_cast<double>(magicBits)));
    auto toDouble = [&](Value v) -> Value {
      v = arith::BitcastOp::create(b, loc, f64, e.add(v, e.integer(type, magicBits)));
      return arith::SubFOp::create(b, loc, v, magic);
    };
    Value ratio = arith::DivFOp::create(b, loc, toDouble(n), toDouble(d));
    Value whole = math::TruncOp::create(b, loc, ratio);
    Value bits =
        arith::BitcastOp::create(b, loc, type, arith::AddFOp::create(b, loc, whole, magic));
    scf::YieldOp::create(b, loc, e.sub(bits, e.integer(type, magicBits)));
  };
  auto oneByOne = [&](OpBuilder &, Location) {
    auto index = [&](int64_t value) -> Value {
      return arith::ConstantIndexOp::create(b, loc, value);
    };
    auto body = [&](OpBuilder &, Location, Value lane, ValueRange carried) {
      auto of = [&](Value v) -> Value {
        return vector::ExtractOp::create(b, loc, v, OpFoldResult(lane));
      };
      Value quotient = quotientOf(e, isSigned, of(n), of(d));
      scf::YieldOp::create(
          b, loc,
          ValueRange{vector::InsertOp::create(b, loc, quotient, carried[0], OpFoldResult(lane))});
    };
    auto loop = scf::ForOp::create(b, loc, index(0), index(type.getNumElements()), index(1),
                                   ValueRange{n}, body);
    scf::YieldOp::create(b, loc, loop.getResults());
  };
  return scf::IfOp::create(b, loc, areSmall, inDouble, oneByOne).getResult(0);
}

// Lanes of a division that are not used may have any operands; the instruction must not trap.
static Value divide(Emit &e, Operation *op, Value lhs, Value rhs) {
  OpBuilder &b = e.b;
  Location loc = e.loc;
  bool isSigned = isa<arith::DivSIOp, arith::RemSIOp>(op);
  bool isRemainder = isa<arith::RemSIOp, arith::RemUIOp>(op);
  Type type = lhs.getType();
  unsigned bits = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  bool isWide = isa<VectorType>(type) && bits == 64 && Emit::widthOf(lhs) > 4;
  std::optional<int64_t> divisor = Emit::constant(rhs);
  if (!divisor)
    if (DenseElementsAttr dense; matchPattern(rhs, m_Constant(&dense)) && dense.isSplat())
      divisor = dense.getSplatValue<APInt>().getSExtValue();
  bool isPlain = divisor && *divisor != 0 && (!isSigned || *divisor != -1);
  if (isPlain && (!isWide || llvm::isPowerOf2_64(*divisor))) {
    if (isRemainder)
      return isSigned ? b.createOrFold<arith::RemSIOp>(loc, lhs, rhs)
                      : b.createOrFold<arith::RemUIOp>(loc, lhs, rhs);
    return quotientOf(e, isSigned, lhs, rhs);
  }
  Value one = e.integer(type, 1);
  Value safe = rhs;
  if (!isPlain) {
    Value isZero = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, rhs, e.integer(type, 0));
    safe = arith::SelectOp::create(b, loc, isZero, one, rhs);
  }
  auto divided = [&](Value d) {
    return isWide ? quotientOfLanes(e, isSigned, lhs, d) : quotientOf(e, isSigned, lhs, d);
  };
  Value quotient;
  if (isa<VectorType>(type) && bits <= 32) {
    // Exact: a quotient of 32-bit integers lies at least 2^-32 from the next integer, well inside
    // f64.
    Type f64 = withElement(type, b.getF64Type());
    Type i64 = withElement(type, b.getI64Type());
    Type wide = withElement(type, b.getI32Type());
    auto toFloat = [&](Value v) -> Value {
      if (isSigned) {
        if (bits < 32)
          v = arith::ExtSIOp::create(b, loc, wide, v);
        return arith::SIToFPOp::create(b, loc, f64, v);
      }
      if (bits < 32)
        return arith::SIToFPOp::create(b, loc, f64, arith::ExtUIOp::create(b, loc, wide, v));
      return arith::UIToFPOp::create(b, loc, f64, v);
    };
    Value ratio = arith::DivFOp::create(b, loc, toFloat(lhs), toFloat(safe));
    quotient = arith::TruncIOp::create(b, loc, type, arith::FPToSIOp::create(b, loc, i64, ratio));
  } else if (isSigned && !isPlain) {
    Value isMinusOne =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, rhs, e.integer(type, -1));
    safe = arith::SelectOp::create(b, loc, isMinusOne, one, safe);
    Value negated = arith::SubIOp::create(b, loc, e.integer(type, 0), lhs);
    quotient = arith::SelectOp::create(b, loc, isMinusOne, negated, divided(safe));
  } else {
    quotient = divided(safe);
  }
  if (!isRemainder)
    return quotient;
  return arith::SubIOp::create(b, loc, lhs, arith::MulIOp::create(b, loc, quotient, rhs));
}

//--- pointers
//-----------------------------------------------------------------------------------------------

static Value pointerOp(Emit &e, Operation *op, ArrayRef<Value> in, int64_t width) {
  if (auto moved = dyn_cast<tile::AddPtrOp>(op)) {
    auto type = cast<tile::PtrType>(tile::elementOf(moved.getPtr().getType()));
    int64_t size = tile::sizeInBytes(type.getPointee());
    Value offset = e.resize(in[1], e.b.getI64Type());
    offset = e.mul(offset, e.integer(offset.getType(), size));
    return width == 1 ? e.advance(in[0], offset) : e.add(in[0], offset);
  }
  if (isa<tile::IntToPtrOp>(op) && width == 1)
    return LLVM::IntToPtrOp::create(e.b, e.loc, e.ptr(), in[0]);
  if (isa<tile::PtrToIntOp>(op) && width == 1)
    return LLVM::PtrToIntOp::create(e.b, e.loc, e.b.getI64Type(), in[0]);
  return in[0]; // lanes of pointers are lanes of addresses already
}

//--- all of them
//--------------------------------------------------------------------------------------------

Value Emit::elementwise(Operation *op, ArrayRef<Value> in, int64_t width) {
  Type element = tile::elementOf(op->getResult(0).getType());
  Type result = lanes(element, width);
  if (isa<tile::HintOp>(op))
    return in[0];
  if (isa<tile::AddPtrOp, tile::IntToPtrOp, tile::PtrToIntOp, tile::PtrCastOp>(op))
    return pointerOp(*this, op, in, width);
  if (isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp>(op))
    return divide(*this, op, in[0], in[1]);
  Type from = op->getNumOperands() ? tile::elementOf(op->getOperand(0).getType()) : Type();
  if (isa<arith::ExtFOp, arith::TruncFOp>(op))
    return convertFloat(in[0], from, element);
  if (auto cast = dyn_cast<tile::FpCastOp>(op))
    return convertFloat(in[0], from, element, cast.getRounding() == tile::Rounding::RTZ);
  if (isa<arith::BitcastOp>(op) && in[0].getType() == result)
    return in[0];
  if (isa<tile::DivRNOp>(op))
    return arith::DivFOp::create(b, loc, in[0], in[1]);
  if (isa<tile::SqrtRNOp>(op))
    return math::SqrtOp::create(b, loc, in[0]);
  if (isa<tile::MulHiUOp>(op)) {
    unsigned bits = element.getIntOrFloatBitWidth();
    Type wide = withElement(result, b.getIntegerType(2 * bits));
    Value product = arith::MulIOp::create(b, loc, arith::ExtUIOp::create(b, loc, wide, in[0]),
                                          arith::ExtUIOp::create(b, loc, wide, in[1]));
    product = arith::ShRUIOp::create(b, loc, product, integer(wide, bits));
    return arith::TruncIOp::create(b, loc, result, product);
  }
  if (auto external = dyn_cast<tile::ExternOp>(op)) {
    if (external.getPure())
      if (Value lanes = emitDeviceMath(b, loc, external.getSymbol(), in, features))
        return lanes;
    auto type = LLVM::LLVMFunctionType::get(
        lower(element), llvm::map_to_vector(op->getOperandTypes(),
                                            [&](Type t) { return lower(tile::elementOf(t)); }));
    auto call = [&](ArrayRef<Value> arguments) -> Value {
      auto module = b.getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>();
      if (!module.lookupSymbol(external.getSymbol())) {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToStart(module.getBody());
        LLVM::LLVMFuncOp::create(b, loc, external.getSymbol(), type);
      }
      return LLVM::CallOp::create(b, loc, type, external.getSymbol(), arguments).getResult();
    };
    if (width == 1)
      return call(in);
    Value lanesOut = zero(element, width);
    for (int64_t lane = 0; lane < width; ++lane) {
      SmallVector<Value> arguments;
      for (Value operand : in)
        arguments.push_back(extract(operand, lane));
      lanesOut = vector::InsertOp::create(b, loc, call(arguments), lanesOut, lane);
    }
    return lanesOut;
  }

  // 16-bit floats: compute in f32, round after each op.
  bool narrow = llvm::any_of(op->getOperandTypes(), [](Type t) {
    Type e = tile::elementOf(t);
    return e.isF16() || e.isBF16();
  });
  bool narrowResult = element.isF16() || element.isBF16();
  bool movesBits =
      isa<arith::SelectOp, arith::BitcastOp, arith::NegFOp, math::AbsFOp, math::CopySignOp>(op);
  // These give in f32, rounded to f16, what they give in f16.
  bool isInstruction = features.halfArithmetic && element.isF16() &&
                       isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp>(op);
  if ((narrow || narrowResult) && !movesBits && !isInstruction) {
    SmallVector<Value> wide(in);
    for (auto [operand, type] : llvm::zip(wide, op->getOperandTypes())) {
      Type e = tile::elementOf(type);
      if (e.isF16() || e.isBF16())
        operand = convertFloat(operand, e, b.getF32Type());
    }
    Type f32 = withElement(result, b.getF32Type());
    if (!narrowResult)
      return clone(op, wide, result);
    return convertFloat(clone(op, wide, f32), b.getF32Type(), element);
  }
  return clone(op, in, result);
}

SmallVector<Value> Emit::combine(Region &region, ArrayRef<Value> lhs, ArrayRef<Value> rhs,
                                 int64_t width) {
  Block &block = region.front();
  llvm::DenseMap<Value, Value> map;
  for (auto [index, argument] : llvm::enumerate(block.getArguments()))
    map[argument] = index < lhs.size() ? lhs[index] : rhs[index - lhs.size()];
  auto get = [&](Value value) -> Value {
    if (Value known = map.lookup(value))
      return known;
    return splat(outside(value), width);
  };
  for (Operation &op : block.without_terminator()) {
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      map[constant] = splat(constantOf(constant.getValue(), constant.getType()), width);
      continue;
    }
    SmallVector<Value> operands = llvm::map_to_vector(op.getOperands(), get);
    map[op.getResult(0)] = elementwise(&op, operands, width);
  }
  return llvm::map_to_vector(block.getTerminator()->getOperands(), get);
}

} // namespace nereid::cpu
