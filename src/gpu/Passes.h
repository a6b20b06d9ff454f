// The single steps of the GPU pipeline. Each works on one kernel (`func.func` with `tile.kernel`)
// and leaves valid IR; Pipeline.cpp gives their order and its reasons.
#pragma once
#include "explain/Hints.h"
#include "gpu/Options.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/Error.h"

#include <string>

namespace nereid::gpu {

/// Lowers dots without a GPU instruction: tf32x3 and bf16x3/x6 dots as several dots, fp8 dots
/// without hardware as f16 ones, dots too small for the matrix unit (padded or on FMA), u8 operands
/// and the like.
llvm::Error legaliseDots(mlir::func::FuncOp kernel, const GpuOptions &options);

/// Moves loads of a gradient kernel (with the attribute `tile.gradients`) in front of the
/// reductions before them, as far as registers allow.
void issueLoads(mlir::func::FuncOp kernel, const GpuOptions &options);

/// Marks what a gradient kernel reads in several loops as the last to leave the L2 cache before the
/// last loop, and what it reads and stores there as the first (StreamStores.cpp).
void streamStores(mlir::func::FuncOp kernel);

/// Sums that a loop of a gradient kernel adds up are taken behind the loop, as far as registers
/// allow (SumLoops.cpp).
void sumLoops(mlir::func::FuncOp kernel, const GpuOptions &options);

/// Writes sums of a gradient kernel so that they need fewer exchanges between threads, and sums
/// that do not need each other as one `tile.reduce` (ShareExchanges.cpp).
void shareExchanges(mlir::func::FuncOp kernel);

/// Values that are computed of narrower tensors are computed again behind reductions
/// (KeepNarrow.cpp).
void keepNarrow(mlir::func::FuncOp kernel, const GpuOptions &options);

/// Reductions across the blocks of a cluster send their partial results (SendPartials.cpp).
void sendPartials(mlir::func::FuncOp kernel, const GpuOptions &options);

/// Chooses a layout for every tensor (LayoutAssignment.h) and rewrites the function: encodings on
/// all tensor types, `ngpu.convert_layout` where a use needs another layout, `tile.dot` to
/// `ngpu.mma`, `ngpu.wgmma` or `ngpu.fma_dot` with their operands in shared memory
/// (`ngpu.local_alloc`, `trans_buffer`) or in fragment layouts
/// (`convert_layout`). `report`: the cost report, when not null.
llvm::Error assignLayouts(mlir::func::FuncOp kernel, const GpuOptions &options,
                          std::string *report);

/// Multi-buffers the loads of loops (cp.async, TMA), and keeps wgmma in flight. The slots of the
/// deepest loop that it has pipelined; 0: none. `advice`: loops whose own `num_stages` has no
/// effect.
unsigned pipelineLoops(mlir::func::FuncOp kernel, const GpuOptions &options,
                       std::vector<explain::Hint> &advice);

/// `convert_layout` that must go through shared memory becomes `local_alloc` + `local_load` with a
/// conflict-free layout; what remains is done in registers or by shuffles.
llvm::Error expandConversions(mlir::func::FuncOp kernel, const GpuOptions &options);

/// The error of a kernel that needs more shared memory than a block can have.
class OutOfSharedMemory : public llvm::ErrorInfo<OutOfSharedMemory> {
public:
  static char ID;
  OutOfSharedMemory(int64_t required, int64_t limit, std::string biggest)
      : required(required), limit(limit), biggest(std::move(biggest)) {}
  void log(llvm::raw_ostream &out) const override {
    out << "out of shared memory: the kernel needs " << required
        << " bytes a block, the device has " << limit << "; most of it: " << biggest
        << "; smaller block sizes or fewer `num_stages` need less";
  }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

  int64_t required, limit;
  std::string biggest;             ///< the largest buffers with their lines
  unsigned stages = 0;             ///< slots of the deepest pipelined loop
  bool overlappedStores = false;   ///< stores keep their buffer while products go on
  bool persistentProducts = false; ///< a block computes several programs
};

/// Gives every buffer and every op with scratch its place by liveness; the bytes in all.
/// OutOfSharedMemory if these are too many.
llvm::Expected<unsigned> allocateShared(mlir::func::FuncOp kernel, const GpuOptions &options);

/// Inserts `ngpu.barrier` (and `fence_async`) between accesses to shared memory that conflict,
/// where none is yet.
llvm::Error insertBarriers(mlir::func::FuncOp kernel, const GpuOptions &options);

/// Bytes of scratch shared memory that the emitter of `op` uses (reductions, scans, slices, gathers
/// and the like across warps, scalar atomics whose result is used); 0 for most.
unsigned scratchBytes(mlir::Operation *op);

} // namespace nereid::gpu
