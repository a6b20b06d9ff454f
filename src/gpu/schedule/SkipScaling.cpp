#include "gpu/schedule/SkipScaling.h"

#include "gpu/schedule/PartitionWarps.h"
#include "ir/ngpu/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace nereid::gpu {

Value factorsBehind(Value value) {
  bool broadcast = false;
  while (Operation *op = value.getDefiningOp()) {
    if (isa<tile::BroadcastOp>(op))
      broadcast = true;
    else if (!isa<tile::ExpandDimsOp, ngpu::ConvertLayoutOp>(op))
      break;
    value = op->getOperand(0);
  }
  return broadcast ? value : Value();
}

Value behindMoves(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto wait = dyn_cast<ngpu::WgmmaWaitOp>(op))
      value = wait.getValues()[cast<OpResult>(value).getResultNumber()];
    else if (isa<ngpu::ConvertLayoutOp>(op))
      value = op->getOperand(0);
    else
      break;
  }
  return value;
}

namespace {

/// Is `factors` exp(old - new), where `loop` carries `old` and goes on with `new`?
bool isChangeOfCarried(Value factors, scf::ForOp loop) {
  Operation *exp = factors.getDefiningOp();
  if (!isa_and_nonnull<math::ExpOp, math::Exp2Op>(exp))
    return false;
  auto difference = exp->getOperand(0).getDefiningOp<arith::SubFOp>();
  if (!difference)
    return false;
  auto old = dyn_cast<BlockArgument>(behindMoves(difference.getLhs()));
  if (!old || old.getOwner() != loop.getBody() || old == loop.getInductionVar())
    return false;
  Value next = loop.getBody()->getTerminator()->getOperand(old.getArgNumber() - 1);
  return behindMoves(next) == behindMoves(difference.getRhs());
}

/// Whether factors that a branch for the rows of a warp results in (SkipMaxima.h) may be other than
/// 1: the branch's last result. Null: they are no such factors.
Value conditionOf(Value factors) {
  auto branch = factors.getDefiningOp<scf::IfOp>();
  if (!branch || !branch.getCondition().getDefiningOp<ngpu::AnyInWarpOp>())
    return {};
  unsigned number = cast<OpResult>(factors).getResultNumber();
  auto inner = branch.elseYield()->getOperand(number).getDefiningOp<scf::IfOp>();
  if (!inner || branch.elseYield()->getOperands().back() != inner.getCondition())
    return {};
  DenseFPElementsAttr ones;
  Value otherwise = inner.elseYield()->getOperand(number);
  bool same = matchPattern(otherwise, m_Constant(&ones)) && ones.isSplat() &&
              ones.getSplatValue<APFloat>().isExactlyValue(1);
  return same ? branch.getResults().back() : Value();
}

void makeConditional(arith::MulFOp product, Value scaled, Value factors) {
  OpBuilder b(product);
  Location loc = product.getLoc();
  Value any = conditionOf(factors);
  if (!any) {
    auto type = cast<RankedTensorType>(factors.getType());
    Value one = arith::ConstantOp::create(
        b, loc,
        cast<TypedAttr>(DenseElementsAttr::get(type, b.getFloatAttr(type.getElementType(), 1))));
    Value differs = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, factors, one);
    any = ngpu::AnyInWarpOp::create(b, loc, b.getI1Type(), differs);
  }
  auto branch =
      scf::IfOp::create(b, loc, TypeRange{product.getType()}, any, /*withElseRegion=*/true);
  product.replaceAllUsesWith(branch.getResult(0));
  OpBuilder then = OpBuilder::atBlockBegin(&branch.getThenRegion().front());
  auto yield = scf::YieldOp::create(then, loc, product.getResult());
  product->moveBefore(yield);
  OpBuilder otherwise = OpBuilder::atBlockBegin(&branch.getElseRegion().front());
  scf::YieldOp::create(otherwise, loc, scaled);
}

} // namespace

void skipScaling(func::FuncOp kernel, const GpuOptions &options) {
  if (options.skipScaling == SkipScaling::Never)
    return;
  kernel.walk([&](scf::ForOp loop) {
    if (options.skipScaling == SkipScaling::Divided && !isSpecialised(loop))
      return;
    bool multiplies = false;
    loop.getBody()->walk([&](ngpu::WgmmaOp) { multiplies = true; });
    if (!multiplies)
      return;
    for (auto product : llvm::make_early_inc_range(loop.getBody()->getOps<arith::MulFOp>())) {
      // The factors of a whole row: fewer comparisons than multiplications.
      for (bool right : {false, true}) {
        Value factors = factorsBehind(right ? product.getRhs() : product.getLhs());
        if (!factors || (!conditionOf(factors) && !isChangeOfCarried(factors, loop)))
          continue;
        makeConditional(product, right ? product.getLhs() : product.getRhs(), factors);
        break;
      }
    }
  });
}

} // namespace nereid::gpu
