// The compiler from C++: modules, functions, typed kernels, options, and what goes wrong. The file
// of kernels is the first argument; with `cuda` as the second one everything runs on the GPU.
#include "check.h"

#include <nereid/nereid.hpp>

#include <string>

using nereid::constexpr_;

namespace {

nereid::Device device;

void typed(const nereid::Module &module) {
  nereid::Stream stream = nereid::Stream::create(device);
  const int n = 3000;
  std::vector<float> ones(n, 1.0f), sum(n);
  auto x = nereid::Buffer<float>::allocate(device, n);
  auto out = nereid::Buffer<float>::allocate(device, n);
  x.copyFrom(ones);
  auto add = module.kernel<const float *, const float *, float *, int, constexpr_<1024>>("add");
  add({(n + 1023) / 1024}, stream, x, x, out, n);
  stream.synchronize();
  out.copyTo(sum);
  CHECK(sum[0] == 2 && sum[n - 1] == 2);
  add({(n + 1023) / 1024}, x, x.view(), out, size_t(n));
  CHECK(add.tryWarmup(x, x, out, n).ok());

  // Constants of every kind, None, a flag.
  auto scale = module.kernel<const float *, std::nullptr_t, float *, int, float, constexpr_<true>,
                             bool, constexpr_<128>>("scale");
  scale({nereid::Grid(24)}, stream, x, out, n, 2.5, false);
  stream.synchronize();
  out.copyTo(sum);
  CHECK(sum[0] == 5 && sum[n - 1] == 5);

  nereid::Status status = add.tryLaunch({1}, x, x, out, int64_t(1) << 32);
  CHECK_TEXT(status.error().what(),
             "the number given for `n` of kernel `add` does not fit its type");
  // What the types say is compared with the kernel when it is looked up.
  CHECK_TEXT((module.tryKernel<float *, int>("add").error().what()),
             "kernel `add` has 5 parameters, 2 are typed");
  CHECK_TEXT((module.tryKernel<float *, float *, float *, int, int>("add").error().what()),
             "kernel `add` parameter `BLOCK` is a constexpr: give its value as "
             "nereid::constexpr_<value>");
  CHECK_TEXT((module.tryKernel<float *, float *, float *, constexpr_<1>, constexpr_<64>>("add")
                  .error()
                  .what()),
             "kernel `add` parameter `n` is no constexpr");
  CHECK(!module.tryKernel<float *>("missing"));
}

void untyped(const nereid::Module &module) {
  std::vector<float> x(1000, 1.0f), out(1000);
  nereid::Function add = module.function("add");
  CHECK(add.name() == "add" && add.paramCount() == 5 && add.paramName(4) == "BLOCK");
  add.launch({1}, x, x, out, 1000, 1024);
  CHECK(out[999] == 2);
  std::span<const float> read = x;
  add.launch(nereid::Options().set("features", "baseline"), {1}, read, x.data(), out, 1000, 1024);
  CHECK(out[999] == 2);
  // A kernel that may write is not given memory that is only to be read.
  nereid::Status status = add.tryLaunch({1}, x, x, read, 1000, 1024);
  CHECK(!status && status.error().kind() == nereid::ErrorKind::Argument);
  status = add.tryLaunch({1}, x, x, out, 1000);
  CHECK(!status && status.error().name() == "LaunchMissingArgument");
  status = add.tryLaunch({-5}, x, x, out, 1000, 1024);
  CHECK(!status && status.error().kind() == nereid::ErrorKind::Argument);
  status =
      add.tryLaunch(nereid::Launch({1}).withChecks(), x, x, std::span(out).first(10), 1000, 1024);
  CHECK(!status && status.error().name() == "AccessOutOfBounds");
  CHECK(!nereid::Options().trySet("num_warp", nereid::ValueHandle(nrd_value_int(4))));

  nereid::Result<nereid::Kernel> kernel =
      add.tryCompile({"*fp32:16", "*fp32:16", "*fp32:16", "i32", "1024"});
  CHECK(kernel.ok() && !kernel->stage("asm").empty());
  CHECK(kernel->metadata().find("\"name\":\"add\"") != std::string_view::npos);
  auto aligned = nereid::Buffer<float>::allocate(nereid::Device::cpu(), 1000);
  std::fill_n(aligned.data(), 1000, 3.0f);
  kernel->launch({1}, aligned, aligned, aligned, 1000);
  CHECK(aligned.data()[999] == 6);
  CHECK(!add.tryCompile({"*fp32", "i32"}));
  auto transpose = module.function("transpose");
  std::vector<float> matrix(64 * 32), result(64 * 32);
  for (size_t i = 0; i < matrix.size(); ++i)
    matrix[i] = float(i);
  auto source = nereid::Buffer<float>::allocate(nereid::Device::cpu(), matrix.size());
  source.copyFrom(matrix);
  nereid::TensorDescriptor tensor(nereid::Pointer<const float>(source), {64, 32}, {32, 1},
                                  {32, 32});
  transpose.launch({2, 1}, tensor, result, 64, 32, 32);
  CHECK(result[1] == 32 && result[64] == 1);
}

void wrong() {
  nereid::Result<nereid::Module> module = nereid::Module::tryLoad("/does/not/exist.py");
  CHECK(!module && module.error().name() == "CannotReadFile");
  module = nereid::Module::tryParse("def kernel(x):\n    y = unknown\n", "wrong.py");
  CHECK(module.ok());
  nereid::Result<nereid::Function> function = module->tryFunction("kernel");
  nereid::Result<nereid::Kernel> kernel = function->tryCompile({"i32"});
  CHECK(!kernel && kernel.error().kind() == nereid::ErrorKind::Compile);
  CHECK(kernel.error().name() == "UnknownName");
  CHECK(std::strstr(kernel.error().what(), "wrong.py:2:9"));
  CHECK(!module->tryFunction("missing"));
  try {
    module->function("missing");
    CHECK(false);
  } catch (const std::exception &error) {
    CHECK(std::strstr(error.what(), "missing"));
  }
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2)
    return 2;
  bool isGpu = argc > 2 && std::strcmp(argv[2], "cuda") == 0;
  device = isGpu ? nereid::Device::cuda() : nereid::Device::cpu();
  try {
    auto module = nereid::Module::load(argv[1]);
    typed(module);
    if (!isGpu)
      untyped(module);
    wrong();
  } catch (const nereid::Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return failures();
}
