// The pool and the launch.
//
// Joining protocol. A launch publishes its Job in `Pool::job`, bumps `generation` and wakes
// sleepers. A worker first counts itself into `joined` and only then reads `job`; a launch that
// ends first clears `job` and only then waits for `joined` to reach zero. Both in sequentially
// consistent order: so a worker either finds no job, or the launch sees it and waits. Workers that
// wake late cost nothing and nobody waits for them.
#include "targets/cpu/executor/Executor.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <linux/futex.h>
#include <memory>
#include <mutex>
#include <new>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace nereid::cpu {
namespace {

inline void relax() {
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

// Threads of ours take no signals: handlers belong to the program's own threads.
class SignalsBlocked {
public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }

private:
  sigset_t before;
};

// Around 10 µs of looking before sleeping: longer than the gap between back-to-back launches.
constexpr int spinTurns = 1000;

struct Job {
  KernelFn kernel;
  const void *args;
  LaunchRecord info;
  int64_t programs, chunk;
  size_t scratchBytes;
  PrintSink print;
  std::atomic<uint32_t> tickets{0}; // threads that may still take part
  std::atomic<bool> stopped{false};
  std::atomic<bool> outOfMemory{false};
  std::mutex failureMutex;
  Failure failure;
  std::mutex helperMutex;
  std::vector<pthread_t> helpers; // see `helpWhenStalled`
  // On a line of its own: the only word that every worker writes.
  alignas(64) std::atomic<int64_t> next{0};
};

// The kernel call in progress on this thread, innermost first: where `nereid_cpu_fail` goes back
// to, and the buffers of every nesting depth, kept for later launches.
struct CallFrame {
  jmp_buf exit;
  CallFrame *outer;
  uint32_t spins = 0;
  int64_t nextSeen = -1; // the first program not yet begun, when it was last looked at
  std::chrono::steady_clock::time_point since; // unchanged since then
};
thread_local CallFrame *currentFrame = nullptr;
thread_local int depth = 0;

struct FreeDelete {
  void operator()(void *p) const { std::free(p); }
};
struct Scratch {
  std::unique_ptr<void, FreeDelete> data;
  size_t bytes = 0;
};
thread_local std::vector<Scratch> scratchByDepth;

// This thread's buffer at the present depth, at least `bytes` long; null when there is no memory.
void *scratchFor(size_t bytes) {
  if (scratchByDepth.size() <= size_t(depth))
    scratchByDepth.resize(depth + 1);
  Scratch &scratch = scratchByDepth[depth];
  if (scratch.bytes < bytes) {
    scratch.data.reset();
    scratch.bytes = 0;
    if (bytes > SIZE_MAX - 4096)
      return nullptr;
    size_t rounded = (bytes + 4095) & ~size_t(4095);
    scratch.data.reset(std::aligned_alloc(4096, rounded));
    if (!scratch.data)
      return nullptr;
    scratch.bytes = rounded;
  }
  return scratch.data.get();
}

// Calls the kernel for [begin, end); false when a program left it through `nereid_cpu_fail` or
// `nereid_cpu_spin`. Not inlined: what lives across a setjmp stays in this small frame.
[[gnu::noinline]] bool callKernel(Job &job, int64_t begin, int64_t end, void *scratch) {
  CallFrame frame;
  frame.outer = currentFrame;
  currentFrame = &frame;
  bool finished = false;
  if (_setjmp(frame.exit) == 0) {
    job.kernel(job.args, &job.info, begin, end, scratch);
    finished = true;
  }
  currentFrame = currentFrame->outer;
  return finished;
}

// Takes chunks until none is left or the launch is stopped.
void work(Job &job) {
  void *scratch = job.scratchBytes ? scratchFor(job.scratchBytes) : nullptr;
  if (job.scratchBytes && !scratch) {
    job.outOfMemory.store(true, std::memory_order_relaxed);
    job.stopped.store(true, std::memory_order_release);
    return;
  }
  ++depth;
  while (!job.stopped.load(std::memory_order_acquire)) {
    int64_t begin = job.next.fetch_add(job.chunk, std::memory_order_relaxed);
    if (begin >= job.programs)
      break;
    if (!callKernel(job, begin, std::min(begin + job.chunk, job.programs), scratch))
      break;
  }
  --depth;
}

// A program waits. When no program has begun for a while although some are left, what it waits for
// may be one of them: one more thread goes and takes it. All that wait do so, so their number
// doubles each time.
void helpWhenStalled(Job &job, CallFrame &frame) {
  constexpr std::chrono::milliseconds patience{100};
  int64_t next = job.next.load(std::memory_order_relaxed);
  auto now = std::chrono::steady_clock::now();
  if (next >= job.programs)
    return;
  if (next != frame.nextSeen) {
    frame.nextSeen = next;
    frame.since = now;
    return;
  }
  if (now - frame.since < patience)
    return;
  frame.since = now;
  std::lock_guard lock(job.helperMutex);
  if (int64_t(job.helpers.size()) >= cooperativeLimit)
    return;
  SignalsBlocked blocked;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 1 << 20);
  auto main = [](void *argument) -> void * {
    work(*static_cast<Job *>(argument));
    return nullptr;
  };
  pthread_t thread;
  if (pthread_create(&thread, &attributes, main, &job) == 0)
    job.helpers.push_back(thread);
  pthread_attr_destroy(&attributes);
}

