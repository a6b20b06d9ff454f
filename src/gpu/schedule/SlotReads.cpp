// The consumers' part is followed as a program of its own: loops until nothing changes, both
// branches of an `if`. What is known at a point:
//
//   - the holds that are held, each with the scalars that number its slot. A loop carries the two
//     side by side, so of a hold that it carries those carried numbers belong to it that belong to
//     it at the beginning and at the end of an iteration;
//   - the groups of products that may be in flight, the youngest last, with the holds whose slots
//     they read. `wgmma_wait n` ends all but the n youngest. Where paths meet, groups of equal age
//     are united: a group is never taken for older than it is on any path;
//   - whether this group of warps has the turn.
#include "gpu/schedule/SlotReads.h"

#include "gpu/schedule/Rings.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

using Holds = llvm::SmallSetVector<Value, 2>;

/// A hold that has not been released.
struct Held {
  Value hold, channel;                    ///< the channel is null for the hold of no slot
  llvm::SmallSetVector<Value, 4> numbers; ///< of its slot
  bool any = false;                       ///< of no slot: any number is right
  bool mayBeNone = false;
};

struct State {
  SmallVector<Held, 4> held;
  SmallVector<Holds, 4> flying; ///< the youngest last
  bool turn = false;

  Held *find(Value hold) {
    auto found = llvm::find_if(held, [&](Held &each) { return each.hold == hold; });
    return found == held.end() ? nullptr : found;
  }
  bool operator==(const State &other) const {
    auto same = [](const Held &a, const Held &b) {
      return a.hold == b.hold && a.channel == b.channel && a.any == b.any &&
             a.mayBeNone == b.mayBeNone && a.numbers.getArrayRef() == b.numbers.getArrayRef();
    };
    return turn == other.turn && llvm::equal(held, other.held, same) &&
           llvm::equal(flying, other.flying, [](const Holds &a, const Holds &b) {
             return a.getArrayRef() == b.getArrayRef();
           });
  }
};

/// More than this can not be waited for one by one.
constexpr size_t maxFlying = 8;

class Follower {
public:
  explicit Follower(ngpu::WarpSpecializeOp parts) {
    // Which rings a channel fills.
    parts->walk([&](ngpu::ChannelPutOp put) {
      put.getBody().walk([&](ngpu::TmaLoadOp load) {
        if (auto slot = load.getBuffer().getDefiningOp<ngpu::SlotOp>())
          channelOf[slot.getBuffer()] = put.getChannel();
      });
    });
  }

  std::string follow(Block &block) {
    State state;
    run(block, state);
    if (wrong.empty() && state.turn)
      fail("a turn is not passed on");
    return wrong;
  }

private:
  void fail(const llvm::Twine &what) {
    if (wrong.empty())
      wrong = what.str();
  }
  void run(Block &block, State &state);
  void runOp(Operation *op, State &state);
  void runIf(scf::IfOp branch, State &state);
  void runFor(scf::ForOp loop, State &state);
  void readSlots(Operation *op, State &state, Holds &read);
  static State meet(const State &a, const State &b);
  static State renamed(const State &state, ValueRange from, ValueRange to);

  llvm::DenseMap<Value, Value> channelOf;
  std::string wrong;
};

/// Where two paths come together. Holds of one path only cannot be used behind it.
State Follower::meet(const State &a, const State &b) {
  State both;
  both.turn = a.turn;
  for (const Held &x : a.held) {
    const Held *y = const_cast<State &>(b).find(x.hold);
    if (!y)
      continue;
    Held one = x.any ? *y : x;
    if (!x.any && !y->any)
      one.numbers.remove_if([&](Value number) { return !y->numbers.contains(number); });
    one.mayBeNone = x.mayBeNone || y->mayBeNone;
    if (!one.channel)
      one.channel = y->channel;
    both.held.push_back(std::move(one));
  }
  size_t count = std::max(a.flying.size(), b.flying.size());
  both.flying.resize(count);
  for (const State *each : {&a, &b})
    for (size_t i = 0; i < each->flying.size(); ++i)
      for (Value hold : each->flying[i])
        both.flying[count - each->flying.size() + i].insert(hold);
  return both;
}

