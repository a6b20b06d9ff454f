// Checked mode: accesses outside of their argument stop the launch with the line, the index and the
// argument.
#include "common.h"

#include <cmath>

using namespace nereid;
using nereid::test::CApi;

namespace {

class CheckedTest : public CApi {
protected:
  std::vector<float> x = std::vector<float>(100), y = std::vector<float>(100),
                     out = std::vector<float>(100);
  template <typename... Args>
  std::string checked(const char *function, Launch how, Args &&...args) {
    return launch(function, how.withChecks(), std::forward<Args>(args)...);
  }
  void expectContains(const std::string &text, const char *part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
};

TEST_F(CheckedTest, GoodKernelsRunAsBefore) {
  std::iota(x.begin(), x.end(), 0.0f);
  EXPECT_EQ(checked("copy", {4}, x, y, 100, 32), "");
  EXPECT_EQ(x, y);
}

TEST_F(CheckedTest, AccessOutOfBounds) {
  EXPECT_EQ(checked("no_mask", {4}, x, y, 32),
            "kernels.py:12:9: run-time error: index 100 is outside of `x`, whose indices go from 0 "
            "to 99\n"
            "  12 |     v = tl.load(x + i)\n"
            "     |         ^\n"
            "note: in program (3, 0, 0)"); // InProgram
  EXPECT_EQ(errorName, "AccessOutOfBounds");
  // The process goes on, and so does the next launch.
  EXPECT_EQ(checked("no_mask", {3}, x, y, 32), "");
}

TEST_F(CheckedTest, StoresAndLowerBounds) {
  std::vector<float> longer(128);
  expectContains(checked("no_mask", {4}, longer, y, 32), "index 100 is outside of `y`");
  // A view that begins in the middle.
  nrd_arg view = Argument(x.data() + 50);
  view.low = x.data();
  view.high = x.data() + 100;
  Function function = module.function("walk");
  nrd_arg args[] = {view, Argument(out), Argument(51)};
  nrd_launch how = detail::rawLaunch(Launch({1}).withChecks());
  expectContains(take(nrd_dispatch(function.get(), args, 3, nullptr, &how, nullptr)),
                 "index 50 is outside of `x`, whose indices go from -50 to 49");
}

TEST_F(CheckedTest, OriginTravelsWithThePointer) {
  expectContains(checked("walk", {1}, x, out, 101), "index 100 is outside of `x`");
  EXPECT_EQ(checked("walk", {1}, x, out, 100), "");
  expectContains(checked("select", {1}, x, std::span(y.data(), 10), out, 5, 10),
                 "index 10 is outside of `y`, whose indices go from 0 to 9");
  EXPECT_EQ(checked("select", {1}, x, std::span(y.data(), 10), out, 0, 10), "");
  expectContains(checked("through_integer", {1}, x, out, 100), "index 100 is outside of `x`");
  EXPECT_EQ(checked("through_integer", {1}, x, out, 99), "");
}

TEST_F(CheckedTest, AccessOutsideArguments) {
  std::vector<int64_t> table = {reinterpret_cast<int64_t>(x.data())};
  std::string text = checked("gather", {1}, table, out, 3);
  expectContains(text, "is outside of every argument of the launch");
  EXPECT_EQ(errorName, "AccessOutsideArguments");
  table[0] = reinterpret_cast<int64_t>(out.data());
  EXPECT_EQ(checked("gather", {1}, table, out, 3), "");
}

TEST_F(CheckedTest, OffsetOverflow) {
  std::string text = checked("wraps", {1}, x, out, 65536); // 2^32 wraps to 0
  expectContains(text, "the arithmetic of this offset overflows its integer type");
  EXPECT_EQ(errorName, "OffsetOverflow");
  EXPECT_EQ(checked("wraps", {1}, x, out, 9), "");
}

TEST_F(CheckedTest, MaskedOffLanesShow) {
  EXPECT_EQ(checked("poisoned", {1}, x, out, 10, 16), "");
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_EQ(launch("poisoned", {1}, x, out, 10, 16), "");
  EXPECT_EQ(out[0], 0.0f);
}

TEST_F(CheckedTest, PointersWithoutSizeAreNotChecked) {
  EXPECT_EQ(checked("no_mask", {3}, x.data(), y.data(), 32), "");
}

TEST_F(CheckedTest, NullPointersAreAnError) {
  expectContains(checked("no_mask", {1}, static_cast<float *>(nullptr), y.data(), 32),
                 "kernels.py:12:9: run-time error: `x` is a null pointer, and this access goes "
                 "through it: pass the address of memory, or mask the access");
  EXPECT_EQ(errorName, "AccessThroughNull");
  expectContains(checked("no_mask", {1}, x, static_cast<float *>(nullptr), 32),
                 "`y` is a null pointer");
  std::vector<float> empty; // whose data() may be null
  expectContains(checked("no_mask", {1}, empty, y, 32), "`x` is a null pointer");
  // An address of null that is read from memory.
  std::vector<int64_t> table = {0};
  expectContains(checked("gather", {1}, table.data(), out.data(), 3),
                 "is outside of every argument of the launch");
  // Nothing is accessed through a null pointer whose lanes are all masked.
  EXPECT_EQ(checked("copy", {1}, static_cast<float *>(nullptr), y, 0, 32), "");
}

TEST_F(CheckedTest, LowestProgramIsReportedFromManyThreads) {
  std::vector<float> big(1 << 16);
  for (int round = 0; round < 20; ++round)
    expectContains(
        checked("no_mask", Launch({4096}).withThreads(8), big, std::span(y.data(), 100), 16),
        "note: in program (6, 0, 0)");
}

TEST_F(CheckedTest, DeviceAssertFailed) {
  int32_t value = 7;
  Function function = module.function("assertion");
  Options options;
  options.set("debug", true);
  nrd_arg args[] = {Argument(&value), Argument(5)};
  nrd_launch how = detail::rawLaunch(Launch({2, 2}));
  std::string text = take(nrd_dispatch(function.get(), args, 2, options.get(), &how, nullptr));
  expectContains(text, "kernels.py:18:5: run-time error: assertion failed: too large");
  expectContains(text, "tl.device_assert(v < limit, \"too large\")");
  expectContains(text, "note: in program (0, 0, 0)");
  value = 3;
  EXPECT_EQ(take(nrd_dispatch(function.get(), args, 2, options.get(), &how, nullptr)), "");
}

// The chain of calls reads as it does in errors of a compilation, whether the functions are inlined
// or not.
TEST_F(CheckedTest, ChainOfCalls) {
  for (const char *mark : {"", "(noinline=True)"}) {
    std::string text = std::string("import triton\nimport triton.language as tl\n\n@triton.jit") +
                       mark + "\ndef inner(x, i):\n    return tl.load(x + i)\n\n@triton.jit" +
                       mark +
                       "\ndef outer(x, i):\n    return inner(x, i) + 1\n\n@triton.jit\n"
                       "def kernel(x, y, n):\n"
                       "    tl.store(y, outer(x, n + tl.program_id(0)))\n";
    module = Module::parse(text, "calls.py");
    EXPECT_EQ(checked("kernel", {4}, x, y, 98),
              "calls.py:6:12: run-time error: index 100 is outside of `x`, whose indices go from 0 "
              "to 99\n"
              "   6 |     return tl.load(x + i)\n"
              "     |            ^\n"
              "calls.py:10:12: note: called from here\n"
              "  10 |     return inner(x, i) + 1\n"
              "     |            ^\n"
              "calls.py:14:17: note: called from here\n"
              "  14 |     tl.store(y, outer(x, n + tl.program_id(0)))\n"
              "     |                 ^\n"
              "note: in program (2, 0, 0)");
  }
}

} // namespace
