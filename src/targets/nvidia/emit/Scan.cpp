#include "targets/nvidia/emit/Emitter.h"

namespace nereid::nvidia {

bool emitScan(Emitter &e, mlir::Operation *op) {
  return false;
}

} // namespace nereid::nvidia
