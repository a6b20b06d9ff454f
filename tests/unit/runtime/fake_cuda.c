/* A stand-in for NVIDIA's driver library: three devices (two sm_90, one sm_80) that run nothing. It
 * writes down what it is asked, keeps each thread's context as the driver does, and fails where a
 * test wants it to. Built as a shared library that NEREID_LIBCUDA points to. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

enum { devices = 3 };
static char record[1 << 18];
static size_t recordUsed = 0;
static pthread_mutex_t recordMutex = PTHREAD_MUTEX_INITIALIZER;
static int paramCount = 0;
static struct {
  char name[64];
  int code;
} failure;
static int staticShared = 0, localBytes = 0, maxThreads = 1024, clustersThatFit = 16;
/* As if a stream were captured all the time: loading is refused but in the relaxed mode. */
static _Thread_local int captureMode = 0;
#define CHECK_CAPTURE                                                                              \
  if (captureMode != 2)                                                                            \
  return 900
static _Thread_local int stack[16], depth = 0; /* contexts, as 1 + device */
static uint64_t deviceMemory, pinnedMemory, peerMemory;

/* ---- what tests use ---- */
API const char *fake_record(void) {
  return record;
}
API void fake_reset(void) {
  record[0] = 0;
  recordUsed = 0;
  failure.name[0] = 0;
  paramCount = staticShared = localBytes = 0;
  maxThreads = 1024;
  clustersThatFit = 16;
  deviceMemory = pinnedMemory = peerMemory = 0;
}
/* How many parameters the next launches have. */
API void fake_params(int count) {
  paramCount = count;
}
/* Makes every call of a function fail with this code; 0 to stop. */
API void fake_fail(const char *name, int code) {
  snprintf(failure.name, sizeof failure.name, "%s", code ? name : "");
  failure.code = code;
}
/* The first byte of the maps that are made from now on that is not zero; what is recorded of a
   launch's last parameter begins there. */
static unsigned mapStart;
API void fake_map_start(unsigned first) {
  mapStart = first;
}
API void fake_kernel(int shared, int local, int threads) {
  staticShared = shared;
  localBytes = local;
  maxThreads = threads;
}
/* How many clusters the device runs at the same time. */
API void fake_clusters(int count) {
  clustersThatFit = count;
}
/* Addresses that are memory of device 1, and pinned memory of the host. */
API void fake_memory(uint64_t device, uint64_t pinned) {
  deviceMemory = device;
  pinnedMemory = pinned;
}
/* An address that every device reaches. */
API void fake_peer(uint64_t address) {
  peerMemory = address;
}
API void fake_leave_contexts(void) {
  depth = 0;
}

/* What launches take, by the first number of their grid: milliseconds, and how many of the first
 * take ten times as long. */
static double clockNow = 0, eventTimes[1024];
static int events = 0;
static struct {
  unsigned grid;
  float milliseconds;
  int cold, launches;
} cost[16];
static int costs = 0;
API void fake_cost(unsigned grid, float milliseconds, int cold) {
  cost[costs].grid = grid;
  cost[costs].milliseconds = milliseconds;
  cost[costs].cold = cold;
  cost[costs++].launches = 0;
}
API void fake_no_costs(void) {
  costs = 0;
}
API int fake_launches(unsigned grid) {
  for (int i = 0; i < costs; ++i)
    if (cost[i].grid == grid)
      return cost[i].launches;
  return 0;
}

static int quiet = 0;
/* Uses as much code and data as fills the first caches, so that a launch finds nothing of its
 * caller's there, as after the real driver. */
