// The executor: every program runs once, starts come in order, waits end, failures are the lowest
// program's.
#include "targets/cpu/executor/Executor.h"

#include "support/diagnostics.h"
#include "support/settings.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <gtest/gtest.h>
#include <random>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace nereid::cpu;

namespace {

struct CountArgs {
  std::vector<std::atomic<int>> *counts;
};
void countPrograms(const void *args, LaunchRecord *, int64_t begin, int64_t end, void *) {
  auto &counts = *static_cast<const CountArgs *>(args)->counts;
  for (int64_t p = begin; p < end; ++p)
    counts[p].fetch_add(1, std::memory_order_relaxed);
}

void expectAllOnce(int32_t x, int32_t y, int32_t z, LaunchOptions options = {}) {
  std::vector<std::atomic<int>> counts(int64_t(x) * y * z);
  CountArgs args{&counts};
  int32_t grid[3] = {x, y, z};
  ASSERT_TRUE(run(countPrograms, &args, grid, options));
  for (auto &count : counts)
    ASSERT_EQ(count.load(), 1);
}

class ExecutorTest : public testing::Test {
protected:
  void SetUp() override { setThreadCount(4); }
  void TearDown() override { setThreadCount(0); }
};

TEST_F(ExecutorTest, RunsEveryProgramOnce) {
  for (int32_t programs : {1, 2, 3, 5, 63, 64, 65, 1000, 100003})
    expectAllOnce(programs, 1, 1);
  expectAllOnce(11, 21, 31);
  for (int i = 0; i < 200; ++i)
    expectAllOnce(7, 1, 1);
}

TEST_F(ExecutorTest, HonoursTheThreadLimit) {
  static std::atomic<int> inside{0}, most{0};
  auto kernel = [](const void *, LaunchRecord *, int64_t begin, int64_t end, void *) {
    int now = ++inside;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    --inside;
  };
  int32_t grid[3] = {40, 1, 1};
  for (int limit : {1, 2, 3}) {
    most = 0;
    LaunchOptions options;
    options.threads = limit;
    ASSERT_TRUE(run(kernel, nullptr, grid, options));
    EXPECT_LE(most, limit);
  }
}

TEST_F(ExecutorTest, RefusesBadGridsAndRunsEmptyOnes) {
  auto never = [](const void *, LaunchRecord *, int64_t, int64_t, void *) { FAIL(); };
  int32_t empty[3] = {0, 5, 5}, negative[3] = {4, -1, 1},
          huge[3] = {INT32_MAX, INT32_MAX, INT32_MAX};
  EXPECT_EQ(run(never, nullptr, empty).status, LaunchStatus::Ok);
  EXPECT_EQ(run(never, nullptr, negative).status, LaunchStatus::BadGrid);
  EXPECT_EQ(run(never, nullptr, huge).status, LaunchStatus::BadGrid);
}

// Program p waits until p-1 is done: deadlocks unless starts are in increasing order.
struct ChainArgs {
  std::atomic<int64_t> *done;
};
void chain(const void *args, LaunchRecord *info, int64_t begin, int64_t end, void *) {
  auto &done = *static_cast<const ChainArgs *>(args)->done;
  for (int64_t p = begin; p < end; ++p) {
    while (done.load(std::memory_order_acquire) != p)
      nereid_cpu_spin(info);
    done.store(p + 1, std::memory_order_release);
  }
}
TEST_F(ExecutorTest, WaitingForALowerProgramMakesProgress) {
  std::atomic<int64_t> done{0};
  ChainArgs args{&done};
  int32_t grid[3] = {3000, 1, 1};
  ASSERT_TRUE(run(chain, &args, grid));
  EXPECT_EQ(done, 3000);
}

struct LockArgs {
  std::atomic<int> *lock;
  int64_t *sum; // guarded by the lock: a data race if it does not work
};
void addUnderLock(const void *args, LaunchRecord *info, int64_t begin, int64_t end, void *) {
  auto &lock = *static_cast<const LockArgs *>(args);
  for (int64_t p = begin; p < end; ++p) {
    int expected = 0;
    while (!lock.lock->compare_exchange_weak(expected, 1, std::memory_order_acquire)) {
      expected = 0;
      nereid_cpu_spin(info);
    }
    *lock.sum += p;
    lock.lock->store(0, std::memory_order_release);
  }
}
TEST_F(ExecutorTest, SpinLocksBetweenPrograms) {
  std::atomic<int> lock{0};
  int64_t sum = 0;
  LockArgs args{&lock, &sum};
  int32_t grid[3] = {20000, 1, 1};
  ASSERT_TRUE(run(addUnderLock, &args, grid));
  EXPECT_EQ(sum, int64_t(20000) * 19999 / 2);
}

// A barrier of all programs: needs a thread for each.
struct BarrierArgs {
  std::atomic<int64_t> *arrived;
  int64_t programs;
};
void barrier(const void *args, LaunchRecord *info, int64_t begin, int64_t end, void *) {
  auto &b = *static_cast<const BarrierArgs *>(args);
  ASSERT_EQ(end - begin, 1);
  b.arrived->fetch_add(1);
  while (b.arrived->load() < b.programs)
    nereid_cpu_spin(info);
}
TEST_F(ExecutorTest, CooperativeGivesEachProgramAThread) {
  for (int32_t programs : {1, 3, 4, 5, 64}) {
    std::atomic<int64_t> arrived{0};
    BarrierArgs args{&arrived, programs};
    int32_t grid[3] = {programs, 1, 1};
    LaunchOptions options;
    options.cooperative = true;
    ASSERT_TRUE(run(barrier, &args, grid, options));
    EXPECT_EQ(arrived, programs);
  }
}

TEST_F(ExecutorTest, ThreadsAreAddedWhenAllWait) {
  for (int32_t programs : {5, 64}) {
    std::atomic<int64_t> arrived{0};
    BarrierArgs args{&arrived, programs};
    int32_t grid[3] = {programs, 1, 1};
    ASSERT_TRUE(run(barrier, &args, grid));
    EXPECT_EQ(arrived, programs);
  }
}

TEST_F(ExecutorTest, CooperativeRefusesMoreThanTheLimit) {
  auto never = [](const void *, LaunchRecord *, int64_t, int64_t, void *) { FAIL(); };
  LaunchOptions options;
  options.cooperative = true;
  int32_t grid[3] = {int32_t(cooperativeLimit) + 1, 1, 1};
  EXPECT_EQ(run(never, nullptr, grid, options).status, LaunchStatus::TooManyPrograms);
}

struct FailArgs {
  int64_t from, step; // programs from, from + step, ... fail
};
void failSome(const void *args, LaunchRecord *info, int64_t begin, int64_t end, void *) {
  auto &fail = *static_cast<const FailArgs *>(args);
  for (int64_t p = begin; p < end; ++p)
    if (p >= fail.from && (p - fail.from) % fail.step == 0)
      nereid_cpu_fail(info, p, int32_t(FailureKind::Assert), 7, p * 2, 3, 4);
}
TEST_F(ExecutorTest, ReportsTheLowestFailingProgram) {
  for (int round = 0; round < 50; ++round)
    for (int32_t programs : {1, 40, 100000}) {
      FailArgs args{programs / 2, 3};
      int32_t grid[3] = {programs, 1, 1};
      LaunchResult result = run(failSome, &args, grid);
      ASSERT_EQ(result.status, LaunchStatus::ProgramFailed);
      EXPECT_EQ(result.failure.program, programs / 2);
      EXPECT_EQ(result.failure.kind, FailureKind::Assert);
      EXPECT_EQ(result.failure.site, 7);
      EXPECT_EQ(result.failure.details[0], programs / 2 * 2);
      EXPECT_EQ(result.failure.details[2], 4);
    }
  expectAllOnce(1000, 1, 1); // the pool is as good as new
}

// Program 0 fails; the others wait for it for ever.
void waitForever(const void *, LaunchRecord *info, int64_t begin, int64_t end, void *) {
  if (begin == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    nereid_cpu_fail(info, 0, int32_t(FailureKind::OutOfBounds), 1, 0, 0, 0);
  }
  while (true)
    nereid_cpu_spin(info);
}
TEST_F(ExecutorTest, AFailureEndsWaitingPrograms) {
  int32_t grid[3] = {4, 1, 1};
  LaunchOptions options;
  for (bool cooperative : {false, true}) {
    options.cooperative = cooperative;
    LaunchResult result = run(waitForever, nullptr, grid, options);
    EXPECT_EQ(result.failure.kind, FailureKind::OutOfBounds);
    EXPECT_EQ(result.failure.program, 0);
  }
}

LaunchOptions independent() {
  LaunchOptions options;
  options.independent = true;
  return options;
}

TEST_F(ExecutorTest, IndependentProgramsRunOnce) {
  for (int threads : {2, 3, 4, 70}) { // 70: more ranges than bits in a word
    setThreadCount(threads);
    for (int32_t programs : {1, 2, 3, 5, 63, 64, 65, 127, 1000, 100003})
      for (int i = 0; i < 20; ++i)
        expectAllOnce(programs, 1, 1, independent());
    expectAllOnce(11, 21, 31, independent());
  }
}

// Whoever is done takes programs of those who are behind: the first quarter sleeps.
TEST_F(ExecutorTest, IndependentProgramsOfASlowThreadAreTaken) {
  static std::atomic<int> together{0}, most{0};
  auto kernel = [](const void *, LaunchRecord *, int64_t begin, int64_t end, void *) {
    for (int64_t p = begin; p < end && p < 100; ++p) {
      int now = ++together;
      for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      --together;
    }
  };
  int32_t grid[3] = {400, 1, 1};
  most = 0;
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(run(kernel, nullptr, grid, independent()));
  EXPECT_GT(most, 1);
}

TEST_F(ExecutorTest, IndependentProgramsReportTheLowestFailure) {
  for (int round = 0; round < 50; ++round)
    for (int32_t programs : {1, 40, 100000})
      for (int64_t from : {0, programs / 7, programs / 2, programs - 1}) {
        FailArgs args{from, 3};
        int32_t grid[3] = {programs, 1, 1};
        LaunchResult result = run(failSome, &args, grid, independent());
        ASSERT_EQ(result.status, LaunchStatus::ProgramFailed);
        EXPECT_EQ(result.failure.program, from);
      }
  expectAllOnce(1000, 1, 1, independent());
}

TEST_F(ExecutorTest, IndependentLaunchesFromSeveralThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 200; ++i)
        expectAllOnce(1 + i * 7, 1, 1, independent());
    });
  for (auto &thread : threads)
    thread.join();
}

