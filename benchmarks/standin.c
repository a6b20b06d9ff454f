/* What benchmarks/launch_instructions.py needs of C: tensors of PyTorch's CPU build that pass for
 * memory of a GPU, and marks for valgrind. */
#include <stdint.h>
#include <valgrind/callgrind.h>

/* The part of DLPack's table of C functions that launches read (version 1.3). */
struct Tensor {
  void *data;
  int32_t deviceType, deviceId;
  int32_t rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t offset;
};
struct Api {
  uint32_t major, minor;
  struct Api *previous;
  void *allocate, *managedFromObject, *managedToObject;
  int (*tensorFromObject)(void *object, struct Tensor *out);
  int (*currentStream)(int32_t type, int32_t device, void **out);
};

static struct Api real, changed;

static int tensorOnGpu(void *object, struct Tensor *out) {
  int result = real.tensorFromObject(object, out);
  out->deviceType = 2;
  out->deviceId = 0;
  return result;
}

static int streamOfGpu(int32_t type, int32_t device, void **out) {
  *out = (void *)0x77;
  return 0;
}

/* The table of a type whose tensors all lie on GPU 0. */
const struct Api *standin_table(const struct Api *table) {
  real = changed = *table;
  changed.tensorFromObject = tensorOnGpu;
  changed.currentStream = streamOfGpu;
  return &changed;
}

/* The same for launches that read tensors by PyTorch's other C interface: these are found first. */
int aoti_torch_get_device_type(void *tensor, int32_t *out) {
  *out = 1;
  return 0;
}

int aoti_torch_get_device_index(void *tensor, int32_t *out) {
  *out = 0;
  return 0;
}

void standin_begin(void) {
  CALLGRIND_START_INSTRUMENTATION;
  CALLGRIND_ZERO_STATS;
}

void standin_end(const char *what) {
  CALLGRIND_STOP_INSTRUMENTATION;
  CALLGRIND_DUMP_STATS_AT(what);
}
