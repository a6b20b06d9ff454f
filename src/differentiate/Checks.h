// What cannot be differentiated, or whose tangents would be wrong without a word.
#pragma once

#include "differentiate/Activity.h"

namespace nereid::differentiate {

/// The first such operation of the kernel, in the order of the program.
std::optional<Refusal> findRefusal(mlir::func::FuncOp kernel, llvm::ArrayRef<Argument> arguments,
                                   const Activity &activity);

} // namespace nereid::differentiate