void joinHelpers(Job &job) {
  for (size_t i = 0;; ++i) {
    pthread_t thread;
    {
      std::lock_guard lock(job.helperMutex);
      if (i == job.helpers.size())
        return;
      thread = job.helpers[i];
    }
    pthread_join(thread, nullptr);
  }
}

class Pool {
public:
  explicit Pool(int threads) {
    spin = threads <= visibleCores() ? spinTurns : 0;
    SignalsBlocked blocked;
    for (int i = 1; i < threads; ++i) {
      pthread_t thread;
      if (pthread_create(&thread, nullptr, &Pool::workerMain, this) != 0)
        break; // fewer threads than asked for still run everything
      workers.push_back(thread);
    }
  }
  ~Pool() {
    quitting.store(true);
    generation.fetch_add(1);
    futexWake(generation, INT_MAX);
    for (pthread_t thread : workers)
      pthread_join(thread, nullptr);
  }
  int size() const { return int(workers.size()) + 1; }

  // Runs `current` on the calling thread and at most `helpers` others.
  void launch(Job &current, int helpers) {
    current.tickets.store(uint32_t(helpers), std::memory_order_relaxed);
    job.store(&current);
    generation.fetch_add(1);
    if (sleepers.load() > 0)
      futexWake(generation, helpers);
    work(current);
    job.store(nullptr);
    for (int turn = 0;; ++turn) {
      uint32_t inside = joined.load();
      if (inside == 0)
        break;
      if (turn < spin) {
        relax();
        continue;
      }
      waiting.store(true);
      if (joined.load() == inside)
        futexWait(joined, inside);
      waiting.store(false);
    }
  }

private:
  static void *workerMain(void *self) {
    static_cast<Pool *>(self)->workerLoop();
    return nullptr;
  }

  void workerLoop() {
    uint32_t seen = 0;
    while (true) {
      waitForGeneration(seen);
      if (quitting.load())
        return;
      joined.fetch_add(1);
      if (Job *current = job.load(); current && takeTicket(*current))
        work(*current);
      if (joined.fetch_sub(1) == 1 && waiting.load())
        futexWake(joined, 1);
    }
  }

  // Returns when the generation is no longer `seen`, and updates it.
  void waitForGeneration(uint32_t &seen) {
    for (int turn = 0;; ++turn) {
      uint32_t now = generation.load();
      if (now != seen) {
        seen = now;
        return;
      }
      if (turn < spin) {
        relax();
        continue;
      }
      sleepers.fetch_add(1);
      futexWait(generation, seen);
      sleepers.fetch_sub(1);
    }
  }

  static bool takeTicket(Job &current) {
    uint32_t left = current.tickets.load(std::memory_order_relaxed);
    while (left > 0)
      if (current.tickets.compare_exchange_weak(left, left - 1, std::memory_order_relaxed))
        return true;
    return false;
  }

