#include "targets/cpu/executor/Pool.h"

#include "targets/cpu/executor/Executor.h"

#include <algorithm>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace nereid::cpu {

namespace {

using Clock = std::chrono::steady_clock;

/// From when on a thread that looks gives its core to others that want it.
constexpr std::chrono::microseconds selfishTime{10};
/// Looks between two readings of the clock.
constexpr int looks = 32;

} // namespace

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void futexWait(std::atomic<uint32_t> &word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr,
          nullptr, 0);
}

void futexWake(std::atomic<uint32_t> &word, int count) {
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAKE_PRIVATE, count, nullptr,
          nullptr, 0);
}

SignalsBlocked::SignalsBlocked() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
}

SignalsBlocked::~SignalsBlocked() {
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Pool::Pool(int threads) : workers(new Worker[threads > 1 ? threads - 1 : 0]) {
  spins = threads <= visibleCores();
  SignalsBlocked blocked;
  auto main = [](void *argument) -> void * {
    auto &self = *static_cast<Worker *>(argument);
    self.pool->workerLoop(self);
    return nullptr;
  };
  for (; count + 1 < threads; ++count) {
    Worker &worker = workers[count];
    worker.pool = this;
    worker.member = count + 1;
    if (pthread_create(&worker.thread, nullptr, main, &worker) != 0)
      break; // fewer threads than asked for still run everything
  }
}

Pool::~Pool() {
  quitting.store(true);
  epoch.fetch_add(uint64_t(1) << memberBits);
  for (int i = 0; i < count; ++i)
    if (workers[i].parked.exchange(0) == 1)
      futexWake(workers[i].parked, 1);
  for (int i = 0; i < count; ++i)
    pthread_join(workers[i].thread, nullptr);
}

void Pool::launch(Work work, void *job, int members) {
  Launch launch{work, job, members};
  current.store(&launch);
  uint64_t number = (epoch.load(std::memory_order_relaxed) >> memberBits) + 1;
  epoch.store(number << memberBits | uint64_t(members));
  wakeChildren(0, members);
  work(job, 0);
  current.store(nullptr);
  // All of them, as one that was late for an earlier launch may look at this one. The lines of
  // those who were not inside are still in this core's cache.
  for (int i = 0; i < count; ++i)
    waitUntilOutside(workers[i]);
}

bool Pool::sleeps(int members) const {
  if (sleepers.load(std::memory_order_relaxed) == 0)
    return false;
  for (int i = 0; i + 1 < members; ++i)
    if (workers[i].parked.load(std::memory_order_relaxed))
      return true;
  return false;
}

void Pool::wakeChildren(int member, int members) {
  if (sleepers.load() == 0)
    return;
  int first = fanOut * member + 1;
  for (int child = first; child < std::min(first + fanOut, members); ++child) {
    std::atomic<uint32_t> &parked = workers[child - 1].parked;
    if (parked.load() == 1 && parked.exchange(0) == 1)
      futexWake(parked, 1);
  }
}

void Pool::waitUntilOutside(Worker &worker) {
  Clock::time_point begin{};
  for (uint32_t turn = 0; uint32_t state = worker.inside.load(std::memory_order_acquire);) {
    relax();
    if (++turn % looks != 0)
      continue;
    Clock::time_point now = Clock::now();
    if (turn == looks)
      begin = now;
    if (spins && now - begin < selfishTime)
      continue;
    if (spins && now - begin < spinTime) {
      sched_yield();
      continue;
    }
    if (state == 2 || worker.inside.compare_exchange_strong(state, 2))
      futexWait(worker.inside, 2);
  }
}

void Pool::workerLoop(Worker &self) {
  uint64_t seen = 0;
  while (true) {
    waitForEpoch(self, seen);
    if (quitting.load())
      return;
    self.inside.store(1);
    Launch *launch = current.load();
    if (launch && self.member < launch->members) {
      wakeChildren(self.member, launch->members);
      launch->work(launch->job, self.member);
    }
    if (self.inside.exchange(0) == 2)
      futexWake(self.inside, 1);
  }
}

// Returns when there is a launch after `seen` that this worker takes part in, or when the pool
// ends.
void Pool::waitForEpoch(Worker &self, uint64_t &seen) {
  Clock::time_point begin = Clock::now();
  while (true) {
    for (int look = 0; look < looks; ++look) {
      if (uint64_t now = epoch.load(); now != seen) {
        seen = now;
        if (self.member < int(now & ((uint64_t(1) << memberBits) - 1)) || quitting.load())
          return;
      }
      relax();
    }
    Clock::duration passed = Clock::now() - begin;
    if (!spins || passed > spinTime) {
      park(self, seen);
      begin = Clock::now();
    } else if (passed > selfishTime) {
      sched_yield();
    }
  }
}

// Sleeps until somebody wakes this worker, unless the epoch is no longer `seen`.
void Pool::park(Worker &self, uint64_t seen) {
  sleepers.fetch_add(1);
  self.parked.store(1);
  while (epoch.load() == seen && self.parked.load() == 1)
    futexWait(self.parked, 1);
  self.parked.store(0);
  sleepers.fetch_sub(1);
}

} // namespace nereid::cpu
