// How much of a kernel's tensors its threads keep while they exchange partial results.
//
// Between two exchanges an assembler orders instructions so that few registers are needed. What is
// alive across a reduction or a scan needs registers in any order. Values that follow from indices
// alone do not count, since they are computed again.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cstdint>

namespace nereid::gpu {

/// 32-bit words of a tensor, all threads together; 0 for anything else.
int64_t wordsOf(mlir::Type tensor);

/// 32-bit words of the tensors of `kernel`, in tile IR, that are alive across a reduction or scan,
/// all threads together: the most at any of them; 0 where there is none.
int64_t wordsKept(mlir::func::FuncOp kernel);

} // namespace nereid::gpu
