#include "targets/nvidia/Machine.h"

namespace nereid::nvidia {

gpu::Machine machineOf(const Architecture &arch) {
  gpu::Machine machine;
  machine.lanes = lanesOfWarp;
  machine.best = arch.hasWgmma() ? gpu::MatrixUnit::Wgmma : gpu::MatrixUnit::Mma;
  machine.asyncCopy = arch.hasCpAsync();
  machine.tma = arch.hasTma();
  machine.fp8Mma = arch.hasFp8Mma();
  machine.matrixStores = arch.hasStmatrix();
  machine.maxBlocks = arch.hasClusters() ? 16 : 1;
  machine.mostSending = arch.sm == 90 ? 16 : 8; // 16: where that was measured; all have room for 8
  machine.maxSharedBytes = unsigned(arch.maxSharedPerBlock());
  machine.generation = arch.sm;
  return machine;
}

} // namespace nereid::nvidia
