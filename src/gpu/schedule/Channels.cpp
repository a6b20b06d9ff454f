// Channels: what must hold of them, and the two mbarriers that each becomes.
//
// A channel of n slots has n mbarriers "full", which expect the producer and the bytes it
// announces, and n "empty", which expect one arrival of every reading warp. The parity of the turn
// tells which phase to wait for: turn t of a slot is full when phase t of "full" has completed, and
// may be filled when phase t - 1 of "empty" has. Before turn 0 there is none, and an mbarrier says
// at once that the phase of parity 1 is over: so the producer waits for the opposite parity.
//
// There is no deadlock, and no slot is overwritten while it is read, because
//
//   - a put waits, announces and copies in one op, and announces exactly the bytes of its copies;
//   - every hold is released exactly once on every path: it has one use in its block, a release or
//     a yield, or one in each of the branches of one `if`;
//   - puts and gets of a channel stand in equal loop nests of two parts: loops of the same bounds,
//     branches on the same conditions. `sameNest` compares the expressions;
//   - what reads a slot (a product that is waited for later) ends before its hold is released: a
//     hold that leaves the iteration goes together with products in flight.
//
// A paired channel is filled by the producers of both blocks of a pair (PairedCopies.h). Its
// "empty" expect the readers of both. Who releases a slot arrives at its own block's, then at the
// other block's, or at its own twice where the other block does not come there (`beside` false, as
// in a cluster of one). So every block counts the same number of arrivals in every turn, and a
// slot is empty when nobody reads it in either block. No warp arrives for a turn before the
// mbarrier has completed the one before: the other block's readers get turn t + 1 when their
// producer has seen turn t released, and each warp of this block has arrived here before it arrives
// there. The copies of the other block are announced by this block's producer, with its own:
// mbarrier "full" is given bytes before they are announced if the other producer is ahead, but does
// not complete without the arrival of this one. All parts begin when both blocks have made their
// mbarriers, and no block ends before both have computed.
#include "gpu/copies/TensorMaps.h"
#include "gpu/schedule/PartitionWarps.h"
#include "gpu/schedule/Rings.h"
#include "gpu/schedule/SlotReads.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

llvm::Error wrong(const llvm::Twine &what) {
  return llvm::createStringError("internal error: channels: " + what);
}

bool isHold(Value value) {
  return isa<ngpu::HoldType>(value.getType());
}

//===--- holds -------------------------------------------------------------------------------===//

/// Is `value` used up exactly once on every path from the beginning of `block` (or from its
/// definition there) to the end?
bool usedUpOnce(Value value, Block *block) {
  unsigned uses = 0;
  llvm::SmallDenseMap<Operation *, llvm::SmallPtrSet<Region *, 2>> branches;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (!block->getParentOp()->isAncestor(user))
      continue;
    Operation *here = block->findAncestorOpInBlock(*user);
    if (!here)
      continue;
    if (here == user) {
      ++uses;
      continue;
    }
    if (!isa<scf::IfOp>(here))
      return false; // in a loop: any number of times
    for (Region &region : here->getRegions())
      if (region.isAncestor(user->getParentRegion()))
        branches[here].insert(&region);
  }
  for (auto &[branch, regions] : branches) {
    ++uses;
    for (Region &region : branch->getRegions())
      if (region.empty() || !usedUpOnce(value, &region.front()))
        return false;
  }
  return uses == 1;
}

llvm::Error verifyHolds(func::FuncOp kernel) {
  bool fine = true;
  auto check = [&](Value value) {
    if (isHold(value) && !usedUpOnce(value, value.getParentBlock()))
      fine = false;
  };
  kernel.walk([&](Operation *op) {
    for (Value result : op->getResults())
      check(result);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Value arg : block.getArguments())
          check(arg);
  });
  return fine ? llvm::Error::success()
              : wrong("a hold is not given back exactly once on every path");
}

//===--- loop nests --------------------------------------------------------------------------===//

/// Compares scalars of two parts by how they are computed.
class SameNest {
public:
  bool values(Value a, Value b);
  /// The loops and branches around two ops, up to their parts; and what stands around them.
  bool around(Operation *a, Operation *b);

private:
  llvm::DenseMap<Value, Value> known;
};

