#include "gpu/schedule/OverlapProducts.h"

#include "gpu/copies/TensorMaps.h"
#include "gpu/schedule/Rings.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

/// Does `value` depend on a result of `op`, both of one block?
bool dependsOn(Value value, Operation *op) {
  llvm::DenseSet<Operation *> seen;
  SmallVector<Value> left = {value};
  while (!left.empty()) {
    Operation *from = left.pop_back_val().getDefiningOp();
    if (from)
      from = op->getBlock()->findAncestorOpInBlock(*from);
    if (!from || !seen.insert(from).second)
      continue;
    if (from == op)
      return true;
    from->walk([&](Operation *inner) { llvm::append_range(left, inner->getOperands()); });
  }
  return false;
}

/// The ops between the accumulator that the loop carries and `second`; false when it is also used
/// otherwise.
bool findUpdates(scf::ForOp loop, ProductPair &pair) {
  Block *body = loop.getBody();
  llvm::DenseSet<Operation *> found;
  SmallVector<Value> left = {loop.getRegionIterArg(pair.accumulator)};
  while (!left.empty()) {
    for (OpOperand &use : left.pop_back_val().getUses()) {
      Operation *user = use.getOwner();
      if (user == pair.second) {
        if (&use != &pair.second.getCMutable())
          return false;
        continue;
      }
      if (user->getBlock() != body || user->getNumRegions() || !isMemoryEffectFree(user) ||
          user->hasTrait<OpTrait::IsTerminator>())
        return false;
      if (found.insert(user).second)
        llvm::append_range(left, user->getResults());
    }
  }
  for (Operation &op : *body)
    if (found.contains(&op))
      pair.updates.push_back(&op);
  return true;
}

} // namespace

std::optional<ProductPair> findProductPair(scf::ForOp loop) {
  Block *body = loop.getBody();
  SmallVector<ngpu::WgmmaOp> products(body->getOps<ngpu::WgmmaOp>());
  if (products.size() != 2 || !staysInFlight(products[1]) || staysInFlight(products[0]) ||
      products[0].getPromoteK() || products[1].getPromoteK() || products[1].getUseAcc() ||
      !isa<RankedTensorType>(products[1].getA().getType()) ||
      products[1].getA().getDefiningOp<ngpu::ConvertLayoutOp>()) // of 8 bits: through shared memory
    return {};
  bool other = false; // products of other units, buffers that the body fills by itself
  loop.getBody()->walk([&](Operation *op) {
    other |= isDot(op) && !llvm::is_contained(products, op);
    other |= isa<ngpu::LocalStoreOp>(op);
    if (auto alloc = dyn_cast<ngpu::LocalAllocOp>(op)) {
      // Blocks that the unit cannot read as the engine writes them are written again by threads, as
      // 8-bit ones in rows of N.
      auto load = alloc.getSrc() ? alloc.getSrc().getDefiningOp<tile::DescLoadOp>() : nullptr;
      other |=
          !load || alloc.getType() != copyBufferOf(cast<tile::DescType>(load.getDesc().getType()));
    }
  });
  ProductPair pair{products[0], products[1], products[1]->use_begin()->getOperandNumber(), {}};
  if (other || !dependsOn(pair.second.getA(), pair.first) || !findUpdates(loop, pair))
    return {};
  Operation *source = behindViews(pair.second.getB());
  if (!isa_and_nonnull<ngpu::LocalAllocOp, ngpu::SlotOp>(source) || source->getBlock() != body)
    return {};
  return pair;
}

bool feedsSecond(Value load, const ProductPair &pair) {
  Operation *source = behindViews(const_cast<ProductPair &>(pair).second.getB());
  auto alloc = dyn_cast_or_null<ngpu::LocalAllocOp>(source);
  return alloc && alloc.getSrc() == load && load.hasOneUse();
}

bool canPassOn(scf::ForOp loop, scf::ForOp next) {
  std::optional<ProductPair> one = findProductPair(loop), other = findProductPair(next);
  if (!one || !other || loop->getBlock() != next->getBlock() || !loop->isBeforeInBlock(next))
    return false;
  Value sum = loop.getResult(one->accumulator);
  return sum.hasOneUse() && next.getInitArgs()[other->accumulator] == sum &&
         one->second.getA().getType() == other->second.getA().getType();
}

namespace {

class Overlap {
public:
  Overlap(RewriterBase &rewriter, scf::ForOp &loop, const PairChannels &channels, bool inTurns,
          const PendingProduct *before, PendingProduct *after)
      : rewriter(rewriter), loop(loop), channels(channels), inTurns(inTurns), before(before),
        after(after), loc(loop.getLoc()) {}
  Operation *run();

private:
  void carry();
  /// The second product of the iteration whose operands are given.
  ngpu::WgmmaOp issueSecond(OpBuilder &builder, Value a, Value slot, Value c);
  void issueBoth();
  void landSecond();
  /// Behind the loop: is there a second product that has not been issued?
  Value isPending();
  Operation *finish();
  void pass(OpBuilder &builder) {
    if (inTurns)
      ngpu::TurnPassOp::create(builder, loc);
  }

