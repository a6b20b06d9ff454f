// What the GPU passes need to know of the device and of the launch.
#pragma once
#include <cstdint>

namespace nereid::explain {
struct Report;
} // namespace nereid::explain

namespace nereid::gpu {

/// How dots may be computed.
enum class MatrixUnit : uint8_t { Fma, Mma, Wgmma };

/// What a kernel that does not fit as it was planned does without (FitKernel.h).
struct Concessions {
  bool largeConversions = false; ///< conversions through shared memory are moved in small pieces
  unsigned stages = 0;           ///< slots of a pipelined loop at most; 0: as many as it asks for
  bool wgmma = false;            ///< products on mma.sync, whose operands are in registers
};

struct GpuOptions {
  int sm = 90;                         ///< compute capability * 10
  MatrixUnit best = MatrixUnit::Wgmma; ///< the best unit of the device
  bool asyncCopy = true;               ///< cp.async (sm_80 on)
  bool tma = true;    ///< bulk tensor copies and mbarriers with transaction counts (sm_90 on)
  bool fp8Mma = true; ///< fp8 operands in matrix units (sm_89 on)
  int numWarps = 4;   ///< a power of two
  int numStages = 3;  ///< default depth of pipelined loops
  int numCtas = 1;
  int maxRegisters = 0;             ///< 0: no limit of the user's
  unsigned maxSharedBytes = 232448; ///< a block's dynamic shared memory at most
  Concessions without = {};
  bool verify = false; ///< verify the IR after every pass
  /// Where passes write down what they decide and why; null when nobody asked.
  explain::Report *explanation = nullptr;
};

} // namespace nereid::gpu
