// The target-independent optimisation of tile IR, as one readable list (Pipeline.cpp).
#pragma once

namespace mlir {
class OpPassManager;
}
namespace nereid::explain {
struct Report;
}

namespace nereid::transforms {

struct TilePipelineOptions {
  /// Moves loop-invariant computations and safe loads out of loops (never out of
  /// `tile.disable_licm` loops).
  bool licm = true;
  /// The target has a copy engine for blocks of tensors: descriptors that suit it stay.
  bool tensorCopies = false;
  /// Loads of blocks through pointers become loads through descriptors as well, where they can.
  bool copiesFromPointers = false;
  /// But only in loops for which measurements say that this is faster.
  bool onlyFasterCopies = false;
  unsigned warps = 4;                     ///< of a program, for such decisions
  explain::Report *explanation = nullptr; ///< null when nobody asked
  /// Which functions marked `noinline` stay functions: what a function that stays can use of its
  /// caller are its arguments (UnmarkNoinline.cpp).
  enum class Functions {
    All,     ///< as they are marked, for tools
    Scalars, ///< those that need nothing but their arguments
    None,    ///< the target emits a kernel as one function
  };
  Functions functions = Functions::All;
};

/// Appends the passes that inline functions: all but those that stay.
void addInlining(mlir::OpPassManager &manager, TilePipelineOptions::Functions functions);

/// Appends the passes to a pass manager of `builtin.module`. Expects what the front end emits:
/// kernels (functions with `tile.kernel`) and private functions, in func, tile, arith, math, scf
/// and ub. Afterwards a target may rely on this:
///
///  - No `func.call` to a function of the module remains, except to those that stay functions
///  (`TilePipelineOptions::functions`), and no other private function.
///  - Tensor descriptors are pointers, but for those marked `copy_engine`.
///  - IR is canonical: no dead values, no equal computations in one scope, constants folded, and
///  elementwise
///    operations on splats are done on scalars.
///  - A tensor of integers or pointers that a loop advances by a uniform amount is no longer
///  carried by the loop:
///    it is the initial tensor plus a splat of a scalar, and so IntegerAnalysis sees its runs.
///  - Control flow is still structured (scf), and memory accesses keep their order.
void buildTilePipeline(mlir::OpPassManager &manager, const TilePipelineOptions &options = {});

/// Makes the passes of src/transforms and the pipeline `tile-pipeline` known by name to
/// command-line tools.
void registerPasses();

} // namespace nereid::transforms
