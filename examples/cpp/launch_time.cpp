// What a launch costs from C++, of 6 pointers and 8 numbers: an embedded kernel, the same one
// compiled while the program runs, and on a GPU the driver's own function beside them.
//
//   launch_time [cpu|cuda]
#include "empty.h"

#include <nereid/nereid.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>

namespace {

/// The median of 20 rounds of 500 launches, in microseconds a launch.
template <typename Launch> double measure(const nereid::Stream &stream, Launch launch) {
  std::vector<double> times;
  for (int round = 0; round < 21; ++round) {
    stream.synchronize();
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 500; ++i)
      launch();
    std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    times.push_back(time.count() / 500);
  }
  std::nth_element(times.begin() + 1, times.begin() + 11, times.end()); // without the first
  return times[11];
}

/// The driver's function for launches, with the kernel compiled for it.
double measureDriver(const nereid::Stream &stream, const nereid::Function &function,
                     nereid::Device device, float *p, int n) {
  using LaunchKernel = int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, void *, void **, void **);
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  auto launch = reinterpret_cast<LaunchKernel>(driver ? dlsym(driver, "cuLaunchKernel") : nullptr);
  if (!launch)
    return 0;
  std::vector<std::string> signature(6, "*fp32");
  signature.insert(signature.end(), 8, "i32");
  std::string target = "cuda:" + std::to_string(device.info().arch);
  nereid::Kernel kernel =
      function.compile(signature, nereid::Options().set("target", target.c_str()));
  void *code = kernel.tryProperties(device).value().function;
  void *scratch = nullptr;
  std::vector<void *> params(6, &p);
  params.insert(params.end(), 8, &n);
  params.insert(params.end(), 2, &scratch);
  return measure(stream, [&] {
    launch(code, 1, 1, 1, 128, 1, 1, 0, stream.native(), params.data(), nullptr);
  });
}

} // namespace

int main(int argc, char **argv) {
  bool isGpu = argc > 1 && std::strcmp(argv[1], "cuda") == 0;
  try {
    nereid::Device device = isGpu ? nereid::Device::cuda() : nereid::Device::cpu();
    nereid::Stream stream = nereid::Stream::create(device);
    auto buffer = nereid::Buffer<float>::allocate(device, 1024);
    float *p = buffer.data();
    int n = 17;
    double embedded = measure(
        stream, [&] { kernels::empty({1}, stream, p, p, p, p, p, p, n, n, n, n, n, n, n, n); });
    auto module = nereid::Module::parse("def empty(a, b, c, d, e, f, i, j, k, l, m, n, o, p):\n"
                                        "    pass\n");
    auto empty = module.kernel<float *, float *, float *, float *, float *, float *, int, int, int,
                               int, int, int, int, int>("empty");
    double typed = measure(stream, [&] {
      empty({1}, stream, buffer, buffer, buffer, buffer, buffer, buffer, n, n, n, n, n, n, n, n);
    });
    std::printf("a launch on %s: embedded %.2f us, compiled at run time %.2f us",
                device.info().name, embedded, typed);
    if (isGpu)
      std::printf(", the driver %.2f us", measureDriver(stream, empty.function(), device, p, n));
    std::printf("\n");
  } catch (const nereid::Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
