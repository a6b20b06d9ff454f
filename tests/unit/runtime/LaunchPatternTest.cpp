#include "nereid/settings.h"
// A launch that is taken for one like the last must need the same kernel as the look-up finds, and
// must pass the same arguments. Each launch here follows each other one.
#include "arguments.h"
#include "common.h"

#include <cmath>
#include <cstring>

using namespace nereid;
using namespace nereid::test;

namespace {

const char *const mixText = R"(import triton
import triton.language as tl

@triton.jit
def mix(out, i, j, flag, x, other, none, C: tl.constexpr, D: tl.constexpr):
    total = i * 1.0 + j * 1.0 + x
    if flag:
        total += 1000
    if none is not None:
        total += 4000
    if D == "text":
        total += 20000
    if D == "other":
        total += 40000
    if other is not None:
        total += tl.load(other)
    tl.store(out, total + C * 100000)
)";

nrd_launch once() {
  nrd_launch how{};
  how.grid[0] = how.grid[1] = how.grid[2] = 1;
  return how;
}

class LaunchPatternTest : public ::testing::Test {
protected:
  static constexpr size_t count = 9;
  using Args = std::array<nrd_arg, count>;

  LaunchPatternTest() {
    text = nrd_value_str("text", 4);
    otherText = nrd_value_str("other", 5);
  }
  ~LaunchPatternTest() override {
    nrd_value_free(text);
    nrd_value_free(otherText);
  }

  nrd_arg pointer(void *place, nrd_dtype dtype = NRD_FP32, size_t bytes = 64) const {
    nrd_arg arg = test::pointer(place, dtype);
    arg.memory = NRD_MEMORY_HOST;
    arg.low = place;
    arg.high = static_cast<char *>(place) + bytes;
    return arg;
  }
  Args usual() {
    return {pointer(memory), integer(5), integer(32), boolean(true), number(2.5),
            none(),          none(),     integer(3),  value(text)};
  }

  /// What the kernel stores for these arguments.
  double expected(const Args &args) const {
    double total = double(args[1].i) + double(args[2].i) + (args[3].i ? 1000 : 0);
    total += args[4].kind == NRD_ARG_FLOAT ? args[4].f : double(args[4].i);
    total += args[5].kind == NRD_ARG_POINTER ? 7 : 0;
    total += args[6].kind == NRD_ARG_NONE ? 0 : 4000;
    total += args[8].v == text ? 20000 : args[8].v == otherText ? 40000 : 0;
    return total + double(args[7].i) * 100000;
  }

  /// Launches; the kernel is the one that the look-up gives, and its result is right.
  void launch(const Args &args, const nrd_options *options = nullptr, nrd_launch how = once()) {
    std::memset(memory, 0, sizeof memory);
    float seven = 7;
    std::memcpy(input, &seven, sizeof seven);
    nrd_kernel *used = nullptr, *found = nullptr;
    ASSERT_EQ(nrd_dispatch(mix.get(), args.data(), count, options, &how, &used), nullptr);
    ASSERT_EQ(nrd_find(mix.get(), args.data(), count, options, &how, &found), nullptr);
    EXPECT_EQ(used, found);
    double result = 0;
    if (args[0].dtype == NRD_FP64) {
      std::memcpy(&result, args[0].p, sizeof result);
    } else if (args[0].dtype == NRD_INT32) {
      int32_t narrow;
      std::memcpy(&narrow, args[0].p, sizeof narrow);
      result = narrow;
    } else {
      float narrow;
      std::memcpy(&narrow, args[0].p, sizeof narrow);
      result = double(narrow);
    }
    double wanted = expected(args);
    EXPECT_NEAR(result, args[0].dtype == NRD_INT32 ? double(int64_t(wanted)) : wanted,
                std::abs(wanted) * 1e-6);
  }

  Module module = Module::parse(mixText, "mix.py");
  Function mix = module.function("mix");
  alignas(64) char memory[128];
  alignas(64) char input[64];
  nrd_value *text, *otherText;
};

TEST_F(LaunchPatternTest, EachLaunchAfterEachOther) {
  std::vector<Args> variants{usual()};
  auto with = [&](size_t index, nrd_arg arg) {
    variants.push_back(usual());
    variants.back()[index] = arg;
  };
  with(0, pointer(memory + 16));
  with(0, pointer(memory + 4)); // no multiple of 16
  with(0, pointer(memory, NRD_FP64));
  with(0, pointer(memory, NRD_INT32));
  with(0, pointer(memory, NRD_FP32, size_t(5) << 30)); // large
  for (int64_t i : {0, 1, 6, 16, -1, -16})
    with(1, integer(i));
  with(1, integer(int64_t(1) << 40));
  with(1, integer((int64_t(1) << 40) + 1));
  with(1, boolean(true));
  with(2, integer(48));
  with(2, integer(33));
  with(2, integer(1));
  with(3, boolean(false));
  with(3, integer(0));
  with(4, number(-8.25));
  with(4, integer(4));
  with(5, pointer(input));
  with(6, integer(1));
  with(6, number(1));
  with(7, integer(4));
  with(7, integer(1));
  with(7, boolean(true));
  with(8, value(otherText));
  with(8, integer(9));
  with(8, none());
  for (const Args &first : variants)
    for (const Args &second : variants) {
      for (int i = 0; i < 3; ++i) // until they are known
        launch(first);
      launch(second);
      if (HasFailure())
        return;
    }
}

