// Releases of Triton, as far as the rules of its language differ between them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nereid {

/// major * 100 + minor: 309 is 3.9. Only releases whose rules we know are values of it.
using TritonVersion = uint16_t;

constexpr TritonVersion oldestTriton = 306, newestTriton = 309;

/// The release whose rules a text such as "3.8", "3.8.0" or "3.8.0+git1234" selects: of releases
/// that we do not know the nearest one; the oldest for an empty text. Nothing for other texts.
inline std::optional<TritonVersion> parseTritonVersion(std::string_view text) {
  if (text.empty())
    return oldestTriton;
  auto number = [&]() -> std::optional<unsigned> {
    unsigned value = 0;
    size_t digits = 0;
    for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits)
      value = value * 10 + unsigned(text[digits] - '0');
    if (!digits || digits > 4)
      return std::nullopt;
    text.remove_prefix(digits);
    return value;
  };
  std::optional<unsigned> major = number();
  if (!major || !text.starts_with('.'))
    return std::nullopt;
  text.remove_prefix(1);
  std::optional<unsigned> minor = number();
  bool ends = text.empty() || text[0] == '.' || text[0] == '+' || text[0] == 'a' ||
              text[0] == 'b' || text[0] == 'r';
  if (!minor || !ends)
    return std::nullopt;
  unsigned found = *major * 100 + std::min(*minor, 99u);
  return TritonVersion(std::clamp<unsigned>(found, oldestTriton, newestTriton));
}

} // namespace nereid
