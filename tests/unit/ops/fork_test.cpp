// Locks of the router of nereid.ops in a process that forks.
#include "ops/fork.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using nereid::ops::ForkMutex;

#if !__has_feature(thread_sanitizer) // which does not follow what happens after a fork
namespace {

ForkMutex<std::mutex> mutex;
ForkMutex<std::shared_mutex> shared;
int first = 0, second = 0; // equal, but while the lock is held

template <typename Mutex, typename Lock> void forkWhileHeld(Mutex &mutex, bool change) {
  std::atomic<bool> isHeld{false};
  std::thread other([&] {
    Lock lock(mutex);
    first += change;
    isHeld = true;
    usleep(100000);
    second += change;
  });
  while (!isHeld) {
  }
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    bool isWhole;
    {
      std::lock_guard lock(mutex);
      isWhole = first == second;
    }
    _exit(isWhole ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  other.join();
  std::lock_guard lock(mutex); // free in the parent as well
}

TEST(ForkMutex, IsFreeInAChild) {
  forkWhileHeld<ForkMutex<std::mutex>, std::lock_guard<std::mutex>>(mutex, true);
}

TEST(ForkMutex, IsFreeInAChildThoughReadersHadIt) {
  using Shared = ForkMutex<std::shared_mutex>;
  forkWhileHeld<Shared, std::shared_lock<std::shared_mutex>>(shared, false);
  forkWhileHeld<Shared, std::unique_lock<std::shared_mutex>>(shared, true);
}

TEST(ForkMutex, MayComeAndGo) {
  {
    ForkMutex<std::mutex> a, b;
    auto c = std::make_unique<ForkMutex<std::mutex>>();
  }
  forkWhileHeld<ForkMutex<std::mutex>, std::lock_guard<std::mutex>>(mutex, true);
}

} // namespace
#endif
