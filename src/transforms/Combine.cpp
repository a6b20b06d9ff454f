// Combine: the canonicalisation of every dialect together with the rewrites that tile IR needs to
// become small and to show its structure.
//
//  - Arithmetic on splats is done on scalars, arithmetic on repeated tensors before they are
//  repeated. A
//    kernel's front end writes `splat(pid * 1024) + range < splat(n)`; a target wants the scalar
//    parts outside of its loops, and the integer analysis wants them uniform.
//  - Pointers take their uniform offsets first: addptr(addptr(p, range), splat s) becomes
//    addptr(addptr(p, splat s), range), whose inner part is then a scalar. Addresses are 64 bits
//    wide and additions commute, so this is exact; adding the offsets to each other would not be:
//    each of them is sign-extended by itself.
//  - A product and the sum it feeds become one `tile.dot` with an accumulator, which is what matrix
//  units and
//    micro-kernels compute. (The rounding of the sum changes; so it does between any two tile
//    shapes.)
//  - Numbers that are narrower than what they are compared with stay narrow.
#include "transforms/ApplyPatterns.h"
#include "transforms/Passes.h"

#include "ir/tile/Dialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Rewrite/FrozenRewritePatternSet.h"

using namespace mlir;

namespace nereid::transforms {
#define GEN_PASS_DEF_COMBINE
#include "transforms/Passes.h.inc"

namespace {
using namespace nereid::tile;

/// An operation that computes each element of its one result from the corresponding elements of its
/// tensor operands and from its scalar operands, without effects.
bool isPureElementwise(Operation *op) {
  return isElementwise(op) && op->getNumResults() == 1 && isPure(op);
}

bool isSplat(Value value) {
  SplatElementsAttr constant;
  return value.getDefiningOp<SplatOp>() || matchPattern(value, m_Constant(&constant));
}

/// The scalar that a value with `isSplat` repeats.
Value scalarOf(Value value, PatternRewriter &rewriter) {
  if (auto splat = value.getDefiningOp<SplatOp>())
    return splat.getSrc();
  SplatElementsAttr constant;
  matchPattern(value, m_Constant(&constant));
  return arith::ConstantOp::create(rewriter, value.getLoc(),
                                   cast<TypedAttr>(constant.getSplatValue<Attribute>()));
}

/// The same splat in another shape.
Value resplat(Value value, ArrayRef<int64_t> shape, PatternRewriter &rewriter) {
  auto type = cast<RankedTensorType>(value.getType()).clone(shape);
  if (auto splat = value.getDefiningOp<SplatOp>())
    return SplatOp::create(rewriter, value.getLoc(), type, splat.getSrc());
  SplatElementsAttr constant;
  matchPattern(value, m_Constant(&constant));
  return arith::ConstantOp::create(
      rewriter, value.getLoc(), SplatElementsAttr::get(type, constant.getSplatValue<Attribute>()));
}

/// `op` on other operands, with a result of type `type`.
Value cloneWith(Operation *op, ArrayRef<Value> operands, Type type, PatternRewriter &rewriter) {
  IRMapping mapping;
  for (auto [from, to] : llvm::zip(op->getOperands(), operands))
    mapping.map(from, to);
  Operation *clone = rewriter.clone(*op, mapping);
  rewriter.modifyOpInPlace(clone, [&] { clone->getResult(0).setType(type); });
  return clone->getResult(0);
}

/// op(splat a, splat b) -> splat(op(a, b)).
struct ElementwiseOfSplats : RewritePattern {
  explicit ElementwiseOfSplats(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isPureElementwise(op) || !isa<RankedTensorType>(op->getResult(0).getType()))
      return failure();
    bool anySplat = false;
    for (Value operand : op->getOperands()) {
      if (!isa<RankedTensorType>(operand.getType()))
        continue;
      if (!isSplat(operand))
        return failure();
      anySplat |= bool(operand.getDefiningOp<SplatOp>());
    }
    if (!anySplat) // Constants alone fold, or cannot be folded and had better stay dense constants.
      return failure();
    llvm::SmallVector<Value> scalars;
    for (Value operand : op->getOperands())
      scalars.push_back(isa<RankedTensorType>(operand.getType()) ? scalarOf(operand, rewriter)
                                                                 : operand);
    Type type = op->getResult(0).getType();
    Value scalar = cloneWith(op, scalars, elementOf(type), rewriter);
    rewriter.replaceOpWithNewOp<SplatOp>(op, type, scalar);
    return success();
  }
};

/// op(broadcast a, broadcast b, splat s) -> broadcast(op(a, b, splat s)), and the same for
/// expand_dims, where all sources have one shape.
template <typename ShapeOp> struct ElementwiseBefore : RewritePattern {
  explicit ElementwiseBefore(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isPureElementwise(op) || !isa<RankedTensorType>(op->getResult(0).getType()))
      return failure();
    ShapeOp like;
    for (Value operand : op->getOperands()) {
      if (!isa<RankedTensorType>(operand.getType()) || isSplat(operand))
        continue;
      auto shapeOp = operand.getDefiningOp<ShapeOp>();
      if (!shapeOp ||
          (like && shapeOf(like.getSrc().getType()) != shapeOf(shapeOp.getSrc().getType())))
        return failure();
      if constexpr (std::is_same_v<ShapeOp, ExpandDimsOp>)
        if (like && like.getAxis() != shapeOp.getAxis())
          return failure();
      like = shapeOp;
    }
    if (!like)
      return failure();
    auto shape = shapeOf(like.getSrc().getType());
    llvm::SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      if (auto shapeOp = operand.getDefiningOp<ShapeOp>())
        operands.push_back(shapeOp.getSrc());
      else if (isa<RankedTensorType>(operand.getType()))
        operands.push_back(transforms::resplat(operand, shape, rewriter));
      else
        operands.push_back(operand);
    }
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    Value small = cloneWith(op, operands, type.clone(shape), rewriter);
    IRMapping mapping;
    mapping.map(like.getSrc(), small);
    Operation *moved = rewriter.clone(*like, mapping);
    rewriter.modifyOpInPlace(moved, [&] { moved->getResult(0).setType(type); });
    rewriter.replaceOp(op, moved);
    return success();
  }
};