  std::vector<pthread_t> workers;
  int spin = 0;
  alignas(64) std::atomic<uint32_t> generation{0};
  std::atomic<Job *> job{nullptr};
  std::atomic<bool> quitting{false};
  alignas(64) std::atomic<uint32_t> sleepers{0};
  alignas(64) std::atomic<uint32_t> joined{0};
  std::atomic<bool> waiting{false};
};

// The process's pool. Never destroyed at exit: its threads may still be parked then, and static
// destruction must not wait for them. After a fork the child has none of the threads, so it forgets
// the pool and starts anew.
struct Global {
  std::mutex launchMutex;      // one launch at a time owns the pool
  std::atomic<int> threads{0}; // 0: not decided yet
  Pool *pool = nullptr;
};
Global *makeGlobal();
std::atomic<Global *> globalState{nullptr};

Global &global() {
  if (Global *state = globalState.load(std::memory_order_acquire))
    return *state;
  return *makeGlobal();
}

// What a forked child keeps of its parent's pools, so that the memory stays reachable.
struct Abandoned {
  Global *state;
  std::mutex *printMutex;
  Abandoned *next;
};
Abandoned *abandoned = nullptr;

/// One thread prints at a time.
std::mutex *printMutex = new std::mutex;

void forgetInChild() {
  Global *old = globalState.exchange(nullptr);
  if (!old)
    return;
  abandoned = new Abandoned{old, std::exchange(printMutex, new std::mutex), abandoned};
  auto *fresh = new Global;
  fresh->threads.store(old->threads.load());
  globalState.store(fresh, std::memory_order_release);
}

Global *makeGlobal() {
  auto *fresh = new Global;
  Global *expected = nullptr;
  if (!globalState.compare_exchange_strong(expected, fresh)) {
    delete fresh;
    return expected;
  }
  pthread_atfork(nullptr, nullptr, &forgetInChild);
  return fresh;
}

int defaultThreads() {
  int64_t wish = configuredThreads();
  return wish > 0 ? int(std::min<int64_t>(wish, 4096)) : visibleCores();
}

// Small grids one by one, so that no thread is left with two; large ones in chunks that keep the
// counter's line quiet, sixteen for each thread.
int64_t chunkFor(int64_t programs, int threads) {
  return std::max<int64_t>(1, programs / (int64_t(threads) * 16));
}

// Every program its own thread. All of them are started before any may take a program, so a launch
// that cannot have its threads runs nothing.
LaunchStatus runCooperative(Job &job) {
  job.chunk = 1;
  struct Gate {
    Job *job;
    std::atomic<uint32_t> state{0}; // 1: go, 2: give up
  } gate{&job};
  auto main = [](void *argument) -> void * {
    auto &gate = *static_cast<Gate *>(argument);
    while (gate.state.load() == 0)
      futexWait(gate.state, 0);
    if (gate.state.load() == 1)
      work(*gate.job);
    return nullptr;
  };
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 1 << 20);
  std::vector<pthread_t> threads;
  {
    SignalsBlocked blocked;
    for (int64_t i = 1; i < job.programs; ++i) {
      pthread_t thread;
      if (pthread_create(&thread, &attributes, main, &gate) != 0)
        break;
      threads.push_back(thread);
    }
  }
  pthread_attr_destroy(&attributes);
  bool complete = int64_t(threads.size()) == job.programs - 1;
  gate.state.store(complete ? 1 : 2);
  futexWake(gate.state, INT_MAX);
  if (complete)
    work(job);
  for (pthread_t thread : threads)
    pthread_join(thread, nullptr);
  return complete ? LaunchStatus::Ok : LaunchStatus::NoThreads;
}

LaunchResult resultOf(Job &job) {
  if (job.outOfMemory.load(std::memory_order_relaxed))
    return {LaunchStatus::NoMemory, {}};
  if (job.failure.kind != FailureKind::None)
    return {LaunchStatus::ProgramFailed, job.failure};
  return {};
}

} // namespace

