// nereid::Autotuner, and the C ABI below it.
#include "nereid/autotuner.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace nereid;

namespace {

const char *const text = R"(import triton.language as tl

def count(out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 1 + tl.load(out + i, mask=i < n), mask=i < n)

def small(out, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK <= 64, "too large")
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, i, mask=i < n)

def sum_of(x, out, STEPS: tl.constexpr):
    total = 0.0
    for i in range(STEPS):
        total += tl.load(x + i % 16)
    tl.store(out + tl.program_id(0), total)
)";

/// A cache folder of its own for each test.
class Tuning : public ::testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("nereid-tuner-" + std::to_string(getpid()));
    std::filesystem::remove_all(folder);
    set({});
  }
  void TearDown() override {
    EXPECT_EQ(nrd_cache_flush(30'000), 1); // a thread writes to the folder
    nrd_set_settings(nullptr, 0);
    std::filesystem::remove_all(folder);
  }
  void set(std::vector<std::string> more) {
    more.push_back("NEREID_CACHE=1");
    more.push_back("NEREID_CACHE_DIR=" + folder.string());
    std::vector<const char *> entries;
    for (const std::string &entry : more)
      entries.push_back(entry.c_str());
    char *problems = nrd_set_settings(entries.data(), entries.size());
    EXPECT_EQ(problems, nullptr) << problems;
  }

  static auto blocks(uint32_t n) {
    return [n](const Config &config) { return Grid{(n + config["BLOCK"] - 1) / config["BLOCK"]}; };
  }

  static std::string take(nrd_error *error) {
    std::string message = error ? nrd_error_message(error) : "";
    nrd_error_free(error);
    return message;
  }

  template <typename Work> static std::string errorOf(Work work) {
    try {
      work();
    } catch (const Error &error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path folder;
  Module module = Module::parse(text, "kernels.py");
  Function count = module.function("count"), small = module.function("small"),
           sumOf = module.function("sum_of");
};

TEST_F(Tuning, TheFastestIsChosenOnceForEachKey) {
  Autotuner tuner(sumOf, {{{"STEPS", 4000}}, {{"STEPS", 1}}, {{"STEPS", 40000}}});
  EXPECT_FALSE(tuner.best());
  std::vector<float> x(16, 1.0f), out(64);
  tuner.launch(Grid{64}, x, out);
  ASSERT_TRUE(tuner.best());
  EXPECT_EQ((*tuner.best())["STEPS"], 1u);
  EXPECT_EQ(tuner.best()->text(), "STEPS=1");
  EXPECT_EQ(out[63], 1.0f);
  EXPECT_GT(tuner.seconds(), 0);
  EXPECT_LT(*tuner.milliseconds(1), *tuner.milliseconds(0));
  EXPECT_LT(*tuner.milliseconds(0), *tuner.milliseconds(2));
}

#if !__has_feature(thread_sanitizer) // which does not follow threads started after a fork
TEST_F(Tuning, AForkedChildDoesNotWaitForATuningOfItsParent) {
  set({"NEREID_TUNING_CACHE=0"});
  Autotuner tuner(count, {{{"BLOCK", 32}}, {{"BLOCK", 64}}}, {.key = {"n"}});
  std::vector<int> out(100);
  std::atomic<bool> measuring{false}, goOn{false};
  auto slow = [&](const Config &config) {
    measuring = true;
    while (!goOn)
      usleep(1000);
    return Grid{(100 + config["BLOCK"] - 1) / config["BLOCK"]};
  };
  std::thread other([&] { tuner.launch(slow, out, 100); });
  while (!measuring)
    usleep(1000);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    std::vector<int> mine(100);
    tuner.launch(blocks(100), mine, 100); // the key that the parent tunes
    tuner.launch(blocks(50), mine, 50);
    _exit(mine[99] > 0 && tuner.best() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  goOn = true;
  other.join();
  EXPECT_GT(out[99], 0);
}
#endif

TEST_F(Tuning, KeysAreValuesAndTypes) {
  set({"NEREID_TUNING_CACHE=0"});
  Autotuner tuner(count, {{{"BLOCK", 32}}, {{"BLOCK", 64}}},
                  {.key = {"n"}, .restoreValue = {"out"}});
  std::vector<int> out(100);
  double before = 0;
  auto tuned = [&] { return std::exchange(before, tuner.seconds()) != tuner.seconds(); };
  tuner.launch(blocks(100), out, 100);
  EXPECT_TRUE(tuned());
  tuner.launch(blocks(100), out, 100);
  EXPECT_FALSE(tuned());
  EXPECT_EQ(out[99], 2); // two launches, whatever was measured between
  tuner.launch(blocks(50), out, 50);
  EXPECT_TRUE(tuned());
  std::vector<int64_t> wide(100);
  tuner.launch(blocks(100), wide, 100);
  EXPECT_TRUE(tuned());
  EXPECT_EQ(wide[99], 1);
}

TEST_F(Tuning, ArraysAreResetOrRestored) {
  Autotuner tuner(count, {{{"BLOCK", 32}}, {{"BLOCK", 64}}},
                  {.resetToZero = {"out"}, .restoreValue = {}});
  std::vector<int> out(40, 7);
  tuner.launch(blocks(40), out, 40);
  EXPECT_EQ(out[39], 1); // the launch that counts sees zeros, too
  tuner.launch(blocks(40), out, 40);
  EXPECT_EQ(out[39], 2);

  Autotuner unknown(count, {{{"BLOCK", 32}}, {{"BLOCK", 64}}},
                    {.key = {"n"}, .restoreValue = {"out"}});
  EXPECT_NE(errorOf([&] { unknown.launch(blocks(40), out.data(), 40); })
                .find("argument `out` is reset or restored by the tuner: expected an array of "
                      "known size, found a pointer"),
            std::string::npos); // TunerNeedsSize
}

TEST_F(Tuning, FailuresKeepTheirReason) {
  Autotuner tuner(small, {{{"BLOCK", 128}}, {{"BLOCK", 32}}, {{"BLOCK", 256}}});
  std::vector<int> out(100);
  tuner.launch(blocks(100), out, 100);
  EXPECT_EQ((*tuner.best())["BLOCK"], 32u);
  EXPECT_TRUE(std::isinf(*tuner.milliseconds(0)));
  EXPECT_NE(tuner.report().find("too large"), std::string::npos);
  EXPECT_NE(tuner.report().find("BLOCK=32  <- best"), std::string::npos);

  Autotuner none(small, {{{"BLOCK", 128}}, {{"BLOCK", 256}}});
  std::string error = errorOf([&] { none.launch(blocks(100), out, 100); });
  EXPECT_NE(error.find("none of the configurations works:\n  BLOCK=128: "), std::string::npos);
  EXPECT_NE(error.find("\n  BLOCK=256: "), std::string::npos);
}

TEST_F(Tuning, ResultsStayOnDisk) {
  std::vector<int> out(100);
  auto tuned = [&](std::vector<Choice> choices, TunerOptions options = {}) {
    Autotuner tuner(module.function("count"), choices, options);
    tuner.launch(blocks(100), out, 100);
    return tuner.seconds() > 0;
  };
  std::vector<Choice> choices = {{{"BLOCK", 32}}, {{"BLOCK", 64}}};
  EXPECT_TRUE(tuned(choices));
  EXPECT_FALSE(tuned(choices));
  EXPECT_TRUE(tuned({{{"BLOCK", 64}}, {{"BLOCK", 32}}}));
  EXPECT_TRUE(tuned(choices, {.key = {"n"}}));
  EXPECT_TRUE(tuned({{{"BLOCK", 32}, {"num_warps", 8}}, {{"BLOCK", 64}}}));
  set({"NEREID_TUNING_CACHE=0"});
  EXPECT_TRUE(tuned(choices));
}

TEST_F(Tuning, OneConfigurationIsNotMeasured) {
  Autotuner tuner(count, {{{"BLOCK", 32}}});
  std::vector<int> out(100);
  tuner.launch(blocks(100), out, 100);
  EXPECT_EQ(out[99], 1);
  EXPECT_EQ(tuner.report(), "tuning of count: nothing was tuned\n");
}

TEST_F(Tuning, ManyThreads) {
  Autotuner tuner(count, {{{"BLOCK", 32}}, {{"BLOCK", 64}}},
                  {.key = {"n"}, .restoreValue = {"out"}});
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&] {
      for (int n : {100, 50, 100}) {
        std::vector<int> out(size_t(n), 0);
        tuner.launch(blocks(uint32_t(n)), out, n);
        right += std::count(out.begin(), out.end(), 1) == n;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(right, 12);
}

TEST_F(Tuning, Mistakes) {
  std::vector<int> out(100);
  Autotuner empty(count, {});
  EXPECT_EQ(errorOf([&] { empty.launch(Grid{1}, out, 100); }),
            "error: the tuner of `count` has no configurations"); // TunerNoConfigs
  EXPECT_EQ(errorOf([&] { Autotuner(count, {{{"BLOCK", 32}}, {{"n", 3}}}); }),
            "error: every configuration of the tuner of `count` must set the same parameters: one "
            "sets `BLOCK`, another one `n`"); // TunerConfigsDiffer
  EXPECT_EQ(errorOf([&] { Autotuner(count, {{{"BLOCK", 32}}}, {.key = {"m"}}); }),
            "error: `count` has no parameter `m` that the tuner could use"); // TunerNoSuchParameter
  EXPECT_EQ(errorOf([&] { Autotuner(count, {{{"BLOCK", 32}, {"num_warp", 8}}}); }),
            "error: unknown option `num_warp`, did you mean `num_warps`?");
  EXPECT_EQ(errorOf([&] { Autotuner(count, {{{"BLOKC", 32}}}); }),
            "error: unknown option `BLOKC`, did you mean `BLOCK`?");
  Autotuner tuner(count, {{{"BLOCK", 32}}, {{"BLOCK", 64}}});
  EXPECT_EQ(errorOf([&] { tuner.launch(Grid{1}, out); }),
            "error: `count` needs a value for its parameter `n`");
  EXPECT_EQ(errorOf([&] { tuner.launch(Grid{1}, out, 1, 2); }),
            "error: `count` takes 2 arguments, 3 were given");
  auto badGrid = [](const Config &config) { return Grid{config["NONE"]}; };
  EXPECT_THROW(tuner.launch(badGrid, out, 100), std::out_of_range);
  auto failing = [](void *, const nrd_tuner *, size_t, uint32_t *) { return 1; };
  const std::array<Argument, 2> list{Argument(out), Argument(100)};
  nrd_launch launch{};
  EXPECT_EQ(take(nrd_tuner_launch(tuner.get(), list.data(), 2, failing, nullptr, &launch)),
            "error: the function that gives the grid of `count` failed"); // TunerGridFailed
}

TEST_F(Tuning, ErrorsAreValues) {
  Result<Autotuner> wrong = Autotuner::tryCreate(count, {{{"BLOCK", 32}, {"num_warp", 8}}});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().summary(), "unknown option `num_warp`, did you mean `num_warps`?");
  wrong = Autotuner::tryCreate(count, {{{"BLOCK", 32}}}, {.restoreValue = {"m"}});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().summary(), "`count` has no parameter `m` that the tuner could use");

  Result<Autotuner> tuner =
      Autotuner::tryCreate(count, {{{"BLOCK", 32}}, {{"BLOCK", 64}}}, {.restoreValue = {"out"}});
  ASSERT_TRUE(tuner);
  std::vector<int> out(100);
  Status status = tuner->tryLaunch(blocks(100), out);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().summary(), "`count` needs a value for its parameter `n`");
  EXPECT_FALSE(tuner->best());
  EXPECT_TRUE(tuner->tryLaunch(blocks(100), out, 100));
  EXPECT_EQ(out[99], 1);
  Autotuner moved = std::move(*tuner);
  EXPECT_TRUE(moved.tryLaunchAs(Launch({1}).withThreads(1), blocks(100), out, 100));
  EXPECT_EQ(out[99], 2);
}

TEST_F(Tuning, WhatAConfigurationSets) {
  Autotuner tuner(count, {{{"BLOCK", 32}, {"num_warps", 8}, {"debug", true}}});
  Config config = tuner.config(0);
  EXPECT_EQ(config["BLOCK"], 32u);
  EXPECT_EQ(config["num_warps"], 8u);
  EXPECT_EQ(config.integer("num_warps"), 8);
  EXPECT_FALSE(config.integer("num_stages"));
  EXPECT_EQ(config.integer("debug"), 1);
  EXPECT_EQ(config.text(), "BLOCK=32, num_warps=8, debug=True");
  EXPECT_THROW(config["n"], std::out_of_range);
}

TEST_F(Tuning, ABudget) {
  std::vector<Choice> choices;
  for (int steps = 1; steps <= 40; ++steps)
    choices.push_back({{"STEPS", 100000 + steps}});
  Autotuner tuner(sumOf, choices, {.budget = 0.05});
  std::vector<float> x(16, 1.0f), out(64);
  tuner.launch(Grid{64}, x, out);
  size_t measured = 0;
  for (size_t i = 0; i < tuner.size(); ++i)
    measured += tuner.milliseconds(i).has_value();
  EXPECT_GE(measured, 1u);
  EXPECT_LT(measured, 40u);
  EXPECT_NE(tuner.report().find("not measured"), std::string::npos);
}

} // namespace
