// The lexer's classes of ASCII characters.
#pragma once

#include <array>
#include <cstdint>

namespace nereid::syntax {

enum : uint8_t { isStart = 1, isDigit = 2, isHex = 4 };

constexpr std::array<uint8_t, 256> makeClasses() {
  std::array<uint8_t, 256> classes{};
  for (unsigned c = 0; c < 128; ++c) {
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    bool digit = c >= '0' && c <= '9';
    bool hex = digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    classes[c] = uint8_t((letter ? isStart : 0) | (digit ? isDigit : 0) | (hex ? isHex : 0));
  }
  return classes;
}

inline constexpr std::array<uint8_t, 256> classes = makeClasses();

inline bool is(char c, uint8_t which) {
  return classes[static_cast<unsigned char>(c)] & which;
}
inline bool isAscii(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}

inline bool decimalDigit(char c) {
  return is(c, isDigit);
}
inline bool hexDigit(char c) {
  return is(c, isHex);
}
inline bool octalDigit(char c) {
  return c >= '0' && c <= '7';
}
inline bool binaryDigit(char c) {
  return c == '0' || c == '1';
}

} // namespace nereid::syntax
