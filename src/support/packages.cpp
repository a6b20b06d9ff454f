#include "support/packages.h"

#include <atomic>
#include <utility>

namespace nereid {

namespace {

/// Former ones stay alive behind it: other threads may be reading. No lock, which a fork could
/// leave taken.
struct Folders {
  std::vector<std::string> list;
  const Folders *former = nullptr;
};

std::atomic<const Folders *> folders{nullptr};
std::atomic<std::vector<std::string> (*)()> followed{nullptr};

} // namespace

void setPackageFolders(std::vector<std::string> list) {
  auto *fresh = new Folders{std::move(list), folders.load(std::memory_order_acquire)};
  while (!folders.compare_exchange_weak(fresh->former, fresh, std::memory_order_acq_rel))
    ;
}

std::vector<std::string> packageFolders() {
  if (auto *source = followed.load(std::memory_order_acquire))
    return source();
  const Folders *set = folders.load(std::memory_order_acquire);
  return set ? set->list : std::vector<std::string>();
}

void followPackageFolders(std::vector<std::string> (*source)()) {
  followed.store(source, std::memory_order_release);
}

} // namespace nereid
