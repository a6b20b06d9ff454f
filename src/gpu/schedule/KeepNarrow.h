// What rows are kept as while the threads of a program exchange partial results.
//
// A kernel loads a row of bf16, computes with it in fp32, reduces that, and uses it again: the
// softmax of a row keeps its exponentials while their sum is computed. In fp32 they take twice the
// registers of the row. With half the registers two blocks fit on a multiprocessor where one did,
// and one of them waits for memory while the other one computes; this is worth more than computing
// the exponentials a second time. So where registers limit the blocks, values that follow element
// by element from a narrower load are computed again behind a reduction, of the load's result. The
// operations are the same, and so are all results.
//
// Common subexpressions would be merged again by LLVM and by the assembler, therefore the load's
// result passes through `ngpu.renew`.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

#include <cstdint>

namespace nereid::gpu {

/// 32-bit words of a tensor, all threads together.
int64_t wordsOf(mlir::Type tensor);

/// The results of loads of which `value`, a tensor in tile IR, can be computed again element by
/// element, with numbers that are the same for all elements or follow from indices, and `ops`,
/// which do that in the order of the program. False where the loads take as many words as `value`
/// or more, or where the computation is long.
bool computedOfNarrower(mlir::Value value, llvm::SetVector<mlir::Value> &loads,
                        llvm::SetVector<mlir::Operation *> &ops);

} // namespace nereid::gpu
