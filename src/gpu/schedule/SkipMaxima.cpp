#include "gpu/schedule/SkipMaxima.h"

#include "gpu/layouts/AxisPlan.h"
#include "gpu/layouts/LayoutRelations.h"
#include "gpu/schedule/PartitionWarps.h"
#include "gpu/schedule/SkipScaling.h"
#include "ir/ngpu/Dialect.h"
#include "ir/tile/Combiner.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <cmath>

using namespace mlir;

namespace nereid::gpu {
namespace {

using layout::Axis;
using layout::LinearLayout;

/// Sums of as many as 2^24 weights of 2^this are finite.
constexpr float kMostThreshold = 100;

std::optional<APFloat> splatOf(Value value) {
  DenseElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements)) || !elements.isSplat() ||
      !isa<FloatType>(elements.getElementType()))
    return {};
  return elements.getSplatValue<APFloat>();
}

/// The scalar of which all elements of `value` are.
Value scalarOf(Value value) {
  auto splat = value.getDefiningOp<tile::SplatOp>();
  return splat ? splat.getOperand() : Value();
}

/// Of a loop, what the comment of `skipMaxima` names.
struct Softmax {
  BlockArgument old;
  Value next;
  double threshold = 0;
  tile::ReduceOp top, sum;
  arith::MulFOp scaled; ///< the scores multiplied by a scalar; null: they are not
  Value base;           ///< `next`, or 0 where that is -inf
  math::Exp2Op weights;
  math::Exp2Op factors;
};

/// Is `value` what comes out of `next`, 0 in place of -inf?
bool isGuarded(Value value, Value next) {
  auto select = value.getDefiningOp<arith::SelectOp>();
  if (!select || select.getFalseValue() != next)
    return false;
  std::optional<APFloat> zero = splatOf(select.getTrueValue());
  auto equal = select.getCondition().getDefiningOp<arith::CmpFOp>();
  if (!zero || !zero->isZero() || !equal || equal.getPredicate() != arith::CmpFPredicate::OEQ ||
      equal.getLhs() != next)
    return false;
  std::optional<APFloat> least = splatOf(equal.getRhs());
  return least && least->isInfinity() && least->isNegative();
}

/// new = top > old + threshold ? top : old, where the loop carries `old`; fills `old`, `next`,
/// `threshold`, `top` and the scalar by which `top` is multiplied.
bool matchReference(scf::ForOp loop, unsigned number, Softmax &found, Value &scale) {
  found.old = loop.getRegionIterArg(number);
  found.next = behindMoves(loop.getYieldedValues()[number]);
  auto raised = found.next.getDefiningOp<arith::SelectOp>();
  if (!raised || raised->getBlock() != loop.getBody() || raised.getFalseValue() != found.old)
    return false;
  Value top = raised.getTrueValue();
  auto exceeds = raised.getCondition().getDefiningOp<arith::CmpFOp>();
  if (!exceeds || exceeds.getPredicate() != arith::CmpFPredicate::OGT || exceeds.getLhs() != top)
    return false;
  auto bound = exceeds.getRhs().getDefiningOp<arith::AddFOp>();
  if (!bound)
    return false;
  std::optional<APFloat> threshold =
      splatOf(bound.getLhs() == found.old ? bound.getRhs() : bound.getLhs());
  if (!threshold || (bound.getLhs() != found.old && bound.getRhs() != found.old) ||
      !cast<RankedTensorType>(found.old.getType()).getElementType().isF32() ||
      !(threshold->convertToFloat() > 0 && threshold->convertToFloat() <= kMostThreshold))
    return false;
  found.threshold = threshold->convertToFloat();
  if (auto product = top.getDefiningOp<arith::MulFOp>()) {
    bool right = product.getLhs().getDefiningOp<tile::ReduceOp>() != nullptr;
    scale = scalarOf(right ? product.getRhs() : product.getLhs());
    if (!scale)
      return false;
    top = right ? product.getLhs() : product.getRhs();
  }
  found.top = top.getDefiningOp<tile::ReduceOp>();
  return found.top && found.top->getBlock() == loop.getBody() && found.top.getSrcs().size() == 1 &&
         tile::combinerKind(found.top.getCombine()) == tile::CombinerKind::MaxNum;
}

