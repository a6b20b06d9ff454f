// A loop over tiles of K whose blocks the copy engine brings,
//
//     for k:   a = desc_load(..); b = desc_load(..);  acc += a b
//
// becomes two programs that run at the same time and share a ring of slots in shared memory:
//
//     producer, one warp                       consumers, the kernel's own warps
//     for k:                                   for k:
//         wait until slot s is empty               wait until slot s is filled
//         copy a and b to slot s                   issue acc += a[s] b[s]
//         s = (s + 1) mod slots                    wait for the product before; give its slot back
//                                                  s = (s + 1) mod slots
//
// No barrier of the block is left in the loop: groups of consumer warps run apart from one another,
// and the matrix units have work while one group waits. The number of the slot and the parity of
// the turn are carried through the loops around (a loop over tiles, a branch), so the producer is
// already copying the next tile's first blocks while the consumers store this one.
//
// The whole kernel is split, not only the loop: part 0 is the kernel's body, part 1 is the slice of
// it that decides what is copied when (CopySlice.h). So the start of a loop needs no signal.
// The two count the same slots because they are made from one loop nest.
//
// A load may run ahead of stores that stand before it. That is wrong where they are to the same
// memory: blocks are only copied ahead of stores through another argument of the kernel. The same
// holds for numbers that decide what is copied, where the source asks to divide the loop; in other
// loops they are read ahead of no store.
#include "gpu/schedule/PartitionWarps.h"

#include "gpu/copies/TensorMaps.h"
#include "gpu/schedule/CopySlice.h"
#include "gpu/schedule/OverlapProducts.h"
#include "gpu/schedule/ProductsInFlight.h"
#include "gpu/schedule/Rings.h"
#include "gpu/schedule/SharedCopies.h"
#include "ir/ngpu/Programs.h"
#include "layout/LinearLayout.h"
#include "transforms/Explain.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using nereid::layout::Axis;

namespace nereid::gpu {
namespace {

/// Registers of a thread in a consumer and in the producer, for so many groups of four consumer
/// warps. They add up to what the block is launched with (launchRegisters), that times the groups.
struct RegisterSplit {
  int32_t consumer, producer;
};
/// Zeros: no `setmaxnreg`. With one group the register file suffices without.
constexpr RegisterSplit registerSplits[] = {{}, {0, 0}, {232, 40}, {0, 0}, {0, 0}};
/// The same where products overlap: several accumulators, and an operand in registers.
constexpr RegisterSplit splitsOfOverlap[] = {{}, {0, 0}, {240, 24}, {0, 0}, {112, 32}};

/// Stores, and what else no load may pass unless it is known to be of other memory.
bool changesMemory(Operation *op) {
  return isa<tile::StoreOp, tile::Atomic, tile::BarrierOp, tile::DescStoreOp, tile::DescReduceOp,
             func::CallOp>(op) ||
         (isa<tile::ExternOp, tile::InlineAsmOp>(op) && !isMemoryEffectFree(op));
}

/// The argument of the kernel that a pointer or a descriptor comes from; null: not known.
Value argumentBehind(Value value) {
  while (true) {
    if (auto arg = dyn_cast<BlockArgument>(value)) {
      auto loop = dyn_cast<scf::ForOp>(arg.getOwner()->getParentOp());
      if (!loop)
        return isa<func::FuncOp>(arg.getOwner()->getParentOp()) ? value : Value();
      if (arg == loop.getInductionVar())
        return {};
      value = loop.getInitArgs()[arg.getArgNumber() - 1]; // bumped in the loop, within its tensor
      continue;
    }
    Operation *op = value.getDefiningOp();
    if (isa<tile::MakeDescriptorOp>(op)) {
      value = op->getOperand(0);
      continue;
    }
    auto isPointer = [](Value operand) {
      return isa<tile::PtrType>(tile::elementOf(operand.getType()));
    };
    if (op->getNumResults() != 1 || op->getNumRegions() || !op->getNumOperands() ||
        !isMemoryEffectFree(op) || !isPointer(op->getOperand(0)) ||
        llvm::count_if(op->getOperands(), isPointer) != 1)
      return {};
    value = op->getOperand(0);
  }
}

/// The memory that an op changes; null: any.
Value memoryOf(Operation *store) {
  if (isa<tile::StoreOp, tile::Atomic, tile::DescStoreOp, tile::DescReduceOp>(store))
    return argumentBehind(store->getOperand(0));
  return {};
}

/// Loads of a loop whose blocks are copied and given back together.
using Stream = SmallVector<tile::DescLoadOp>;

/// A loop that is divided.
struct Candidate {
  scf::ForOp loop;
  SmallVector<tile::DescLoadOp> loads; ///< in order
  unsigned slots = 0;
  /// The loads of each channel: of all, or of each of two products that overlap.
  SmallVector<Stream, 2> streams;
  Value slot, phase;         ///< carried by the consumers' loop
  Operation *last = nullptr; ///< behind which nothing of the consumers reads a slot
  /// What it has in common with the other program of a pair; nothing: it is not known or not asked.
  std::optional<SharedCopies> sharing;

  Value beside() const { return sharing ? sharing->beside : Value(); }

