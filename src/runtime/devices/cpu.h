// The processor as a device, as far as others ask.
#pragma once

namespace nereid::runtime {

/// Cores that this process may run on.
int cpuCores();
/// Threads that a launch on the CPU has, the launching one included.
int cpuThreads();

} // namespace nereid::runtime
