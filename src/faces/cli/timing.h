// Measuring a compiled kernel with arguments from the command line.
#pragma once
#include "faces/cli/arguments.h"
#include "faces/cli/report.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace nereid::cli {

/// Options of commands that measure.
#define NEREID_CLI_TIMING_OPTIONS                                                                  \
  {"--cache", "STATE", "caches before each run: cold (default on a GPU) or warm (on the CPU)",     \
   "cold warm"},                                                                                   \
      {"--warmup", "MS", "run it for so long before measuring (default: 25)"},                     \
      {"--duration", "MS", "measure for about so long (default: 100)"}

struct TimingPlan {
  double warmup = 25, duration = 100; ///< ms
  bool cold = false;
};

/// Runs `work`, which measures kernels, and returns the exit status of the command. With `apart`
/// (for the CPU, where a kernel that writes outside of its tensors overwrites anything) in a
/// process of its own: when a fault of the kernel ends that, this one is unharmed, says so and what
/// to do, and the status is 1.
int reportingFaults(bool apart, llvm::function_ref<int()> work);

/// From here on `configuration` is measured: the one that such a report names.
void nameMeasured(const std::string &configuration);

/// Launches the kernel again and again; nothing when it has printed, or put into `problem` when
/// that is not null, what went wrong.
std::optional<Measured> measureKernel(nrd_kernel *kernel, const LaunchMemory &memory,
                                      const std::array<uint32_t, 3> &grid, const TimingPlan &plan,
                                      bool gpu, std::string *problem = nullptr);

/// `--warmup`, `--duration`, `--cache`; false when it has reported what is wrong. `gpu` decides
/// about caches: cold on a GPU, warm on the CPU, as triton.testing.do_bench.
bool readTimingPlan(const Arguments &parsed, bool gpu, TimingPlan &plan,
                    DiagnosticEngine &diagnostics);

} // namespace nereid::cli
