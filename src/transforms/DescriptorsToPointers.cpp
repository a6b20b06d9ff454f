// DescriptorsToPointers: tensor descriptors become what they describe, a pointer with sizes and
// strides, and their accesses become masked loads, stores and atomics.
//
// For targets without a copy engine, and on those with one for descriptors that it cannot serve. A
// descriptor is a value like any other: it goes round loops, through branches and through calls
// that are not inlined; everywhere one value becomes its parts (base, sizes, strides but the last).
//
// A `tile.make_descriptor` marked `copy_engine` stays, with its accesses; whoever marks it
// makes sure that only accesses use it.
//
// Addresses are built so that the integer analysis sees them whole: the part that is the same for
// all elements goes into the pointer as one 64-bit scalar, the last dimension has step 1. One
// unsigned comparison a dimension tests both bounds: sizes are not negative, and a coordinate that
// is negative, or wraps, is greater than any size. Runs right after the inliner, so that all other
// passes see loads and stores.
#include "transforms/Passes.h"

#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Func/Transforms/FuncConversions.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Transforms/DialectConversion.h"

using namespace mlir;

namespace nereid::transforms {
#define GEN_PASS_DEF_DESCRIPTORSTOPOINTERS
#include "transforms/Passes.h.inc"

namespace {
using namespace nereid::tile;

/// A descriptor taken apart: base, one size a dimension, one stride a dimension but the last.
struct Parts {
  Parts(DescType type, ValueRange values)
      : type(type), base(values[0]), shape(values.slice(1, type.getRank())),
        strides(values.drop_front(1 + type.getRank())) {}
  DescType type;
  Value base;
  ValueRange shape, strides;
};

void appendPartTypes(DescType type, SmallVectorImpl<Type> &types) {
  MLIRContext *context = type.getContext();
  types.push_back(PtrType::get(type.getElementType()));
  types.append(type.getRank(), IntegerType::get(context, 32));
  types.append(type.getRank() - 1, IntegerType::get(context, 64));
}

/// The pointers and the mask of one access.
struct Access {
  Value pointers, mask;
};

class AccessBuilder {
public:
  AccessBuilder(OpBuilder &builder, Location loc, ArrayRef<int64_t> shape)
      : b(builder), loc(loc), shape(shape) {}

  /// The block at these coordinates, in a shape with or without the block's dimensions of size 1.
  Access block(const Parts &parts, ValueRange coords) {
    ArrayRef<int64_t> sizes = parts.type.getShape();
    size_t axis = 0;
    for (size_t dim = 0; dim < sizes.size(); ++dim) {
      Value stride = dim < parts.strides.size() ? parts.strides[dim] : Value();
      move(coords[dim], stride);
      if (sizes[dim] == 1) {
        uniformMask = both(uniformMask, inside(coords[dim], parts.shape[dim]));
        continue;
      }
      while (shape[axis] == 1)
        ++axis;
      Value range = RangeOp::create(b, loc, vector(sizes[dim], b.getI32Type()), 0, sizes[dim]);
      Value index = arith::AddIOp::create(b, loc, splat(coords[dim], range.getType()), range);
      add(axis, range, index, stride, parts.shape[dim]);
      ++axis;
    }
    return finish(parts);
  }

  /// The pieces of rows, one a row of the result.
  Access rows(const Parts &parts, Value rowNumbers, Value column) {
    move(column, Value());
    add(0, rowNumbers, rowNumbers, parts.strides[0], parts.shape[0]);
    int64_t columns = shape[1];
    Value range = RangeOp::create(b, loc, vector(columns, b.getI32Type()), 0, columns);
    Value index = arith::AddIOp::create(b, loc, splat(column, range.getType()), range);
    add(1, range, index, Value(), parts.shape[1]);
    return finish(parts);
  }

private:
  RankedTensorType vector(int64_t size, Type element) {
    return RankedTensorType::get({size}, element);
  }
  Value splat(Value scalar, Type type) { return SplatOp::create(b, loc, type, scalar); }
  Value wide(Value value) {
    return arith::ExtSIOp::create(b, loc, withShapeOf(b.getI64Type(), value.getType()), value);
  }
  Value both(Value a, Value c) { return a ? arith::AndIOp::create(b, loc, a, c).getResult() : c; }
  Value inside(Value index, Value size) {
    if (isa<RankedTensorType>(index.getType()))
      size = splat(size, index.getType());
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, index, size);
  }

