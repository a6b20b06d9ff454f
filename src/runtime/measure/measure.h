// Timing launches for a while: nrd_kernel_measure on any device.
#pragma once

#include "nereid/measure.h"
#include "runtime/measure/meter.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <functional>

namespace nereid::runtime {

/// The milliseconds of each of at most `capacity` runs, as the plan says: it warms up with warm
/// caches, and measures with what the plan wants. `seconds`: the time of day, by default a steady
/// clock's.
ErrorPtr measure(Meter &meter, llvm::function_ref<ErrorPtr()> run, const nrd_measure_plan &plan,
                 size_t capacity, std::vector<double> &times, std::function<double()> seconds = {});

} // namespace nereid::runtime
