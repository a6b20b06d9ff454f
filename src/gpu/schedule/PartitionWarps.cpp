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
// memory: blocks are only copied ahead of stores through another argument of the kernel.
#include "gpu/schedule/PartitionWarps.h"

#include "gpu/copies/TensorMaps.h"
#include "gpu/schedule/CopySlice.h"
#include "gpu/schedule/Rings.h"
#include "transforms/Explain.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

/// Registers of a thread in a consumer and in the producer, for so many groups of four consumer
/// warps. They add up to what the block is launched with (launchRegisters), that times the groups.
struct RegisterSplit {
  int32_t consumer, producer;
};
/// One group keeps what the assembler gives it: launched with the 128 registers that 216 and 40
/// need, blocks of 128x128 were 4.5 times slower than without (docs/warp-specialisation.md). Zeros:
/// no `setmaxnreg`.
constexpr RegisterSplit registerSplits[] = {{}, {0, 0}, {232, 40}, {0, 0}, {0, 0}};

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

/// A loop that is divided.
struct Candidate {
  scf::ForOp loop;
  SmallVector<tile::DescLoadOp> loads; ///< in order
  unsigned slots = 0;
  SmallVector<Value> rings; ///< of the loads
  Value channel;
  Value slot, phase;         ///< carried by the consumers' loop
  Operation *last = nullptr; ///< behind which nothing of the consumers reads a slot
};

class Partition {
public:
  Partition(func::FuncOp kernel, const GpuOptions &options, std::vector<explain::Hint> &advice)
      : kernel(kernel), options(options), advice(advice), rewriter(kernel.getContext()) {}

  unsigned run();

private:
  bool isAsked(scf::ForOp loop) const;
  const char *whyNoKernel();
  const char *consider(scf::ForOp loop);
  bool mayRunAhead(Operation *load, Value memory) const;
  void makeRings(OpBuilder builder, Candidate &one);
  void carryState(Candidate &one);
  std::pair<Value, Value> advance(OpBuilder &builder, Location loc, unsigned slots, Value slot,
                                  Value phase);
  bool sliceCopies(CopySlice &slice);
  void emitPut(OpBuilder &builder, const IRMapping &map, Candidate &one);
  void consume(Candidate &one);
  void advise(scf::ForOp loop, const char *reason);

  func::FuncOp kernel;
  const GpuOptions &options;
  std::vector<explain::Hint> &advice;
  IRRewriter rewriter;
  SmallVector<Candidate> candidates;
  SmallVector<std::pair<unsigned, Operation *>> stores; ///< with their place in the order of ops
  llvm::DenseMap<Operation *, unsigned> order;
};

