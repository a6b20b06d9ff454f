// Folders and canonicalisation patterns of the tile operations: what is simpler in itself, wherever
// it stands. Rewrites that weigh one form against another are in transforms/Combine.cpp.
//
// The canonical order of shape operations, from the inside out, is trans, expand_dims, broadcast:
// each works on as few elements as it can. Splats absorb all of them. Patterns that make tensors of
// new shapes leave tensors with layouts alone: whoever gave the layouts gave them to the canonical
// form.
#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/CommonFolders.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace nereid::tile {
namespace {

bool isAllTrue(Value value) {
  return value && matchPattern(value, m_One());
}
bool isAllFalse(Value value) {
  return value && matchPattern(value, m_Zero());
}

/// A constant that is the same for all elements, with another shape; null otherwise.
Attribute resplat(Attribute attr, Type type) {
  if (auto dense = dyn_cast_or_null<SplatElementsAttr>(attr))
    return SplatElementsAttr::get(cast<ShapedType>(type), dense.getSplatValue<Attribute>());
  return {};
}

/// shape-op(splat x) -> splat x, for the operations that only move or repeat elements.
template <typename Op> struct ShapeOfSplat : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    auto splat = op.getSrc().template getDefiningOp<SplatOp>();
    if (!splat)
      return failure();
    rewriter.replaceOpWithNewOp<SplatOp>(op, op.getType(), splat.getSrc());
    return success();
  }
};

/// expand_dims(broadcast x) -> broadcast(expand_dims x).
struct ExpandBeforeBroadcast : OpRewritePattern<ExpandDimsOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ExpandDimsOp op, PatternRewriter &rewriter) const override {
    auto broadcast = op.getSrc().getDefiningOp<BroadcastOp>();
    if (!broadcast)
      return failure();
    auto src = cast<RankedTensorType>(broadcast.getSrc().getType());
    if (src.getEncoding())
      return failure();
    llvm::SmallVector<int64_t> shape(src.getShape());
    shape.insert(shape.begin() + op.getAxis(), 1);
    Value expanded = ExpandDimsOp::create(rewriter, op.getLoc(), src.clone(shape),
                                          broadcast.getSrc(), op.getAxis());
    rewriter.replaceOpWithNewOp<BroadcastOp>(op, op.getType(), expanded);
    return success();
  }
};

/// trans(broadcast x) -> broadcast(trans x).
struct TransBeforeBroadcast : OpRewritePattern<TransOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransOp op, PatternRewriter &rewriter) const override {
    auto broadcast = op.getSrc().getDefiningOp<BroadcastOp>();
    if (!broadcast)
      return failure();
    auto src = cast<RankedTensorType>(broadcast.getSrc().getType());
    if (src.getEncoding())
      return failure();
    llvm::SmallVector<int64_t> shape;
    for (int32_t dim : op.getOrder())
      shape.push_back(src.getDimSize(dim));
    Value moved =
        TransOp::create(rewriter, op.getLoc(), src.clone(shape), broadcast.getSrc(), op.getOrder());
    rewriter.replaceOpWithNewOp<BroadcastOp>(op, op.getType(), moved);
    return success();
  }
};

/// trans(expand_dims x) -> expand_dims(trans x), where the inner trans often folds away.
struct TransBeforeExpand : OpRewritePattern<TransOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransOp op, PatternRewriter &rewriter) const override {
    auto expand = op.getSrc().getDefiningOp<ExpandDimsOp>();
    if (!expand)
      return failure();
    auto src = cast<RankedTensorType>(expand.getSrc().getType());
    if (src.getEncoding())
      return failure();
    int32_t axis = expand.getAxis(), newAxis = 0;
    llvm::SmallVector<int32_t> order;
    llvm::SmallVector<int64_t> shape;
    for (auto [i, dim] : llvm::enumerate(op.getOrder())) {
      if (dim == axis) {
        newAxis = i;
        continue;
      }
      order.push_back(dim > axis ? dim - 1 : dim);
      shape.push_back(src.getDimSize(order.back()));
    }
    Value moved = TransOp::create(rewriter, op.getLoc(), src.clone(shape), expand.getSrc(), order);
    rewriter.replaceOpWithNewOp<ExpandDimsOp>(op, op.getType(), moved, newAxis);
    return success();
  }
};

