// Loads of a kernel that the compiler wrote, before what its threads wait for together.
//
// A gradient kernel computes the forward values first and reads the gradients of the outputs where
// it needs them: behind the first reductions, at whose barriers all warps of a program meet. Then
// no warp has a load in flight, and a row waits for memory twice. Such loads move in front of the
// first reduction behind them, together with what computes their addresses, as far as registers
// allow. No write is passed, so a load reads what it read; it was executed in any case, since it
// stays in its block.
//
// A gradient that its owner reads, adds to and writes (`addToStored` of the differentiation) is
// read early in the same way, with the barrier before it: in front of everything that does not
// write this gradient, loops included. Gradients have places of their own. Several of them share a
// barrier. In a loop that comes to other elements in each turn, the barrier moves in front of the
// loop.
//
// Other kernels keep the order of their authors.
#include "gpu/Passes.h"
#include "ir/tile/Dialect.h"
#include "transforms/Provenance.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

/// Registers of a thread that hold what loads read ahead of their use.
constexpr int64_t kMostRegisters = 32;
/// No address of a kernel that anybody writes takes more operations.
constexpr size_t kMostOperations = 64;

bool onlyReads(Operation *op) {
  auto effects = dyn_cast<MemoryEffectOpInterface>(op);
  return isMemoryEffectFree(op) ||
         (effects && effects.onlyHasEffect<MemoryEffects::Read>() && !op->getNumRegions());
}

/// Adds to `ops`, in the order of the program, what computes a value behind `wait`; false where
/// that cannot be done before it.
bool collect(Value value, Operation *wait, llvm::SetVector<Operation *> &ops) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != wait->getBlock() || op->isBeforeInBlock(wait) || ops.contains(op))
    return true;
  if (op->getNumRegions() || !isPure(op) ||
      !llvm::all_of(op->getOperands(), [&](Value each) { return collect(each, wait, ops); }))
    return false;
  ops.insert(op);
  return ops.size() <= kMostOperations;
}

void issueLoads(Block &block, int64_t threads) {
  Operation *wait = nullptr; // the first reduction behind the last write
  int64_t registers = 0;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (isa<tile::ReduceOp, tile::ScanOp>(op) && isMemoryEffectFree(&op)) {
      if (!wait)
        registers = 0;
      wait = wait ? wait : &op;
      continue;
    }
    auto load = dyn_cast<tile::LoadOp>(op);
    if (op.getNumRegions() || !onlyReads(&op) || (load && load.getIsVolatile())) {
      wait = nullptr;
      continue;
    }
    if (!load || !wait)
      continue;
    int64_t elements = 1;
    for (int64_t size : tile::shapeOf(load.getType()))
      elements *= size;
    int64_t bytes = elements * tile::sizeInBytes(tile::elementOf(load.getType()));
    int64_t needed = llvm::divideCeil(llvm::divideCeil(bytes, threads), 4);
    llvm::SetVector<Operation *> ops;
    if (registers + needed > kMostRegisters ||
        !llvm::all_of(load->getOperands(), [&](Value each) { return collect(each, wait, ops); }))
      continue;
    registers += needed;
    for (Operation *each : ops)
      each->moveBefore(wait);
    load->moveBefore(wait);
  }
}

/// Registers of a thread that hold an old sum while what is added to it is computed.
constexpr int64_t kMostOfSum = 4;

/// The load behind a barrier whose value is added to and stored where it was; null for others.
tile::LoadOp ownersLoad(tile::BarrierOp barrier) {
  auto load = dyn_cast_or_null<tile::LoadOp>(barrier->getNextNode());
  auto added = load ? dyn_cast_or_null<arith::AddFOp>(load->getNextNode()) : nullptr;
  auto store = added ? dyn_cast_or_null<tile::StoreOp>(added->getNextNode()) : nullptr;
  if (!store || load.getIsVolatile() || added.getLhs() != load.getResult() ||
      store.getValue() != added.getResult() || store.getPtr() != load.getPtr() ||
      store.getMask() != load.getMask())
    return nullptr;
  return load;
}

