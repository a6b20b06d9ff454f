// GPU IR to LLVM IR, in one walk over the structured program.
//
// A scalar is one llvm::Value. A tensor with a layout is an array of them, one per register that a
// thread holds (register i of the layout, odd repeats slowest); elementwise ops go register by
// register. A buffer is one value, its address in shared memory (`ptr addrspace(3)`). Loops and
// branches are made of basic blocks with phis at once: there is no lowering of control flow
// afterwards.
//
// The families of ops stand in files of their own; each offers a function that emits an op of its
// family and says whether it was one. Target-specific instructions are emitted through
// Intrinsics.h; a target derives its emitter from this one and emits further ops there.
//
// Types: integers and floats as in LLVM (i1, i8, ..., half, bfloat, float, double), 8-bit floats as
// i8, pointers as `ptr addrspace(1)` (or the address space of their type), index as i64, tensor
// maps as `ptr`.
#pragma once
#include "gpu/Machine.h"
#include "gpu/emit/Intrinsics.h"
#include "ir/ngpu/Dialect.h"
#include "transforms/IntegerAnalysis.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <optional>

namespace nereid::gpu {

struct EmitOptions {
  Machine machine = {};
  bool lineInfo = true;
  bool fpFusion = true;
  /// exp2 gives zero instead of subnormal fp32 results (`enable_reflect_ftz`).
  bool reflectFtz = true;
};

class Emitter : public Intrinsics {
public:
  Emitter(mlir::func::FuncOp kernel, const EmitOptions &options, llvm::Module &module);
  ~Emitter() override;

  llvm::IRBuilder<> b;
  const EmitOptions &options;
  llvm::Module &module;
  bool usesLibrary = false; ///< calls functions that must be linked in

  //===--- values
  //--------------------------------------------------------------------------------===//
  /// Registers of a tensor, one value for anything else. The array stays valid.
  llvm::ArrayRef<llvm::Value *> get(mlir::Value value) const;
  llvm::Value *scalar(mlir::Value value) const;
  void set(mlir::Value value, llvm::ArrayRef<llvm::Value *> registers);
  llvm::Type *type(mlir::Type scalarOrTensorOrBuffer); ///< of one register
  llvm::IntegerType *intType(unsigned bits);
  unsigned registerCount(mlir::Type type) const; ///< 1 for anything but a tensor
  llvm::ConstantInt *i32(int64_t value);
  llvm::ConstantInt *i64(int64_t value);
  /// What is known of the integers and pointers of the function that `op` stands in.
  const transforms::IntegerAnalysis &integers(mlir::Operation *op);

  //===--- places
  //--------------------------------------------------------------------------------===//
  /// Number of warps of the region being emitted, those of all blocks of the program (Blocks.h),
  /// and indices among them.
  unsigned warpCount() const;
  unsigned blockCount() const;  ///< that run a program
  unsigned threadCount() const; ///< lanes * warpCount
  unsigned laneBits() const;    ///< of a thread's index, the lowest; the others are its warp's
  llvm::Value *threadId();      ///< 0 .. threadCount - 1
  llvm::Value *laneId();
  llvm::Value *warpId();
  /// The same as warpId(), known to the target as equal in all lanes of a warp.
  llvm::Value *uniformWarpId();
  /// The value of a map that is linear over the bits of lane and warp: XOR of `laneBits[i]` for
  /// bits i of the lane that are 1 and of `warpBits[i]`. Emitted with shifts and masks, few
  /// instructions for runs of bits. Emitted at the insertion point.
  llvm::Value *linear(llvm::ArrayRef<uint32_t> laneBits, llvm::ArrayRef<uint32_t> warpBits);
  /// The coordinates of register `reg` of this thread, an i32 per dimension. The lane and warp part
  /// is computed once per layout in the entry block; constants are added where bits are disjoint,
  /// else XORed.
  Values coordinates(mlir::RankedTensorType type, unsigned reg);
  /// True in the one thread that owns its elements of a tensor with this layout (others hold
  /// copies); null when every thread does.
  llvm::Value *owner(mlir::RankedTensorType type);
  /// True in the first thread of the region; in the body of a map or a combiner, in the threads
  /// whose element it is (null: every thread has its own).
  llvm::Value *isFirstThread();
  /// Set while the body of a map or a combiner is emitted.
  std::optional<llvm::Value *> elementOwner;
  /// Registers that hold copies of earlier registers: those are skipped by stores.
  bool isRedundantRegister(mlir::RankedTensorType type, unsigned reg);

  /// Runs `body` with the insertion point in the block that dominates the whole region: for what
  /// depends on nothing but the thread and is wanted in many places.
  llvm::Value *hoisted(llvm::function_ref<llvm::Value *()> body);

  //===--- shared memory
  //-------------------------------------------------------------------------===//
  /// The block's dynamic shared memory (ptr addrspace(3)), plus bytes.
  llvm::Value *shared(uint32_t bytes);
  /// The scratch of an op that carries `ngpu.scratch`.
  llvm::Value *scratch(mlir::Operation *op);
  /// Global scratch of this launch: the kernel's trailing parameter.
  llvm::Value *globalScratch();
  /// Of a persistent kernel: the number of programs along the first axis, an i32.
  llvm::Value *programs();
  /// The address of a tensor map that the launcher passes.
  llvm::Value *tensorMap(unsigned number);
  /// What a kernel does first. Where it is divided, the first further part does, beside the others.
  void prefetchMaps();

