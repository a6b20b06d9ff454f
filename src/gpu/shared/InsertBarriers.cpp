// Barriers between accesses to shared memory that conflict.
//
// Walks the structured program forward with the set of accesses (byte intervals, read or written)
// since the last barrier. An access that meets one of another kind there, write after read, read
// after write, write after write, needs a barrier before it, since another thread may have made the
// earlier one. Sets join by union where control flow does; loops are walked until the set at their
// head stops growing. A barrier, once found necessary, stays: sets only shrink by it.
//
// Asynchronous accesses count when they are waited for: what other threads copied (cp.async) is
// written at the `async_wait`, what the matrix unit or the copy engine reads is read at the
// `wgmma_wait` or `tma_store_wait`. Writes of the copy engine are waited for by every thread itself
// (mbarriers) and need nothing. In the other direction they are accesses like all others: a copy
// into a slot that others may still read needs a barrier before it.
//
// The matrix unit and the copy engine see shared memory through another proxy. Every thread runs
// `fence_async` at the barrier that orders ordinary writes with their accesses: before it, as far
// as one thread asks for the access of all. Products are issued by all threads, so that their fence
// may stand behind the barrier, on the way from the writes to the product as well. It takes as long
// as memory operations in flight, and before the barrier all warps would wait for the last one.
// A barrier has a fence only where such an access may follow: a walk backward finds the bytes that
// the other proxy accesses later, before the next `fence_async` of the program itself.
//
// Buffers with `ngpu.by_group` are left out: each group of four warps accesses its own part, and
// the pass that made them has put barriers of the group and fences.
//
// In a program of several blocks (gpu/layouts/Blocks.h) an op that crosses blocks writes to the
// shared memory of others. A barrier of the block orders neither these writes nor its own accesses
// with them, so that two sets are kept: accesses since the last barrier of the block, and since the
// last one of all blocks. Before the first such write all blocks must have started: each arrives
// when it starts, and waits for the others before the first op that may meet them.
//
// An atomic operation that releases is done by one thread for the whole block when it is a scalar
// one: a barrier before it orders the global accesses of all threads before.
#include "gpu/Passes.h"
#include "gpu/layouts/Blocks.h"
#include "gpu/shared/BufferUses.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

struct Interval {
  int64_t begin, end;
  bool overlaps(const Interval &other) const { return begin < other.end && other.begin < end; }
  bool operator==(const Interval &) const = default;
};

/// Bytes accessed in one way; kept sorted and merged.
class Intervals {
public:
  void add(Interval one) {
    if (one.begin >= one.end)
      return;
    auto *at = list.begin();
    while (at != list.end() && at->end < one.begin)
      ++at;
    auto *last = at;
    for (; last != list.end() && last->begin <= one.end; ++last) {
      one.begin = std::min(one.begin, last->begin);
      one.end = std::max(one.end, last->end);
    }
    at = list.erase(at, last);
    list.insert(at, one);
  }
  void add(const Intervals &other) {
    for (const Interval &one : other.list)
      add(one);
  }
  bool meets(const Intervals &other) const {
    return llvm::any_of(other.list, [&](const Interval &one) {
      return llvm::any_of(list, [&](const Interval &mine) { return mine.overlaps(one); });
    });
  }
  bool empty() const { return list.empty(); }
  void clear() { list.clear(); }
  bool operator==(const Intervals &) const = default;

private:
  SmallVector<Interval, 4> list;
};

/// Accesses since the last barrier, and asynchronous operations that have not been waited for.
struct State {
  Intervals read, written;
  Intervals unfenced;               ///< written by ordinary stores, without a fence_async since
  Intervals copying;                ///< by cp.async, not waited for
  Intervals matrixReads, bulkReads; ///< not waited for
  bool global = false;              ///< an access to global memory since the last barrier
  /// Of a program of several blocks, since the last barrier of all of them: this block's accesses
  /// to its own shared memory, and what other blocks have written there.
  Intervals ofBlock, fromBlocks;

