// The kernels of one function, by key.
//
// Readers never take a lock: the table is an open-addressed array of pointers to entries that,
// once ready, never change, so a warm look-up is a hash, a probe and a comparison of a few dozen
// bytes. A growing table is replaced, and the old one kept until the dispatcher goes, since a
// reader may still be probing it (sizes double, so at most as much again).
//
// A key that is not there is compiled once: the first thread makes an entry and compiles, later
// ones wait for it. When the compilation fails all waiting threads get the same error, and the next
// request compiles again.
#pragma once

#include "runtime/error.h"
#include "runtime/kernel.h"
#include "runtime/launch_pattern.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace nereid::runtime {

class Dispatcher {
public:
  Dispatcher();
  ~Dispatcher();
  Dispatcher(const Dispatcher &) = delete;

  using Key = llvm::ArrayRef<uint8_t>;
  using CompileFn = llvm::function_ref<ErrorPtr(std::unique_ptr<nrd_kernel> &)>;

  static uint64_t hash(Key key);

  /// The ready kernel of this key, or null. Lock-free.
  nrd_kernel *find(Key key, uint64_t hash) const;

  /// The same, compiling it when it is not there. The kernel lives as long as the dispatcher.
  ErrorPtr findOrCompile(Key key, uint64_t hash, CompileFn compile, nrd_kernel *&kernel);

  /// Forgets all kernels; those handed out stay alive.
  void clear();

  /// The pattern of the latest launches; null when there is none. Lock-free.
  const LaunchPattern *latest() const { return last.load(std::memory_order_acquire); }
  /// Counts how often kernels were forgotten.
  uint64_t generation() const { return cleared.load(std::memory_order_acquire); }
  /// Tells of a launch of `kernel` that did not match `latest()`. When it is the second of its
  /// kernel in a row, the pattern of these launches becomes the latest: one that is known
  /// (`matches`), else a new one (`make`, which may give null). Nothing happens when the kernel was
  /// found before the generation of now.
  void missed(nrd_kernel *kernel, uint64_t generation,
              llvm::function_ref<bool(const LaunchPattern &)> matches,
              llvm::function_ref<std::unique_ptr<const LaunchPattern>()> make);
  /// Forgets the patterns: what the keys say has changed.
  void forgetPatterns();

  /// Number of ready kernels.
  size_t size() const;

private:
  struct Entry {
    uint64_t hash;
    std::vector<uint8_t> key;
    std::atomic<nrd_kernel *> kernel = nullptr; ///< set once, when ready
    std::unique_ptr<nrd_kernel> owner;
    // While it is being compiled, under `mutex`:
    std::thread::id compiler;
    bool done = false;
    std::shared_ptr<Error> error;
  };
  struct Table;

  Entry *probe(const Table &table, Key key, uint64_t hash) const;
  void insert(std::shared_ptr<Entry> entry);
  void rebuild(size_t capacity);
  void forgetPatternsLocked();

  std::atomic<Table *> current;
  std::atomic<const LaunchPattern *> last = nullptr; ///< one of `patterns`
  std::atomic<nrd_kernel *> lastMissed = nullptr;
  std::atomic<uint64_t> cleared = 0;
  std::vector<std::unique_ptr<const LaunchPattern>> patterns; ///< also forgotten ones
  llvm::DenseMap<nrd_kernel *, const LaunchPattern *> patternOf;
  std::atomic<unsigned> failures = 0; ///< launches that no pattern could be made of
  static constexpr unsigned mostFailures = 32, mostPatterns = 1024;
  mutable std::mutex mutex;
  std::condition_variable finished;
  std::vector<std::shared_ptr<Entry>> live;
  std::vector<std::shared_ptr<Entry>> retired;
  std::vector<std::unique_ptr<Table>> tables;
};

} // namespace nereid::runtime
