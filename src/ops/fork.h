// Locks of a process that forks while its other threads use them.
#pragma once

#include <new>

namespace nereid::ops {

/// A lock that is free in a forked child, and what it protects is whole: a fork waits for whoever
/// holds it. So it is held for a short time only, and nothing else is waited for meanwhile (no
/// other lock, and Python's neither).
class ForkLock {
public:
  ForkLock(const ForkLock &) = delete;

protected:
  ForkLock();
  ~ForkLock();

private:
  friend struct ForkHandlers;
  virtual void take() = 0;
  virtual void giveBack() = 0;
  virtual void makeAnew() = 0; ///< in the child, which must not unlock what another thread locked

  ForkLock *next = nullptr, **link = nullptr;
};

/// Mutex: std::mutex or std::shared_mutex.
template <typename Mutex> class ForkMutex final : private ForkLock, public Mutex {
  void take() override { this->lock(); }
  void giveBack() override { this->unlock(); }
  void makeAnew() override { new (static_cast<Mutex *>(this)) Mutex; }
};

} // namespace nereid::ops