/// Is `op` exp2(scores - new)? Sets `scaled` and `base`.
bool isWeights(math::Exp2Op op, Value scale, Softmax &found) {
  auto difference = op.getOperand().getDefiningOp<arith::SubFOp>();
  if (!difference)
    return false;
  Value scores = difference.getLhs();
  found.scaled = nullptr;
  if (scale) {
    found.scaled = scores.getDefiningOp<arith::MulFOp>();
    if (!found.scaled)
      return false;
    bool left = scalarOf(found.scaled.getLhs()) == scale;
    if (!left && scalarOf(found.scaled.getRhs()) != scale)
      return false;
    scores = left ? found.scaled.getRhs() : found.scaled.getLhs();
  }
  found.base = factorsBehind(difference.getRhs());
  return scores == found.top.getSrcs()[0] && found.base &&
         (found.base == found.next || isGuarded(found.base, found.next));
}

std::optional<Softmax> findSoftmax(scf::ForOp loop, unsigned number) {
  Softmax found;
  Value scale;
  if (!isa<RankedTensorType>(loop.getRegionIterArg(number).getType()) ||
      !matchReference(loop, number, found, scale))
    return {};
  for (auto op : loop.getBody()->getOps<math::Exp2Op>()) {
    auto type = dyn_cast<RankedTensorType>(op.getType());
    if (!found.weights && type && type.getRank() == 2 && isWeights(op, scale, found))
      found.weights = op;
  }
  if (!found.weights)
    return {};
  for (auto op : loop.getBody()->getOps<math::Exp2Op>()) {
    auto difference = op.getOperand().getDefiningOp<arith::SubFOp>();
    if (difference && difference.getLhs() == found.old && difference.getRhs() == found.base)
      found.factors = op;
  }
  for (auto op : loop.getBody()->getOps<tile::ReduceOp>())
    if (op.getSrcs().size() == 1 && op.getSrcs()[0] == found.weights.getResult() &&
        op.getAxis() == found.top.getAxis() &&
        tile::combinerKind(op.getCombine()) == tile::CombinerKind::AddF)
      found.sum = op;
  if (!found.sum || !found.factors)
    return {};
  // Only within a warp: a warp may be alone in the branch.
  auto type = cast<RankedTensorType>(found.weights.getType());
  const LinearLayout &places = ngpu::layoutOf(type).getLayout();
  if (places.shape() != type.getShape() ||
      AxisPlan(places, found.top.getAxis(), /*ordered=*/false).partialBits)
    return {};
  return found;
}

/// The shape in which axis `axis` of a tensor is divided into [registers, lanes, registers]: where
/// bits of its index that lanes hold are neighbours. Otherwise empty.
SmallVector<int64_t> dividedByLanes(RankedTensorType type, unsigned axis) {
  const LinearLayout &places = ngpu::layoutOf(type).getLayout();
  uint32_t ofLanes = 0;
  for (unsigned bit = 0; bit < places.bits(Axis::Lane); ++bit)
    ofLanes |= uint32_t(places.basis(Axis::Lane, bit)[axis]);
  for (unsigned bit = 0; bit < places.bits(Axis::Register); ++bit)
    if (uint32_t(places.basis(Axis::Register, bit)[axis]) & ofLanes)
      return {};
  if (!ofLanes || !llvm::isShiftedMask_32(ofLanes))
    return {};
  int64_t low = int64_t(1) << llvm::countr_zero(ofLanes), lanes = ofLanes / low + 1;
  SmallVector<int64_t> shape(type.getShape().take_front(axis));
  shape.append({type.getDimSize(axis) / (low * lanes), lanes, low});
  llvm::append_range(shape, type.getShape().drop_front(axis + 1));
  return shape;
}

