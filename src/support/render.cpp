// How diagnostics look.
#include "support/diagnostics.h"
#include "support/text.h"

#include <algorithm>
#include <vector>

namespace nereid {

namespace {

constexpr unsigned tabWidth = 4;

/// A piece of a source line, ready to print, with the cells its marked part takes.
struct Excerpt {
  std::string text;
  unsigned caret = 0; ///< cells before the mark
  unsigned width = 1; ///< cells of the mark, at least 1
};

/// Appends one code point as it will be shown and returns its cells.
unsigned appendShown(std::string &out, char32_t c) {
  if (c == '\t') {
    out.append(tabWidth, ' ');
    return tabWidth;
  }
  if (c < 0x20 || c == 0x7F) {
    out += ' ';
    return 1;
  }
  appendUtf8(out, c);
  return displayWidth(c);
}

/// The part of `line` around `mark` that fits into `maxWidth` cells. Only that part is looked at:
/// the line may be a megabyte long.
Excerpt excerpt(std::string_view text, SourceRange line, SourceRange mark, unsigned maxWidth) {
  uint32_t begin = std::clamp(mark.begin, line.begin, line.end);
  uint32_t end = std::clamp(mark.end, begin, line.end);
  maxWidth = std::max(maxWidth, 40u);

  auto back = [&](uint32_t at) {
    do
      --at;
    while (at > line.begin && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
    return at;
  };

  // Walk back from the mark over at most half of the width, then forward from there.
  uint32_t from = begin;
  std::string scratch;
  if (line.size() <= maxWidth) {
    from = line.begin;
  } else {
    for (unsigned cells = 0; from > line.begin && cells < maxWidth / 2;) {
      from = back(from);
      cells += appendShown(scratch, decodeUtf8(text, from).value);
    }
  }

  Excerpt result;
  unsigned cells = 0, markEnd = 0;
  bool pastBegin = false;
  if (from > line.begin) {
    result.text = "...";
    cells = 3;
  }
  uint32_t at = from;
  for (; at < line.end && cells < maxWidth;) {
    if (at >= begin && !pastBegin) {
      result.caret = cells;
      pastBegin = true;
    }
    CodePoint c = decodeUtf8(text, at);
    cells += appendShown(result.text, c.value);
    at += c.length;
    if (at <= end)
      markEnd = cells;
  }
  if (!pastBegin)
    result.caret = cells;
  if (markEnd > result.caret)
    result.width = markEnd - result.caret;
  if (at < line.end)
    result.text += "...";
  return result;
}

class Printer {
public:
  explicit Printer(const RenderOptions &options) : options(options) {}

  void print(DiagKind kind, const SourceFilePtr &file, SourceRange range,
             const std::string &message) {
    paint("1");
    if (file) {
      LineColumn at = file->position(range.begin);
      out += file->name();
      out += ':' + std::to_string(at.line) + ':' + std::to_string(at.column + 1) + ": ";
    }
    paint(kind == DiagKind::Warning ? "1;35" : kind == DiagKind::Note ? "1;36" : "1;31");
    out += kindName(kind);
    out += ": ";
    paint("0");
    paint("1");
    out += message;
    paint("0");
    out += '\n';
    if (file)
      printLine(*file, range);
  }

  std::string out;

private:
  void paint(const char *code) {
    if (options.color)
      out += std::string("\x1b[") + code + "m";
  }

  void printLine(const SourceFile &file, SourceRange range) {
    uint32_t index = file.lineIndex(range.begin);
    Excerpt shown = excerpt(file.text(), file.lineRange(index), range, options.maxWidth);
    std::string number = std::to_string(file.origin().firstLine + index);
    number.insert(0, number.size() < 4 ? 4 - number.size() : 0, ' ');
    out += number + " | " + shown.text + '\n';
    out += std::string(number.size(), ' ') + " | " + std::string(shown.caret, ' ');
    paint("1;32");
    out += '^' + std::string(shown.width - 1, '~');
    paint("0");
    out += '\n';
  }

  const RenderOptions &options;
};

} // namespace

std::string render(const Diagnostic &diagnostic, const RenderOptions &options) {
  Printer printer(options);
  printer.print(diagnostic.kind(), diagnostic.file(), diagnostic.range(), diagnostic.message());
  for (const Diagnostic::Note &note : diagnostic.notes())
    printer.print(DiagKind::Note, note.file, note.range, note.message);
  return std::move(printer.out);
}

std::string renderTriton(const Diagnostic &diagnostic, std::optional<SourceRange> function) {
  constexpr uint32_t maxLines = 12;
  constexpr unsigned maxWidth = 200;
  if (!diagnostic.file())
    return diagnostic.tritonMessage();
  const SourceFile &file = *diagnostic.file();
  uint32_t offset = diagnostic.range().begin;
  uint32_t line = file.lineIndex(offset);
  uint32_t first = function ? std::min(file.lineIndex(function->begin), line) : 0;
  uint32_t from = line - first >= maxLines ? line - maxLines + 1 : first;

  std::string out = "at " + std::to_string(line - first + 1) + ':' +
                    std::to_string(file.columnInText(offset)) + ":\n";
  for (uint32_t i = from; i < line; ++i) {
    SourceRange range = file.lineRange(i);
    bool long_ = range.size() > maxWidth;
    if (long_)
      range.end = range.begin + maxWidth;
    while (long_ && range.end > range.begin &&
           (static_cast<unsigned char>(file.text()[range.end]) & 0xC0) == 0x80)
      --range.end;
    out += file.text(range);
    out += long_ ? "...\n" : "\n";
  }
  Excerpt shown = excerpt(file.text(), file.lineRange(line), {offset, offset}, maxWidth);
  out += shown.text + '\n' + std::string(shown.caret, ' ') + "^\n" + diagnostic.tritonMessage();
  return out;
}

} // namespace nereid
