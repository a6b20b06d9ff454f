// Places in shared memory, by liveness.
//
// Ops are numbered in textual order. A buffer lives from its allocation to the last use of any
// value that may name it; a life that crosses the border of a loop covers the loop, since the next
// iteration is about to start; all regions of a warp_specialize run at the same time, so a life
// that touches one covers all. Asynchronous accesses extend it to where they are waited for.
// Buffers whose lives overlap get different bytes; the largest is placed first, each at the lowest
// place that is free. Of a loop's two versions (`tile.without_copies`) one runs in a launch of a
// program, unless there is a loop around: their buffers share bytes, whatever their lives.
//
// Scratch memory and other small buffers (up to 512 bytes, 4 KiB in all) are not reused at all: one
// that has its bytes for itself needs a barrier less.
#include "gpu/Passes.h"
#include "gpu/explain/Explain.h"
#include "gpu/layouts/AxisPlan.h"
#include "gpu/layouts/Blocks.h"
#include "gpu/layouts/Rearrange.h"
#include "gpu/layouts/SplitConversion.h"
#include "gpu/shared/BufferUses.h"
#include "gpu/shared/SharedUse.h"
#include "ir/tile/Combiner.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace nereid::gpu {

char OutOfSharedMemory::ID = 0;

unsigned scratchBytes(Operation *op) {
  auto along = [](RankedTensorType type, unsigned axis, bool ordered, TypeRange tensors) {
    AxisPlan plan(ngpu::layoutOf(type).getLayout(), axis, ordered);
    return axisScratch(plan, tensors, axisCopies(type, axis, !ordered)).bytes;
  };
  if (auto reduce = dyn_cast<tile::ReduceOp>(op))
    return op->hasAttr(ngpu::sendsName)
               ? 0
               : along(cast<RankedTensorType>(reduce.getSrcs()[0].getType()), reduce.getAxis(),
                       !tile::commutes(reduce.getCombine()), reduce.getSrcs().getTypes());
  if (auto scan = dyn_cast<tile::ScanOp>(op))
    return along(cast<RankedTensorType>(scan.getSrcs()[0].getType()), scan.getAxis(), true,
                 scan.getSrcs().getTypes());
  if (auto convert = dyn_cast<ngpu::ConvertLayoutOp>(op)) {
    if (auto convert = dyn_cast<ngpu::ConvertLayoutOp>(op); !convert || !convert.getPieces())
      return 0;
    auto from = cast<RankedTensorType>(convert.getSrc().getType());
    return splitConversion(convert).from.elements() * tile::sizeInBytes(from.getElementType());
  }
  if (auto sum = dyn_cast<ngpu::SumBlocksOp>(op))
    return blockSumOf(sum).bytes();
  if (auto atomic = dyn_cast<tile::Atomic>(op)) {
    // The result of the thread that does the operation, for those that hold copies.
    Value result = atomic.getSeen();
    if (!result || result.use_empty())
      return 0;
    unsigned bytes = tile::sizeInBytes(tile::elementOf(result.getType()));
    auto tensor = dyn_cast<RankedTensorType>(result.getType());
    if (!tensor)
      return bytes;
    const layout::LinearLayout &layout = ngpu::layoutOf(tensor).getLayout();
    bool copies = layout.freeBits(layout::Axis::Lane) || layout.freeBits(layout::Axis::Warp) ||
                  layout.size(layout::Axis::Lane) < ngpu::laneCount(op) ||
                  layout.size(layout::Axis::Warp) < ngpu::warpCount(op);
    return copies ? bytes * tensor.getNumElements() : 0;
  }
  return rearrangeScratch(op);
}

namespace {

constexpr int64_t kSmall = 512, kSmallTotal = 4096;

struct SharedBlock {
  Operation *op; ///< local_alloc, or an op with scratch
  int64_t bytes, alignment;
  unsigned begin, end;     ///< numbers of ops, both included
  bool concurrent = false; ///< regions of a warp_specialize that run at the same time use it
  int64_t offset = 0;
  /// The one version of a loop that uses it: the branch, and which of its regions. Null: none, or
  /// others use it as well.
  Operation *branch = nullptr;
  unsigned region = 0;
  bool anyUse = false;

