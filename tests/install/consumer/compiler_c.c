/* The C functions of the compiler, in C11: load a file, compile, launch, ask, fail. */
#include <nereid/nereid.h>

#include <stdio.h>
#include <string.h>

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);               \
      return 1;                                                                                    \
    }                                                                                              \
  } while (0)

/* The layouts that programs are compiled with. */
_Static_assert(sizeof(nrd_arg) == 40 && offsetof(nrd_arg, low) == 16, "nrd_arg");
_Static_assert(sizeof(nrd_launch) == 32 && offsetof(nrd_launch, stream) == 24, "nrd_launch");
_Static_assert(sizeof(nrd_descriptor) == 128 && offsetof(nrd_descriptor, block) == 88,
               "descriptor");
_Static_assert(sizeof(nrd_kernel_properties) == 40, "nrd_kernel_properties");
_Static_assert(sizeof(nrd_stream) == 16 && sizeof(nrd_device_info) == 128, "device.h");
_Static_assert(NRD_FP32 == 17 && NRD_FP64 == 18 && NRD_ARG_TYPE == 9, "numbers");

static nrd_arg pointer(const void *data, nrd_dtype dtype, int read_only) {
  nrd_arg arg = {0};
  arg.kind = NRD_ARG_POINTER;
  arg.dtype = (uint8_t)dtype;
  arg.read_only = (uint8_t)read_only;
  arg.p = (void *)data;
  return arg;
}

static nrd_arg integer(int64_t value) {
  nrd_arg arg = {0};
  arg.kind = NRD_ARG_INT;
  arg.i = value;
  return arg;
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  CHECK(nrd_abi_version() == NRD_ABI_VERSION);
  CHECK(strcmp(nrd_version(), NRD_VERSION) == 0);

  nrd_module *module = NULL;
  nrd_error *error = nrd_module_load(argv[1], &module);
  if (error) {
    fprintf(stderr, "%s\n", nrd_error_message(error));
    nrd_error_free(error);
    return 1;
  }
  nrd_function *add = NULL;
  CHECK(!nrd_function_create(module, "add", NULL, NULL, &add));
  CHECK(nrd_function_param_count(add) == 5);

  static float x[3000], y[3000], z[3000];
  for (int i = 0; i < 3000; ++i) {
    x[i] = (float)i;
    y[i] = 2 * (float)i;
  }
  nrd_arg args[5] = {pointer(x, NRD_FP32, 1), pointer(y, NRD_FP32, 1), pointer(z, NRD_FP32, 0),
                     integer(3000), integer(1024)};
  nrd_launch launch = {.grid = {3, 1, 1}};
  nrd_kernel *kernel = NULL;
  CHECK(!nrd_dispatch(add, args, 5, NULL, &launch, &kernel));
  for (int i = 0; i < 3000; ++i)
    CHECK(z[i] == 3 * (float)i);
  CHECK(strcmp(nrd_kernel_name(kernel), "add") == 0);

  /* A missing argument is an error object with a kind, a name and a text. */
  error = nrd_dispatch(add, args, 4, NULL, &launch, NULL);
  CHECK(error);
  CHECK(nrd_error_get_kind(error) == NRD_ERROR_ARGUMENT);
  CHECK(strcmp(nrd_error_name(error), "LaunchMissingArgument") == 0);
  CHECK(strstr(nrd_error_message(error), "BLOCK"));
  nrd_error_free(error);

  /* Ahead of time, with an option. */
  const char *signature[] = {"*fp32", "*fp32", "*fp32", "i32", "1024"};
  nrd_options *options = nrd_options_new();
  nrd_value *baseline = nrd_value_str("baseline", 8);
  CHECK(!nrd_options_set(options, "features", baseline));
  nrd_value_free(baseline);
  nrd_kernel *compiled = NULL;
  CHECK(!nrd_compile(add, signature, 5, options, &compiled));
  CHECK(!nrd_kernel_launch(compiled, args, 4, &launch));
  size_t size = 0;
  CHECK(nrd_kernel_stage(compiled, "obj", &size) && size > 64);
  nrd_kernel_free(compiled);
  nrd_options_free(options);

  /* Memory of a device: the CPU is always one. */
  void *memory = NULL;
  nrd_stream stream = {.device = NRD_DEVICE_CPU};
  CHECK(nrd_memory_allocate(NRD_DEVICE_CPU, 64, &memory) == NRD_OK);
  CHECK(nrd_memory_copy(stream, memory, x, 64) == NRD_OK);
  CHECK(memcmp(memory, x, 64) == 0);
  CHECK(nrd_memory_free(NRD_DEVICE_CPU, memory) == NRD_OK);
  CHECK(nrd_stream_create(1000, &stream) == NRD_STATUS_NO_DEVICE);
  CHECK(*nrd_status_message());

  nrd_function_free(add);
  nrd_module_free(module);
  puts("0 failures");
  return 0;
}
