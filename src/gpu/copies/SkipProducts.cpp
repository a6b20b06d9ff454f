#include "gpu/copies/SkipProducts.h"

#include "ir/ngpu/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

/// Warps of a group.
constexpr int64_t groupWarps = 4;

/// The wait for the products whose sums `value` is made of, row by row, and that nothing else uses.
ngpu::WgmmaWaitOp waitBehind(Value value) {
  while (value.hasOneUse()) {
    Operation *op = value.getDefiningOp();
    if (auto wait = dyn_cast_or_null<ngpu::WgmmaWaitOp>(op))
      return wait;
    if (!isa_and_nonnull<tile::ExpandDimsOp, ngpu::ConvertLayoutOp, arith::TruncFOp>(op))
      break;
    value = op->getOperand(0);
  }
  return {};
}

/// A divided loop, one product of which only adds to what the loop carries.
struct Products {
  scf::ForOp loop;
  ngpu::WgmmaWaitOp wait; ///< for the last one
  ngpu::WgmmaOp product;
};

std::optional<Products> productsBehind(tile::DescStoreOp store) {
  Products found;
  found.wait = waitBehind(store.getValue());
  if (!found.wait || found.wait.getPending() || found.wait.getValues().size() != 1)
    return std::nullopt;
  auto sum = dyn_cast<OpResult>(found.wait.getValues()[0]);
  found.loop = sum ? dyn_cast<scf::ForOp>(sum.getOwner()) : nullptr;
  if (!found.loop || !sum.hasOneUse() || !found.loop->hasAttr(ngpu::specialisedName))
    return std::nullopt;
  auto all = llvm::to_vector(found.loop.getBody()->getOps<ngpu::WgmmaOp>());
  BlockArgument carried = found.loop.getRegionIterArg(sum.getResultNumber());
  Value next = found.loop.getYieldedValues()[sum.getResultNumber()];
  if (all.size() != 1 || all[0].getC() != carried || !carried.hasOneUse() ||
      next != all[0].getResult() || !next.hasOneUse())
    return std::nullopt;
  found.product = all[0];
  return found;
}

/// `value`, made of scalars that exist in front of `op`, computed there; null: it is not.
Value computedBefore(OpBuilder &builder, Operation *op, Value value, DominanceInfo &dominance,
                     IRMapping &map) {
  if (Value known = map.lookupOrNull(value))
    return known;
  if (dominance.properlyDominates(value, op))
    return value;
  Operation *made = value.getDefiningOp();
  if (!made || !isMemoryEffectFree(made) || made->getNumRegions() || made->getNumResults() != 1)
    return {};
  for (Value operand : made->getOperands()) {
    Value before = computedBefore(builder, op, operand, dominance, map);
    if (!before)
      return {};
    map.map(operand, before);
  }
  return builder.clone(*made, map)->getResult(0);
}

/// Is a row of the group of this warp inside? Rows are `chunk` of each group, from row `first` of a
/// tensor with `size` rows on; a lane's number has `lanes` bits. All warps of a group have the same
/// result.
Value isInside(OpBuilder &b, Location loc, Value first, Value size, int64_t chunk, int64_t groups,
               unsigned lanes) {
  int64_t warps = groups * groupWarps;
  std::array<SmallVector<layout::Coords, 8>, layout::kAxes> bases;
  for (int32_t bit = 1; bit < warps; bit *= 2)
    bases[unsigned(layout::Axis::Warp)].push_back({bit});
  bases[unsigned(layout::Axis::Lane)].assign(lanes, {0});
  auto layout = ngpu::LayoutAttr::get(b.getContext(), layout::LinearLayout({warps}, bases));
  auto type = RankedTensorType::get({warps}, b.getI32Type(), layout);
  auto all = [&](Value scalar) -> Value { return tile::SplatOp::create(b, loc, type, scalar); };
  auto number = [&](int64_t value) {
    return all(arith::ConstantIntOp::create(b, loc, value, 32).getResult());
  };
  Value warp = tile::RangeOp::create(b, loc, type, 0, int32_t(warps));
  Value group = arith::DivUIOp::create(b, loc, warp, number(groupWarps));
  Value row = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, group, number(chunk)),
                                    all(first));
  // Its last row is not in front of the tensor, its first one not behind.
  Value last = arith::AddIOp::create(b, loc, row, number(chunk - 1));
  using Compare = arith::CmpIPredicate;
  Value inside =
      arith::AndIOp::create(b, loc, arith::CmpIOp::create(b, loc, Compare::sge, last, number(0)),
                            arith::CmpIOp::create(b, loc, Compare::slt, row, all(size)));
  return ngpu::AnyInWarpOp::create(b, loc, b.getI1Type(), inside);
}

} // namespace

bool skipUnstoredProducts(tile::DescStoreOp store, int64_t chunk, int64_t groups) {
  std::optional<Products> found = productsBehind(store);
  auto made = store.getDesc().getDefiningOp<tile::MakeDescriptorOp>();
  size_t rows = store.getCoords().size() - 2; // the dimension
  auto block = cast<tile::DescType>(made.getType()).getShape();
  // Tensors of two dimensions are mostly as long as whole blocks, and their loops would be twice as
  // large.
  if (!found || !rows || block[rows] != chunk * groups)
    return false;
  scf::ForOp loop = found->loop;
  Location loc = loop.getLoc();
  OpBuilder b(loop);
  DominanceInfo dominance(store->getParentOfType<func::FuncOp>());
  IRMapping map;
  Value first = computedBefore(b, loop, store.getCoords()[rows], dominance, map);
  Value size = computedBefore(b, loop, made.getShape()[rows], dominance, map);
  if (!first || !size)
    return false;
  auto sums = cast<RankedTensorType>(found->wait.getResult(0).getType());
  unsigned lanes = ngpu::layoutOf(sums).getLayout().bits(layout::Axis::Lane);
  Value stored = isInside(b, loc, first, size, chunk, groups, lanes);
  auto branch = scf::IfOp::create(b, loc, loop.getResultTypes(), stored, /*withElse=*/true);
  loop.replaceAllUsesWith(branch.getResults());
  unsigned number = cast<OpResult>(found->wait.getValues()[0]).getResultNumber();
  found->wait.getResult(0).replaceAllUsesWith(branch.getResult(number));

  OpBuilder other = branch.getElseBodyBuilder();
  IRMapping copies;
  auto without = cast<scf::ForOp>(other.clone(*loop, copies));
  auto product = cast<ngpu::WgmmaOp>(copies.lookup(found->product.getResult()).getDefiningOp());
  product.getResult().replaceAllUsesWith(product.getC());
  product.erase();
  for (auto wait : llvm::make_early_inc_range(without.getBody()->getOps<ngpu::WgmmaWaitOp>()))
    wait.erase();
  scf::YieldOp::create(other, loc, without.getResults());

  OpBuilder own = branch.getThenBodyBuilder();
  loop->moveBefore(branch.thenBlock(), branch.thenBlock()->end());
  found->wait->moveAfter(loop);
  found->wait.getValuesMutable().assign(loop.getResult(number));
  SmallVector<Value> results(loop.getResults());
  results[number] = found->wait.getResult(0);
  own.setInsertionPointToEnd(branch.thenBlock());
  scf::YieldOp::create(own, loc, results);
  return true;
}

} // namespace nereid::gpu
