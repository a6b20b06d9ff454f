// Software pipelining: loads of later iterations are under way while an iteration computes.
//
// A loop that reads tiles and multiplies them waits for memory at every iteration. Here each such
// load gets a ring of `slots` buffers in shared memory. With a distance of D iterations the loop
//
//     for i:   x = load(p(i));  use(x)
//
// becomes
//
//     for k in 0..D:  copy p(k) → slot k, if k is an iteration at all      commit      (prologue)
//     for i:          wait for the copies of iteration i                   (a barrier follows)
//                     copy p(i+D) → slot (i+D) mod slots, if i+D is one    commit
//                     use(slot i mod slots)
//
// A copy carries its predicate, "iteration i+D exists", in its mask. So there is no epilogue, and
// loops of few iterations or none need no special case: what is masked off reads nothing and writes
// zeros that no one uses. One barrier an iteration orders everything: it follows the wait (the
// copies of all threads are there), and it precedes the copy into the slot that iteration i-1 read
// last (slots = D + 1).
//
// The slice of the body that computes the pointers and masks of iteration i+D is cloned for it;
// loop-carried values in the slice are carried twice, once for i and once for i+D. The slice may
// hold loads of its own (indices of gathered rows): these are repeated ahead, under the predicate.
//
// Loads that the copy engine of the thread cannot do (cp.async moves 4, 8 or 16 bytes) are fetched
// one iteration ahead into registers, and stored to their slot at the beginning of the iteration.
//
// Blocks of tensor descriptors (tile.desc_load) are copied by the copy engine: one thread asks for
// them, and every slot has an mbarrier that all threads wait on for the slot's bytes. A slot is
// filled once in every turn of the ring, so the parity to wait for flips with each turn; nothing is
// copied for an iteration that does not exist.
//
// A loop with one product by mma.sync has its tiles in registers before the product. So an
// iteration can refill the slot that it has read itself, behind a second barrier, with copies that
// stand behind the product in the code: as many slots then reach one iteration further (slots = D).
// That is faster in launches of few programs, where a multiprocessor has nothing else to do while
// tiles arrive, and slower in others. Loops that ask for many slots are there twice; the number of
// programs decides (`fewPrograms`).
//
// Products by wgmma stay in flight over the end of an iteration. Where the loop does nothing else
// to their accumulator, an iteration issues its product, then waits for the previous one (one stays
// in flight), and after a second barrier overwrites the slot that the previous product has read:
// the matrix units never idle. Where the loop also touches the accumulator otherwise (attention
// rescales it) but has another product that comes first, that one is issued behind the product in
// flight, then the copies, and both products are waited for together. The slot of iteration i-1 is
// still being read at that time: the copies run one iteration less ahead (slots = D + 2), so that
// the one barrier remains enough. Otherwise the product ends at the top of the next iteration,
// before the barrier.
//
// Loops that write to global memory are left alone: a load must not pass a store that may alias.
#include "gpu/Passes.h"
#include "gpu/copies/TensorMaps.h"
#include "gpu/explain/Explain.h"
#include "gpu/layouts/AccessWidth.h"
#include "gpu/schedule/PartitionWarps.h"
#include "gpu/schedule/Rings.h"
#include "gpu/schedule/SingleRound.h"
#include "layout/Conversion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::gpu {
namespace {

/// Is there a load that a product waits for?
bool anyFeeds(scf::ForOp loop) {
  return llvm::any_of(*loop.getBody(), [&](Operation &op) {
    return isa<tile::LoadOp, tile::DescLoadOp>(op) && feedsDot(op.getResult(0), loop.getBody());
  });
}

/// May the loop change global memory, or must its accesses keep their place for another reason?
bool touchesGlobalMemory(scf::ForOp loop) {
  return loop
      ->walk([](Operation *op) {
        return isa<tile::StoreOp, tile::Atomic, tile::BarrierOp, ngpu::TmaStoreOp,
                   tile::DescStoreOp, tile::DescReduceOp, func::CallOp>(op) ||
                       (isa<tile::ExternOp, tile::InlineAsmOp>(op) && !isMemoryEffectFree(op))
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

/// The ops of a loop's body that compute some values, with the loop-carried values behind them.
class Slice {
public:
  explicit Slice(scf::ForOp loop) : loop(loop), body(loop.getBody()) {}

  /// False when `value` depends on what cannot be computed ahead.
  bool add(Value value) {
    if (auto arg = dyn_cast<BlockArgument>(value); arg && arg.getOwner() == body) {
      if (arg == loop.getInductionVar() || !carried.insert(arg.getArgNumber() - 1))
        return true;
      return add(body->getTerminator()->getOperand(arg.getArgNumber() - 1));
    }
    Operation *op = value.getDefiningOp();
    if (!op || op->getBlock() != body || !ops.insert(op).second)
      return true;
    auto load = dyn_cast<tile::LoadOp>(op);
    if (load ? load.getIsVolatile() : !isMemoryEffectFree(op))
      return false;
    bool fine = !isDot(op);
    op->walk([&](Operation *inner) {
      fine &= inner == op || !isa<tile::LoadOp>(inner);
      for (Value operand : inner->getOperands())
        fine = fine && (op->isProperAncestor(operand.getParentBlock()->getParentOp()) ||
                        operand.getParentBlock()->getParentOp() == op || add(operand));
    });
    return fine;
  }

  /// Clones the ops at `builder`; `map` holds the induction variable and the carried values. Loads
  /// are masked with `predicate`.
  void clone(OpBuilder &builder, IRMapping &map, Value predicate) const;

  /// Numbers of the carried values.
  llvm::ArrayRef<unsigned> carriedValues() const { return carried.getArrayRef(); }
  bool contains(Operation *op) const { return ops.contains(op); }

private:
  scf::ForOp loop;
  Block *body;
  llvm::DenseSet<Operation *> ops;
  llvm::SetVector<unsigned> carried;
};

/// `mask` and the scalar `predicate`, for a value of the shape of `like`.
Value masked(OpBuilder &builder, Location loc, Value mask, Value predicate, Type like) {
  Type type = tile::withShapeOf(builder.getI1Type(), like);
  Value splat = isa<RankedTensorType>(type)
                    ? tile::SplatOp::create(builder, loc, type, predicate).getResult()
                    : predicate;
  return mask ? arith::AndIOp::create(builder, loc, mask, splat).getResult() : splat;
}

tile::LoadOp cloneLoad(OpBuilder &builder, tile::LoadOp load, IRMapping &map, Value predicate) {
  Value ptr = map.lookupOrDefault(load.getPtr());
  Value mask = load.getMask() ? map.lookupOrDefault(load.getMask()) : Value();
  Value other = load.getOther() ? map.lookupOrDefault(load.getOther()) : Value();
  return tile::LoadOp::create(builder, load.getLoc(), load.getType(), ptr,
                              masked(builder, load.getLoc(), mask, predicate, ptr.getType()), other,
                              load.getCache(), load.getEvict(), load.getIsVolatile());
}

void Slice::clone(OpBuilder &builder, IRMapping &map, Value predicate) const {
  for (Operation &op : body->without_terminator()) {
    if (!ops.contains(&op))
      continue;
    if (auto load = dyn_cast<tile::LoadOp>(op))
      map.map(load.getResult(), cloneLoad(builder, load, map, predicate).getResult());
    else
      builder.clone(op, map);
  }
}

/// The accumulators of products that stay in flight, by number of the loop's carried values.
llvm::SmallVector<unsigned> flyingAccumulators(scf::ForOp loop) {
  llvm::SmallVector<unsigned> numbers;
  for (auto product : loop.getBody()->getOps<ngpu::WgmmaOp>())
    if (staysInFlight(product))
      numbers.push_back(product->use_begin()->getOperandNumber());
  return numbers;
}

/// Registers of a thread that products in flight at the same time may have. There are 255;
/// attention needs about 90 besides, and more in this order than in the other.
constexpr unsigned maxInFlight = 160;

unsigned registersOf(Value value) {
  return 1u << ngpu::layoutOf(value.getType()).getLayout().bits(Axis::Register);
}

/// Is the loop better as a branch? It has one iteration at most, so that there is none to copy
/// ahead for, and its accumulators and the result of another product leave no registers for
/// pointers and numbers of slots. Where there are enough registers, the copies of all loads of the
/// iteration pay, which are issued before its first product.
bool isBetterAsBranch(scf::ForOp loop) {
  if (!runsOnceAtMost(loop) || !loop.getBody()->getOps<tile::DescLoadOp>().empty())
    return false;
  unsigned carried = 0, other = 0;
  for (auto product : loop.getBody()->getOps<ngpu::WgmmaOp>())
    if (staysInFlight(product))
      carried += registersOf(product.getResult());
    else
      other = std::max(other, registersOf(product.getResult()));
  return carried + other > maxInFlight;
}

/// The first product of an iteration, if it can be issued behind the products that the loop carries
/// in flight and be waited for together with them: it ends within the iteration, and nothing before
/// it touches their accumulators.
ngpu::WgmmaOp productBehindOthers(scf::ForOp loop) {
  llvm::SmallDenseSet<Value> accumulators;
  unsigned registers = 0;
  for (unsigned number : flyingAccumulators(loop)) {
    accumulators.insert(loop.getRegionIterArg(number));
    registers += registersOf(loop.getRegionIterArg(number));
  }
  if (accumulators.empty())
    return {};
  for (Operation &op : *loop.getBody()) {
    bool touches = false;
    op.walk([&](Operation *inner) {
      touches |= llvm::any_of(inner->getOperands(),
                              [&](Value operand) { return accumulators.contains(operand); });
    });
    auto product = dyn_cast<ngpu::WgmmaOp>(op);
    if (touches || (product && (staysInFlight(product) || product.getPromoteK())))
      return {};
    if (product)
      return registers + registersOf(product) <= maxInFlight ? product : ngpu::WgmmaOp();
  }
  return {};
}

/// A load that moves ahead.
struct Staged {
  tile::LoadOp load;
  unsigned contiguity = 0; ///< elements a cp.async moves; 0: through registers
  ngpu::BufferType slot;
  Value ring;
  unsigned carriedAt = 0; ///< through registers: the loop-carried value
};

/// A block that the copy engine fetches ahead.
struct StagedBlock {
  tile::DescLoadOp load;
  ngpu::BufferType slot;
  Value ring;
};

class LoopPipeliner {
public:
  LoopPipeliner(scf::ForOp loop, const GpuOptions &options,
                const transforms::IntegerAnalysis &analysis)
      : loop(loop), options(options), analysis(analysis), slice(loop), builder(loop),
        loc(loop.getLoc()) {}

  /// Decides what moves ahead; false when nothing does. `refills`: an iteration refills the slots
  /// that it has read, if `canRefill`.
  bool plan(unsigned sharedLeft, bool refills = false);
  /// Of a loop that `plan` has seen: may an iteration refill the slots that it has read, and is it
  /// known to gain in some launches?
  bool canRefill() const { return refillable; }
  /// The new loop.
  scf::ForOp rewrite();
  /// Of the new loop: the ops that copy ahead, which may move within the body.
  llvm::ArrayRef<Operation *> copies() const { return copying; }
  /// Of the new loop: the product that is issued while those of the iteration before are in
  /// flight. Null: these end first.
  ngpu::WgmmaOp issuedBehind() const { return behind; }
  /// Of a loop that `plan` has seen.
  LoopDecision decision() const { return {stagesAsked, slots, whyNot}; }

private:
  bool stage(tile::LoadOp load, bool everything);
  void stage(tile::DescLoadOp load, bool everything);
  bool fillsOwnBuffers();
  ngpu::BufferType slotFor(tile::LoadOp load);
  Value constant(int64_t value, Type type) {
    return arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(type, value));
  }
  /// Does iteration `iv + distance` exist? `iv` itself need not, if `checked`.
  Value exists(Value iv, unsigned distance, bool checked);
  Value ahead(Value iv, unsigned distance);
  Value nextSlot(Value slot);
  void copy(IRMapping &map, Value predicate, Value slot);
  void makeRings();
  void fetchBlocks(IRMapping &map, Value predicate, Value slot);
  Value barrierOf(Value slot);

  /// What the new loop carries besides the values of the old one.
  struct Carried {
    llvm::SmallVector<Value> farAhead; ///< the slice's carried values `distance` iterations ahead
    llvm::SmallVector<Value> oneAhead; ///< one iteration ahead, for loads through registers
    llvm::SmallVector<Value> fetched;  ///< tiles on their way through registers
    Value readSlot, writeSlot;
    Value parity; ///< of the turn of the ring that is read; null without blocks

    void appendTo(llvm::SmallVectorImpl<Value> &values) const;
    /// As many values of each kind, taken from `values` in the order of `appendTo`.
    Carried replacedBy(ValueRange values) const;
  };
  bool copiesAhead() const { return anyAsync || !blocks.empty(); }
  /// The old loop's iteration `iv`, whose carried values of the slice are `values`.
  IRMapping mapAt(Value iv, ValueRange values);
  /// The slice's carried values at the end of the iteration that `map` holds.
  llvm::SmallVector<Value> afterIteration(const IRMapping &map);
  /// Loads the tiles that go through registers.
  llvm::SmallVector<Value> fetchTiles(IRMapping &map, Value predicate);
  Carried prologue();
  void takeArrived(const Carried &now);
  Carried startLater(Value iv, const Carried &now);
  void moveBody(scf::ForOp fresh, Value readSlot, const Carried &next);
  void releaseRings();

  scf::ForOp loop;
  const GpuOptions &options;
  const transforms::IntegerAnalysis &analysis;
  Slice slice;
  OpBuilder builder;
  Location loc;
  llvm::SmallVector<Staged> loads;
  llvm::SmallVector<StagedBlock> blocks;
  Value barriers; ///< of the blocks' slots
  unsigned distance = 0, slots = 0;
  unsigned stagesAsked = 0;
  StaysPut whyNot = StaysPut::No;
  bool anyAsync = false, anyRegisters = false;
  bool refillable = false, refills = false;
  llvm::SmallVector<Operation *> copying;
  ngpu::WgmmaOp behind;
};

ngpu::BufferType LoopPipeliner::slotFor(tile::LoadOp load) {
  auto type = cast<RankedTensorType>(load.getType());
  const LinearLayout &from = ngpu::layoutOf(type).getLayout();
  for (Operation *user : load->getUsers())
    if (auto alloc = dyn_cast<ngpu::LocalAllocOp>(user))
      return alloc.getType();
  const LinearLayout *to = &from;
  for (Operation *user : load->getUsers())
    if (auto convert = dyn_cast<ngpu::ConvertLayoutOp>(user))
      to = &ngpu::layoutOf(convert.getType()).getLayout();
  unsigned bits = 8 * tile::sizeInBytes(type.getElementType());
  // Asynchronous copies move what is contiguous in global memory.
  AccessWidth width = accessWidth(analysis, load.getPtr(), load.getMask());
  auto layout = ngpu::LayoutAttr::get(type.getContext(),
                                      conflictFreeBuffer(from, *to, bits, width.registerBits));
  return ngpu::BufferType::get(type.getContext(), type.getShape(), type.getElementType(), layout);
}

bool LoopPipeliner::stage(tile::LoadOp load, bool everything) {
  auto type = dyn_cast<RankedTensorType>(load.getType());
  if (!type || load.getIsVolatile() || !(everything || feedsDot(load, loop.getBody())))
    return false;
  Slice tried = slice; // A load that fails must not leave its part of the slice behind.
  if (!tried.add(load.getPtr()) || (load.getMask() && !tried.add(load.getMask())) ||
      (load.getOther() && !tried.add(load.getOther())))
    return false;

  Staged staged;
  staged.load = load;
  staged.slot = slotFor(load);
  unsigned element = tile::sizeInBytes(type.getElementType());
  bool zero = !load.getOther() || matchPattern(load.getOther(), m_Zero()) ||
              matchPattern(load.getOther(), m_AnyZeroFloat());
  if (auto splat = load.getOther() ? load.getOther().getDefiningOp<tile::SplatOp>() : nullptr)
    zero |=
        matchPattern(splat.getSrc(), m_Zero()) || matchPattern(splat.getSrc(), m_AnyZeroFloat());
  if (options.machine.asyncCopy && zero) {
    // The same registers must be neighbours in global and in shared memory.
    AccessWidth global = accessWidth(analysis, load.getPtr(), load.getMask());
    VectorAccess shared = vectorAccess(ngpu::layoutOf(type).getLayout(),
                                       staged.slot.getLayout().getLayout(), 8 * element);
    unsigned elements = 1;
    for (auto [g, s] : llvm::zip(global.registerBits, shared.registerBits)) {
      if (g != s)
        break;
      elements *= 2;
    }
    staged.contiguity = elements * element >= 4 ? elements : 0;
  }
  // A few bytes are not worth a ring of buffers.
  if (everything && !feedsDot(load, loop.getBody()) && !staged.contiguity)
    return false;
  slice = std::move(tried);
  loads.push_back(staged);
  return true;
}

void LoopPipeliner::stage(tile::DescLoadOp load, bool everything) {
  if (!options.machine.tma || !(everything || feedsDot(load, loop.getBody())))
    return;
  Slice tried = slice;
  if (!llvm::all_of(load.getCoords(), [&](Value coord) { return tried.add(coord); }))
    return;
  slice = std::move(tried);
  blocks.push_back({load, copyBufferOf(cast<tile::DescType>(load.getDesc().getType())), Value()});
}

/// Does the body fill buffers that are no slots of rings?
bool LoopPipeliner::fillsOwnBuffers() {
  auto isSlot = [&](ngpu::LocalAllocOp alloc) {
    auto is = [&](auto &staged) {
      return alloc.getSrc() == staged.load.getResult() && alloc.getType() == staged.slot;
    };
    return llvm::any_of(loads, is) || llvm::any_of(blocks, is);
  };
  return anyRegisters || !loop.getBody()->getOps<ngpu::LocalStoreOp>().empty() ||
         !llvm::all_of(loop.getBody()->getOps<ngpu::LocalAllocOp>(), isSlot);
}

/// Are all products in the loop made by mma.sync, whose loops hold many small blocks?
bool onlyMma(scf::ForOp loop) {
  bool any = false;
  for (Operation &op : *loop.getBody())
    if (isDot(&op)) {
      if (!isa<ngpu::MmaOp>(op))
        return false;
      any = true;
    }
  return any;
}

/// From more slots on, loops of mma.sync take one less.
constexpr unsigned kManySlots = 4;

/// Up to so many programs a multiprocessor, iterations that refill the slots that they have read
/// are faster (docs/notes/performance.md).
constexpr int64_t fewPrograms = 2;

bool LoopPipeliner::plan(unsigned sharedLeft, bool refill) {
  auto attr = loop->getAttrOfType<IntegerAttr>("tile.num_stages");
  unsigned stages = stagesAsked = attr ? attr.getInt() : options.numStages;
  auto no = [&](StaysPut reason) {
    whyNot = reason;
    return false;
  };
  if (stages < 2)
    return no(StaysPut::OneStage);
  if (options.without.stages)
    stages = std::min(stages, options.without.stages);
  if (stages < 2)
    return no(StaysPut::NoRoom);
  if (loop.getUnsignedCmp())
    return no(StaysPut::Unsigned);
  if (touchesGlobalMemory(loop))
    return no(StaysPut::Writes);
  bool inner = false;
  loop.getBody()->walk([&](scf::ForOp) { inner = true; });
  if (inner)
    return no(StaysPut::InnerLoop);
  for (auto load : llvm::to_vector(loop.getBody()->getOps<tile::LoadOp>()))
    stage(load, attr != nullptr);
  for (auto load : llvm::to_vector(loop.getBody()->getOps<tile::DescLoadOp>()))
    stage(load, attr != nullptr);
  if (loads.empty() && blocks.empty())
    return no(anyFeeds(loop) || attr ? StaysPut::Depends : StaysPut::NoProduct);
  // A load that another staged load's address needs is repeated in the slice anyway.
  uint64_t bytes = 0;
  for (Staged &staged : loads) {
    bytes += llvm::alignTo(staged.slot.getBytes(), staged.slot.getAlignment());
    (staged.contiguity ? anyAsync : anyRegisters) = true;
  }
  for (StagedBlock &block : blocks)
    bytes += llvm::alignTo(block.slot.getBytes(), block.slot.getAlignment());
  // Through registers loads go one iteration ahead only: two slots are as good as more.
  if (!anyAsync && blocks.empty())
    stages = stagesAsked = 2;
  // The longest distance gains less than the room of a slot, in which another block may fit.
  if (stages > kManySlots && onlyMma(loop)) {
    stages = stagesAsked = stages - 1;
    refillable = anyAsync && !anyRegisters && blocks.empty() &&
                 llvm::hasSingleElement(loop.getBody()->getOps<ngpu::MmaOp>());
  }
  while (stages > 2 && bytes * stages > sharedLeft)
    --stages;
  slots = stages;
  refills = refill && refillable;
  distance = refills ? slots : slots - 1;
  // The slot of the iteration before is still read when the copies are issued.
  if (slots > 2 && !fillsOwnBuffers() && (behind = productBehindOthers(loop)))
    distance = slots - 2;
  return true;
}

Value LoopPipeliner::exists(Value iv, unsigned by, bool checked) {
  // The rest ub - iv is exact as an unsigned number when iv < ub, whatever the two are.
  Type type = iv.getType();
  Value rest = arith::SubIOp::create(builder, loc, loop.getUpperBound(), iv);
  Value step = arith::MulIOp::create(builder, loc, loop.getStep(), constant(by, type));
  Value result = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ugt, rest, step);
  if (checked)
    return result;
  Value any =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, iv, loop.getUpperBound());
  return arith::AndIOp::create(builder, loc, any, result);
}

Value LoopPipeliner::ahead(Value iv, unsigned by) {
  if (by == 0)
    return iv;
  Value step = arith::MulIOp::create(builder, loc, loop.getStep(), constant(by, iv.getType()));
  return arith::AddIOp::create(builder, loc, iv, step);
}

Value LoopPipeliner::nextSlot(Value slot) {
  Type i32 = builder.getI32Type();
  Value next = arith::AddIOp::create(builder, loc, slot, constant(1, i32));
  Value wraps =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, next, constant(slots, i32));
  return arith::SelectOp::create(builder, loc, wraps, constant(0, i32), next);
}

