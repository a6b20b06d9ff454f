// Constructors of the passes described in Passes.td, for pipelines: `createCombine()` and so on.
#pragma once
#include "ir/tile/Dialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Pass/Pass.h"

namespace nereid::transforms {
#define GEN_PASS_DECL
#include "transforms/Passes.h.inc"
} // namespace nereid::transforms