static void evict(void) {
  enum { size = 1 << 17, line = 64 };
  static char *code, *data;
  static volatile unsigned long sum;
  if (!code) {
    code =
        mmap(0, 2 * size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED)
      abort();
    data = code + size;
    memset(code, 0xc3, size); /* returns, on x86-64 */
  }
  for (int i = 0; i < size; i += line) {
    ((void (*)(void))(code + i))();
    sum += data[i];
  }
}
/* Nothing is written down any more, where only the caller's own cost counts. */
API void fake_quiet(int on) {
  quiet = on;
}
static void note(const char *format, ...) {
  if (quiet)
    return;
  __builtin_va_list list;
  __builtin_va_start(list, format);
  pthread_mutex_lock(&recordMutex);
  recordUsed += (size_t)vsnprintf(record + recordUsed, sizeof record - recordUsed, format, list);
  if (recordUsed >= sizeof record)
    recordUsed = sizeof record - 1;
  pthread_mutex_unlock(&recordMutex);
  __builtin_va_end(list);
}
#define CHECK_FAILURE                                                                              \
  if (strcmp(failure.name, __func__) == 0)                                                         \
  return failure.code

static int current(void) {
  return depth ? stack[depth - 1] - 1 : -1;
}

/* ---- the driver ---- */
static int owner = 0; /* the process that initialised; one forked from it can do nothing */
#define CHECK_OWNER                                                                                \
  if (owner != getpid())                                                                           \
  return 3
API int cuInit(unsigned flags) {
  const char *code = getenv("FAKE_CUDA_INIT");
  if (owner && owner != getpid())
    return 3;
  owner = getpid();
  return code ? atoi(code) : 0;
}
API int cuDriverGetVersion(int *version) {
  *version = 13000;
  return 0;
}
API int cuGetErrorName(int code, const char **out) {
  *out = code == 100   ? "CUDA_ERROR_NO_DEVICE"
         : code == 200 ? "CUDA_ERROR_INVALID_IMAGE"
         : code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
         : code == 710 ? "CUDA_ERROR_ASSERT"
                       : "CUDA_ERROR_OTHER";
  return 0;
}
API int cuGetErrorString(int code, const char **out) {
  *out = code == 700 ? "an illegal memory access was encountered" : "words of the driver";
  return 0;
}
API int cuDeviceGetCount(int *count) {
  CHECK_OWNER;
  const char *number = getenv("FAKE_CUDA_DEVICES");
  *count = number ? atoi(number) : devices;
  return 0;
}
API int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return 0;
}
API int cuDeviceGetName(char *name, int size, int device) {
  snprintf(name, size, "Fake GPU %d", device);
  return 0;
}
API int cuDeviceGetAttribute(int *value, int attribute, int device) {
  CHECK_OWNER;
  switch (attribute) {
  case 75:
    *value = device == 2 ? 8 : 9;
    break;
  case 5:
    *value = 2147483647;
    break;
  case 6:
  case 7:
    *value = 65535;
    break;
  case 10:
    *value = 32;
    break;
  case 16:
    *value = 132;
    break;
  case 97:
    *value = 232448;
    break;
  default:
    *value = 0;
  }
  return 0;
}
API int cuDevicePrimaryCtxRetain(void **context, int device) {
  CHECK_FAILURE;
  note("retain %d\n", device);
  *context = (void *)(intptr_t)(device + 1);
  return 0;
}
API int cuCtxGetDevice(int *device) {
  if (!depth)
    return 201;
  *device = current();
  return 0;
}
API int cuCtxGetCurrent(void **context) {
  *context = (void *)(intptr_t)(current() + 1);
  return 0;
}
API int cuThreadExchangeStreamCaptureMode(int *mode) {
  int before = captureMode;
  captureMode = *mode;
  *mode = before;
  return 0;
}
API int cuCtxSetCurrent(void *context) {
  note("set current %d\n", (int)(intptr_t)context - 1);
  if (!depth)
    depth = 1;
  stack[depth - 1] = (int)(intptr_t)context;
  return 0;
}
API int cuCtxPushCurrent_v2(void *context) {
  note("push %d\n", (int)(intptr_t)context - 1);
  stack[depth++] = (int)(intptr_t)context;
  return 0;
}
API int cuCtxPopCurrent_v2(void **context) {
  note("pop %d\n", current());
  *context = (void *)(intptr_t)stack[--depth];
  return 0;
}
API int cuCtxSynchronize(void) {
  CHECK_FAILURE;
  note("synchronize %d\n", current());
  return 0;
}
API int cuPointerGetAttribute(void *out, int attribute, uint64_t address) {
  CHECK_OWNER;
  if (attribute == 3 && address && address == peerMemory) {
    *(uint64_t *)out = address;
    return 0;
  }
  if (!address || (address != deviceMemory && address != pinnedMemory))
    return 1;
  if (attribute == 2)
    *(unsigned *)out = address == deviceMemory ? 2 : 1;
  else if (attribute == 3)
    *(uint64_t *)out = address == pinnedMemory ? address + 4096 : address;
  else
    *(int *)out = 1;
  return 0;
}
API int cuLibraryLoadData(void **library, const void *image, int *a, void **b, unsigned c, int *d,
                          void **e, unsigned f) {
  CHECK_CAPTURE;
  CHECK_FAILURE;
  note("load %.12s\n", (const char *)image);
  *library = (void *)0x1000;
  return 0;
}
API int cuLibraryUnload(void *library) {
  CHECK_CAPTURE;
  note("unload\n");
  return 0;
}
API int cuLibraryGetKernel(void **kernel, void *library, const char *name) {
  CHECK_FAILURE;
  note("kernel %s\n", name);
  *kernel = (void *)0x2000;
  return 0;
}
API int cuLibraryGetModule(void **module, void *library) {
  *module = (void *)0x3000;
  return 0;
}
API int cuKernelGetFunction(void **function, void *kernel) {
  CHECK_CAPTURE;
  *function = (void *)(intptr_t)(0x4000 + current());
  return 0;
}
API int cuKernelGetAttribute(int *value, int attribute, void *kernel, int device) {
  CHECK_FAILURE;
  *value = attribute == 0   ? maxThreads
           : attribute == 1 ? staticShared
           : attribute == 3 ? localBytes
                            : 40;
  return 0;
}
API int cuKernelSetAttribute(int attribute, int value, void *kernel, int device) {
  CHECK_FAILURE;
  note("attribute %d=%d on %d\n", attribute, value, device);
  return 0;
}
API int cuKernelSetCacheConfig(void *kernel, int config, int device) {
  return 0;
}
/* As if three blocks of 128 threads without shared memory fit on a multiprocessor, and 16 clusters
 * on the device. */
