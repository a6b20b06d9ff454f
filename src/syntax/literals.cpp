// Numbers, strings and f-strings.
#include "support/text.h"
#include "syntax/parser_impl.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace nereid::syntax {

// --- Numbers -------------------------------------------------------------------------------------

/// The double nearest to an integer of any size, ties to even.
static double nearestDouble(const std::vector<uint64_t> &words) {
  if (words.empty())
    return 0;
  if (words.size() == 1)
    return double(words[0]);
  // The top 64 bits; what lies below only matters as "something is there".
  size_t top = words.size() - 1;
  int shift = std::countl_zero(words[top]);
  uint64_t head = words[top] << shift;
  uint64_t below = words[top - 1];
  if (shift) {
    head |= below >> (64 - shift);
    below <<= shift;
  }
  bool sticky = below != 0;
  for (size_t i = 0; i + 1 < top; ++i)
    sticky |= words[i] != 0;
  int64_t exponent = int64_t(top) * 64 - shift;
  if (exponent > 2000)
    return std::numeric_limits<double>::infinity();
  return std::ldexp(double(head | uint64_t(sticky)), int(exponent));
}

/// `digits` holds only digits of the base.
void Parser::setInteger(Constant &constant, std::string_view digits, unsigned base) {
  std::vector<uint64_t> words;
  auto digit = [](char c) -> uint64_t {
    return c <= '9' ? uint64_t(c - '0') : uint64_t((c | 0x20) - 'a' + 10);
  };
  if (base == 10) {
    for (size_t i = 0; i < digits.size();) {
      uint64_t chunk = 0, scale = 1;
      for (; i < digits.size() && scale < 1'000'000'000'000'000'000u; ++i, scale *= 10)
        chunk = chunk * 10 + digit(digits[i]);
      for (uint64_t &word : words) {
        unsigned __int128 product = static_cast<unsigned __int128>(word) * scale + chunk;
        word = uint64_t(product);
        chunk = uint64_t(product >> 64);
      }
      if (chunk)
        words.push_back(chunk);
    }
  } else {
    unsigned bits = base == 16 ? 4 : base == 8 ? 3 : 1;
    uint64_t position = 0;
    words.resize(digits.size() * bits / 64 + 1);
    for (size_t i = digits.size(); i-- > 0; position += bits) {
      uint64_t value = digit(digits[i]);
      words[position / 64] |= value << (position % 64);
      if (position % 64 + bits > 64)
        words[position / 64 + 1] |= value >> (64 - position % 64);
    }
    while (!words.empty() && !words.back())
      words.pop_back();
  }
  constant.constantKind = ConstantKind::Int;
  constant.number = nearestDouble(words);
  constant.words = arena.copy(words.data(), words.size());
}

/// The value of a decimal floating-point literal; too large is infinity, too small is 0.
static double parseDouble(std::string_view text) {
  double value = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc::result_out_of_range)
    return failure == std::errc() ? value : 0;
  // Out of range: decide by the decimal exponent of the first digit that is not zero.
  size_t e = text.find_first_of("eE");
  std::string_view mantissa = text.substr(0, e);
  size_t dot = std::min(mantissa.find('.'), mantissa.size());
  size_t first = mantissa.find_first_of("123456789");
  if (first == std::string_view::npos)
    return 0;
  bool negative = e != std::string_view::npos && e + 1 < text.size() && text[e + 1] == '-';
  std::string_view exponentText =
      e == std::string_view::npos ? "" : text.substr(e + 1 + (negative || text[e + 1] == '+'));
  int64_t exponent = 0;
  auto parsed =
      std::from_chars(exponentText.data(), exponentText.data() + exponentText.size(), exponent);
  if (parsed.ec == std::errc::result_out_of_range)
    exponent = std::numeric_limits<int32_t>::max();
  int64_t place = int64_t(dot) - int64_t(first) + (negative ? -exponent : exponent);
  return place > 0 ? std::numeric_limits<double>::infinity() : 0;
}