/// A reshape that only inserts a dimension of size 1 is an expand_dims.
struct ReshapeIsExpand : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    auto from = shapeOf(op.getSrc().getType()), to = shapeOf(op.getType());
    if (to.size() != from.size() + 1)
      return failure();
    size_t axis = 0;
    while (axis < from.size() && from[axis] == to[axis])
      ++axis;
    if (to[axis] != 1 || from.drop_front(axis) != to.drop_front(axis + 1))
      return failure();
    rewriter.replaceOpWithNewOp<ExpandDimsOp>(op, op.getType(), op.getSrc(), axis);
    return success();
  }
};

struct SplitOfJoin : OpRewritePattern<SplitOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SplitOp op, PatternRewriter &rewriter) const override {
    auto join = op.getSrc().getDefiningOp<JoinOp>();
    if (join && join.getLhs().getType() == op.getLhs().getType()) {
      rewriter.replaceOp(op, {join.getLhs(), join.getRhs()});
      return success();
    }
    if (auto splat = op.getSrc().getDefiningOp<SplatOp>()) {
      Value half = splat.getSrc();
      if (isa<RankedTensorType>(op.getLhs().getType()))
        half = SplatOp::create(rewriter, op.getLoc(), op.getLhs().getType(), half);
      rewriter.replaceOp(op, {half, half});
      return success();
    }
    return failure();
  }
};

/// addptr(addptr(p, a), b) -> addptr(p, a + b) for constants whose sum does not wrap in their type:
/// each offset is sign-extended by itself.
struct AddConstantOffsets : OpRewritePattern<AddPtrOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddPtrOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getPtr().getDefiningOp<AddPtrOp>();
    llvm::APInt a, b;
    if (!inner || inner.getOffset().getType() != op.getOffset().getType() ||
        !matchPattern(inner.getOffset(), m_ConstantInt(&a)) ||
        !matchPattern(op.getOffset(), m_ConstantInt(&b)))
      return failure();
    bool wraps = false;
    llvm::APInt sum = a.sadd_ov(b, wraps);
    if (wraps)
      return failure();
    Type type = op.getOffset().getType();
    TypedAttr value = rewriter.getIntegerAttr(elementOf(type), sum);
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      value = DenseElementsAttr::get(tensor, Attribute(value));
    Value offset = arith::ConstantOp::create(rewriter, op.getLoc(), value);
    rewriter.replaceOpWithNewOp<AddPtrOp>(op, op.getType(), inner.getPtr(), offset);
    return success();
  }
};

struct LoadWithConstantMask : OpRewritePattern<LoadOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(LoadOp op, PatternRewriter &rewriter) const override {
    if (isAllTrue(op.getMask())) {
      rewriter.modifyOpInPlace(op, [&] {
        op.getOtherMutable().clear();
        op.getMaskMutable().clear();
      });
      return success();
    }
    if (!isAllFalse(op.getMask()))
      return failure();
    if (op.getOther()) {
      rewriter.replaceOp(op, op.getOther());
      return success();
    }
    auto zero = rewriter.getZeroAttr(op.getType());
    if (!zero)
      return failure(); // Pointers have no constants.
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(op, cast<TypedAttr>(zero));
    return success();
  }
};

struct StoreWithConstantMask : OpRewritePattern<StoreOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(StoreOp op, PatternRewriter &rewriter) const override {
    if (isAllTrue(op.getMask())) {
      rewriter.modifyOpInPlace(op, [&] { op.getMaskMutable().clear(); });
      return success();
    }
    if (!isAllFalse(op.getMask()))
      return failure();
    rewriter.eraseOp(op);
    return success();
  }
};

