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
      Values piece = wordsFrom(first, std::min(sum.atOnce, sum.words - first));
      e.when(e.b.CreateNot(isFirst), [&] { write(piece); });
      e.barrierOfBlocks();
      piece = e.when(isFirst, piece, [&] { return added(piece); });
      e.barrierOfBlocks();
      for (llvm::Value *each : piece)
        for (unsigned i = 0; i < 4 && results.size() < sum.registers; ++i)
          results.push_back(e.b.CreateExtractElement(each, uint64_t(i)));
    }
    return results;
  }

private:
  Values wordsFrom(unsigned first, unsigned count) {
    Values words;
    for (unsigned number = first; number < first + count; ++number) {
      llvm::Value *each = llvm::ConstantAggregateZero::get(word);
      for (unsigned i = 0; i < 4 && 4 * number + i < sum.registers; ++i)
        each = e.b.CreateInsertElement(each, own[4 * number + i], uint64_t(i));
      words.push_back(each);
    }
    return words;
  }

  llvm::Value *placeOf(llvm::Value *start, unsigned number) {
    return e.b.CreateConstInBoundsGEP1_32(e.b.getInt8Ty(), start,
                                          number * sum.threads * sum.wordBytes);
  }

  void write(llvm::ArrayRef<llvm::Value *> words) {
    for (auto [number, each] : llvm::enumerate(words))
      e.b.CreateAlignedStore(each, placeOf(mine, number), llvm::Align(sum.wordBytes));
  }

  /// `words` and those of the blocks at `starts`, in order; `together` of each block are read
  /// before the first is needed, and others not before. Unordered, the assembler would read as many
  /// as it has registers, and the whole kernel would take more of them than its loop.
  Values withBlocks(Values words, llvm::ArrayRef<llvm::Value *> starts, unsigned together) {
    for (unsigned at = 0; at < words.size(); at += together) {
      unsigned behind = std::min<unsigned>(at + together, words.size());
      if (at)
        e.syncWarp();
      Values others;
      for (llvm::Value *start : starts)
        for (unsigned number = at; number < behind; ++number)
          others.push_back(
              e.b.CreateAlignedLoad(word, placeOf(start, number), llvm::Align(sum.wordBytes)));
      for (auto [i, other] : llvm::enumerate(others)) {
        llvm::Value *&each = words[at + i % (behind - at)];
        each = e.b.CreateFAdd(each, other);
      }
    }
    return words;
  }

  /// In the first block. Of small tensors several blocks are read at once, since the latency of
  /// another block's memory is long; of large ones the words of a block are many enough.
  Values added(const Values &words) {
    constexpr unsigned small = 32;
    return sum.registers <= small ? addedAtOnce(words) : addedInTurn(words);
  }

  Values addedAtOnce(Values words) {
    for (unsigned blocks = 1; blocks < e.splits; blocks *= 2) {
      auto further = [&] {
        Values starts;
        for (unsigned rank = blocks; rank < 2 * blocks; ++rank)
          starts.push_back(e.sharedOf(mine, e.i32(rank)));
        return withBlocks(words, starts, std::max(8 / blocks, 1u));
      };
      // There are at least two.
      words =
          blocks == 1 ? further() : e.when(e.b.CreateICmpUGT(size, e.i32(blocks)), words, further);
    }
    return words;
  }

  Values addedInTurn(const Values &words) {
    llvm::BasicBlock *before = e.b.GetInsertBlock(), *loop = e.block("blocks"),
                     *after = e.block("added");
    e.b.CreateBr(loop);
    e.enter(loop);
    auto *rank = e.b.CreatePHI(e.b.getInt32Ty(), 2);
    rank->addIncoming(e.i32(1), before);
    Values now;
    for (llvm::Value *each : words) {
      auto *phi = e.b.CreatePHI(word, 2);
      phi->addIncoming(each, before);
      now.push_back(phi);
    }
    Values next = withBlocks(now, {e.sharedOf(mine, rank)}, sum.registers <= 64 ? 8 : 4);
    llvm::Value *other = e.b.CreateAdd(rank, e.i32(1));
    llvm::BasicBlock *end = e.b.GetInsertBlock();
    e.b.CreateCondBr(e.b.CreateICmpULT(other, size), loop, after);
    rank->addIncoming(other, end);
    for (auto [phi, each] : llvm::zip_equal(now, next))
      llvm::cast<llvm::PHINode>(phi)->addIncoming(each, end);
    e.enter(after);
    return next;
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
