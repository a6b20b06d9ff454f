// Small text helpers shared by diagnostics, settings and the lexer: UTF-8 and "did you mean".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace nereid {

/// One decoded code point and the number of bytes it took. Invalid input gives U+FFFD, length 1.
struct CodePoint {
  char32_t value = 0;
  uint32_t length = 0;
};

CodePoint decodeUtf8(std::string_view text, size_t offset);
/// Appends a code point as UTF-8. Lone surrogates (possible in Python strings) are written in the
/// obvious three-byte form.
void appendUtf8(std::string &out, char32_t codePoint);
/// The offset of the first byte that does not belong to valid UTF-8.
std::optional<size_t> findInvalidUtf8(std::string_view text);
/// Number of terminal cells a code point takes: 0 (combining), 1 or 2 (East Asian wide, emoji).
unsigned displayWidth(char32_t codePoint);

/// Levenshtein distance with adjacent swaps counted once; gives up (returns limit + 1) early.
unsigned editDistance(std::string_view a, std::string_view b, unsigned limit);
/// The candidate closest to `name`, when one is close enough to be a likely misspelling; else
/// empty. Case-only differences count as close. Ties go to the first candidate.
std::string_view nearestName(std::string_view name, std::span<const std::string_view> candidates);

} // namespace nereid
