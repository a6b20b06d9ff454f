// Products of one tile a program become a loop over the programs of the launch:
//
//     for program in first, first + running, ..:       running: blocks that run at the same time
//         for k:  acc += a[k] b[k]
//         store acc
//
// and the loops over K are divided between warps that copy and warps that compute
// (PartitionWarps.cpp), as where the author writes such a loop. So the first blocks of the next
// program are copied while this one's results are converted and written, stores of the copy engine
// are read under the next program's products (OverlapStores.cpp), and a block is started once.
// The launcher starts as many blocks as run at the same time and passes the number of programs.
//
// Programs of a launch have no order: what a program loads may be copied before an earlier one has
// stored. Within a program a load still waits for the stores in front of it. Programs that might
// wait for one another do not run like this: those with atomics, volatile loads, calls, assembly
// with effects or prints.
//
// In kernels of attention, results are written by threads from their registers
// (StoreFromRegisters.h): shared memory has no room for a buffer beside the slots, and groups of
// warps do not meet at the end of a program. Their queries have a slot of their own
// (PartitionWarps.cpp).
//
// The producer and the consumers have the loop over programs in common, with the same bounds, so
// all that is said of their slots in a loop of the author's (Channels.cpp) holds here too.
#include "gpu/schedule/PersistentProducts.h"

#include "gpu/copies/StoreFromRegisters.h"
#include "gpu/schedule/OverlapProducts.h"
#include "gpu/schedule/PartitionWarps.h"
#include "gpu/schedule/Rings.h"
#include "ir/ngpu/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

bool isProgram(Operation *op) {
  auto id = dyn_cast<tile::ProgramIdOp>(op);
  return id && id.getAxis() == 0;
}

bool isProgramCount(Operation *op) {
  auto number = dyn_cast<tile::NumProgramsOp>(op);
  return number && number.getAxis() == 0;
}

/// May the op be run for one program after another, in any order of programs?
bool isAllowed(Operation *op) {
  if (auto load = dyn_cast<tile::LoadOp>(op))
    return !load.getIsVolatile();
  if (isa<tile::DescLoadOp, tile::StoreOp, tile::DescStoreOp, tile::ReduceOp, tile::ScanOp,
          ngpu::ConvertLayoutOp, ngpu::LocalAllocOp, ngpu::WgmmaOp, scf::ForOp, scf::IfOp>(op))
    return true;
  return op->getNumRegions() == 0 && !isa<tile::ExternOp, tile::InlineAsmOp>(op) &&
         isMemoryEffectFree(op);
}

/// Which values differ between programs, as far as scalars that decide on loops are concerned.
class OfProgram {
public:
  explicit OfProgram(func::FuncOp kernel) {
    bool changed = true;
    while (changed) { // until what loops carry is known
      changed = false;
      kernel.walk([&](Operation *op) { changed |= visit(op); });
    }
  }
  bool contains(Value value) const { return values.contains(value); }

private:
  bool add(Value value, bool differs) { return differs && values.insert(value).second; }

  bool visit(Operation *op) {
    bool changed = false;
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      bool bounds = contains(loop.getLowerBound()) || contains(loop.getUpperBound()) ||
                    contains(loop.getStep());
      changed |= add(loop.getInductionVar(), bounds);
      for (auto [init, carried, yielded, result] :
           llvm::zip(loop.getInitArgs(), loop.getRegionIterArgs(), loop.getYieldedValues(),
                     loop.getResults())) {
        bool differs = bounds || contains(init) || contains(yielded);
        changed |= add(carried, differs);
        changed |= add(result, differs);
      }
      return changed;
    }
    bool differs = isProgram(op) || llvm::any_of(op->getOperands(),
                                                 [&](Value operand) { return contains(operand); });
    for (Region &region : op->getRegions())
      for (Block &block : region)
        if (block.mightHaveTerminator())
          for (Value yielded : block.getTerminator()->getOperands())
            differs |= contains(yielded);
    for (Value result : op->getResults())
      changed |= add(result, differs);
    return changed;
  }

  llvm::DenseSet<Value> values;
};

/// Does a condition only choose between a loop of copies and the version of it without?
bool isVersioned(scf::IfOp branch) {
  bool with = false, without = false;
  branch->walk(
      [&](scf::ForOp loop) { (loop->hasAttr(tile::withoutCopiesName) ? without : with) = true; });
  return with && without;
}

