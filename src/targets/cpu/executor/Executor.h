// Runs a compiled kernel over its grid on a persistent pool of threads. Plain C++, no MLIR.
//
// Programs are handed out as contiguous chunks of linear numbers from one counter, so they START IN
// INCREASING ORDER: a program that waits for a lower-numbered one always makes progress, whatever
// the number of threads (induction: the lowest unfinished program never waits). Programs that
// wait for higher-numbered ones want `cooperative`, which gives each program a thread of its own;
// without it, threads are added when all that run wait while programs are left, which helps as long
// as a chunk is one program (grids of up to 31 programs a thread).
//
// Programs that never wait for others are `independent`: every thread has a part of the grid of its
// own, the same in each launch of that grid, so that its caches keep the data; a thread that has
// finished its part takes programs of others. They start in no order.
//
// The launching thread takes part. A launch of one program, or with one thread, or from inside a
// running kernel, runs on the calling thread alone and touches no shared state. A launch takes no
// more threads than pay, by the time that programs of this kernel took before. Launches from
// several threads take turns; a short one runs on its own thread instead of waiting.
//
// Failure: a program that fails ends its chunk; no program of a higher number begins after it, and
// programs of lower numbers run to their end. So the failure reported is the lowest failing
// program's, the same in every run, unless programs wait for one another.
#pragma once
#include "kernel_abi/cpu.h"

#include <string>

namespace nereid::cpu {

// Where device_print goes; called with whole lines, by one thread at a time. Null: standard output.
struct PrintSink {
  void (*write)(void *user, const char *text, size_t length) = nullptr;
  void *user = nullptr;
};

struct LaunchOptions {
  int threads = 0; // at most this many, the caller included; 0: the pool's size
  bool cooperative = false;
  bool independent = false; // no program waits for another
  size_t scratchBytes = 0;  // for each thread, 64-byte aligned
  const SiteTable *sites = nullptr;
  PrintSink print;
};

enum class LaunchStatus { Ok, ProgramFailed, BadGrid, TooManyPrograms, NoThreads, NoMemory };

struct LaunchResult {
  LaunchStatus status = LaunchStatus::Ok;
  Failure failure; // for ProgramFailed
  explicit operator bool() const { return status == LaunchStatus::Ok; }
};

// The most programs of a cooperative launch.
constexpr int64_t cooperativeLimit = 4096;

// A grid with a zero runs nothing and is Ok; a negative dimension, or more than 2^62 programs, is
// BadGrid.
LaunchResult run(KernelFn kernel, const void *args, const int32_t grid[3],
                 const LaunchOptions &options = {});

// The size of the pool, the launching thread included. The first use takes `configuredThreads()`,
// else `visibleCores()`. Setting waits for a running launch (so never from inside a kernel); 0
// returns to the default.
int threadCount();
void setThreadCount(int threads);

// The threads that were asked for, 0 for none in particular. Defined by whoever links the executor:
// the library reads its setting (ConfiguredThreads.cpp), embedded kernels the environment.
int64_t configuredThreads();

// Cores this process may use: its affinity mask, and the CPU quota of its control group rounded up.
// At least 1.
int visibleCores();

// For the support library: where the launch of `info` prints.
void writeToPrintSink(LaunchRecord *info, const std::string &text);

} // namespace nereid::cpu