Value slotOf(OpBuilder &builder, Location loc, const Staged &staged, Value index) {
  return ngpu::SlotOp::create(builder, loc, staged.slot, staged.ring, index);
}

/// The copies of one iteration, whose addresses `map` holds.
void LoopPipeliner::copy(IRMapping &map, Value predicate, Value slot) {
  for (Staged &staged : loads) {
    if (!staged.contiguity)
      continue;
    tile::LoadOp load = staged.load;
    Value ptr = map.lookupOrDefault(load.getPtr());
    Value mask = load.getMask() ? map.lookupOrDefault(load.getMask()) : Value();
    mask = masked(builder, load.getLoc(), mask, predicate, ptr.getType());
    ngpu::AsyncCopyOp::create(
        builder, load.getLoc(), ptr, slotOf(builder, load.getLoc(), staged, slot), mask,
        builder.getI32IntegerAttr(staged.contiguity), load.getCacheAttr(), load.getEvictAttr());
  }
  if (anyAsync)
    ngpu::AsyncCommitOp::create(builder, loc);
}

Value LoopPipeliner::barrierOf(Value slot) {
  return ngpu::SlotOp::create(builder, loc, mbarrierType(builder.getContext()), barriers, slot);
}

/// The blocks of one iteration, whose coordinates `map` holds: one thread asks for them.
void LoopPipeliner::fetchBlocks(IRMapping &map, Value predicate, Value slot) {
  if (blocks.empty())
    return;
  int64_t bytes = 0;
  for (StagedBlock &block : blocks)
    bytes += block.slot.getBytes();
  Value barrier = barrierOf(slot);
  ngpu::MBarrierExpectOp::create(builder, loc, barrier, int32_t(bytes), predicate);
  for (StagedBlock &block : blocks) {
    Location at = block.load.getLoc();
    llvm::SmallVector<Value> coords;
    for (Value coord : block.load.getCoords())
      coords.push_back(map.lookupOrDefault(coord));
    Value buffer = ngpu::SlotOp::create(builder, at, block.slot, block.ring, slot);
    ngpu::TmaLoadOp::create(builder, at, tensorMapOf(builder, block.load.getDesc()), coords, buffer,
                            barrier, predicate, Value(), Value(), block.load.getEvict());
  }
}