  void join(const State &other) {
    read.add(other.read);
    written.add(other.written);
    unfenced.add(other.unfenced);
    copying.add(other.copying);
    matrixReads.add(other.matrixReads);
    bulkReads.add(other.bulkReads);
    global |= other.global;
    ofBlock.add(other.ofBlock);
    fromBlocks.add(other.fromBlocks);
  }
  void synchroniseBlocks() {
    synchronise();
    ofBlock.clear();
    fromBlocks.clear();
  }
  void synchronise() {
    read.clear();
    written.clear();
    unfenced.clear();
    global = false;
  }
  bool operator==(const State &) const = default;
};

class Barriers {
public:
  explicit Barriers(func::FuncOp function)
      : function(function), uses(function), severalBlocks(ngpu::blockCount(function) > 1) {}
  void run() {
    findOtherProxy(function.getBody().front(), Intervals());
    State state;
    walk(function.getBody().front(), state);
    write();
    if (severalBlocks && function->hasAttr("tile.kernel"))
      awaitStart();
  }

private:
  enum class Barrier : uint8_t { None, Block, AllBlocks };
  struct Decision {
    Barrier barrier = Barrier::None;
    bool fence = false;
  };
  /// Fills `otherProxy` for the ops of a block; what holds at its beginning. `after`: at its end.
  Intervals findOtherProxy(mlir::Block &block, Intervals after);
  /// The same for an op with blocks of its own.
  Intervals findOtherProxy(Operation *op, Intervals after);
  Intervals bytesOf(Value buffer) const;
  /// Before `op`, if the accesses meet earlier ones: a barrier.
  /// `crosses`: its writes are to the shared memory of other blocks too.
  void order(Operation *op, State &state, const Intervals &reads, const Intervals &writes,
             bool crosses = false);
  void barrierBefore(Operation *op, State &state, Barrier barrier) {
    decisions[op].barrier = std::max(decisions[op].barrier, barrier);
    barrierAt(op, state, barrier);
  }
  /// A barrier takes place at (or just before, or within) `op`.
  void barrierAt(Operation *op, State &state, Barrier barrier) {
    if (auto later = otherProxy.find(op);
        later != otherProxy.end() && state.unfenced.meets(later->second))
      decisions[op].fence = true;
    if (barrier == Barrier::AllBlocks)
      state.synchroniseBlocks();
    else
      state.synchronise();
  }
  /// The barrier of all threads of the program.
  Barrier widest() const { return severalBlocks ? Barrier::AllBlocks : Barrier::Block; }
  void noteRead(State &state, const Intervals &bytes) {
    state.read.add(bytes);
    if (severalBlocks)
      state.ofBlock.add(bytes);
  }
  void noteWrite(State &state, const Intervals &bytes, bool crosses = false) {
    state.written.add(bytes);
    if (severalBlocks)
      state.ofBlock.add(bytes);
    if (crosses)
      state.fromBlocks.add(bytes);
  }
  /// The start of the program's blocks.
  void awaitStart();
  void walk(mlir::Block &block, State &state);
  void visit(Operation *op, State &state);
  /// Barriers, fences, waits.
  void visitSynchronisation(Operation *op, State &state);
  /// Accesses to shared memory.
  void visitAccess(Operation *op, State &state);
  /// Calls, and ops with blocks of their own.
  void visitControl(Operation *op, State &state);
  void visitLoop(scf::ForOp loop, State &state);
  void visitLoop(scf::WhileOp loop, State &state);
  void write();

  func::FuncOp function;
  BufferUses uses;
  bool severalBlocks;
  /// Bytes that the matrix unit or the copy engine may access from an op on before a `fence_async`
  /// that the program has already. No entry: none.
  llvm::DenseMap<Operation *, Intervals> otherProxy;
  llvm::MapVector<Operation *, Decision> decisions;
};

Interval bytesOfAlloc(ngpu::LocalAllocOp alloc) {
  int64_t start = *alloc.getOffset();
  return {start, start + alloc.getType().getBytes()};
}

Intervals Barriers::bytesOf(Value buffer) const {
  Intervals result;
  for (const BufferPart &part : uses.parts(buffer)) {
    if (part.root->hasAttr(ngpu::byGroupName))
      continue;
    int64_t start = part.root->getAttrOfType<IntegerAttr>("offset").getInt() + part.offset;
    result.add(Interval{start, start + part.bytes});
  }
  return result;
}

