// Launches on CUDA devices, against a stand-in for the driver (fake_cuda.c) and a kernel whose code
// is only bytes: what the driver is asked for, which context is current, and the words of errors.
#include "runtime/devices/cuda.h"
#include "kernel_abi/nvidia.h"
#include "nereid/nereid.hpp"
#include "runtime/devices/device.h"
#include "runtime/function.h"
#include "runtime/target_choice.h"
#include "support/settings.h"

#include "arguments.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <dlfcn.h>
#include <thread>

using namespace nereid;
using namespace nereid::runtime;
using targets::ScalarKind;

namespace {

/// The stand-in's own functions.
struct Fake {
  const char *(*record)();
  void (*reset)();
  void (*params)(int);
  void (*fail)(const char *, int);
  void (*kernel)(int, int, int);
  void (*memory)(uint64_t, uint64_t);
  void (*peer)(uint64_t);
  void (*leaveContexts)();
  void (*clusters)(int);
  void (*mapStart)(unsigned);
};

Fake &fake() {
  static Fake functions = [] {
    setenv("NEREID_LIBCUDA", FAKE_CUDA_PATH, 1);
    void *library = dlopen(FAKE_CUDA_PATH, RTLD_NOW);
    auto get = [&](auto &slot, const char *name) {
      slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(dlsym(library, name));
    };
    Fake fake;
    get(fake.record, "fake_record");
    get(fake.reset, "fake_reset");
    get(fake.params, "fake_params");
    get(fake.fail, "fake_fail");
    get(fake.kernel, "fake_kernel");
    get(fake.memory, "fake_memory");
    get(fake.peer, "fake_peer");
    get(fake.leaveContexts, "fake_leave_contexts");
    get(fake.clusters, "fake_clusters");
    get(fake.mapStart, "fake_map_start");
    return fake;
  }();
  return functions;
}

class FakeCode final : public targets::CompiledKernel {
public:
  explicit FakeCode(nvidia::LaunchInfo info) : info(std::move(info)) {}
  void *entry() const override { return const_cast<nvidia::LaunchInfo *>(&info); }
  std::vector<std::string> stages() const override { return {"ptx"}; }
  std::optional<std::string> text(llvm::StringRef, std::string &) const override {
    return ".version 8.7";
  }
  std::optional<std::string> object(std::string &) const override { return "image of it"; }
  nvidia::LaunchInfo info;
};

class CudaTest : public ::testing::Test {
protected:
  void SetUp() override {
    fake().reset();
    fake().leaveContexts();
    streams.clear();
    cuda::setStreamProvider(nullptr);
    static const std::string text = "@triton.jit\n"
                                    "def k(p, n, x, BLOCK: tl.constexpr):\n"
                                    "    pass\n";
    nrd_module *module = nullptr;
    ASSERT_FALSE(nrd_module_parse(text.data(), text.size(), "k.py", 1, &module));
    ASSERT_FALSE(nrd_function_create(module, "k", nullptr, nullptr, &function));
    nrd_module_free(module);
  }
  void TearDown() override { nrd_function_free(function); }

  /// A kernel `k(p, n, x)` with a pointer, an int and a float, as the compiler would leave it.
  std::unique_ptr<nrd_kernel> make(nvidia::LaunchInfo info) {
    auto kernel = std::make_unique<nrd_kernel>();
    kernel->name = "k";
    kernel->request.function = function->record.get();
    kernel->request.target = *TargetName::parse("cuda:90");
    auto constant = *parseLiteral("128");
    kernel->request.specs.resize(4);
    kernel->request.specs[3].kind = frontend::ParamSpec::Kind::Constant;
    kernel->request.specs[3].constant = constant;
    info.entry = "k_entry";
    kernel->code = std::make_unique<FakeCode>(info);
    kernel->entry = kernel->code->entry();
    for (auto [name, kind] :
         {std::pair("p", ScalarKind::Pointer), {"n", ScalarKind::I32}, {"x", ScalarKind::F32}})
      kernel->params.push_back({true, kind == ScalarKind::Pointer, 0, kind, name});
    kernel->params.push_back({false, false, 0, ScalarKind::I32, "BLOCK"});
    kernel->passedCount = 3;
    kernel->onDevice = cudaDevice().attach(*kernel);
    return kernel;
  }

  static nvidia::LaunchInfo info() {
    nvidia::LaunchInfo info;
    info.arch = 90;
    return info;
  }

  static nrd_arg pointer(uint64_t address, int memory) {
    nrd_arg arg = test::pointer(address);
    arg.memory = uint8_t(memory);
    return arg;
  }
  static std::vector<nrd_arg> arguments(nrd_arg first) {
    return {first, test::integer(7), test::number(1.0), nrd_arg{}};
  }
  std::string launch(const nrd_kernel &kernel, nrd_launch how,
                     nrd_arg first = pointer(0xd000, NRD_MEMORY_CUDA)) {
    fake().params(5);
    error = cudaDevice().launch(kernel, arguments(first), how);
    return error ? error->message : "";
  }
  static nrd_launch grid(uint32_t x, uint32_t y = 1, uint32_t z = 1) {
    nrd_launch how{};
    how.grid[0] = x;
    how.grid[1] = y;
    how.grid[2] = z;
    return how;
  }