/// Whether combining x with itself gives x: a single operation on the two arguments of one of these
/// kinds.
bool isIdempotent(ReduceOp op) {
  Block &body = op.getCombine().front();
  if (op.getSrcs().size() != 1 || !llvm::hasNItems(body, 2))
    return false;
  Operation &combine = body.front();
  return isa<arith::MaxSIOp, arith::MaxUIOp, arith::MinSIOp, arith::MinUIOp, arith::MaximumFOp,
             arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp, arith::AndIOp, arith::OrIOp>(
             combine) &&
         body.back().getOperand(0) == combine.getResult(0) &&
         llvm::all_of(combine.getOperands(),
                      [&](Value v) { return llvm::is_contained(body.getArguments(), v); }) &&
         combine.getOperand(0) != combine.getOperand(1);
}

/// A reduction along an axis of size 1 takes the axis away.
struct ReduceOfOne : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceOp op, PatternRewriter &rewriter) const override {
    if (shapeOf(op.getSrcs().front().getType())[op.getAxis()] != 1)
      return failure();
    llvm::SmallVector<Value> results;
    for (auto [src, type] : llvm::zip(op.getSrcs(), op.getResultTypes())) {
      if (isa<RankedTensorType>(type))
        results.push_back(ReshapeOp::create(rewriter, op.getLoc(), type, src, false));
      else
        results.push_back(UnsplatOp::create(rewriter, op.getLoc(), type, src));
    }
    rewriter.replaceOp(op, results);
    return success();
  }
};

/// max, min, and, or of equal elements: of a splat, or along a dimension that a broadcast repeated.
struct ReduceOfEqual : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceOp op, PatternRewriter &rewriter) const override {
    if (!isIdempotent(op))
      return failure();
    Value src = op.getSrcs().front();
    Type type = op.getResultTypes().front();
    SplatElementsAttr constant;
    if (auto splat = src.getDefiningOp<SplatOp>()) {
      if (isa<RankedTensorType>(type))
        rewriter.replaceOpWithNewOp<SplatOp>(op, type, splat.getSrc());
      else
        rewriter.replaceOp(op, splat.getSrc());
      return success();
    }
    if (matchPattern(src, m_Constant(&constant))) {
      auto value = isa<RankedTensorType>(type) ? resplat(constant, type)
                                               : constant.getSplatValue<Attribute>();
      rewriter.replaceOpWithNewOp<arith::ConstantOp>(op, cast<TypedAttr>(value));
      return success();
    }
    auto broadcast = src.getDefiningOp<BroadcastOp>();
    if (!broadcast || shapeOf(broadcast.getSrc().getType())[op.getAxis()] != 1)
      return failure();
    auto small = cast<RankedTensorType>(broadcast.getSrc().getType());
    if (!isa<RankedTensorType>(type)) {
      rewriter.replaceOpWithNewOp<UnsplatOp>(op, type, broadcast.getSrc());
      return success();
    }
    if (small.getEncoding())
      return failure();
    llvm::SmallVector<int64_t> shape(small.getShape());
    shape.erase(shape.begin() + op.getAxis());
    Value dropped =
        ReshapeOp::create(rewriter, op.getLoc(), small.clone(shape), broadcast.getSrc(), false);
    rewriter.replaceOpWithNewOp<BroadcastOp>(op, type, dropped);
    return success();
  }
};

/// assume(a and b) -> assume a; assume b. A condition known to be true says nothing.
struct SimplifyAssume : OpRewritePattern<AssumeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AssumeOp op, PatternRewriter &rewriter) const override {
    if (isAllTrue(op.getCondition())) {
      rewriter.eraseOp(op);
      return success();
    }
    auto both = op.getCondition().getDefiningOp<arith::AndIOp>();
    if (!both)
      return failure();
    AssumeOp::create(rewriter, op.getLoc(), both.getLhs());
    AssumeOp::create(rewriter, op.getLoc(), both.getRhs());
    rewriter.eraseOp(op);
    return success();
  }
};

struct SimplifyAssert : OpRewritePattern<AssertOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AssertOp op, PatternRewriter &rewriter) const override {
    if (isAllTrue(op.getCondition()) || isAllFalse(op.getMask())) {
      rewriter.eraseOp(op);
      return success();
    }
    if (!isAllTrue(op.getMask()))
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op.getMaskMutable().clear(); });
    return success();
  }
};

