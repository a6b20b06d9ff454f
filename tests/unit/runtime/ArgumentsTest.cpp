// Wrong arguments of launches and of the API: each its own message, nothing crashes.
#include "common.h"

using namespace nereid;
using nereid::test::CApi;

namespace {
using ArgumentsTest = CApi;

TEST_F(ArgumentsTest, LaunchMissingArgument) {
  std::vector<float> x(8);
  EXPECT_EQ(launch("copy", {1}, x, x, 8), "error: `copy` needs a value for its parameter `BLOCK`");
  EXPECT_EQ(errorName, "LaunchMissingArgument");
}

TEST_F(ArgumentsTest, LaunchTooManyArguments) {
  std::vector<float> x(8);
  EXPECT_EQ(launch("copy", {1}, x, x, 8, 8, 9), "error: `copy` takes 4 arguments, 5 were given");
  EXPECT_EQ(errorName, "LaunchTooManyArguments");
}

TEST_F(ArgumentsTest, LaunchBadArgument) {
  nrd_arg arg{};
  arg.kind = NRD_ARG_POINTER;
  arg.dtype = 200;
  Function function = module.function("assertion");
  nrd_arg args[] = {arg, Argument(1)};
  nrd_launch how = detail::rawLaunch(Launch({1}));
  EXPECT_EQ(take(nrd_dispatch(function.get(), args, 2, nullptr, &how, nullptr)),
            "error: argument `x` of `assertion`: expected a pointer to a known element type, found "
            "a pointer "
            "of unknown type");
  args[0].kind = 77;
  EXPECT_EQ(
      take(nrd_dispatch(function.get(), args, 2, nullptr, &how, nullptr)),
      "error: argument `x` of `assertion`: expected a number, a pointer or a constant, found an "
      "argument of unknown kind");
}

TEST_F(ArgumentsTest, KernelLaunchChecksKinds) {
  std::vector<float> x(8), y(8);
  Function function = module.function("copy");
  Kernel kernel = function.compile({"*fp32", "*fp32", "i32", "8"});
  nrd_launch how = detail::rawLaunch(Launch({1}));
  nrd_arg args[] = {Argument(x), Argument(2.5), Argument(8)};
  EXPECT_EQ(take(nrd_kernel_launch(kernel.get(), args, 3, &how)),
            "error: argument `y` of `copy`: expected a pointer, found a float");
  nrd_arg numbers[] = {Argument(x), Argument(y), Argument(2.5)};
  EXPECT_EQ(take(nrd_kernel_launch(kernel.get(), numbers, 3, &how)),
            "error: argument `n` of `copy`: expected an integer, found a float");
  EXPECT_EQ(
      take(nrd_kernel_launch(kernel.get(), numbers, 2, &how)),
      "error: `copy` needs a value for its parameter `n`\nnote: the compiled kernel takes `x`, "
      "`y`, `n`, or all parameters of its function with the constants `BLOCK`");
}

TEST_F(ArgumentsTest, ReadOnlyArgument) {
  std::vector<float> x(8);
  const std::vector<float> constant(8);
  EXPECT_EQ(launch("copy", {1}, constant, x, 8, 8), "");
  EXPECT_EQ(launch("copy", {1}, x, constant, 8, 8),
            "error: argument `y` is read-only, but `copy` stores through it");
  EXPECT_EQ(errorName, "ReadOnlyArgument");
}

TEST_F(ArgumentsTest, BadGrid) {
  std::vector<float> x(8), y(8, 5.0f);
  EXPECT_EQ(launch("copy", {-1}, x, y, 8, 8),
            "error: the grid's dimension 0 is -1: expected 0 to 2147483647");
  EXPECT_EQ(launch("copy", {1, 1, int64_t(1) << 40}, x, y, 8, 8), // what does not fit 32 bits
            "error: the grid's dimension 2 is 4294967294: expected 0 to 2147483647");
  EXPECT_EQ(launch("copy", {1, 3'000'000'000u}, x, y, 8, 8),
            "error: the grid's dimension 1 is 3000000000: expected 0 to 2147483647");
  EXPECT_EQ(errorName, "BadGrid");
  // A zero launches nothing.
  EXPECT_EQ(launch("copy", {3, 0}, x, y, 8, 8), "");
  EXPECT_EQ(y[0], 5.0f);
}

TEST_F(ArgumentsTest, TooManyPrograms) {
  std::vector<float> x(8), y(8);
  uint32_t most = INT32_MAX;
  EXPECT_EQ(launch("copy", {most, most, most}, x, y, 8, 8),
            "error: the grid has too many programs: at most 2^62 can be counted");
}

TEST_F(ArgumentsTest, TooManyCooperative) {
  std::vector<float> x(8), y(8);
  Function function = module.function("copy");
  Options options;
  options.set("launch_cooperative_grid", true);
  nrd_launch how = detail::rawLaunch(Launch({100000}));
  nrd_arg args[] = {Argument(x), Argument(y), Argument(8), Argument(8)};
  EXPECT_EQ(take(nrd_dispatch(function.get(), args, 4, options.get(), &how, nullptr)),
            "error: a cooperative launch runs all programs at once: at most 4096 are accepted");
}

TEST_F(ArgumentsTest, NoSuchFunction) {
  nrd_module *file = nullptr;
  ASSERT_EQ(nrd_module_parse(test::kernels, strlen(test::kernels), "kernels.py", 1, &file),
            nullptr);
  FunctionHandle function;
  EXPECT_EQ(
      take(nrd_function_create(file, "coppy", nullptr, nullptr, function.out())),
      "error: `kernels.py` defines no function `coppy`, did you mean `copy`?"); // NoSuchFunctionNear
  EXPECT_EQ(take(nrd_function_create(file, "zzzzzzz", nullptr, nullptr, function.out())),
            "error: `kernels.py` defines no function `zzzzzzz`");
  nrd_module_free(file);
}

TEST_F(ArgumentsTest, NoFunctions) {
  nrd_module *file = nullptr;
  ASSERT_EQ(nrd_module_parse("x = 1\n", 6, "empty.py", 1, &file), nullptr);
  FunctionHandle function;
  EXPECT_EQ(take(nrd_function_create(file, nullptr, nullptr, nullptr, function.out())),
            "error: `empty.py` defines no functions");
  nrd_module_free(file);
}

TEST_F(ArgumentsTest, MissingFile) {
  ModuleHandle file;
  EXPECT_EQ(take(nrd_module_load("/does/not/exist.py", file.out())),
            "error: cannot read `/does/not/exist.py`: No such file or directory");
}

TEST_F(ArgumentsTest, CompileErrorsPointAtTheSource) {
  std::vector<float> x(8);
  std::string text = launch("broken", {1}, x);
  EXPECT_NE(text.find("kernels.py:26:17: error: "), std::string::npos) << text;
  EXPECT_NE(text.find("    tl.store(x, undefined_name)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("^~~~~~~~~~~~~~"), std::string::npos) << text;
}

TEST_F(ArgumentsTest, ForcedTypesOfAnnotations) {
  float x = 2;
  EXPECT_EQ(launch("scale", {1}, &x, 1.5, 1), "");
  EXPECT_EQ(x, 4);
  EXPECT_EQ(launch("scale", {1}, &x, 1.5, 2.5),
            "error: argument `n` of `scale`: expected a value for its type `i64`, found a float");
}

TEST_F(ArgumentsTest, NotForThisMachine) {
  Kernel kernel = module.function("copy").compile({"*fp32", "*fp32", "i32", "8"},
                                                  Options().set("features", "aarch64"));
  std::vector<float> x(8);
  nrd_launch how = detail::rawLaunch(Launch({1}));
  nrd_arg args[] = {Argument(x), Argument(x), Argument(8)};
  EXPECT_EQ(take(nrd_kernel_launch(kernel.get(), args, 3, &how)),
            "error: `copy` was compiled for `aarch64` and cannot be launched on this machine");
}

TEST_F(ArgumentsTest, TargetRefuses) {
  Function function = module.function("copy");
  const char *signature[] = {"*fp32", "*fp32", "i32", "8"};
  KernelHandle kernel;
  Options options;
  options.set("features", "avx1024");
  std::string text =
      take(nrd_compile(function.get(), signature, 4, options.get(), kernel.out()), &errorName);
  EXPECT_NE(text.find("the target cannot compile this kernel: "), std::string::npos) << text;
  EXPECT_EQ(errorName, "TargetRefuses");
}

} // namespace
