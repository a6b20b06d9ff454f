// Launching one variant of an embedded kernel.
#pragma once

#include "nereid/embedded.h"

namespace nereid::embedded {

/// A variant that was chosen for a launch.
struct Chosen {
  const nrd_embedded_kernel &kernel;
  const nrd_embedded_variant &variant;
  nrd_embedded_state &state;
};

/// The slots that the variant's code takes, of those of the launch: folded numbers are left out.
/// Gives their number.
unsigned passedSlots(const Chosen &chosen, const uint64_t *slots, uint64_t *passed);

/// With `run` off they only load.
nrd_status launchCpu(const Chosen &chosen, const nrd_embedded_launch &how, const uint64_t *slots,
                     bool run);
/// On GPU `device`.
nrd_status launchCuda(const Chosen &chosen, const nrd_embedded_launch &how, int device,
                      const uint64_t *slots, bool run);

/// The most that a launch holds: slots of arguments, tensor maps. `nereid embed` refuses kernels
/// that need more.
constexpr unsigned maxSlots = 256, maxMaps = 16;
/// The most numbers at a time while one is computed for a map; the planner of maps keeps to half.
constexpr unsigned maxDepth = 32;

} // namespace nereid::embedded
