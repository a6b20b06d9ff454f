// Which blocks of a divided loop (PartitionWarps.cpp) two programs have in common, so that one copy
// from global memory brings them to both (multicast).
//
// The launcher may start programs 2i and 2i + 1 along the first axis as the two blocks of a
// cluster, a pair. In a product, programs that follow one another mostly compute blocks of one
// column of the result, and load the same blocks of B; at the end of a group of rows, of one row,
// and load the same blocks of A. Which it is depends on sizes that are known when the kernel runs.
// So nothing is proven about coordinates: the kernel computes, next to its own, those of the other
// program, by the same scalar code with that program's index, and compares. Code in loops is
// computed for the iteration that the other program is in at the same time:
//
//     for tile in range(program_id(0), tiles, step):         other_tile = tile - program_id(0) +
//     other
//         n = f(tile)                                        other_n = f(other_tile)
//         for k in ..:
//             b = load(k, n)                                 shared if n == other_n
//
// What must be proven is that the two go through their loops together: iteration k of the one is
// iteration k of the other, so that they fill the same slots at the same time. That is so if bounds
// and conditions do not depend on the program. The outermost one may; then the other
// program's bounds are computed, too, and whether it is still there (`beside`) when this one
// loads. As soon as one program has fewer iterations than the other, that one is alone to the end.
//
// Values that are loaded from memory are not known to be the same for both.
#pragma once
#include "ir/ngpu/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace nereid::gpu {

/// What the loads of a loop share with the same loads of the other program of the pair.
struct SharedCopies {
  mlir::Value beside; ///< i1, outside of the loop: the other program runs it at the same time
  /// Of each load, i1, in front of it: the other program loads the same block at the same time.
  /// Null: not known.
  llvm::SmallVector<mlir::Value> shared;
};

/// Computes that in the kernel, by scalar code in front of `loads` of `loop`. Nothing if the two
/// programs cannot be shown to go through the loop together, or if of no load it is known; the
/// kernel may then contain unused code.
std::optional<SharedCopies> findSharedCopies(mlir::func::FuncOp kernel, mlir::scf::ForOp loop,
                                             llvm::ArrayRef<tile::DescLoadOp> loads);

} // namespace nereid::gpu
