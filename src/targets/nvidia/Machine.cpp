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
  machine.maxSharedBytes = unsigned(arch.maxSharedPerBlock());
  machine.generation = arch.sm;
  return machine;
}

} // namespace nereid::nvidia