bool SameNest::values(Value a, Value b) {
  if (a == b)
    return true;
  auto found = known.find(a);
  if (found != known.end())
    return found->second == b;
  if (a.getType() != b.getType())
    return false;
  known[a] = b; // values that loops carry depend on themselves
  auto same = [&] {
    auto argA = dyn_cast<BlockArgument>(a), argB = dyn_cast<BlockArgument>(b);
    Operation *x = argA ? argA.getOwner()->getParentOp() : a.getDefiningOp();
    Operation *y = argB ? argB.getOwner()->getParentOp() : b.getDefiningOp();
    if (bool(argA) != bool(argB) || x->getName() != y->getName())
      return false;
    if (auto loopX = dyn_cast<scf::ForOp>(x)) {
      auto loopY = cast<scf::ForOp>(y);
      if (!values(loopX.getLowerBound(), loopY.getLowerBound()) ||
          !values(loopX.getUpperBound(), loopY.getUpperBound()) ||
          !values(loopX.getStep(), loopY.getStep()) ||
          loopX.getUnsignedCmp() != loopY.getUnsignedCmp())
        return false;
      if (argA && argA == loopX.getInductionVar())
        return argB == loopY.getInductionVar();
      if (argB && argB == loopY.getInductionVar())
        return false;
      unsigned i = argA ? argA.getArgNumber() - 1 : cast<OpResult>(a).getResultNumber();
      unsigned j = argB ? argB.getArgNumber() - 1 : cast<OpResult>(b).getResultNumber();
      return values(loopX.getInitArgs()[i], loopY.getInitArgs()[j]) &&
             values(loopX.getBody()->getTerminator()->getOperand(i),
                    loopY.getBody()->getTerminator()->getOperand(j));
    }
    if (auto branchX = dyn_cast<scf::IfOp>(x)) {
      auto branchY = cast<scf::IfOp>(y);
      unsigned i = cast<OpResult>(a).getResultNumber(), j = cast<OpResult>(b).getResultNumber();
      return values(branchX.getCondition(), branchY.getCondition()) &&
             values(branchX.thenYield()->getOperand(i), branchY.thenYield()->getOperand(j)) &&
             values(branchX.elseYield()->getOperand(i), branchY.elseYield()->getOperand(j));
    }
    return !argA && x->getNumRegions() == 0 && x->getNumOperands() == y->getNumOperands() &&
           x->getAttrDictionary() == y->getAttrDictionary() &&
           (isMemoryEffectFree(x) || isa<tile::LoadOp>(x)) &&
           llvm::all_of(llvm::zip(x->getOperands(), y->getOperands()),
                        [&](auto pair) { return values(std::get<0>(pair), std::get<1>(pair)); });
  };
  return same();
}

bool SameNest::around(Operation *a, Operation *b) {
  while (true) {
    Operation *x = a->getParentOp(), *y = b->getParentOp();
    if (isa<ngpu::WarpSpecializeOp>(x) || isa<ngpu::WarpSpecializeOp>(y))
      return x == y;
    if (x->getName() != y->getName() ||
        a->getParentRegion()->getRegionNumber() != b->getParentRegion()->getRegionNumber())
      return false;
    if (auto loop = dyn_cast<scf::ForOp>(x)) {
      if (!values(loop.getInductionVar(), cast<scf::ForOp>(y).getInductionVar()))
        return false;
    } else if (auto branch = dyn_cast<scf::IfOp>(x)) {
      if (!values(branch.getCondition(), cast<scf::IfOp>(y).getCondition()))
        return false;
    } else {
      return false;
    }
    a = x;
    b = y;
  }
}

/// The ops of type `Op` that use the channel, in the order of the program.
template <typename Op> SmallVector<Op> usersInOrder(ngpu::ChannelOp channel) {
  SmallVector<Op> found;
  channel->getParentOfType<func::FuncOp>().walk<WalkOrder::PreOrder>([&](Op op) {
    if (op.getChannel() == channel.getResult())
      found.push_back(op);
  });
  return found;
}

