#include "support/source.h"

#include "support/files.h"
#include "support/text.h"

#include <algorithm>
#include <cassert>

namespace nereid {

SourceFile::SourceFile(Private, std::string name, std::string text, SourceOrigin origin)
    : fileName(std::move(name)), contents(std::move(text)), start(origin) {
  if (contents.size() > maxSize) {
    lineStarts.push_back(0);
    return; // refused by the parser; offsets do not fit
  }
  if (auto bad = findInvalidUtf8(contents))
    badByte = uint32_t(*bad);
  lineStarts.reserve(contents.size() / 32 + 1);
  lineStarts.push_back(0);
  for (size_t i = 0; i < contents.size(); ++i) {
    char c = contents[i];
    if (c == '\r' && i + 1 < contents.size() && contents[i + 1] == '\n')
      continue;
    if (c == '\n' || c == '\r')
      lineStarts.push_back(uint32_t(i + 1));
  }
}

SourceFilePtr SourceFile::create(std::string name, std::string text, SourceOrigin origin) {
  return std::make_shared<const SourceFile>(Private(), std::move(name), std::move(text), origin);
}

SourceFilePtr SourceFile::read(const std::string &path) {
  std::string text;
  return readFile(path, maxSize, text) ? create(path, std::move(text)) : nullptr;
}

std::string_view SourceFile::text(SourceRange range) const {
  assert(range.begin <= range.end && range.end <= contents.size());
  return std::string_view(contents).substr(range.begin, range.size());
}

uint32_t SourceFile::lineIndex(uint32_t offset) const {
  auto after = std::upper_bound(lineStarts.begin(), lineStarts.end(), offset);
  return uint32_t(after - lineStarts.begin()) - 1;
}

SourceRange SourceFile::lineRange(uint32_t index) const {
  uint32_t begin = lineStarts[index];
  uint32_t end = index + 1 < lineStarts.size() ? lineStarts[index + 1] : uint32_t(contents.size());
  while (end > begin && (contents[end - 1] == '\n' || contents[end - 1] == '\r'))
    --end;
  return {begin, end};
}

uint32_t SourceFile::columnInText(uint32_t offset) const {
  uint32_t at = lineStarts[lineIndex(offset)];
  if (at == 0 && contents.starts_with("\xEF\xBB\xBF"))
    at = 3; // the byte order mark is in no column
  offset = std::min(offset, uint32_t(contents.size()));
  uint32_t column = 0;
  for (; at < offset; ++at)
    column += (static_cast<unsigned char>(contents[at]) & 0xC0) != 0x80;
  return column;
}

LineColumn SourceFile::position(uint32_t offset) const {
  return {start.firstLine + lineIndex(offset), start.columnShift + columnInText(offset)};
}

std::optional<uint32_t> SourceFile::indexOfLine(uint32_t line) const {
  if (line < start.firstLine || line - start.firstLine >= lineStarts.size())
    return std::nullopt;
  return line - start.firstLine;
}

} // namespace nereid
