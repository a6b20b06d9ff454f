// The tile registers of AMX, which Linux gives to a process that asks for them.
#pragma once

namespace nereid::cpu {

enum class TileState {
  Absent,  // the processor or the system has no AMX with products of bf16 and of bytes
  Refused, // Linux refused them: `error` says why
  Granted
};

struct TileAccess {
  TileState state = TileState::Absent;
  int error = 0; // an errno
};

/// Whether kernels of this process may use tile registers. The first call asks Linux for them (the
/// request ARCH_REQ_XCOMP_PERM of arch_prctl, for all threads, present and future ones, and for
/// children). It refuses when it is older than 5.16 (EINVAL), or when a thread has an alternate
/// signal stack that is too small for the registers (ENOSPC).
TileAccess requestTiles();

/// Gives back the tile registers of this thread, whose kernel was left before its end. Only if
/// they were granted.
void releaseTiles();

} // namespace nereid::cpu