/// slice(range) -> range, when neighbours stay neighbours.
struct SliceOfRange : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op, PatternRewriter &rewriter) const override {
    auto range = op.getSrc().getDefiningOp<RangeOp>();
    int64_t size = shapeOf(op.getType())[0];
    if (!range || (op.getSteps()[0] != 1 && size != 1))
      return failure();
    int64_t start = int32_t(range.getStart()) + op.getOffsets()[0];
    rewriter.replaceOpWithNewOp<RangeOp>(op, op.getType(), uint32_t(start), uint32_t(start + size));
    return success();
  }
};

} // namespace

//===--- folders
//----------------------------------------------------------------------------------===//

OpFoldResult RangeOp::fold(FoldAdaptor) {
  if (shapeOf(getType())[0] == 1)
    return DenseElementsAttr::get(cast<RankedTensorType>(getType()), int32_t(getStart()));
  return {};
}

OpFoldResult SplatOp::fold(FoldAdaptor adaptor) {
  if (isa_and_nonnull<IntegerAttr, FloatAttr>(adaptor.getSrc()))
    return SplatElementsAttr::get(cast<ShapedType>(getType()), adaptor.getSrc());
  return {};
}

OpFoldResult UnsplatOp::fold(FoldAdaptor adaptor) {
  if (auto dense = dyn_cast_or_null<SplatElementsAttr>(adaptor.getSrc()))
    return dense.getSplatValue<Attribute>();
  Operation *def = getSrc().getDefiningOp();
  if (auto splat = dyn_cast_or_null<SplatOp>(def))
    return splat.getSrc();
  if (isa_and_nonnull<ExpandDimsOp, ReshapeOp, TransOp>(def)) {
    getSrcMutable().assign(def->getOperand(0));
    return getResult();
  }
  return {};
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getSrc().getType() == getType())
    return getSrc();
  if (Attribute constant = resplat(adaptor.getSrc(), getType()))
    return constant;
  if (auto inner = getSrc().getDefiningOp<BroadcastOp>()) {
    getSrcMutable().assign(inner.getSrc());
    return getResult();
  }
  return {};
}

OpFoldResult ExpandDimsOp::fold(FoldAdaptor adaptor) {
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(adaptor.getSrc()))
    return dense.reshape(cast<ShapedType>(getType()));
  return {};
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getSrc().getType() == getType())
    return getSrc();
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(adaptor.getSrc()))
    return dense.reshape(cast<ShapedType>(getType()));
  Operation *def = getSrc().getDefiningOp();
  if (isa_and_nonnull<ReshapeOp, ExpandDimsOp>(def)) {
    if (auto inner = dyn_cast<ReshapeOp>(def))
      setAnyOrder(getAnyOrder() || inner.getAnyOrder());
    getSrcMutable().assign(def->getOperand(0));
    return getResult();
  }
  return {};
}

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  if (getSrc().getType() == getType() &&
      llvm::all_of(getOffsets(), [](int64_t offset) { return offset == 0; }))
    return getSrc();
  if (Attribute constant = resplat(adaptor.getSrc(), getType()))
    return constant;
  if (auto before = getSrc().getDefiningOp<SliceOp>()) {
    llvm::SmallVector<int64_t> offsets, steps;
    for (auto [offset, step, inner, distance] :
         llvm::zip(getOffsets(), getSteps(), before.getOffsets(), before.getSteps())) {
      offsets.push_back(inner + offset * distance);
      steps.push_back(step * distance);
    }
    getSrcMutable().assign(before.getSrc());
    setOffsets(offsets);
    setSteps(steps);
    return getResult();
  }
  return {};
}

OpFoldResult ExchangeOp::fold(FoldAdaptor) {
  if (getMask() == 0)
    return getSrc();
  if (auto before = getSrc().getDefiningOp<ExchangeOp>();
      before && before.getAxis() == getAxis() && before.getMask() == getMask())
    return before.getSrc();
  return {};
}