bool Partition::isAsked(scf::ForOp loop) const {
  if (options.specialise != Specialise::AsAsked)
    return options.specialise == Specialise::Always;
  for (Operation *op = loop; op; op = op->getParentOp())
    if (op->hasAttr("tile.warp_specialize"))
      return true;
  return false;
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
      if (isa<LoopLikeOpInterface>(op) && op->isAncestor(store))
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

/// Takes the loop, or says why not. Null as well when it is not about loads of blocks.
const char *Partition::consider(scf::ForOp loop) {
  Candidate one{loop};
  auto attr = loop->getAttrOfType<IntegerAttr>("tile.num_stages");
  one.slots = attr ? attr.getInt() : options.numStages;
  if (options.without.stages)
    one.slots = std::min(one.slots, options.without.stages);
  for (auto load : loop.getBody()->getOps<tile::DescLoadOp>())
    if (feedsDot(load, loop.getBody()))
      one.loads.push_back(load);
  if (one.loads.empty())
    return "no load of a descriptor in it feeds a product";
  for (auto load : loop.getBody()->getOps<tile::LoadOp>())
    if (feedsDot(load, loop.getBody()))
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
  CopySlice slice([&](tile::LoadOp load) { return mayRunAhead(load, Value()); });
  for (tile::DescLoadOp load : one.loads) {
    // Who loads through pointers has not promised that arguments do not overlap.
    bool promised = !load.getDesc().getDefiningOp<tile::MakeDescriptorOp>().getOptional();
    if (!mayRunAhead(load, promised ? argumentBehind(load.getDesc()) : Value()))
      return "a store before its loads may be to the same tensor";
    if (!slice.addControl(load) ||
        !llvm::all_of(load.getCoords(), [&](Value coord) { return slice.add(coord); }))
      return "the blocks that it loads depend on what the kernel computes with tensors";
  }
  candidates.push_back(std::move(one));
  return nullptr;
}

void Partition::advise(scf::ForOp loop, const char *reason) {
  if (options.specialise == Specialise::AsAsked)
    advice.push_back(explain::makeHint(explain::HintKind::NotSpecialised,
                                       transforms::placeOf(loop.getLoc()), {reason}));
}

void Partition::makeRings(OpBuilder builder, Candidate &one) {
  for (tile::DescLoadOp load : one.loads)
    one.rings.push_back(makeRing(builder, load.getLoc(),
                                 copyBufferOf(cast<tile::DescType>(load.getDesc().getType())),
                                 one.slots));
  one.channel = ngpu::ChannelOp::create(builder, one.loop.getLoc(),
                                        ngpu::ChannelType::get(builder.getContext(), one.slots),
                                        builder.getI32IntegerAttr(options.numWarps));
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

/// The number of the slot and the parity of the turn go through the loop and all that is around it.
void Partition::carryState(Candidate &one) {
  Location loc = one.loop.getLoc();
  SmallVector<Operation *> around;
  for (Operation *op = one.loop->getParentOp(); op != kernel; op = op->getParentOp())
    around.push_back(op);
  rewriter.setInsertionPoint(around.empty() ? one.loop.getOperation() : around.back());
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
    bool isThen = branch.getThenRegion().isAncestor(one.loop->getParentRegion());
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
  one.loop = extended(one.loop, [&](OpBuilder &builder, Location at, ArrayRef<BlockArgument> args) {
    auto [slot, phase] = advance(builder, at, one.slots, args[0], args[1]);
    return SmallVector<Value>{slot, phase};
  });
  one.slot = state[0];
  one.phase = state[1];
  fresh.push_back(one.loop);
  // Each outer loop yields the results of the next inner one.
  for (auto [yield, inside] : llvm::zip(yieldsLater, ArrayRef(fresh).drop_front()))
    for (unsigned i = 0; i < 2; ++i)
      yield->setOperand(yield->getNumOperands() - 2 + i,
                        inside->getResult(inside->getNumResults() - 2 + i));
}

bool Partition::sliceCopies(CopySlice &slice) {
  return llvm::all_of(candidates, [&](Candidate &one) {
    return slice.addControl(one.loads[0]) && slice.add(one.slot) && slice.add(one.phase) &&
           llvm::all_of(one.loads, [&](tile::DescLoadOp load) {
             return llvm::all_of(load.getCoords(), [&](Value coord) { return slice.add(coord); });
           });
  });
}

/// The producer's side of one iteration.
void Partition::emitPut(OpBuilder &builder, const IRMapping &map, Candidate &one) {
  Location loc = one.loop.getLoc();
  Value slot = map.lookupOrDefault(one.slot);
  auto put =
      ngpu::ChannelPutOp::create(builder, loc, one.channel, slot, map.lookupOrDefault(one.phase));
  Block &body = put.getBody().emplaceBlock();
  Value barrier = body.addArgument(mbarrierType(builder.getContext()), loc);
  OpBuilder inside = OpBuilder::atBlockEnd(&body);
  for (auto [load, ring] : llvm::zip(one.loads, one.rings)) {
    SmallVector<Value> coords;
    for (Value coord : load.getCoords())
      coords.push_back(map.lookupOrDefault(coord));
    Location at = load.getLoc();
    auto type = copyBufferOf(cast<tile::DescType>(load.getDesc().getType()));
    Value buffer = ngpu::SlotOp::create(inside, at, type, ring, slot);
    ngpu::TmaLoadOp::create(inside, at, tensorMapOf(inside, load.getDesc()), coords, buffer,
                            barrier, Value(), Value(), load.getEvict());
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

/// The consumers' side: loads become slots, which are given back when they have been read.
void Partition::consume(Candidate &one) {
  Location loc = one.loop.getLoc();
  rewriter.setInsertionPoint(one.loads[0]);
  Value hold = ngpu::ChannelGetOp::create(rewriter, loc, one.channel, one.slot, one.phase);
  for (auto [load, ring] : llvm::zip(one.loads, one.rings)) {
    rewriter.setInsertionPoint(load);
    readFromSlot(rewriter, load, copyBufferOf(cast<tile::DescType>(load.getDesc().getType())), ring,
                 one.slot);
  }
  one.loop->setAttr(ngpu::specialisedName, rewriter.getUnitAttr());
  ngpu::WgmmaOp product = lonelyProduct(one.loop);
  if (!product) {
    rewriter.setInsertionPoint(one.loop.getBody()->getTerminator());
    ngpu::ChannelReleaseOp::create(rewriter, loc, one.channel, hold);
    one.last = one.loop;
    return;
  }
  // One product stays in flight: a slot is given back an iteration later, behind the loop the last.
  unsigned number = product->use_begin()->getOperandNumber();
  product.setAsync(true);
  rewriter.setInsertionPoint(one.loop);
  Value none = ngpu::ChannelNoneOp::create(rewriter, loc);
  auto attributes = one.loop->getDiscardableAttrDictionary();
  auto fresh = cast<scf::ForOp>(*one.loop.replaceWithAdditionalYields(
      rewriter, none, /*replaceInitOperandUsesInLoop=*/false,
      [&](OpBuilder &, Location, ArrayRef<BlockArgument>) { return SmallVector<Value>{hold}; }));
  fresh->setDiscardableAttrs(attributes);
  one.loop = fresh;
  rewriter.setInsertionPointAfter(product);
  ngpu::WgmmaWaitOp::create(rewriter, loc, TypeRange{}, 1, ValueRange{});
  ngpu::ChannelReleaseOp::create(rewriter, loc, one.channel, fresh.getRegionIterArgs().back());
  rewriter.setInsertionPointAfter(fresh);
  Value sum = fresh.getResult(number);
  auto wait = ngpu::WgmmaWaitOp::create(rewriter, product.getLoc(), sum.getType(), 0, sum);
  sum.replaceAllUsesExcept(wait.getResult(0), wait);
  one.last = ngpu::ChannelReleaseOp::create(rewriter, loc, one.channel, fresh.getResults().back());
}

unsigned Partition::run() {
  SmallVector<scf::ForOp> asked;
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    order[op] = order.size();
    if (changesMemory(op))
      stores.push_back({order[op], op});
    if (auto loop = dyn_cast<scf::ForOp>(op); loop && isAsked(loop))
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
  OpBuilder top = OpBuilder::atBlockBegin(&body);
  for (Candidate &one : candidates) {
    deepest = std::max(deepest, one.slots);
    makeRings(top, one);
  }
  for (Candidate &one : candidates)
    carryState(one);
  top.setInsertionPointAfter(candidates.back().channel.getDefiningOp());
  RegisterSplit split =
      options.maxRegisters ? RegisterSplit{0, 0} : registerSplits[options.numWarps / 4];
  auto parts = ngpu::WarpSpecializeOp::create(
      top, kernel.getLoc(), TypeRange{}, top.getDenseI32ArrayAttr({1}),
      top.getDenseI32ArrayAttr({split.consumer, split.producer}), /*partsCount=*/2);
  Block &consumers = parts.getParts()[0].emplaceBlock();
  Block &producer = parts.getParts()[1].emplaceBlock();

  CopySlice slice([&](tile::LoadOp load) { return mayRunAhead(load, Value()); });
  bool complete = sliceCopies(slice);
  assert(complete && "what `consider` has found stays true");
  (void)complete;
  consumers.getOperations().splice(consumers.end(), body.getOperations(),
                                   std::next(parts->getIterator()), std::prev(body.end()));
  OpBuilder ahead = OpBuilder::atBlockEnd(&producer);
  IRMapping map;
  slice.clone(ahead, consumers, map, [&](Operation &op, OpBuilder &at, const IRMapping &values) {
    for (Candidate &one : candidates)
      if (one.loads.back() == &op)
        emitPut(at, values, one);
  });
  ngpu::PartYieldOp::create(ahead, kernel.getLoc(), ValueRange());
  OpBuilder end = OpBuilder::atBlockEnd(&consumers);
  ngpu::PartYieldOp::create(end, kernel.getLoc(), ValueRange());

  for (Candidate &one : candidates) {
    consume(one);
    // When the consumers have all that was copied, the producer is done with the buffers too.
    while (one.last->getBlock() != &consumers)
      one.last = one.last->getParentOp();
    rewriter.setInsertionPointAfter(one.last);
    for (Value ring : one.rings)
      ngpu::LocalDeallocOp::create(rewriter, one.loop.getLoc(), ring);
  }
  return deepest;
}

} // namespace

bool isSpecialised(Operation *loop) {
  return loop->hasAttr(ngpu::specialisedName);
}

unsigned partitionWarps(func::FuncOp kernel, const GpuOptions &options,
                        std::vector<explain::Hint> &advice) {
  return Partition(kernel, options, advice).run();
}

} // namespace nereid::gpu