/// What is known of `from` is now known of `to` as well; the old names stay.
State Follower::renamed(const State &state, ValueRange from, ValueRange to) {
  State fresh = state;
  for (Held &one : fresh.held)
    for (auto [old, now] : llvm::zip(from, to))
      if (one.numbers.contains(old))
        one.numbers.insert(now);
  for (auto [old, now] : llvm::zip(from, to)) {
    if (!isa<ngpu::HoldType>(old.getType()))
      continue;
    if (Held *one = fresh.find(old))
      one->hold = now;
    for (Holds &group : fresh.flying)
      if (group.remove(old))
        group.insert(now);
  }
  return fresh;
}

/// Is `condition` true only when the loop that carries `hold`, or whose result it is, has begun an
/// iteration before, or when the hold that this loop begins with is one of a slot?
bool impliesSlot(Value condition, Value hold) {
  if (auto either = condition.getDefiningOp<arith::OrIOp>())
    return impliesSlot(either.getLhs(), hold) && impliesSlot(either.getRhs(), hold);
  auto test = condition.getDefiningOp<arith::CmpIOp>();
  if (!test)
    return false;
  if (auto arg = dyn_cast<BlockArgument>(hold)) {
    auto loop = dyn_cast<scf::ForOp>(arg.getOwner()->getParentOp());
    if (!loop)
      return false;
    bool later = test.getPredicate() == arith::CmpIPredicate::ne &&
                 test.getLhs() == loop.getInductionVar() && test.getRhs() == loop.getLowerBound();
    return later || impliesSlot(condition, loop.getInitArgs()[arg.getArgNumber() - 1]);
  }
  auto loop = hold.getDefiningOp<scf::ForOp>();
  if (!loop)
    return false;
  auto less = loop.getUnsignedCmp() ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt;
  bool runs = test.getPredicate() == less && test.getLhs() == loop.getLowerBound() &&
              test.getRhs() == loop.getUpperBound();
  return runs || impliesSlot(condition, loop.getInitArgs()[cast<OpResult>(hold).getResultNumber()]);
}

/// Is `op` only reached on a condition that implies that `hold` is one of a slot?
bool behindFirst(Operation *op, Value hold) {
  for (; op; op = op->getParentOp()) {
    auto branch = dyn_cast_or_null<scf::IfOp>(op->getParentOp());
    if (branch && op->getParentRegion() == &branch.getThenRegion() &&
        impliesSlot(branch.getCondition(), hold))
      return true;
  }
  return false;
}

/// The slots of channels that an op reads, by their holds.
void Follower::readSlots(Operation *op, State &state, Holds &read) {
  for (Value operand : op->getOperands()) {
    if (!isa<ngpu::BufferType>(operand.getType()))
      continue;
    auto slot = dyn_cast_or_null<ngpu::SlotOp>(behindViews(operand));
    Value channel = slot ? channelOf.lookup(slot.getBuffer()) : Value();
    if (!channel)
      continue;
    auto holdOf = [&](Value its) {
      return llvm::find_if(state.held, [&](const Held &one) {
        return one.channel == its && one.numbers.contains(slot.getIndex());
      });
    };
    auto found = holdOf(channel);
    if (found == state.held.end()) // in a first iteration: that of no slot
      found = holdOf(Value());
    if (found == state.held.end())
      return fail("a slot is read that is not held");
    if (found->mayBeNone && !behindFirst(op, found->hold))
      return fail("a slot is read before the first one is held");
    read.insert(found->hold);
  }
}

