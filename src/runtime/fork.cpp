#include "runtime/fork.h"

#include "nereid/nereid.h"
#include "runtime/cache/writer.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <pthread.h>

using namespace nereid::runtime;

namespace {

/// How long a fork waits for work to end, and work for a fork: longer than compilations take. Work
/// that waits for the forking thread itself never ends.
constexpr std::chrono::seconds patience(20);

/// How long new work waits for a fork that is still waiting itself: a thread may hold a lock that
/// the work which is to end needs.
constexpr std::chrono::milliseconds courtesy(100);

struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  int working = 0;     ///< threads
  bool wanted = false; ///< a fork waits for the work to end
  bool closed = false; ///< none may begin
};

/// Lives for ever; made anew in a child, where its mutex may be in any state.
alignas(Gate) unsigned char storage[sizeof(Gate)];
Gate *gate = nullptr;
pthread_once_t once = PTHREAD_ONCE_INIT;

std::atomic<unsigned> forks = 0;

thread_local int depth = 0;          ///< of Working on this thread
thread_local bool isClosing = false; ///< this thread has closed the gate

void open(bool isChild) {
  cache::writer::afterFork(isChild);
  if (isChild) {
    forks.fetch_add(1, std::memory_order_relaxed);
    gate = new (storage) Gate;
    gate->working = depth > 0;
  } else if (isClosing) {
    {
      std::lock_guard lock(gate->mutex);
      gate->closed = gate->wanted = false;
    }
    gate->changed.notify_all();
  }
  isClosing = false;
}

bool isQuiet() {
  return gate->working <= (depth > 0);
}

/// For programs that fork while no lock of theirs is held; Python has come here before.
void prepare() {
  if (!isClosing) {
    std::unique_lock lock(gate->mutex);
    gate->changed.wait_for(lock, patience, [] { return !gate->closed; }); // one fork at a time
    gate->closed = gate->wanted = isClosing = true;
    gate->changed.wait_for(lock, patience, isQuiet);
  }
  cache::writer::beforeFork();
}

void start() {
  gate = new (storage) Gate;
  pthread_atfork(prepare, [] { open(false); }, [] { open(true); });
}

} // namespace

void nereid::runtime::watchForks() {
  pthread_once(&once, start);
}

unsigned nereid::runtime::forkCount() {
  return forks.load(std::memory_order_relaxed);
}

Working::Working() {
  if (depth++)
    return;
  watchForks();
  std::unique_lock lock(gate->mutex);
  gate->changed.wait_for(lock, courtesy, [] { return !gate->wanted || isClosing; });
  gate->changed.wait_for(lock, patience, [] { return !gate->closed || isClosing; });
  ++gate->working;
}

Working::~Working() {
  if (--depth)
    return;
  {
    std::lock_guard lock(gate->mutex);
    --gate->working;
  }
  gate->changed.notify_all();
}

void nrd_await_quiet(void) {
  watchForks();
  std::unique_lock lock(gate->mutex);
  gate->wanted = true;
  gate->changed.wait_for(lock, patience, [] { return !gate->closed && isQuiet(); });
}

int nrd_close_for_fork(void) {
  watchForks();
  std::lock_guard lock(gate->mutex);
  if (isClosing)
    return 1;
  if (gate->closed || !isQuiet())
    return 0;
  gate->closed = gate->wanted = isClosing = true;
  return 1;
}
