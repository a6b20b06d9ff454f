// A list that holds its first items in place: a launch collects items without allocating, and an
// empty list costs nothing.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace nereid::python {

template <typename T, size_t Inline> class Few {
public:
  Few() = default;
  Few(const Few &other) {
    for (size_t i = 0; i < other.count; ++i)
      push_back(other[i]);
  }
  Few &operator=(const Few &) = delete;
  ~Few() { clear(); }

  size_t size() const { return count; }
  bool empty() const { return count == 0; }
  T &operator[](size_t index) { return index < Inline ? *item(index) : more[index - Inline]; }
  const T &operator[](size_t index) const {
    return index < Inline ? *const_cast<Few *>(this)->item(index) : more[index - Inline];
  }
  T &back() { return (*this)[count - 1]; }
  void push_back(T value) {
    if (count < Inline)
      new (places + count * sizeof(T)) T(std::move(value));
    else
      more.push_back(std::move(value));
    ++count;
  }
  void clear() {
    if constexpr (!std::is_trivially_destructible_v<T>)
      for (size_t i = 0; i < count && i < Inline; ++i)
        item(i)->~T();
    count = 0;
    more.clear();
  }
  template <typename Visit> void each(Visit visit) {
    for (size_t i = 0; i < count; ++i)
      visit((*this)[i]);
  }

private:
  T *item(size_t index) { return std::launder(reinterpret_cast<T *>(places + index * sizeof(T))); }

  size_t count = 0;
  std::vector<T> more;
  alignas(T) std::byte places[Inline * sizeof(T)];
};

} // namespace nereid::python
