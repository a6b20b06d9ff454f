// The kernel cache: one compilation a key, whoever asks; errors are not kept.
#include "runtime/dispatcher.h"

#include <gtest/gtest.h>

#include <thread>

using namespace nereid::runtime;

namespace {

std::vector<uint8_t> keyOf(uint32_t number) {
  return {uint8_t(number), uint8_t(number >> 8), uint8_t(number >> 16), 7};
}

ErrorPtr succeed(std::unique_ptr<nrd_kernel> &kernel) {
  kernel = std::make_unique<nrd_kernel>();
  return nullptr;
}

} // namespace

TEST(Dispatcher, FindsWhatWasCompiled) {
  Dispatcher dispatcher;
  std::vector<nrd_kernel *> kernels;
  for (uint32_t i = 0; i < 1000; ++i) {
    auto key = keyOf(i);
    uint64_t hash = Dispatcher::hash(key);
    EXPECT_EQ(dispatcher.find(key, hash), nullptr);
    nrd_kernel *kernel = nullptr;
    ASSERT_FALSE(dispatcher.findOrCompile(key, hash, succeed, kernel));
    kernels.push_back(kernel);
  }
  for (uint32_t i = 0; i < 1000; ++i) {
    auto key = keyOf(i);
    EXPECT_EQ(dispatcher.find(key, Dispatcher::hash(key)), kernels[i]);
  }
  EXPECT_EQ(dispatcher.size(), 1000u);
}

TEST(Dispatcher, EqualHashesDoNotMixKeys) {
  Dispatcher dispatcher;
  auto a = keyOf(1), b = keyOf(2);
  nrd_kernel *first = nullptr, *second = nullptr;
  ASSERT_FALSE(dispatcher.findOrCompile(a, 42, succeed, first));
  EXPECT_EQ(dispatcher.find(b, 42), nullptr);
  ASSERT_FALSE(dispatcher.findOrCompile(b, 42, succeed, second));
  EXPECT_NE(first, second);
  EXPECT_EQ(dispatcher.find(a, 42), first);
  EXPECT_EQ(dispatcher.find(b, 42), second);
}

TEST(Dispatcher, ManyThreadsCompileOnce) {
  Dispatcher dispatcher;
  std::atomic<int> compilations = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (uint32_t i = 0; i < 200; ++i) {
        auto key = keyOf(i);
        uint64_t hash = Dispatcher::hash(key);
        nrd_kernel *kernel = dispatcher.find(key, hash);
        if (!kernel)
          EXPECT_FALSE(dispatcher.findOrCompile(
              key, hash,
              [&](std::unique_ptr<nrd_kernel> &out) {
                ++compilations;
                return succeed(out);
              },
              kernel));
        EXPECT_NE(kernel, nullptr);
        EXPECT_EQ(dispatcher.find(key, hash), kernel);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(compilations, 200);
}

TEST(Dispatcher, FailuresAreToldToAllAndForgotten) {
  Dispatcher dispatcher;
  auto key = keyOf(5);
  uint64_t hash = Dispatcher::hash(key);
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      nrd_kernel *kernel = nullptr;
      ErrorPtr error = dispatcher.findOrCompile(
          key, hash, [](std::unique_ptr<nrd_kernel> &) { return internalError("on purpose"); },
          kernel);
      failures += error && error->summary.find("on purpose") != std::string::npos;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failures, 4);
  nrd_kernel *kernel = nullptr;
  EXPECT_FALSE(dispatcher.findOrCompile(key, hash, succeed, kernel));
  EXPECT_EQ(dispatcher.find(key, hash), kernel);
}

TEST(Dispatcher, ACompilationCannotWaitForItself) {
  Dispatcher dispatcher;
  auto key = keyOf(9);
  nrd_kernel *kernel = nullptr;
  ErrorPtr error = dispatcher.findOrCompile(
      key, 1,
      [&](std::unique_ptr<nrd_kernel> &) {
        nrd_kernel *inner = nullptr;
        return dispatcher.findOrCompile(key, 1, succeed, inner);
      },
      kernel);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, NRD_ERROR_INTERNAL);
}

TEST(Dispatcher, ClearKeepsWhatWasHandedOut) {
  Dispatcher dispatcher;
  auto key = keyOf(3);
  uint64_t hash = Dispatcher::hash(key);
  nrd_kernel *kernel = nullptr;
  ASSERT_FALSE(dispatcher.findOrCompile(key, hash, succeed, kernel));
  kernel->name = "still here";
  dispatcher.clear();
  EXPECT_EQ(dispatcher.find(key, hash), nullptr);
  EXPECT_EQ(kernel->name, "still here");
  EXPECT_EQ(dispatcher.size(), 0u);
}

TEST(Dispatcher, PatternsOfTheLatestLaunches) {
  Dispatcher dispatcher;
  nrd_kernel a, b;
  int made = 0;
  auto missed = [&](nrd_kernel &kernel, bool fits = true, bool can = true) {
    auto matches = [&](const LaunchPattern &) { return fits; };
    auto make = [&]() -> std::unique_ptr<const LaunchPattern> {
      ++made;
      if (!can)
        return nullptr;
      auto pattern = std::make_unique<LaunchPattern>();
      pattern->kernel = &kernel;
      return pattern;
    };
    dispatcher.missed(&kernel, dispatcher.generation(), matches, make);
  };
  EXPECT_EQ(dispatcher.latest(), nullptr);
  missed(a);
  EXPECT_EQ(dispatcher.latest(), nullptr) << "once is not enough";
  missed(a);
  ASSERT_NE(dispatcher.latest(), nullptr);
  const LaunchPattern *first = dispatcher.latest();
  EXPECT_EQ(first->kernel, &a);
  // Another kernel, in turns with the one whose pattern is there (its launches are no misses).
  missed(b);
  EXPECT_EQ(dispatcher.latest(), first);
  missed(b);
  EXPECT_EQ(dispatcher.latest()->kernel, &b);
  missed(a);
  missed(a);
  EXPECT_EQ(dispatcher.latest(), first) << "it was known";
  EXPECT_EQ(made, 2);
  missed(a, /*fits=*/false);
  EXPECT_NE(dispatcher.latest(), first) << "other launches of the same kernel";

  // What was found before kernels were forgotten is not remembered after it.
  uint64_t before = dispatcher.generation();
  dispatcher.clear();
  EXPECT_EQ(dispatcher.latest(), nullptr);
  for (int i = 0; i < 3; ++i)
    dispatcher.missed(
        &a, before, [](const LaunchPattern &) { return true; },
        [] { return std::make_unique<const LaunchPattern>(); });
  EXPECT_EQ(dispatcher.latest(), nullptr);
  missed(a);
  EXPECT_NE(dispatcher.latest(), nullptr);
  dispatcher.forgetPatterns();
  EXPECT_EQ(dispatcher.latest(), nullptr);

  // Launches that no pattern can be made of are not tried for ever.
  made = 0;
  for (int i = 0; i < 1000; ++i)
    missed(b, false, false);
  EXPECT_LT(made, 100);
}
