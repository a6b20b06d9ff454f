// The pass that makes loads through descriptors of loads through pointers; see its source.
#pragma once
#include "mlir/Pass/Pass.h"

#include <memory>

namespace nereid::explain {
struct Report;
}

namespace nereid::transforms {

/// `report` is told which loads were changed, and why others were not; it may be null.
/// `warps`: those of a program; only loops for which the copy engine is known to be faster. 0: all.
std::unique_ptr<mlir::Pass> createPointersToDescriptors(explain::Report *report, unsigned warps);

} // namespace nereid::transforms
