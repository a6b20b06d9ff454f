// Numbers, texts and lists as bytes and back: what is kept on disk.
//
// Little-endian, every length before what it counts. A reader never goes past its end: what is cut
// short, too long or out of range makes it fail once and for all, and from then on it gives zeros
// and empty texts, so that a caller checks `ok()` at the end (and before it trusts a count).
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace nereid {

class ByteWriter {
public:
  template <typename T> void number(T value) {
    static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
    uint64_t bits;
    if constexpr (std::is_enum_v<T>)
      bits = uint64_t(std::underlying_type_t<T>(value));
    else
      bits = uint64_t(std::make_unsigned_t<T>(value)); // only its own bytes are written
    for (size_t i = 0; i < sizeof(T); ++i)
      data.push_back(char(bits >> (8 * i)));
  }
  void flag(bool value) { number(uint8_t(value)); }
  void real(double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    number(bits);
  }
  void count(size_t value) { number(uint64_t(value)); }
  void text(std::string_view value) {
    count(value.size());
    data.append(value);
  }
  template <typename List, typename Each> void list(const List &items, Each each) {
    count(items.size());
    for (const auto &item : items)
      each(item);
  }

  const std::string &bytes() const { return data; }
  std::string take() { return std::move(data); }

private:
  std::string data;
};

class ByteReader {
public:
  explicit ByteReader(std::string_view data) : rest(data) {}

  template <typename T> T number() {
    static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
    uint64_t bits = 0;
    if (!good || rest.size() < sizeof(T)) {
      good = false;
      return T(0);
    }
    for (size_t i = 0; i < sizeof(T); ++i)
      bits |= uint64_t(uint8_t(rest[i])) << (8 * i);
    rest.remove_prefix(sizeof(T));
    return T(bits);
  }
  /// An enumerator; one above `last` is a failure.
  template <typename T> T oneOf(T last) {
    T value = number<T>();
    if (value > last) {
      good = false;
      return T(0);
    }
    return value;
  }
  bool flag() {
    uint8_t value = number<uint8_t>();
    good = good && value <= 1;
    return good && value;
  }
  double real() {
    uint64_t bits = number<uint64_t>();
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  /// A number of items of which each takes at least one byte.
  size_t count() {
    uint64_t value = number<uint64_t>();
    if (value > rest.size()) {
      good = false;
      return 0;
    }
    return size_t(value);
  }
  std::string_view text() {
    size_t size = count();
    std::string_view result = rest.substr(0, size);
    rest.remove_prefix(size);
    return result;
  }
  /// Calls `each()` for every item of a list.
  template <typename Each> void list(Each each) {
    for (size_t n = count(); n > 0 && good; --n)
      each();
  }

  bool ok() const { return good; }
  /// Everything was read, and nothing was wrong.
  bool done() const { return good && rest.empty(); }
  void fail() { good = false; }

private:
  std::string_view rest;
  bool good = true;
};

} // namespace nereid