  static std::vector<int> streams;
  nrd_function *function = nullptr;
  ErrorPtr error;
};
std::vector<int> CudaTest::streams;

TEST_F(CudaTest, LoadsOnceAndPacksArguments) {
  auto kernel = make(info());
  EXPECT_EQ(launch(*kernel, grid(4, 2)), "");
  EXPECT_EQ(launch(*kernel, grid(1)), "");
  EXPECT_EQ(
      std::string(fake().record()),
      "retain 0\nset current 0\nload image of it\nkernel k_entry\n"
      "launch on 0 grid 4,2,1 block 128,1,1 shared 0 stream (nil) params d000 7 3f800000 0 0\n"
      "launch on 0 grid 1,1,1 block 128,1,1 shared 0 stream (nil) params d000 7 3f800000 0 0\n");
  fake().reset();
  kernel.reset();
  EXPECT_STREQ(fake().record(), "unload\n");
}

TEST_F(CudaTest, MakesTensorMaps) {
  using gpu::HostNumber;
  using Op = HostNumber::Op;
  auto with = info();
  gpu::TensorMapPlan plan;
  plan.name = "p";
  plan.element = gpu::TensorMapElement::Float16;
  plan.elementBytes = 2;
  plan.swizzleBytes = 64;
  plan.padsNaN = true;
  plan.base = {{{Op::Argument, 0}, {Op::Constant, 32}, {Op::Add}}};
  // n x 2n, rows of 8 elements; 32 bits count.
  plan.shape = {{{{Op::Argument, 1}, {Op::SignExtend, 32}}},
                {{{Op::Argument, 1}, {Op::ZeroExtend, 32}, {Op::Constant, 2}, {Op::Mul}}}};
  plan.strides = {{{{Op::Constant, 1}, {Op::Constant, 3}, {Op::Shl}}}};
  plan.box = {16, 32};
  with.tensorMaps = {plan};
  auto kernel = make(with);
  fake().params(6);
  error = cudaDevice().launch(*kernel, arguments(pointer(0xd000, NRD_MEMORY_CUDA)), grid(1));
  EXPECT_FALSE(error);
  std::string record = fake().record();
  EXPECT_NE(record.find("map of type 6 at 0xd020: 14/32 7/16 stride 16 swizzle 2 fill 1\n"),
            std::string::npos)
      << record;
  EXPECT_NE(record.find("params d000 7 3f800000 0 0 5a5a5a5a5a5a5a5a\n"), std::string::npos)
      << record;
  // Equal numbers, the same map; another address, another map.
  auto launchAt = [&](uint64_t address) {
    fake().reset();
    fake().params(6);
    error = cudaDevice().launch(*kernel, arguments(pointer(address, NRD_MEMORY_CUDA)), grid(1));
    return std::string(fake().record());
  };
  record = launchAt(0xd000);
  EXPECT_EQ(record.find("map of type"), std::string::npos) << record;
  EXPECT_NE(record.find("params d000 7 3f800000 0 0 5a5a5a5a5a5a5a5a\n"), std::string::npos)
      << record;
  EXPECT_NE(launchAt(0xe000).find("map of type 6 at 0xe020"), std::string::npos);
  EXPECT_EQ(launchAt(0xd000).find("map of type"), std::string::npos);
  // TensorMapRefused
  fake().fail("cuTensorMapEncodeTiled", 1);
  error = cudaDevice().launch(*kernel, arguments(pointer(0xf000, NRD_MEMORY_CUDA)), grid(1));
  ASSERT_TRUE(error);
  EXPECT_NE(
      error->message.find("the GPU cannot copy blocks of `p`: sizes [7, 14], strides in bytes "
                          "[16], address 0xF020: "),
      std::string::npos)
      << error->message;
}

/// What the engine cannot describe is zeros, and the kernel sees that.
TEST_F(CudaTest, LeavesOutOptionalTensorMaps) {
  using gpu::HostNumber;
  using Op = HostNumber::Op;
  auto with = info();
  gpu::TensorMapPlan plan;
  plan.name = "p";
  plan.element = gpu::TensorMapElement::Float16;
  plan.elementBytes = 2;
  plan.optional = true;
  plan.base = {{{Op::Argument, 0}}};
  plan.shape = {{{{Op::Argument, 1}, {Op::SignExtend, 32}}}, {{{Op::Constant, 64}}}};
  plan.strides = {{{{Op::Constant, 64}}}};
  plan.box = {16, 32};
  with.tensorMaps = {plan};
  auto launchOf = [&](uint64_t address) {
    auto kernel = make(with);
    fake().reset();
    fake().params(6);
    error = cudaDevice().launch(*kernel, arguments(pointer(address, NRD_MEMORY_CUDA)), grid(1));
    EXPECT_FALSE(error) << error->message;
    return std::string(fake().record());
  };
  auto isMade = [](const std::string &record) {
    EXPECT_NE(record.find("launch on"), std::string::npos) << record;
    return record.find("params") != std::string::npos &&
           record.find(" 5a5a5a5a5a5a5a5a\n") != std::string::npos;
  };
  EXPECT_TRUE(isMade(launchOf(0xd000)));
  EXPECT_FALSE(isMade(launchOf(0xd002)));
  for (auto [size, stride] : {std::pair<int64_t, int64_t>{0, 64},
                              {-1, 64},
                              {64, 63},
                              {64, 0},
                              {64, -64},
                              {64, int64_t(1) << 40}}) {
    with.tensorMaps[0].shape[0] = {{{Op::Constant, size}}};
    with.tensorMaps[0].strides[0] = {{{Op::Constant, stride}}};
    EXPECT_FALSE(isMade(launchOf(0xd000))) << size << " " << stride;
  }
  // The driver has the last word.
  with.tensorMaps[0] = plan;
  auto kernel = make(with);
  fake().reset();
  fake().params(6);
  fake().fail("cuTensorMapEncodeTiled", 1);
  error = cudaDevice().launch(*kernel, arguments(pointer(0xd000, NRD_MEMORY_CUDA)), grid(1));
  EXPECT_FALSE(error);
  EXPECT_FALSE(isMade(fake().record()));
  fake().fail("cuTensorMapEncodeTiled", 0);
  // A kernel looks at the first 16 bytes alone: a map with zeros there is as good as none.
  fake().mapStart(8);
  EXPECT_TRUE(isMade(launchOf(0xd000)));
  fake().mapStart(16);
  EXPECT_FALSE(isMade(launchOf(0xd000)));
  fake().mapStart(0);
  EXPECT_TRUE(isMade(launchOf(0xd000)));
}

TEST_F(CudaTest, AKernelNeverLaunchedIsNeverLoaded) {
  make(info()).reset();
  EXPECT_STREQ(fake().record(), "");
}

TEST_F(CudaTest, AnEmptyGridLaunchesNothing) {
  auto kernel = make(info());
  EXPECT_EQ(launch(*kernel, grid(4, 0)), "");
  EXPECT_EQ(std::string(fake().record()).find("launch"), std::string::npos);
}

TEST_F(CudaTest, TakesTheCurrentContextOfTheThread) {
  auto kernel = make(info());
  ASSERT_FALSE(cuda::setCurrentDevice(1));
  fake().reset();
  EXPECT_EQ(launch(*kernel, grid(1), pointer(0xd000, NRD_MEMORY_CUDA + 1)), "");
  EXPECT_EQ(std::string(fake().record()).find("push"), std::string::npos);
  EXPECT_NE(std::string(fake().record()).find("launch on 1"), std::string::npos);
  // Pointers of another device: there, and the thread's context is as before.
  fake().reset();
  EXPECT_EQ(launch(*kernel, grid(1), pointer(0xd000, NRD_MEMORY_CUDA)), "");
  EXPECT_EQ(
      std::string(fake().record()),
      "push 0\n"
      "launch on 0 grid 1,1,1 block 128,1,1 shared 0 stream (nil) params d000 7 3f800000 0 0\n"
      "pop 0\n");
  int device = -1;
  EXPECT_FALSE(cuda::currentDevice(device));
  EXPECT_EQ(device, 1);
  // A device by number.
  nrd_launch how = grid(1);
  how.device = 1;
  EXPECT_EQ(launch(*kernel, how), "");
  how.device = 9;
  EXPECT_EQ(launch(*kernel, how), "error: there is no CUDA device 8: 3 found"); // NoSuchCudaDevice
}

TEST_F(CudaTest, LaunchesLikeTheLastOne) { // LaunchPattern
  auto kernel = make(info());
  kernel->params[3].kind = ScalarKind::I32;
  const std::vector<RuleKind> kinds = {RuleKind::Usual, RuleKind::Usual, RuleKind::Usual,
                                       RuleKind::Constant};
  const nrd_arg onGpu = pointer(0xd000, NRD_MEMORY_CUDA);
  auto patternOf = [&](nrd_arg first) {
    EXPECT_EQ(launch(*kernel, grid(1), first), "");
    return LaunchPattern::of(*kernel, kinds, arguments(first), nullptr, grid(1),
                             kernel->ready.load());
  };
  auto pattern = patternOf(onGpu);
  ASSERT_TRUE(pattern);
  EXPECT_EQ(pattern->ready->number, 0);
  auto again = [&](const LaunchPattern &known, nrd_launch how, nrd_arg first) -> std::string {
    runtime::Slots slots;
    fake().reset();
    fake().params(5);
    auto args = arguments(first);
    bool ran = known.matches(args, nullptr, how, slots) &&
               cudaDevice().launchPacked(*kernel, args, slots, known.ready, how, error);
    EXPECT_FALSE(error);
    return ran ? fake().record() : "no";
  };
  const char *launched =
      "launch on 0 grid 1,1,1 block 128,1,1 shared 0 stream (nil) params e000 7 3f800000 0 0\n";
  EXPECT_EQ(again(*pattern, grid(1), pointer(0xe000, NRD_MEMORY_CUDA)), launched);
  EXPECT_EQ(again(*pattern, grid(1), pointer(0xe004, NRD_MEMORY_CUDA)), "no") << "alignment";
  EXPECT_EQ(again(*pattern, grid(1), pointer(0xe000, NRD_MEMORY_CUDA + 1)), "no");
  EXPECT_EQ(again(*pattern, grid(1), pointer(0xe000, NRD_MEMORY_UNKNOWN)), "no");
  EXPECT_EQ(again(*pattern, grid(1, 0), onGpu), "no") << "nothing to launch";
  nrd_launch how = grid(1);
  how.device = 2;
  EXPECT_EQ(again(*pattern, how, onGpu), "no") << "another device is wanted";
  how.device = 1;
  EXPECT_NE(again(*pattern, how, onGpu), "no");
  ASSERT_FALSE(cuda::setCurrentDevice(1));
  EXPECT_EQ(again(*pattern, grid(1), onGpu), "no") << "another context is current";
  ASSERT_FALSE(cuda::setCurrentDevice(0));
  EXPECT_NE(again(*pattern, grid(1), onGpu), "no");

  // Where an address has to be asked for, it is asked for each time.
  fake().memory(0xe000, 0);
  auto unknown = patternOf(pointer(0xe000, NRD_MEMORY_UNKNOWN));
  ASSERT_TRUE(unknown);
  EXPECT_EQ(again(*unknown, grid(1), pointer(0xe000, NRD_MEMORY_UNKNOWN)), "no") << "reset";
  fake().memory(0xe000, 0);
  runtime::Slots slots;
  EXPECT_TRUE(
      unknown->matches(arguments(pointer(0xe000, NRD_MEMORY_UNKNOWN)), nullptr, grid(1), slots));
  EXPECT_FALSE(
      unknown->matches(arguments(pointer(0xf000, NRD_MEMORY_UNKNOWN)), nullptr, grid(1), slots));
  EXPECT_FALSE(
      unknown->matches(arguments(pointer(0, NRD_MEMORY_UNKNOWN)), nullptr, grid(1), slots));
  // Pointers of several devices, and of the host, are looked at each time.
  EXPECT_FALSE(LaunchPattern::of(*kernel, kinds, arguments(pointer(8, NRD_MEMORY_CUDA + 1)),
                                 nullptr, grid(1), pattern->ready));
  EXPECT_FALSE(LaunchPattern::of(*kernel, kinds, arguments(pointer(8, NRD_MEMORY_HOST_TENSOR)),
                                 nullptr, grid(1), pattern->ready));
  // One beside a pointer to the device, too: it may have another address there, or none.
  std::vector<nrd_arg> beside = arguments(onGpu);
  beside.push_back(pointer(0x6000, NRD_MEMORY_HOST_TENSOR));
  kernel->params.push_back(kernel->params[0]);
  std::vector<RuleKind> more = kinds;
  more.push_back(RuleKind::Usual);
  EXPECT_FALSE(LaunchPattern::of(*kernel, more, beside, nullptr, grid(1), pattern->ready));
  beside.back() = onGpu;
  EXPECT_TRUE(LaunchPattern::of(*kernel, more, beside, nullptr, grid(1), pattern->ready));
}

TEST_F(CudaTest, LaunchesOnTheCpuLikeTheLastOne) {
  ASSERT_FALSE(cuda::check());
  auto kernel = make(info());
  kernel->request.target = TargetName{Backend::Cpu, 0};
  kernel->entry = kernel.get();
  const std::vector<RuleKind> kinds = {RuleKind::Usual, RuleKind::Usual, RuleKind::Usual,
                                       RuleKind::Constant};
  auto isAlike = [&](nrd_arg first, nrd_arg then) {
    auto pattern = LaunchPattern::of(*kernel, kinds, arguments(first), nullptr, grid(1), nullptr);
    runtime::Slots slots;
    return pattern ? pattern->matches(arguments(then), nullptr, grid(1), slots) : -1;
  };
  const nrd_arg tensor = pointer(0x5000, NRD_MEMORY_HOST_TENSOR),
                array = pointer(0x5000, NRD_MEMORY_HOST);
  fake().memory(0x8000, 0x6000);
  EXPECT_EQ(isAlike(tensor, pointer(0x7000, NRD_MEMORY_HOST_TENSOR)), 1);
  EXPECT_EQ(isAlike(tensor, pointer(0x6000, NRD_MEMORY_HOST_TENSOR)), 0) << "pinned now: the GPU";
  EXPECT_EQ(isAlike(tensor, pointer(0, NRD_MEMORY_HOST_TENSOR)), 0);
  EXPECT_EQ(isAlike(tensor, array), 0);
  EXPECT_EQ(isAlike(array, pointer(0x6000, NRD_MEMORY_HOST)), 1) << "arrays say it themselves";
  const nrd_arg unknown = pointer(0x5000, NRD_MEMORY_UNKNOWN);
  EXPECT_EQ(isAlike(unknown, pointer(0x7000, NRD_MEMORY_UNKNOWN)), 1);
  EXPECT_EQ(isAlike(unknown, pointer(0x8000, NRD_MEMORY_UNKNOWN)), 0) << "of a device";
  EXPECT_EQ(isAlike(pointer(0x8000, NRD_MEMORY_CUDA), unknown), -1) << "an error";
  EXPECT_EQ(isAlike(pointer(0x6000, NRD_MEMORY_HOST_TENSOR), tensor), -1);
  kernel->entry = nullptr;
}

TEST_F(CudaTest, CompiledKernelsThatAreReady) { // nrd_kernel_launch
  auto kernel = make(info());
  for (const ParamSlot &slot : kernel->params)
    kernel->packing.push_back(packingOf(slot));
  auto run = [&](std::vector<nrd_arg> args, nrd_launch how) -> std::string {
    fake().reset();
    fake().params(5);
    nrd_error *wrong = nrd_kernel_launch(kernel.get(), args.data(), args.size(), &how);
    std::string text = wrong ? nrd_error_summary(wrong) : fake().record();
    nrd_error_free(wrong);
    return text;
  };
  auto isLaunch = [](const std::string &text, const std::string &what) {
    return text.find("launch on " + what) != std::string::npos;
  };
  const std::string usual =
      "0 grid 1,1,1 block 128,1,1 shared 0 stream (nil) params d000 7 3f800000 0 0";
  nrd_arg onGpu = pointer(0xd000, NRD_MEMORY_CUDA), unknown = pointer(0xd000, NRD_MEMORY_UNKNOWN);
  auto all = arguments(onGpu), fewer = all;
  fewer.pop_back();
  EXPECT_EQ(kernel->ready.load(), nullptr);
  EXPECT_TRUE(isLaunch(run(all, grid(1)), usual)) << "the first launch loads";
  ASSERT_NE(kernel->ready.load(), nullptr);
  EXPECT_EQ(kernel->ready.load()->number, 0);
  for (const std::vector<nrd_arg> &args : {all, fewer, arguments(unknown)})
    EXPECT_EQ(run(args, grid(1)), "launch on " + usual + "\n");
  EXPECT_EQ(run(all, grid(1, 0)), "");
  EXPECT_TRUE(isLaunch(run(all, grid(3, 65535)), "0 grid 3,65535,1"));
  EXPECT_NE(run(all, grid(3, 65536)).find("65535"), std::string::npos);
  nrd_launch how = grid(1);
  how.device = 2;
  EXPECT_NE(run(all, how).find("is on device cuda:0"), std::string::npos);
  how.device = 9;
  EXPECT_NE(run(all, how).find("there is no CUDA device 8"), std::string::npos);
  // What is no usual argument is judged as before.
  auto wrong = all;
  wrong[1] = test::number(2.0);
  EXPECT_NE(run(wrong, grid(1)).find("`n`"), std::string::npos);
  wrong = all;
  wrong[2] = test::integer(2);
  EXPECT_TRUE(isLaunch(run(wrong, grid(1)), "0")) << "an integer for a float";
  EXPECT_NE(std::string(fake().record()).find("40000000"), std::string::npos);
  wrong = all;
  wrong[0].read_only = 1;
  EXPECT_NE(run(wrong, grid(1)).find("`p`"), std::string::npos);
  wrong.resize(2);
  EXPECT_NE(run(wrong, grid(1)).find("`x`"), std::string::npos);
  // Another device, another context, and back.
  EXPECT_TRUE(isLaunch(run(arguments(pointer(0xd000, NRD_MEMORY_CUDA + 1)), grid(1)), "1 grid"));
  EXPECT_TRUE(isLaunch(run(all, grid(1)), "0 grid"));
  ASSERT_FALSE(cuda::setCurrentDevice(1));
  EXPECT_TRUE(isLaunch(run(all, grid(1)), "0 grid"));
  EXPECT_TRUE(isLaunch(run(arguments(unknown), grid(1)), "1 grid"));
  ASSERT_FALSE(cuda::setCurrentDevice(0));
  EXPECT_EQ(run(arguments(unknown), grid(1)).substr(0, 11), "launch on 0");
  // A refused launch says why.
  fake().reset();
  fake().fail("cuLaunchKernel", 701);
  how = grid(1);
  nrd_error *refused = nrd_kernel_launch(kernel.get(), all.data(), all.size(), &how);
  ASSERT_NE(refused, nullptr);
  EXPECT_NE(std::string(nrd_error_summary(refused)).find("registers"), std::string::npos);
  nrd_error_free(refused);
  fake().fail("", 0);
  EXPECT_EQ(run(all, grid(1)).substr(0, 11), "launch on 0");
}

TEST_F(CudaTest, PointersOfSeveralDevices) { // PointerOnOtherGpu, PointersOnTwoGpus
  auto kernel = make(info());
  ASSERT_FALSE(cuda::setCurrentDevice(0));
  for (ParamSlot &slot : kernel->params) // k(p, n) of two pointers
    if (slot.name == "n")
      slot.kind = ScalarKind::Pointer;
  auto both = [&](int first, int second) {
    std::vector<nrd_arg> args = arguments(pointer(0xd000, NRD_MEMORY_CUDA + first));
    args[1] = pointer(0xe000, NRD_MEMORY_CUDA + second);
    fake().params(2);
    fake().reset();
    error = cudaDevice().launch(*kernel, args, grid(1));
    return error ? error->message : std::string(fake().record());
  };
  EXPECT_NE(both(0, 0).find("launch on 0"), std::string::npos);
  // Before and after the kernel has been there.
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_EQ(both(0, 1),
              "error: argument `n` is on cuda:1 and argument `p` on cuda:0, where the kernel runs: "
              "cuda:0 cannot access the memory of cuda:1, expected all arguments on one device");
    EXPECT_EQ(both(1, 0),
              "error: argument `p` is on cuda:1 and argument `n` on cuda:0, where the kernel runs: "
              "cuda:0 cannot access the memory of cuda:1, expected all arguments on one device")
        << "the current device decides";
    EXPECT_EQ(error->pythonClass, "ValueError");
    std::string there = both(1, 1);
    EXPECT_NE(there.find("push 1"), std::string::npos) << there;
    EXPECT_NE(there.find("launch on 1"), std::string::npos) << there;
  }
  // Of the host and of a device, in either order; pinned memory goes along.
  const std::string mixed =
      "error: argument `{0}` is on the CPU and argument `{1}` on cuda:0: expected all arguments on "
      "one device (pinned host memory may be mixed with a GPU's), move one with `.to(...)`\nnote: "
      "in Triton's words: Pointer argument (at {2}) cannot be accessed from Triton (cpu tensor?)";
  auto textOf = [&](const char *host, const char *device, int at) {
    return llvm::formatv(mixed.c_str(), host, device, at).str();
  };
  for (int memory : {NRD_MEMORY_HOST, NRD_MEMORY_HOST_TENSOR, NRD_MEMORY_UNPROVEN}) {
    int host = memory - NRD_MEMORY_CUDA;
    EXPECT_EQ(both(0, host), textOf("n", "p", 1)); // PointersInTwoPlaces
    EXPECT_EQ(both(host, 0), textOf("p", "n", 0));
  }
  // Where the way is open, the pointer is as good as any.
  fake().reset();
  std::vector<nrd_arg> args = arguments(pointer(0xd000, NRD_MEMORY_CUDA));
  args[1] = pointer(0xe000, NRD_MEMORY_CUDA + 1);
  fake().peer(0xe000);
  fake().params(2);
  EXPECT_FALSE(cudaDevice().launch(*kernel, args, grid(1)));
  EXPECT_NE(std::string(fake().record()).find("launch on 0"), std::string::npos);
  EXPECT_NE(std::string(fake().record()).find("params d000 e000"), std::string::npos);
}

