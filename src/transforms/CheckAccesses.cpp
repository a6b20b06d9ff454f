// CheckAccesses: checked mode. Runs after all other tile passes, so that the checks do not stand in
// their way, and only when asked for.
//
// Every kernel gets two more 64-bit arguments for each of its pointer arguments, in order: the
// addresses [low, high) that may be touched through it. Before each load, store and atomic goes a
// `tile.check bounds` of the accessed addresses against the argument the pointer came from
// (Provenance.h). A pointer chosen by `select` is checked on each side where that side was chosen.
// Where several arguments, or none, can be its origin, the address must fall into some argument.
//
// `tile.check overflow` reports a signed 32-bit sum, difference or product on the way to an offset
// that wraps: the same computation is done in 64 bits beside it and compared at the access, in the
// lanes that are really accessed. (64-bit arithmetic, and unsigned arithmetic, which the
// front end widens itself, are not checked.)
#include "transforms/Passes.h"

#include "ir/tile/Dialect.h"
#include "transforms/Provenance.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace nereid::transforms {
#define GEN_PASS_DEF_CHECKACCESSES
#include "transforms/Passes.h.inc"

namespace {
using namespace nereid::tile;

/// The same type with another element.
Type withElement(Type type, Type element) {
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    return tensor.clone(element);
  return element;
}

bool isPointer(Type type) {
  return isa<PtrType>(type);
}

/// Bytes that one element takes in memory.
int64_t bytesOf(Type element) {
  return isa<PtrType>(element) ? 8 : std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8);
}

class Checker {
public:
  explicit Checker(func::FuncOp function)
      : function(function), provenance(function), builder(function.getContext()) {}

  void run() {
    addExtents();
    llvm::SmallVector<Operation *> accesses;
    function.walk([&](Operation *op) {
      if (isa<LoadOp, StoreOp, Atomic>(op))
        accesses.push_back(op);
    });
    for (Operation *op : accesses)
      visit(op);
  }

private:
  struct Extent {
    Value base, low, high;
  };

  void addExtents() {
    Type i64 = builder.getI64Type();
    unsigned count = function.getNumArguments();
    builder.setInsertionPointToStart(&function.getBody().front());
    for (unsigned i = 0; i < count; ++i) {
      Value argument = function.getArgument(i);
      if (!isPointer(argument.getType()))
        continue;
      Extent extent;
      Location loc = argument.getLoc();
      for (Value *bound : {&extent.low, &extent.high}) {
        (void)function.insertArgument(function.getNumArguments(), i64, {}, loc);
        *bound = function.getArgument(function.getNumArguments() - 1);
      }
      extent.base = PtrToIntOp::create(builder, loc, i64, argument);
      extents[i] = extent;
    }
  }

  //===--- small builders
  //-----------------------------------------------------------------------===//