// Threads look for the next launch for a moment only.
TEST_F(ExecutorTest, IdleThreadsSleep) {
  for (int i = 0; i < 10; ++i)
    expectAllOnce(1000, 1, 1, independent());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::clock_t before = std::clock(); // of all threads of the process
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(double(std::clock() - before) / CLOCKS_PER_SEC, 0.02);
  expectAllOnce(1000, 1, 1); // and wake again
}

struct ScratchArgs {
  size_t bytes;
};
void useScratch(const void *args, LaunchRecord *, int64_t begin, int64_t end, void *scratch) {
  size_t bytes = static_cast<const ScratchArgs *>(args)->bytes;
  auto *data = static_cast<unsigned char *>(scratch);
  ASSERT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
  for (int64_t p = begin; p < end; ++p) {
    data[0] = (unsigned char)p;
    data[bytes - 1] = (unsigned char)(p + 1);
    ASSERT_EQ(data[0], (unsigned char)p);
  }
}
TEST_F(ExecutorTest, ScratchIsAlignedAndAsLargeAsAsked) {
  for (size_t bytes : {size_t(2), size_t(4097), size_t(1) << 20}) {
    ScratchArgs args{bytes};
    LaunchOptions options;
    options.scratchBytes = bytes;
    int32_t grid[3] = {100, 1, 1};
    ASSERT_TRUE(run(useScratch, &args, grid, options));
  }
  LaunchOptions options;
  options.scratchBytes = SIZE_MAX / 2;
  int32_t grid[3] = {1, 1, 1};
  auto never = [](const void *, LaunchRecord *, int64_t, int64_t, void *) { FAIL(); };
#if !__has_feature(address_sanitizer) &&                                                           \
    !__has_feature(thread_sanitizer) // these abort instead of refusing
  EXPECT_EQ(run(never, nullptr, grid, options).status, LaunchStatus::NoMemory);
#endif
}

