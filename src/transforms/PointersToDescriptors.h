// The pass that makes loads through descriptors of loads through pointers; see its source.
#pragma once
#include "mlir/Pass/Pass.h"

#include <memory>

namespace nereid::explain {
struct Report;
}

namespace nereid::transforms {

/// `report` is told which loads were changed, and why others were not; it may be null.
/// `onlyFaster`: only loops for which the copy engine is known to be faster.
std::unique_ptr<mlir::Pass> createPointersToDescriptors(explain::Report *report, bool onlyFaster);

} // namespace nereid::transforms