OpFoldResult TransOp::fold(FoldAdaptor adaptor) {
  if (llvm::all_of(llvm::enumerate(getOrder()),
                   [](auto pair) { return pair.value() == int32_t(pair.index()); }))
    return getSrc();
  if (Attribute constant = resplat(adaptor.getSrc(), getType()))
    return constant;
  if (auto inner = getSrc().getDefiningOp<TransOp>()) {
    llvm::SmallVector<int32_t> order;
    for (int32_t dim : getOrder())
      order.push_back(inner.getOrder()[dim]);
    setOrder(order);
    getSrcMutable().assign(inner.getSrc());
    return getResult();
  }
  return {};
}

OpFoldResult AddPtrOp::fold(FoldAdaptor) {
  return matchPattern(getOffset(), m_Zero()) ? OpFoldResult(getPtr()) : OpFoldResult();
}

OpFoldResult PtrCastOp::fold(FoldAdaptor) {
  if (getSrc().getType() == getType())
    return getSrc();
  if (auto inner = getSrc().getDefiningOp<PtrCastOp>()) {
    getSrcMutable().assign(inner.getSrc());
    return getResult();
  }
  return {};
}

/// Only widening, which is exact; narrowing to 8 bits saturates, and the target's conversion is the
/// reference.
OpFoldResult FpCastOp::fold(FoldAdaptor adaptor) {
  auto to = cast<FloatType>(elementOf(getType()));
  if (!adaptor.getSrc())
    return {};
  bool saturates = to.getWidth() == 8;
  auto rounding = getRounding() == Rounding::RTZ ? llvm::APFloat::rmTowardZero
                                                 : llvm::APFloat::rmNearestTiesToEven;
  return constFoldCastOp<FloatAttr, FloatAttr>(
      {adaptor.getSrc()}, getType(), [&](const llvm::APFloat &value, bool &) {
        llvm::APFloat result = value;
        bool loses = false;
        auto status = result.convert(to.getFloatSemantics(), rounding, &loses);
        if (saturates && (value.isInfinity() || (status & llvm::APFloat::opOverflow)))
          return llvm::APFloat::getLargest(to.getFloatSemantics(), value.isNegative());
        return result;
      });
}

OpFoldResult MulHiUOp::fold(FoldAdaptor adaptor) {
  if (matchPattern(getRhs(), m_Zero()))
    return getRhs();
  if (matchPattern(getLhs(), m_Zero()))
    return getLhs();
  return constFoldBinaryOp<IntegerAttr>(
      adaptor.getOperands(),
      [](const llvm::APInt &a, const llvm::APInt &b) { return llvm::APIntOps::mulhu(a, b); });
}

// What a descriptor was made of. A stride of the last dimension is 1 by definition.
OpFoldResult DescShapeOp::fold(FoldAdaptor) {
  auto made = getDesc().getDefiningOp<MakeDescriptorOp>();
  return made ? OpFoldResult(made.getShape()[getDim()]) : OpFoldResult();
}

OpFoldResult DescStrideOp::fold(FoldAdaptor) {
  if (getDim() + 1 == cast<DescType>(getDesc().getType()).getRank())
    return IntegerAttr::get(getType(), 1);
  auto made = getDesc().getDefiningOp<MakeDescriptorOp>();
  return made ? OpFoldResult(made.getStrides()[getDim()]) : OpFoldResult();
}

//===--- canonicalisation
//-------------------------------------------------------------------------===//

void BroadcastOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ShapeOfSplat<BroadcastOp>>(context);
}

void ExpandDimsOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ShapeOfSplat<ExpandDimsOp>, ExpandBeforeBroadcast>(context);
}

void ReshapeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ShapeOfSplat<ReshapeOp>, ReshapeIsExpand>(context);
}

void SliceOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ShapeOfSplat<SliceOp>, SliceOfRange>(context);
}

void TransOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ShapeOfSplat<TransOp>, TransBeforeBroadcast, TransBeforeExpand>(context);
}

void SplitOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<SplitOfJoin>(context);
}

void AddPtrOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<AddConstantOffsets>(context);
}

void LoadOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<LoadWithConstantMask>(context);
}

void StoreOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<StoreWithConstantMask>(context);
}

void ReduceOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ReduceOfOne, ReduceOfEqual>(context);
}

void AssumeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<SimplifyAssume>(context);
}

void AssertOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<SimplifyAssert>(context);
}

} // namespace nereid::tile
