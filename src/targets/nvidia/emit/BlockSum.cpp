// ngpu.sum_blocks: the first block of a cluster adds what all its blocks have.
//
// The blocks run the same code, so that a thread of one block has the elements that the thread of
// the same number has in the others. Each thread of the further blocks writes its registers to the
// shared memory of its own block; the blocks meet; the first block's threads read the registers of
// their namesakes; the blocks meet again, so that none ends, or writes the next piece, before it
// has been read.
#include "gpu/layouts/Blocks.h"
#include "targets/nvidia/emit/Emitter.h"

using namespace mlir;

namespace nereid::nvidia {
namespace {

class BlockSumEmitter {
public:
  BlockSumEmitter(Emitter &e, ngpu::SumBlocksOp op)
      : e(e), sum(gpu::blockSumOf(op)), own(e.get(op.getSrc())),
        word(llvm::FixedVectorType::get(e.b.getFloatTy(), 4)) {
    llvm::Value *offset = e.b.CreateMul(e.threadId(), e.i32(sum.wordBytes));
    mine = e.b.CreateGEP(e.b.getInt8Ty(), e.scratch(op), offset);
    isFirst = e.b.CreateICmpEQ(e.blockRank(), e.i32(0));
    size = e.clusterSize();
  }

  Values emit() {
    Values results;
    for (unsigned first = 0; first < sum.words; first += sum.atOnce) {
      unsigned end = std::min(4 * (first + sum.atOnce), sum.registers);
      Values piece(own.slice(4 * first, end - 4 * first));
      e.when(e.b.CreateNot(isFirst), [&] { write(piece); });
      e.barrierOfBlocks();
      piece = added(piece);
      e.barrierOfBlocks();
      results.append(piece);
    }
    return results;
  }

private:
  llvm::Value *placeOf(llvm::Value *start, unsigned number) {
    return e.b.CreateConstInBoundsGEP1_32(e.b.getInt8Ty(), start,
                                          number * sum.threads * sum.wordBytes);
  }

  void write(llvm::ArrayRef<llvm::Value *> values) {
    for (unsigned number = 0; 4 * number < values.size(); ++number) {
      llvm::Value *all = llvm::PoisonValue::get(word);
      for (auto [i, value] : llvm::enumerate(values.slice(4 * number).take_front(4)))
        all = e.b.CreateInsertElement(all, value, uint64_t(i));
      e.b.CreateAlignedStore(all, placeOf(mine, number), llvm::Align(sum.wordBytes));
    }
  }

  /// `values` and those of the blocks at `starts`, in order; `together` words of each block are
  /// read before the first is needed, and others not before. Unordered, the assembler would read as
  /// many as it has registers, and the whole kernel would take more of them than its loop.
  Values withBlocks(Values values, llvm::ArrayRef<llvm::Value *> starts, unsigned together) {
    unsigned words = llvm::divideCeil(values.size(), 4);
    for (unsigned at = 0; at < words; at += together) {
      unsigned behind = std::min(at + together, words);
      if (at)
        e.syncWarp();
      Values others;
      for (llvm::Value *start : starts)
        for (unsigned number = at; number < behind; ++number)
          others.push_back(
              e.b.CreateAlignedLoad(word, placeOf(start, number), llvm::Align(sum.wordBytes)));
      for (auto [i, other] : llvm::enumerate(others)) {
        unsigned first = 4 * (at + i % (behind - at));
        for (unsigned k = 0; k < 4 && first + k < values.size(); ++k)
          values[first + k] =
              e.b.CreateFAdd(values[first + k], e.b.CreateExtractElement(other, uint64_t(k)));
      }
    }
    return values;
  }

  /// The first block adds. Of small tensors several blocks are read at once, since the latency of
  /// another block's memory is long; of large ones the words of a block are many enough.
  Values added(const Values &values) {
    constexpr unsigned small = 16;
    return sum.registers > small ? addedInTurn(values)
                                 : e.when(isFirst, values, [&] { return addedAtOnce(values); });
  }

  Values addedAtOnce(Values values) {
    for (unsigned blocks = 1; blocks < e.splits; blocks *= 2) {
      auto further = [&] {
        Values starts;
        for (unsigned rank = blocks; rank < 2 * blocks; ++rank)
          starts.push_back(e.sharedOf(mine, e.i32(rank)));
        return withBlocks(values, starts, std::max(8 / blocks, 1u));
      };
      // There are at least two.
      values =
          blocks == 1 ? further() : e.when(e.b.CreateICmpUGT(size, e.i32(blocks)), values, further);
    }
    return values;
  }

  /// A loop, which the other blocks leave at once.
  Values addedInTurn(const Values &values) {
    llvm::BasicBlock *before = e.b.GetInsertBlock(), *loop = e.block("blocks"),
                     *body = e.block("block"), *after = e.block("added");
    llvm::Value *end = e.b.CreateSelect(isFirst, size, e.i32(0));
    e.b.CreateBr(loop);
    e.enter(loop);
    auto *rank = e.b.CreatePHI(e.b.getInt32Ty(), 2);
    rank->addIncoming(e.i32(1), before);
    Values sums;
    for (llvm::Value *value : values) {
      auto *phi = e.b.CreatePHI(value->getType(), 2);
      phi->addIncoming(value, before);
      sums.push_back(phi);
    }
    e.b.CreateCondBr(e.b.CreateICmpULT(rank, end), body, after);
    e.enter(body);
    Values next = withBlocks(sums, {e.sharedOf(mine, rank)}, sum.registers <= 64 ? 8 : 4);
    rank->addIncoming(e.b.CreateAdd(rank, e.i32(1)), e.b.GetInsertBlock());
    for (auto [phi, value] : llvm::zip_equal(sums, next))
      llvm::cast<llvm::PHINode>(phi)->addIncoming(value, e.b.GetInsertBlock());
    e.b.CreateBr(loop);
    e.enter(after);
    return sums;
  }

  Emitter &e;
  gpu::BlockSum sum;
  llvm::ArrayRef<llvm::Value *> own;
  llvm::Type *word;
  llvm::Value *mine, *isFirst, *size;
};

} // namespace

bool emitBlockSum(Emitter &e, Operation *operation) {
  auto op = dyn_cast<ngpu::SumBlocksOp>(operation);
  if (!op)
    return false;
  e.set(op.getResult(), BlockSumEmitter(e, op).emit());
  return true;
}

} // namespace nereid::nvidia
