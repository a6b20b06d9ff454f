// What generated CPU code and the code that runs it agree on: the kernel's signature, the launch
// record it may read, and the functions it may call. Plain C layout; the offsets below are what the
// code generator addresses.
//
// A kernel function executes the programs [begin, end) of a launch, in increasing order, where a
// program's linear number is x + grid[0] * (y + grid[1] * z). `args` points to the packed kernel
// arguments, in an order and with offsets that the code generator chooses; `scratch` to the
// worker's own buffer (kernel's stated size, 64-byte aligned, contents undefined).
//
// A failing program calls `nereid_cpu_fail`, which does not return: control goes back to the
// executor over the kernel's frame, so generated code must own nothing that needs releasing. Loops
// that wait for another program (volatile loads, atomics) call `nereid_cpu_spin` once an iteration,
// so that they end when the launch is stopped.
#pragma once
#include <cstddef>
#include <cstdint>

namespace nereid::cpu {

struct SiteTable;

struct LaunchRecord {
  int32_t grid[3];
  int32_t reserved;
  // The texts and source places that calls of the support library refer to by number; may be null.
  const SiteTable *sites;
  // The executor's own.
  void *launch;
};
static_assert(offsetof(LaunchRecord, grid) == 0 && offsetof(LaunchRecord, sites) == 16);

using KernelFn = void (*)(const void *args, LaunchRecord *info, int64_t begin, int64_t end,
                          void *scratch);

// Why a program stopped its launch. `details` of the failure mean:
enum class FailureKind : int32_t {
  None = 0,
  Assert,      // {lane of the block that failed, 0, 0}
  OutOfBounds, // {lane, byte offset from the argument's start, argument number or -1}
  Overflow,    // {lane, 0, 0}: signed overflow in the arithmetic of offsets
  PoisonUse,   // {lane, 0, 0}: a lane that was masked off without `other` reached a result
};

struct Failure {
  FailureKind kind = FailureKind::None;
  int32_t site = -1;    // index into the kernel's SiteTable
  int64_t program = -1; // linear number
  int64_t details[3] = {0, 0, 0};
};

} // namespace nereid::cpu

// The functions generated code may call; `support_library/SupportLibrary.h` lists them for the JIT
// by name.
extern "C" {
// Records the failure (the lowest program wins) and leaves the kernel function. Never returns.
[[noreturn]] void nereid_cpu_fail(nereid::cpu::LaunchRecord *info, int64_t program, int32_t kind,
                                  int32_t site, int64_t detail0, int64_t detail1, int64_t detail2);
// One turn of a waiting loop: relaxes the core, gives it away now and then, and leaves the kernel
// function when another program has failed.
void nereid_cpu_spin(nereid::cpu::LaunchRecord *info);
// Prints operand `operand` of print site `site`; `data` holds its elements contiguously, row-major
// (i1 as a byte).
void nereid_cpu_print(nereid::cpu::LaunchRecord *info, int64_t program, int32_t site,
                      int32_t operand, const void *data);
}