  bool isPair() const { return streams.size() == 2; }
};

/// The rings and channels of one loop, or of several of one block that copy blocks of the same
/// types: they take the slots in turn, each from where the one before has stopped.
struct Rings {
  SmallVector<Candidate *> loops;             ///< in order
  SmallVector<SmallVector<Value>, 2> buffers; ///< of each stream, for each load
  SmallVector<Value, 2> channels;             ///< of each stream
};

/// Blocks that loops of pairs read in all their iterations, as attention's queries: the producer
/// copies them to one slot, in front of the loops' own blocks. It is given back behind the last
/// loop, so those of the next program arrive under what this one does there.
struct Operands {
  SmallVector<tile::DescLoadOp> loads; ///< in order, in the block of the loops
  SmallVector<Value> buffers;
  Value channel, slot, phase, hold;
};

ngpu::BufferType slotOf(tile::DescLoadOp load) {
  return copyBufferOf(cast<tile::DescType>(load.getDesc().getType()));
}

bool canShare(const Candidate &a, const Candidate &b) {
  return scf::ForOp(a.loop)->getBlock() == scf::ForOp(b.loop)->getBlock() && a.slots == b.slots &&
         llvm::equal(a.streams, b.streams, [](const Stream &x, const Stream &y) {
           return llvm::equal(x, y, [](tile::DescLoadOp one, tile::DescLoadOp other) {
             return slotOf(one) == slotOf(other);
           });
         });
}

class Partition {
public:
  Partition(func::FuncOp kernel, const GpuOptions &options, std::vector<explain::Hint> &advice)
      : kernel(kernel), options(options), advice(advice), rewriter(kernel.getContext()) {}

  unsigned run();
  bool dividesAll();
  bool isDividedAnyway();

private:
  void findStores();
  bool isAsked(scf::ForOp loop) const;
  /// Can warps give registers to others?
  bool movesRegisters() const {
    return !options.maxRegisters && (!options.movesRegisters || options.movesRegisters());
  }
  bool overlaps(ProductPair &pair) const;
  /// Do the consumers' groups issue the products of overlapped loops in turn?
  bool takesTurns() const { return options.numWarps > 4; }
  bool isFasterDivided(scf::ForOp loop) const;
  bool isDividedUnasked();
  const char *whyNoKernel();
  const char *whyNotAhead(tile::DescLoadOp load) const;
  const char *consider(scf::ForOp loop);
  void findStreams(Candidate &one) const;
  bool mayRunAhead(Operation *load, Value memory) const;
  void shareCopies();
  bool isOperand(tile::DescLoadOp load) const;
  void findOperands();
  void carryOperands(OpBuilder builder);
  void putOperands(OpBuilder &builder, const IRMapping &map);
  void getOperands();
  void releaseOperands(Block &consumers);
  void makeRings(OpBuilder builder);
  void carryState(Rings &ring);
  std::pair<Value, Value> advance(OpBuilder &builder, Location loc, unsigned slots, Value slot,
                                  Value phase);
  bool sliceCopies(CopySlice &slice);
  void emitPuts(OpBuilder &builder, const IRMapping &map, const Rings &ring, Candidate &one);
  void consume(const Rings &ring, Candidate &one, const PendingProduct *before,
               PendingProduct *after);
  void advise(scf::ForOp loop, const char *reason);