void Follower::runOp(Operation *op, State &state) {
  if (auto get = dyn_cast<ngpu::ChannelGetOp>(op)) {
    if (state.turn)
      return fail("a slot is waited for within a turn");
    Held one{get.getResult(), get.getChannel(), {}};
    one.numbers.insert(get.getSlot());
    state.held.push_back(std::move(one));
  } else if (auto none = dyn_cast<ngpu::ChannelNoneOp>(op)) {
    Held one{none.getResult(), {}, {}};
    one.any = one.mayBeNone = true;
    state.held.push_back(std::move(one));
  } else if (auto release = dyn_cast<ngpu::ChannelReleaseOp>(op)) {
    for (Holds &group : state.flying)
      if (group.contains(release.getHold()))
        return fail("a slot is given back while a product reads it");
    Held *one = state.find(release.getHold());
    if (one)
      state.held.erase(one);
  } else if (auto product = dyn_cast<ngpu::WgmmaOp>(op)) {
    Holds read;
    readSlots(op, state, read);
    if (!product.getAsync())
      return state.flying.clear();
    state.flying.push_back(std::move(read));
    if (state.flying.size() > maxFlying)
      fail("too many products are in flight");
  } else if (auto wait = dyn_cast<ngpu::WgmmaWaitOp>(op)) {
    if (state.flying.size() > wait.getPending())
      state.flying.erase(state.flying.begin(), state.flying.end() - wait.getPending());
  } else if (isa<ngpu::TurnTakeOp, ngpu::TurnPassOp>(op)) {
    bool takes = isa<ngpu::TurnTakeOp>(op);
    if (state.turn == takes)
      fail(takes ? "a turn is taken within a turn" : "a turn is passed on that was not taken");
    state.turn = takes;
  } else if (isa<ngpu::BarrierOp, tile::BarrierOp, ngpu::MBarrierWaitOp, ngpu::ClusterBarrierOp>(
                 op)) {
    if (state.turn)
      fail("warps wait for one another within a turn");
  } else {
    Holds read;
    readSlots(op, state, read);
  }
}

void Follower::runIf(scf::IfOp branch, State &state) {
  State then = state, otherwise = state;
  run(branch.getThenRegion().front(), then);
  then = renamed(then, branch.thenYield().getOperands(), branch.getResults());
  if (!branch.getElseRegion().empty()) {
    run(branch.getElseRegion().front(), otherwise);
    otherwise = renamed(otherwise, branch.elseYield().getOperands(), branch.getResults());
  }
  if (then.turn != otherwise.turn)
    return fail("a turn is passed on in one branch only");
  state = meet(then, otherwise);
}

void Follower::runFor(scf::ForOp loop, State &state) {
  if (state.turn)
    return fail("a turn does not end before a loop");
  State first = renamed(state, loop.getInitArgs(), loop.getRegionIterArgs());
  // Of the hold of no slot every carried number is right.
  for (Held &one : first.held)
    if (one.any) {
      one.any = false;
      one.numbers.insert(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
    }
  State before = first, after;
  for (unsigned turn = 0;; ++turn) {
    after = before;
    run(*loop.getBody(), after);
    if (!wrong.empty())
      return;
    if (after.turn)
      return fail("a turn does not end within the iteration");
    // A carried number means another slot in the next iteration.
    State next = after;
    Operation *yield = loop.getBody()->getTerminator();
    for (Held &one : next.held) {
      llvm::SmallSetVector<Value, 4> numbers;
      for (auto [value, arg] : llvm::zip(yield->getOperands(), loop.getRegionIterArgs()))
        if (one.numbers.contains(value))
          numbers.insert(arg);
      for (Value number : one.numbers) // from outside: the same in every iteration
        if (number.getParentRegion()->isProperAncestor(&loop.getRegion()))
          numbers.insert(number);
      one.numbers = std::move(numbers);
    }
    for (auto [value, arg] : llvm::zip(yield->getOperands(), loop.getRegionIterArgs()))
      if (isa<ngpu::HoldType>(value.getType())) {
        if (Held *one = next.find(value))
          one->hold = arg;
        for (Holds &group : next.flying)
          if (group.remove(value))
            group.insert(arg);
      }
    State met = meet(first, next);
    if (met == before)
      break;
    if (turn == 16)
      return fail("no fixed point");
    before = std::move(met);
  }
  after = renamed(after, loop.getBody()->getTerminator()->getOperands(), loop.getResults());
  State skipped = renamed(first, loop.getRegionIterArgs(), loop.getResults());
  state = meet(after, skipped);
}

void Follower::run(Block &block, State &state) {
  for (Operation &op : block) {
    if (!wrong.empty())
      return;
    if (auto branch = dyn_cast<scf::IfOp>(op))
      runIf(branch, state);
    else if (auto loop = dyn_cast<scf::ForOp>(op))
      runFor(loop, state);
    else
      runOp(&op, state);
  }
}

} // namespace

llvm::Error verifySlotReads(ngpu::WarpSpecializeOp parts) {
  std::string wrong = Follower(parts).follow(parts.getParts()[0].front());
  return wrong.empty() ? llvm::Error::success()
                       : llvm::createStringError("internal error: channels: " + wrong);
}

} // namespace nereid::gpu
