#include "faces/python/source.h"

#include <cctype>
#include <string>

namespace nereid::python {
namespace {

constexpr size_t tabWidth = 8; // as Python's tokenizer counts

bool isNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c < 0;
}

/// Whether a line goes on with this word.
bool startsWith(std::string_view line, size_t position, std::string_view word) {
  return line.substr(position, word.size()) == word &&
         (position + word.size() >= line.size() || !isNameCharacter(line[position + word.size()]));
}

} // namespace

std::optional<BlockFinder::Block> BlockFinder::found() const {
  bool isOpen = quote || depth || isContinued;
  bool isWhole = where == Where::Ended || (where == Where::Body && !isOpen);
  return isWhole ? std::optional(block) : std::nullopt;
}

bool BlockFinder::take(std::string_view line) {
  ++count;
  size_t position = 0;
  bool isNew = !quote && !depth && !isContinued;
  if (isNew && !beginLogicalLine(line, position))
    return where != Where::Ended && where != Where::Unclear;
  if (!scan(line, position)) {
    where = Where::Unclear;
    return false;
  }
  if (quote || depth || isContinued)
    return true;
  block.lines = count;
  if (where == Where::Header)
    where = Where::Body;
  return true;
}

/// False when the line holds nothing, or nothing of the function.
bool BlockFinder::beginLogicalLine(std::string_view line, size_t &position) {
  size_t column = 0;
  for (; position < line.size() && (line[position] == ' ' || line[position] == '\t'); ++position)
    column = line[position] == ' ' ? column + 1 : (column / tabWidth + 1) * tabWidth;
  if (position == line.size() || line[position] == '\n')
    return false;
  if (line[position] == '#') {
    if (hasBody && position >= bodyOffset)
      block.lines = count;
    return false;
  }
  if (line[position] == '\f' || line[position] == '\r') {
    where = Where::Unclear;
    return false;
  }
  switch (where) {
  case Where::BeforeDef:
    if (line[position] == '@')
      return true;
    if (!startsWith(line, position, "def") && !startsWith(line, position, "async")) {
      where = Where::Unclear;
      return false;
    }
    where = Where::Header;
    block.defLine = count - 1;
    defColumn = column;
    return true;
  case Where::Body:
    if (column <= defColumn || (hasBody && column < bodyColumn)) {
      where = Where::Ended;
      return false;
    }
    if (!hasBody) {
      hasBody = true;
      bodyColumn = column;
      bodyOffset = position;
    }
    return true;
  default:
    return false;
  }
}

/// Follows strings and brackets to the end of a line. False for what is not Python, or unclear.
bool BlockFinder::scan(std::string_view line, size_t position) {
  isContinued = false;
  while (position < line.size()) {
    if (quote) {
      position = closeString(line, position);
      if (position == std::string_view::npos)
        return false;
      continue;
    }
    char c = line[position];
    if (c == '#')
      return true;
    if (c == '\'' || c == '"') {
      position = openString(line, position);
      if (position == std::string_view::npos)
        return false;
      continue;
    }
    if (c == '\\') {
      isContinued = line.substr(position + 1) == "\n";
      if (!isContinued)
        return false;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}') {
      if (!depth--)
        return false;
    }
    ++position;
  }
  return true;
}

/// Behind the opening quote; npos for an f-string.
size_t BlockFinder::openString(std::string_view line, size_t position) {
  size_t prefix = position;
  bool isFormatted = false;
  while (prefix > 0 && isNameCharacter(line[prefix - 1])) {
    char c = char(std::tolower(static_cast<unsigned char>(line[--prefix])));
    isFormatted |= c == 'f' || c == 't';
  }
  if (isFormatted) // a name cannot stand before a string, so this is its prefix
    return std::string_view::npos;
  quote = line[position];
  isTriple = line.substr(position, 3) == std::string(3, quote);
  return position + (isTriple ? 3 : 1);
}

/// Behind the closing quote, or the end of the line; npos when a line ends within a string.
size_t BlockFinder::closeString(std::string_view line, size_t position) {
  for (; position < line.size(); ++position) {
    char c = line[position];
    if (c == '\\') {
      ++position; // also before the end of the line
    } else if (c == quote && (!isTriple || line.substr(position, 3) == std::string(3, quote))) {
      position += isTriple ? 3 : 1;
      quote = 0;
      return position;
    } else if (c == '\n' && !isTriple) {
      return std::string_view::npos;
    }
  }
  return position;
}

} // namespace nereid::python