const Expr *Parser::parseNumber() {
  SourceRange range = here();
  std::string_view written = textOf(token());
  advance();
  std::string digits;
  digits.reserve(written.size());
  for (char c : written)
    if (c != '_')
      digits += c;

  auto *node = make<Constant>();
  unsigned base = 10;
  if (digits.size() > 1 && digits[0] == '0') {
    char letter = char(digits[1] | 0x20);
    base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
  }
  char last = char(digits.back() | 0x20);
  if (base != 10) {
    setInteger(*node, std::string_view(digits).substr(2), base);
  } else if (last == 'j') {
    node->constantKind = ConstantKind::Imaginary;
    digits.pop_back();
    node->number = parseDouble(digits);
  } else if (digits.find_first_of(".eE") != std::string::npos) {
    node->constantKind = ConstantKind::Float;
    node->number = parseDouble(digits);
  } else {
    if (digits.size() > maxIntDigits) {
      error(diag::IntTooLong, range, int64_t(digits.size()), int64_t(maxIntDigits));
      digits.resize(1);
    }
    setInteger(*node, digits, 10);
  }
  return sized(node, range);
}

// --- Escape sequences ----------------------------------------------------------------------------

/// The character that a backslash and `letter` stand for, for escapes of one letter; else nothing.
static std::optional<char> simpleEscape(char letter) {
  switch (letter) {
  case '\\':
  case '\'':
  case '"':
    return letter;
  case 'a':
    return '\a';
  case 'b':
    return '\b';
  case 'f':
    return '\f';
  case 'n':
    return '\n';
  case 'r':
    return '\r';
  case 't':
    return '\t';
  case 'v':
    return '\v';
  default:
    return std::nullopt;
  }
}

/// Decodes the text of one literal: escapes, line breaks, doubled braces of f-strings.
class Parser::TextDecoder {
public:
  TextDecoder(Parser &parser, SourceRange range, bool raw, bool bytes, bool braces)
      : parser(parser), range(range), text(parser.source.text(range)), raw(raw), bytes(bytes),
        braces(braces) {}
  Decoded decode();

private:
  bool isSpecial(char c) const {
    return (c == '\\' && !raw) || c == '\r' || (braces && (c == '{' || c == '}'));
  }
  static bool isAscii(char c) { return static_cast<unsigned char>(c) < 0x80; }
  /// Reports the escape from `from` to before `to`; decoding goes on.
  void badEscape(size_t from, size_t to, std::string_view expected);
  /// Reports the character at `bad` of a bytes literal.
  Decoded nonAscii(size_t bad);
  void append(char32_t value) {
    if (bytes)
      out += char(value);
    else
      appendUtf8(out, value);
  }
  /// Takes the character or characters at `i` that are no escape.
  void plainCharacter(char c);
  /// Takes the escape at `i`, a backslash that is not the last character.
  void escape();
  void hexEscape(unsigned count, char32_t limit);
  void octalEscape();
  void namedEscape();
  void keepBackslash() { // no escape: the backslash stands for itself
    out += '\\';
    ++i;
  }

  Parser &parser;
  SourceRange range;
  std::string_view text;
  bool raw, bytes, braces;
  size_t i = 0;
  std::string out;
  Decoded result;
};

Parser::Decoded Parser::TextDecoder::decode() {
  bool ascii = true;
  for (; i < text.size() && !isSpecial(text[i]); ++i)
    ascii &= isAscii(text[i]);
  if (bytes && !ascii)
    return nonAscii(std::find_if_not(text.begin(), text.end(), isAscii) - text.begin());
  if (i == text.size()) {
    result.text = text;
    return result;
  }
  out = text.substr(0, i);
  while (i < text.size()) {
    char c = text[i];
    if (c == '\\' && !raw && i + 1 < text.size())
      escape();
    else if (bytes && !isAscii(c))
      return nonAscii(i);
    else
      plainCharacter(c);
  }
  result.text = parser.arena.copy(out);
  return result;
}

void Parser::TextDecoder::badEscape(size_t from, size_t to, std::string_view expected) {
  SourceRange at{uint32_t(range.begin + from), uint32_t(range.begin + std::min(to, text.size()))};
  parser.error(diag::BadEscape, at, parser.source.text(at), expected);
  result.ok = false;
}

Parser::Decoded Parser::TextDecoder::nonAscii(size_t bad) {
  uint32_t length = decodeUtf8(text, bad).length;
  SourceRange at{uint32_t(range.begin + bad), uint32_t(range.begin + bad + length)};
  parser.error(diag::NonAsciiBytes, at, "`" + std::string(parser.source.text(at)) + "`");
  result.ok = false;
  return result;
}

void Parser::TextDecoder::plainCharacter(char c) {
  auto followedBy = [&](char next) { return i + 1 < text.size() && text[i + 1] == next; };
  if (c == '\r') { // line breaks count as `\n`, however they are written
    out += '\n';
    i += followedBy('\n') ? 2 : 1;
    return;
  }
  out += c;
  bool doubled = braces && (c == '{' || c == '}') && followedBy(c);
  i += doubled ? 2 : 1;
}

