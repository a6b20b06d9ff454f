#include "targets/nvidia/emit/Emitter.h"

namespace nereid::nvidia {

bool emitMemory(Emitter &e, mlir::Operation *op) {
  return false;
}

} // namespace nereid::nvidia