/// The rings, and mbarriers that expect the one thread that asks for blocks.
void LoopPipeliner::makeRings() {
  auto ring = [&](ngpu::BufferType slot, Location at) {
    return makeRing(builder, at, slot, slots);
  };
  for (Staged &staged : loads)
    staged.ring = ring(staged.slot, staged.load.getLoc());
  if (blocks.empty())
    return;
  for (StagedBlock &block : blocks)
    block.ring = ring(block.slot, block.load.getLoc());
  barriers = ring(mbarrierType(builder.getContext()), loc);
  for (unsigned k = 0; k < slots; ++k)
    ngpu::MBarrierInitOp::create(builder, loc, barrierOf(constant(k, builder.getI32Type())), 1);
  ngpu::FenceAsyncOp::create(builder, loc, followsWrites(loop));
  ngpu::BarrierOp::create(builder, loc, IntegerAttr(), IntegerAttr());
}

void LoopPipeliner::Carried::appendTo(llvm::SmallVectorImpl<Value> &values) const {
  llvm::append_range(values, farAhead);
  llvm::append_range(values, oneAhead);
  llvm::append_range(values, fetched);
  values.append({readSlot, writeSlot});
  if (parity)
    values.push_back(parity);
}

LoopPipeliner::Carried LoopPipeliner::Carried::replacedBy(ValueRange values) const {
  auto take = [&](size_t count) {
    llvm::SmallVector<Value> taken(values.take_front(count));
    values = values.drop_front(count);
    return taken;
  };
  Carried result;
  result.farAhead = take(farAhead.size());
  result.oneAhead = take(oneAhead.size());
  result.fetched = take(fetched.size());
  result.readSlot = take(1).front();
  result.writeSlot = take(1).front();
  if (parity)
    result.parity = take(1).front();
  return result;
}

