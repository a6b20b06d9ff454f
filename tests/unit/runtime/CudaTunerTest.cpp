// nereid::Autotuner on a CUDA device, against a stand-in for the driver whose launches take the
// time that a test gives them.
#include "nereid/autotuner.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <dlfcn.h>

using namespace nereid;

namespace {

const char *const text = R"(import triton.language as tl

def fill(out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, i, mask=i < n)
)";

class CudaTuner : public ::testing::Test {
protected:
  void SetUp() override {
    setenv("NEREID_LIBCUDA", FAKE_CUDA_PATH, 1);
    library = dlopen(FAKE_CUDA_PATH, RTLD_NOW);
    call<void (*)()>("fake_reset")();
    call<void (*)()>("fake_leave_contexts")();
    call<void (*)(int)>("fake_quiet")(1);
    const char *settings[] = {"NEREID_CACHE=0", "NEREID_LIBCUDA=" FAKE_CUDA_PATH};
    nrd_string_free(nrd_set_settings(settings, 2));
  }
  void TearDown() override {
    call<void (*)()>("fake_no_costs")();
    call<void (*)(int)>("fake_quiet")(0);
    nrd_set_settings(nullptr, 0);
  }
  template <typename Function> Function call(const char *name) {
    return reinterpret_cast<Function>(dlsym(library, name));
  }
  /// Of blocks of this size: milliseconds of a launch, and how many of the first take ten times as
  /// long.
  void takes(uint32_t block, float milliseconds, int cold) {
    call<void (*)(unsigned, float, int)>("fake_cost")(size / block, milliseconds, cold);
  }
  int launchesOf(uint32_t block) { return call<int (*)(unsigned)>("fake_launches")(size / block); }
  /// A message where there is no assembler, or what went wrong; empty when it was launched.
  std::string launch(Autotuner &tuner) {
    Status status =
        tuner.tryLaunch([](const Config &config) { return Grid{size / config["BLOCK"]}; },
                        View<int>(reinterpret_cast<int *>(0x5000), size, Device::cuda(1)), size);
    return status ? "" : status.error().what();
  }

  static constexpr uint32_t size = 4096;
  void *library = nullptr;
  Module module = Module::parse(text, "kernels.py");
  std::vector<Choice> choices(std::initializer_list<int> blocks) {
    std::vector<Choice> all;
    for (int block : blocks)
      all.push_back({{"BLOCK", block}});
    return all;
  }
};

TEST_F(CudaTuner, ColdStartsDoNotChoose) {
  takes(1024, 9, 0);
  takes(512, 1.2f, 0);
  takes(256, 1.0f, 2); // the best one, and the slowest at first
  takes(128, 40, 1);
  takes(64, 1.04f, 1);
  takes(32, 2.5f, 0);
  Autotuner tuner(module.function("fill"), choices({1024, 512, 256, 128, 64, 32}));
  std::string error = launch(tuner);
  if (error.find("assembler") != std::string::npos)
    GTEST_SKIP() << error;
  ASSERT_EQ(error, "");
  EXPECT_EQ((*tuner.best())["BLOCK"], 256u) << tuner.report();
  EXPECT_NEAR(*tuner.milliseconds(2), 1, 1e-3);
  EXPECT_NEAR(*tuner.milliseconds(4), 1.04, 1e-3);
  EXPECT_NEAR(*tuner.milliseconds(0), 9, 1e-3);
  EXPECT_LE(launchesOf(128), 3);
  EXPECT_LE(launchesOf(32), 5);
  int before = launchesOf(256);
  EXPECT_EQ(launch(tuner), "");
  EXPECT_EQ(launchesOf(256), before + 1); // a key is tuned once
}

} // namespace