  bool isOfOtherVersion(const SharedBlock &other) const {
    return branch && branch == other.branch && region != other.region;
  }
};

/// The branch between two versions of a loop that `op` is in, when it is decided once in a program;
/// null.
Operation *versionsAround(Operation *op, unsigned &region) {
  Operation *found = nullptr;
  for (Operation *inner = op; op = inner->getParentOp(), op && !isa<func::FuncOp>(op); inner = op) {
    if (isa<LoopLikeOpInterface>(op))
      found = nullptr;
    auto branch = dyn_cast<scf::IfOp>(op);
    if (!branch || branch.getElseRegion().empty())
      continue;
    bool versions = llvm::any_of(branch.getElseRegion().front(), [](Operation &each) {
      return each.hasAttr(tile::withoutCopiesName);
    });
    if (versions) {
      found = branch;
      region = inner->getParentRegion()->getRegionNumber();
    }
  }
  return found;
}

class Allocation {
public:
  explicit Allocation(func::FuncOp function) : function(function), uses(function) {
    function.walk<WalkOrder::PreOrder>([&](Operation *op) { enter(op); });
  }

  /// Places everything from `start` on; the end.
  int64_t place(int64_t start);
  const SmallVector<SharedBlock> &all() const { return blocks; }
  void write();
  /// Reports which buffer has which bytes at which time, and how ops access them.
  void explain(const Machine &machine, explain::Report &report) const;

private:
  void enter(Operation *op) {
    first[op] = order.size();
    last[op] = order.size();
    for (Operation *parent = op->getParentOp(); parent && parent != function;
         parent = parent->getParentOp())
      last[parent] = order.size();
    order.push_back(op);
  }
  void findLives();
  void extend(SharedBlock &block, unsigned to);
  /// Notes which version of a loop uses `block`.
  void noteUse(SharedBlock &block, Operation *op);
  /// Where an asynchronous access of `op` is certainly over.
  unsigned completion(Operation *op);
  int64_t pack(int64_t start, ArrayRef<unsigned> sequence);