  func::FuncOp kernel;
  const GpuOptions &options;
  std::vector<explain::Hint> &advice;
  IRRewriter rewriter;
  SmallVector<Candidate, 2> candidates;
  Operands operands;
  SmallVector<Rings, 2> rings; ///< they point to `candidates`, which are complete by then
  SmallVector<std::pair<unsigned, Operation *>> stores; ///< with their place in the order of ops
  llvm::DenseMap<Operation *, unsigned> order;
  int64_t registers = 255; ///< of a thread of the consumers
};

bool Partition::isAsked(scf::ForOp loop) const {
  if (options.specialise != Specialise::AsAsked)
    return options.specialise == Specialise::Always;
  for (Operation *op = loop; op != kernel; op = op->getParentOp())
    if (ngpu::isOverPrograms(op))
      return true;
  return isAskedByAuthor(loop);
}

/// Has the loop been measured to be faster when it is divided? Attention with blocks of 128x128,
/// heads of 64 and 128 and three slots has; with blocks of 256x64, heads of 64, three slots and 16
/// warps; with blocks of 128x64, heads of 256 and two slots.
bool Partition::isFasterDivided(scf::ForOp loop) const {
  struct Measured {
    int warps;
    unsigned slots;         ///< at least
    int64_t scores, result; ///< registers of a thread for the products' results, at least
  };
  constexpr Measured measured[] = {{8, 3, 64, 0}, {8, 2, 32, 128}, {16, 3, 32, 0}};
  std::optional<ProductPair> pair = findProductPair(loop);
  if (!pair || !overlaps(*pair))
    return false;
  auto registers = [](ngpu::WgmmaOp product) {
    return ngpu::layoutOf(product.getType()).getLayout().size(Axis::Register);
  };
  return llvm::any_of(measured, [&](const Measured &one) {
    return options.numWarps == one.warps && slotsOf(loop, options) >= one.slots &&
           registers(pair->first) >= one.scores && registers(pair->second) >= one.result;
  });
}

/// Are all loops of the kernel with products of this kind?
bool Partition::isDividedUnasked() {
  if (options.specialise != Specialise::AsAsked || !options.machine.tma)
    return false;
  bool any = false, all = true;
  kernel.walk([&](scf::ForOp loop) {
    if (loop->hasAttr(tile::withoutCopiesName)) // the version for tensors that cannot be copied
      return;
    if (llvm::any_of(*loop.getBody(), [](Operation &op) { return isDot(&op); })) {
      any = true;
      all &= isFasterDivided(loop);
    }
  });
  return any && all && movesRegisters();
}

/// Why no loop of the kernel can be divided; null when nothing speaks against it.
const char *Partition::whyNoKernel() {
  if (!options.machine.tma || options.machine.best != MatrixUnit::Wgmma)
    return "the GPU has no copy engine";
  if (options.numWarps % 4 || options.numWarps / 4 >= int(std::size(registerSplits)))
    return "it needs 4, 8, 12 or 16 warps that compute";
  if (kernel.getNumResults() || !kernel.getBody().hasOneBlock())
    return "the kernel returns values";
  return nullptr;
}

/// May `load` of `memory` be done before everything that stands in front of it?
bool Partition::mayRunAhead(Operation *load, Value memory) const {
  auto sharesLoop = [&](Operation *store) {
    for (Operation *op = load->getParentOp(); op != kernel; op = op->getParentOp())
      if (isa<LoopLikeOpInterface>(op) && !ngpu::isOverPrograms(op) && op->isAncestor(store))
        return true;
    return false;
  };
  return llvm::all_of(stores, [&](auto &each) {
    auto [place, store] = each;
    if (place > order.lookup(load) && !sharesLoop(store))
      return true;
    Value changed = memoryOf(store);
    return memory && changed && changed != memory;
  });
}

/// Why `load` cannot be copied by other warps than those that compute; null: it can.
const char *Partition::whyNotAhead(tile::DescLoadOp load) const {
  // Who loads through pointers has not promised that arguments do not overlap.
  bool promised = !load.getDesc().getDefiningOp<tile::MakeDescriptorOp>().getOptional();
  if (!mayRunAhead(load, promised ? argumentBehind(load.getDesc()) : Value()))
    return "a store before its loads may be to the same tensor";
  bool byAuthor = isAskedByAuthor(load->getParentOfType<scf::ForOp>());
  CopySlice slice([&](tile::LoadOp other) {
    return mayRunAhead(other, byAuthor ? argumentBehind(other.getPtr()) : Value());
  });
  if (!slice.addControl(load) ||
      !llvm::all_of(load.getCoords(), [&](Value coord) { return slice.add(coord); }))
    return "the blocks that it loads depend on what the kernel computes with tensors";
  return nullptr;
}

/// Takes the loop, or says why not. Null as well when it is not about loads of blocks.
const char *Partition::consider(scf::ForOp loop) {
  Candidate one{loop};
  one.slots = slotsOf(loop, options);
  auto feeds = [&](tile::DescLoadOp load) { return feedsDot(load, loop.getBody()); };
  if (llvm::none_of(loop.getBody()->getOps<tile::DescLoadOp>(), feeds))
    return "no load of a descriptor in it feeds a product";
  auto isBlock = [](tile::LoadOp load) { // not numbers of rows or columns, as log-sum-exps
    auto type = dyn_cast<RankedTensorType>(load.getType());
    return type && type.getRank() > 1;
  };
  for (auto load : loop.getBody()->getOps<tile::LoadOp>())
    if (isBlock(load) && feedsDot(load, loop.getBody()))
      return "a load through pointers feeds a product as well";
  if (one.slots < 2)
    return "it has one stage";
  for (Operation *parent = loop->getParentOp(); parent != kernel; parent = parent->getParentOp())
    if (!isa<scf::ForOp, scf::IfOp>(parent))
      return "it is within a `while` loop";
  bool inner = false;
  loop.getBody()->walk([&](scf::ForOp) { inner = true; });
  if (inner)
    return "there is a loop in it";
  bool isPair = findProductPair(loop).has_value();
  for (auto load : loop.getBody()->getOps<tile::DescLoadOp>()) {
    const char *reason = whyNotAhead(load);
    if (feeds(load) && reason)
      return reason;
    // Other blocks come through slots as well where those are held to the end of the iteration.
    if (feeds(load) || (!isPair && !reason))
      one.loads.push_back(load);
  }
  findStreams(one);
  candidates.push_back(std::move(one));
  return nullptr;
}

/// Do the registers suffice for the two products to overlap? Between them, a thread of one of four
/// groups holds both results, and the first one narrowed.
bool Partition::overlaps(ProductPair &pair) const {
  auto registers = [](ngpu::WgmmaOp product) {
    return ngpu::layoutOf(product.getType()).getLayout().size(Axis::Register);
  };
  constexpr int64_t mostOfFourGroups = 64; // with blocks of 256x128 and heads of 64, 96, they spill
  if (options.numWarps == 4)
    return true;
  return splitsOfOverlap[options.numWarps / 4].consumer && movesRegisters() &&
         (options.numWarps == 8 ||
          registers(pair.first) + registers(pair.second) <= mostOfFourGroups);
}

/// Two products that overlap give back their blocks at different times.
void Partition::findStreams(Candidate &one) const {
  std::optional<ProductPair> pair = findProductPair(one.loop);
  if (pair && !overlaps(*pair))
    pair.reset();
  Stream first, second;
  for (tile::DescLoadOp load : one.loads)
    (pair && feedsSecond(load, *pair) ? second : first).push_back(load);
  if (first.empty() || second.empty())
    one.streams = {one.loads};
  else
    one.streams = {std::move(first), std::move(second)};
}

void Partition::advise(scf::ForOp loop, const char *reason) {
  if (options.specialise == Specialise::AsAsked)
    advice.push_back(explain::makeHint(explain::HintKind::NotSpecialised,
                                       transforms::placeOf(loop.getLoc()), {reason}));
}

/// With one loop, whose copies the programs of a pair may share.
void Partition::shareCopies() {
  if (!options.multicast || candidates.size() != 1 || candidates[0].isPair() ||
      ngpu::splitCount(kernel) > 1)
    return;
  candidates[0].sharing = findSharedCopies(kernel, candidates[0].loop, candidates[0].loads);
  if (candidates[0].sharing)
    kernel->setAttr(ngpu::pairsName, rewriter.getI32IntegerAttr(1));
}

/// Gives each candidate rings of its own, or those of a loop before it.
void Partition::makeRings(OpBuilder builder) {
  for (Candidate &one : candidates) {
    auto found = llvm::find_if(rings, [&](Rings &each) { return canShare(*each.loops[0], one); });
    if (found != rings.end()) {
      found->loops.push_back(&one);
      continue;
    }
    Rings &fresh = rings.emplace_back();
    fresh.loops = {&one};
    for (Stream &stream : one.streams) {
      SmallVector<Value> &buffers = fresh.buffers.emplace_back();
      for (tile::DescLoadOp load : stream)
        buffers.push_back(makeRing(builder, load.getLoc(), slotOf(load), one.slots));
      fresh.channels.push_back(ngpu::ChannelOp::create(
          builder, one.loop.getLoc(), ngpu::ChannelType::get(builder.getContext(), one.slots),
          uint32_t(options.numWarps), one.sharing.has_value()));
    }
  }
}

/// The next slot, and the parity of its turn.
std::pair<Value, Value> Partition::advance(OpBuilder &builder, Location loc, unsigned slots,
                                           Value slot, Value phase) {
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(value));
  };
  Value next = arith::AddIOp::create(builder, loc, slot, constant(1));
  Value turns =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, next, constant(slots));
  Value flip = arith::ExtUIOp::create(builder, loc, builder.getI32Type(), turns);
  return {arith::SelectOp::create(builder, loc, turns, constant(0), next),
          arith::XOrIOp::create(builder, loc, phase, flip)};
}