Intervals Barriers::findOtherProxy(mlir::Block &block, Intervals after) {
  for (Operation &op : llvm::reverse(block)) {
    if (isa<ngpu::FenceAsyncOp>(op))
      after.clear();
    else if (op.getNumRegions())
      after = findOtherProxy(&op, std::move(after));
    else if (isa<ngpu::WgmmaOp, ngpu::TmaStoreOp, ngpu::TmaLoadOp>(op))
      for (Value operand : op.getOperands())
        if (isa<ngpu::BufferType>(operand.getType()))
          after.add(bytesOf(operand));
    if (after.empty())
      otherProxy.erase(&op);
    else
      otherProxy[&op] = after;
  }
  return after;
}

Intervals Barriers::findOtherProxy(Operation *op, Intervals after) {
  Intervals before;
  if (isa<scf::ForOp, scf::WhileOp>(op)) {
    // From the end of each region into the others, or out of the loop.
    before = after;
    while (true) {
      Intervals grown = before;
      for (Region &region : llvm::reverse(op->getRegions()))
        grown.add(findOtherProxy(region.front(), grown));
      if (grown == before)
        return before;
      before = std::move(grown);
    }
  }
  for (Region &region : op->getRegions())
    before.add(region.empty() ? after : findOtherProxy(region.front(), after));
  return before;
}

void Barriers::order(Operation *op, State &state, const Intervals &reads, const Intervals &writes,
                     bool crosses) {
  Barrier decided = decisions.lookup(op).barrier;
  bool ofAll = reads.meets(state.fromBlocks) || writes.meets(state.fromBlocks) ||
               (crosses && writes.meets(state.ofBlock));
  if (ofAll || decided == Barrier::AllBlocks)
    barrierBefore(op, state, Barrier::AllBlocks);
  else if (decided == Barrier::Block || reads.meets(state.written) || writes.meets(state.written) ||
           writes.meets(state.read))
    barrierBefore(op, state, Barrier::Block);
}

Interval scratchOf(Operation *op) {
  std::optional<uint32_t> offset = ngpu::scratchOffset(op);
  return offset ? Interval{int64_t(*offset), int64_t(*offset) + scratchBytes(op)} : Interval{0, 0};
}

/// All shared memory that a function and those that it calls use; empty if they use none.
Interval footprint(func::FuncOp function) {
  Interval result{INT64_MAX, 0};
  function.walk([&](Operation *op) {
    Interval one = scratchOf(op);
    if (auto alloc = dyn_cast<ngpu::LocalAllocOp>(op)) {
      one = bytesOfAlloc(alloc);
    } else if (auto call = dyn_cast<func::CallOp>(op)) {
      auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
      if (callee && !callee.isExternal())
        one = footprint(callee);
    }
    if (one.begin == one.end)
      return;
    result.begin = std::min(result.begin, one.begin);
    result.end = std::max(result.end, one.end);
  });
  return result.end ? result : Interval{0, 0};
}

bool touchesGlobal(Operation *op) {
  return isa<tile::LoadOp, tile::StoreOp, tile::Atomic, ngpu::AsyncCopyOp, ngpu::TmaStoreOp>(op) ||
         (isa<tile::ExternOp, tile::InlineAsmOp, tile::MapElementwiseOp>(op) &&
          !isMemoryEffectFree(op));
}

bool releases(Operation *op) {
  auto atomic = dyn_cast<tile::Atomic>(op);
  if (!atomic || isa<RankedTensorType>(atomic.getPtr().getType()))
    return false;
  return atomic.getSem() == tile::MemSemantic::Release ||
         atomic.getSem() == tile::MemSemantic::AcqRel;
}

void Barriers::visit(Operation *op, State &state) {
  if (Barrier barrier = decisions.lookup(op).barrier; barrier != Barrier::None)
    barrierAt(op, state, barrier);
  if (state.global && releases(op))
    barrierBefore(op, state, widest());
  state.global |= touchesGlobal(op);

  // Every op belongs to at most one of these.
  visitSynchronisation(op, state);
  visitAccess(op, state);
  visitControl(op, state);
}

