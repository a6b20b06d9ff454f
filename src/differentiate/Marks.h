// What authors say about derivatives (ir/tile/WithTangent.h), but for `tl.with_tangent`, which is
// part of forward mode.
#pragma once

#include "differentiate/Activity.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace nereid::differentiate {

/// Before anything else that differentiation does with a kernel.
///
/// `tl.save`: in a gradient kernel what was computed becomes what is loaded, with the tangent of
/// what was computed, if `loadsSaved`; not where a further derivative follows, since that needs to
/// know how the value depends on the inputs, nor where the kernel itself stores the value.
/// `tl.recompute`: notes it at the loop around it. `tl.at_most`: in a gradient kernel the `while`
/// loop becomes a `for` loop that runs once more than the body may, and whose rounds do nothing
/// after the last one; its results are NaN when the body ran too often. So does a `for` loop that
/// is left early, whose bound is known, and any loop whose rounds can be counted before it
/// (CountRounds.h).
///
/// Refuses saved tensors that have gradients.
std::optional<Refusal> applyMarks(mlir::func::FuncOp kernel, llvm::ArrayRef<Argument> arguments,
                                  bool isReverse, bool loadsSaved);

/// Whether the author wants the states of a loop computed again.
bool isRecomputed(mlir::scf::ForOp loop);

} // namespace nereid::differentiate