/// The number of the slot and the parity of the turn go through the loops of a ring, one after the
/// other, and all that is around them.
void Partition::carryState(Rings &ring) {
  scf::ForOp front = ring.loops[0]->loop;
  Location loc = front.getLoc();
  SmallVector<Operation *> around;
  for (Operation *op = front->getParentOp(); op != kernel; op = op->getParentOp())
    around.push_back(op);
  rewriter.setInsertionPoint(around.empty() ? front.getOperation() : around.back());
  Value zero = arith::ConstantOp::create(rewriter, loc, rewriter.getI32IntegerAttr(0));
  SmallVector<Value> state = {zero, zero};
  auto extended = [&](scf::ForOp loop, const NewYieldValuesFn &yields) {
    auto attributes = loop->getDiscardableAttrDictionary();
    rewriter.setInsertionPoint(loop);
    auto fresh = cast<scf::ForOp>(*loop.replaceWithAdditionalYields(
        rewriter, state, /*replaceInitOperandUsesInLoop=*/false, yields));
    fresh->setDiscardableAttrs(attributes);
    state.assign(fresh.getRegionIterArgs().take_back(2).begin(),
                 fresh.getRegionIterArgs().take_back(2).end());
    return fresh;
  };
  SmallVector<Operation *> fresh;       // from the outermost inwards
  SmallVector<Operation *> yieldsLater; // that of each which the state flows through
  for (Operation *op : llvm::reverse(around)) {
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      fresh.push_back(extended(loop, [](OpBuilder &, Location, ArrayRef<BlockArgument> args) {
        return SmallVector<Value>(args.begin(), args.end());
      }));
      yieldsLater.push_back(cast<scf::ForOp>(fresh.back()).getBody()->getTerminator());
      continue;
    }
    auto branch = cast<scf::IfOp>(op);
    bool isThen = branch.getThenRegion().isAncestor(front->getParentRegion());
    SmallVector<Type> types(branch.getResultTypes());
    types.append(2, rewriter.getI32Type());
    rewriter.setInsertionPoint(branch);
    auto wider = scf::IfOp::create(rewriter, branch.getLoc(), types, branch.getCondition(),
                                   /*withElseRegion=*/true);
    wider->setDiscardableAttrs(branch->getDiscardableAttrDictionary());
    for (auto [from, to] : llvm::zip(branch->getRegions(), wider->getRegions())) {
      if (!from.empty()) {
        to.takeBody(from);
        Operation *yield = to.front().getTerminator();
        yield->insertOperands(yield->getNumOperands(), state);
      } else {
        auto builder = OpBuilder::atBlockEnd(&to.front());
        scf::YieldOp::create(builder, branch.getLoc(), state);
      }
    }
    rewriter.replaceAllUsesWith(branch->getResults(), wider->getResults().drop_back(2));
    rewriter.eraseOp(branch);
    fresh.push_back(wider);
    yieldsLater.push_back(wider->getRegion(isThen ? 0 : 1).front().getTerminator());
  }
  for (Candidate *one : ring.loops) {
    one->loop =
        extended(one->loop, [&](OpBuilder &builder, Location at, ArrayRef<BlockArgument> args) {
          auto [slot, phase] = advance(builder, at, one->slots, args[0], args[1]);
          return SmallVector<Value>{slot, phase};
        });
    one->slot = state[0];
    one->phase = state[1];
    state.assign(one->loop.getResults().take_back(2).begin(),
                 one->loop.getResults().take_back(2).end());
  }
  fresh.push_back(ring.loops.back()->loop);
  // Each outer loop yields the results of the next inner one.
  for (auto [yield, inside] : llvm::zip(yieldsLater, ArrayRef(fresh).drop_front()))
    for (unsigned i = 0; i < 2; ++i)
      yield->setOperand(yield->getNumOperands() - 2 + i,
                        inside->getResult(inside->getNumResults() - 2 + i));
}

