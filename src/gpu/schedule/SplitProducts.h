// Products whose sum over K the blocks of a cluster share.
//
// A product of few blocks of results leaves multiprocessors of a GPU without work: 64 programs on
// 132 multiprocessors, or 16 rows of a weight matrix. How many programs there are is known at the
// launch. So the kernel is compiled for a cluster of any number of blocks, and the launcher chooses
// the number (`LaunchInfo::mostSplits`): the blocks of a cluster run one program, each a part of
// the iterations over K, one after the other. Then the first block adds the partial sums, in the
// order of the blocks, and does the rest of the program; the others end. Results are the same in
// every launch with the same grid.
//
//     for k in 0..n: acc += a[k] b[k]                     for k in part of this block: acc += ...
//     store f(acc)                                   →    if several parts: acc = sum_blocks acc
//                                                         if first block:   store f(acc)
//
// The pass takes kernels with one such loop, in the kernel's outermost block:
// - it carries one accumulator of fp32, of at most 128x128 elements, which begins with zeros and is
// only added to by products;
// - all else that it carries is advanced by the same amount in every iteration (pointers), and not
//   used behind it;
// - the launcher can compute how many iterations it has (LaunchNumber.h);
// - it reads memory, and does nothing else to it. The same holds for all before it.
//
// It runs on tile IR, before products are rewritten for the unit that computes them.
#pragma once
#include "gpu/Options.h"
#include "kernel_abi/SplitRule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace nereid::gpu {

/// Marks `kernel` with `ngpu.splits`, the greatest number of blocks, if its product was split, and
/// says when that is worth it.
std::optional<SplitRule> splitProducts(mlir::func::FuncOp kernel, const GpuOptions &options);

} // namespace nereid::gpu