  //===--- emitting
  //------------------------------------------------------------------------------===//
  void emitBlock(mlir::Block &block); ///< all ops but the terminator
  void emitOp(mlir::Operation *op);
  /// A body on scalars: block arguments → the values of its terminator.
  Values inlineBody(mlir::Block &body, llvm::ArrayRef<llvm::Value *> args);
  /// The same for a combiner whose results are used where `counts` holds (null: in every thread);
  /// its assertions are tested there.
  Values inlineCombiner(mlir::Block &body, llvm::ArrayRef<llvm::Value *> args, llvm::Value *counts);
  /// A new block of the function, not yet reached by anything.
  llvm::BasicBlock *block(llvm::StringRef name);
  /// Goes on with `block`, placed behind the one before.
  void enter(llvm::BasicBlock *block);
  /// `if (condition) body`, and nothing happens elsewhere. Leaves the insertion point behind it. A
  /// null condition is true.
  void when(llvm::Value *condition, llvm::function_ref<void()> body);
  /// The same with results: `otherwise` where the condition is false.
  Values when(llvm::Value *condition, llvm::ArrayRef<llvm::Value *> otherwise,
              llvm::function_ref<Values()> body);

  /// From here to the matching endRegion ops are run by `warps` warps, the first of which is
  /// `firstWarp` of the block; `barrier` is the number of the barrier they meet at.
  void beginRegion(unsigned firstWarp, unsigned warps, unsigned barrier);
  void endRegion();

  /// A barrier of the warps of the region: of the program or, if not `allBlocks`, of this block.
  void barrier(bool allBlocks = true);
  /// Of the next reduction whose partial results blocks send one another (SendPartials.cpp): the
  /// slot, its mbarrier, and the parity of the mbarrier's phase.
  struct Sending {
    llvm::Value *slot, *barrier, *parity;
  };
  Sending nextSending();
  /// Calls `store` with `address`, in shared memory, or with its place in the shared memory of
  /// every block of the program.
  void inBlocks(llvm::Value *address, bool allBlocks,
                llvm::function_ref<void(llvm::Value *)> store);
  /// Any type of any width: split into 32-bit words.
  llvm::Value *shuffleXor(llvm::Value *value, unsigned laneMask);
  llvm::Value *shuffleIndex(llvm::Value *value, llvm::Value *lane);
  llvm::Value *shuffleUp(llvm::Value *value, unsigned delta);
  /// A value as 32-bit words (narrower ones widened with zeros), and back.
  Values toWords(llvm::Value *value);
  llvm::Value *fromWords(llvm::ArrayRef<llvm::Value *> words, llvm::Type *type);
  llvm::Value *intrinsic(llvm::Intrinsic::ID id, llvm::ArrayRef<llvm::Value *> args,
                         llvm::ArrayRef<llvm::Type *> overloads = {});
  /// A call of a function that is linked in: of the target's math library or of the author's own.
  llvm::CallInst *external(llvm::StringRef symbol, llvm::Type *result,
                           llvm::ArrayRef<llvm::Value *> args);
  /// The address of a constant string of this module that ends in 0 (a generic pointer).
  llvm::Value *string(llvm::StringRef text);

  /// The first error ends the emission; later ones are dropped. Returns for use in tail position.
  void fail(mlir::Operation *op, const llvm::Twine &message);
  bool failed() const;
  llvm::Error takeError();

  /// Emits the kernel and what it calls.
  void emitFunctions();
  /// The LLVM function of a function of the module other than the kernel.
  llvm::Function *callee(mlir::func::FuncOp function);
  unsigned launchedWarps() const; ///< of all blocks of a program
  /// Where the warps of the further parts of warp_specialize begin; asked for once. Null when it
  /// has been, or there are none.
  llvm::BasicBlock *furtherWarps();
  mlir::func::FuncOp kernel;

private:
  struct State;
  std::unique_ptr<State> state;
};

/// One element of an elementwise op (arith, math, tile): the scalar operands → the result.
/// Null when `op` is no elementwise op.
llvm::Value *emitElement(Emitter &e, mlir::Operation *op, llvm::ArrayRef<llvm::Value *> operands);

/// Moves values by `shuffle`, which takes and gives one; several of 8 or 16 bits go in one word.
Values shuffleTogether(Emitter &e, llvm::ArrayRef<llvm::Value *> values,
                       llvm::function_ref<llvm::Value *(llvm::Value *)> shuffle);

// Families. True: the op was of this family (and has been emitted, or failed).
bool emitElementwise(Emitter &e,
                     mlir::Operation *op); // arith, math, casts, selects, tile elementwise
bool emitShape(Emitter &e,
               mlir::Operation *op); // range, splat, broadcast, reshape, trans, join ...
bool emitRearrange(Emitter &e, mlir::Operation *op); // exchange, slice, gather, histogram
bool emitControl(Emitter &e, mlir::Operation *op);   // scf, calls, program ids, tile.barrier
bool emitMap(Emitter &e, mlir::Operation *op);       // functions mapped over elements
bool emitConvert(Emitter &e, mlir::Operation *op);   // ngpu.convert_layout
bool emitShared(Emitter &e, mlir::Operation *op);    // local_*, slot, subview, trans_buffer
bool emitReduce(Emitter &e, mlir::Operation *op);
bool emitScan(Emitter &e, mlir::Operation *op);
bool emitFmaDot(Emitter &e, mlir::Operation *op); // ngpu.fma_dot

} // namespace nereid::gpu
