// The emitter of NVIDIA GPUs: what gpu/emit/Emitter.h asks of a target, inline PTX, and the ops
// that are written with it.
#pragma once
#include "gpu/emit/Emitter.h"

namespace nereid::nvidia {

using gpu::Values;

struct EmitOptions : gpu::EmitOptions {
  int sm = 90;              ///< `machine` follows from it
  unsigned ptxVersion = 80; ///< major * 10 + minor
};

/// A kernel as LLVM IR for NVPTX, before optimisation. Its function takes the kernel's arguments
/// and then two pointers to global memory, global and profile scratch (kernel_abi/nvidia.h).
struct LlvmKernel {
  std::unique_ptr<llvm::Module> module;
  std::string entry;
  unsigned blocks = 1;        ///< that run a program
  unsigned warps = 4;         ///< of a block, those of warp_specialize's parts included
  bool usesLibdevice = false; ///< calls `__nv_*` functions that must be linked in
};

/// `kernel` has been through the GPU pipeline. Functions that it calls (`noinline`) are emitted
/// with it. Errors: constructs that the device cannot run, in words for the kernel's author;
/// defects start with "internal error".
llvm::Expected<LlvmKernel> emitKernel(mlir::func::FuncOp kernel, const EmitOptions &options,
                                      llvm::LLVMContext &context);

class Emitter final : public gpu::Emitter {
public:
  Emitter(mlir::func::FuncOp kernel, const EmitOptions &options, llvm::Module &module)
      : gpu::Emitter(kernel, options, module), options(options), splits(ngpu::splitCount(kernel)),
        pairs(ngpu::isPaired(kernel)) {}

  const EmitOptions &options;
  /// Blocks of a cluster that may run a program together, as many as the launcher chooses.
  const unsigned splits;
  /// Programs may be the blocks of clusters of two.
  const bool pairs;

  /// How many it has chosen (i32).
  llvm::Value *clusterSize();
  /// Where this program is one of a pair. Without clusters, `barrier.cluster` is assembled to
  /// barrier 0 of all warps, which those of one part use.
  void barrierOfPair();

  /// Inline PTX. `constraints` as in LLVM ("=r,r,l"). Convergent: all threads of the warp must run
  /// it together.
  llvm::Value *ptx(llvm::Type *result, llvm::StringRef text, llvm::StringRef constraints,
                   llvm::ArrayRef<llvm::Value *> args, bool sideEffects, bool convergent = false);

  // Intrinsics.cpp
  llvm::Value *threadIndex(unsigned threads) override;
  llvm::Value *programId(unsigned axis) override;
  llvm::Value *programCount(unsigned axis) override;
  void blockBarrier(unsigned number, unsigned warps) override;
  void syncWarp() override;
  llvm::Value *blockRank() override;
  llvm::Value *sharedOf(llvm::Value *address, llvm::Value *rank) override;
  void barrierOfBlocks() override;
  void arriveAtBlocks() override;
  void waitForBlocks() override;
  void sendWords(llvm::ArrayRef<llvm::Value *> words, llvm::Value *address, llvm::Value *barrier,
                 llvm::Value *rank) override;
  void expectWords(llvm::Value *barrier, unsigned bytes) override;
  void receiveWords(llvm::Value *barrier, llvm::Value *parity) override;
  llvm::StringRef blockScope() const override { return "block"; }
  llvm::Value *shuffleWord(gpu::Shuffle how, llvm::Value *word, llvm::Value *amount) override;
  bool reducesWarp(tile::CombinerKind kind) const override;
  llvm::Value *reduceWarp(tile::CombinerKind kind, llvm::Value *word) override;
  void storeMatrices(llvm::Value *address, llvm::ArrayRef<llvm::Value *> words,
                     bool transposed) override;
  llvm::Value *loadMatrices(llvm::Value *address, unsigned count, bool transposed) override;
  llvm::Value *divide(llvm::Value *lhs, llvm::Value *rhs) override;
  llvm::Value *reciprocal(llvm::Value *value) override;
  llvm::Value *exp2(llvm::Value *value, bool flush) override;
  llvm::Value *squareRoot(llvm::Value *value) override;
  llvm::Value *reciprocalSquareRoot(llvm::Value *value) override;
  llvm::Value *roundedProduct(llvm::Value *lhs, llvm::Value *rhs) override;
  llvm::Value *productDown(llvm::Value *lhs, llvm::Value *rhs) override;
  llvm::Value *saturatedFma(llvm::Value *lhs, llvm::Value *rhs, llvm::Value *add) override;
  std::string librarySymbol(llvm::StringRef name, bool fp32) const override;
  bool packs(mlir::Type element) const override;
  llvm::Value *truncateDouble(llvm::Value *value) override;
  llvm::Value *narrow(llvm::Value *value, llvm::Type *to, bool towardsZero) override;
  llvm::Value *narrowPair(llvm::Value *low, llvm::Value *high, llvm::Type *to) override;
  bool convertsFloat8() const override;
  llvm::Value *packFloat8(llvm::Value *low, llvm::Value *high, mlir::Type to) override;
  llvm::Value *unpackE4M3(llvm::Value *codes) override;
  llvm::Value *bitcast(llvm::Value *value, llvm::Type *to) override;

  // Emitter.cpp
  void markKernel(llvm::Function &entry, unsigned firstMap) override;
  void beginKernel(llvm::ArrayRef<llvm::Value *> tensorMaps, uint32_t optional) override;
  bool isInFlight(mlir::Value value) const override;
  Values await(llvm::ArrayRef<llvm::Value *> registers) override;
  bool emitTargetOp(mlir::Operation *op) override;
};

// Families. True: the op was of this family (and has been emitted, or failed).
constexpr unsigned tensorMapBytes = 128;
/// Whether the launcher has made this tensor map: one that it could not make is zeros. Prefetches
/// one that is made.
llvm::Value *isMade(Emitter &e, llvm::Value *map);

bool emitMemory(Emitter &e, mlir::Operation *op); // tile.load, tile.store
bool emitAtomic(Emitter &e, mlir::Operation *op);
bool emitDebug(Emitter &e, mlir::Operation *op);    // print, assert, check, assume, hint
bool emitForeign(Emitter &e, mlir::Operation *op);  // inline assembly
bool emitDot(Emitter &e, mlir::Operation *op);      // mma, wgmma
bool emitAsync(Emitter &e, mlir::Operation *op);    // cp.async, mbarriers, TMA, barriers and fences
bool emitBlockSum(Emitter &e, mlir::Operation *op); // sums over the blocks of a cluster
bool emitWarpSpecialize(Emitter &e, mlir::Operation *op);

} // namespace nereid::nvidia
