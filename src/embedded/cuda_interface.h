// The interface of NVIDIA's driver library, as far as it is used: by the launcher of the library
// and by the run time of embedded kernels, each of which opens the driver itself.
//
// Only what is used is declared, by hand, from the published interface of the driver (CUDA Driver
// API, docs.nvidia.com/cuda/cuda-driver-api); names and numbers are part of its stable binary
// interface. CUDA 12.0 is the oldest that has all of it (libraries and kernels without a context,
// launches with attributes).
#pragma once

#include <cstddef>
#include <cstdint>

namespace nereid::cuda_driver {

using Result = int; ///< 0 is success
using Device = int;
using DevicePointer = unsigned long long;
using Context = struct ContextObject *;
using Stream = struct StreamObject *;
using Library = struct LibraryObject *;
using Event = struct EventObject *;
using Kernel = struct KernelObject *;
using Function = struct FunctionObject *;
using Module = struct ModuleObject *;

enum ResultCode : Result {
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
constexpr bool isSticky(Result result) {
  switch (result) {
  case ErrorIllegalAddress:
  case 702: // timeout
  case ErrorAssert:
  case 714: // hardware stack error
  case 715: // illegal instruction
  case 716: // misaligned address
  case 717: // invalid address space
  case 718: // invalid program counter
  case 719: // launch failure
    return true;
  default:
    return false;
  }
}

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
  FunctionLargeClusters = 14, ///< more than 8 blocks, which not every GPU has room for
};
constexpr int PreferShared = 1;    ///< cache configuration
constexpr int PortableCluster = 8; ///< blocks of a cluster that every GPU with clusters can run

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
  X(cuThreadExchangeStreamCaptureMode, (int *))                                                    \
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
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *, Function, int, size_t))                   \
  X(cuOccupancyMaxActiveClusters, (int *, Function, const LaunchConfig *))                         \
  X(cuMemAllocAsync, (DevicePointer *, size_t, Stream))                                            \
  X(cuMemFreeAsync, (DevicePointer, Stream))                                                       \
  X(cuTensorMapEncodeTiled, (void *, int, unsigned, void *, const uint64_t *, const uint64_t *,    \
                             const uint32_t *, const uint32_t *, int, int, int, int))              \
  X(cuLaunchKernel, (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,         \
                     unsigned, Stream, void **, void **))                                          \
  X(cuLaunchKernelEx, (const LaunchConfig *, Function, void **, void **))

/// And those for memory and streams.
#define NEREID_CUDA_MEMORY_FUNCTIONS(X)                                                            \
  X(cuDeviceTotalMem_v2, (size_t *, Device))                                                       \
  X(cuMemAlloc_v2, (DevicePointer *, size_t))                                                      \
  X(cuMemFree_v2, (DevicePointer))                                                                 \
  X(cuMemcpyAsync, (DevicePointer, DevicePointer, size_t, Stream))                                 \
  X(cuMemsetD8Async, (DevicePointer, unsigned char, size_t, Stream))                               \
  X(cuStreamCreate, (Stream *, unsigned))                                                          \
  X(cuStreamDestroy_v2, (Stream))                                                                  \
  X(cuStreamSynchronize, (Stream))

/// And those for measuring.
#define NEREID_CUDA_EVENT_FUNCTIONS(X)                                                             \
  X(cuEventCreate, (Event *, unsigned))                                                            \
  X(cuEventDestroy_v2, (Event))                                                                    \
  X(cuEventRecord, (Event, Stream))                                                                \
  X(cuEventElapsedTime, (float *, Event, Event))

/// The driver's CUtensorMap.
struct alignas(64) TensorMap {
  uint64_t words[16];
};
static_assert(sizeof(TensorMap) == 128);

// The driver's numbers for tensor maps.
enum Interleave : int { NoInterleave = 0 };
enum Swizzle : int { NoSwizzle = 0, Swizzle32 = 1, Swizzle64 = 2, Swizzle128 = 3 };
enum L2Promotion : int { PromoteTo256 = 3 };
enum Fill : int { FillZero = 0, FillNaN = 1 };

constexpr Swizzle swizzleOf(unsigned bytes) {
  return bytes == 128 ? Swizzle128 : bytes == 64 ? Swizzle64 : bytes == 32 ? Swizzle32 : NoSwizzle;
}

} // namespace nereid::cuda_driver