/// All sides of a paired channel mean the same by "beside", those of another have no such thing.
llvm::Error verifyPairs(ngpu::ChannelOp channel, MutableArrayRef<ngpu::ChannelPutOp> puts,
                        SameNest &nest) {
  auto releases = usersInOrder<ngpu::ChannelReleaseOp>(channel);
  auto has = [](auto op) { return bool(op.getBeside()); };
  if (!channel.getPaired())
    return llvm::none_of(puts, has) && llvm::none_of(releases, has)
               ? llvm::Error::success()
               : wrong("a channel of one block waits for another block");
  if (puts.size() != 1 || !has(puts[0]) || !llvm::all_of(releases, has))
    return wrong("a paired channel has one place where it is filled, and says there and at every "
                 "release whether the other block is there, too");
  for (ngpu::ChannelReleaseOp release : releases)
    if (!nest.values(puts[0].getBeside(), release.getBeside()))
      return wrong("the sides of a paired channel differ in whether the other block is there");
  return llvm::Error::success();
}

llvm::Error verifyChannel(ngpu::ChannelOp channel) {
  auto puts = usersInOrder<ngpu::ChannelPutOp>(channel);
  auto gets = usersInOrder<ngpu::ChannelGetOp>(channel);
  if (puts.empty() || gets.empty())
    return wrong(gets.empty() ? "a channel has no reader" : "a channel has no writer");
  if (puts.size() != gets.size())
    return wrong("a channel is filled and read at different numbers of places");
  auto partOf = [](Operation *op) -> Region * {
    while (op && !isa<ngpu::WarpSpecializeOp>(op->getParentOp()))
      op = op->getParentOp();
    return op ? op->getParentRegion() : nullptr;
  };
  Region *reader = partOf(gets[0]), *writer = partOf(puts[0]);
  if (!reader || !writer || reader == writer)
    return wrong("a channel leads from one part to another");
  for (Operation *user : channel->getUsers())
    if (partOf(user) != (isa<ngpu::ChannelPutOp>(user) ? writer : reader))
      return wrong(isa<ngpu::ChannelReleaseOp>(user)
                       ? "a slot is given back by another part than the one that read it"
                       : "a channel leads from one part to another");
  if (ngpu::warpCount(gets[0]) != channel.getReaders())
    return wrong("the warps that read a channel are not those that it expects");
  // The places correspond in order: each in a nest of its own or behind one another in one nest.
  SameNest nest;
  for (auto [put, get] : llvm::zip(puts, gets)) {
    if (!nest.around(put, get))
      return wrong("writers and readers of a channel do not run equally often");
    if (!nest.values(put.getSlot(), get.getSlot()) || !nest.values(put.getPhase(), get.getPhase()))
      return wrong("the two sides of a channel count its slots differently");
  }
  return verifyPairs(channel, puts, nest);
}

//===--- lowering ----------------------------------------------------------------------------===//

class Lowering {
public:
  explicit Lowering(ngpu::ChannelOp channel) : channel(channel), builder(channel) {}
  void run();

private:
  Value barrierOf(Value ring, Value slot, Location loc) {
    return ngpu::SlotOp::create(builder, loc, mbarrierType(builder.getContext()), ring, slot);
  }
  Value constant(int64_t value, Location loc) {
    return arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(value));
  }
  void lower(ngpu::ChannelPutOp put);
  void lower(ngpu::ChannelGetOp get);
  void lower(ngpu::ChannelReleaseOp release);

  ngpu::ChannelOp channel;
  OpBuilder builder;
  Value full, empty;
};

void Lowering::run() {
  Location loc = channel.getLoc();
  auto slots = unsigned(cast<ngpu::ChannelType>(channel.getType()).getSlots());
  full = makeRing(builder, loc, mbarrierType(builder.getContext()), slots);
  empty = makeRing(builder, loc, mbarrierType(builder.getContext()), slots);
  for (unsigned k = 0; k < slots; ++k) {
    Value slot = constant(k, loc);
    ngpu::MBarrierInitOp::create(builder, loc, barrierOf(full, slot, loc), 1);
    ngpu::MBarrierInitOp::create(builder, loc, barrierOf(empty, slot, loc),
                                 channel.getReaders() * (channel.getPaired() ? 2 : 1));
  }
  ngpu::FenceAsyncOp::create(builder, loc, /*global=*/false, /*cluster=*/channel.getPaired());
  // Releases first: they look at where their holds come from.
  SmallVector<Operation *> users(channel->getUsers());
  std::stable_partition(users.begin(), users.end(), llvm::IsaPred<ngpu::ChannelReleaseOp>);
  for (Operation *user : users) {
    builder.setInsertionPoint(user);
    if (auto put = dyn_cast<ngpu::ChannelPutOp>(user))
      lower(put);
    else if (auto get = dyn_cast<ngpu::ChannelGetOp>(user))
      lower(get);
    else
      lower(cast<ngpu::ChannelReleaseOp>(user));
  }
  channel.erase();
}

