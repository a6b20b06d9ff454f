// nereid::Autotuner on memory of a GPU, for test_tuning.py: called with the address of device
// memory.
#include <nereid/autotuner.hpp>

#include <cstring>

namespace {
const char *const kernels = R"(import triton.language as tl

def work(x, out, n, STEPS: tl.constexpr):
    i = tl.program_id(0) * 128 + tl.arange(0, 128)
    total = tl.zeros((128,), tl.float32)
    for step in range(STEPS):
        total += tl.load(x + (i + step) % n)
    tl.store(out + i, tl.load(out + i) + total)
)";
} // namespace

/// Tunes and launches twice; writes the report to `text`. Returns the chosen number of steps, or -1
/// with the error in `text`.
extern "C" __attribute__((visibility("default"))) int
tuneOnGpu(uint64_t x, uint64_t out, int size, void *stream, char *text, size_t room) {
  try {
    nereid::Module module = nereid::Module::parse(kernels, "kernels.py");
    nereid::Autotuner tuner(
        module.function("work"),
        {{{"STEPS", 4000}}, {{"STEPS", 1}, {"num_warps", 4}}, {{"STEPS", 2000}, {"num_warps", 8}}},
        {.key = {"n"}, .restoreValue = {"out"}});
    nereid::Device device = nereid::Device::of(reinterpret_cast<const void *>(x));
    nereid::View<const float> input(reinterpret_cast<const float *>(x), size_t(size), device);
    nereid::View<float> output(reinterpret_cast<float *>(out), size_t(size), device);
    for (int launch = 0; launch < 2; ++launch)
      tuner.launchAs(
          nereid::Launch({1}).withStream(stream),
          [&](const nereid::Config &) { return nereid::Grid{uint32_t(size) / 128}; }, input, output,
          size);
    std::strncpy(text, tuner.report().c_str(), room - 1);
    return int((*tuner.best())["STEPS"]);
  } catch (const std::exception &error) {
    std::strncpy(text, error.what(), room - 1);
    return -1;
  }
}