/// Does a load stand in front of loops of pairs, which alone read its block, all of it?
bool Partition::isOperand(tile::DescLoadOp load) const {
  bool any = false;
  for (const Candidate &one : candidates) {
    scf::ForOp loop = one.loop;
    if (loop->getBlock() != load->getBlock())
      continue;
    any = true;
    if (!one.isPair() || !load->isBeforeInBlock(loop))
      return false;
  }
  for (Operation *op = load->getParentOp(); op != kernel; op = op->getParentOp())
    if (!isa<scf::ForOp>(op))
      return false;
  auto isRead = [&](Value buffer, auto &self) -> bool {
    return llvm::all_of(buffer.getUsers(), [&](Operation *user) {
      if (isWholeView(user))
        return self(user->getResult(0), self);
      return isa<ngpu::WgmmaOp>(user) && llvm::any_of(candidates, [&](const Candidate &one) {
               return user->getParentOp() == one.loop;
             });
    });
  };
  return any && !whyNotAhead(load) && llvm::all_of(load->getUsers(), [&](Operation *user) {
           auto alloc = dyn_cast<ngpu::LocalAllocOp>(user);
           return alloc && alloc.getType() == slotOf(load) && isRead(alloc.getResult(), isRead);
         });
}

void Partition::findOperands() {
  if (!kernel->hasAttr(ngpu::persistentName))
    return;
  kernel.walk([&](tile::DescLoadOp load) {
    bool together = operands.loads.empty() || operands.loads[0]->getBlock() == load->getBlock();
    if (together && isOperand(load))
      operands.loads.push_back(load);
  });
}

/// One slot, whose turn the loops around carry. `builder`: in front of the parts.
void Partition::carryOperands(OpBuilder builder) {
  if (operands.loads.empty())
    return;
  Operation *front = operands.loads[0];
  Location loc = front->getLoc();
  for (tile::DescLoadOp load : operands.loads)
    operands.buffers.push_back(makeRing(builder, load.getLoc(), slotOf(load), 1));
  operands.channel =
      ngpu::ChannelOp::create(builder, loc, ngpu::ChannelType::get(builder.getContext(), 1),
                              uint32_t(options.numWarps), false);
  SmallVector<scf::ForOp> around; // from inside
  for (Operation *op = front->getParentOp(); op != kernel; op = op->getParentOp())
    around.push_back(cast<scf::ForOp>(op));
  rewriter.setInsertionPoint(around.empty() ? front : around.back().getOperation());
  Value zero = arith::ConstantOp::create(rewriter, loc, rewriter.getI32IntegerAttr(0));
  operands.slot = operands.phase = zero;
  scf::ForOp inner;
  for (scf::ForOp loop : llvm::reverse(around)) {
    auto attributes = loop->getDiscardableAttrDictionary();
    rewriter.setInsertionPoint(loop);
    auto fresh = cast<scf::ForOp>(*loop.replaceWithAdditionalYields(
        rewriter, operands.phase, /*replaceInitOperandUsesInLoop=*/false,
        [](OpBuilder &, Location, ArrayRef<BlockArgument> args) {
          return SmallVector<Value>(args.begin(), args.end());
        }));
    fresh->setDiscardableAttrs(attributes);
    operands.phase = fresh.getRegionIterArgs().back();
    if (inner) { // the loop around yields what this one ends with
      Operation *yield = inner.getBody()->getTerminator();
      yield->setOperand(yield->getNumOperands() - 1, fresh.getResults().back());
    }
    inner = fresh;
  }
  if (!inner)
    return;
  Operation *yield = inner.getBody()->getTerminator();
  rewriter.setInsertionPoint(yield);
  Value one = arith::ConstantOp::create(rewriter, loc, rewriter.getI32IntegerAttr(1));
  yield->setOperand(yield->getNumOperands() - 1,
                    arith::XOrIOp::create(rewriter, loc, operands.phase, one));
}

void Partition::putOperands(OpBuilder &builder, const IRMapping &map) {
  Location loc = operands.loads.back().getLoc();
  auto put =
      ngpu::ChannelPutOp::create(builder, loc, operands.channel, map.lookupOrDefault(operands.slot),
                                 map.lookupOrDefault(operands.phase), Value());
  Block &body = put.getBody().emplaceBlock();
  Value barrier = body.addArgument(mbarrierType(builder.getContext()), loc);
  OpBuilder inside = OpBuilder::atBlockEnd(&body);
  for (auto [load, buffer] : llvm::zip(operands.loads, operands.buffers)) {
    SmallVector<Value> coords;
    for (Value coord : load.getCoords())
      coords.push_back(map.lookupOrDefault(coord));
    Value to = ngpu::SlotOp::create(inside, load.getLoc(), slotOf(load), buffer,
                                    map.lookupOrDefault(operands.slot));
    ngpu::TmaLoadOp::create(inside, load.getLoc(), tensorMapOf(inside, load.getDesc()), coords, to,
                            barrier, Value(), Value(), Value(), load.getEvict());
  }
}

void Partition::getOperands() {
  if (operands.loads.empty())
    return;
  rewriter.setInsertionPoint(operands.loads[0]);
  operands.hold = ngpu::ChannelGetOp::create(rewriter, operands.loads[0].getLoc(), operands.channel,
                                             operands.slot, operands.phase);
  for (auto [load, buffer] : llvm::zip(operands.loads, operands.buffers)) {
    rewriter.setInsertionPoint(load);
    readFromSlot(rewriter, load, slotOf(load), buffer, operands.slot);
  }
}

