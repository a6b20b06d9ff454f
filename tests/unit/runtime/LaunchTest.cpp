// Launches and compiled kernels through the C ABI, from one thread and from many.
#include "common.h"

#include <chrono>
#include <thread>

using namespace nereid;
using nereid::test::CApi;

namespace {
using LaunchTest = CApi;

TEST_F(LaunchTest, Version) {
  EXPECT_EQ(nrd_abi_version(), unsigned(NRD_ABI_VERSION));
  EXPECT_EQ(std::string(nrd_version()).find("0."), 0u);
}

TEST_F(LaunchTest, FunctionsAndParameters) {
  EXPECT_EQ(module.functions().front(), "copy");
  Function copy = module.function();
  EXPECT_EQ(copy.name(), "copy");
  ASSERT_EQ(nrd_function_param_count(copy.get()), 4u);
  EXPECT_STREQ(nrd_function_param_name(copy.get(), 3), "BLOCK");
  EXPECT_TRUE(nrd_function_param_is_constexpr(copy.get(), 3));
  EXPECT_FALSE(nrd_function_param_is_constexpr(copy.get(), 0));
  EXPECT_EQ(nrd_function_param_name(copy.get(), 4), nullptr);
}

TEST_F(LaunchTest, SpecialisationsShareKernels) {
  std::vector<float> x(100), y(100);
  std::iota(x.begin(), x.end(), 0.0f);
  Function copy = module.function("copy");
  auto kernelFor = [&](int n) {
    nrd_arg args[] = {Argument(x), Argument(y), Argument(n), Argument(32)};
    nrd_kernel *kernel = nullptr;
    EXPECT_EQ(nrd_dispatch(copy.get(), args, 4, nullptr, nullptr, &kernel), nullptr);
    return kernel;
  };
  EXPECT_EQ(kernelFor(33), kernelFor(35));
  EXPECT_NE(kernelFor(33), kernelFor(48));
  EXPECT_NE(kernelFor(33), kernelFor(1));
  nrd_kernel *before = kernelFor(33);
  nrd_function_clear_cache(copy.get());
  EXPECT_NE(kernelFor(33), before);
  copy.launch({4}, x, y, 100, 32);
  EXPECT_EQ(x, y);
}

TEST_F(LaunchTest, CompiledKernel) {
  Kernel kernel = module.function("copy").compile({"*fp32:16", "*fp32:16", "i32", "64"});
  EXPECT_EQ(kernel.name(), "copy");
  EXPECT_NE(kernel.stage("tile").find("tile.load"), std::string::npos);
  EXPECT_NE(kernel.stage("llir").find("define"), std::string::npos);
  EXPECT_NE(kernel.stage("asm").find("copy"), std::string::npos);
  EXPECT_EQ(kernel.stage("obj").substr(1, 3), "ELF");
  EXPECT_TRUE(kernel.stage("ptx").empty());
  EXPECT_NE(kernel.metadata().find("\"name\":\"copy\""), std::string::npos);
  double sum = 0, time = 0;
  for (size_t i = 0; i < nrd_kernel_time_count(kernel.get()); ++i, sum += time)
    EXPECT_NE(nrd_kernel_time(kernel.get(), i, &time), nullptr);
  EXPECT_GT(sum, 0);
  std::vector<float> x(100, 2.0f), y(100);
  kernel.launch({2}, x, y, 100);
  EXPECT_EQ(x, y);
}

TEST_F(LaunchTest, ErrorsAreExceptionsOrValues) {
  FunctionHandle function;
  nrd_error *error = nullptr;
  std::vector<float> x(8);
  Function broken = module.function("broken");
  nrd_arg arg = Argument(x);
  error = nrd_dispatch(broken.get(), &arg, 1, nullptr, nullptr, nullptr);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(nrd_error_get_kind(error), NRD_ERROR_COMPILE);
  EXPECT_NE(std::string(nrd_error_triton_text(error)).find("at 2:16:"), std::string::npos)
      << nrd_error_triton_text(error);
  EXPECT_STREQ(nrd_error_triton_summary(error), nrd_error_summary(error)); // an error of our own
  nrd_error_free(error);
}

TEST_F(LaunchTest, ManyThreadsLaunchOneFunction) {
  Function copy = module.function("copy");
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 10; ++round) {
        int n = 100 + 16 * t;
        std::vector<float> x(n, float(t)), y(n);
        copy.launch({uint32_t(n + 63) / 64}, x, y, n, 64);
        wrong += x != y;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(LaunchTest, WarmDispatchIsQuick) {
  float data[6];
  Function function = module.function("empty");
  nrd_arg args[14];
  for (int i = 0; i < 6; ++i)
    args[i] = Argument(&data[i]);
  for (int i = 6; i < 14; ++i)
    args[i] = Argument(1000 + i);
  nrd_launch how = detail::rawLaunch(Launch({1}));
  ASSERT_EQ(nrd_dispatch(function.get(), args, 14, nullptr, &how, nullptr), nullptr);
  double best = 1e9;
  for (int round = 0; round < 20; ++round) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 500; ++i)
      nrd_dispatch(function.get(), args, 14, nullptr, &how, nullptr);
    std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count() / 500);
  }
  RecordProperty("microseconds", std::to_string(best));
  std::printf("warm dispatch of 14 arguments, one empty program: %.3f us\n", best);
  EXPECT_LT(best, 50) << "two orders of magnitude above an optimised build";
}

TEST_F(LaunchTest, DoctorAndLanguage) {
  char *doctor = nrd_doctor();
  EXPECT_NE(std::string(doctor).find("\"cpu\""), std::string::npos);
  nrd_string_free(doctor);
  char *language = nrd_language_json();
  EXPECT_NE(std::string(language).find("\"program_id\""), std::string::npos);
  nrd_string_free(language);
}

} // namespace