/// Do all programs take about as long? They are not handed out as blocks become free, so their
/// loops must be equally long.
bool takeEqualTime(func::FuncOp kernel) {
  OfProgram ofProgram(kernel);
  auto walked = kernel.walk([&](Operation *op) {
    if (auto loop = dyn_cast<scf::ForOp>(op))
      if (ofProgram.contains(loop.getLowerBound()) || ofProgram.contains(loop.getUpperBound()) ||
          ofProgram.contains(loop.getStep()))
        return WalkResult::interrupt();
    if (auto branch = dyn_cast<scf::IfOp>(op))
      if (ofProgram.contains(branch.getCondition()) && !isVersioned(branch))
        return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return !walked.wasInterrupted();
}

/// Has every loop with products one of wgmma, and is there such a loop?
bool hasOneProductPerLoop(func::FuncOp kernel) {
  bool any = false;
  auto walked = kernel.walk([&](Operation *op) {
    if (!isDot(op))
      return WalkResult::advance();
    auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
    bool alone = loop && isa<ngpu::WgmmaOp>(op) &&
                 llvm::count_if(*loop.getBody(), [](Operation &each) { return isDot(&each); }) == 1;
    any |= alone;
    bool other = loop && loop->hasAttr(tile::withoutCopiesName);
    return alone || other ? WalkResult::advance() : WalkResult::interrupt();
  });
  return any && !walked.wasInterrupted();
}

/// Is it attention: has every loop with products a pair of them, and go its blocks to descriptors?
bool hasPairs(func::FuncOp kernel, const GpuOptions &options) {
  if (options.numWarps > 4 &&
      (options.maxRegisters || (options.movesRegisters && !options.movesRegisters())))
    return false; // the products would not overlap
  bool any = false;
  auto walked = kernel.walk([&](Operation *op) {
    if (auto store = dyn_cast<tile::DescStoreOp>(op))
      return canStoreFromRegisters(store) ? WalkResult::advance() : WalkResult::interrupt();
    if (auto store = dyn_cast<tile::StoreOp>(op)) {
      // Blocks would go through shared memory, where all warps meet.
      auto type = dyn_cast<RankedTensorType>(store.getValue().getType());
      return type && type.getRank() > 1 ? WalkResult::interrupt() : WalkResult::advance();
    }
    if (!isDot(op))
      return WalkResult::advance();
    auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
    any = true;
    return loop && findProductPair(loop) ? WalkResult::advance() : WalkResult::interrupt();
  });
  return any && !walked.wasInterrupted();
}

/// Has it been measured to be faster? Of loops that are divided anyway, because the author asks for
/// it, those of 8 warps and three slots are, whose products only add to an accumulator, with
/// results stored by the copy engine (docs/notes/performance.md). Loops that are not divided lose
/// 3 % to 4 % where all programs run at the same time, and how many there are is known to the
/// launcher only.
bool isMeasured(func::FuncOp kernel, const GpuOptions &options) {
  auto isKnown = [&](ngpu::WgmmaOp product) {
    auto loop = cast<scf::ForOp>(product->getParentOp());
    auto sum = dyn_cast<BlockArgument>(product.getC());
    return isAskedByAuthor(loop) && slotsOf(loop, options) >= 3 && sum &&
           sum.getOwner() == loop.getBody();
  };
  auto walked = kernel.walk([&](Operation *op) {
    auto product = dyn_cast<ngpu::WgmmaOp>(op);
    bool other = isa<tile::StoreOp>(op) || (product && !isKnown(product));
    return other ? WalkResult::interrupt() : WalkResult::advance();
  });
  return options.numWarps == 8 && !walked.wasInterrupted();
}

/// Has the loop over programs of a kernel of attention been measured to be faster? Blocks of
/// 128x128 with heads of 128 and three slots, or heads of 64 and four; of 128x64, heads of 256 and
/// two slots; of 256x64 in 16 warps, heads of 64 and three slots (docs/warp-specialisation.md).
bool isMeasuredAttention(func::FuncOp kernel, const GpuOptions &options) {
  struct Measured {
    int warps;
    unsigned slots;         ///< at least
    int64_t scores, result; ///< registers of a thread for the products' results, at least
  };
  constexpr Measured measured[] = {
      {8, 3, 64, 64}, {8, 4, 64, 32}, {8, 2, 32, 128}, {16, 3, 32, 32}};
  auto registers = [](ngpu::WgmmaOp product) {
    return ngpu::layoutOf(product.getType()).getLayout().size(layout::Axis::Register);
  };
  auto walked = kernel.walk([&](scf::ForOp loop) {
    std::optional<ProductPair> pair = findProductPair(loop);
    bool known = !pair || llvm::any_of(measured, [&](const Measured &one) {
      return options.numWarps == one.warps && slotsOf(loop, options) >= one.slots &&
             registers(pair->first) >= one.scores && registers(pair->second) >= one.result;
    });
    return known ? WalkResult::advance() : WalkResult::interrupt();
  });
  return !walked.wasInterrupted();
}

bool qualifies(func::FuncOp kernel, const GpuOptions &options) {
  bool attention = options.persistentAttention != PersistentProducts::Never;
  if ((options.persistentProducts == PersistentProducts::Never && !attention) ||
      options.without.persistentProducts || options.specialise == Specialise::Never ||
      options.numBlocks > 1 || options.multicast || options.splitProducts ||
      kernel->hasAttr(ngpu::persistentName) || !kernel.getBody().hasOneBlock())
    return false;
  bool ofAxis = false;
  auto walked = kernel.getBody().walk([&](Operation *op) {
    ofAxis |= isProgram(op);
    bool otherAxis = isa<tile::ProgramIdOp>(op) && !isProgram(op);
    bool isEnd = op->hasTrait<OpTrait::IsTerminator>();
    // A loop over programs by the author.
    bool overPrograms = isa<scf::ForOp>(op) && llvm::any_of(op->getOperands(), [](Value bound) {
                          Operation *made = bound.getDefiningOp();
                          return made && isProgramCount(made);
                        });
    return otherAxis || overPrograms || (!isEnd && !isAllowed(op)) ? WalkResult::interrupt()
                                                                   : WalkResult::advance();
  });
  if (!ofAxis || walked.wasInterrupted())
    return false;
  bool alone =
      options.persistentProducts != PersistentProducts::Never && hasOneProductPerLoop(kernel) &&
      takeEqualTime(kernel) &&
      (options.persistentProducts == PersistentProducts::Always || isMeasured(kernel, options));
  if (alone)
    return canDivideProducts(kernel, options);
  // Attention that is faster in undivided blocks stays as it is.
  return attention && hasPairs(kernel, options) &&
         (options.persistentAttention == PersistentProducts::Always ||
          isMeasuredAttention(kernel, options)) &&
         dividesProducts(kernel, options);
}

/// The program of an iteration whose blocks take their programs forwards and backwards in turn: in
/// every second round, those of the round from its end. So a block does not get all the long ones
/// where programs that follow one another differ in length, as in causal attention.
Value inTurns(OpBuilder &b, scf::ForOp loop) {
  Location loc = loop.getLoc();
  Value first = loop.getLowerBound(), running = loop.getStep(), at = loop.getInductionVar();
  auto constant = [&](int32_t value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value));
  };
  Value begin = arith::SubIOp::create(b, loc, at, first);
  Value round = arith::DivUIOp::create(b, loc, begin, running);
  Value odd = arith::TruncIOp::create(b, loc, b.getI1Type(), round);
  Value left = arith::SubIOp::create(b, loc, loop.getUpperBound(), begin);
  Value size = arith::MinUIOp::create(b, loc, running, left);
  Value last =
      arith::SubIOp::create(b, loc, arith::AddIOp::create(b, loc, begin, size), constant(1));
  Value mirrored = arith::SubIOp::create(b, loc, last, first);
  return arith::SelectOp::create(b, loc, odd, mirrored, at);
}