IRMapping LoopPipeliner::mapAt(Value iv, ValueRange values) {
  IRMapping map;
  map.map(loop.getInductionVar(), iv);
  for (auto [number, value] : llvm::zip(slice.carriedValues(), values))
    map.map(loop.getRegionIterArg(number), value);
  return map;
}

llvm::SmallVector<Value> LoopPipeliner::afterIteration(const IRMapping &map) {
  llvm::SmallVector<Value> next;
  for (unsigned number : slice.carriedValues())
    next.push_back(map.lookupOrDefault(loop.getBody()->getTerminator()->getOperand(number)));
  return next;
}

llvm::SmallVector<Value> LoopPipeliner::fetchTiles(IRMapping &map, Value predicate) {
  llvm::SmallVector<Value> tiles;
  for (Staged &staged : loads)
    if (!staged.contiguity)
      tiles.push_back(cloneLoad(builder, staged.load, map, predicate).getResult());
  return tiles;
}

/// Iterations 0 .. distance-1. Loads through registers are one iteration ahead only.
LoopPipeliner::Carried LoopPipeliner::prologue() {
  Type i32 = builder.getI32Type();
  Value lower = loop.getLowerBound();
  Carried carried;
  llvm::SmallVector<Value> current; // The slice's carried values at the iteration reached.
  for (unsigned number : slice.carriedValues())
    current.push_back(loop.getInitArgs()[number]);
  llvm::SmallVector<Value> atSecond = current;
  for (unsigned k = 0; k < distance; ++k) {
    Value iv = ahead(lower, k);
    Value predicate = exists(lower, k, false);
    IRMapping map = mapAt(iv, current);
    slice.clone(builder, map, predicate);
    copy(map, predicate, constant(k, i32));
    fetchBlocks(map, predicate, constant(k, i32));
    if (k == 0)
      carried.fetched = fetchTiles(map, predicate);
    current = afterIteration(map);
    if (k == 0)
      atSecond = current;
  }
  if (copiesAhead())
    carried.farAhead = current;
  if (anyRegisters)
    carried.oneAhead = atSecond;
  carried.readSlot = constant(0, i32);
  carried.writeSlot = constant(distance % slots, i32);
  if (!blocks.empty())
    carried.parity = constant(0, i32);
  return carried;
}

