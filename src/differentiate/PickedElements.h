// Loads of one element of a row whose position comes from memory, as the logit of a label in a
// loss.
#pragma once

#include "differentiate/Activity.h"

namespace nereid::differentiate {

/// Before tangents are added: moves such a load, and what is computed from it, behind the loads of
/// the row as far as its users allow, and out of branches that no load of the row is in, with the
/// branch's condition as its mask. So its gradient is known when that of the row is stored
/// (PickedElements.cpp). Kernels that cannot have two steps stay as they are.
void movePickedLoads(mlir::func::FuncOp kernel, llvm::ArrayRef<Argument> arguments);

} // namespace nereid::differentiate