/// The same, if threads can hold what it reads for long.
tile::LoadOp oldSum(tile::BarrierOp barrier, int64_t threads) {
  tile::LoadOp load = ownersLoad(barrier);
  if (!load)
    return nullptr;
  int64_t bytes = tile::sizeInBytes(tile::elementOf(load.getType()));
  if (auto tensor = dyn_cast<RankedTensorType>(load.getType()))
    bytes = llvm::divideCeil(bytes * tensor.getNumElements(), threads);
  return bytes <= 4 * kMostOfSum ? load : nullptr;
}

/// May an operation write through this argument, or end what other threads write?
bool mayWrite(Operation *op, int argument, const transforms::Provenance &provenance) {
  auto writes = [&](Operation *inner) {
    if (onlyReads(inner) ||
        (inner->getNumRegions() && inner->hasTrait<OpTrait::HasRecursiveMemoryEffects>()))
      return WalkResult::advance();
    Value address;
    if (auto store = dyn_cast<tile::StoreOp>(inner))
      address = store.getPtr();
    else if (auto atomic = dyn_cast<tile::AtomicRMWOp>(inner))
      address = atomic.getPtr();
    int written = address ? provenance.of(address).only() : -1;
    bool isOther = isa<tile::BarrierOp>(inner) || (written >= 0 && written != argument);
    return isOther ? WalkResult::advance() : WalkResult::interrupt();
  };
  return op->walk(writes).wasInterrupted();
}

void readOldSums(Block &block, int64_t threads, const transforms::Provenance &provenance) {
  SmallVector<tile::BarrierOp> barriers(block.getOps<tile::BarrierOp>());
  for (tile::BarrierOp barrier : barriers) {
    tile::LoadOp load = oldSum(barrier, threads);
    int argument = load ? provenance.of(load.getPtr()).only() : -1;
    if (argument < 0)
      continue;
    Operation *to = barrier;
    for (Operation *op = barrier->getPrevNode(); op; op = op->getPrevNode()) {
      if (mayWrite(op, argument, provenance))
        break;
      // Behind a loop or a write, or behind the barrier of another sum, which it then shares.
      if (op->getNumRegions() || !onlyReads(op))
        to = op;
    }
    llvm::SetVector<Operation *> ops;
    if (to == barrier ||
        !llvm::all_of(load->getOperands(), [&](Value each) { return collect(each, to, ops); }))
      continue;
    for (Operation *each : ops)
      each->moveBefore(to);
    load->moveBefore(to);
    if (isa<tile::BarrierOp>(to)) { // both loads stand behind it
      load->moveAfter(to);
      barrier->erase();
    } else {
      barrier->moveBefore(load);
    }
  }
}

/// How far a number moves in each turn of a loop whose variable moves by one; 0 where not known.
int64_t moveOf(Value number, scf::ForOp loop) {
  if (number == loop.getInductionVar())
    return 1;
  Operation *op = number.getDefiningOp();
  if (!op || op->getNumOperands() != 2 || !loop->isAncestor(op))
    return 0;
  Value a = op->getOperand(0), b = op->getOperand(1);
  bool isFixed = loop.isDefinedOutsideOfLoop(a), otherIsFixed = loop.isDefinedOutsideOfLoop(b);
  if (isa<arith::AddIOp>(op) && (isFixed || otherIsFixed))
    return moveOf(isFixed ? b : a, loop);
  if (isa<arith::SubIOp>(op) && (isFixed || otherIsFixed))
    return isFixed ? -moveOf(b, loop) : moveOf(a, loop);
  APInt factor;
  if (isa<arith::MulIOp>(op) && matchPattern(b, m_ConstantInt(&factor)))
    return factor.getSExtValue() * moveOf(a, loop);
  return 0;
}

