// Conditions about all lanes of a tensor that need no look at each of them.
#pragma once
#include "targets/cpu/emit/Kernel.h"

namespace nereid::cpu {

/// A scalar i1 that, where it is true, says that `condition` (a tensor of i1) is true in every lane
/// in which `mask` (of its shape, a scalar, or null: all) is. Null when nothing can be found out.
/// Code is emitted at the builder's insertion point.
mlir::Value allLanesHold(Kernel &kernel, mlir::Value condition, mlir::Value mask);

} // namespace nereid::cpu
