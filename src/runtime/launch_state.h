// The process state that every launch reads, in one cache line: the driver evicts most of the
// caller's data from the processor's caches at each launch.
#pragma once

#include "nereid/nereid.h"

#include <atomic>
#include <string>

namespace nereid::runtime {

struct alignas(64) LaunchState {
  /// The target that the process has set, as TargetName::code, with `onlyFallback` if the arguments
  /// take precedence; -1 if none is set.
  std::atomic<int> preferred = -1;
  static constexpr int onlyFallback = 1 << 16;
  /// Whether CUDA was in use in the process that this one was forked from.
  std::atomic<bool> inherited = false;
  std::atomic<nrd_stream_provider> streamProvider = nullptr;
  /// The kernel that a GPU was given last.
  std::atomic<const std::string *> latestName = nullptr;
};

inline constinit LaunchState launchState;

} // namespace nereid::runtime