  RewriterBase &rewriter;
  scf::ForOp &loop;
  PairChannels channels;
  bool inTurns;
  const PendingProduct *before;
  PendingProduct *after;
  Location loc;
  ProductPair pair;
  Value carriedA, carriedHold, carriedSlot;
  Value flying; ///< the accumulator, while the second product of the iteration before adds to it
};

/// The loop carries A of the second product, and the slot of its B.
void Overlap::carry() {
  rewriter.setInsertionPoint(loop);
  SmallVector<Value> initial;
  if (before) {
    initial = {before->a, before->hold, before->slot};
  } else {
    Type type = pair.second.getA().getType();
    Value nothing =
        arith::ConstantOp::create(rewriter, loc, cast<TypedAttr>(rewriter.getZeroAttr(type)));
    Value none = ngpu::ChannelNoneOp::create(rewriter, loc);
    Value zero = arith::ConstantOp::create(rewriter, loc, rewriter.getI32IntegerAttr(0));
    initial = {nothing, none, zero};
  }
  rewriter.setInsertionPoint(loop.getBody()->getTerminator());
  Value hold =
      ngpu::ChannelGetOp::create(rewriter, loc, channels.second, channels.slot, channels.phase);
  rewriter.setInsertionPoint(loop);
  auto attributes = loop->getDiscardableAttrDictionary();
  unsigned slotNumber = cast<BlockArgument>(channels.slot).getArgNumber();
  auto fresh = cast<scf::ForOp>(*loop.replaceWithAdditionalYields(
      rewriter, initial, /*replaceInitOperandUsesInLoop=*/false,
      [&](OpBuilder &, Location, ArrayRef<BlockArgument>) {
        return SmallVector<Value>{pair.second.getA(), hold, channels.slot};
      }));
  fresh->setDiscardableAttrs(attributes);
  loop = fresh;
  channels.slot = loop.getBody()->getArgument(slotNumber);
  auto args = loop.getRegionIterArgs().take_back(3);
  carriedA = args[0];
  carriedHold = args[1];
  carriedSlot = args[2];
}

ngpu::WgmmaOp Overlap::issueSecond(OpBuilder &builder, Value a, Value slot, Value c) {
  SmallVector<Operation *> views;
  Operation *op = pair.second.getB().getDefiningOp();
  for (; isWholeView(op); op = op->getOperand(0).getDefiningOp())
    views.push_back(op);
  auto read = cast<ngpu::SlotOp>(op);
  IRMapping map;
  map.map(read.getIndex(), slot);
  builder.clone(*read, map);
  for (Operation *view : llvm::reverse(views))
    builder.clone(*view, map);
  map.map(pair.second.getA(), a);
  map.map(pair.second.getC(), c);
  return cast<ngpu::WgmmaOp>(builder.clone(*pair.second, map));
}

/// The first product, then the second one of the iteration before, if there was one.
void Overlap::issueBoth() {
  if (inTurns) {
    rewriter.setInsertionPoint(pair.first);
    ngpu::TurnTakeOp::create(rewriter, loc);
  }
  pair.first.setAsync(true);
  rewriter.setInsertionPointAfter(pair.first);
  Value product = pair.first.getResult(), sum = loop.getRegionIterArg(pair.accumulator);
  Value later = arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::ne,
                                      loop.getInductionVar(), loop.getLowerBound());
  if (before)
    later = arith::OrIOp::create(rewriter, loc, later, before->any);
  auto branch = scf::IfOp::create(rewriter, loc, TypeRange{product.getType(), sum.getType()}, later,
                                  /*withElseRegion=*/true);
  OpBuilder then = OpBuilder::atBlockBegin(&branch.getThenRegion().front());
  ngpu::WgmmaOp second = issueSecond(then, carriedA, carriedSlot, sum);
  second.setAsync(true);
  pass(then);
  Value there = ngpu::WgmmaWaitOp::create(then, loc, product.getType(), 1, product).getResult(0);
  scf::YieldOp::create(then, loc, ValueRange{there, second.getResult()});
  OpBuilder otherwise = OpBuilder::atBlockBegin(&branch.getElseRegion().front());
  pass(otherwise);
  Value alone =
      ngpu::WgmmaWaitOp::create(otherwise, loc, product.getType(), 0, product).getResult(0);
  scf::YieldOp::create(otherwise, loc, ValueRange{alone, sum});
  rewriter.replaceUsesWithIf(product, branch.getResult(0),
                             [&](OpOperand &use) { return !branch->isAncestor(use.getOwner()); });
  flying = branch.getResult(1);
}

