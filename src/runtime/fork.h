// Forking a process whose other threads compile.
//
// A fork copies the memory and one thread: locks that others hold stay locked in the child for
// ever. So work that takes locks (compiling, loading, reading stages) is counted, and a fork waits
// until none is going on, recording the pattern of a launch (dispatcher.h) included. Launches of
// known kernels take no locks and are not counted; the pool of the CPU target starts anew in the
// child by itself.
#pragma once

#include <atomic>

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

/// How many forks lie between this process and the one that called `watchForks` first.
unsigned forkCount();

/// State of threads that wait for each other, as locks are: a forked child, which has none of these
/// threads, gets it anew. `watchForks` must have been called before. What else the locks protect is
/// changed by who is Working only.
template <typename T> class PerProcess {
public:
  constexpr PerProcess() = default;
  PerProcess(const PerProcess &) = delete;
  ~PerProcess() {
    Made *now = made.load(std::memory_order_relaxed);
    if (now && now->forks == forkCount()) // what threads of the parent wait for cannot be destroyed
      delete now;
  }

  T &get() const {
    unsigned forks = forkCount();
    Made *now = made.load(std::memory_order_acquire);
    if (now && now->forks == forks) [[likely]]
      return now->value;
    auto *fresh = new Made{forks};
    if (made.compare_exchange_strong(now, fresh, std::memory_order_acq_rel,
                                     std::memory_order_acquire))
      return fresh->value;
    delete fresh; // another thread was first
    return now->value;
  }

private:
  struct Made {
    unsigned forks;
    T value{};
  };
  mutable std::atomic<Made *> made{nullptr};
};

} // namespace nereid::runtime