  /// A vector along `axis` of the result, in the result's shape.
  Value spread(Value value, size_t axis) {
    for (size_t i = 0; i < shape.size(); ++i) {
      if (i == axis)
        continue;
      auto type = cast<RankedTensorType>(value.getType());
      SmallVector<int64_t> sizes(type.getShape());
      sizes.insert(sizes.begin() + i, 1);
      value = ExpandDimsOp::create(b, loc, type.clone(sizes), value, i);
    }
    auto type = cast<RankedTensorType>(value.getType());
    return type.getShape() == shape
               ? value
               : BroadcastOp::create(b, loc, type.clone(shape), value).getResult();
  }

  /// Adds `coord * stride` to what all elements share; no stride is 1.
  void move(Value coord, Value stride) {
    Value offset = wide(coord);
    if (stride)
      offset = arith::MulIOp::create(b, loc, offset, stride);
    uniform = uniform ? arith::AddIOp::create(b, loc, uniform, offset).getResult() : offset;
  }

  /// Along `axis` the elements lie `steps * stride` apart, and their coordinates are `index`.
  void add(size_t axis, Value steps, Value index, Value stride, Value size) {
    Value offset = wide(steps);
    if (stride)
      offset = arith::MulIOp::create(b, loc, offset, splat(stride, offset.getType()));
    offset = spread(offset, axis);
    offsets = offsets ? arith::AddIOp::create(b, loc, offsets, offset).getResult() : offset;
    mask = both(mask, spread(inside(index, size), axis));
  }

  Access finish(const Parts &parts) {
    Value base = AddPtrOp::create(b, loc, parts.base.getType(), parts.base, uniform);
    Value pointers = splat(base, RankedTensorType::get(shape, base.getType()));
    if (offsets)
      pointers = AddPtrOp::create(b, loc, pointers.getType(), pointers, offsets);
    if (uniformMask)
      mask = both(mask, splat(uniformMask, RankedTensorType::get(shape, b.getI1Type())));
    return {pointers, mask};
  }

