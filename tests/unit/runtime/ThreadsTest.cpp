// What threads share, used by all at once: one function's kernels, caches that are cleared
// meanwhile, errors, settings, tuners, forks. Under the thread sanitizer (threads_test) these find
// races; elsewhere they check results.
#include "common.h"
#include "nereid/tuner.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace nereid;
using nereid::test::CApi;

namespace {

class ThreadsTest : public CApi {
protected:
  /// Runs the work on several threads that begin together.
  static void together(int count, const std::function<void(int)> &work) {
    std::atomic<int> waiting = count;
    std::vector<std::thread> threads;
    for (int t = 0; t < count; ++t)
      threads.emplace_back([&, t] {
        --waiting;
        while (waiting)
          std::this_thread::yield();
        work(t);
      });
    for (std::thread &thread : threads)
      thread.join();
  }

  /// Whether a launch of `copy` with this block copies.
  static bool copies(const Function &copy, int block) {
    std::vector<float> x(100, float(block)), y(100);
    return copy.tryLaunch({uint32_t(99 / block) + 1}, x, y, 100, block).ok() && x == y;
  }
};

TEST_F(ThreadsTest, OneKernelForAll) {
  Function copy = module.function("copy");
  std::vector<float> x(64), y(64);
  std::array<nrd_kernel *, 4> found{};
  together(4, [&](int t) {
    nrd_arg args[] = {Argument(x), Argument(y), Argument(64), Argument(16)};
    EXPECT_EQ(nrd_dispatch(copy.get(), args, 4, nullptr, nullptr, &found[size_t(t)]), nullptr);
  });
  for (nrd_kernel *kernel : found)
    EXPECT_EQ(kernel, found[0]);
}

TEST_F(ThreadsTest, LaunchesWhileTheCacheIsCleared) {
  Function copy = module.function("copy");
  std::atomic<int> wrong = 0;
  together(4, [&](int t) {
    for (int round = 0; round < 6; ++round) {
      if (t == 0)
        nrd_function_clear_cache(copy.get());
      wrong += !copies(copy, 8 << (round + t) % 3);
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_F(ThreadsTest, LaunchesLikeTheLastOne) { // LaunchPattern
  Function copy = module.function("copy");
  std::atomic<int> wrong = 0;
  together(4, [&](int t) {
    for (int round = 0; round < 60; ++round) {
      if (t == 0 && round % 20 == 19)
        nrd_function_clear_cache(copy.get());
      if (t == 1 && round % 15 == 14) {
        const char *entry = round % 2 ? "NEREID_CPU_THREADS=1" : "NEREID_CPU_THREADS=2";
        nrd_string_free(nrd_set_settings(&entry, 1));
      }
      wrong += !copies(copy, round / 10 % 2 ? 32 : 64);
    }
  });
  nrd_string_free(nrd_set_settings(nullptr, 0));
  EXPECT_EQ(wrong, 0);
}

TEST_F(ThreadsTest, OneTunerForAll) {
  Function copy = module.function("copy");
  std::unique_ptr<nrd_tuner, void (*)(nrd_tuner *)> tuner(nrd_tuner_new(copy.get()),
                                                          nrd_tuner_free);
  const char *block = "BLOCK", *key = "n";
  for (int64_t size : {32, 64}) {
    nrd_value *value = nrd_value_int(size);
    ASSERT_EQ(nrd_tuner_add(tuner.get(), &block, &value, 1), nullptr);
    nrd_value_free(value);
  }
  ASSERT_EQ(nrd_tuner_set_key(tuner.get(), &key, 1), nullptr);
  nrd_tuner_set_budget(tuner.get(), 0.05);
  std::atomic<int> wrong = 0;
  together(4, [&](int t) {
    for (int round = 0; round < 4; ++round) {
      int n = 20 + (round + t) % 2; // one grid that is enough for all configurations
      std::vector<float> x(32, float(n)), y(32);
      nrd_arg args[] = {Argument(x), Argument(y), Argument(n)};
      nrd_launch how = nereid::detail::rawLaunch({1});
      wrong += take(nrd_tuner_launch(tuner.get(), args, 3, nullptr, nullptr, &how)) != "" ||
               !std::equal(x.begin(), x.begin() + n, y.begin());
      size_t best = nrd_tuner_best(tuner.get());
      double times[3];
      wrong += best >= nrd_tuner_count(tuner.get()) || nrd_tuner_seconds(tuner.get()) < 0 ||
               std::string(nrd_tuner_text(tuner.get(), best)).empty();
      nrd_tuner_timing(tuner.get(), best, times);
      nrd_string_free(nrd_tuner_report(tuner.get()));
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_F(ThreadsTest, FunctionsComeAndGo) {
  std::atomic<int> wrong = 0;
  together(4, [&](int) {
    for (int round = 0; round < 3; ++round) {
      Module own = Module::parse(test::kernels, "kernels.py");
      wrong += !copies(own.function("copy"), 16);
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_F(ThreadsTest, Errors) {
  Function broken = module.function("broken");
  std::atomic<int> right = 0;
  together(4, [&](int) {
    for (int round = 0; round < 3; ++round) {
      std::vector<float> x(8);
      Status status = broken.tryLaunch({1}, x);
      right +=
          !status && std::string(status.error().what()).find("undefined_name") != std::string::npos;
    }
  });
  EXPECT_EQ(right, 4 * 3);
}

TEST_F(ThreadsTest, QuestionsToOneKernel) {
  Kernel kernel = module.function("copy").compile({"*fp32:16", "*fp32:16", "i32", "64"});
  std::atomic<int> wrong = 0;
  together(4, [&](int t) {
    // Stages that were not kept are compiled once more.
    wrong += kernel.stage(t % 2 ? "llir" : "asm").empty();
    wrong += kernel.metadata().empty();
    std::vector<float> x(64, 2.0f), y(64);
    kernel.launch({1}, x, y, 64);
    wrong += x != y;
  });
  EXPECT_EQ(wrong, 0);
}

TEST_F(ThreadsTest, SettingsChangeMeanwhile) {
  Function copy = module.function("copy");
  std::atomic<int> wrong = 0;
  together(3, [&](int t) {
    for (int round = 0; round < 8; ++round) {
      if (t == 0) {
        const char *entries[] = {round % 2 ? "NEREID_CPU_THREADS=1" : "NEREID_CPU_THREADS=2"};
        nrd_string_free(nrd_set_settings(entries, 1));
      } else {
        wrong += !copies(copy, 32);
      }
    }
  });
  nrd_string_free(nrd_set_settings(nullptr, 0));
  EXPECT_EQ(wrong, 0);
}

TEST_F(ThreadsTest, AForkWhileOthersLaunch) {
  Function copy = module.function("copy");
  ASSERT_TRUE(copies(copy, 64));
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::thread other([&] {
    for (int round = 0; !stop; ++round)
      wrong += !copies(copy, 64);
  });
  for (int turn = 0; turn < 3; ++turn) {
    pid_t child = fork();
    if (child == 0)
      _exit(copies(copy, 64) && copies(copy, 128) ? 0 : 1); // known here, and compiled here
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  other.join();
  EXPECT_EQ(wrong, 0);
}

} // namespace