  func::FuncOp function;
  BufferUses uses;
  SmallVector<Operation *> order;
  llvm::DenseMap<Operation *, unsigned> first, last;
  SmallVector<SharedBlock> blocks;
};

unsigned Allocation::completion(Operation *op) {
  auto waits = [&](auto isWait) -> unsigned {
    for (unsigned at = first[op] + 1; at < order.size(); ++at)
      if (isWait(order[at]))
        return at;
    return order.size();
  };
  if (auto wgmma = dyn_cast<ngpu::WgmmaOp>(op); wgmma && wgmma.getAsync())
    return waits([](Operation *at) {
      auto wait = dyn_cast<ngpu::WgmmaWaitOp>(at);
      return wait && wait.getPending() == 0;
    });
  if (isa<ngpu::AsyncCopyOp>(op))
    return waits([](Operation *at) {
      auto wait = dyn_cast<ngpu::AsyncWaitOp>(at);
      return wait && wait.getPending() == 0;
    });
  if (isa<ngpu::TmaStoreOp>(op))
    return waits([](Operation *at) {
      auto wait = dyn_cast<ngpu::TmaStoreWaitOp>(at);
      return wait && wait.getPending() == 0;
    });
  return first[op];
}

/// The life of `block` reaches the op of number `to`; all that it crosses on the way is covered.
void Allocation::extend(SharedBlock &block, unsigned to) {
  block.begin = std::min(block.begin, to);
  block.end = std::max(block.end, to);
  auto crossed = [&](unsigned number) {
    bool changed = false;
    if (number >= order.size())
      return changed;
    for (Operation *parent = order[number]->getParentOp(); parent && parent != function;
         parent = parent->getParentOp()) {
      unsigned begin = first[parent], end = last[parent];
      bool inside = begin <= block.begin && block.end <= end;
      bool concurrent = block.concurrent && isa<ngpu::WarpSpecializeOp>(parent);
      if ((inside && !concurrent) || !(concurrent || isa<LoopLikeOpInterface>(parent)))
        continue;
      if (begin < block.begin || end > block.end) {
        block.begin = std::min(block.begin, begin);
        block.end = std::max(block.end, end);
        changed = true;
      }
    }
    return changed;
  };
  while (crossed(block.begin) || crossed(block.end) || crossed(to)) {
  }
}

/// The warp_specialize that `op` is in a region of, other than region 0; null: none.
Operation *furtherPart(Operation *op) {
  for (; op; op = op->getParentOp())
    if (isa_and_present<ngpu::WarpSpecializeOp>(op->getParentOp()) &&
        op->getParentRegion()->getRegionNumber() > 0)
      return op->getParentOp();
  return nullptr;
}

void Allocation::noteUse(SharedBlock &block, Operation *op) {
  unsigned region = 0;
  Operation *branch = versionsAround(op, region);
  if (block.anyUse && (branch != block.branch || region != block.region))
    branch = nullptr;
  block.branch = branch;
  block.region = region;
  block.anyUse = true;
}

void Allocation::findLives() {
  llvm::DenseMap<Operation *, unsigned> number;
  for (Operation *op : order) {
    if (auto alloc = dyn_cast<ngpu::LocalAllocOp>(op)) {
      number[op] = blocks.size();
      blocks.push_back(
          {op, alloc.getType().getBytes(), alloc.getType().getAlignment(), first[op], first[op]});
      extend(blocks.back(), first[op]);
      if (alloc.getSrc())
        noteUse(blocks.back(), op);
    } else if (unsigned bytes = scratchBytes(op)) {
      blocks.push_back({op, bytes, 16, first[op], first[op]});
      extend(blocks.back(), first[op]);
      noteUse(blocks.back(), op);
    }
  }
  for (Operation *op : order)
    for (Value operand : op->getOperands()) {
      if (!isa<ngpu::BufferType>(operand.getType()))
        continue;
      for (const BufferPart &part : uses.parts(operand)) {
        SharedBlock &block = blocks[number.lookup(part.root)];
        Operation *further = furtherPart(op);
        // What other warps do is decided by the same condition.
        if (!further && !isa<ngpu::LocalDeallocOp>(op))
          noteUse(block, op);
        if (further) {
          bool ends = llvm::any_of(part.root->getUsers(), llvm::IsaPred<ngpu::LocalDeallocOp>);
          block.concurrent |= !ends;
          if (ends) {
            extend(block, first[further]);
            continue;
          }
        }
        extend(block, first[op]);
        extend(block, completion(op));
        // Carried into the next iteration: the loop's ends are one place.
        if (op->hasTrait<OpTrait::IsTerminator>() && isa<LoopLikeOpInterface>(op->getParentOp())) {
          extend(block, first[op->getParentOp()]);
          extend(block, last[op->getParentOp()]);
        }
      }
    }
  // Small ones keep their bytes.
  int64_t small = 0;
  for (SharedBlock &block : blocks)
    if (block.bytes <= kSmall && (small += llvm::alignTo(block.bytes, 16)) <= kSmallTotal) {
      block.begin = 0;
      block.end = order.size();
    }
}

int64_t Allocation::pack(int64_t start, ArrayRef<unsigned> sequence) {
  int64_t total = start;
  SmallVector<const SharedBlock *> placed;
  for (unsigned index : sequence) {
    SharedBlock &block = blocks[index];
    SmallVector<std::pair<int64_t, int64_t>> taken;
    for (const SharedBlock *other : placed)
      if (other->begin <= block.end && block.begin <= other->end && !block.isOfOtherVersion(*other))
        taken.push_back({other->offset, other->offset + other->bytes});
    llvm::sort(taken);
    int64_t offset = llvm::alignTo(start, block.alignment);
    for (auto [from, to] : taken) {
      if (offset + block.bytes <= from)
        break;
      offset = std::max<int64_t>(offset, llvm::alignTo(to, block.alignment));
    }
    block.offset = offset;
    total = std::max(total, offset + block.bytes);
    placed.push_back(&block);
  }
  return total;
}

int64_t Allocation::place(int64_t start) {
  findLives();
  SmallVector<unsigned> bySize, byBegin;
  for (unsigned i = 0; i < blocks.size(); ++i)
    bySize.push_back(i);
  byBegin = bySize;
  llvm::stable_sort(bySize,
                    [&](unsigned a, unsigned b) { return blocks[a].bytes > blocks[b].bytes; });
  llvm::stable_sort(byBegin,
                    [&](unsigned a, unsigned b) { return blocks[a].begin < blocks[b].begin; });
  int64_t other = pack(start, byBegin);
  int64_t total = pack(start, bySize);
  return other < total ? pack(start, byBegin) : total;
}

void Allocation::write() {
  for (const SharedBlock &block : blocks) {
    auto offset = IntegerAttr::get(IntegerType::get(function.getContext(), 32), block.offset);
    if (auto alloc = dyn_cast<ngpu::LocalAllocOp>(block.op))
      alloc.setOffsetAttr(offset);
    else
      ngpu::setScratchOffset(block.op, uint32_t(block.offset));
  }
}

std::string describe(const SharedBlock &block) {
  std::string text;
  llvm::raw_string_ostream out(text);
  if (auto alloc = dyn_cast<ngpu::LocalAllocOp>(block.op)) {
    out << "a buffer of ";
    llvm::interleave(alloc.getType().getShape(), out, "x");
    out << " " << alloc.getType().getElementType();
  } else {
    out << (isa<tile::ReduceOp>(block.op)          ? "a reduction"
            : isa<tile::ScanOp>(block.op)          ? "a scan"
            : isa<ngpu::ConvertLayoutOp>(block.op) ? "another layout"
            : isa<tile::ExchangeOp>(block.op)      ? "an exchange"
            : isa<tile::SliceOp>(block.op)         ? "a slice"
            : isa<tile::GatherOp>(block.op)        ? "a gather"
            : isa<tile::HistogramOp>(block.op)     ? "a histogram"
                                                   : "an atomic operation");
  }
  return text;
}

std::string withLine(const SharedBlock &block) {
  std::string text = std::to_string(block.bytes) + " bytes for " + describe(block);
  if (auto line = block.op->getLoc()->findInstanceOf<FileLineColLoc>())
    text += " (line " + std::to_string(line.getLine()) + ")";
  return text;
}

void Allocation::explain(const Machine &machine, explain::Report &report) const {
  for (Operation *op : order) {
    report.ops.push_back(op->getName().getStringRef().str());
    report.opPlaces.push_back(transforms::placeOf(op->getLoc()));
  }
  unsigned end = order.empty() ? 0 : order.size() - 1;
  for (const SharedBlock &block : blocks)
    report.buffers.push_back({describe(block), transforms::placeOf(block.op->getLoc()),
                              block.offset, block.bytes, block.begin, std::min(block.end, end)});
  for (auto [number, op] : llvm::enumerate(order))
    explainSharedAccess(op, number, uses, machine, report);
}

} // namespace

