// The part of benchmarks/launch.py that is measured without Python in the way: the driver's own
// cuLaunchKernel, and launches through the C++ header. launch.py builds it as a shared library
// and calls each function once a reading.
#include "nereid/nereid.hpp"

#include <chrono>
#include <cstdint>
#include <dlfcn.h>
#include <memory>

namespace {

template <typename Call> double microseconds(int launches, Call call) {
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < launches; ++i)
    call();
  std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
  return spent.count() / launches;
}

struct Bench {
  nereid::Function plain, blank;
  nereid::Kernel kernel;
  nereid::Launch how{1};
  nereid::Options options;
  float *data[6] = {};
};

using LaunchKernel = int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             unsigned, void *, void **, void **);

template <typename Type> Type driverFunction(const char *name) {
  return reinterpret_cast<Type>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), name));
}

} // namespace

/// `target`: "cpu" or "cuda". `data`: six pointers of its memory; `stream`: a CUstream.
extern "C" Bench *bench_open(const char *file, const char *target, void **data, void *stream) {
  nereid::Module module = nereid::Module::load(file);
  auto bench = std::make_unique<Bench>();
  bench->plain = module.function("plain_kernel");
  bench->blank = module.function("blank_kernel");
  bench->options.set("target", target);
  std::vector<std::string> signature(6, "*fp32:16");
  signature.insert(signature.end(), {"i32", "i32", "i32", "i32", "i32", "i32", "fp32", "fp32"});
  bench->kernel = bench->plain.compile(signature, bench->options);
  if (std::string_view(target) == "cuda")
    bench->how = bench->how.withStream(stream);
  for (int i = 0; i < 6; ++i)
    bench->data[i] = static_cast<float *>(data[i]);
  return bench.release();
}

/// The arguments of every launch: 6 tensors, 6 integers, 2 floats.
#define ARGUMENTS                                                                                  \
  bench->data[0], bench->data[1], bench->data[2], bench->data[3], bench->data[4], bench->data[5],  \
      3, 5, 7, 9, 11, 13, 1.5, 2.5

/// Look-up by the arguments, then the launch.
extern "C" double bench_function(Bench *bench, int launches) {
  return microseconds(launches, [&] { bench->plain.launch(bench->how, ARGUMENTS); });
}

/// A compiled kernel.
extern "C" double bench_kernel(Bench *bench, int launches) {
  return microseconds(launches, [&] { bench->kernel.launch(bench->how, ARGUMENTS); });
}

/// Nothing to pass.
extern "C" double bench_blank(Bench *bench, int launches) {
  return microseconds(launches, [&] { bench->blank.launch(bench->options, bench->how); });
}

/// The driver alone, with `function` (a CUfunction) of the kernel that the others launch.
extern "C" double bench_driver(Bench *bench, void *function, unsigned threads, void *stream,
                               int launches) {
  static auto launch = driverFunction<LaunchKernel>("cuLaunchKernel");
  int32_t integers[] = {3, 5, 7, 9, 11, 13};
  float floats[] = {1.5f, 2.5f};
  void *scratch[2] = {}, *params[16];
  for (int i = 0; i < 6; ++i) {
    params[i] = &bench->data[i];
    params[6 + i] = &integers[i];
  }
  for (int i = 0; i < 2; ++i) {
    params[12 + i] = &floats[i];
    params[14 + i] = &scratch[i];
  }
  return microseconds(
      launches, [&] { launch(function, 1, 1, 1, threads, 1, 1, 0, stream, params, nullptr); });
}

/// Questions that a launch may have to ask the driver: the context's device (0), the context (1),
/// where an address lies (2).
extern "C" double bench_question(Bench *bench, int which, int launches) {
  static auto device = driverFunction<int (*)(int *)>("cuCtxGetDevice");
  static auto context = driverFunction<int (*)(void **)>("cuCtxGetCurrent");
  static auto attribute =
      driverFunction<int (*)(void *, int, unsigned long long)>("cuPointerGetAttribute");
  return microseconds(launches, [&] {
    int number = 0;
    void *current = nullptr;
    if (which == 0)
      device(&number);
    else if (which == 1)
      context(&current);
    else
      attribute(&number, 9, reinterpret_cast<unsigned long long>(bench->data[0]));
  });
}