int threadCount() {
  Global &state = global();
  int count = state.threads.load(std::memory_order_relaxed);
  if (count == 0) {
    // Two threads may get here at once; both find the same number.
    count = defaultThreads();
    state.threads.store(count, std::memory_order_relaxed);
  }
  return count;
}

void setThreadCount(int threads) {
  Global &state = global();
  std::lock_guard lock(state.launchMutex);
  state.threads.store(threads > 0 ? threads : defaultThreads(), std::memory_order_relaxed);
  delete state.pool;
  state.pool = nullptr;
}

LaunchResult run(KernelFn kernel, const void *args, const int32_t grid[3],
                 const LaunchOptions &options) {
  if (grid[0] < 0 || grid[1] < 0 || grid[2] < 0)
    return {LaunchStatus::BadGrid, {}};
  int64_t programs = 0;
  if (__builtin_mul_overflow(int64_t(grid[0]) * grid[1], int64_t(grid[2]), &programs) ||
      programs > (int64_t(1) << 62))
    return {LaunchStatus::BadGrid, {}};
  if (programs == 0)
    return {};

  Job job;
  job.kernel = kernel;
  job.args = args;
  job.info = {{grid[0], grid[1], grid[2]}, 0, options.sites, &job};
  job.programs = programs;
  job.scratchBytes = options.scratchBytes;
  job.print = options.print;

  int threads = options.threads > 0 ? std::min(options.threads, threadCount()) : threadCount();
  bool nested = depth > 0;
  if (options.cooperative && programs > 1 && (nested || programs > threads)) {
    if (programs > cooperativeLimit)
      return {LaunchStatus::TooManyPrograms, {}};
    if (LaunchStatus status = runCooperative(job); status != LaunchStatus::Ok)
      return {status, {}};
    return resultOf(job);
  }
  if (nested || programs == 1 || threads == 1) {
    job.chunk = programs;
    work(job);
    return resultOf(job);
  }

  Global &state = global();
  std::lock_guard lock(state.launchMutex);
  if (!state.pool)
    state.pool = new Pool(threadCount());
  threads = std::min(threads, state.pool->size());
  if (options.cooperative && programs > threads) {
    // The pool got fewer threads than asked for.
    if (LaunchStatus status = runCooperative(job); status != LaunchStatus::Ok)
      return {status, {}};
    return resultOf(job);
  }
  job.chunk = options.cooperative ? 1 : chunkFor(programs, threads);
  int64_t chunks = (programs + job.chunk - 1) / job.chunk;
  state.pool->launch(job, int(std::min<int64_t>(threads, chunks)) - 1);
  joinHelpers(job);
  return resultOf(job);
}

void writeToPrintSink(LaunchRecord *info, const std::string &text) {
  Job &job = *static_cast<Job *>(info->launch);
  std::lock_guard lock(*printMutex);
  if (job.print.write)
    job.print.write(job.print.user, text.data(), text.size());
  else {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
}

} // namespace nereid::cpu

using namespace nereid::cpu;

extern "C" void nereid_cpu_fail(LaunchRecord *info, int64_t program, int32_t kind, int32_t site,
                                int64_t detail0, int64_t detail1, int64_t detail2) {
  Job &job = *static_cast<Job *>(info->launch);
  {
    std::lock_guard lock(job.failureMutex);
    if (job.failure.kind == FailureKind::None || program < job.failure.program)
      job.failure = {FailureKind(kind), site, program, {detail0, detail1, detail2}};
  }
  job.stopped.store(true, std::memory_order_release);
  std::longjmp(currentFrame->exit, 1);
}

extern "C" void nereid_cpu_spin(LaunchRecord *info) {
  Job &job = *static_cast<Job *>(info->launch);
  if (job.stopped.load(std::memory_order_acquire))
    std::longjmp(currentFrame->exit, 1);
  // The program waited for may need this core.
  if (++currentFrame->spins % 64 != 0)
    return relax();
  sched_yield();
  if (currentFrame->spins % 1024 == 0)
    helpWhenStalled(job, *currentFrame);
}
