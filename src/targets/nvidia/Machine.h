// NVIDIA's GPUs in the terms of the GPU passes.
#pragma once
#include "gpu/Machine.h"
#include "targets/nvidia/codegen/Architecture.h"

namespace nereid::nvidia {

gpu::Machine machineOf(const Architecture &arch);

} // namespace nereid::nvidia