API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads,
                                                    size_t shared) {
  CHECK_FAILURE;
  note("blocks of %d threads with %zu bytes\n", threads, shared);
  *blocks = shared ? 1 : 384 / threads;
  return 0;
}
struct Config;
API int cuOccupancyMaxActiveClusters(int *clusters, void *function, const struct Config *config) {
  CHECK_FAILURE;
  note("clusters\n");
  *clusters = clustersThatFit;
  return 0;
}
API int cuMemAllocAsync(uint64_t *address, size_t size, void *stream) {
  CHECK_FAILURE;
  note("allocate %zu\n", size);
  *address = 0xabc000;
  return 0;
}
API int cuMemFreeAsync(uint64_t address, void *stream) {
  note("free\n");
  return 0;
}

struct Attribute {
  int kind, padding;
  unsigned value[16];
};
struct Config {
  unsigned grid[3], block[3], shared;
  void *stream;
  struct Attribute *attributes;
  unsigned attributeCount;
};
API int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *address,
                               const uint64_t *sizes, const uint64_t *strides, const uint32_t *box,
                               const uint32_t *steps, int interleave, int swizzle, int promotion,
                               int fill) {
  CHECK_FAILURE;
  note("map of type %d at %p:", type, address);
  for (unsigned i = 0; i < rank; ++i)
    note(" %llu/%u", (unsigned long long)sizes[i], box[i]);
  for (unsigned i = 0; i + 1 < rank; ++i)
    note(" stride %llu", (unsigned long long)strides[i]);
  note(" swizzle %d fill %d\n", swizzle, fill);
  memset(map, 0, mapStart);
  memset((char *)map + mapStart, 0x5a, 128 - mapStart);
  return 0;
}
API int cuLaunchKernelEx(const struct Config *config, void *function, void **params, void **extra);
API int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                       unsigned by, unsigned bz, unsigned shared, void *stream, void **params,
                       void **extra) {
  CHECK_FAILURE;
  struct Config config = {{gx, gy, gz}, {bx, by, bz}, shared, stream, 0, 0};
  return cuLaunchKernelEx(&config, function, params, extra);
}
API int cuLaunchKernelEx(const struct Config *config, void *function, void **params, void **extra) {
  CHECK_FAILURE;
  if (function != (void *)0x2000 && function != (void *)(intptr_t)(0x4000 + current()))
    return 400; /* neither the kernel nor its function in this context */
  for (int i = 0; i < costs; ++i)
    if (cost[i].grid == config->grid[0])
      clockNow += cost[i].milliseconds * (cost[i].launches++ < cost[i].cold ? 10 : 1);
  if (quiet == 2)
    evict();
  if (quiet)
    return 0;
  char text[1024];
  int used =
      snprintf(text, sizeof text, "launch on %d grid %u,%u,%u block %u,%u,%u shared %u stream %p",
               current(), config->grid[0], config->grid[1], config->grid[2], config->block[0],
               config->block[1], config->block[2], config->shared, config->stream);
  for (unsigned i = 0; i < config->attributeCount; ++i)
    used += snprintf(text + used, sizeof text - used, " attribute %d=%u",
                     config->attributes[i].kind, config->attributes[i].value[0]);
  used += snprintf(text + used, sizeof text - used, " params");
  for (int i = 0; i < paramCount; ++i) {
    uint64_t value;
    memcpy(&value, (char *)params[i] + (i + 1 == paramCount ? mapStart : 0), 8);
    used += snprintf(text + used, sizeof text - used, " %llx", (unsigned long long)value);
  }
  note("%s\n", text);
  return 0;
}

