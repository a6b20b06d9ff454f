// NVIDIA's driver library, opened at run time: one binary serves machines with and without a GPU.
//
// Only what is used is declared, by hand, from the published interface of the driver (CUDA Driver
// API, docs.nvidia.com/cuda/cuda-driver-api); names and numbers are part of its stable binary
// interface. CUDA 12.0 is the oldest that has all of it (libraries and kernels without a context,
// launches with attributes).
#pragma once

#include "runtime/error.h"

#include <cstddef>
#include <cstdint>

namespace nereid::runtime::cuda {

using Result = int; ///< 0 is success
using Device = int;
using DevicePointer = unsigned long long;
using Context = struct ContextObject *;
using Stream = struct StreamObject *;
using Library = struct LibraryObject *;
using Kernel = struct KernelObject *;
using Function = struct FunctionObject *;
using Module = struct ModuleObject *;

enum : Result {
  Success = 0,
  ErrorInvalidValue = 1,
  ErrorOutOfMemory = 2,
  ErrorNotInitialized = 3,
  ErrorDeinitialized = 4,
  ErrorNoDevice = 100,
  ErrorInvalidImage = 200,
  ErrorInvalidContext = 201,
  ErrorNoBinaryForGpu = 209,
  ErrorIllegalAddress = 700,
  ErrorLaunchOutOfResources = 701,
  ErrorAssert = 710,
  ErrorCooperativeTooLarge = 720,
};

/// After such an error the context is lost: every later call gives the same.
bool isSticky(Result result);

enum DeviceAttribute : int {
  MaxThreadsPerBlock = 1,
  MaxGridX = 5,
  WarpSize = 10,
  MaxRegistersPerBlock = 12,
  ClockRate = 13,
  MultiprocessorCount = 16,
  MemoryClockRate = 36,
  MemoryBusWidth = 37,
  L2CacheSize = 38,
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76,
  MaxSharedPerMultiprocessor = 81,
  MaxSharedPerBlockOptin = 97,
};

enum FunctionAttribute : int {
  FunctionMaxThreads = 0,
  FunctionSharedBytes = 1,
  FunctionLocalBytes = 3,
  FunctionRegisters = 4,
  FunctionMaxDynamicShared = 8,
};
constexpr int PreferShared = 1; ///< cache configuration

enum PointerAttribute : int {
  PointerMemoryType = 2,
  PointerDevicePointer = 3,
  PointerDeviceOrdinal = 9
};
enum MemoryType : unsigned { MemoryHost = 1, MemoryDevice = 2 };

struct LaunchAttribute {
  enum Kind : int { Cooperative = 2, ClusterDimension = 4, ProgrammaticSerialization = 6 };
  int kind;
  int padding;
  union {
    int flag;
    unsigned cluster[3];
    char bytes[64];
  };
};
static_assert(sizeof(LaunchAttribute) == 72);

struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned sharedBytes;
  Stream stream;
  LaunchAttribute *attributes;
  unsigned attributeCount;
};
static_assert(offsetof(LaunchConfig, stream) == 32 && sizeof(LaunchConfig) == 56);

/// The functions of the driver that are used, by their exported names.
#define NEREID_CUDA_FUNCTIONS(X)                                                                   \
  X(cuInit, (unsigned))                                                                            \
  X(cuDriverGetVersion, (int *))                                                                   \
  X(cuGetErrorName, (Result, const char **))                                                       \
  X(cuGetErrorString, (Result, const char **))                                                     \
  X(cuDeviceGetCount, (int *))                                                                     \
  X(cuDeviceGet, (Device *, int))                                                                  \
  X(cuDeviceGetName, (char *, int, Device))                                                        \
  X(cuDeviceGetAttribute, (int *, int, Device))                                                    \
  X(cuDevicePrimaryCtxRetain, (Context *, Device))                                                 \
  X(cuCtxGetDevice, (Device *))                                                                    \
  X(cuCtxGetCurrent, (Context *))                                                                  \
  X(cuCtxSetCurrent, (Context))                                                                    \
  X(cuCtxPushCurrent_v2, (Context))                                                                \
  X(cuCtxPopCurrent_v2, (Context *))                                                               \
  X(cuCtxSynchronize, ())                                                                          \
  X(cuPointerGetAttribute, (void *, int, DevicePointer))                                           \
  X(cuLibraryLoadData,                                                                             \
    (Library *, const void *, int *, void **, unsigned, int *, void **, unsigned))                 \
  X(cuLibraryUnload, (Library))                                                                    \
  X(cuLibraryGetKernel, (Kernel *, Library, const char *))                                         \
  X(cuLibraryGetModule, (Module *, Library))                                                       \
  X(cuKernelGetFunction, (Function *, Kernel))                                                     \
  X(cuKernelGetAttribute, (int *, int, Kernel, Device))                                            \
  X(cuKernelSetAttribute, (int, int, Kernel, Device))                                              \
  X(cuKernelSetCacheConfig, (Kernel, int, Device))                                                 \
  X(cuMemAllocAsync, (DevicePointer *, size_t, Stream))                                            \
  X(cuMemFreeAsync, (DevicePointer, Stream))                                                       \
  X(cuTensorMapEncodeTiled, (void *, int, unsigned, void *, const uint64_t *, const uint64_t *,    \
                             const uint32_t *, const uint32_t *, int, int, int, int))              \
  X(cuLaunchKernel, (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,         \
                     unsigned, Stream, void **, void **))                                          \
  X(cuLaunchKernelEx, (const LaunchConfig *, Function, void **, void **))

struct Driver {
#define NEREID_DECLARE(Name, Params) Result(*Name) Params = nullptr;
  NEREID_CUDA_FUNCTIONS(NEREID_DECLARE)
#undef NEREID_DECLARE

  int version = 0;     ///< 12040 for CUDA 12.4
  int deviceCount = 0; ///< at least 1

  /// The driver, opened and initialised once; an error says which part is missing.
  static ErrorPtr get(const Driver *&out);
  /// The same without words: null when no GPU can be used.
  static const Driver *tryGet();
  /// The driver for questions about devices that `remember` holds the answers to. They can be asked
  /// in a process, too, that was forked from one in which CUDA was in use (by anyone), where the
  /// driver itself refuses every call; PyTorch compiles kernels in such processes. `get` is an
  /// error there, and `tryGet` null.
  static ErrorPtr known(const Driver *&out);
  static const Driver *tryKnown();

  /// "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered".
  std::string describe(Result result) const;
};

/// Asks the driver all that is ever asked about the devices; before a process forks.
void remember(const Driver &driver);

} // namespace nereid::runtime::cuda
