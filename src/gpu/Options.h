// What the GPU passes need to know of the machine and of the launch.
#pragma once
#include "gpu/Machine.h"

#include <functional>

namespace nereid::explain {
struct Report;
} // namespace nereid::explain

namespace nereid::gpu {

/// Optimisations that are switched off for a kernel that does not fit with them (FitKernel.h).
struct Concessions {
  bool largeConversions = false; ///< conversions through shared memory are moved in small pieces
  unsigned stages = 0;           ///< slots of a pipelined loop at most; 0: as many as it asks for
  bool wgmma = false;            ///< products on mma.sync, whose operands are in registers
};

/// Which loops are divided between warps that copy and warps that compute.
enum class Specialise : uint8_t { AsAsked, Always, Never };

struct GpuOptions {
  Machine machine = {};
  int numWarps = 4;  ///< a power of two
  int numStages = 3; ///< default depth of pipelined loops
  int numCtas = 1;
  int maxRegisters = 0; ///< 0: no limit of the user's
  Specialise specialise = Specialise::AsAsked;
  /// Whether code that moves registers between warps can be assembled (null: it can). Asked only
  /// for kernels with a loop that is divided.
  std::function<bool()> movesRegisters = nullptr;
  Concessions without = {};
  bool verify = false; ///< verify the IR after every pass
  /// Where passes write down what they decide and why; null when nobody asked.
  explain::Report *explanation = nullptr;
};

} // namespace nereid::gpu