  Value like(Value scalar, Type shaped) {
    if (auto tensor = dyn_cast<RankedTensorType>(shaped))
      return SplatOp::create(builder, loc, tensor.clone(scalar.getType()), scalar);
    return scalar;
  }
  Value integer(int64_t value, Type type) {
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      return arith::ConstantOp::create(
          builder, loc,
          DenseElementsAttr::get(tensor, builder.getIntegerAttr(tensor.getElementType(), value)));
    return arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(type, value));
  }
  Value both(Value a, Value b) {
    return !a ? b : !b ? a : arith::AndIOp::create(builder, loc, a, b).getResult();
  }
  Value negated(Value flag) {
    return arith::XOrIOp::create(builder, loc, flag, integer(1, flag.getType()));
  }

  //===--- bounds
  //-------------------------------------------------------------------------------===//

  /// Whether [address, address + size) lies in the extent.
  Value inside(Value address, const Extent &extent, int64_t size) {
    Value last =
        arith::SubIOp::create(builder, loc, extent.high, integer(size, builder.getI64Type()));
    Value above = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, address,
                                        like(extent.low, address.getType()));
    Value below = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, address,
                                        like(last, address.getType()));
    return arith::AndIOp::create(builder, loc, above, below);
  }

  /// Checks `address` where `mask` holds; `pointer` is what it was made from, followed back to
  /// where its origin is one argument or a choice. `views`: the shape operations on the way from it
  /// to the address, the last first.
  void checkBounds(Value pointer, Value address, Value mask, int64_t size,
                   llvm::ArrayRef<Operation *> views = {}) {
    const Origins &origins = provenance.of(pointer);
    int only = origins.only();
    if (only < 0) {
      if (auto step = pointer.getDefiningOp<AddPtrOp>())
        return checkBounds(step.getPtr(), address, mask, size, views);
      if (auto cast = pointer.getDefiningOp<PtrCastOp>())
        return checkBounds(cast.getSrc(), address, mask, size, views);
      if (auto hint = pointer.getDefiningOp<HintOp>())
        return checkBounds(hint.getSrc(), address, mask, size, views);
      if (auto splat = pointer.getDefiningOp<SplatOp>())
        return checkBounds(splat.getSrc(), address, mask, size, views);
      if (Operation *view = pointer.getDefiningOp(); view && isView(view)) {
        llvm::SmallVector<Operation *> longer(views);
        longer.push_back(view);
        return checkBounds(view->getOperand(0), address, mask, size, longer);
      }
      if (auto choice = pointer.getDefiningOp<arith::SelectOp>()) {
        Value condition = choice.getCondition();
        if (condition.getType() == builder.getI1Type())
          condition = like(condition, address.getType());
        else
          for (Operation *view : llvm::reverse(views))
            condition = rebuild(view, condition,
                                withElement(view->getResult(0).getType(), builder.getI1Type()));
        checkBounds(choice.getTrueValue(), address, both(mask, condition), size, views);
        return checkBounds(choice.getFalseValue(), address, both(mask, negated(condition)), size,
                           views);
      }
    }
    Value condition, detail = address;
    if (only >= 0) {
      const Extent &extent = extents.lookup(unsigned(only));
      condition = inside(address, extent, size);
      detail = arith::SubIOp::create(builder, loc, address, like(extent.base, address.getType()));
    } else {
      for (const auto &[number, extent] : extents) {
        if (!origins.unknown && !origins.empty() &&
            (number >= origins.arguments.size() || !origins.arguments.test(number)))
          continue;
        Value here = inside(address, extent, size);
        condition =
            condition ? arith::OrIOp::create(builder, loc, condition, here).getResult() : here;
      }
      if (!condition) // no pointer was given at all
        condition = like(arith::ConstantOp::create(builder, loc, builder.getBoolAttr(false)),
                         address.getType());
    }
    CheckOp::create(builder, loc, CheckKind::Bounds, condition, detail, mask, only);
  }

  //===--- overflow
  //-----------------------------------------------------------------------------===//

  /// `value`, an i32 or a tensor of them, as the 64-bit number it would be without wrapping.
  Value wide(Value value) {
    auto known = wideValues.find(value);
    if (known != wideValues.end())
      return known->second;
    Operation *op = value.getDefiningOp();
    OpBuilder::InsertionGuard guard(builder);
    if (op)
      builder.setInsertionPointAfter(op);
    else
      builder.setInsertionPointToStart(cast<BlockArgument>(value).getOwner());
    Location here = value.getLoc();
    Type type = withElement(value.getType(), builder.getI64Type());
    Value result;
    if (isa_and_nonnull<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op)) {
      Value a = wide(op->getOperand(0)), b = wide(op->getOperand(1));
      if (isa<arith::AddIOp>(op))
        result = arith::AddIOp::create(builder, here, a, b);
      else if (isa<arith::SubIOp>(op))
        result = arith::SubIOp::create(builder, here, a, b);
      else
        result = arith::MulIOp::create(builder, here, a, b);
    } else if (op && (isView(op) || isa<SplatOp>(op))) {
      result = rebuild(op, wide(op->getOperand(0)), type);
    } else if (auto hint = value.getDefiningOp<HintOp>()) {
      result = wide(hint.getSrc());
    } else {
      result = arith::ExtSIOp::create(builder, here, type, value);
    }
    return wideValues[value] = result;
  }

  /// A shape operation on another source.
  Value rebuild(Operation *op, Value source, Type type) {
    OperationState state(op->getLoc(), op->getName(), source, type, op->getAttrs());
    state.propertiesAttr = op->getPropertiesAsAttribute();
    return builder.create(state)->getResult(0);
  }

  /// Whether the computation of `value` can wrap: there is arithmetic in it.
  bool hasArithmetic(Value value) {
    Operation *op = value.getDefiningOp();
    if (isa_and_nonnull<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op))
      return true;
    return op && (isView(op) || isa<SplatOp, HintOp>(op)) && hasArithmetic(op->getOperand(0));
  }

  /// An i1 of the pointer's shape that is true where an offset in it has wrapped; null when none
  /// can.
  Value wrapped(Value pointer) {
    auto known = wrappedValues.find(pointer);
    if (known != wrappedValues.end())
      return known->second;
    Operation *op = pointer.getDefiningOp();
    Value result;
    OpBuilder::InsertionGuard guard(builder);
    if (auto step = pointer.getDefiningOp<AddPtrOp>()) {
      result = wrapped(step.getPtr());
      builder.setInsertionPointAfter(op);
      Value offset = step.getOffset();
      if (auto extension = offset.getDefiningOp<arith::ExtSIOp>())
        offset = extension.getIn();
      if (getElementTypeOrSelf(offset.getType()).isInteger(32) && hasArithmetic(offset)) {
        Value exact = wide(offset);
        Value actual = arith::ExtSIOp::create(
            builder, op->getLoc(), withElement(offset.getType(), builder.getI64Type()), offset);
        Value differs =
            arith::CmpIOp::create(builder, op->getLoc(), arith::CmpIPredicate::ne, exact, actual);
        result = result ? arith::OrIOp::create(builder, op->getLoc(), result, differs).getResult()
                        : differs;
      }
    } else if (op && (isView(op) || isa<SplatOp>(op))) {
      if (Value inner = wrapped(op->getOperand(0))) {
        builder.setInsertionPointAfter(op);
        result = rebuild(op, inner, withElement(pointer.getType(), builder.getI1Type()));
      }
    } else if (isa_and_nonnull<HintOp, PtrCastOp>(op)) {
      result = wrapped(op->getOperand(0));
    }
    return wrappedValues[pointer] = result;
  }

  //===--- accesses
  //-----------------------------------------------------------------------------===//

  void visit(Operation *op) {
    Value pointer, mask;
    if (auto load = dyn_cast<LoadOp>(op)) {
      pointer = load.getPtr();
      mask = load.getMask();
    } else if (auto store = dyn_cast<StoreOp>(op)) {
      pointer = store.getPtr();
      mask = store.getMask();
    } else {
      auto atomic = cast<Atomic>(op);
      pointer = atomic.getPtr();
      mask = atomic.getMask();
    }
    loc = op->getLoc();
    builder.setInsertionPoint(op);
    if (Value overflow = wrapped(pointer))
      CheckOp::create(builder, loc, CheckKind::Overflow, negated(overflow), Value(), mask, -1);
    Type addressType = withElement(pointer.getType(), builder.getI64Type());
    Value address = PtrToIntOp::create(builder, loc, addressType, pointer);
    auto pointee = cast<PtrType>(getElementTypeOrSelf(pointer.getType())).getPointee();
    checkBounds(pointer, address, mask, bytesOf(pointee));
  }

  func::FuncOp function;
  Provenance provenance;
  OpBuilder builder;
  Location loc = function.getLoc();
  llvm::MapVector<unsigned, Extent> extents;
  llvm::DenseMap<Value, Value> wideValues, wrappedValues;
};

struct CheckAccesses : impl::CheckAccessesBase<CheckAccesses> {
  void runOnOperation() override {
    getOperation()->walk([](func::FuncOp function) {
      if (function->hasAttr("tile.kernel"))
        Checker(function).run();
    });
  }
};

} // namespace
} // namespace nereid::transforms