/// addptr(addptr(p, a), splat s) -> addptr(addptr(p, splat s), a).
struct UniformOffsetFirst : OpRewritePattern<AddPtrOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddPtrOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getPtr().getDefiningOp<AddPtrOp>();
    if (!inner || !isSplat(op.getOffset()) || isSplat(inner.getOffset()))
      return failure();
    Value base =
        AddPtrOp::create(rewriter, op.getLoc(), op.getType(), inner.getPtr(), op.getOffset());
    rewriter.replaceOpWithNewOp<AddPtrOp>(op, op.getType(), base, inner.getOffset());
    return success();
  }
};

/// (x + splat a) + splat b -> x + splat (a + b): additions wrap, so they associate.
struct UniformTermsTogether : OpRewritePattern<arith::AddIOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::AddIOp op, PatternRewriter &rewriter) const override {
    auto split = [](arith::AddIOp add) -> std::pair<Value, Value> {
      if (!add || !isa<RankedTensorType>(add.getType()))
        return {};
      if (isSplat(add.getRhs()) && !isSplat(add.getLhs()))
        return {add.getLhs(), add.getRhs()};
      if (isSplat(add.getLhs()) && !isSplat(add.getRhs()))
        return {add.getRhs(), add.getLhs()};
      return {};
    };
    auto [sum, b] = split(op);
    if (!sum)
      return failure();
    auto [x, a] = split(sum.getDefiningOp<arith::AddIOp>());
    if (!x)
      return failure();
    Value scalar =
        arith::AddIOp::create(rewriter, op.getLoc(), scalarOf(a, rewriter), scalarOf(b, rewriter));
    Value uniform = SplatOp::create(rewriter, op.getLoc(), op.getType(), scalar);
    rewriter.replaceOpWithNewOp<arith::AddIOp>(op, x, uniform);
    return success();
  }
};

/// x / s * (s * c) + x % s * c -> x * c. Exact: products and sums wrap.
struct QuotientAndRemainder : OpRewritePattern<arith::AddIOp> {
  using OpRewritePattern::OpRewritePattern;

  /// A value as `x op s * c`; false where it is none.
  template <typename Op> static bool match(Value value, Value &x, APInt &s, APInt &c) {
    auto product = value.getDefiningOp<arith::MulIOp>();
    auto op = (product ? product.getLhs() : value).getDefiningOp<Op>();
    if (!op || !matchPattern(op.getRhs(), m_ConstantInt(&s)) || s.isZero() ||
        (product && !matchPattern(product.getRhs(), m_ConstantInt(&c))))
      return false;
    if (!product)
      c = APInt(s.getBitWidth(), 1);
    x = op.getLhs();
    return true;
  }

