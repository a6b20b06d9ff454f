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

/// The most slots of a launch.
constexpr unsigned maxSlots = 256;

} // namespace nereid::embedded
