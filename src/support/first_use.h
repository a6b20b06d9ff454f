// What is made when it is first needed, in a process that may fork.
#pragma once

#include <atomic>

namespace nereid {

/// A value that is made when it is first needed and then lives for ever. A function's static
/// variable would do, but for a fork while another thread makes it: in the child it would stay
/// half made, and whoever needs it would wait for ever. Here threads that come at the same time
/// each make a value, without a lock, and the one that is ready first stays. So making it twice
/// must do no harm.
///
/// For variables that are `static constinit`.
template <typename T> class FirstUse {
public:
  constexpr FirstUse() = default;
  FirstUse(const FirstUse &) = delete;

  /// make: () -> T
  template <typename Make> T &get(Make make) {
    if (T *value = ready.load(std::memory_order_acquire)) [[likely]]
      return *value;
    T *fresh = new T(make()), *first = nullptr;
    if (ready.compare_exchange_strong(first, fresh, std::memory_order_acq_rel,
                                      std::memory_order_acquire))
      return *fresh;
    delete fresh;
    return *first;
  }
  /// One that needs no arguments.
  T &get() {
    return get([] { return T(); });
  }

private:
  std::atomic<T *> ready{nullptr};
};

} // namespace nereid
