// ChooseTensorCopies: marks the tensor descriptors that a copy engine serves (`copy_engine`);
// descriptors-to-pointers, which runs next, rewrites the others.
//
// The engine is told about a tensor by a map of 128 bytes, which the launcher makes. So base, sizes
// and strides must be computed from the kernel's arguments by what a launcher can repeat (see
// LaunchNumber.h); a base that depends on the program's index is not. Beyond that:
//
//  - Base and strides are known to be multiples of 16 bytes. Promises by the author do
//    not count: a broken promise does no harm with pointers.
//  - Blocks have sizes that are powers of two, rows of 32 bytes or more, and 1024 bytes in all
//  (less
//    is not worth the engine's latency), or 128 where a loop with `warp_specialize` loads them: the
//    engine copies them ahead, with the blocks of the products. A size between the outermost and
//    the last is at most 256, as far as one copy reaches. NaN pads floats of 16 to 64 bits.
//  - The last coordinate of every access is known to be a multiple of 16 bytes: the engine faults
//    on others. Stores begin at no negative coordinate, as far as is known: the
//    coordinate is not negative if nothing wraps, or it is computed from the program's index.
//  - Only loads, stores and reductions of whole blocks use the descriptor: none that goes round a
//    loop or out of a branch, no gathers.
//
// Runs after the inliner, which shows where descriptors come from.
#include "transforms/Passes.h"

#include "ir/tile/Dialect.h"
#include "transforms/CopyEngine.h"
#include "transforms/IntegerAnalysis.h"
#include "transforms/LaunchNumber.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace nereid::transforms {
#define GEN_PASS_DEF_CHOOSETENSORCOPIES
#include "transforms/Passes.h.inc"

namespace {
using namespace nereid::tile;

constexpr int64_t leastRowBytes = 32, leastBlockBytes = 1024, leastAheadBytes = 128, maxBox = 256;

bool blocksFit(DescType type, int64_t leastBytes) {
  int64_t size = sizeInBytes(type.getElementType());
  bool powersOfTwo =
      llvm::all_of(type.getShape(), [](int64_t n) { return llvm::isPowerOf2_64(n); });
  bool padsBytes = type.getPadding() == Padding::NaN && size == 1;
  bool within = llvm::all_of(type.getShape().drop_back().drop_front(type.getRank() > 1),
                             [](int64_t n) { return n <= maxBox; });
  return powersOfTwo && within && !padsBytes && type.getShape().back() * size >= leastRowBytes &&
         type.getBlockType().getNumElements() * size >= leastBytes;
}

/// Are all accesses loads in loops whose copies the author gives to warps of their own?
bool isCopiedAhead(MakeDescriptorOp desc) {
  return llvm::all_of(desc->getUsers(), [](Operation *user) {
    Operation *loop = isa<DescLoadOp>(user) ? user->getParentOfType<scf::ForOp>() : nullptr;
    while (loop && !loop->hasAttr("tile.warp_specialize"))
      loop = loop->getParentOfType<scf::ForOp>();
    return loop || isa<DescShapeOp, DescStrideOp>(user);
  });
}
} // namespace

bool blocksFit(DescType type) {
  return blocksFit(type, leastBlockBytes);
}

namespace {

/// Integers of 8 and 16 bits and 8-bit floats are moved, never combined.
bool isServed(Operation *user, DescType type) {
  if (auto load = dyn_cast<DescLoadOp>(user))
    return load.getType() == type.getBlockType();
  if (auto store = dyn_cast<DescStoreOp>(user))
    return store.getValue().getType() == type.getBlockType();
  if (auto reduce = dyn_cast<DescReduceOp>(user))
    return reduce.getValue().getType() == type.getBlockType();
  return isa<DescShapeOp, DescStrideOp>(user);
}

OperandRange coordsOf(Operation *access) {
  if (auto load = dyn_cast<DescLoadOp>(access))
    return load.getCoords();
  if (auto store = dyn_cast<DescStoreOp>(access))
    return store.getCoords();
  return cast<DescReduceOp>(access).getCoords();
}

/// Is `value` computed from the program's index?
bool isOfProgram(Value value, unsigned depth = 0) {
  if (depth > 16)
    return false;
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    auto loop = dyn_cast<scf::ForOp>(arg.getOwner()->getParentOp());
    if (!loop)
      return false;
    unsigned number = arg.getArgNumber();
    return isOfProgram(number ? loop.getInitArgs()[number - 1] : loop.getLowerBound(), depth + 1);
  }
  Operation *op = value.getDefiningOp();
  return isa<ProgramIdOp>(op) || llvm::any_of(op->getOperands(), [&](Value operand) {
           return isOfProgram(operand, depth + 1);
         });
}

struct ChooseTensorCopiesPass : public impl::ChooseTensorCopiesBase<ChooseTensorCopiesPass> {
  void runOnOperation() override {
    SmallVector<MakeDescriptorOp> candidates;
    getOperation()->walk([&](MakeDescriptorOp op) {
      auto type = cast<DescType>(op.getType());
      if (blocksFit(type, isCopiedAhead(op) ? leastAheadBytes : leastBlockBytes) &&
          llvm::all_of(op->getOperands(), [](Value v) { return launchNumber(v).has_value(); }) &&
          llvm::all_of(op->getUsers(), [&](Operation *user) { return isServed(user, type); }))
        candidates.push_back(op);
    });
    if (candidates.empty())
      return;
    IntegerAnalysis analysis(getOperation());
    IntegerAnalysis supposed(getOperation(), Mode::Speculative);
    auto reachable = [&](Operation *access, int64_t size) {
      if (isa<DescShapeOp, DescStrideOp>(access))
        return true;
      OperandRange coords = coordsOf(access);
      int64_t divisor = std::min<int64_t>(analysis.divisibility(coords.back(), 0), copyBytes);
      if (divisor * size % copyBytes)
        return false;
      return isa<DescLoadOp>(access) || llvm::all_of(coords, [&](Value coord) {
               const IntegerInfo *info = supposed.lookup(coord);
               return (info && info->isNonNegative()) || isOfProgram(coord);
             });
    };
    for (MakeDescriptorOp op : candidates) {
      int64_t size = sizeInBytes(cast<DescType>(op.getType()).getElementType());
      bool aligned = analysis.divisibility(op.getBase(), 0) % copyBytes == 0;
      for (Value stride : op.getStrides())
        aligned &= analysis.divisibility(stride, 0) * size % copyBytes == 0;
      for (Operation *user : op->getUsers())
        aligned = aligned && reachable(user, size);
      if (aligned)
        op.setCopyEngine(true);
    }
  }
};

} // namespace
} // namespace nereid::transforms
