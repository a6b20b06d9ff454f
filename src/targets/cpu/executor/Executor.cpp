// The launch: which thread runs which programs.
#include "targets/cpu/executor/Executor.h"

#include "targets/cpu/executor/Pool.h"
#include "targets/cpu/executor/Tiles.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <sched.h>
#include <utility>
#include <vector>

namespace nereid::cpu {
namespace {

using Clock = std::chrono::steady_clock;

/// A part of the grid: [next, end) is left.
struct alignas(128) Range {
  std::atomic<int64_t> next{0};
  int64_t end = 0;
  /// How long the member of this number has worked, in nanoseconds.
  double busy = 0;
};

struct Job {
  KernelFn kernel;
  const void *args;
  LaunchRecord info;
  int64_t programs;
  size_t scratchBytes;
  PrintSink print;
  // In order: one range for all, of which each takes `chunk` programs at a time. Else a range for
  // each member, who takes a share of what is left.
  bool inOrder = true;
  int64_t chunk = 1;
  int rangeCount = 1;
  Range *ranges = nullptr;
  std::atomic<uint64_t> *open = nullptr; // a bit for each range of which programs are left
  std::atomic<int64_t> limit{INT64_MAX}; // programs above it need not begin
  std::atomic<bool> stopped{false};      // no program needs to begin
  std::atomic<bool> outOfMemory{false};
  std::mutex failureMutex;
  Failure failure;
  std::mutex helperMutex;
  std::vector<pthread_t> helpers; // see `helpWhenStalled`
};

// The kernel call in progress on this thread, innermost first: where `nereid_cpu_fail` goes back
// to, and the buffers of every nesting depth, kept for later launches.
struct CallFrame {
  jmp_buf exit;
  CallFrame *outer;
  uint32_t spins = 0;
  int64_t nextSeen = -1;   // the first program not yet begun, when it was last looked at
  Clock::time_point since; // unchanged since then
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
  } else {
    releaseTiles(); // the kernel's end was not reached
  }
  currentFrame = currentFrame->outer;
  return finished;
}

// The next programs of a range, [begin, end); false when none is left.
bool take(Job &job, int number, int64_t &begin, int64_t &end) {
  Range &range = job.ranges[number];
  if (job.inOrder) {
    begin = range.next.fetch_add(job.chunk, std::memory_order_relaxed);
    end = std::min(begin + job.chunk, range.end);
    return begin < range.end;
  }
  begin = range.next.load(std::memory_order_relaxed);
  do {
    if (begin >= range.end)
      return false;
    end = begin + std::max<int64_t>(1, (range.end - begin) / 4);
  } while (!range.next.compare_exchange_weak(begin, end, std::memory_order_relaxed));
  if (end == range.end)
    job.open[number / 64].fetch_and(~(uint64_t(1) << number % 64), std::memory_order_relaxed);
  return true;
}

// A range of which programs are left, the first behind `number`; -1 when there is none.
int openRange(const Job &job, int number) {
  int words = (job.rangeCount + 63) / 64;
  for (int turn = 0; turn <= words; ++turn) {
    int word = (number / 64 + turn) % words;
    uint64_t bits = job.open[word].load(std::memory_order_relaxed);
    uint64_t behind = ~uint64_t(0) << number % 64;
    if (turn == 0)
      bits &= behind;
    else if (turn == words)
      bits &= ~behind;
    if (bits)
      return word * 64 + __builtin_ctzll(bits);
  }
  return -1;
}

// Runs programs until none is left or the launch is stopped: of the member's own range first, then
// of those who are behind.
void work(Job &job, int member) {
  void *scratch = job.scratchBytes ? scratchFor(job.scratchBytes) : nullptr;
  if (job.scratchBytes && !scratch) {
    job.outOfMemory.store(true, std::memory_order_relaxed);
    job.stopped.store(true, std::memory_order_release);
    return;
  }
  ++depth;
  for (int range = job.inOrder ? 0 : member; range >= 0;) {
    int64_t begin, end;
    while (!job.stopped.load(std::memory_order_acquire) && take(job, range, begin, end)) {
      if (begin >= job.limit.load(std::memory_order_relaxed))
        continue;
      if (!callKernel(job, begin, end, scratch) && job.inOrder)
        break;
    }
    bool goesOn = !job.inOrder && !job.stopped.load(std::memory_order_relaxed);
    range = goesOn ? openRange(job, range) : -1;
  }
  --depth;
}

// The whole grid on this thread.
void workAlone(Job &job) {
  Range all;
  all.end = job.chunk = job.programs;
  job.ranges = &all;
  work(job, 0);
}

// A program waits. When no program has begun for a while although some are left, what it waits for
// may be one of them: one more thread goes and takes it. All that wait do so, so their number
// doubles each time.
void helpWhenStalled(Job &job, CallFrame &frame) {
  constexpr std::chrono::milliseconds patience{100};
  int64_t next = job.ranges[0].next.load(std::memory_order_relaxed);
  auto now = Clock::now();
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
    work(*static_cast<Job *>(argument), 0);
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

// What the programs of a kernel took in its launches on several threads, so that a launch takes no
// more threads than pay. A kernel may lose its entry to another; nothing depends on it but speed.
class Times {
public:
  /// Nanoseconds a program, in all threads' time; 0 when unknown.
  float of(KernelFn kernel) const {
    const Entry &entry = entries[place(kernel)];
    return entry.kernel.load(std::memory_order_relaxed) == kernel
               ? entry.time.load(std::memory_order_relaxed)
               : 0;
  }
  void add(KernelFn kernel, float time) {
    Entry &entry = entries[place(kernel)];
    float before = of(kernel);
    entry.kernel.store(kernel, std::memory_order_relaxed);
    entry.time.store(before > 0 ? before + (time - before) / 4 : time, std::memory_order_relaxed);
  }

private:
  struct Entry {
    std::atomic<KernelFn> kernel{nullptr};
    std::atomic<float> time{0};
  };
  static constexpr size_t size = 512;
  static size_t place(KernelFn kernel) {
    return (reinterpret_cast<uintptr_t>(kernel) * 0x9e3779b97f4a7c15) >> 55;
  }
  Entry entries[size];
};
Times times;

// The process's pool. Never destroyed at exit: its threads may still be parked then, and static
// destruction must not wait for them. After a fork the child has none of the threads, so it forgets
// the pool and starts anew.
struct Global {
  std::mutex launchMutex;      // one launch at a time owns the pool
  std::atomic<int> threads{0}; // 0: not decided yet
  Pool *pool = nullptr;
  Clock::time_point lastLaunch;    // its end
  std::unique_ptr<Range[]> ranges; // one for each thread of the pool
  std::unique_ptr<std::atomic<uint64_t>[]> open;
};
Global *makeGlobal();
std::atomic<Global *> globalState{nullptr};

Global &global() {
  if (Global *state = globalState.load(std::memory_order_acquire))
    return *state;
  return *makeGlobal();
}

// Keeps the memory of the parent's pools reachable in a forked child.
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
  return fresh;
}

/// From when the program starts: a fork may happen during the first launch of another thread.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, &forgetInChild);

int defaultThreads() {
  int64_t wish = configuredThreads();
  return wish > 0 ? int(std::min<int64_t>(wish, 4096)) : visibleCores();
}

// Small grids one by one, so that no thread is left with two; large ones in chunks that keep the
// counter's line quiet, sixteen for each thread.
int64_t chunkFor(int64_t programs, int threads) {
  return std::max<int64_t>(1, programs / (int64_t(threads) * 16));
}

// Divides the grid among `members` threads of the pool. Threads have the same programs in each
// launch of a grid, so that data of the launch before is still in their caches.
void divide(Job &job, Global &state, int members) {
  job.ranges = state.ranges.get();
  job.open = state.open.get();
  job.rangeCount = job.inOrder ? 1 : members;
  if (job.inOrder)
    job.chunk = chunkFor(job.programs, members);
  int64_t each = job.programs / job.rangeCount, more = job.programs % job.rangeCount, begin = 0;
  for (int i = 0; i < job.rangeCount; ++i) {
    job.ranges[i].next.store(begin, std::memory_order_relaxed);
    begin = job.ranges[i].end = begin + each + (i < more);
  }
  for (int word = 0; word * 64 < job.rangeCount; ++word) {
    int bits = std::min(64, job.rangeCount - word * 64);
    job.open[word].store(~uint64_t(0) >> (64 - bits), std::memory_order_relaxed);
  }
}

// How many threads pay for work of `nanoseconds` (0: unknown): each has to have more of it than it
// takes to bring it in, 1 µs, or 5 when it sleeps. Threads that sleep are woken for less where
// launches come one after the other, as they will be awake for the next.
int paying(double nanoseconds, const Global &state, int most) {
  auto of = [&](double grain) {
    return std::max(1, int(std::min<double>(most, nanoseconds / grain)));
  };
  if (nanoseconds <= 0)
    return most;
  int members = of(1000);
  if (members == 1 || !state.pool->sleeps(members) ||
      Clock::now() - state.lastLaunch < Pool::spinTime)
    return members;
  return of(5000);
}

// Every program its own thread. All of them are started before any may take a program, so a launch
// that cannot have its threads runs nothing.
LaunchStatus runCooperative(Job &job) {
  Range all;
  all.end = job.programs;
  job.ranges = &all;
  struct Gate {
    Job *job;
    std::atomic<uint32_t> state{0}; // 1: go, 2: give up
  } gate{&job};
  auto main = [](void *argument) -> void * {
    auto &gate = *static_cast<Gate *>(argument);
    while (gate.state.load() == 0)
      futexWait(gate.state, 0);
    if (gate.state.load() == 1)
      work(*gate.job, 0);
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
    work(job, 0);
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

namespace {

void makePool(Global &state) {
  state.pool = new Pool(threadCount());
  int size = state.pool->size();
  state.ranges.reset(new Range[size]);
  state.open.reset(new std::atomic<uint64_t>[(size + 63) / 64]);
}

// Runs the job on several threads of the pool, whose lock is held.
void runTogether(Job &job, Global &state, int members) {
  divide(job, state, members);
  for (int i = 0; i < members; ++i)
    job.ranges[i].busy = 0;
  auto main = [](void *argument, int member) {
    auto &job = *static_cast<Job *>(argument);
    auto begin = Clock::now();
    work(job, member);
    job.ranges[member].busy =
        std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
  };
  state.pool->launch(main, &job, members);
  joinHelpers(job);
}

} // namespace

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
    workAlone(job);
    return resultOf(job);
  }

  // Launches from several threads take turns. A short one does not wait for its turn.
  constexpr double shortLaunch = 20000;
  Global &state = global();
  bool independent = options.independent && !options.cooperative;
  double expected = double(times.of(kernel)) * double(programs);
  std::unique_lock lock(state.launchMutex, std::try_to_lock);
  if (!lock && expected > 0 && expected < shortLaunch && independent) {
    workAlone(job);
    return resultOf(job);
  }
  if (!lock)
    lock.lock();
  if (!state.pool)
    makePool(state);
  threads = std::min(threads, state.pool->size());
  if (options.cooperative && programs > threads) {
    // The pool got fewer threads than asked for.
    if (LaunchStatus status = runCooperative(job); status != LaunchStatus::Ok)
      return {status, {}};
    return resultOf(job);
  }
  int members = int(std::min<int64_t>(threads, programs));
  if (independent)
    members = paying(expected, state, members);
  double busy = 0;
  if (members == 1) {
    auto begin = Clock::now();
    workAlone(job);
    state.lastLaunch = Clock::now();
    busy = std::chrono::duration<double, std::nano>(state.lastLaunch - begin).count();
  } else {
    job.inOrder = !independent;
    runTogether(job, state, members);
    for (int i = 0; i < members; ++i)
      busy += job.ranges[i].busy;
    state.lastLaunch = Clock::now();
  }
  times.add(kernel, float(busy / double(programs)));
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
  if (job.inOrder)
    job.stopped.store(true, std::memory_order_release);
  int64_t limit = job.limit.load(std::memory_order_relaxed);
  while (program < limit &&
         !job.limit.compare_exchange_weak(limit, program, std::memory_order_relaxed)) {
  }
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
