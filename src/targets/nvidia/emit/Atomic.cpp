#include "targets/nvidia/emit/Emitter.h"

namespace nereid::nvidia {

bool emitAtomic(Emitter &e, mlir::Operation *op) {
  return false;
}

} // namespace nereid::nvidia
