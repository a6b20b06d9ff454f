#include "runtime/dispatcher.h"

#include "runtime/fork.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/xxhash.h"

#include <cstring>

using namespace nereid::runtime;

struct Dispatcher::Table {
  explicit Table(size_t capacity)
      : mask(capacity - 1), slots(std::make_unique<std::atomic<Entry *>[]>(capacity)) {
    for (size_t i = 0; i < capacity; ++i)
      slots[i].store(nullptr, std::memory_order_relaxed);
  }
  size_t mask; ///< the capacity is a power of two
  std::unique_ptr<std::atomic<Entry *>[]> slots;
};

Dispatcher::Dispatcher() {
  tables.push_back(std::make_unique<Table>(8));
  current.store(tables.back().get(), std::memory_order_release);
}

Dispatcher::~Dispatcher() = default;

uint64_t Dispatcher::hash(Key key) {
  return llvm::xxh3_64bits(key);
}

Dispatcher::Entry *Dispatcher::probe(const Table &table, Key key, uint64_t hash) const {
  for (size_t at = hash & table.mask;; at = (at + 1) & table.mask) {
    Entry *entry = table.slots[at].load(std::memory_order_acquire);
    if (!entry)
      return nullptr;
    if (entry->hash == hash && entry->key.size() == key.size() &&
        std::memcmp(entry->key.data(), key.data(), key.size()) == 0)
      return entry;
  }
}

nrd_kernel *Dispatcher::find(Key key, uint64_t hash) const {
  Entry *entry = probe(*current.load(std::memory_order_acquire), key, hash);
  return entry ? entry->kernel.load(std::memory_order_acquire) : nullptr;
}

void Dispatcher::rebuild(size_t capacity) {
  auto table = std::make_unique<Table>(capacity);
  for (const std::shared_ptr<Entry> &entry : live) {
    size_t at = entry->hash & table->mask;
    while (table->slots[at].load(std::memory_order_relaxed))
      at = (at + 1) & table->mask;
    table->slots[at].store(entry.get(), std::memory_order_relaxed);
  }
  current.store(table.get(), std::memory_order_release);
  tables.push_back(std::move(table));
}

void Dispatcher::insert(std::shared_ptr<Entry> entry) {
  Table &table = *current.load(std::memory_order_relaxed);
  live.push_back(std::move(entry));
  if (live.size() * 2 > table.mask + 1)
    return rebuild((table.mask + 1) * 2);
  size_t at = live.back()->hash & table.mask;
  while (table.slots[at].load(std::memory_order_relaxed))
    at = (at + 1) & table.mask;
  table.slots[at].store(live.back().get(), std::memory_order_release);
}

ErrorPtr Dispatcher::findOrCompile(Key key, uint64_t hash, CompileFn compile, nrd_kernel *&kernel) {
  std::shared_ptr<Entry> mine;
  {
    std::unique_lock lock(mutex);
    if (Entry *found = probe(*current.load(std::memory_order_relaxed), key, hash)) {
      auto entry = *llvm::find_if(live, [&](const auto &other) { return other.get() == found; });
      if (entry->done && entry->error) {
        mine = entry; // failed before: once more
        mine->done = false;
        mine->error = nullptr;
      } else {
        if (!entry->done && entry->compiler == std::this_thread::get_id())
          return internalError("a kernel is launched by its own compilation");
        finished.wait(lock, [&] { return entry->done; });
        if (entry->error)
          return std::make_unique<Error>(*entry->error);
        kernel = entry->kernel.load(std::memory_order_relaxed);
        return nullptr;
      }
    } else {
      mine = std::make_shared<Entry>();
      mine->hash = hash;
      mine->key.assign(key.begin(), key.end());
      insert(mine);
    }
    mine->compiler = std::this_thread::get_id();
  }

  std::unique_ptr<nrd_kernel> compiled;
  ErrorPtr error = compile(compiled);

  std::lock_guard lock(mutex);
  mine->done = true;
  if (error) {
    mine->error = std::make_shared<Error>(*error);
  } else {
    kernel = compiled.get();
    mine->owner = std::move(compiled);
    mine->kernel.store(kernel, std::memory_order_release);
  }
  finished.notify_all();
  return error;
}

void Dispatcher::clear() {
  std::lock_guard lock(mutex);
  retired.insert(retired.end(), live.begin(), live.end());
  live.clear();
  rebuild(8);
  forgetPatternsLocked();
}

void Dispatcher::forgetPatterns() {
  Working working;
  std::lock_guard lock(mutex);
  forgetPatternsLocked();
}

void Dispatcher::forgetPatternsLocked() {
  cleared.fetch_add(1, std::memory_order_acq_rel);
  last.store(nullptr, std::memory_order_release);
  lastMissed.store(nullptr, std::memory_order_relaxed);
  patternOf.clear(); // `patterns` stay: a reader may be at one
}

void Dispatcher::missed(nrd_kernel *kernel, uint64_t generation,
                        llvm::function_ref<bool(const LaunchPattern &)> matches,
                        llvm::function_ref<std::unique_ptr<const LaunchPattern>()> make) {
  // Kernels that take turns leave the pattern of one of them in its place.
  if (lastMissed.load(std::memory_order_relaxed) != kernel) [[likely]]
    return lastMissed.store(kernel, std::memory_order_relaxed);
  if (failures.load(std::memory_order_relaxed) == mostFailures)
    return;
  Working working; // a fork now would leave the lock taken in the child
  std::unique_lock lock(mutex, std::try_to_lock); // another time will do as well
  if (!lock || cleared.load(std::memory_order_relaxed) != generation)
    return;
  const LaunchPattern *&known = patternOf[kernel];
  if (!known || !matches(*known)) {
    std::unique_ptr<const LaunchPattern> made = patterns.size() < mostPatterns ? make() : nullptr;
    if (!made) {
      failures.fetch_add(patterns.size() < mostPatterns, std::memory_order_relaxed);
      return;
    }
    known = made.get();
    patterns.push_back(std::move(made));
  }
  last.store(known, std::memory_order_release);
}

size_t Dispatcher::size() const {
  std::lock_guard lock(mutex);
  return llvm::count_if(live, [](const auto &entry) { return entry->kernel.load() != nullptr; });
}
