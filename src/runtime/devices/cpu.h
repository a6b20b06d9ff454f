// The processor as a device, as far as others ask.
#pragma once

namespace nereid::runtime {

/// The tile registers of AMX.
struct TileReport {
  const char *state;   ///< "absent", "granted" by Linux to this process, or "refused"
  const char *refusal; ///< why, in words; null unless refused
};
TileReport tileRegisters();

/// Cores that this process may run on.
int cpuCores();
/// Threads that a launch on the CPU has, the launching one included.
int cpuThreads();

} // namespace nereid::runtime
