// Source text: what every phase points into.
//
// A SourceFile owns the bytes of one file (or of one function's dedented text taken from a larger
// file), knows where its lines begin, and turns byte offsets into the lines and columns a person
// sees in an editor. Everything else in the compiler stores only byte offsets (SourceRange), which
// are 8 bytes, cheap to copy, and exact.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nereid {

/// A half-open range of byte offsets into a SourceFile's text.
struct SourceRange {
  uint32_t begin = 0;
  uint32_t end = 0;

  uint32_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  bool contains(uint32_t offset) const { return begin <= offset && offset < end; }
  friend bool operator==(const SourceRange &, const SourceRange &) = default;
};

/// The smallest range that covers both.
inline SourceRange cover(SourceRange a, SourceRange b) {
  return {a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};
}

/// A position as a person reads it. `line` counts from 1, `column` from 0 in code points (add 1 to
/// print it as editors do). Both are those of the original file, also when the SourceFile holds
/// only a function cut out of it.
struct LineColumn {
  uint32_t line = 0;
  uint32_t column = 0;
  friend bool operator==(const LineColumn &, const LineColumn &) = default;
};

/// Where a SourceFile's text sits in the file a person would open: a kernel that comes from Python
/// may be the dedented text of one function.
struct SourceOrigin {
  uint32_t firstLine = 1;   ///< line number of the first line of the text
  uint32_t columnShift = 0; ///< how many columns dedenting removed from every line
};

/// Immutable text with a display name and a line table. Create it through `create`, share it
/// freely between threads: diagnostics and syntax trees keep it alive by shared pointer.
class SourceFile : public std::enable_shared_from_this<SourceFile> {
  struct Private {};

public:
  /// Longer text than this (64 MiB) is refused by the parser (SourceTooLarge).
  static constexpr size_t maxSize = size_t(1) << 26;

  SourceFile(Private, std::string name, std::string text, SourceOrigin origin);
  SourceFile(const SourceFile &) = delete;
  SourceFile &operator=(const SourceFile &) = delete;

  static std::shared_ptr<const SourceFile> create(std::string name, std::string text,
                                                  SourceOrigin origin = {});

  /// Reads a file from disk; null when it cannot be opened (the caller reports CannotReadFile).
  static std::shared_ptr<const SourceFile> read(const std::string &path);

  std::string_view name() const { return fileName; }
  std::string_view text() const { return contents; }
  std::string_view text(SourceRange range) const;
  const SourceOrigin &origin() const { return start; }

  /// The offset of the first byte that is not valid UTF-8, if any.
  std::optional<uint32_t> invalidUtf8() const { return badByte; }

  uint32_t lineCount() const { return uint32_t(lineStarts.size()); }
  /// 0-based index of the line (within this text) that holds `offset`.
  uint32_t lineIndex(uint32_t offset) const;
  /// The line without its line break.
  SourceRange lineRange(uint32_t lineIndex) const;
  /// Line and column in the original file.
  LineColumn position(uint32_t offset) const;
  /// Column in code points within this text (not shifted by the origin).
  uint32_t columnInText(uint32_t offset) const;
  /// Index of the line whose number in the original file is `line`, if it is in this text.
  std::optional<uint32_t> indexOfLine(uint32_t line) const;

private:
  std::string fileName;
  std::string contents;
  SourceOrigin start;
  std::vector<uint32_t> lineStarts;
  std::optional<uint32_t> badByte;
};

using SourceFilePtr = std::shared_ptr<const SourceFile>;

/// A range together with the file it points into: what a diagnostic is reported at. The default
/// value means "nowhere in particular" (a bad setting, a bad command line).
struct SourceSpan {
  const SourceFile *file = nullptr;
  SourceRange range;

  SourceSpan() = default;
  SourceSpan(const SourceFile &file, SourceRange range) : file(&file), range(range) {}
  explicit operator bool() const { return file != nullptr; }
};

} // namespace nereid