Value reduceAxis(OpBuilder &b, tile::ReduceOp like, Value value, unsigned axis) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape.erase(shape.begin() + axis);
  auto result = ngpu::withLayout(RankedTensorType::get(shape, type.getElementType()),
                                 ngpu::layoutOf(type).getLayout().sliced(axis));
  auto sum = tile::ReduceOp::create(b, like.getLoc(), TypeRange{result}, ValueRange{value},
                                    int32_t(axis), like.getAnyOrder());
  IRMapping map;
  like.getCombine().cloneInto(&sum.getCombine(), map);
  return sum.getResult()[0];
}

/// The sums of each thread, (rows, lanes of a row), from which one more reduction along `axis`
/// makes those of rows; the sums of rows where the layout does not allow that.
class Parts {
public:
  explicit Parts(tile::ReduceOp sum)
      : sum(sum), axis(sum.getAxis()),
        shape(dividedByLanes(cast<RankedTensorType>(sum.getSrcs()[0].getType()), axis)) {}

  Value ofWeights(OpBuilder &b, Value weights) {
    if (shape.empty())
      return reduceAxis(b, sum, weights, axis);
    auto type = cast<RankedTensorType>(weights.getType());
    auto seen = ngpu::withLayout(RankedTensorType::get(shape, type.getElementType()),
                                 ngpu::layoutOf(type).getLayout().reshaped(shape));
    Value parts = tile::ReshapeOp::create(b, sum.getLoc(), seen, weights);
    return reduceAxis(b, sum, reduceAxis(b, sum, parts, axis + 2), axis);
  }
  /// The type of the sums of each thread.
  RankedTensorType type() {
    auto type = cast<RankedTensorType>(sum.getSrcs()[0].getType());
    if (shape.empty())
      return cast<RankedTensorType>(sum.getResult()[0].getType());
    LinearLayout places =
        ngpu::layoutOf(type).getLayout().reshaped(shape).sliced(axis + 2).sliced(axis);
    SmallVector<int64_t> sizes(shape);
    sizes.erase(sizes.begin() + axis + 2);
    sizes.erase(sizes.begin() + axis);
    return ngpu::withLayout(RankedTensorType::get(sizes, type.getElementType()), places);
  }
  Value ofRows(OpBuilder &b, Value parts) {
    return shape.empty() ? parts : reduceAxis(b, sum, parts, axis);
  }
  /// A value of each row, for each of its parts of type `to`.
  Value broadcast(OpBuilder &b, Value ofRow, RankedTensorType to) {
    if (shape.empty())
      return ofRow;
    SmallVector<int64_t> sizes(to.getShape());
    sizes[axis] = 1;
    auto column = ngpu::withLayout(RankedTensorType::get(sizes, to.getElementType()),
                                   ngpu::layoutOf(to).getLayout().sliced(axis).expanded(axis));
    Value wide = tile::ExpandDimsOp::create(b, sum.getLoc(), column, ofRow, int32_t(axis));
    return tile::BroadcastOp::create(b, sum.getLoc(), to, wide);
  }

private:
  tile::ReduceOp sum;
  unsigned axis;
  SmallVector<int64_t> shape;
};

/// Clones `value` with what makes it in the block of `top`, except what is in `map`, and what comes
/// before `top` and is not `also`.
Value cloneBehind(OpBuilder &b, Value value, Operation *top, Operation *also, IRMapping &map) {
  Operation *op = value.getDefiningOp();
  if (map.contains(value) || !op || op->getBlock() != top->getBlock() ||
      (op != also && op->isBeforeInBlock(top)))
    return map.lookupOrDefault(value);
  for (Value operand : op->getOperands())
    cloneBehind(b, operand, top, also, map);
  b.clone(*op, map);
  return map.lookup(value);
}