/// The first products of all iterations have ended when a loop has.
void Partition::releaseOperands(Block &consumers) {
  if (!operands.hold)
    return;
  Operation *last = nullptr;
  for (Candidate &one : candidates)
    if (one.loop->getBlock() == operands.hold.getParentBlock() &&
        (!last || last->isBeforeInBlock(one.loop)))
      last = one.loop;
  rewriter.setInsertionPointAfter(last);
  Operation *release = ngpu::ChannelReleaseOp::create(rewriter, last->getLoc(), operands.channel,
                                                      operands.hold, Value());
  while (release->getBlock() != &consumers)
    release = release->getParentOp();
  rewriter.setInsertionPointAfter(release);
  for (Value buffer : operands.buffers)
    ngpu::LocalDeallocOp::create(rewriter, kernel.getLoc(), buffer);
}

bool Partition::sliceCopies(CopySlice &slice) {
  bool front = llvm::all_of(operands.loads, [&](tile::DescLoadOp load) {
    return slice.addControl(load) && slice.add(operands.slot) && slice.add(operands.phase) &&
           llvm::all_of(load.getCoords(), [&](Value coord) { return slice.add(coord); });
  });
  return front && llvm::all_of(candidates, [&](Candidate &one) {
           return slice.addControl(one.loads[0]) && slice.add(one.slot) && slice.add(one.phase) &&
                  (!one.sharing || slice.add(one.beside())) &&
                  (!one.sharing ||
                   llvm::all_of(one.sharing->shared,
                                [&](Value shared) { return !shared || slice.add(shared); })) &&
                  llvm::all_of(one.loads, [&](tile::DescLoadOp load) {
                    return llvm::all_of(load.getCoords(),
                                        [&](Value coord) { return slice.add(coord); });
                  });
         });
}

/// The producer's side of one iteration.
void Partition::emitPuts(OpBuilder &builder, const IRMapping &map, const Rings &ring,
                         Candidate &one) {
  Location loc = one.loop.getLoc();
  Value slot = map.lookupOrDefault(one.slot), phase = map.lookupOrDefault(one.phase);
  Value beside = one.sharing ? map.lookupOrDefault(one.beside()) : Value();
  for (auto [stream, channel, buffers] : llvm::zip(one.streams, ring.channels, ring.buffers)) {
    auto put = ngpu::ChannelPutOp::create(builder, loc, channel, slot, phase, beside);
    Block &body = put.getBody().emplaceBlock();
    Value barrier = body.addArgument(mbarrierType(builder.getContext()), loc);
    OpBuilder inside = OpBuilder::atBlockEnd(&body);
    for (auto [load, buffer] : llvm::zip(stream, buffers)) {
      SmallVector<Value> coords;
      for (Value coord : load.getCoords())
        coords.push_back(map.lookupOrDefault(coord));
      Location at = load.getLoc();
      Value shared;
      if (one.sharing)
        shared = one.sharing->shared[llvm::find(one.loads, load) - one.loads.begin()];
      if (shared)
        shared = map.lookupOrDefault(shared);
      Value to = ngpu::SlotOp::create(inside, at, slotOf(load), buffer, slot);
      ngpu::TmaLoadOp::create(inside, at, tensorMapOf(inside, load.getDesc()), coords, to, barrier,
                              Value(), shared, shared ? slot : Value(), load.getEvict());
    }
  }
}

/// Can the loop's one product stay in flight over the end of an iteration? It only adds to an
/// accumulator that is handed on, and the body fills no buffers that it might still read.
ngpu::WgmmaOp lonelyProduct(scf::ForOp loop) {
  auto products = llvm::to_vector(loop.getBody()->getOps<ngpu::WgmmaOp>());
  if (products.size() != 1 || !staysInFlight(products[0]) || products[0].getPromoteK())
    return {};
  unsigned number = products[0]->use_begin()->getOperandNumber();
  BlockArgument carried = loop.getRegionIterArg(number);
  bool fills = false;
  loop.getBody()->walk([&](Operation *op) {
    fills |= isa<ngpu::LocalStoreOp, ngpu::LocalAllocOp>(op);
    fills |= op != products[0] && isDot(op);
  });
  return carried.hasOneUse() && products[0].getC() == carried && !fills ? products[0]
                                                                        : ngpu::WgmmaOp();
}

/// Reads of slots in the body move, with views of what is read, to where the values are needed. The
/// slots are held to the end of the iteration.
void readLate(scf::ForOp loop) {
  Block *body = loop.getBody();
  for (ngpu::LocalLoadOp load : llvm::to_vector(body->getOps<ngpu::LocalLoadOp>())) {
    if (!isa_and_nonnull<ngpu::SlotOp>(behindViews(load.getBuffer())))
      continue;
    SmallVector<Operation *> chain = {load};
    auto isView = [](Operation *op) {
      return isa<tile::ReshapeOp, tile::ExpandDimsOp, tile::BroadcastOp, tile::TransOp>(op);
    };
    while (chain.back()->hasOneUse() && isView(*chain.back()->user_begin()))
      chain.push_back(*chain.back()->user_begin());
    Operation *first = nullptr;
    for (Operation *user : chain.back()->getUsers()) {
      user = body->findAncestorOpInBlock(*user);
      if (user && (!first || user->isBeforeInBlock(first)))
        first = user;
    }
    if (first && llvm::all_of(chain, [&](Operation *op) { return op->getBlock() == body; }))
      for (Operation *op : chain)
        op->moveBefore(first);
  }
}