void Parser::TextDecoder::escape() {
  char letter = text[i + 1];
  if (std::optional<char> simple = simpleEscape(letter)) {
    out += *simple;
    i += 2;
    return;
  }
  switch (letter) {
  case '\n':
    i += 2;
    return;
  case '\r':
    i += i + 2 < text.size() && text[i + 2] == '\n' ? 3 : 2;
    return;
  case 'x':
    return hexEscape(2, 0xFF);
  case 'u':
  case 'U':
    return bytes ? keepBackslash() : hexEscape(letter == 'u' ? 4 : 8, 0x10FFFF);
  case 'N':
    return bytes ? keepBackslash() : namedEscape();
  default:
    return letter >= '0' && letter <= '7' ? octalEscape() : keepBackslash();
  }
}

void Parser::TextDecoder::hexEscape(unsigned count, char32_t limit) {
  char32_t value = 0;
  for (unsigned k = 0; k < count; ++k) {
    char c = i + 2 + k < text.size() ? text[i + 2 + k] : 'z';
    bool digit = c >= '0' && c <= '9';
    bool letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'f';
    if (!digit && !letter) {
      badEscape(i, i + 2 + k, std::to_string(count) + " hexadecimal digits");
      i += 2 + k;
      return;
    }
    value = value * 16 + char32_t(digit ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  if (value > limit)
    badEscape(i, i + 2 + count, "a code point up to `\\U0010ffff`");
  else
    append(value);
  i += 2 + count;
}

void Parser::TextDecoder::octalEscape() {
  char32_t value = 0;
  size_t end = i + 1;
  for (; end < text.size() && end < i + 4 && text[end] >= '0' && text[end] <= '7'; ++end)
    value = value * 8 + char32_t(text[end] - '0');
  append(value); // of a byte the lowest 8 bits
  i = end;
}

/// The name of a character is kept as written; users of the string look it up.
void Parser::TextDecoder::namedEscape() {
  size_t close = text.find('}', i);
  if (i + 2 >= text.size() || text[i + 2] != '{' || close == std::string_view::npos ||
      close == i + 3) {
    badEscape(i, i + 2, "a character's name in braces after it");
    i += 2;
    return;
  }
  result.named = true;
  out += text.substr(i, close + 1 - i);
  i = close + 1;
}

/// The text of a literal between its quotes. `braces`: the text of an f-string, where doubled
/// braces stand for one.
Parser::Decoded Parser::decode(SourceRange range, bool raw, bool bytes, bool braces) {
  return TextDecoder(*this, range, raw, bytes, braces).decode();
}

// --- Strings -------------------------------------------------------------------------------------

const Constant *Parser::stringConstant(Decoded text, ConstantKind constantKind, SourceRange range) {
  if (!text.ok)
    return nullptr;
  auto *node = make<Constant>();
  node->constantKind = constantKind;
  node->text = text.text;
  node->hasNamedCharacter = text.named;
  return sized(node, range);
}

/// Joins neighbouring constants and drops empty ones.
NodeList<Expr> Parser::mergeConstants(const Collect<Expr> &parts) {
  std::vector<const Expr *> merged;
  for (size_t i = 0; i < parts.size();) {
    if (!isa<Constant>(parts[i])) {
      merged.push_back(parts[i++]);
      continue;
    }
    size_t end = i;
    size_t length = 0;
    for (; end < parts.size() && isa<Constant>(parts[end]); ++end)
      length += cast<Constant>(parts[end])->text.size();
    auto *first = cast<Constant>(parts[i]);
    if (end == i + 1 && length) {
      merged.push_back(first);
    } else if (length) {
      std::string text;
      text.reserve(length);
      auto *node = make<Constant>();
      node->constantKind = first->constantKind;
      for (size_t k = i; k < end; ++k) {
        text += cast<Constant>(parts[k])->text;
        node->hasNamedCharacter |= cast<Constant>(parts[k])->hasNamedCharacter;
      }
      node->text = arena.copy(text);
      merged.push_back(sized(node, cover(first->range, parts[end - 1]->range)));
    }
    i = end;
  }
  return arena.copy(merged.data(), merged.size());
}

/// Adjacent string and f-string literals.
const Expr *Parser::parseStrings() {
  uint32_t start = begin();
  Collect<Expr> parts(*this);
  bool anyBytes = false, anyText = false, anyFormatted = false, failed = false;
  SourceRange mixed;
  while (at(K::String) || at(K::FStringStart)) {
    SourceRange range = here();
    bool formatted = at(K::FStringStart);
    std::string_view text = textOf(token());
    bool raw = false, bytes = false;
    uint32_t prefix = 0;
    for (; text[prefix] != '"' && text[prefix] != '\''; ++prefix) {
      raw |= (text[prefix] | 0x20) == 'r';
      bytes |= (text[prefix] | 0x20) == 'b';
    }
    bool hadBoth = anyBytes && anyText;
    (bytes ? anyBytes : anyText) = true;
    if (anyBytes && anyText && !hadBoth)
      mixed = range;
    advance();
    if (formatted) {
      anyFormatted = true;
      if (!parseFStringParts(parts, raw, K::FStringEnd))
        return nullptr;
      if (!expect(K::FStringEnd))
        return nullptr;
      continue;
    }
    uint32_t quotes = text.size() >= prefix + 6 && text[prefix + 1] == text[prefix] &&
                              text[prefix + 2] == text[prefix]
                          ? 3
                          : 1;
    Decoded content =
        decode({range.begin + prefix + quotes, range.end - quotes}, raw, bytes, false);
    const Constant *constant =
        stringConstant(content, bytes ? ConstantKind::Bytes : ConstantKind::Str, range);
    if (constant)
      parts.add(constant);
    failed |= !constant;
  }
  if (failed)
    return nullptr;
  if (anyBytes && anyText)
    return error(diag::MixedBytes, mixed);
  if (anyFormatted) {
    auto *node = make<JoinedStr>();
    node->values = mergeConstants(parts);
    return done(node, start);
  }
  if (parts.size() == 1)
    return parts[0];
  auto *node = make<Constant>();
  node->constantKind = anyBytes ? ConstantKind::Bytes : ConstantKind::Str;
  std::string joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    joined += cast<Constant>(parts[i])->text;
    node->hasNamedCharacter |= cast<Constant>(parts[i])->hasNamedCharacter;
  }
  node->text = arena.copy(joined);
  return done(node, start);
}

/// Text and replacement fields up to `end`, which is left.
bool Parser::parseFStringParts(Collect<Expr> &out, bool raw, TokenKind end) {
  while (!at(end)) {
    if (at(K::FStringMiddle)) {
      SourceRange range = here();
      Decoded content = decode(range, raw, false, true);
      const Constant *constant = stringConstant(content, ConstantKind::Str, range);
      if (!constant)
        return false;
      advance();
      out.add(constant);
    } else if (at(K::LBrace)) {
      if (!parseReplacement(out, raw))
        return false;
    } else {
      error(diag::ExpectedToken, here(), describe(end), found());
      return false;
    }
  }
  return true;
}

/// `{expression = !conversion : specification}`.
bool Parser::parseReplacement(Collect<Expr> &out, bool raw) {
  SourceRange brace = here();
  advance();
  if (at(K::RBrace) || at(K::Exclamation) || at(K::Colon) || at(K::Equal)) {
    error(diag::EmptyReplacement, cover(brace, here()));
    return false;
  }
  auto *node = make<FormattedValue>();
  if (!set(node->value, parseYieldOrStar()))
    return false;
  const Constant *written = nullptr; // of `{x=}`
  if (accept(K::Equal)) {
    SourceRange range{brace.end, begin()};
    Decoded text;
    text.text = source.text(range);
    if (text.text.find('\r') != std::string_view::npos)
      text = decode(range, /*raw=*/true, false, false);
    if (!set(written, stringConstant(text, ConstantKind::Str, range)))
      return false;
  }
  bool plain = true;
  if (accept(K::Exclamation)) {
    plain = false;
    std::string_view word = at(K::Name) ? textOf(token()) : "";
    if (word != "r" && word != "s" && word != "a") {
      error(diag::BadConversion, here(), found());
      return false;
    }
    node->conversion = word[0];
    advance();
  }
  if (at(K::Colon)) {
    plain = false;
    uint32_t colon = begin();
    advance();
    Collect<Expr> parts(*this);
    if (!parseFStringParts(parts, raw, K::RBrace))
      return false;
    auto *spec = make<JoinedStr>();
    spec->values = mergeConstants(parts);
    if (!set(node->formatSpec, done(spec, colon)))
      return false;
  }
  if (!at(K::RBrace)) {
    error(diag::UnclosedReplacement, here(), found());
    return false;
  }
  advance();
  if (written && plain)
    node->conversion = 'r';
  if (!done(node, brace.begin))
    return false;
  if (written)
    out.add(written);
  out.add(node);
  return true;
}

} // namespace nereid::syntax