/// At the top of an iteration: its blocks are waited for, its fetched tiles stored to their slots.
void LoopPipeliner::takeArrived(const Carried &now) {
  if (anyAsync)
    ngpu::AsyncWaitOp::create(builder, loc, distance - 1);
  if (!blocks.empty())
    ngpu::MBarrierWaitOp::create(builder, loc, barrierOf(now.readSlot), now.parity, Value());
  unsigned number = 0;
  for (Staged &staged : loads)
    if (!staged.contiguity)
      ngpu::LocalStoreOp::create(builder, staged.load.getLoc(), now.fetched[number++],
                                 slotOf(builder, loc, staged, now.readSlot));
}

/// The copies and loads of later iterations; the values that the next iteration starts with.
LoopPipeliner::Carried LoopPipeliner::startLater(Value iv, const Carried &now) {
  Carried next;
  if (copiesAhead()) {
    Block *body = builder.getInsertionBlock();
    Operation *before = body->empty() ? nullptr : &body->back();
    Value predicate = exists(iv, distance, true);
    IRMapping map = mapAt(ahead(iv, distance), now.farAhead);
    slice.clone(builder, map, predicate);
    copy(map, predicate, now.writeSlot);
    fetchBlocks(map, predicate, now.writeSlot);
    next.farAhead = afterIteration(map);
    for (Operation *op = before ? before->getNextNode() : &body->front(); op;
         op = op->getNextNode())
      copying.push_back(op);
  }
  if (anyRegisters) {
    Value predicate = exists(iv, 1, true);
    IRMapping map = mapAt(ahead(iv, 1), now.oneAhead);
    slice.clone(builder, map, predicate);
    next.fetched = fetchTiles(map, predicate);
    next.oneAhead = afterIteration(map);
  }
  next.readSlot = nextSlot(now.readSlot);
  next.writeSlot = nextSlot(now.writeSlot);
  if (!blocks.empty()) {
    Type i32 = builder.getI32Type();
    Value turns = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, next.readSlot,
                                        constant(0, i32));
    Value flip = arith::ExtUIOp::create(builder, loc, i32, turns);
    next.parity = arith::XOrIOp::create(builder, loc, now.parity, flip);
  }
  return next;
}

