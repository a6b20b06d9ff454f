#include "targets/nvidia/emit/Emitter.h"

namespace nereid::nvidia {

bool emitAsync(Emitter &e, mlir::Operation *op) {
  return false;
}

} // namespace nereid::nvidia