/// Is the op the same for all programs, and cheap to keep?
bool staysInFront(Operation *op, scf::ForOp loop) {
  auto isScalar = [](Type type) { return !isa<RankedTensorType, ngpu::BufferType>(type); };
  return op->getNumRegions() == 0 && isMemoryEffectFree(op) && !isProgram(op) &&
         llvm::all_of(op->getResultTypes(), isScalar) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           Operation *made = operand.getDefiningOp();
           return !made || !loop->isAncestor(made);
         });
}

} // namespace

bool persistProducts(func::FuncOp kernel, const GpuOptions &options) {
  if (!qualifies(kernel, options))
    return false;
  Block &body = kernel.getBody().front();
  Location loc = kernel.getLoc();
  SmallVector<Operation *> program;
  SmallVector<tile::DescStoreOp> stores;
  bool pairs = !hasOneProductPerLoop(kernel), equal = !pairs || takeEqualTime(kernel);
  if (pairs)
    stores.assign(kernel.getOps<tile::DescStoreOp>().begin(),
                  kernel.getOps<tile::DescStoreOp>().end());
  for (tile::DescStoreOp store : stores)
    storeFromRegisters(store);
  for (Operation &op : body.without_terminator())
    program.push_back(&op);

  OpBuilder b = OpBuilder::atBlockBegin(&body);
  kernel->setAttr(ngpu::persistentName, b.getI32IntegerAttr(1));
  Value first = tile::ProgramIdOp::create(b, loc, b.getI32Type(), 0);
  Value running = tile::NumProgramsOp::create(b, loc, b.getI32Type(), 0);
  Value count = ngpu::ProgramsOp::create(b, loc);
  auto loop = scf::ForOp::create(b, loc, first, count, running);
  for (Operation *op : program)
    op->moveBefore(loop.getBody()->getTerminator());
  OpBuilder inside = OpBuilder::atBlockBegin(loop.getBody());
  Value current = equal ? loop.getInductionVar() : inTurns(inside, loop);
  loop.walk([&](Operation *op) {
    if (!isProgram(op) && !isProgramCount(op))
      return;
    op->getResult(0).replaceAllUsesWith(isProgram(op) ? current : count);
    op->erase();
  });
  for (Operation &op : llvm::make_early_inc_range(loop.getBody()->without_terminator()))
    if (staysInFront(&op, loop) && llvm::none_of(op.getOperands(), [&](Value operand) {
          return operand == loop.getInductionVar();
        }))
      op.moveBefore(loop);
  return true;
}

} // namespace nereid::gpu
