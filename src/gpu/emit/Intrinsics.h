// What a target supplies to the emitter of GPU IR: the instructions for which LLVM has no common
// name. All else of the emitter is shared by the GPUs (Emitter.h).
//
// Values are those of one thread. Unless said otherwise all threads of a warp (`Machine::lanes`)
// must execute a function of the groups "warps" and "matrices in shared memory" together.
#pragma once
#include "ir/tile/Combiner.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/IRBuilder.h"

namespace nereid::gpu {

using Values = llvm::SmallVector<llvm::Value *, 8>;

/// The lane that a shuffle reads from: this one's number XOR the amount, the amount, or this one's
/// number minus the amount (lanes below the amount keep their own value).
enum class Shuffle : uint8_t { Xor, Index, Up };

class Intrinsics {
public:
  virtual ~Intrinsics() = default;

  //===--- places
  //-------------------------------------------------------------------------------===//
  /// The index of this thread in its block (i32), which is below `threads`.
  virtual llvm::Value *threadIndex(unsigned threads) = 0;
  /// The program's index along an axis of the grid (0 to 2), and the number of programs (i32).
  virtual llvm::Value *programId(unsigned axis) = 0;
  virtual llvm::Value *programCount(unsigned axis) = 0;

  //===--- barriers
  //-----------------------------------------------------------------------------===//
  /// All threads of `warps` warps (0: of the whole block) meet at the barrier of this number; what
  /// they have written to memory before is seen by all of them behind it.
  virtual void blockBarrier(unsigned number, unsigned warps) = 0;
  /// The same for the threads of one warp.
  virtual void syncWarp() = 0;
  /// The number of this block among those that run its program (i32).
  virtual llvm::Value *blockRank() = 0;
  /// The place of `address`, which is in this block's shared memory, in that of block `rank` (i32)
  /// of the program; for stores.
  virtual llvm::Value *sharedOf(llvm::Value *address, llvm::Value *rank) = 0;
  /// All threads of all blocks of the program meet; as for blockBarrier. In two halves for callers
  /// that have something to do meanwhile: `arriveAtBlocks` orders no accesses to memory.
  virtual void barrierOfBlocks() = 0;
  virtual void arriveAtBlocks() = 0;
  virtual void waitForBlocks() = 0;
  /// Sends i32 words (1, 2 or 4) to `address` in the shared memory of block `rank`, whose mbarrier
  /// that is where `barrier` is here counts their bytes. For one thread.
  virtual void sendWords(llvm::ArrayRef<llvm::Value *> words, llvm::Value *address,
                         llvm::Value *barrier, llvm::Value *rank) = 0;
  /// For one thread: this phase of the mbarrier ends when so many bytes have arrived.
  virtual void expectWords(llvm::Value *barrier, unsigned bytes) = 0;
  /// For each thread: waits for the end of the phase of this parity (i32).
  virtual void receiveWords(llvm::Value *barrier, llvm::Value *parity) = 0;
  /// LLVM's name of the synchronisation scope of a block.
  virtual llvm::StringRef blockScope() const = 0;

  //===--- warps
  //--------------------------------------------------------------------------------===//
  /// The i32 `word` of another lane; `amount` is an i32.
  virtual llvm::Value *shuffleWord(Shuffle how, llvm::Value *word, llvm::Value *amount) = 0;
  /// Is there an instruction that reduces an i32 over a warp in this way?
  virtual bool reducesWarp(tile::CombinerKind kind) const = 0;
  /// Its result, in every lane.
  virtual llvm::Value *reduceWarp(tile::CombinerKind kind, llvm::Value *word) = 0;

  //===--- matrices in shared memory
  //------------------------------------------------------------===//
  /// Writes (reads) as many matrices of 8 rows of 16 bytes as there are words (1, 2 or 4), each
  /// word a lane's part of one matrix as an i32 (layout/Conversion.h, MatrixAccess). Each row
  /// starts at the `address` of one lane, for writing as an i32. `transposed`: of 16-bit elements.
  /// Asked of machines that have such accesses only. Reading gives an i32, or a struct of several.
  virtual void storeMatrices(llvm::Value *address, llvm::ArrayRef<llvm::Value *> words,
                             bool transposed) = 0;
  virtual llvm::Value *loadMatrices(llvm::Value *address, unsigned count, bool transposed) = 0;

