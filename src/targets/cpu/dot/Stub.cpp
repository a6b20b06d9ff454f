#include "targets/cpu/dot/Dot.h"
namespace nereid::cpu {
DotPlan planDot(DotType, int64_t, int64_t, int64_t, const Features &) { return {}; }
void emitDot(mlir::OpBuilder &, mlir::Location, const DotPlan &, const DotOperands &, const Features &) {}
}
