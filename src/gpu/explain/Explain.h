// The part of the report on a kernel (explain/Report.h) that the GPU passes write, if it was
// requested: chosen layouts, width and coalescing of accesses, use of shared memory over time,
// units of products, loops that were not pipelined and why; with advice on costs.
#pragma once
#include "gpu/Options.h"
#include "ir/ngpu/Dialect.h"
#include "layout/Conversion.h"
#include "transforms/Explain.h"
#include "transforms/IntegerAnalysis.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace nereid::gpu {

/// The products of a kernel in tile IR, before layouts are chosen.
void explainProducts(mlir::func::FuncOp kernel, const GpuOptions &options,
                     const transforms::IntegerAnalysis &analysis);

/// Why the loads of a loop stay where they are.
enum class StaysPut : uint8_t {
  No,        ///< they do not
  OneStage,  ///< num_stages is 1
  NoRoom,    ///< shared memory has no room for two of each
  Unsigned,  ///< its bounds compare as unsigned numbers
  Writes,    ///< it changes global memory
  InnerLoop, ///< there is a loop in it
  Depends,   ///< addresses follow from what the loop computes
  NoProduct, ///< no load feeds a product
};
struct LoopDecision {
  unsigned stagesAsked = 0, stages = 0;
  StaysPut whyNot = StaysPut::No;
};
/// `feeds`: a load of the loop feeds a product of it.
void explainLoop(mlir::scf::ForOp loop, bool feeds, const LoopDecision &decision,
                 explain::Report &report);

/// Options of the launch and of the kernel's loops that have no effect on a GPU.
void adviseOnOptions(mlir::func::FuncOp kernel, const GpuOptions &options,
                     std::vector<explain::Hint> &advice);
/// A loop whose own `num_stages` has no effect.
std::optional<explain::Hint> adviceOnLoop(mlir::scf::ForOp loop, const LoopDecision &decision);

void explainConversion(ngpu::ConvertLayoutOp convert, layout::Move move, explain::Report &report);

/// Which warps of a divided kernel do what, and the channels between them. From the finished GPU
/// IR.
void explainParts(mlir::func::FuncOp kernel, explain::Report &report);

/// The finished GPU IR: layouts, parts, and accesses to global memory.
void explainKernel(mlir::func::FuncOp kernel, const GpuOptions &options);

} // namespace nereid::gpu
