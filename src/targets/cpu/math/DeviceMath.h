// The functions of device libraries on lanes, by their symbols.
#pragma once
#include "targets/cpu/Features.h"

#include "mlir/IR/Builders.h"

namespace nereid::cpu {

/// The value of the device library's function `symbol` ("__nv_atan2f") for every lane of
/// `operands`, f32 or f64 scalars or vectors of one type. Null when there is no code for lanes: the
/// function of the support library has to be called for each. docs/cpu-math.md lists the functions
/// and their largest errors. The insertion point must lie in a module.
mlir::Value emitDeviceMath(mlir::OpBuilder &builder, mlir::Location loc, llvm::StringRef symbol,
                           mlir::ValueRange operands, const Features &features);

} // namespace nereid::cpu