TEST_F(CudaTest, ThreadsOnSeveralDevicesAndStreams) {
  auto kernel = make(info());
  constexpr int launches = 200;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      // Two threads stay on their device, two move to and fro under a device of their own.
      int home = thread % 2;
      if (cuda::setCurrentDevice(home))
        ++wrong;
      for (int i = 0; i < launches; ++i) {
        int device = thread < 2 ? home : i % 2;
        nrd_launch how = grid(1);
        how.with_stream = 1;
        how.stream = reinterpret_cast<void *>(uintptr_t(0x100 + thread));
        if (cudaDevice().launch(*kernel, arguments(pointer(0xd000, NRD_MEMORY_CUDA + device)), how))
          ++wrong;
        int current = -1;
        if (cuda::currentDevice(current) || current != home)
          ++wrong;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
  std::string record = fake().record();
  auto count = [&](const std::string &text) {
    int found = 0;
    for (size_t at = record.find(text); at != std::string::npos; at = record.find(text, at + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(count("load "), 1) << "one library for all devices";
  for (int thread = 0; thread < 4; ++thread)
    EXPECT_EQ(count("stream 0x10" + std::to_string(thread)), launches);
  EXPECT_EQ(count("launch on 0"), 2 * launches);
  EXPECT_EQ(count("launch on 1"), 2 * launches);
  EXPECT_EQ(count("push "), 2 * (launches / 2)) << "only where another device is current";
  EXPECT_EQ(count("pop "), count("push "));
}

TEST_F(CudaTest, OtherThreadsHaveContextsOfTheirOwn) {
  auto kernel = make(info());
  EXPECT_EQ(launch(*kernel, grid(1)), "");
  fake().reset();
  std::thread([&] { EXPECT_EQ(launch(*kernel, grid(1)), ""); }).join();
  EXPECT_EQ(std::string(fake().record()).rfind("set current 0\nlaunch on 0", 0), 0u)
      << fake().record();
}

TEST_F(CudaTest, Streams) {
  auto kernel = make(info());
  cuda::setStreamProvider([](int device) {
    streams.push_back(device);
    return reinterpret_cast<void *>(0x77);
  });
  EXPECT_EQ(launch(*kernel, grid(1)), "");
  EXPECT_NE(std::string(fake().record()).find("stream 0x77"), std::string::npos);
  EXPECT_EQ(streams, std::vector<int>{0});
  fake().reset();
  nrd_launch how = grid(1);
  how.stream = reinterpret_cast<void *>(0x99);
  EXPECT_EQ(launch(*kernel, how), "");
  EXPECT_NE(std::string(fake().record()).find("stream 0x99"), std::string::npos);
  fake().reset();
  how.stream = nullptr;
  how.with_stream = 1;
  EXPECT_EQ(launch(*kernel, how), "");
  EXPECT_NE(std::string(fake().record()).find("stream (nil)"), std::string::npos);
  EXPECT_EQ(streams.size(), 1u);
}

TEST_F(CudaTest, LargeSharedMemoryIsReservedOncePerDevice) {
  nvidia::LaunchInfo large = info();
  large.sharedBytes = 100000;
  large.numWarps = 8;
  auto kernel = make(large);
  EXPECT_EQ(launch(*kernel, grid(1)), "");
  EXPECT_EQ(launch(*kernel, grid(1)), "");
  EXPECT_EQ(launch(*kernel, grid(1), pointer(0xd000, NRD_MEMORY_CUDA + 1)), "");
  std::string record = fake().record();
  EXPECT_NE(record.find("attribute 8=100000 on 0"), std::string::npos);
  EXPECT_NE(record.find("attribute 8=100000 on 1"), std::string::npos);
  EXPECT_EQ(record.find("attribute 8=100000 on 0"), record.rfind("attribute 8=100000 on 0"));
  EXPECT_NE(record.find("block 256,1,1 shared 100000"), std::string::npos);
}

TEST_F(CudaTest, LaunchAttributes) {
  nvidia::LaunchInfo clusters = info();
  clusters.numCtas = 2;
  auto kernel = make(clusters);
  kernel->request.options.cooperative = true;
  kernel->request.options.pdl = true;
  kernel->onDevice = cudaDevice().attach(*kernel);
  EXPECT_EQ(launch(*kernel, grid(3)), "");
  EXPECT_NE(std::string(fake().record())
                .find("grid 6,1,1 block 128,1,1 shared 0 stream (nil) attribute 2=1 attribute 6=1 "
                      "attribute 4=2 params"),
            std::string::npos)
      << fake().record();
}

TEST_F(CudaTest, LargeClusters) { // GpuGridTooLarge
  nvidia::LaunchInfo clusters = info();
  clusters.numCtas = 8;
  EXPECT_EQ(launch(*make(clusters), grid(3)), "");
  EXPECT_EQ(std::string(fake().record()).find("attribute 14="), std::string::npos);
  clusters.numCtas = 16; // more than every GPU can run
  auto kernel = make(clusters);
  EXPECT_EQ(launch(*kernel, grid(3)), "");
  EXPECT_NE(std::string(fake().record()).find("attribute 14=1 on 0"), std::string::npos)
      << fake().record();
  EXPECT_EQ(launch(*kernel, grid(134217727)), "");
  EXPECT_EQ(launch(*kernel, grid(134217728)),
            "error: the grid's dimension 0 is 134217728: the GPU accepts at most 134217727");
  fake().clusters(0);
  EXPECT_NE(launch(*make(clusters), grid(3))
                .find("more blocks of a cluster (`num_ctas`, or NEREID_CLUSTERS=0 where it is not "
                      "given) than the device has: expected at most 8, found 16"),
            std::string::npos);
  EXPECT_EQ(launch(*kernel, grid(3)), ""); // it was asked before
  clusters.numCtas = 8;
  EXPECT_EQ(launch(*make(clusters), grid(3)), "");
}

/// The device has 132 multiprocessors.
TEST_F(CudaTest, ClustersFillTheDevice) {
  nvidia::LaunchInfo splits = info();
  splits.mostSplits = 8;
  splits.splitRule.extent.steps = {{gpu::HostNumber::Op::Constant, 1000}};
  splits.splitRule.divisor = 10;
  splits.splitRule.least = {10, 20, 100};
  auto kernel = make(splits);
  auto launched = [&](nrd_launch how) {
    EXPECT_EQ(launch(*kernel, how), "");
    std::string record = fake().record();
    return record.substr(record.rfind("grid "));
  };
  EXPECT_EQ(launched(grid(3)).find("grid 24,1,1 block 128,1,1 shared 0 stream (nil) attribute 4=8"),
            0u);
  EXPECT_EQ(
      launched(grid(2, 8)).find("grid 16,8,1 block 128,1,1 shared 0 stream (nil) attribute 4=8"),
      0u);
  EXPECT_EQ(
      launched(grid(17)).find("grid 68,1,1 block 128,1,1 shared 0 stream (nil) attribute 4=4"), 0u);
  EXPECT_EQ(
      launched(grid(66)).find("grid 132,1,1 block 128,1,1 shared 0 stream (nil) attribute 4=2"),
      0u);
  EXPECT_EQ(launched(grid(67)).find("grid 67,1,1 block 128,1,1 shared 0 stream (nil) params"), 0u);
  // The second argument, 7: enough iterations for two blocks only, then for none.
  nvidia::LaunchInfo few = splits;
  few.splitRule.extent.steps = {{gpu::HostNumber::Op::Argument, 1},
                                {gpu::HostNumber::Op::SignExtend, 32}};
  few.splitRule.divisor = 1;
  few.splitRule.least = {7, 8, 100};
  kernel = make(few);
  EXPECT_EQ(launched(grid(3)).find("grid 6,1,1 block 128,1,1 shared 0 stream (nil) attribute 4=2"),
            0u);
  few.splitRule.divisor = 2;
  kernel = make(few);
  EXPECT_EQ(launched(grid(3)).find("grid 3,1,1 block 128,1,1 shared 0 stream (nil) params"), 0u);
  // All programs of a cooperative grid run at the same time; the next grid waits for nobody.
  for (bool pdl : {false, true}) {
    kernel = make(splits);
    kernel->request.options.cooperative = !pdl;
    kernel->request.options.pdl = pdl;
    kernel->onDevice = cudaDevice().attach(*kernel);
    EXPECT_EQ(launched(grid(3)).find("grid 3,1,1"), 0u);
  }
}

/// The grid stays as it is; with an odd number of programs along x each is alone.
TEST_F(CudaTest, ProgramsAreStartedInPairs) {
  nvidia::LaunchInfo pairs = info();
  pairs.pairs = true;
  auto kernel = make(pairs);
  auto launched = [&](nrd_launch how) {
    EXPECT_EQ(launch(*kernel, how), "");
    std::string record = fake().record();
    return record.substr(record.rfind("grid "));
  };
  EXPECT_EQ(
      launched(grid(132)).find("grid 132,1,1 block 128,1,1 shared 0 stream (nil) attribute 4=2"),
      0u);
  EXPECT_EQ(
      launched(grid(2, 3)).find("grid 2,3,1 block 128,1,1 shared 0 stream (nil) attribute 4=2"),
      0u);
  EXPECT_EQ(launched(grid(3, 2)).find("grid 3,2,1 block 128,1,1 shared 0 stream (nil) params"), 0u);
  for (bool pdl : {false, true}) {
    kernel = make(pairs);
    kernel->request.options.cooperative = !pdl;
    kernel->request.options.pdl = pdl;
    kernel->onDevice = cudaDevice().attach(*kernel);
    EXPECT_EQ(launched(grid(4)).find("attribute 4="), std::string::npos);
  }
}

/// Of blocks of 128 threads without shared memory three fit on each of 132 multiprocessors, with
/// shared memory one, and of clusters 16 on the device (fake_cuda.c).
TEST_F(CudaTest, PersistentKernels) {
  nvidia::LaunchInfo persistent = info();
  persistent.isPersistent = true;
  auto launched = [&](const nrd_kernel &kernel, nrd_launch how) {
    EXPECT_EQ(launch(kernel, how), "");
    std::string record = fake().record();
    return record.substr(record.rfind("grid "));
  };
  auto has = [](const std::string &record, const char *grid, const char *programs) {
    return record.find(grid) == 0 && record.find(programs) != std::string::npos;
  };
  auto kernel = make(persistent);
  // The last parameter is the number of programs along x.
  std::string record = launched(*kernel, grid(1000));
  EXPECT_TRUE(has(record, "grid 396,1,1 block 128,1,1", "3f800000 0 3e8\n")) << record;
  record = launched(*kernel, grid(100));
  EXPECT_TRUE(has(record, "grid 100,1,1 ", "3f800000 0 64\n")) << record;
  record = launched(*kernel, grid(100, 10)); // 39.6 of each row of the grid
  EXPECT_TRUE(has(record, "grid 40,10,1 ", "3f800000 0 64\n")) << record;
  record = launched(*kernel, grid(100, 1000));
  EXPECT_TRUE(has(record, "grid 1,1000,1 ", "3f800000 0 64\n")) << record;
  // It is asked once.
  std::string all = fake().record();
  EXPECT_EQ(all.find("blocks of 128 threads with 0 bytes"),
            all.rfind("blocks of 128 threads with 0 bytes"));

  persistent.sharedBytes = 100000;
  kernel = make(persistent);
  record = launched(*kernel, grid(1000));
  EXPECT_TRUE(has(record, "grid 132,1,1 ", "3f800000 0 3e8\n")) << record;
  persistent.numCtas = 8;
  kernel = make(persistent);
  record = launched(*kernel, grid(1000));
  EXPECT_TRUE(has(record, "grid 128,1,1 ", "attribute 4=8")) << record;
  EXPECT_NE(record.find("3f800000 0 3e8\n"), std::string::npos) << record;
  record = launched(*kernel, grid(3));
  EXPECT_TRUE(has(record, "grid 24,1,1 ", "3f800000 0 3\n")) << record;

  fake().fail("cuOccupancyMaxActiveClusters", 2);
  EXPECT_EQ(launch(*make(persistent), grid(3)), // CudaCallFailed
            "run-time error: the GPU's driver failed to count the blocks of `k` that fit: "
            "CUDA_ERROR_OTHER: words of the driver");
}

TEST_F(CudaTest, ScratchMemoryIsOfTheStream) {
  nvidia::LaunchInfo scratch = info();
  scratch.globalScratchBytes = 64;
  auto kernel = make(scratch);
  EXPECT_EQ(launch(*kernel, grid(3)), "");
  std::string record = fake().record();
  EXPECT_NE(record.find("allocate 192\nlaunch on"), std::string::npos);
  EXPECT_NE(record.find("params d000 7 3f800000 abc000 0\nfree\n"), std::string::npos);
  fake().fail("cuMemAllocAsync", 2);
  EXPECT_EQ(launch(*kernel, grid(3)), // CudaCallFailed
            "run-time error: the GPU's driver failed to reserve scratch memory for `k`: "
            "CUDA_ERROR_OTHER: words of the driver");
  EXPECT_EQ(error->kind, NRD_ERROR_RESOURCES);
}

TEST_F(CudaTest, PointersOfTheHost) { // PointerNotOnGpu
  auto kernel = make(info());
  const char *text = "error: argument `p` is in memory of the CPU, and the kernel runs on the GPU: "
                     "move it with `.to(\"cuda\")`\nnote: in Triton's words: Pointer argument (at "
                     "0) cannot be accessed from Triton (cpu tensor?)";
  EXPECT_EQ(launch(*kernel, grid(1), pointer(0x5000, NRD_MEMORY_HOST_TENSOR)), text);
  EXPECT_EQ(error->pythonClass, "ValueError");
  EXPECT_EQ(launch(*kernel, grid(1), pointer(0x5000, NRD_MEMORY_HOST)), text);
  // Of the address of somebody's own class the driver is asked; a mere address is taken as it is.
  EXPECT_EQ(launch(*kernel, grid(1), pointer(0x5000, NRD_MEMORY_UNPROVEN)), text);
  EXPECT_EQ(launch(*kernel, grid(1), pointer(0x5000, NRD_MEMORY_UNKNOWN)), "");
  fake().memory(0x5000, 0);
  EXPECT_EQ(launch(*kernel, grid(1), pointer(0x5000, NRD_MEMORY_UNPROVEN)), "");
  EXPECT_EQ(launch(*kernel, grid(1), pointer(0, NRD_MEMORY_UNPROVEN)), "");
  // Pinned memory has an address of its own on the GPU; a null pointer is a null pointer anywhere.
  fake().memory(0, 0x6000);
  EXPECT_EQ(launch(*kernel, grid(1), pointer(0x6000, NRD_MEMORY_HOST_TENSOR)), "");
  EXPECT_NE(std::string(fake().record()).find("params 7000 7"), std::string::npos);
  EXPECT_EQ(launch(*kernel, grid(1), pointer(0, NRD_MEMORY_HOST_TENSOR)), "");
}

TEST_F(CudaTest, OutOfDeviceResources) { // OfConfiguration, MostOfResource
  EXPECT_EQ(resourceError("shared memory", 300000, 232448, "k", "num_warps=4",
                          "262144 bytes for a buffer of 256x256 f32 (line 7)")
                ->message,
            "error: the kernel needs more shared memory than the device has: expected at most "
            "232448, found 300000; use smaller blocks or lower `num_stages`\nnote: in Triton's "
            "words: out of resource: shared memory, Required: 300000, Hardware limit: 232448. "
            "Reducing block sizes or `num_stages` may help.\nnote: `k` with num_warps=4\nnote: "
            "most of it: 262144 bytes for a buffer of 256x256 f32 (line 7)");
  nvidia::LaunchInfo large = info();
  large.sharedBytes = 262176;
  large.numWarps = 8;
  auto kernel = make(large);
  kernel->request.options.numWarps = 8;
  EXPECT_EQ(
      launch(*kernel, grid(1)),
      "error: the kernel needs more shared memory than the device has: expected at most 232448, "
      "found 262176; use smaller blocks or lower `num_stages`\nnote: in Triton's words: out of "
      "resource: shared memory, Required: 262176, Hardware limit: 232448. Reducing block sizes or "
      "`num_stages` may help.\nnote: `k` with num_warps=8, num_stages=3, BLOCK=128");
  EXPECT_EQ(error->kind, NRD_ERROR_RESOURCES);
  EXPECT_EQ(error->resource, "shared memory");
  EXPECT_EQ(error->required, 262176);
  EXPECT_EQ(error->limit, 232448);

  fake().kernel(0, 0, 128);
  nvidia::LaunchInfo wide = info();
  wide.numWarps = 8;
  EXPECT_EQ(
      launch(*make(wide), grid(1)).substr(0, 89),
      "error: the kernel needs more threads than the device has: expected at most 128, found 256");
  fake().reset();
  fake().fail("cuLaunchKernel", 701);
  EXPECT_EQ(launch(*make(info()), grid(1)).substr(0, 58),
            "error: the kernel needs more registers than the device has");
}

TEST_F(CudaTest, GridsBeyondTheLimit) { // GpuGridTooLarge, CooperativeTooLarge
  auto kernel = make(info());
  EXPECT_EQ(launch(*kernel, grid(2147483647, 65535, 65535)), "");
  EXPECT_EQ(launch(*kernel, grid(1, 65536)),
            "error: the grid's dimension 1 is 65536: the GPU accepts at most 65535");
  EXPECT_EQ(launch(*kernel, grid(1, 1, 70000)),
            "error: the grid's dimension 2 is 70000: the GPU accepts at most 65535");
  fake().fail("cuLaunchKernel", 720);
  EXPECT_EQ(launch(*kernel, grid(5000)), "error: a cooperative launch runs all programs at once: "
                                         "5000 programs of `k` do not fit the GPU");
}

TEST_F(CudaTest, OtherArchitectures) { // ArchitectureMismatch
  auto kernel = make(info());
  EXPECT_EQ(launch(*kernel, grid(1), pointer(0xd000, NRD_MEMORY_CUDA + 2)),
            "error: `k` was compiled for sm_90, but the GPU (Fake GPU 2) is sm_80");
  nvidia::LaunchInfo blackwell = info();
  blackwell.arch = 100;
  blackwell.archSpecific = true;
  EXPECT_EQ(launch(*make(blackwell), grid(1)),
            "error: `k` was compiled for sm_100a, but the GPU (Fake GPU 0) is sm_90");
}

TEST_F(CudaTest, RefusedCode) { // CudaLoadFailed, CudaLaunchFailed
  auto kernel = make(info());
  fake().fail("cuLibraryLoadData", 200);
  EXPECT_EQ(launch(*kernel, grid(1)), "run-time error: the GPU's driver refuses the code of `k`: "
                                      "CUDA_ERROR_INVALID_IMAGE: words of the driver");
  fake().fail("", 0);
  EXPECT_EQ(launch(*kernel, grid(1)), "") << "a failed load is tried again";
  fake().fail("cuLaunchKernel", 1);
  EXPECT_EQ(launch(*kernel, grid(1)),
            "run-time error: `k` could not be launched: CUDA_ERROR_OTHER: words of the driver");
}

TEST_F(CudaTest, AFailedKernelIsNamedAtTheNextCall) { // KernelFailedOnGpu
  auto kernel = make(info());
  kernel->name = "k";
  EXPECT_EQ(launch(*kernel, grid(1)), "");
  fake().fail("cuCtxSynchronize", 700);
  error = cuda::synchronize(0);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->message.rfind("run-time error: a kernel failed on the GPU: "
                                 "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was "
                                 "encountered; launched last: `k`",
                                 0),
            0u)
      << error->message;
  fake().fail("cuLaunchKernel", 710);
  EXPECT_NE(launch(*kernel, grid(1)).find("CUDA_ERROR_ASSERT"), std::string::npos);
}

TEST_F(CudaTest, Properties) {
  nvidia::LaunchInfo shared = info();
  shared.sharedBytes = 1000;
  auto kernel = make(shared);
  fake().kernel(24, 16, 512);
  nrd_kernel_properties found;
  ASSERT_FALSE(cudaDevice().properties(*kernel, 1, found));
  EXPECT_EQ(found.registers, 40);
  EXPECT_EQ(found.spills, 4);
  EXPECT_EQ(found.max_threads, 512);
  EXPECT_EQ(found.shared_bytes, 1024);
  EXPECT_EQ(found.function, reinterpret_cast<void *>(0x4001)) << "that of device 1";
  llvm::json::Object gpu;
  ASSERT_FALSE(cuda::properties(2, gpu));
  EXPECT_EQ(gpu.getString("name"), "Fake GPU 2");
  EXPECT_EQ(gpu.getInteger("arch"), 80);
  EXPECT_EQ(gpu.getInteger("max_shared_mem"), 232448);
  EXPECT_EQ(cuda::driverVersion(), "13.0");
}

TEST_F(CudaTest, LaunchesOfTheCppHeader) {
  auto kernel = make(info());
  fake().peer(0xd000);
  nrd_launch how =
      nereid::detail::rawLaunch(Launch({4}).withStream(reinterpret_cast<void *>(0x99)).onDevice(1));
  EXPECT_EQ(launch(*kernel, how), "");
  EXPECT_NE(std::string(fake().record()).find("launch on 1 grid 4,1,1"), std::string::npos);
  EXPECT_NE(std::string(fake().record()).find("stream 0x99"), std::string::npos);
  EXPECT_EQ(nereid::detail::rawLaunch(Launch({4})).with_stream, 0) << "the current one";
  EXPECT_EQ(nereid::detail::rawLaunch(Launch({4}).withStream(nullptr)).with_stream, 1)
      << "the default one";
  EXPECT_EQ(nereid::detail::rawLaunch(Launch({4})).device, 0);
  fake().reset();
  synchronize(1);
  EXPECT_NE(std::string(fake().record()).find("synchronize 1"), std::string::npos);
}

TEST_F(CudaTest, ChoiceOfTheTarget) {
  auto choose = [&](std::vector<nrd_arg> args, const runtime::Options *options = nullptr) {
    TargetName target;
    int device;
    ErrorPtr failed = chooseTarget(options, args, nullptr, target, device);
    return failed ? failed->summary : target.text();
  };
  EXPECT_EQ(choose({}), "cuda:90");
  EXPECT_EQ(choose({pointer(8, NRD_MEMORY_HOST)}), "cpu");
  EXPECT_EQ(choose({pointer(8, NRD_MEMORY_HOST_TENSOR)}), "cpu");
  EXPECT_EQ(choose({pointer(0, NRD_MEMORY_HOST_TENSOR)}), "cpu") << "without elements";
  EXPECT_EQ(choose({pointer(8, NRD_MEMORY_HOST), pointer(8, NRD_MEMORY_CUDA + 2)}), "cuda:80");
  EXPECT_EQ(choose({pointer(8, NRD_MEMORY_UNKNOWN)}), "cpu");
  EXPECT_EQ(choose({pointer(8, NRD_MEMORY_UNPROVEN)}), "cpu");
  EXPECT_EQ(choose({pointer(0, NRD_MEMORY_UNKNOWN)}), "cuda:90") << "null says nothing";
  fake().memory(8, 0);
  EXPECT_EQ(choose({pointer(8, NRD_MEMORY_UNKNOWN)}), "cuda:90");
  EXPECT_EQ(choose({pointer(8, NRD_MEMORY_UNPROVEN)}), "cuda:90");
  EXPECT_EQ(choose({pointer(16, NRD_MEMORY_HOST_TENSOR), pointer(8, NRD_MEMORY_UNKNOWN)}),
            "cuda:90")
      << "the launch refuses it";
  // Pinned memory goes along with either, alone to the GPU; an array is one of the host wherever it
  // lies.
  fake().memory(0, 8);
  const nrd_arg pinned = pointer(8, NRD_MEMORY_HOST_TENSOR);
  EXPECT_EQ(choose({pinned}), "cuda:90");
  EXPECT_EQ(choose({pinned, pointer(0, NRD_MEMORY_HOST_TENSOR)}), "cuda:90");
  EXPECT_EQ(choose({pinned, pointer(16, NRD_MEMORY_HOST_TENSOR)}), "cpu");
  EXPECT_EQ(choose({pinned, pointer(16, NRD_MEMORY_HOST)}), "cpu");
  EXPECT_EQ(choose({pinned, pointer(16, NRD_MEMORY_CUDA + 2)}), "cuda:80");
  EXPECT_EQ(choose({pointer(8, NRD_MEMORY_HOST)}), "cpu");
  EXPECT_EQ(nrd_cuda_is_pinned(reinterpret_cast<void *>(8)), 1);
  EXPECT_EQ(nrd_cuda_is_pinned(reinterpret_cast<void *>(16)), 0);
  fake().memory(8, 0);
  // Strict mode sends tensors of the host to the GPU, where they are refused.
  runtime::Options strict;
  strict.strict = strict.strictSet = true;
  EXPECT_EQ(choose({pointer(16, NRD_MEMORY_HOST_TENSOR)}, &strict), "cuda:90");
  EXPECT_EQ(choose({pointer(16, NRD_MEMORY_HOST)}, &strict), "cpu");

  runtime::Options cpu, cuda, ampere;
  auto set = [](runtime::Options &options, const char *text) {
    EXPECT_FALSE(options.set("target", nrd_value{frontend::Value(std::string(text)), "", {}, {}}));
  };
  set(cpu, "cpu");
  set(cuda, "cuda");
  set(ampere, "cuda:80");
  EXPECT_EQ(choose({}, &cpu), "cpu");
  EXPECT_EQ(choose({pointer(8, NRD_MEMORY_HOST)}, &cuda), "cuda:90");
  EXPECT_EQ(choose({}, &ampere), "cuda:80");

  // A demand counts for all launches, the fall-back where the arguments say nothing.
  const nrd_arg onGpu = pointer(16, NRD_MEMORY_CUDA), onHost = pointer(16, NRD_MEMORY_HOST_TENSOR);
  EXPECT_FALSE(nrd_set_fallback_target("cpu"));
  EXPECT_EQ(choose({}), "cpu");
  EXPECT_EQ(choose({onGpu}), "cuda:90");
  EXPECT_EQ(choose({onHost}, &strict), "cpu") << "the GPU is not the default";
  EXPECT_FALSE(nrd_set_fallback_target("cuda:80"));
  EXPECT_EQ(choose({}), "cuda:80");
  EXPECT_EQ(choose({onHost}), "cpu");
  EXPECT_FALSE(nrd_set_default_target("cuda"));
  EXPECT_EQ(choose({onHost}), "cuda:90");
  char *text = nullptr;
  int device = -2;
  EXPECT_FALSE(nrd_target_of_arguments(&onHost, 1, nullptr, &text, &device));
  EXPECT_EQ(std::string(text) + " " + std::to_string(device), "cuda:90 0");
  nrd_string_free(text);
  EXPECT_FALSE(nrd_set_default_target("cpu"));
  EXPECT_EQ(choose({}), "cpu");
  EXPECT_EQ(choose({onGpu}), "cpu");
  EXPECT_FALSE(nrd_target_of_arguments(&onGpu, 1, nullptr, &text, &device));
  EXPECT_EQ(std::string(text) + " " + std::to_string(device), "cpu -1");
  nrd_string_free(text);
  EXPECT_EQ(choose({}, &cuda), "cuda:90");
  EXPECT_FALSE(nrd_set_default_target(nullptr));
  nrd_error *unknown = nrd_set_default_target("abacus");
  ASSERT_TRUE(unknown);
  nrd_error_free(unknown);
  EXPECT_EQ(choose({}), "cuda:90");
}

TEST(NoCuda, Texts) { // NoCudaDriver, CudaDriverTooOld, NoCudaDevice: tests/runtime/test_no_gpu.py
  EXPECT_EQ(
      makeError(NRD_ERROR_RUNTIME, "", diag::CudaDriverTooOld, "cuLibraryLoadData")->summary,
      "the NVIDIA driver is too old: it lacks `cuLibraryLoadData`, expected CUDA 12.0 or newer");
  EXPECT_EQ(makeError(NRD_ERROR_ARGUMENT, "", diag::TargetNotBuilt, "hip:1")->summary,
            "this build has no code generator for `hip:1`");
  EXPECT_EQ(makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::CheckedOnGpu, "cuda")->summary,
            "checked mode runs kernels on the CPU: it cannot be combined with the target `cuda`");
  EXPECT_EQ(
      makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::PointerNotOnCpu, "p", "cuda:1")->summary,
      "argument `p` is on device cuda:1, but the kernel runs on the CPU (cpu tensor expected)");
}

} // namespace