llvm::Expected<unsigned> allocateShared(func::FuncOp kernel, const GpuOptions &options) {
  // Functions that the kernel calls have places of their own behind the kernel's.
  SmallVector<func::FuncOp> functions{kernel};
  llvm::SmallPtrSet<Operation *, 4> seen{kernel};
  for (size_t i = 0; i < functions.size(); ++i)
    functions[i].walk([&](func::CallOp call) {
      auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
      if (callee && !callee.isExternal() && seen.insert(callee).second)
        functions.push_back(callee);
    });
  int64_t total = 0;
  if (unsigned bytes = ngpu::sendBytes(kernel))
    total = ngpu::kSendBarrierBytes + 2 * bytes;
  SmallVector<SharedBlock> all;
  for (func::FuncOp function : functions) {
    Allocation allocation(function);
    total = allocation.place(llvm::alignTo(total, 16));
    allocation.write();
    if (options.explanation && function == kernel)
      allocation.explain(options.machine, *options.explanation);
    all.append(allocation.all());
  }
  if (total > options.machine.maxSharedBytes) {
    llvm::stable_sort(all,
                      [](const SharedBlock &a, const SharedBlock &b) { return a.bytes > b.bytes; });
    std::string biggest;
    for (const SharedBlock &block : ArrayRef(all).take_front(3))
      biggest += (biggest.empty() ? "" : ", ") + withLine(block);
    return llvm::make_error<OutOfSharedMemory>(total, options.machine.maxSharedBytes, biggest);
  }
  kernel->setAttr("ngpu.shared_bytes",
                  IntegerAttr::get(IntegerType::get(kernel.getContext(), 32), total));
  return unsigned(total);
}

} // namespace nereid::gpu
