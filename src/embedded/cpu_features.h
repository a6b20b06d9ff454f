// Which of the instruction sets that kernels are compiled for this processor has.
#pragma once

#include <cstdint>

namespace nereid::embedded {

/// NRD_CPU_... (nereid/embedded.h) as bits.
uint32_t cpuFeatures();

} // namespace nereid::embedded
