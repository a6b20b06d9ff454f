// GPU IR to LLVM IR, in one walk over the structured program.
//
// A scalar is one llvm::Value. A tensor with a layout is an array of them, one per register that a
// thread holds (register i of the layout, odd repeats slowest); elementwise ops go register by
// register. A buffer is one value, its address in shared memory (`ptr addrspace(3)`). Loops and
// branches are made of basic blocks with phis at once: there is no lowering of control flow
// afterwards.
//
// The families of ops stand in files of their own; each offers a function that emits an op of its
// family and says whether it was one.
//
// Types: integers and floats as in LLVM (i1, i8, ..., half, bfloat, float, double), 8-bit floats as
// i8, pointers as `ptr addrspace(1)`.
#pragma once
#include "ir/ngpu/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

#include <memory>

namespace nereid::nvidia {

struct EmitOptions {
  int sm = 90;
  unsigned ptxVersion = 80; ///< major * 10 + minor
  bool lineInfo = true;
  bool fpFusion = true;
};

/// A kernel as LLVM IR for NVPTX, before optimisation.
struct EmittedKernel {
  std::unique_ptr<llvm::Module> module;
  std::string entry;
  bool usesLibdevice = false; ///< calls `__nv_*` functions that must be linked in
};

/// `kernel` has been through the GPU pipeline. Errors: constructs that the device cannot run, in
/// words for the kernel's author; defects start with "internal error".
llvm::Expected<EmittedKernel> emitKernel(mlir::func::FuncOp kernel, const EmitOptions &options,
                                         llvm::LLVMContext &context);

using Values = llvm::SmallVector<llvm::Value *, 8>;

class Emitter {
public:
  Emitter(mlir::func::FuncOp kernel, const EmitOptions &options, llvm::Module &module);

  llvm::IRBuilder<> b;
  const EmitOptions &options;
  llvm::Module &module;
  bool usesLibdevice = false;

  //===--- values
  //--------------------------------------------------------------------------------===//
  llvm::ArrayRef<llvm::Value *> get(mlir::Value value) const; ///< registers; one for a scalar
  llvm::Value *scalar(mlir::Value value) const;
  void set(mlir::Value value, Values registers);
  llvm::Type *type(mlir::Type scalarOrTensorOrBuffer); ///< of one register
  llvm::IntegerType *intType(unsigned bits);

  //===--- places
  //--------------------------------------------------------------------------------===//
  /// Number of warps of the region being emitted, and indices within it.
  unsigned warpCount() const;
  llvm::Value *threadId(); ///< 0 .. 32 * warpCount - 1
  llvm::Value *laneId();
  llvm::Value *warpId();
  /// The value of a map that is linear over the bits of lane and warp: XOR of `laneBits[i]` for
  /// bits i of the lane that are 1 and of `warpBits[i]`. Emitted with shifts and masks, few
  /// instructions for runs of bits.
  llvm::Value *linear(llvm::ArrayRef<uint32_t> laneBits, llvm::ArrayRef<uint32_t> warpBits);
  /// The coordinates of register `reg` of this thread, an i32 per dimension. The lane and warp part
  /// is computed once per layout in the entry block; constants are added where bits are disjoint,
  /// else XORed.
  Values coordinates(mlir::RankedTensorType type, unsigned reg);
  /// True in the one thread that owns its elements of a tensor with this layout (others hold
  /// copies); null when every thread does.
  llvm::Value *owner(mlir::RankedTensorType type);
  /// Registers that hold copies of earlier registers: those are skipped by stores.
  bool isRedundantRegister(mlir::RankedTensorType type, unsigned reg);

  //===--- shared memory
  //-------------------------------------------------------------------------===//
  /// The block's dynamic shared memory (ptr addrspace(3)), plus bytes.
  llvm::Value *shared(uint32_t bytes);
  /// The scratch of an op that carries `ngpu.scratch`.
  llvm::Value *scratch(mlir::Operation *op);

  //===--- emitting
  //------------------------------------------------------------------------------===//
  void emitBlock(mlir::Block &block); ///< all ops but the terminator
  void emitOp(mlir::Operation *op);
  /// The body of a combiner on scalars: block arguments → the values of its terminator.
  Values inlineBody(mlir::Block &body, llvm::ArrayRef<llvm::Value *> args);
  /// bar.sync over the warps of the region; warp-level convergence; fences.
  void barrier();
  void syncWarp();
  llvm::Value *shuffleXor(llvm::Value *value,
                          unsigned laneMask); ///< any width: split into 32-bit words
  llvm::Value *shuffleIndex(llvm::Value *value, llvm::Value *lane);
  /// Inline PTX. `constraints` as in LLVM ("=r,r,l").
  llvm::Value *ptx(llvm::Type *result, llvm::StringRef text, llvm::StringRef constraints,
                   llvm::ArrayRef<llvm::Value *> args, bool sideEffects);

  /// The first error ends the emission; later ones are dropped. Returns for use in tail position.
  void fail(mlir::Operation *op, const llvm::Twine &message);
  bool failed() const;
  llvm::Error takeError();

private:
  struct State;
  std::shared_ptr<State> state;
};

/// One element of an elementwise op (arith, math, tile): the scalar operands → the result.
/// Null when `op` is no elementwise op.
llvm::Value *emitElement(Emitter &e, mlir::Operation *op, llvm::ArrayRef<llvm::Value *> operands);

// Families. True: the op was of this family (and has been emitted, or failed).
bool emitElementwise(Emitter &e,
                     mlir::Operation *op); // arith, math, casts, selects, tile elementwise
bool emitShape(Emitter &e,
               mlir::Operation *op); // range, splat, broadcast, reshape, trans, join ...
bool emitMemory(Emitter &e, mlir::Operation *op); // tile.load, tile.store
bool emitAtomic(Emitter &e, mlir::Operation *op);
bool emitControl(Emitter &e, mlir::Operation *op); // scf, calls
bool emitDebug(Emitter &e, mlir::Operation *op);   // print, assert, check, assume, hint
bool emitConvert(Emitter &e, mlir::Operation *op); // ngpu.convert_layout
bool emitShared(Emitter &e, mlir::Operation *op);  // local_*, slot, subview, trans_buffer
bool emitReduce(Emitter &e, mlir::Operation *op);
bool emitScan(Emitter &e, mlir::Operation *op);
bool emitDot(Emitter &e, mlir::Operation *op);   // mma, wgmma, fma_dot
bool emitAsync(Emitter &e, mlir::Operation *op); // cp.async, mbarriers, TMA, barriers and fences
bool emitWarpSpecialize(Emitter &e, mlir::Operation *op);

} // namespace nereid::nvidia