/// At the end of the iteration: the second product in flight has ended, the accumulator is updated.
void Overlap::landSecond() {
  Operation *yield = loop.getBody()->getTerminator();
  Operation *get = yield;
  while (!isa<ngpu::ChannelGetOp>(get) || get->getOperand(0) != channels.second)
    get = get->getPrevNode();
  rewriter.setInsertionPoint(get);
  Value sum = loop.getRegionIterArg(pair.accumulator);
  // What the iteration has computed passes through the wait: nothing of it may sink below.
  SmallVector<Value> values = {flying};
  SmallVector<OpOperand *> uses;
  auto passThrough = [&](OpOperand &use) {
    auto type = dyn_cast<RankedTensorType>(use.get().getType());
    Operation *op = use.get().getDefiningOp();
    if (!type || !type.getElementType().isF32() || !op || op->getBlock() != loop.getBody())
      return;
    values.push_back(use.get());
    uses.push_back(&use);
  };
  // Narrowing A behind the wait lets it take the registers of the A that has been read.
  Operation *narrow = pair.second.getA().getDefiningOp();
  if (isa_and_nonnull<arith::TruncFOp>(narrow) && narrow->getBlock() == loop.getBody()) {
    narrow->moveBefore(yield);
    passThrough(narrow->getOpOperand(0));
  }
  for (OpOperand &use : yield->getOpOperands())
    if (use.get() != pair.second.getResult())
      passThrough(use);
  rewriter.setInsertionPointAfter(get);
  auto wait = ngpu::WgmmaWaitOp::create(rewriter, loc, TypeRange(ValueRange(values)), 0, values);
  for (auto [use, result] : llvm::zip(uses, wait.getResults().drop_front()))
    use->set(result);
  ngpu::ChannelReleaseOp::create(rewriter, loc, channels.second, carriedHold, Value());
  for (Operation *update : pair.updates) {
    update->replaceUsesOfWith(sum, wait.getResult(0));
    update->moveBefore(yield);
  }
  Value updated = pair.second.getC() == sum ? wait.getResult(0) : pair.second.getC();
  yield->setOperand(pair.accumulator, updated);
}

Value Overlap::isPending() {
  Value any = arith::CmpIOp::create(
      rewriter, loc, loop.getUnsignedCmp() ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt,
      loop.getLowerBound(), loop.getUpperBound());
  return before ? arith::OrIOp::create(rewriter, loc, any, before->any) : any;
}

/// Behind the loop: the second product of the last iteration.
Operation *Overlap::finish() {
  rewriter.setInsertionPointAfter(loop);
  Value sum = loop.getResult(pair.accumulator);
  auto carried = loop.getResults().take_back(3);
  Value any = isPending();
  if (after) {
    *after = {carried[0], carried[1], carried[2], any};
    return loop;
  }
  auto branch =
      scf::IfOp::create(rewriter, loc, TypeRange{sum.getType()}, any, /*withElseRegion=*/true);
  OpBuilder then = OpBuilder::atBlockBegin(&branch.getThenRegion().front());
  Value last = issueSecond(then, carried[0], carried[2], sum).getResult();
  scf::YieldOp::create(then, loc, last);
  OpBuilder otherwise = OpBuilder::atBlockBegin(&branch.getElseRegion().front());
  scf::YieldOp::create(otherwise, loc, sum);
  rewriter.replaceUsesWithIf(sum, branch.getResult(0),
                             [&](OpOperand &use) { return !branch->isAncestor(use.getOwner()); });
  rewriter.setInsertionPointAfter(branch);
  return ngpu::ChannelReleaseOp::create(rewriter, loc, channels.second, carried[1], Value());
}

Operation *Overlap::run() {
  pair = *findProductPair(loop);
  rewriter.setInsertionPointToStart(loop.getBody());
  Value hold =
      ngpu::ChannelGetOp::create(rewriter, loc, channels.first, channels.slot, channels.phase);
  carry();
  issueBoth();
  rewriter.setInsertionPointAfter(flying.getDefiningOp());
  ngpu::ChannelReleaseOp::create(rewriter, loc, channels.first, hold, Value());
  landSecond();
  Operation *last = finish();
  rewriter.eraseOp(pair.second);
  return last;
}

} // namespace

Operation *overlapProducts(RewriterBase &rewriter, scf::ForOp &loop, const PairChannels &channels,
                           bool inTurns, const PendingProduct *before, PendingProduct *after) {
  return Overlap(rewriter, loop, channels, inTurns, before, after).run();
}

} // namespace nereid::gpu