/// The old body reads the slots, and moves to the end of the new one, which yields `next` too.
void LoopPipeliner::moveBody(scf::ForOp fresh, Value readSlot, const Carried &next) {
  for (Staged &staged : loads) {
    builder.setInsertionPoint(staged.load);
    readFromSlot(builder, staged.load, staged.slot, staged.ring, readSlot);
  }
  for (StagedBlock &block : blocks) {
    builder.setInsertionPoint(block.load);
    readFromSlot(builder, block.load, block.slot, block.ring, readSlot);
  }
  Operation *yield = loop.getBody()->getTerminator();
  llvm::SmallVector<Value> yields(yield->getOperands());
  yield->erase();
  Value iv = fresh.getInductionVar();
  auto args = fresh.getRegionIterArgs();
  loop.getInductionVar().replaceAllUsesWith(iv);
  for (auto [old, now] : llvm::zip(loop.getRegionIterArgs(), args))
    old.replaceAllUsesWith(now);
  for (Value &value : yields) // Arguments yielded as they are were replaced in their uses only.
    if (auto arg = dyn_cast<BlockArgument>(value); arg && arg.getOwner() == loop.getBody())
      value = arg == loop.getInductionVar() ? iv : args[arg.getArgNumber() - 1];
  Block *body = fresh.getBody();
  body->getOperations().splice(body->end(), loop.getBody()->getOperations());
  builder.setInsertionPointToEnd(body);
  next.appendTo(yields);
  scf::YieldOp::create(builder, loc, yields);
}

