#include "support/text.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace nereid {

static bool isContinuation(unsigned char byte) {
  return (byte & 0xC0) == 0x80;
}

/// Length of the valid sequence at `offset`, 0 when it is invalid.
static uint32_t sequenceLength(std::string_view text, size_t offset, char32_t &value) {
  auto byte = [&](size_t i) -> unsigned char {
    return offset + i < text.size() ? static_cast<unsigned char>(text[offset + i]) : 0;
  };
  unsigned char lead = byte(0);
  if (lead < 0x80) {
    value = lead;
    return 1;
  }
  if (lead >= 0xC2 && lead <= 0xDF && isContinuation(byte(1))) {
    value = char32_t(lead & 0x1F) << 6 | (byte(1) & 0x3F);
    return 2;
  }
  if ((lead & 0xF0) == 0xE0 && isContinuation(byte(1)) && isContinuation(byte(2))) {
    value = char32_t(lead & 0x0F) << 12 | char32_t(byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    bool surrogate = value >= 0xD800 && value <= 0xDFFF;
    return value >= 0x800 && !surrogate ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4 && isContinuation(byte(1)) && isContinuation(byte(2)) &&
      isContinuation(byte(3))) {
    value = char32_t(lead & 0x07) << 18 | char32_t(byte(1) & 0x3F) << 12 |
            char32_t(byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    return value >= 0x10000 && value <= 0x10FFFF ? 4 : 0;
  }
  return 0;
}

CodePoint decodeUtf8(std::string_view text, size_t offset) {
  char32_t value = 0;
  if (uint32_t length = sequenceLength(text, offset, value))
    return {value, length};
  return {0xFFFD, 1};
}

void appendUtf8(std::string &out, char32_t c) {
  if (c < 0x80) {
    out += char(c);
  } else if (c < 0x800) {
    out += char(0xC0 | c >> 6);
    out += char(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += char(0xE0 | c >> 12);
    out += char(0x80 | (c >> 6 & 0x3F));
    out += char(0x80 | (c & 0x3F));
  } else {
    out += char(0xF0 | c >> 18);
    out += char(0x80 | (c >> 12 & 0x3F));
    out += char(0x80 | (c >> 6 & 0x3F));
    out += char(0x80 | (c & 0x3F));
  }
}

std::optional<size_t> findInvalidUtf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (at + 8 <= text.size()) {
      uint64_t word;
      std::memcpy(&word, text.data() + at, 8);
      if (!(word & 0x8080808080808080u)) {
        at += 8;
        continue;
      }
    }
    char32_t value;
    uint32_t length = sequenceLength(text, at, value);
    if (!length)
      return at;
    at += length;
  }
  return std::nullopt;
}

namespace {
struct CodeRange {
  char32_t first, last;
};
} // namespace

static bool inRanges(std::span<const CodeRange> ranges, char32_t c) {
  auto *after = std::upper_bound(ranges.data(), ranges.data() + ranges.size(), c,
                                 [](char32_t c, const CodeRange &r) { return c < r.first; });
  return after != ranges.data() && c <= after[-1].last;
}

unsigned displayWidth(char32_t c) {
  // The main blocks of each class: enough to put a caret under the right character.
  static constexpr CodeRange none[] = {
      {0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD},   {0x0610, 0x061A},  {0x064B, 0x065F},
      {0x0E31, 0x0E31}, {0x0E34, 0x0E3A}, {0x0E47, 0x0E4E},   {0x1AB0, 0x1AFF},  {0x1DC0, 0x1DFF},
      {0x200B, 0x200F}, {0x202A, 0x202E}, {0x2060, 0x2064},   {0x20D0, 0x20FF},  {0xFE00, 0xFE0F},
      {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}, {0x1F3FB, 0x1F3FF}, {0xE0100, 0xE01EF}};
  static constexpr CodeRange wide[] = {
      {0x1100, 0x115F},   {0x231A, 0x231B},   {0x23E9, 0x23EC},   {0x2614, 0x2615},
      {0x26A1, 0x26A1},   {0x2705, 0x2705},   {0x274C, 0x274C},   {0x2E80, 0x303E},
      {0x3041, 0x33FF},   {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xA000, 0xA4CF},
      {0xA960, 0xA97F},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},
      {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF},
      {0x1F900, 0x1F9FF}, {0x1FA70, 0x1FAFF}, {0x20000, 0x3FFFD}};
  if (c < 0x300)
    return 1;
  if (inRanges(none, c))
    return 0;
  return inRanges(wide, c) ? 2 : 1;
}

unsigned editDistance(std::string_view a, std::string_view b, unsigned limit) {
  if (a.size() > b.size())
    std::swap(a, b);
  if (b.size() - a.size() > limit)
    return limit + 1;
  std::vector<unsigned> before(a.size() + 1), last(a.size() + 1), row(a.size() + 1);
  for (size_t i = 0; i <= a.size(); ++i)
    last[i] = unsigned(i);
  for (size_t j = 1; j <= b.size(); ++j) {
    row[0] = unsigned(j);
    unsigned best = row[0];
    for (size_t i = 1; i <= a.size(); ++i) {
      unsigned cost = a[i - 1] == b[j - 1] ? 0 : 1;
      row[i] = std::min({last[i] + 1, row[i - 1] + 1, last[i - 1] + cost});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[i] = std::min(row[i], before[i - 2] + 1);
      best = std::min(best, row[i]);
    }
    if (best > limit)
      return limit + 1;
    std::swap(before, last);
    std::swap(last, row);
  }
  return std::min(last[a.size()], limit + 1);
}

std::string_view nearestName(std::string_view name, std::span<const std::string_view> candidates) {
  auto lower = [](std::string_view text) {
    std::string result(text);
    for (char &c : result)
      if (c >= 'A' && c <= 'Z')
        c = char(c - 'A' + 'a');
    return result;
  };
  std::string wanted = lower(name);
  unsigned limit = name.size() <= 2 ? 0 : std::max<unsigned>(1, unsigned(name.size()) / 3);
  std::string_view best;
  unsigned bestDistance = limit + 1;
  for (std::string_view candidate : candidates) {
    if (candidate == name)
      continue;
    unsigned distance = editDistance(wanted, lower(candidate), limit);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

} // namespace nereid
