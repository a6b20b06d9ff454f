#include "runtime/cache/writer.h"

#include "runtime/fork.h"

#include "llvm/ADT/SmallVector.h"

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <pthread.h>

namespace nereid::runtime::cache {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t mostBytes = uint64_t(64) << 20;
/// Files that are open at a time: their data goes to the disk together.
constexpr size_t mostFiles = 16;
constexpr milliseconds patienceAtExit(5000), patienceOfFork(2000);

struct Entry {
  Store store;
  Key key;
  EntryKind kind;
  std::string content;
};
using EntryPtr = std::shared_ptr<const Entry>;

struct Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<EntryPtr> waiting;
  /// By folder and key, also what is being written; of several for one place the last.
  std::map<std::pair<std::string, std::array<uint8_t, 32>>, EntryPtr> known;
  uint64_t bytes = 0;
  uint64_t taken = 0, finished = 0; ///< entries so far: they are written in order
  bool isRunning = false;           ///< the thread, which has something to do or is about to end
  bool isJoinable = false;
  bool isSynchronous = false;
  pthread_t thread{};
};

/// Lives for ever; made anew in a forked child, where its mutex may be in any state.
alignas(Queue) unsigned char storage[sizeof(Queue)];
Queue *queue = nullptr;
std::atomic<bool> isMade = false;
pthread_once_t once = PTHREAD_ONCE_INIT;
/// Entries on their way: readers look no further while there are none.
std::atomic<size_t> count = 0;

void forget(const EntryPtr &entry) {
  auto found = queue->known.find({entry->store.folder(), entry->key.bytes});
  if (found != queue->known.end() && found->second == entry)
    queue->known.erase(found);
  queue->bytes -= entry->content.size();
  ++queue->finished;
  count.store(queue->known.size(), std::memory_order_release);
}

/// An entry that there is no memory for is not kept: the thread is nobody's, an exception would end
/// the process.
std::optional<Store::Staged> stage(const Entry &entry) {
  try {
    return entry.store.stage(entry.key, entry.kind, entry.content);
  } catch (const std::bad_alloc &) {
    return std::nullopt;
  }
}

/// A file that there is no memory for keeps its temporary name, and is thinned out later.
bool commit(const Entry &entry, const Store::Staged &file) {
  try {
    return entry.store.commit(file);
  } catch (const std::bad_alloc &) {
    return false;
  }
}

void *work(void *) {
  llvm::SmallVector<EntryPtr, mostFiles> batch;
  std::unique_lock lock(queue->mutex);
  while (!queue->waiting.empty()) {
    while (!queue->waiting.empty() && batch.size() < mostFiles) {
      batch.push_back(std::move(queue->waiting.front()));
      queue->waiting.pop_front();
    }
    lock.unlock();
    llvm::SmallVector<std::optional<Store::Staged>, mostFiles> files;
    for (const EntryPtr &entry : batch)
      files.push_back(stage(*entry));
    for (auto [entry, file] : llvm::zip_equal(batch, files)) {
      if (file)
        (void)commit(*entry, *file);
      {
        std::lock_guard again(queue->mutex);
        forget(entry);
      }
      queue->changed.notify_all();
    }
    batch.clear();
    lock.lock();
  }
  queue->isRunning = false;
  queue->changed.notify_all();
  return nullptr;
}

/// No thread stays behind, where it has nothing to do.
void join() {
  if (queue->isRunning || !queue->isJoinable)
    return;
  pthread_join(queue->thread, nullptr);
  queue->isJoinable = false;
}

/// Begins the thread. Its signals are the program's business, on other threads.
bool start() {
  join();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  queue->isJoinable = queue->isRunning =
      pthread_create(&queue->thread, nullptr, work, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return queue->isRunning;
}

/// Waits for what is on its way now.
bool waitForEntries(std::unique_lock<std::mutex> &lock, milliseconds limit) {
  uint64_t last = queue->taken;
  return queue->changed.wait_for(lock, limit, [last] { return queue->finished >= last; });
}

/// When the program exits, and when the library is unloaded: no thread of it stays behind.
void end() {
  std::unique_lock lock(queue->mutex);
  queue->isSynchronous = true;
  queue->changed.wait_for(lock, patienceAtExit, [] { return !queue->isRunning; });
  join();
}

void make() {
  watchForks();
  queue = new (storage) Queue;
  isMade.store(true, std::memory_order_release);
  std::atexit(end);
}

} // namespace

bool writer::take(const Store &store, const Key &key, EntryKind kind, std::string content) {
  pthread_once(&once, make);
  std::lock_guard lock(queue->mutex);
  if (queue->isSynchronous || queue->bytes + content.size() > mostBytes)
    return false;
  auto entry = std::make_shared<const Entry>(store, key, kind, std::move(content));
  queue->waiting.push_back(entry);
  queue->known[{store.folder(), key.bytes}] = entry;
  queue->bytes += entry->content.size();
  ++queue->taken;
  count.store(queue->known.size(), std::memory_order_release);
  if (queue->isRunning || start())
    return true;
  queue->waiting.pop_back();
  forget(entry);
  return false;
}

std::optional<std::string> writer::find(const std::string &folder, const Key &key,
                                        EntryKind &kind) {
  if (count.load(std::memory_order_acquire) == 0)
    return std::nullopt;
  std::lock_guard lock(queue->mutex);
  auto found = queue->known.find({folder, key.bytes});
  if (found == queue->known.end())
    return std::nullopt;
  kind = found->second->kind;
  return found->second->content;
}

bool writer::flush(milliseconds limit) {
  if (count.load(std::memory_order_acquire) == 0)
    return true;
  std::unique_lock lock(queue->mutex);
  return waitForEntries(lock, limit);
}

void writer::writeAtOnce() {
  pthread_once(&once, make);
  std::lock_guard lock(queue->mutex);
  queue->isSynchronous = true;
}

void writer::beforeFork() {
  if (!isMade.load(std::memory_order_acquire))
    return;
  std::unique_lock lock(queue->mutex);
  waitForEntries(lock, patienceOfFork);
  queue->changed.wait_for(lock, milliseconds(1), [] { return !queue->isRunning; });
  join();         // Python counts threads
  lock.release(); // until the fork is done
}

void writer::afterFork(bool isChild) {
  if (!isMade.load(std::memory_order_acquire))
    return;
  if (!isChild) {
    queue->mutex.unlock();
    return;
  }
  // Entries that are not written yet are left to the parent process.
  queue = new (storage) Queue;
  queue->isSynchronous = true;
  count.store(0, std::memory_order_release);
}

} // namespace nereid::runtime::cache