void Lowering::lower(ngpu::ChannelPutOp put) {
  Location loc = put.getLoc();
  Value before = arith::XOrIOp::create(builder, loc, put.getPhase(), constant(1, loc));
  ngpu::MBarrierWaitOp::create(builder, loc, barrierOf(empty, put.getSlot(), loc), before, Value());
  Value barrier = barrierOf(full, put.getSlot(), loc);
  int64_t bytes = 0;
  Block &body = put.getBody().front();
  for (auto load : body.getOps<ngpu::TmaLoadOp>())
    bytes += load.getBuffer().getType().getBytes();
  ngpu::MBarrierExpectOp::create(builder, loc, barrier, int32_t(bytes), Value());
  body.getArgument(0).replaceAllUsesWith(barrier);
  put->getBlock()->getOperations().splice(put->getIterator(), body.getOperations());
  put.erase();
}

void Lowering::lower(ngpu::ChannelGetOp get) {
  ngpu::MBarrierWaitOp::create(builder, get.getLoc(), barrierOf(full, get.getSlot(), get.getLoc()),
                               get.getPhase(), Value());
  get->getResult(0).replaceAllUsesWith(get.getSlot());
  get.erase();
}

void Lowering::lower(ngpu::ChannelReleaseOp release) {
  Location loc = release.getLoc();
  Value slot = release->getOperand(1), exists;
  // A hold that a loop carries may be that of no slot.
  if (!slot.getDefiningOp<ngpu::ChannelGetOp>())
    exists = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, slot, constant(0, loc));
  ngpu::MBarrierArriveOp::create(builder, loc, barrierOf(empty, slot, loc), 1, /*each_warp=*/true,
                                 exists, release.getBeside());
  release.erase();
}

} // namespace

llvm::Error verifyChannels(func::FuncOp kernel) {
  if (llvm::Error error = verifyHolds(kernel))
    return error;
  llvm::Error error = llvm::Error::success();
  kernel.walk([&](Operation *op) {
    if (error)
      return WalkResult::interrupt();
    if (auto channel = dyn_cast<ngpu::ChannelOp>(op))
      error = verifyChannel(channel);
    else if (auto parts = dyn_cast<ngpu::WarpSpecializeOp>(op))
      error = verifySlotReads(parts);
    return WalkResult::advance();
  });
  return error;
}

llvm::Error lowerChannels(func::FuncOp kernel) {
  SmallVector<ngpu::ChannelOp> channels;
  kernel.walk([&](ngpu::ChannelOp channel) { channels.push_back(channel); });
  if (channels.empty())
    return llvm::Error::success();
  if (llvm::Error error = verifyChannels(kernel))
    return error;
  // A hold becomes the number of its slot; -1: of none.
  Type i32 = IntegerType::get(kernel.getContext(), 32);
  kernel.walk([&](Operation *op) {
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Value arg : block.getArguments())
          if (isHold(arg))
            arg.setType(i32);
    for (Value result : op->getResults())
      if (isHold(result))
        result.setType(i32);
    if (auto none = dyn_cast<ngpu::ChannelNoneOp>(op)) {
      OpBuilder builder(none);
      none->getResult(0).replaceAllUsesWith(
          arith::ConstantOp::create(builder, none.getLoc(), builder.getI32IntegerAttr(-1)));
      none.erase();
    }
  });
  for (ngpu::ChannelOp channel : channels)
    Lowering(channel).run();
  return llvm::Error::success();
}

} // namespace nereid::gpu