  LogicalResult matchAndRewrite(arith::AddIOp add, PatternRewriter &rewriter) const override {
    for (auto [left, right] :
         {std::pair(add.getLhs(), add.getRhs()), std::pair(add.getRhs(), add.getLhs())}) {
      Value x, of;
      APInt s, c, divisor, scale;
      if (!match<arith::RemSIOp>(left, x, s, c) ||
          !match<arith::DivSIOp>(right, of, divisor, scale) || x != of || s != divisor ||
          scale != s * c)
        continue;
      Value factor = arith::ConstantOp::create(rewriter, add.getLoc(),
                                               rewriter.getIntegerAttr(add.getType(), c));
      rewriter.replaceOpWithNewOp<arith::MulIOp>(add, x, factor);
      return success();
    }
    return failure();
  }
};

/// A load of one address is a scalar load.
struct LoadOfSplat : OpRewritePattern<LoadOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(LoadOp op, PatternRewriter &rewriter) const override {
    auto ptr = op.getPtr().getDefiningOp<SplatOp>();
    if (!ptr || op.getIsVolatile() || (op.getMask() && !isSplat(op.getMask())) ||
        (op.getOther() && !isSplat(op.getOther())))
      return failure();
    Value mask = op.getMask() ? scalarOf(op.getMask(), rewriter) : Value();
    Value other = op.getOther() ? scalarOf(op.getOther(), rewriter) : Value();
    Value scalar = LoadOp::create(rewriter, op.getLoc(), elementOf(op.getType()), ptr.getSrc(),
                                  mask, other, op.getCache(), op.getEvict(), op.getIsVolatile());
    rewriter.replaceOpWithNewOp<SplatOp>(op, op.getType(), scalar);
    return success();
  }
};

/// select(mask, load(p, mask), x) -> load(p, mask, other x).
struct SelectIsOther : OpRewritePattern<arith::SelectOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::SelectOp op, PatternRewriter &rewriter) const override {
    auto load = op.getTrueValue().getDefiningOp<LoadOp>();
    if (!load || !load.getMask() || load.getMask() != op.getCondition() || !load->hasOneUse() ||
        load.getIsVolatile())
      return failure();
    // `other` must be there already when the load is.
    Operation *other = op.getFalseValue().getDefiningOp();
    if (load->getBlock() != op->getBlock() ||
        (other && other->getBlock() == load->getBlock() && !other->isBeforeInBlock(load)))
      return failure();
    rewriter.modifyOpInPlace(load, [&] { load.getOtherMutable().assign(op.getFalseValue()); });
    rewriter.replaceOp(op, load);
    return success();
  }
};

/// Does `condition` hold in every lane where `mask` does?
bool implies(Value mask, Value condition, unsigned depth = 0) {
  constexpr unsigned kMostDepth = 4; // masks and conditions of kernels are flat
  if (mask == condition || matchPattern(condition, m_One()))
    return true;
  if (depth == kMostDepth)
    return false;
  if (auto either = condition.getDefiningOp<arith::OrIOp>())
    if (implies(mask, either.getLhs(), depth + 1) || implies(mask, either.getRhs(), depth + 1))
      return true;
  auto both = mask.getDefiningOp<arith::AndIOp>();
  return both && (implies(both.getLhs(), condition, depth + 1) ||
                  implies(both.getRhs(), condition, depth + 1));
}

/// Does a block of floats reach nothing, through elementwise operations on floats, but writes whose
/// masks imply `condition`? `visits`: of operations, at most.
bool isWrittenWhere(Value condition, Value block, unsigned &visits) {
  for (Operation *user : block.getUsers()) {
    if (!visits)
      return false;
    --visits;
    Value mask;
    if (auto store = dyn_cast<StoreOp>(user))
      mask = store.getMask();
    else if (auto atomic = dyn_cast<AtomicRMWOp>(user))
      mask = atomic.getMask();
    if (mask) {
      if (mask.getType() != condition.getType() || !implies(mask, condition))
        return false;
      continue;
    }
    if (!isPureElementwise(user) || !isa<FloatType>(elementOf(user->getResult(0).getType())) ||
        !isWrittenWhere(condition, user->getResult(0), visits))
      return false;
  }
  return true;
}

/// select(condition, a, b) -> a, where what is computed of it is written only where the condition
/// holds.
struct SelectUnderMask : OpRewritePattern<arith::SelectOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::SelectOp op, PatternRewriter &rewriter) const override {
    unsigned visits = 16;
    if (op->use_empty() || !isa<RankedTensorType>(op.getCondition().getType()) ||
        !isa<FloatType>(elementOf(op.getType())) ||
        !isWrittenWhere(op.getCondition(), op.getResult(), visits))
      return failure();
    rewriter.replaceOp(op, op.getTrueValue());
    return success();
  }
};