/// Behind the loop.
void LoopPipeliner::releaseRings() {
  for (Staged &staged : loads)
    ngpu::LocalDeallocOp::create(builder, loc, staged.ring);
  for (unsigned k = 0; barriers && k < slots; ++k)
    ngpu::MBarrierInvalOp::create(builder, loc, barrierOf(constant(k, builder.getI32Type())));
  for (StagedBlock &block : blocks)
    ngpu::LocalDeallocOp::create(builder, loc, block.ring);
  if (barriers)
    ngpu::LocalDeallocOp::create(builder, loc, barriers);
}

scf::ForOp LoopPipeliner::rewrite() {
  makeRings();
  Carried start = prologue();
  llvm::SmallVector<Value> inits(loop.getInitArgs());
  start.appendTo(inits);
  auto fresh = scf::ForOp::create(builder, loc, loop.getLowerBound(), loop.getUpperBound(),
                                  loop.getStep(), inits);
  fresh->setDiscardableAttrs(loop->getDiscardableAttrDictionary());

  builder.setInsertionPointToStart(fresh.getBody());
  Carried now =
      start.replacedBy(ValueRange(fresh.getRegionIterArgs()).drop_front(loop.getNumResults()));
  takeArrived(now);
  Carried next = startLater(fresh.getInductionVar(), now);
  moveBody(fresh, now.readSlot, next);

  builder.setInsertionPointAfter(fresh);
  if (anyAsync)
    ngpu::AsyncWaitOp::create(builder, loc, 0);
  loop->replaceAllUsesWith(fresh->getResults().take_front(loop.getNumResults()));
  releaseRings();
  loop.erase();
  // Behind the product: the assembler puts its arithmetic around the barrier and the copies, and
  // the reads do not wait for copies, which go through the same queue.
  for (Operation *op : refills ? copying : llvm::SmallVector<Operation *>())
    op->moveBefore(fresh.getBody()->getTerminator());
  return fresh;
}

/// The loop twice: the version for launches of few programs, and the loop itself in the other
/// branch.
scf::ForOp versionForFewPrograms(scf::ForOp loop, unsigned multiprocessors) {
  OpBuilder b(loop);
  Location loc = loop.getLoc();
  auto number = [&](int64_t value) {
    return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value)).getResult();
  };
  Value programs;
  for (int axis = 0; axis < 3; ++axis) {
    Value count = tile::NumProgramsOp::create(b, loc, b.getI32Type(), axis);
    count = arith::ExtUIOp::create(b, loc, b.getI64Type(), count);
    programs = axis ? arith::MulIOp::create(b, loc, programs, count).getResult() : count;
  }
  Value few = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, programs,
                                    number(fewPrograms * multiprocessors));
  auto versions = scf::IfOp::create(b, loc, loop.getResultTypes(), few, /*withElseRegion=*/true);
  loop->replaceAllUsesWith(versions->getResults());
  OpBuilder inThen = OpBuilder::atBlockEnd(versions.thenBlock());
  auto copied = cast<scf::ForOp>(inThen.clone(*loop));
  scf::YieldOp::create(inThen, loc, copied.getResults());
  loop->moveBefore(versions.elseBlock(), versions.elseBlock()->end());
  OpBuilder inElse = OpBuilder::atBlockEnd(versions.elseBlock());
  scf::YieldOp::create(inElse, loc, loop.getResults());
  return copied;
}

/// Waits at the end of an iteration for products in flight whose earlier result is read after they
/// were issued: both are alive, and the registers of the new one would be copied to those of the
/// earlier one while the product runs. Takes them off `flying`. What the iteration does in between
/// overlaps with them.
void landWithinIteration(scf::ForOp loop, llvm::SmallVectorImpl<unsigned> &flying) {
  Block *body = loop.getBody();
  Operation *yield = body->getTerminator();
  llvm::SmallVector<unsigned> landing;
  llvm::erase_if(flying, [&](unsigned number) {
    Operation *product = yield->getOperand(number).getDefiningOp();
    bool both = llvm::any_of(loop.getRegionIterArg(number).getUsers(), [&](Operation *user) {
      Operation *here = body->findAncestorOpInBlock(*user);
      return here != yield && product->isBeforeInBlock(here);
    });
    if (both)
      landing.push_back(number);
    return both;
  });
  if (landing.empty())
    return;
  llvm::SmallVector<Value> values;
  for (unsigned number : landing)
    values.push_back(yield->getOperand(number));
  OpBuilder builder(yield);
  auto wait =
      ngpu::WgmmaWaitOp::create(builder, yield->getLoc(), TypeRange(ValueRange(values)), 0, values);
  for (auto [number, result] : llvm::zip(landing, wait.getResults()))
    yield->setOperand(number, result);
}