Value splat(OpBuilder &b, Location loc, Type type, double value) {
  auto tensor = cast<RankedTensorType>(type);
  return arith::ConstantOp::create(
      b, loc,
      cast<TypedAttr>(DenseElementsAttr::get(tensor, b.getF32FloatAttr(float(value)).getValue())));
}

/// The number of the carried value to which the sums of weights are added: sums * factors + sum.
std::optional<unsigned> carriedSum(scf::ForOp loop, Softmax &found) {
  Value sum = found.sum.getResult()[0];
  if (!sum.hasOneUse())
    return {};
  auto added = dyn_cast<arith::AddFOp>(*sum.user_begin());
  if (!added || added->getBlock() != loop.getBody())
    return {};
  auto scaled =
      (added.getLhs() == sum ? added.getRhs() : added.getLhs()).getDefiningOp<arith::MulFOp>();
  if (!scaled)
    return {};
  Value factors = found.factors.getResult();
  Value before = scaled.getLhs() == factors ? scaled.getRhs() : scaled.getLhs();
  auto arg = dyn_cast<BlockArgument>(before);
  if ((scaled.getLhs() != factors && scaled.getRhs() != factors) || !arg ||
      arg.getOwner() != loop.getBody() || !arg.hasOneUse() || !arg.getArgNumber())
    return {};
  unsigned number = arg.getArgNumber() - 1;
  return behindMoves(loop.getYieldedValues()[number]) == added ? std::optional(number)
                                                               : std::nullopt;
}

/// The loop carries the parts of the sums by themselves, which are added up behind it: threads of a
/// row exchange theirs once. Replaces `loop`.
void addBehind(scf::ForOp &loop, Softmax &found, unsigned number, Parts &parts, Value seen,
               Value factors) {
  Value sum = found.sum.getResult()[0];
  auto added = cast<arith::AddFOp>(*sum.user_begin());
  added.replaceAllUsesWith(added.getLhs() == sum ? added.getRhs() : added.getLhs());
  added.erase();
  Location loc = loop.getLoc();
  IRRewriter rewriter(loop.getContext());
  rewriter.setInsertionPoint(loop);
  Operation *last = seen.getDefiningOp();
  if (last->isBeforeInBlock(factors.getDefiningOp()))
    last = factors.getDefiningOp();
  auto type = cast<RankedTensorType>(seen.getType());
  Value zero = splat(rewriter, loc, type, 0);
  auto attributes = loop->getDiscardableAttrDictionary();
  loop = cast<scf::ForOp>(*loop.replaceWithAdditionalYields(
      rewriter, zero, /*replaceInitOperandUsesInLoop=*/false,
      [&](OpBuilder &b, Location, ArrayRef<BlockArgument> args) -> SmallVector<Value> {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointAfter(last);
        Value wide = parts.broadcast(b, factors, type);
        Value scaled = arith::MulFOp::create(b, loc, args.front(), wide);
        return {arith::AddFOp::create(b, loc, scaled, seen)};
      }));
  loop->setDiscardableAttrs(attributes);
  rewriter.setInsertionPointAfter(loop);
  Value rows = parts.ofRows(rewriter, loop.getResults().back());
  Value before = loop.getResult(number);
  Value total = arith::AddFOp::create(rewriter, loc, before, rows);
  before.replaceAllUsesExcept(total, total.getDefiningOp());
}