TEST_F(LaunchPatternTest, OtherTextsOfTheSameConstant) {
  for (int i = 0; i < 4; ++i) {
    nrd_value *again = nrd_value_str(i % 2 ? "text" : "other", i % 2 ? 4 : 5);
    Args args = usual();
    args[8] = value(again);
    nrd_kernel *used = nullptr, *found = nullptr;
    nrd_launch how = once();
    for (int j = 0; j < 3; ++j)
      ASSERT_EQ(nrd_dispatch(mix.get(), args.data(), count, nullptr, &how, &used), nullptr);
    ASSERT_EQ(nrd_find(mix.get(), args.data(), count, nullptr, &how, &found), nullptr);
    EXPECT_EQ(used, found);
    nrd_value_free(again);
  }
}

TEST_F(LaunchPatternTest, OptionsAndModes) {
  std::vector<Options> all(4);
  all[1].set("debug", true);
  all[2].set("enable_fp_fusion", false);
  all[3].set("checked", true);
  for (const Options &first : all)
    for (const Options &second : all) {
      for (int i = 0; i < 3; ++i)
        launch(usual(), first.get());
      launch(usual(), second.get());
      launch(usual());
      for (uint8_t checked : {2, 1, 0}) {
        nrd_launch how = once();
        how.checked = checked;
        launch(usual(), second.get(), how);
      }
    }
}

TEST_F(LaunchPatternTest, SettingsThatChange) {
  for (const char *entry : {"NEREID_DEBUG=1", "NEREID_CHECKED=1", "NEREID_STRICT=1"}) {
    for (int i = 0; i < 3; ++i)
      launch(usual());
    nrd_string_free(nrd_set_settings(&entry, 1));
    for (int i = 0; i < 3; ++i)
      launch(usual());
    nrd_string_free(nrd_set_settings(nullptr, 0));
    launch(usual());
  }
}

TEST_F(LaunchPatternTest, SettingsThatAreWrong) {
  for (const char *entry : {"NEREID_DEBUG=2", "NEREID_CPU_THREADS=-1", "NEREID_SPLIT_PRODUCTS=all",
                            "NEREID_TRITON_VERSION=new"}) {
    for (int i = 0; i < 3; ++i)
      launch(usual());
    char *problems = nrd_set_settings(&entry, 1);
    EXPECT_NE(problems, nullptr) << entry;
    nrd_string_free(problems);
    nrd_launch how = once();
    Args args = usual();
    std::string name = std::string(entry).substr(0, std::string_view(entry).find('='));
    for (nrd_error *error : {nrd_dispatch(mix.get(), args.data(), count, nullptr, &how, nullptr),
                             nrd_check_settings()}) {
      ASSERT_NE(error, nullptr) << entry;
      EXPECT_EQ(nrd_error_get_kind(error), NRD_ERROR_ARGUMENT);
      EXPECT_NE(std::string(nrd_error_message(error)).find("setting `" + name + "` expects "),
                std::string::npos)
          << nrd_error_message(error);
      nrd_error_free(error);
    }
    nrd_string_free(nrd_set_settings(nullptr, 0));
    EXPECT_EQ(nrd_check_settings(), nullptr);
    launch(usual());
  }
}

TEST_F(LaunchPatternTest, TargetsThatAreRefused) {
  for (int i = 0; i < 3; ++i)
    launch(usual());
  nrd_launch how = once();
  Args args = usual();
  ASSERT_EQ(nrd_set_default_target("cuda:90"), nullptr);
  nrd_error *error = nrd_dispatch(mix.get(), args.data(), count, nullptr, &how, nullptr);
  EXPECT_NE(error, nullptr) << "not on the CPU any more";
  nrd_error_free(error);
  ASSERT_EQ(nrd_set_default_target(nullptr), nullptr);
  launch(usual());
}

TEST_F(LaunchPatternTest, KernelsThatAreForgotten) {
  nrd_kernel *before = nullptr, *after = nullptr;
  nrd_launch how = once();
  Args args = usual();
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(nrd_dispatch(mix.get(), args.data(), count, nullptr, &how, &before), nullptr);
  nrd_function_clear_cache(mix.get());
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(nrd_dispatch(mix.get(), args.data(), count, nullptr, &how, &after), nullptr);
    EXPECT_NE(before, after);
  }
}

TEST_F(LaunchPatternTest, PoliciesThatChange) {
  for (int i = 0; i < 3; ++i)
    launch(usual());
  nrd_function_set_param_policy(mix.get(), 2, NRD_PARAM_NO_SPECIALIZE);
  for (int i = 0; i < 3; ++i)
    launch(usual());
  Args args = usual();
  args[2] = integer(1);
  launch(args);
}

TEST_F(LaunchPatternTest, WhatIsNeverKnown) {
  // Too few and too many arguments, wrong grids, an empty one.
  for (int i = 0; i < 3; ++i)
    launch(usual());
  Args args = usual();
  nrd_launch how = once();
  nrd_error *error = nrd_dispatch(mix.get(), args.data(), count - 1, nullptr, &how, nullptr);
  ASSERT_NE(error, nullptr);
  EXPECT_NE(std::string(nrd_error_message(error)).find("`D`"), std::string::npos);
  nrd_error_free(error);
  how.grid[1] = 0xffffffff;
  error = nrd_dispatch(mix.get(), args.data(), count, nullptr, &how, nullptr);
  ASSERT_NE(error, nullptr);
  nrd_error_free(error);
  how.grid[1] = 0;
  std::memset(memory, 0, sizeof memory);
  ASSERT_EQ(nrd_dispatch(mix.get(), args.data(), count, nullptr, &how, nullptr), nullptr);
  EXPECT_EQ(memory[3], 0);
  // A place that must not be written.
  args[0].read_only = 1;
  how.grid[1] = 1;
  error = nrd_dispatch(mix.get(), args.data(), count, nullptr, &how, nullptr);
  ASSERT_NE(error, nullptr);
  nrd_error_free(error);
}

} // namespace