/// Lets the products of a loop's accumulators run on over the end of the iteration. `copying`: the
/// ops that copy ahead; `behind`: the product that is issued behind them, if there is one.
void keepInFlight(scf::ForOp loop, llvm::ArrayRef<Operation *> copying, ngpu::WgmmaOp behind) {
  auto products = llvm::to_vector(loop.getBody()->getOps<ngpu::WgmmaOp>());
  llvm::SmallVector<unsigned> flying = flyingAccumulators(loop);
  if (flying.empty())
    return;
  for (ngpu::WgmmaOp product : products)
    if (product == behind || staysInFlight(product))
      product.setAsync(true);
  // Asynchronous products are issued first: addresses are computed while they run.
  Operation *last = behind;
  for (Operation *op : copying) {
    if (behind)
      op->moveAfter(std::exchange(last, op));
    else if (flying.size() == products.size())
      op->moveBefore(loop.getBody()->getTerminator());
  }

  landWithinIteration(loop, flying);
  if (flying.empty() && !behind)
    return;
  // An accumulator that is only handed from product to product may stay in flight over the barrier.
  bool plain = products.size() == 1 && flying.size() == 1 &&
               loop.getRegionIterArg(flying[0]).hasOneUse() &&
               products[0].getC() == loop.getRegionIterArg(flying[0]);
  // Buffers of a single copy that the body fills anew are free only after the product.
  bool ownBuffers = !loop.getBody()->getOps<ngpu::LocalAllocOp>().empty() ||
                    !loop.getBody()->getOps<ngpu::LocalStoreOp>().empty();
  OpBuilder builder(loop.getBody(), loop.getBody()->begin());
  Location loc = products.back().getLoc();
  if (plain && !copying.empty() && !ownBuffers) {
    builder.setInsertionPointAfter(products[0]);
    ngpu::WgmmaWaitOp::create(builder, loc, TypeRange{}, 1, ValueRange{});
    ngpu::BarrierOp::create(builder, loc, IntegerAttr(), IntegerAttr());
  } else {
    llvm::SmallVector<Value> values;
    for (unsigned number : flying)
      values.push_back(loop.getRegionIterArg(number));
    if (behind) {
      values.push_back(behind.getResult());
      builder.setInsertionPointAfter(last);
    }
    auto wait = ngpu::WgmmaWaitOp::create(builder, loc, TypeRange(ValueRange(values)), 0, values);
    for (auto [value, result] : llvm::zip(values, wait.getResults()))
      value.replaceAllUsesExcept(result, wait);
  }
  builder.setInsertionPointAfter(loop);
  llvm::SmallVector<Value> results;
  for (unsigned number : flying)
    results.push_back(loop.getResult(number));
  auto wait = ngpu::WgmmaWaitOp::create(builder, loc, TypeRange(ValueRange(results)), 0, results);
  for (auto [value, result] : llvm::zip(results, wait.getResults()))
    value.replaceAllUsesExcept(result, wait);
}

} // namespace

unsigned pipelineLoops(func::FuncOp kernel, const GpuOptions &options,
                       std::vector<explain::Hint> &advice) {
  llvm::SmallVector<scf::ForOp> loops;
  kernel.walk([&](scf::ForOp loop) {
    if (!isSpecialised(loop))
      loops.push_back(loop);
  });
  if (loops.empty())
    return 0;
  unsigned deepest = 0;
  uint64_t used = 0;
  kernel.walk([&](ngpu::LocalAllocOp alloc) {
    if (!alloc->getParentOfType<scf::ForOp>())
      used += alloc.getType().getBytes();
  });
  unsigned left =
      options.machine.maxSharedBytes - std::min<uint64_t>(used, options.machine.maxSharedBytes);
  llvm::SmallVector<scf::ForOp> refilling;
  auto analysis = std::make_unique<transforms::IntegerAnalysis>(addressAnalysis(kernel));
  for (scf::ForOp loop : loops) {
    LoopPipeliner pipeliner(loop, options, *analysis);
    if (onlyMma(loop) && pipeliner.plan(left) && pipeliner.canRefill())
      refilling.push_back(versionForFewPrograms(loop, options.machine.multiprocessors));
  }
  if (!refilling.empty())
    analysis = std::make_unique<transforms::IntegerAnalysis>(addressAnalysis(kernel));
  for (scf::ForOp loop : refilling) {
    LoopPipeliner pipeliner(loop, options, *analysis);
    if (pipeliner.plan(left, /*refill=*/true))
      pipeliner.rewrite();
  }
  for (scf::ForOp loop : loops) {
    if (isBetterAsBranch(loop)) {
      makeBranch(loop);
      continue;
    }
    LoopPipeliner pipeliner(loop, options, *analysis);
    bool goesAhead = pipeliner.plan(left);
    deepest = std::max(deepest, pipeliner.decision().stages);
    bool isOther = loop->hasAttr(tile::withoutCopiesName); // the report is on the first version
    if (std::optional<explain::Hint> hint = adviceOnLoop(loop, pipeliner.decision());
        hint && !isOther)
      advice.push_back(std::move(*hint));
    if (options.explanation && !isOther)
      explainLoop(loop, anyFeeds(loop), pipeliner.decision(), *options.explanation);
    scf::ForOp now = goesAhead ? pipeliner.rewrite() : loop;
    keepInFlight(now, pipeliner.copies(), pipeliner.issuedBehind());
  }
  return deepest;
}

} // namespace nereid::gpu