/// Weights with the old reference, and what is needed only where they are too great in branches.
void computeFirst(scf::ForOp loop, Softmax &found) {
  Location loc = found.weights.getLoc();
  OpBuilder b(found.top.getContext());
  b.setInsertionPointAfter(found.top);
  Parts parts(found.sum);
  auto asBefore = [&](OpBuilder &b) {
    IRMapping map;
    auto clone = [&](Value value) { return cloneBehind(b, value, found.top, found.scaled, map); };
    Value weights = clone(found.weights.getResult());
    return SmallVector<Value>{weights, parts.ofWeights(b, weights), clone(found.next),
                              clone(found.factors.getResult())};
  };
  SmallVector<Type> types = {found.weights.getType(), parts.type(), found.old.getType(),
                             found.factors.getType()};

  // Rows without a reference, as in the first iteration, are not tried; nor could weights be
  // compared where the reference is -inf and the base 0.
  Value least = splat(b, loc, found.old.getType(), -INFINITY);
  Value absent = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::ULE, found.old, least);
  Value none = ngpu::AnyInWarpOp::create(b, loc, b.getI1Type(), absent);
  types.push_back(b.getI1Type());
  auto branch = scf::IfOp::create(b, loc, types, none, /*withElseRegion=*/true);
  types.pop_back();
  OpBuilder then = OpBuilder::atBlockBegin(&branch.getThenRegion().front());
  SmallVector<Value> exact = asBefore(then);
  exact.push_back(arith::ConstantOp::create(then, loc, then.getBoolAttr(true)));
  scf::YieldOp::create(then, loc, exact);

  OpBuilder tries = OpBuilder::atBlockBegin(&branch.getElseRegion().front());
  IRMapping map;
  map.map(found.next, found.old);
  Value weights = cloneBehind(tries, found.weights.getResult(), found.top, found.scaled, map);
  Value sums = parts.ofWeights(tries, weights);
  Value bound = splat(tries, loc, sums.getType(), std::exp2(found.threshold));
  Value great = arith::CmpFOp::create(tries, loc, arith::CmpFPredicate::UGT, sums, bound);
  Value any = ngpu::AnyInWarpOp::create(tries, loc, tries.getI1Type(), great);
  Value ones = splat(tries, loc, found.factors.getType(), 1);
  auto inner = scf::IfOp::create(tries, loc, types, any, /*withElseRegion=*/true);
  OpBuilder again = OpBuilder::atBlockBegin(&inner.getThenRegion().front());
  scf::YieldOp::create(again, loc, asBefore(again));
  OpBuilder keeps = OpBuilder::atBlockBegin(&inner.getElseRegion().front());
  scf::YieldOp::create(keeps, loc, ValueRange{weights, sums, found.old, ones});
  SmallVector<Value> results(inner.getResults());
  results.push_back(any);
  scf::YieldOp::create(tries, loc, results);
  b.setInsertionPointAfter(branch);

  found.weights.getResult().replaceAllUsesExcept(branch.getResult(0), found.sum);
  std::optional<unsigned> carried = carriedSum(loop, found);
  if (carried)
    addBehind(loop, found, *carried, parts, branch.getResult(1), branch.getResult(3));
  else
    found.sum.getResult()[0].replaceAllUsesWith(parts.ofRows(b, branch.getResult(1)));
  found.next.replaceAllUsesWith(branch.getResult(2));
  found.factors.getResult().replaceAllUsesWith(branch.getResult(3));
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*loop.getBody())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

} // namespace

void skipMaxima(func::FuncOp kernel, const GpuOptions &options) {
  constexpr int mostWarps = 8; // scores and weights would not both fit the registers
  if (options.skipMaxima == SkipMaxima::Never || options.numWarps > mostWarps)
    return;
  SmallVector<scf::ForOp> loops;
  kernel.walk([&](scf::ForOp loop) {
    if ((options.skipMaxima == SkipMaxima::Always || isSpecialised(loop)) &&
        !loop.getBody()->getOps<ngpu::WgmmaOp>().empty())
      loops.push_back(loop);
  });
  for (scf::ForOp loop : loops)
    for (unsigned number = 0; number < loop.getNumRegionIterArgs(); ++number)
      if (std::optional<Softmax> found = findSoftmax(loop, number)) {
        computeFirst(loop, *found);
        break;
      }
}

} // namespace nereid::gpu
