// What each form of a launch says of each mistake: a test a mistake. A form either refuses it or
// specialises anew for what it was given, and is right.
#include "common.h"

using namespace nereid;
using nereid::test::CApi;

namespace {

class LaunchFormsTest : public CApi {
protected:
  // 64 numbers, and 16-byte aligned memory that begins 4 bytes earlier.
  std::vector<float> x = std::vector<float>(72, 1.5f), y = std::vector<float>(72);
  std::vector<int64_t> longs = std::vector<int64_t>(72);
  std::vector<int32_t> ints = std::vector<int32_t>(72);
  std::vector<uint32_t> words = std::vector<uint32_t>(72);
  Launch one{1};

  static std::string text(const Status &status) {
    return status ? "" : std::string(status.error().what());
  }

  /// What two forms say of the same arguments: the kernel that is compiled for a signature, and its
  /// tile IR as a function, whose parameters have these types.
  struct Said {
    std::string compiled, tile;
  };
  template <typename... Args>
  Said say(const char *name, std::vector<std::string> signature, const Launch &how,
           Args &&...args) {
    Said said;
    Function function = module.function(name);
    Kernel kernel = function.compile(signature, options());
    said.compiled = text(kernel.tryLaunch(how, args...));
    nrd_module *file = nullptr;
    std::string_view ir = kernel.stage("tile");
    EXPECT_EQ(take(nrd_module_parse_tile(ir.data(), ir.size(), "copy.tile", &file)), "");
    FunctionHandle tile;
    EXPECT_EQ(take(nrd_function_create(file, nullptr, nullptr, nullptr, tile.out())), "");
    const std::array<Argument, sizeof...(Args)> list{Argument(args)...};
    nrd_launch raw = nereid::detail::rawLaunch(how);
    said.tile =
        take(nrd_dispatch(tile.get(), list.data(), list.size(), options().get(), &raw, nullptr));
    nrd_module_free(file);
    return said;
  }
  static const Options &options() {
    static const Options cpu = std::move(Options().set("target", "cpu"));
    return cpu;
  }
};

const std::vector<std::string> plain = {"*fp32", "*fp32", "i32", "64"};
const std::vector<std::string> aligned = {"*fp32:16", "*fp32:16", "i32:16", "64"};

TEST_F(LaunchFormsTest, RightArguments) {
  Said said = say("copy", plain, one, x, y, 64);
  EXPECT_EQ(said.compiled, "");
  EXPECT_EQ(said.tile, "");
  EXPECT_EQ(y[63], 1.5f);
}

TEST_F(LaunchFormsTest, AnotherElementType) {
  const char *expected =
      "argument `x` of `copy`: expected a pointer to `fp32`, found a pointer to `i64`";
  Said said = say("copy", plain, one, longs, y, 64);
  EXPECT_NE(said.compiled.find(expected), std::string::npos) << said.compiled;
  EXPECT_NE(said.tile.find("expected a pointer to `fp32`, found a pointer to `i64`"),
            std::string::npos)
      << said.tile;
}

TEST_F(LaunchFormsTest, AnotherSign) {
  Kernel kernel = module.function("copy").compile({"*i32", "*i32", "i32", "64"}, options());
  EXPECT_EQ(text(kernel.tryLaunch(one, ints, ints, 64)), "");
  EXPECT_EQ(text(kernel.tryLaunch(one, ints, words, 64)),
            "error: argument `y` of `copy`: expected a pointer to `i32`, found a pointer to `u32`");
}

TEST_F(LaunchFormsTest, IntegerForPointer) {
  Said said = say("copy", plain, one, 12345, y, 64);
  EXPECT_EQ(said.compiled, "error: argument `x` of `copy`: expected a pointer, found an integer");
  EXPECT_NE(said.tile.find("expected a pointer, found an integer"), std::string::npos) << said.tile;
}

TEST_F(LaunchFormsTest, NumberThatDoesNotFit) {
  Said said = say("copy", plain, one, x, y, (1ll << 40) + 5);
  const char *expected = "error: 1099511627781 does not fit the type of `n`, which is `i32`";
  EXPECT_EQ(said.compiled, expected);
  EXPECT_NE(said.tile.find("1099511627781 does not fit the type of `"), std::string::npos)
      << said.tile;
  EXPECT_EQ(say("copy", plain, one, x, y, -(1ll << 31) - 1).compiled,
            "error: -2147483649 does not fit the type of `n`, which is `i32`");
  EXPECT_EQ(say("copy", plain, one, x, y, ~0ull).compiled,
            "error: 18446744073709551615 does not fit the type of `n`, which is `i32`");
  EXPECT_EQ(say("copy", {"*fp32", "*fp32", "u32", "64"}, one, x, y, -1).compiled,
            "error: -1 does not fit the type of `n`, which is `u32`");
  // By name the kernel is one for the number, or the typed call says what is wrong.
  EXPECT_EQ(text(module.function("copy").tryLaunch(one, x, y, (1ll << 40) + 5, 64)), "");
  auto typed = module.kernel<const float *, float *, int, constexpr_<64>>("copy");
  EXPECT_NE(text(typed.tryLaunch(one, x, y, (1ll << 40) + 5)).find("does not fit its type"),
            std::string::npos);
}

TEST_F(LaunchFormsTest, FloatForInteger) {
  Said said = say("copy", plain, one, x, y, 2.5);
  EXPECT_EQ(said.compiled, "error: argument `n` of `copy`: expected an integer, found a float");
  EXPECT_NE(said.tile, "");
}

TEST_F(LaunchFormsTest, NoneForPointer) {
  EXPECT_EQ(say("copy", plain, one, nullptr, y, 64).compiled,
            "error: argument `x` of `copy`: expected a pointer, found None");
}

TEST_F(LaunchFormsTest, BrokenPromises) {
  Kernel kernel = module.function("copy").compile(aligned, options());
  float *base = x.data();
  while (uintptr_t(base) % 16)
    ++base;
  EXPECT_EQ(text(kernel.tryLaunch(one, base, base, 48)), "");
  std::string found = text(kernel.tryLaunch(one, base + 1, base, 48));
  EXPECT_NE(found.find("argument `x` of `copy`: expected an address that is a multiple of 16, as "
                       "`*fp32:16` promises, found 0x"),
            std::string::npos)
      << found;
  EXPECT_EQ(text(kernel.tryLaunch(one, base, base, 47)),
            "error: argument `n` of `copy`: expected a multiple of 16, as `i32:16` promises, found "
            "47");
  // By name another kernel is taken.
  EXPECT_EQ(text(module.function("copy").tryLaunch(one, base + 1, base + 2, 5, 64)), "");
}

TEST_F(LaunchFormsTest, WrongNumberOfArguments) { // CompiledTakesConstants, CompiledTakes
  Kernel bare = module.function("assertion").compile({"*fp32", "fp32"}, options());
  EXPECT_EQ(text(bare.tryLaunch(one, x)), "error: `assertion` needs a value for its parameter "
                                          "`limit`\nnote: the compiled kernel takes `x`, `limit`");
  Kernel kernel = module.function("copy").compile(plain, options());
  const std::string takes = "\nnote: the compiled kernel takes `x`, `y`, `n`, or all parameters of "
                            "its function with the constants `BLOCK`";
  EXPECT_EQ(text(kernel.tryLaunch(one, x, y)),
            "error: `copy` needs a value for its parameter `n`" + takes);
  EXPECT_EQ(text(kernel.tryLaunch(one, x, y, 64, 64, 64)),
            "error: `copy` takes 4 arguments, 5 were given" + takes);
  EXPECT_EQ(text(kernel.tryLaunch(one)),
            "error: `copy` needs a value for its parameter `x`" + takes);
}

TEST_F(LaunchFormsTest, AnotherConstant) {
  Kernel kernel = module.function("copy").compile(plain, options());
  EXPECT_EQ(text(kernel.tryLaunch(one, x, y, 64, 64)), "");
  EXPECT_EQ(text(kernel.tryLaunch(one, x, y, 64, 128)),
            "error: argument `BLOCK` of `copy`: expected `64`, which it was compiled for, found "
            "`128`");
  EXPECT_EQ(text(kernel.tryLaunch(one, x, y, 64, nullptr)),
            "error: argument `BLOCK` of `copy`: expected `64`, which it was compiled for, found "
            "None");
  // An integer that is folded because it is 1.
  Kernel folded = module.function("copy").compile({"*fp32", "*fp32", "i32:1", "64"}, options());
  EXPECT_EQ(text(folded.tryLaunch(one, x, y, 1, 64)), "");
  EXPECT_NE(text(folded.tryLaunch(one, x, y, 2, 64)).find("expected `1`"), std::string::npos);
}

TEST_F(LaunchFormsTest, ChecksThatAreAskedFor) {
  std::vector<float> small(5), large(64);
  Kernel kernel = module.function("no_mask").compile({"*fp32", "*fp32", "64"}, options());
  for (int turn = 0; turn < 2; ++turn) {
    std::string found = text(kernel.tryLaunch(one.withChecks(), large, small));
    EXPECT_NE(found.find("`y`"), std::string::npos) << found;
    EXPECT_NE(found.find("0"), std::string::npos) << found;
  }
  EXPECT_EQ(text(kernel.tryLaunch(one.withChecks(), large, large)), "");
  EXPECT_NE(
      text(module.function("no_mask").tryLaunch(options(), one.withChecks(), large, small, 64)),
      "");
}

TEST_F(LaunchFormsTest, MemoryOfAnotherDevice) {
  Kernel kernel = module.function("copy").compile(plain, options());
  nrd_arg args[] = {Argument(x), Argument(y), Argument(64)};
  args[1].memory = NRD_MEMORY_CUDA + 3;
  nrd_launch how = detail::rawLaunch(one);
  EXPECT_NE(take(nrd_kernel_launch(kernel.get(), args, 3, &how)).find("cuda:3"), std::string::npos);
}

TEST_F(LaunchFormsTest, KernelThatIsGone) {
  Kernel kernel = module.function("copy").compile(plain, options());
  Kernel other = std::move(kernel);
  EXPECT_EQ(text(kernel.tryLaunch(one, x, y, 64)), // NOLINT(bugprone-use-after-move)
            "error: `nrd_kernel_launch` needs its argument `kernel`, which is null");
}

TEST_F(LaunchFormsTest, AddressWithoutType) {
  Kernel kernel = module.function("copy").compile(plain, options());
  nrd_arg args[] = {Argument(x), Argument(y), Argument(64)};
  args[0].dtype = args[1].dtype = NRD_VOID;
  nrd_launch how = detail::rawLaunch(one);
  EXPECT_EQ(take(nrd_kernel_launch(kernel.get(), args, 3, &how)), "");
}

} // namespace