  OpBuilder &b;
  Location loc;
  ArrayRef<int64_t> shape;
  Value uniform, offsets, uniformMask, mask;
};

/// The value of a masked load outside of the tensor; null for zero.
Value paddingOf(OpBuilder &b, Location loc, DescType desc, RankedTensorType type) {
  if (desc.getPadding() == Padding::Zero)
    return {};
  auto element = cast<FloatType>(type.getElementType());
  auto nan = APFloat::getNaN(element.getFloatSemantics());
  return arith::ConstantOp::create(b, loc, SplatElementsAttr::get(type, nan));
}

template <typename Op> Parts partsOf(Op op, ArrayRef<ValueRange> operands) {
  return Parts(cast<DescType>(op.getDesc().getType()), operands[0]);
}

/// The single values of the operands after the descriptor.
SmallVector<Value> singles(ArrayRef<ValueRange> operands, size_t from, size_t count) {
  SmallVector<Value> values;
  for (ValueRange range : operands.slice(from, count))
    values.push_back(range.front());
  return values;
}

/// One pattern for all accesses through a descriptor; `rewrite` is overloaded per operation.
template <typename Op> struct ExpandAccess : OpConversionPattern<Op> {
  using OpConversionPattern<Op>::OpConversionPattern;
  using OneToNOpAdaptor = typename OpConversionPattern<Op>::OneToNOpAdaptor;
  LogicalResult matchAndRewrite(Op op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    rewrite(op, adaptor.getOperands(), rewriter);
    return success();
  }

private:
  static void rewrite(DescShapeOp op, ArrayRef<ValueRange> operands,
                      ConversionPatternRewriter &rewriter) {
    rewriter.replaceOp(op, partsOf(op, operands).shape[op.getDim()]);
  }

  static void rewrite(DescStrideOp op, ArrayRef<ValueRange> operands,
                      ConversionPatternRewriter &rewriter) {
    Parts parts = partsOf(op, operands);
    if (op.getDim() < parts.strides.size())
      rewriter.replaceOp(op, parts.strides[op.getDim()]);
    else
      rewriter.replaceOpWithNewOp<arith::ConstantOp>(op, rewriter.getI64IntegerAttr(1));
  }

  /// Nobody makes a map for what becomes pointers.
  static void rewrite(DescMappedOp op, ArrayRef<ValueRange>, ConversionPatternRewriter &rewriter) {
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(op, rewriter.getBoolAttr(false));
  }

  static void rewrite(DescLoadOp op, ArrayRef<ValueRange> operands,
                      ConversionPatternRewriter &rewriter) {
    Parts parts = partsOf(op, operands);
    auto type = cast<RankedTensorType>(op.getType());
    Access access = AccessBuilder(rewriter, op.getLoc(), type.getShape())
                        .block(parts, singles(operands, 1, parts.type.getRank()));
    Value other = paddingOf(rewriter, op.getLoc(), parts.type, type);
    rewriter.replaceOpWithNewOp<LoadOp>(op, type, access.pointers, access.mask, other,
                                        op.getCache(), op.getEvict());
  }

  static void rewrite(DescStoreOp op, ArrayRef<ValueRange> operands,
                      ConversionPatternRewriter &rewriter) {
    Parts parts = partsOf(op, operands);
    Access access = AccessBuilder(rewriter, op.getLoc(), shapeOf(op.getValue().getType()))
                        .block(parts, singles(operands, 1, parts.type.getRank()));
    rewriter.replaceOpWithNewOp<StoreOp>(op, access.pointers, operands.back().front(), access.mask);
  }

  static void rewrite(DescReduceOp op, ArrayRef<ValueRange> operands,
                      ConversionPatternRewriter &rewriter) {
    Parts parts = partsOf(op, operands);
    Value value = operands.back().front();
    Access access = AccessBuilder(rewriter, op.getLoc(), shapeOf(value.getType()))
                        .block(parts, singles(operands, 1, parts.type.getRank()));
    AtomicRMWOp::create(rewriter, op.getLoc(), value.getType(), op.getKind(), access.pointers,
                        value, access.mask, MemSemantic::Relaxed, MemScope::GPU);
    rewriter.eraseOp(op);
  }

  static void rewrite(DescGatherOp op, ArrayRef<ValueRange> operands,
                      ConversionPatternRewriter &rewriter) {
    Parts parts = partsOf(op, operands);
    auto type = cast<RankedTensorType>(op.getType());
    Access access = AccessBuilder(rewriter, op.getLoc(), type.getShape())
                        .rows(parts, operands[1].front(), operands[2].front());
    Value other = paddingOf(rewriter, op.getLoc(), parts.type, type);
    rewriter.replaceOpWithNewOp<LoadOp>(op, type, access.pointers, access.mask, other);
  }

  static void rewrite(DescScatterOp op, ArrayRef<ValueRange> operands,
                      ConversionPatternRewriter &rewriter) {
    Parts parts = partsOf(op, operands);
    Value value = operands.back().front();
    Access access = AccessBuilder(rewriter, op.getLoc(), shapeOf(value.getType()))
                        .rows(parts, operands[1].front(), operands[2].front());
    rewriter.replaceOpWithNewOp<StoreOp>(op, access.pointers, value, access.mask);
  }
};

struct ExpandMake : OpConversionPattern<MakeDescriptorOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(MakeDescriptorOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    SmallVector<Value> parts = {adaptor.getBase()};
    llvm::append_range(parts, adaptor.getShape());
    llvm::append_range(parts, adaptor.getStrides());
    rewriter.replaceOpWithMultiple(op, {parts});
    return success();
  }
};