  //===--- fp32 arithmetic
  //----------------------------------------------------------------------===//
  /// lhs / rhs within 2 ulp.
  virtual llvm::Value *divide(llvm::Value *lhs, llvm::Value *rhs) = 0;
  /// 1 / value within 1 ulp where the result is a normal number.
  virtual llvm::Value *reciprocal(llvm::Value *value) = 0;
  /// Within 2 ulp; `flush`: subnormal results may become 0.
  virtual llvm::Value *exp2(llvm::Value *value, bool flush) = 0;
  /// Within 1 ulp and 2 ulp.
  virtual llvm::Value *squareRoot(llvm::Value *value) = 0;
  virtual llvm::Value *reciprocalSquareRoot(llvm::Value *value) = 0;
  /// A product that is rounded and never contracted into a sum.
  virtual llvm::Value *roundedProduct(llvm::Value *lhs, llvm::Value *rhs) = 0;
  /// A product that is rounded towards minus infinity.
  virtual llvm::Value *productDown(llvm::Value *lhs, llvm::Value *rhs) = 0;
  /// lhs * rhs + add, rounded once, limited to [0, 1]; NaN gives 0.
  virtual llvm::Value *saturatedFma(llvm::Value *lhs, llvm::Value *rhs, llvm::Value *add) = 0;
  /// The symbol of a function of the target's math library, "acos" for instance, for fp64 or fp32.
  virtual std::string librarySymbol(llvm::StringRef name, bool fp32) const = 0;

  //===--- types of floats
  //----------------------------------------------------------------------===//
  /// Are two elements of this type computed at once, as a vector, by additions, products, fma,
  /// minimum and maximum?
  virtual bool packs(mlir::Type element) const = 0;
  /// fp64 to fp32 towards zero.
  virtual llvm::Value *truncateDouble(llvm::Value *value) = 0;
  /// fp32 to fp16 or bf16, to the nearest or towards zero.
  virtual llvm::Value *narrow(llvm::Value *value, llvm::Type *to, bool towardsZero) = 0;
  /// Two fp32 to a vector of two fp16 or bf16, to the nearest.
  virtual llvm::Value *narrowPair(llvm::Value *low, llvm::Value *high, llvm::Type *to) = 0;
  /// Are there instructions that convert 8-bit floats? The next two are asked then only.
  virtual bool convertsFloat8() const = 0;
  /// Two fp32 to two codes of an 8-bit float (the lower byte first), an i16: to the nearest, with
  /// overflow and infinities as the largest finite number.
  virtual llvm::Value *packFloat8(llvm::Value *low, llvm::Value *high, mlir::Type to) = 0;
  /// Two codes of e4m3, an i16, to a vector of two fp16.
  virtual llvm::Value *unpackE4M3(llvm::Value *codes) = 0;
  /// The bits of a value as another type of the same width.
  virtual llvm::Value *bitcast(llvm::Value *value, llvm::Type *to) = 0;

  //===--- functions and ops
  //--------------------------------------------------------------------===//
  /// Completes the declaration of a kernel. Parameters from `firstMap` on are tensor maps.
  virtual void markKernel(llvm::Function &entry, unsigned firstMap) = 0;
  /// Emits what a kernel does first; `tensorMaps` are its last parameters, `optional` has a bit for
  /// each that the launcher may pass as zeros.
  virtual void beginKernel(llvm::ArrayRef<llvm::Value *> tensorMaps, uint32_t optional) = 0;
  /// May hardware still write the registers of this value, so that they have to be awaited before
  /// control flow joins? Gives them as they are then.
  virtual bool isInFlight(mlir::Value value) const = 0;
  virtual Values await(llvm::ArrayRef<llvm::Value *> registers) = 0;
  /// Ops that the shared emitter does not know. False: neither does the target.
  virtual bool emitTargetOp(mlir::Operation *op) = 0;
};

} // namespace nereid::gpu
