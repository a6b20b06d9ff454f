// Forking a process whose other threads compile.
//
// A fork copies the memory and one thread: locks that others hold stay locked in the child for
// ever. So work that takes locks (compiling, loading, reading stages) is counted, and a fork waits
// until none is going on, recording the pattern of a launch (dispatcher.h) included. Launches of
// known kernels take no locks and are not counted; the pool of the CPU target starts anew in the
// child by itself.
#pragma once

namespace nereid::runtime {

/// Registers the handlers for forks.
void watchForks();

/// While it lives, this thread may hold locks of ours. Waits while another thread forks; nests.
class Working {
public:
  Working();
  Working(const Working &) = delete;
  ~Working();
};

} // namespace nereid::runtime