/// The consumers' side: loads become slots, which are given back when they have been read.
/// `before`, `after`: what loops of pairs that follow one another pass on.
void Partition::consume(const Rings &ring, Candidate &one, const PendingProduct *before,
                        PendingProduct *after) {
  Location loc = one.loop.getLoc();
  Value channel = ring.channels[0], hold;
  if (!one.isPair()) {
    rewriter.setInsertionPoint(one.loads[0]);
    hold = ngpu::ChannelGetOp::create(rewriter, loc, channel, one.slot, one.phase);
  }
  for (auto [stream, buffers] : llvm::zip(one.streams, ring.buffers))
    for (auto [load, buffer] : llvm::zip(stream, buffers)) {
      rewriter.setInsertionPoint(load);
      readFromSlot(rewriter, load, slotOf(load), buffer, one.slot);
    }
  one.loop->setAttr(ngpu::specialisedName, rewriter.getUnitAttr());
  if (one.isPair()) {
    one.last = overlapProducts(rewriter, one.loop, {channel, ring.channels[1], one.slot, one.phase},
                               takesTurns(), before, after);
    return;
  }
  ngpu::WgmmaOp product = lonelyProduct(one.loop);
  Operation *landed = nullptr;
  if (product) {
    product.setAsync(true);
    rewriter.setInsertionPointAfter(product);
    landed = ngpu::WgmmaWaitOp::create(rewriter, loc, TypeRange{}, 1, ValueRange{});
  } else if (auto flying = keepProductsInFlight(one.loop, registers)) {
    product = flying->trailing;
    landed = flying->landed;
    readLate(one.loop);
  }
  if (!product) {
    rewriter.setInsertionPoint(one.loop.getBody()->getTerminator());
    ngpu::ChannelReleaseOp::create(rewriter, loc, channel, hold, one.beside());
    one.last = one.loop;
    return;
  }
  // One product stays in flight: a slot is given back an iteration later, behind the loop the last.
  unsigned number = product->use_begin()->getOperandNumber();
  rewriter.setInsertionPoint(one.loop);
  Value none = ngpu::ChannelNoneOp::create(rewriter, loc);
  auto attributes = one.loop->getDiscardableAttrDictionary();
  auto fresh = cast<scf::ForOp>(*one.loop.replaceWithAdditionalYields(
      rewriter, none, /*replaceInitOperandUsesInLoop=*/false,
      [&](OpBuilder &, Location, ArrayRef<BlockArgument>) { return SmallVector<Value>{hold}; }));
  fresh->setDiscardableAttrs(attributes);
  one.loop = fresh;
  rewriter.setInsertionPointAfter(landed);
  ngpu::ChannelReleaseOp::create(rewriter, loc, channel, fresh.getRegionIterArgs().back(),
                                 one.beside());
  rewriter.setInsertionPointAfter(fresh);
  Value sum = fresh.getResult(number);
  auto wait = ngpu::WgmmaWaitOp::create(rewriter, product.getLoc(), sum.getType(), 0, sum);
  sum.replaceAllUsesExcept(wait.getResult(0), wait);
  one.last = ngpu::ChannelReleaseOp::create(rewriter, loc, channel, fresh.getResults().back(),
                                            one.beside());
}

void Partition::findStores() {
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    order[op] = order.size();
    if (changesMemory(op))
      stores.push_back({order[op], op});
  });
}