/// Does each turn of a loop address other elements than all other turns do? Known of as many
/// elements behind one another as the loop moves on by.
bool readsOthersInEachTurn(Value pointers, scf::ForOp loop) {
  auto at = pointers.getDefiningOp<tile::AddPtrOp>();
  auto sum = at ? at.getOffset().getDefiningOp<arith::AddIOp>() : nullptr;
  std::optional<int64_t> step = getConstantIntValue(loop.getStep());
  if (!sum || !step || !at.getPtr().getDefiningOp<tile::SplatOp>() ||
      !loop.isDefinedOutsideOfLoop(at.getPtr()))
    return false;
  for (auto [one, other] :
       {std::pair(sum.getLhs(), sum.getRhs()), std::pair(sum.getRhs(), sum.getLhs())}) {
    auto moved = one.getDefiningOp<tile::SplatOp>();
    auto range = other.getDefiningOp<tile::RangeOp>();
    if (moved && range)
      return std::abs(moveOf(moved.getSrc(), loop) * *step) >=
             int64_t(range.getEnd()) - int64_t(range.getStart());
  }
  return false;
}

/// An owner that adds in each turn of a loop to other elements than before reads nothing that was
/// written in the loop: one barrier in front of the loop is enough, and threads then wait for their
/// own loads only. Where the owner adds under a condition, and atomically otherwise, the old values
/// are read in front of the condition, with the loads before it.
void loosenLoop(scf::ForOp loop, const transforms::Provenance &provenance) {
  SmallVector<tile::BarrierOp> barriers;
  loop.walk([&](tile::BarrierOp barrier) { barriers.push_back(barrier); });
  for (tile::BarrierOp barrier : barriers) {
    tile::LoadOp load = ownersLoad(barrier);
    int argument = load ? provenance.of(load.getPtr()).only() : -1;
    auto condition = dyn_cast<scf::IfOp>(barrier->getParentOp());
    if (argument < 0 || !readsOthersInEachTurn(load.getPtr(), loop) ||
        (condition ? condition->getParentOp() : barrier->getParentOp()) != loop)
      continue;
    auto isElsewhere = [&](Operation *op) {
      Value address;
      if (auto store = dyn_cast<tile::StoreOp>(op))
        address = store.getPtr();
      else if (auto atomic = dyn_cast<tile::AtomicRMWOp>(op))
        address = atomic.getPtr();
      return address == load.getPtr() || op->getNumRegions() || !mayWrite(op, argument, provenance)
                 ? WalkResult::advance()
                 : WalkResult::interrupt();
    };
    if (loop.getBody()->walk(isElsewhere).wasInterrupted())
      continue;
    barrier->moveBefore(loop);
    if (!condition || condition.getElseRegion().empty())
      continue;
    // The other branch accesses the same elements.
    bool accesses = llvm::any_of(condition.elseBlock()->getOps<tile::AtomicRMWOp>(), [&](auto op) {
      return op.getPtr() == load.getPtr() && op.getMask() == load.getMask();
    });
    Operation *last = nullptr;
    for (Operation *op = condition->getPrevNode(); op && !last; op = op->getPrevNode())
      if (op->getNumRegions() || !onlyReads(op))
        break;
      else if (isa<tile::LoadOp>(op))
        last = op->getNextNode();
    llvm::SetVector<Operation *> ops;
    if (!accesses || !last || &condition.thenBlock()->front() != load ||
        !llvm::all_of(load->getOperands(), [&](Value each) { return collect(each, last, ops); }))
      continue;
    for (Operation *each : ops)
      each->moveBefore(last);
    load->moveBefore(last);
  }
}

} // namespace

void issueLoads(func::FuncOp kernel, const GpuOptions &options) {
  if (!kernel->hasAttr("tile.gradients"))
    return;
  SmallVector<Block *> blocks; // operations move while they are visited
  kernel->walk([&](Block *block) {
    if (!isa<tile::ReduceOp, tile::ScanOp, tile::MapElementwiseOp>(block->getParentOp()))
      blocks.push_back(block);
  });
  int64_t threads = int64_t(options.numWarps) * options.machine.lanes;
  transforms::Provenance provenance(kernel);
  for (Block *block : blocks) {
    issueLoads(*block, threads);
    readOldSums(*block, threads, provenance);
  }
  kernel->walk([&](scf::ForOp loop) { loosenLoop(loop, provenance); });
}

} // namespace nereid::gpu
