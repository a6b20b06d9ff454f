// The plan of a block of tile ops: which of them run together in one loop nest, in what order, and
// which tensors must exist in memory.
//
// Ops that only compute elements are *virtual*: they cost nothing until a *root* needs their
// elements. Roots are what must happen: stores, reductions, tensors that must be materialised, and
// scans along rows, everything with its own way of being emitted (dots, other scans, atomics,
// control flow, scalars). A Loop step is a set of roots over one iteration space, emitted as one
// loop nest, so that an elementwise chain between a load and a store or a reduction becomes one
// pass over memory.
//
// Tensors of which other places are read than the one computed (`readsElsewhere`) are materialised
// before. A tensor that several steps need is computed again in each when that is cheap (index
// arithmetic), else materialised in the first loop that computes it. Loads are never repeated:
// memory may have changed. A load is materialised before a step that may write memory when it is
// needed after it.
#pragma once
#include "targets/cpu/emit/Kernel.h"

namespace nereid::cpu {

struct Root {
  enum Kind { Store, Reduce, Scan, Materialize } kind;
  mlir::Operation *op = nullptr; // Store, Reduce, Scan
  mlir::Value value;             // Materialize
};

struct Step {
  /// Of a Loop step; empty for an op on its own.
  llvm::SmallVector<Root> roots;
  llvm::SmallVector<int64_t> shape;
  int axis = -1; // of the reductions among the roots
  int lane = -1; // the dimension that the lanes run along; -1: for the emission to choose
  /// The op of a Single step.
  mlir::Operation *op = nullptr;
  /// Tensors to materialise before the step.
  llvm::SmallVector<mlir::Value> before;
};

/// Plans the ops of `block`. Ends with a Single step for its terminator.
llvm::SmallVector<Step> planBlock(mlir::Block &block);

/// About how many instructions a register of lanes takes, without those of the operands.
int costOf(mlir::Operation *op);

/// True for ops with a tensor result that loops compute on demand.
bool isVirtual(mlir::Operation *op);

/// The virtual loads that computing `value` performs, in no order. Stops at materialised tensors.
void collectLoads(mlir::Value value, Kernel &kernel,
                  llvm::SmallSetVector<mlir::Operation *, 8> &loads);

} // namespace nereid::cpu
