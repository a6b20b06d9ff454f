// The threads that wait for launches, and how they are woken.
//
// Joining. A launch publishes itself in `current`, advances `epoch` and wakes those who sleep. A
// worker first says on a cache line of its own that it is inside, and only then reads `current`; a
// launch that ends clears `current`, and only then waits until nobody is inside. Both in
// sequentially consistent order: either the worker finds no launch, or the launch sees the worker.
// So a worker that wakes late costs nothing, nobody waits for it, and no thread writes a line that
// all others write.
//
// Waking. Each worker sleeps on a word of its own. A thread wakes `fanOut` others before it begins
// to work, and each of these as many more: up to 16 threads are woken by the launching one, which
// takes it a few microseconds each. Until a thread runs up to 50 pass, so levels cost more than
// wake-ups. After a launch a worker looks for the next one for a short time, of which it offers
// most to other threads of its core, and then sleeps until it is woken.
#pragma once
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <pthread.h>

namespace nereid::cpu {

/// One turn of a loop that waits for another thread: tells the core.
void relax();
void futexWait(std::atomic<uint32_t> &word, uint32_t expected);
void futexWake(std::atomic<uint32_t> &word, int count);

/// Threads that are started meanwhile take no signals: handlers belong to the program's own.
class SignalsBlocked {
public:
  SignalsBlocked();
  ~SignalsBlocked();

private:
  sigset_t before;
};

class Pool {
public:
  using Work = void (*)(void *job, int member);

  /// A pool of `threads`, the launching thread included; of fewer where the system gives no more.
  explicit Pool(int threads);
  /// Ends the threads. No launch is running.
  ~Pool();
  int size() const { return count + 1; }

  /// Calls work(job, 0) on this thread and work(job, m) on other threads, each m in [1, members) at
  /// most once, and returns when all calls have. A thread that is late is not called at all unless
  /// the calls before it wait for it. One launch at a time.
  void launch(Work work, void *job, int members);

  /// Whether some of the first `members` threads sleep, so that a launch has to wake them.
  bool sleeps(int members) const;
  /// How long a thread looks for the next launch before it sleeps. Longer than the gap between
  /// launches of a program that does little else; a wake-up takes about 5 to 50 µs.
  static constexpr std::chrono::microseconds spinTime{100};

private:
  static constexpr int fanOut = 15;
  struct Launch {
    Work work;
    void *job;
    int members;
  };
  struct alignas(128) Worker {
    std::atomic<uint32_t> parked{0}; ///< 1: sleeps, or is about to
    std::atomic<uint32_t> inside{
        0}; ///< 1: may use `current`; 2: and the launch sleeps on this word
    Pool *pool = nullptr;
    int member = 0;
    pthread_t thread{};
  };
  static constexpr unsigned memberBits = 16;
  void workerLoop(Worker &self);
  void waitForEpoch(Worker &self, uint64_t &seen);
  void park(Worker &self, uint64_t seen);
  void wakeChildren(int member, int members);
  void waitUntilOutside(Worker &worker);

  std::unique_ptr<Worker[]> workers; ///< member m is workers[m - 1]
  int count = 0;
  bool spins = false;
  std::atomic<bool> quitting{false};
  /// The number of the launch, and in the lowest `memberBits` bits how many take part in it.
  alignas(128) std::atomic<uint64_t> epoch{0};
  std::atomic<Launch *> current{nullptr};
  alignas(128) std::atomic<uint32_t> sleepers{0};
};

} // namespace nereid::cpu
