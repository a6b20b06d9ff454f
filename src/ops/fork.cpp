#include "fork.h"

#include <mutex>
#include <pthread.h>

namespace nereid::ops {

/// All locks there are, and the lock of their list, which comes first.
struct ForkHandlers {
  static inline constinit std::mutex mutex;
  static inline constinit ForkLock *first = nullptr;

  static void prepare() {
    mutex.lock();
    for (ForkLock *each = first; each; each = each->next)
      each->take();
  }
  static void inParent() {
    for (ForkLock *each = first; each; each = each->next)
      each->giveBack();
    mutex.unlock();
  }
  static void inChild() {
    for (ForkLock *each = first; each; each = each->next)
      each->makeAnew();
    mutex.unlock();
  }

  static void add(ForkLock &lock) {
    std::lock_guard<std::mutex> guard(mutex);
    lock.next = first;
    lock.link = &first;
    if (first)
      first->link = &lock.next;
    first = &lock;
  }
  static void remove(ForkLock &lock) {
    std::lock_guard<std::mutex> guard(mutex);
    *lock.link = lock.next;
    if (lock.next)
      lock.next->link = lock.link;
  }
};

[[maybe_unused]] static const int registered =
    pthread_atfork(&ForkHandlers::prepare, &ForkHandlers::inParent, &ForkHandlers::inChild);

ForkLock::ForkLock() {
  ForkHandlers::add(*this);
}

ForkLock::~ForkLock() {
  ForkHandlers::remove(*this);
}

} // namespace nereid::ops