/// dot(a, b, 0) + c -> dot(a, b, c).
template <typename Add> struct SumIntoDot : OpRewritePattern<Add> {
  using OpRewritePattern<Add>::OpRewritePattern;
  LogicalResult matchAndRewrite(Add op, PatternRewriter &rewriter) const override {
    for (auto [product, sum] : {std::pair<Value, Value>(op.getLhs(), op.getRhs()),
                                std::pair<Value, Value>(op.getRhs(), op.getLhs())}) {
      auto dot = product.template getDefiningOp<DotOp>();
      if (!dot || !dot->hasOneUse() || dot.getMaxImpreciseAcc() != 0 ||
          !(matchPattern(dot.getC(), m_Zero()) || matchPattern(dot.getC(), m_PosZeroFloat())))
        continue;
      rewriter.replaceOpWithNewOp<DotOp>(op, op.getType(), dot.getA(), dot.getB(), sum,
                                         dot.getPrecision(), dot.getMaxImpreciseAcc());
      rewriter.eraseOp(dot);
      return success();
    }
    return failure();
  }
};

/// ext(x) == splat(y) -> x == splat(trunc(y)) && splat(y has a number of x's type), where the
/// tensor x is narrower than y: columns, 32 bits wide, compared with a label of 64 bits. Registers
/// hold x then, and one comparison of 32 bits takes the place of three instructions.
struct NarrowEquality : OpRewritePattern<arith::CmpIOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::CmpIOp op, PatternRewriter &rewriter) const override {
    bool equal = op.getPredicate() == arith::CmpIPredicate::eq;
    if (!equal && op.getPredicate() != arith::CmpIPredicate::ne)
      return failure();
    for (auto [tensor, other] :
         {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())}) {
      Operation *extension = tensor.getDefiningOp();
      auto splat = other.getDefiningOp<SplatOp>();
      if (!splat || !isa_and_nonnull<arith::ExtSIOp, arith::ExtUIOp>(extension))
        continue;
      Location loc = op.getLoc();
      Value x = extension->getOperand(0), y = splat.getSrc();
      auto narrow = cast<RankedTensorType>(x.getType());
      // Truth values are compared as they are.
      if (narrow.getElementType().isInteger(1))
        continue;
      Value cut = arith::TruncIOp::create(rewriter, loc, narrow.getElementType(), y);
      Value again = isa<arith::ExtSIOp>(extension)
                        ? Value(arith::ExtSIOp::create(rewriter, loc, y.getType(), cut))
                        : Value(arith::ExtUIOp::create(rewriter, loc, y.getType(), cut));
      Value fits = arith::CmpIOp::create(rewriter, loc, op.getPredicate(), again, y);
      Value same = arith::CmpIOp::create(rewriter, loc, op.getPredicate(), x,
                                         SplatOp::create(rewriter, loc, narrow, cut));
      Value all = SplatOp::create(rewriter, loc, op.getType(), fits);
      if (equal)
        rewriter.replaceOpWithNewOp<arith::AndIOp>(op, same, all);
      else
        rewriter.replaceOpWithNewOp<arith::OrIOp>(op, same, all);
      return success();
    }
    return failure();
  }
};

struct CombinePass : public impl::CombineBase<CombinePass> {
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    // Tile IR's dialects only: a context that also holds those of code generation has hundreds of
    // patterns.
    auto isOfTileIR = [](Dialect &dialect) {
      return isa<TileDialect, arith::ArithDialect, math::MathDialect, scf::SCFDialect,
                 func::FuncDialect, ub::UBDialect>(dialect);
    };
    for (Dialect *dialect : context->getLoadedDialects())
      if (isOfTileIR(*dialect))
        dialect->getCanonicalizationPatterns(set);
    for (RegisteredOperationName op : context->getRegisteredOperations())
      if (isOfTileIR(op.getDialect()))
        op.getCanonicalizationPatterns(set, context);
    set.add<ElementwiseOfSplats, ElementwiseBefore<BroadcastOp>, ElementwiseBefore<ExpandDimsOp>,
            UniformOffsetFirst, UniformTermsTogether, QuotientAndRemainder, LoadOfSplat,
            SelectIsOther, SelectUnderMask, NarrowEquality, SumIntoDot<arith::AddFOp>,
            SumIntoDot<arith::AddIOp>>(context);
    patterns = FrozenRewritePatternSet(std::move(set));
    return success();
  }

  void runOnOperation() override {
    if (failed(applyPatterns(getOperation(), patterns)))
      getOperation()->emitWarning("combine did not reach a fixed point");
  }

  FrozenRewritePatternSet patterns;
};

} // namespace
} // namespace nereid::transforms