void Barriers::visitSynchronisation(Operation *op, State &state) {
  llvm::TypeSwitch<Operation *>(op)
      .Case<ngpu::BarrierOp>([&](ngpu::BarrierOp barrier) {
        if (!barrier.getId())
          barrierAt(op, state, Barrier::Block);
      })
      .Case<tile::BarrierOp, ngpu::ClusterBarrierOp>([&](auto) { barrierAt(op, state, widest()); })
      .Case([&](ngpu::FenceAsyncOp) { state.unfenced.clear(); })
      .Case([&](ngpu::WgmmaWaitOp wait) {
        state.read.add(state.matrixReads);
        if (wait.getPending() == 0)
          state.matrixReads.clear();
      })
      .Case([&](ngpu::AsyncWaitOp wait) {
        state.written.add(state.copying);
        state.unfenced.add(state.copying);
        if (wait.getPending() == 0)
          state.copying.clear();
      })
      .Case([&](ngpu::TmaStoreWaitOp wait) {
        state.read.add(state.bulkReads);
        if (wait.getPending() == 0)
          state.bulkReads.clear();
      });
}

void Barriers::visitAccess(Operation *op, State &state) {
  Intervals reads, writes;
  auto buffers = [&](ValueRange values, Intervals &into) {
    for (Value value : values)
      if (isa<ngpu::BufferType>(value.getType()))
        into.add(bytesOf(value));
  };
  auto write = [&](ValueRange values) {
    buffers(values, writes);
    bool crosses = severalBlocks && crossesBlocks(op);
    order(op, state, reads, writes, crosses);
    noteWrite(state, writes, crosses);
    state.unfenced.add(writes);
  };
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](ngpu::LocalAllocOp alloc) {
        if (alloc.getSrc())
          write(alloc.getResult());
        if (alloc->hasAttr(ngpu::byGroupName)) { // who had the bytes before must be done
          writes.add(bytesOfAlloc(alloc));
          order(op, state, reads, writes);
        }
      })
      .Case<ngpu::LocalStoreOp, ngpu::MBarrierInitOp, ngpu::MBarrierInvalOp>(
          [&](auto) { write(op->getOperands()); })
      .Case<ngpu::LocalLoadOp, ngpu::FmaDotOp, ngpu::MBarrierExpectOp, ngpu::MBarrierArriveOp,
            ngpu::MBarrierWaitOp>([&](auto) {
        buffers(op->getOperands(), reads);
        order(op, state, reads, writes);
        noteRead(state, reads);
      })
      .Case([&](ngpu::WgmmaOp wgmma) {
        buffers(op->getOperands(), reads);
        order(op, state, reads, writes);
        (wgmma.getAsync() ? state.matrixReads : state.read).add(reads);
      })
      .Case([&](ngpu::AsyncCopyOp copy) {
        buffers(copy.getBuffer(), writes);
        order(op, state, reads, writes);
        state.copying.add(writes);
      })
      .Case([&](ngpu::TmaLoadOp load) {
        buffers(load.getBuffer(), writes);
        buffers(load.getBarrier(), reads);
        order(op, state, reads, writes);
        state.read.add(reads);
      })
      .Case([&](ngpu::TmaStoreOp store) {
        buffers(store.getBuffer(), reads);
        order(op, state, reads, writes);
        state.bulkReads.add(reads);
      })
      .Case<tile::ReduceOp, tile::ScanOp, tile::Atomic, tile::ExchangeOp, tile::SliceOp,
            tile::GatherOp, tile::HistogramOp, ngpu::ConvertLayoutOp, ngpu::SumBlocksOp>([&](auto) {
        // Written, then a barrier of the op's own, then read.
        Interval scratch = scratchOf(op);
        if (scratch.begin == scratch.end)
          return;
        writes.add(scratch);
        bool crosses = severalBlocks && crossesBlocks(op);
        order(op, state, reads, writes, crosses);
        barrierAt(op, state, crosses ? Barrier::AllBlocks : Barrier::Block);
        noteRead(state, writes);
      });
}

