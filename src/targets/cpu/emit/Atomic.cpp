// Atomics: lane after lane, each one machine atomic under its mask. A program runs on one thread,
// so atomics whose scope is the program (`cta`) read, change and write memory without machine
// atomics. Loads and stores are single accesses in any case; with that scope they need no order.
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "targets/cpu/emit/Control.h"
#include "targets/cpu/emit/Loops.h"

using namespace mlir;

namespace nereid::cpu {

static LLVM::AtomicOrdering orderingOf(tile::MemSemantic semantic) {
  switch (semantic) {
  case tile::MemSemantic::Relaxed:
    return LLVM::AtomicOrdering::monotonic;
  case tile::MemSemantic::Acquire:
    return LLVM::AtomicOrdering::acquire;
  case tile::MemSemantic::Release:
    return LLVM::AtomicOrdering::release;
  case tile::MemSemantic::AcqRel:
    return LLVM::AtomicOrdering::acq_rel;
  }
}

static Value bitcast(Kernel &k, Type type, Value value) {
  return value.getType() == type ? value
                                 : Value(LLVM::BitcastOp::create(k.b, k.e.loc, type, value));
}

static Value compareExchange(Kernel &k, Value pointer, Value expected, Value desired,
                             LLVM::AtomicOrdering order) {
  auto failure = order == LLVM::AtomicOrdering::acq_rel || order == LLVM::AtomicOrdering::acquire
                     ? LLVM::AtomicOrdering::acquire
                     : LLVM::AtomicOrdering::monotonic;
  return LLVM::AtomicCmpXchgOp::create(k.b, k.e.loc, pointer, expected, desired, order, failure);
}

// Operations without an instruction: a compare-and-exchange loop.
static Value loopExchange(Kernel &k, Value pointer, Type integer, LLVM::AtomicOrdering order,
                          function_ref<Value(Value)> change) {
  Value first =
      LLVM::LoadOp::create(k.b, k.e.loc, integer, pointer, integer.getIntOrFloatBitWidth() / 8);
  auto loop = scf::WhileOp::create(k.b, k.e.loc, TypeRange{integer}, first);
  OpBuilder::InsertionGuard guard(k.b);
  Block *before = k.b.createBlock(&loop.getBefore(), {}, integer, k.e.loc);
  Value old = before->getArgument(0);
  Value pair = compareExchange(k, pointer, old, change(old), order);
  Value seen = LLVM::ExtractValueOp::create(k.b, k.e.loc, pair, 0);
  Value done = LLVM::ExtractValueOp::create(k.b, k.e.loc, pair, 1);
  Value again = arith::XOrIOp::create(k.b, k.e.loc, done, k.e.integer(k.b.getI1Type(), 1));
  scf::ConditionOp::create(k.b, k.e.loc, again, seen);
  Block *after = k.b.createBlock(&loop.getAfter(), {}, integer, k.e.loc);
  scf::YieldOp::create(k.b, k.e.loc, after->getArgument(0));
  return loop.getResult(0);
}

// What an atomic writes where `old` was; not for `fmax` and `fmin`.
static Value combined(Kernel &k, tile::AtomicKind kind, Type type, Value old, Value value) {
  OpBuilder &b = k.b;
  Location loc = k.e.loc;
  using Kind = tile::AtomicKind;
  switch (kind) {
  case Kind::Add:
    return arith::AddIOp::create(b, loc, old, value);
  case Kind::Max:
    return arith::MaxSIOp::create(b, loc, old, value);
  case Kind::Min:
    return arith::MinSIOp::create(b, loc, old, value);
  case Kind::UMax:
    return arith::MaxUIOp::create(b, loc, old, value);
  case Kind::UMin:
    return arith::MinUIOp::create(b, loc, old, value);
  case Kind::And:
    return arith::AndIOp::create(b, loc, old, value);
  case Kind::Or:
    return arith::OrIOp::create(b, loc, old, value);
  case Kind::Xor:
    return arith::XOrIOp::create(b, loc, old, value);
  case Kind::Xchg:
    return value;
  case Kind::FAdd: {
    Type wide = type.isF16() || type.isBF16() ? b.getF32Type() : type;
    Value sum = arith::AddFOp::create(b, loc, k.e.convertFloat(old, type, wide),
                                      k.e.convertFloat(value, type, wide));
    return k.e.convertFloat(sum, wide, type);
  }
  case Kind::FMax:
  case Kind::FMin:
    break;
  }
  llvm_unreachable("floats are compared by their bits");
}

static Value readModifyWrite(Kernel &k, tile::AtomicRMWOp op, Value pointer, Value value) {
  LLVM::AtomicOrdering order = orderingOf(op.getSem());
  Type type = tile::elementOf(op.getValue().getType());
  unsigned bits = std::max(8u, type.getIntOrFloatBitWidth());
  Type integer = k.b.getIntegerType(bits);
  auto rmw = [&](LLVM::AtomicBinOp kind, Value operand) -> Value {
    return LLVM::AtomicRMWOp::create(k.b, k.e.loc, kind, pointer, operand, order);
  };
  using Kind = tile::AtomicKind;
  bool comparesFloats = op.getKind() == Kind::FMax || op.getKind() == Kind::FMin;
  if (op.getScope() == tile::MemScope::CTA && !comparesFloats) {
    Value old = k.e.load(type, pointer, 1);
    k.e.store(type, pointer, combined(k, op.getKind(), type, old, value));
    return old;
  }
  switch (op.getKind()) {
  case Kind::Add:
    return rmw(LLVM::AtomicBinOp::add, value);
  case Kind::Max:
    return rmw(LLVM::AtomicBinOp::max, value);
  case Kind::Min:
    return rmw(LLVM::AtomicBinOp::min, value);
  case Kind::UMax:
    return rmw(LLVM::AtomicBinOp::umax, value);
  case Kind::UMin:
    return rmw(LLVM::AtomicBinOp::umin, value);
  case Kind::And:
    return rmw(LLVM::AtomicBinOp::_and, value);
  case Kind::Or:
    return rmw(LLVM::AtomicBinOp::_or, value);
  case Kind::Xor:
    return rmw(LLVM::AtomicBinOp::_xor, value);
  case Kind::Xchg:
    return bitcast(k, type, rmw(LLVM::AtomicBinOp::xchg, bitcast(k, integer, value)));
  case Kind::FAdd: {
    if (!type.isF16() && !type.isBF16())
      return rmw(LLVM::AtomicBinOp::fadd, value);
    Type f32 = k.b.getF32Type();
    Value wide = k.e.convertFloat(value, type, f32);
    Value old = loopExchange(k, pointer, integer, order, [&](Value before) {
      Value sum = k.e.convertFloat(bitcast(k, type, before), type, f32);
      sum = arith::AddFOp::create(k.b, k.e.loc, sum, wide);
      return bitcast(k, integer, k.e.convertFloat(sum, f32, type));
    });
    return bitcast(k, type, old);
  }
  case Kind::FMax:
  case Kind::FMin: {
    // Floats of one sign are ordered as their bits are, positive ones upwards, negative ones
    // downwards; and a signed comparison of bits tells the signs apart, -0.0 from +0.0 too.
    bool isMax = op.getKind() == Kind::FMax;
    Value asInteger = bitcast(k, integer, value);
    Value negative = k.e.cmp(arith::CmpIPredicate::slt, asInteger, k.e.integer(integer, 0));
    auto branch = scf::IfOp::create(k.b, k.e.loc, TypeRange{integer}, negative, true);
    {
      OpBuilder::InsertionGuard guard(k.b);
      k.b.setInsertionPointToStart(&branch.getThenRegion().front());
      Value old = rmw(isMax ? LLVM::AtomicBinOp::umin : LLVM::AtomicBinOp::umax, asInteger);
      scf::YieldOp::create(k.b, k.e.loc, old);
      k.b.setInsertionPointToStart(&branch.getElseRegion().front());
      old = rmw(isMax ? LLVM::AtomicBinOp::max : LLVM::AtomicBinOp::min, asInteger);
      scf::YieldOp::create(k.b, k.e.loc, old);
    }
    return bitcast(k, type, branch.getResult(0));
  }
  }
}

/// One load or store: `value` is null for a load. Floats go as integers, pointers as they are.
static Value accessElement(Kernel &k, tile::Atomic op, Value pointer, Value value) {
  Type element = cast<tile::PtrType>(tile::elementOf(op.getPtr().getType())).getPointee();
  Type type = k.e.lower(element), whole = type;
  if (isa<FloatType>(type))
    whole = k.b.getIntegerType(type.getIntOrFloatBitWidth());
  auto order = op.getScope() == tile::MemScope::CTA ? LLVM::AtomicOrdering::monotonic
                                                    : orderingOf(op.getSem());
  unsigned alignment = tile::sizeInBytes(element);
  if (value) {
    LLVM::StoreOp::create(k.b, k.e.loc, bitcast(k, whole, value), pointer, alignment,
                          /*isVolatile=*/false, /*isNonTemporal=*/false,
                          /*isInvariantGroup=*/false, order);
    return {};
  }
  Value loaded = LLVM::LoadOp::create(k.b, k.e.loc, whole, pointer, alignment,
                                      /*isVolatile=*/false, /*isNonTemporal=*/false,
                                      /*isInvariant=*/false, /*isInvariantGroup=*/false, order);
  return bitcast(k, type, loaded);
}

static Value unmaskedElement(Kernel &k, Operation *op, ArrayRef<Value> in) {
  if (isa<tile::AtomicLoadOp>(op))
    return accessElement(k, cast<tile::Atomic>(op), in[0], Value());
  if (isa<tile::AtomicStoreOp>(op))
    return accessElement(k, cast<tile::Atomic>(op), in[0], in[1]);
  if (auto rmw = dyn_cast<tile::AtomicRMWOp>(op))
    return readModifyWrite(k, rmw, in[0], in[1]);
  auto cas = cast<tile::AtomicCASOp>(op);
  Type type = tile::elementOf(cas.getType());
  Type integer = k.b.getIntegerType(std::max(8u, type.getIntOrFloatBitWidth()));
  Value pair = compareExchange(k, in[0], bitcast(k, integer, in[1]), bitcast(k, integer, in[2]),
                               orderingOf(cas.getSem()));
  return bitcast(k, type, LLVM::ExtractValueOp::create(k.b, k.e.loc, pair, 0));
}

/// What the memory held; null for a store.
static Value atomicElement(Kernel &k, tile::Atomic op, ArrayRef<Value> in) {
  if (!op.getMask())
    return unmaskedElement(k, op, in);
  Value seen = op.getSeen();
  if (!seen) {
    auto branch = scf::IfOp::create(k.b, k.e.loc, in.back(), /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(k.b);
    k.b.setInsertionPointToStart(&branch.getThenRegion().front());
    unmaskedElement(k, op, in);
    return {};
  }
  Type element = tile::elementOf(seen.getType());
  auto branch = scf::IfOp::create(k.b, k.e.loc, TypeRange{k.e.lower(element)}, in.back(), true);
  OpBuilder::InsertionGuard guard(k.b);
  k.b.setInsertionPointToStart(&branch.getThenRegion().front());
  Value old = unmaskedElement(k, op, in);
  scf::YieldOp::create(k.b, k.e.loc, old);
  k.b.setInsertionPointToStart(&branch.getElseRegion().front());
  Value none = k.e.zero(element, 1);
  scf::YieldOp::create(k.b, k.e.loc, none);
  return branch.getResult(0);
}

void emitAtomic(Kernel &k, tile::Atomic op) {
  Value result = op.getSeen();
  Type type = op.getPtr().getType();
  if (!isa<RankedTensorType>(type)) {
    SmallVector<Value> in =
        llvm::map_to_vector(op->getOperands(), [&](Value v) { return k.scalar(v); });
    Value old = atomicElement(k, op, in);
    if (result)
      k.scalars[result] = old;
    return;
  }
  Buffer target = result && !result.use_empty() ? k.allocate(result) : Buffer();
  forEachPoint(k, tile::shapeOf(type), [&](ArrayRef<Value> indices) {
    SmallVector<Value> in =
        llvm::map_to_vector(op->getOperands(), [&](Value v) { return elementAt(k, v, indices); });
    Value old = atomicElement(k, op, in);
    if (target)
      writeElement(k, target, indices, old);
  });
  if (target)
    k.buffers[result] = target;
}

} // namespace nereid::cpu
