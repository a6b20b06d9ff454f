// A list that holds its first items in place: what a launch collects allocates nothing.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace nereid::python {

template <typename T, size_t Inline> class Few {
public:
  size_t size() const { return count; }
  bool empty() const { return count == 0; }
  T &operator[](size_t index) { return index < Inline ? items[index] : more[index - Inline]; }
  const T &operator[](size_t index) const {
    return index < Inline ? items[index] : more[index - Inline];
  }
  T &back() { return (*this)[count - 1]; }
  void push_back(T item) {
    if (count < Inline)
      items[count] = std::move(item);
    else
      more.push_back(std::move(item));
    ++count;
  }
  void clear() {
    count = 0;
    more.clear();
  }
  template <typename Visit> void each(Visit visit) {
    for (size_t i = 0; i < count; ++i)
      visit((*this)[i]);
  }

private:
  size_t count = 0;
  T items[Inline];
  std::vector<T> more;
};

} // namespace nereid::python