// Each outer program launches an inner grid that fails; the outer scratch must survive.
struct NestedArgs {
  std::atomic<int> *innerFailures;
};
void launchInside(const void *args, LaunchRecord *, int64_t begin, int64_t end, void *scratch) {
  for (int64_t p = begin; p < end; ++p) {
    *static_cast<int64_t *>(scratch) = p;
    ScratchArgs inner{64};
    LaunchOptions options;
    options.scratchBytes = 64;
    int32_t grid[3] = {10, 1, 1};
    ASSERT_TRUE(run(useScratch, &inner, grid, options));
    FailArgs fail{3, 100};
    if (run(failSome, &fail, grid).failure.program == 3)
      static_cast<const NestedArgs *>(args)->innerFailures->fetch_add(1);
    ASSERT_EQ(*static_cast<int64_t *>(scratch), p);
  }
}
TEST_F(ExecutorTest, NestedLaunches) {
  std::atomic<int> innerFailures{0};
  NestedArgs args{&innerFailures};
  LaunchOptions options;
  options.scratchBytes = 64;
  int32_t grid[3] = {50, 1, 1};
  ASSERT_TRUE(run(launchInside, &args, grid, options));
  EXPECT_EQ(innerFailures, 50);
}

TEST_F(ExecutorTest, LaunchesFromSeveralThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 50; ++i)
        expectAllOnce(1 + i * 7, 1, 1);
    });
  for (auto &thread : threads)
    thread.join();
}