/* ---- events: a clock that each of them moves by a millisecond, or launches with a known cost ----
 */
API int cuEventCreate(void **event, unsigned flags) {
  CHECK_FAILURE;
  *event = &eventTimes[events++ % 1024];
  return 0;
}
API int cuEventDestroy_v2(void *event) {
  note("destroy event\n");
  return 0;
}
API int cuEventRecord(void *event, void *stream) {
  CHECK_FAILURE;
  note("event on %p\n", stream);
  *(double *)event = clockNow;
  clockNow += costs ? 0 : 1;
  return 0;
}
API int cuEventElapsedTime(float *milliseconds, void *start, void *end) {
  CHECK_FAILURE;
  *milliseconds = (float)(*(double *)end - *(double *)start);
  return 0;
}
API int cuStreamSynchronize(void *stream) {
  CHECK_FAILURE;
  note("wait for %p\n", stream);
  return 0;
}
API int cuMemsetD8Async(uint64_t address, unsigned char value, size_t size, void *stream) {
  CHECK_FAILURE;
  note("set %llx %zu to %d\n", (unsigned long long)address, size, value);
  return 0;
}
API int cuMemcpyAsync(uint64_t to, uint64_t from, size_t size, void *stream) {
  CHECK_FAILURE;
  note("copy %llx to %llx %zu\n", (unsigned long long)from, (unsigned long long)to, size);
  return 0;
}
API int cuMemAlloc_v2(uint64_t *address, size_t size) {
  CHECK_FAILURE;
  note("allocate %zu at once\n", size);
  *address = 0xdef000;
  return 0;
}
API int cuMemFree_v2(uint64_t address) {
  note("free at once\n");
  return 0;
}
API int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  *bytes = (size_t)1 << 37;
  return 0;
}
API int cuStreamCreate(void **stream, unsigned flags) {
  *stream = (void *)0x99;
  return 0;
}
API int cuStreamDestroy_v2(void *stream) {
  return 0;
}