void Barriers::visitControl(Operation *op, State &state) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](func::CallOp call) {
        auto callee =
            SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
        if (!callee || callee.isExternal())
          return;
        Intervals writes;
        writes.add(footprint(callee));
        order(op, state, Intervals(), writes, severalBlocks);
        noteWrite(state, writes, severalBlocks);
        state.global = true;
      })
      .Case<scf::ForOp, scf::WhileOp>([&](auto loop) { visitLoop(loop, state); })
      .Case([&](ngpu::WarpSpecializeOp parts) {
        // Other warps start here, and end here; all meet at a barrier of the op's own.
        barrierAt(op, state, Barrier::Block);
        for (Region &part : parts.getParts()) {
          State own;
          walk(part.front(), own);
        }
        state.synchronise();
      })
      .Case([&](scf::IfOp branch) {
        State joined = branch.elseBlock() ? State() : state;
        for (Region &region : branch->getRegions()) {
          if (region.empty())
            continue;
          State own = state;
          walk(region.front(), own);
          joined.join(own);
        }
        state = std::move(joined);
      });
}

void Barriers::visitLoop(scf::ForOp loop, State &state) {
  State head = state, end;
  while (true) {
    end = head;
    walk(*loop.getBody(), end);
    State grown = head;
    grown.join(end);
    if (grown == head)
      break;
    head = std::move(grown);
  }
  APInt lower, upper;
  bool runs = matchPattern(loop.getLowerBound(), m_ConstantInt(&lower)) &&
              matchPattern(loop.getUpperBound(), m_ConstantInt(&upper)) &&
              (loop.getUnsignedCmp() ? lower.ult(upper) : lower.slt(upper));
  if (!runs)
    end.join(state);
  state = std::move(end);
}

void Barriers::visitLoop(scf::WhileOp loop, State &state) {
  State head = state, decided;
  while (true) {
    decided = head;
    walk(*loop.getBeforeBody(), decided);
    State end = decided;
    walk(*loop.getAfterBody(), end);
    State grown = head;
    grown.join(end);
    if (grown == head)
      break;
    head = std::move(grown);
  }
  state = std::move(decided);
}

void Barriers::walk(Block &block, State &state) {
  for (Operation &op : block)
    visit(&op, state);
}

void Barriers::write() {
  for (auto &[op, decision] : decisions) {
    OpBuilder builder(op);
    bool isBehind = isa<ngpu::WgmmaOp>(op);
    if (decision.fence && !isBehind)
      ngpu::FenceAsyncOp::create(builder, op->getLoc());
    if (decision.barrier == Barrier::Block)
      ngpu::BarrierOp::create(builder, op->getLoc(), nullptr, nullptr);
    else if (decision.barrier == Barrier::AllBlocks)
      ngpu::ClusterBarrierOp::create(builder, op->getLoc(), false, false);
    if (decision.fence && isBehind)
      ngpu::FenceAsyncOp::create(builder, op->getLoc());
  }
}

/// Whether the blocks of a program meet at `op`, or it writes to other blocks.
bool meetsBlocks(Operation *op) {
  if (auto call = dyn_cast<func::CallOp>(op)) {
    auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
    return callee && !callee.isExternal();
  }
  return isa<ngpu::ClusterBarrierOp, tile::BarrierOp, tile::AtomicRMWOp, tile::AtomicCASOp>(op) ||
         crossesBlocks(op);
}

void Barriers::awaitStart() {
  Block &body = function.getBody().front();
  for (Operation &op : body) {
    WalkResult walked = op.walk([](Operation *each) {
      return meetsBlocks(each) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (!walked.wasInterrupted())
      continue;
    OpBuilder start(&body, body.begin());
    ngpu::ClusterBarrierOp::create(start, function.getLoc(), true, false);
    OpBuilder before(&op);
    ngpu::ClusterBarrierOp::create(before, op.getLoc(), false, true);
    return;
  }
}

} // namespace

llvm::Error insertBarriers(func::FuncOp kernel, const GpuOptions &options) {
  SmallVector<func::FuncOp> functions{kernel};
  llvm::SmallPtrSet<Operation *, 4> seen{kernel};
  for (size_t i = 0; i < functions.size(); ++i) {
    functions[i].walk([&](func::CallOp call) {
      auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
      if (callee && !callee.isExternal() && seen.insert(callee).second)
        functions.push_back(callee);
    });
    Barriers(functions[i]).run();
  }
  return llvm::Error::success();
}

} // namespace nereid::gpu