#if !__has_feature(thread_sanitizer) // which does not follow threads started after a fork
TEST_F(ExecutorTest, AForkedChildBuildsItsOwnPool) {
  expectAllOnce(100, 1, 1);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::vector<std::atomic<int>> counts(1000);
    CountArgs args{&counts};
    int32_t grid[3] = {1000, 1, 1};
    bool good = bool(run(countPrograms, &args, grid)) && threadCount() == 4;
    for (auto &count : counts)
      good &= count == 1;
    _exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  expectAllOnce(100, 1, 1);
}

/// Of a process of its own: other threads make their first launches while this one forks.
TEST(FirstLaunch, DISABLED_WhileAnotherThreadForks) {
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      ++ready;
      while (ready < 4) {
      }
      for (int i = 0; i < 20; ++i)
        expectAllOnce(100, 1, 1);
    });
  while (ready < 3) {
  }
  ++ready;
  std::this_thread::sleep_for(std::chrono::microseconds(std::random_device()() % 400));
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    LaunchOptions options;
    options.independent = false; // waits for its turn
    expectAllOnce(1000, 1, 1, options);
    _exit(testing::Test::HasFailure());
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(FirstLaunch, MayBeMadeWhileAnotherThreadForks) {
  for (int round = 0; round < 100; ++round) {
    pid_t process = fork();
    ASSERT_GE(process, 0);
    if (process == 0) {
      setenv("NEREID_CPU_THREADS", "4", 1);
      execl("/proc/self/exe", "executor", "--gtest_filter=FirstLaunch.DISABLED*",
            "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr);
      _exit(2);
    }
    int status = 0;
    ASSERT_EQ(waitpid(process, &status, 0), process);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "round " << round;
  }
}
#endif

TEST_F(ExecutorTest, ThreadCountComesFromTheSettings) {
  auto countWith = [](const char *value) {
    setenv("NEREID_CPU_THREADS", value, 1);
    nereid::DiagnosticEngine diagnostics;
    nereid::Settings::reload(diagnostics);
    setThreadCount(0);
    return threadCount();
  };
  EXPECT_EQ(countWith("3"), 3);
  for (const char *none : {"0", "-2", "x"})
    EXPECT_EQ(countWith(none), visibleCores()) << none;
  unsetenv("NEREID_CPU_THREADS");
  nereid::DiagnosticEngine diagnostics;
  nereid::Settings::reload(diagnostics);
  EXPECT_GE(visibleCores(), 1);
  EXPECT_LE(visibleCores(), int(std::thread::hardware_concurrency()));
}

// Not a judgement of speed, which belongs to a quiet machine: prints what a launch costs.
TEST_F(ExecutorTest, LaunchOverheadIsReported) {
  auto empty = [](const void *, LaunchRecord *, int64_t, int64_t, void *) {};
  setThreadCount(2);
  for (bool inAnyOrder : {false, true})
    for (int32_t programs : {1, 2, 64}) {
      LaunchOptions options;
      options.independent = inAnyOrder;
      int32_t grid[3] = {programs, 1, 1};
      ASSERT_TRUE(run(empty, nullptr, grid, options));
      auto start = std::chrono::steady_clock::now();
      constexpr int rounds = 20000;
      for (int i = 0; i < rounds; ++i)
        ASSERT_TRUE(run(empty, nullptr, grid, options));
      std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
      std::printf("launch of %d empty programs%s: %.0f ns\n", programs,
                  inAnyOrder ? " in any order" : "", time.count() / rounds);
    }
}

} // namespace