bool Partition::dividesAll() {
  if (whyNoKernel())
    return false;
  findStores();
  unsigned loops = 0;
  auto walked = kernel.walk([&](scf::ForOp loop) {
    if (loop->hasAttr(tile::withoutCopiesName) ||
        llvm::none_of(*loop.getBody(), [](Operation &op) { return isDot(&op); }))
      return WalkResult::advance();
    ++loops;
    return consider(loop) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return loops && !walked.wasInterrupted();
}

bool Partition::isDividedAnyway() {
  auto walked = kernel.walk([&](scf::ForOp loop) {
    bool multiplies = llvm::any_of(*loop.getBody(), [](Operation &op) { return isDot(&op); });
    bool without = loop->hasAttr(tile::withoutCopiesName);
    return multiplies && !without && !isAsked(loop) ? WalkResult::interrupt()
                                                    : WalkResult::advance();
  });
  return (!walked.wasInterrupted() || isDividedUnasked()) && dividesAll();
}

unsigned Partition::run() {
  SmallVector<scf::ForOp> asked;
  bool unasked = isDividedUnasked();
  findStores();
  kernel.walk<WalkOrder::PreOrder>([&](scf::ForOp loop) {
    if (isAsked(loop) || (unasked && isFasterDivided(loop)))
      asked.push_back(loop);
  });
  if (asked.empty() || options.specialise == Specialise::Never)
    return 0;
  const char *whyNot = whyNoKernel();
  llvm::DenseMap<Operation *, const char *> reasons;
  for (scf::ForOp loop : asked)
    reasons[loop] = whyNot ? whyNot : consider(loop);
  // A loop that asks is served when it or a loop in it is divided.
  for (scf::ForOp loop : asked) {
    const char *reason = reasons[loop];
    bool served = llvm::any_of(
        candidates, [&](Candidate &one) { return loop->isAncestor(one.loop.getOperation()); });
    loop.getBody()->walk([&](scf::ForOp inside) {
      if (const char *its = reasons.lookup(inside))
        reason = its; // the innermost says it best
    });
    if (!served && loop->hasAttr("tile.warp_specialize"))
      advise(loop, reason);
  }
  if (candidates.empty())
    return 0;

  unsigned deepest = 0;
  Block &body = kernel.getBody().front();
  shareCopies();
  findOperands();
  OpBuilder top = OpBuilder::atBlockBegin(&body); // in front of all that becomes a part
  for (Candidate &one : candidates)
    deepest = std::max(deepest, one.slots);
  makeRings(top);
  for (Rings &ring : rings)
    carryState(ring);
  top.setInsertionPointAfter(rings.back().channels.back().getDefiningOp());
  carryOperands(top);
  if (operands.channel)
    top.setInsertionPointAfter(operands.channel.getDefiningOp());
  RegisterSplit split =
      movesRegisters() ? registerSplits[options.numWarps / 4] : RegisterSplit{0, 0};
  auto hasSeveral = [](Candidate &one) {
    return llvm::count_if(*one.loop.getBody(), llvm::IsaPred<ngpu::WgmmaOp>) > 2;
  };
  if (llvm::any_of(candidates, [&](Candidate &one) { return one.isPair() || hasSeveral(one); }))
    split = movesRegisters() ? splitsOfOverlap[options.numWarps / 4] : RegisterSplit{0, 0};
  if (split.consumer)
    registers = split.consumer;
  auto parts = ngpu::WarpSpecializeOp::create(
      top, kernel.getLoc(), TypeRange{}, top.getDenseI32ArrayAttr({1}),
      top.getDenseI32ArrayAttr({split.consumer, split.producer}), /*partsCount=*/2);
  Block &consumers = parts.getParts()[0].emplaceBlock();
  Block &producer = parts.getParts()[1].emplaceBlock();

  CopySlice slice(
      [&](tile::LoadOp load) { return mayRunAhead(load, argumentBehind(load.getPtr())); });
  bool complete = sliceCopies(slice);
  assert(complete && "what `consider` has found stays true");
  (void)complete;
  consumers.getOperations().splice(consumers.end(), body.getOperations(),
                                   std::next(parts->getIterator()), std::prev(body.end()));
  OpBuilder ahead = OpBuilder::atBlockEnd(&producer);
  IRMapping map;
  slice.clone(ahead, consumers, map, [&](Operation &op, OpBuilder &at, const IRMapping &values) {
    if (!operands.loads.empty() && operands.loads.back() == &op)
      putOperands(at, values);
    for (Rings &ring : rings)
      for (Candidate *one : ring.loops)
        if (one->loads.back() == &op)
          emitPuts(at, values, ring, *one);
  });
  ngpu::PartYieldOp::create(ahead, kernel.getLoc(), ValueRange());
  OpBuilder end = OpBuilder::atBlockEnd(&consumers);
  if (ngpu::isPaired(kernel)) // the other block may still reach this one's mbarriers
    ngpu::ClusterBarrierOp::create(end, kernel.getLoc(), false, false);
  ngpu::PartYieldOp::create(end, kernel.getLoc(), ValueRange());

  if (takesTurns() && llvm::any_of(candidates, [](Candidate &one) { return one.isPair(); })) {
    OpBuilder begin = OpBuilder::atBlockBegin(&consumers);
    ngpu::TurnStartOp::create(begin, kernel.getLoc());
  }
  getOperands();
  for (Rings &ring : rings) {
    std::optional<PendingProduct> pending;
    for (auto [i, one] : llvm::enumerate(ring.loops)) {
      bool passesOn = one->isPair() && i + 1 < ring.loops.size() &&
                      canPassOn(one->loop, ring.loops[i + 1]->loop);
      PendingProduct after;
      consume(ring, *one, pending ? &*pending : nullptr, passesOn ? &after : nullptr);
      pending = passesOn ? std::optional(after) : std::nullopt;
    }
    // When the consumers have all that was copied, the producer is done with the buffers too.
    Operation *last = ring.loops.back()->last;
    while (last->getBlock() != &consumers)
      last = last->getParentOp();
    rewriter.setInsertionPointAfter(last);
    for (ArrayRef<Value> buffers : ring.buffers)
      for (Value buffer : buffers)
        ngpu::LocalDeallocOp::create(rewriter, kernel.getLoc(), buffer);
  }
  releaseOperands(consumers);
  return deepest;
}

} // namespace

bool isAskedByAuthor(Operation *loop) {
  for (Operation *op = loop; op; op = op->getParentOp())
    if (op->hasAttr("tile.warp_specialize"))
      return true;
  return false;
}

unsigned slotsOf(scf::ForOp loop, const GpuOptions &options) {
  auto attr = loop->getAttrOfType<IntegerAttr>("tile.num_stages");
  unsigned slots = attr ? attr.getInt() : options.numStages;
  return options.without.stages ? std::min(slots, options.without.stages) : slots;
}

bool isSpecialised(Operation *loop) {
  return loop->hasAttr(ngpu::specialisedName);
}

bool canDivideProducts(func::FuncOp kernel, const GpuOptions &options) {
  std::vector<explain::Hint> advice;
  return Partition(kernel, options, advice).dividesAll();
}

bool dividesProducts(func::FuncOp kernel, const GpuOptions &options) {
  std::vector<explain::Hint> advice;
  return options.specialise != Specialise::Never &&
         Partition(kernel, options, advice).isDividedAnyway();
}

unsigned partitionWarps(func::FuncOp kernel, const GpuOptions &options,
                        std::vector<explain::Hint> &advice) {
  return Partition(kernel, options, advice).run();
}

} // namespace nereid::gpu