struct ExpandSelect : OpConversionPattern<arith::SelectOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(arith::SelectOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    SmallVector<Value> parts;
    for (auto [a, b] : llvm::zip(adaptor.getTrueValue(), adaptor.getFalseValue()))
      parts.push_back(
          arith::SelectOp::create(rewriter, op.getLoc(), adaptor.getCondition().front(), a, b));
    rewriter.replaceOpWithMultiple(op, {parts});
    return success();
  }
};

struct ExpandPoison : OpConversionPattern<ub::PoisonOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(ub::PoisonOp op, OpAdaptor,
                                ConversionPatternRewriter &rewriter) const override {
    SmallVector<Type> types;
    appendPartTypes(cast<DescType>(op.getType()), types);
    SmallVector<Value> parts;
    for (Type type : types)
      parts.push_back(ub::PoisonOp::create(rewriter, op.getLoc(), type));
    rewriter.replaceOpWithMultiple(op, {parts});
    return success();
  }
};

bool isKept(Value desc) {
  auto made = desc.getDefiningOp<MakeDescriptorOp>();
  return made && made.getCopyEngine();
}

struct DescriptorsToPointersPass
    : public impl::DescriptorsToPointersBase<DescriptorsToPointersPass> {
  void runOnOperation() override {
    bool hasDescriptors = getOperation()
                              ->walk([](Operation *op) {
                                auto isDesc = [](Type type) { return isa<DescType>(type); };
                                bool found = llvm::any_of(op->getOperandTypes(), isDesc) ||
                                             llvm::any_of(op->getResultTypes(), isDesc);
                                return found ? WalkResult::interrupt() : WalkResult::advance();
                              })
                              .wasInterrupted();
    if (!hasDescriptors)
      return;

    MLIRContext *context = &getContext();
    TypeConverter converter;
    converter.addConversion([](Type type) { return type; });
    converter.addConversion([](DescType type, SmallVectorImpl<Type> &types) -> LogicalResult {
      appendPartTypes(type, types);
      return success();
    });

    RewritePatternSet patterns(context);
    patterns.add<ExpandAccess<DescShapeOp>, ExpandAccess<DescStrideOp>, ExpandAccess<DescMappedOp>,
                 ExpandAccess<DescLoadOp>, ExpandAccess<DescStoreOp>, ExpandAccess<DescReduceOp>,
                 ExpandAccess<DescGatherOp>, ExpandAccess<DescScatterOp>, ExpandMake, ExpandSelect,
                 ExpandPoison>(converter, context);
    populateFunctionOpInterfaceTypeConversionPattern<func::FuncOp>(patterns, converter);
    populateCallOpTypeConversionPattern(patterns, converter);
    populateReturnOpTypeConversionPattern(patterns, converter);

    ConversionTarget target(*context);
    target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
    scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns, target);
    target.addDynamicallyLegalOp<func::FuncOp>(
        [&](func::FuncOp op) { return converter.isSignatureLegal(op.getFunctionType()); });
    target.addDynamicallyLegalOp<func::CallOp, func::ReturnOp, arith::SelectOp, ub::PoisonOp>(
        [&](Operation *op) { return converter.isLegal(op); });
    target.addDynamicallyLegalOp<MakeDescriptorOp>(
        [](MakeDescriptorOp op) { return op.getCopyEngine(); });
    target.addDynamicallyLegalOp<DescShapeOp, DescStrideOp, DescMappedOp, DescLoadOp, DescStoreOp,
                                 DescReduceOp, DescGatherOp, DescScatterOp>(
        [](Operation *op) { return isKept(op->getOperand(0)); });
    if (failed(applyPartialConversion(getOperation(), target, std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace nereid::transforms
