// Which numbers a launcher can compute before the kernel runs, and how.
#pragma once
#include "kernel_abi/TensorMapPlan.h"

#include "mlir/IR/Value.h"

#include <optional>

namespace nereid::transforms {

/// How a launcher computes an integer or pointer from the arguments of the kernel around it, as the
/// signed number that it is in its own width; nullopt for values that a launcher cannot compute.
std::optional<gpu::HostNumber> launchNumber(mlir::Value value);

} // namespace nereid::transforms
