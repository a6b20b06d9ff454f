#include "faces/cli/lines.h"

#include "llvm/ADT/StringRef.h"

#include <map>

using llvm::StringRef;

namespace nereid::cli {

std::vector<std::string> splitLines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    lines.emplace_back(line);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return lines;
}

namespace {

/// Debug information may have a path in front, or none.
bool sameFile(StringRef a, StringRef b) {
  if (a.size() < b.size())
    std::swap(a, b);
  return !b.empty() && (a == b || (a.ends_with(b) && a[a.size() - b.size() - 1] == '/'));
}

/// The text in the last pair of quotes.
StringRef lastQuoted(StringRef line) {
  return line.rsplit('"').first.rsplit('"').second;
}

std::vector<unsigned> ofAssembly(const std::vector<std::string> &lines, StringRef file) {
  std::map<unsigned, bool> files;
  for (const std::string &text : lines) {
    StringRef line = StringRef(text).trim();
    unsigned number = 0;
    if (!line.consume_front(".file"))
      continue;
    line = line.ltrim();
    if (!line.consumeInteger(10, number) && sameFile(lastQuoted(line), file))
      files[number] = true;
  }
  std::vector<unsigned> result(lines.size(), 0);
  unsigned current = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    StringRef line = StringRef(lines[i]).trim();
    if (line.consume_front(".loc")) {
      unsigned number = 0, at = 0;
      line = line.ltrim();
      bool ours = !line.consumeInteger(10, number) && files[number];
      line = line.ltrim();
      current = ours && !line.consumeInteger(10, at) ? at : 0;
    } else if (line.starts_with(".cfi_endproc") || line == "}" || line.starts_with(".section")) {
      current = 0;
    }
    result[i] = line.empty() ? 0 : current;
  }
  return result;
}

std::vector<unsigned> ofDisassembly(const std::vector<std::string> &lines, StringRef file) {
  std::vector<unsigned> result(lines.size(), 0);
  unsigned current = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    StringRef line = StringRef(lines[i]).trim();
    if (line.consume_front("//## File ")) {
      StringRef name = line.drop_front(line.starts_with("\"")).split('"').first;
      StringRef after = line.rsplit("line ").second;
      unsigned at = 0;
      current = sameFile(name, file) && !after.consumeInteger(10, at) ? at : 0;
    } else if (line.starts_with(".section") || line.starts_with(".text.")) {
      current = 0;
    }
    result[i] = line.empty() ? 0 : current;
  }
  return result;
}

} // namespace

void tidyDisassembly(std::vector<std::string> &lines, std::vector<unsigned> &places) {
  size_t kept = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    StringRef line = StringRef(lines[i]).ltrim();
    if (line.starts_with("//## File "))
      continue;
    if (auto [address, instruction] = line.split("*/");
        address.starts_with("/*") && !instruction.empty())
      lines[i] = "  " + address.str() + "*/ " + instruction.ltrim().str();
    if (kept != i) {
      lines[kept] = std::move(lines[i]);
      places[kept] = places[i];
    }
    ++kept;
  }
  lines.resize(kept);
  places.resize(kept);
}

std::vector<unsigned> sourceLines(std::string_view kind, const std::vector<std::string> &lines,
                                  std::string_view file) {
  if (kind == "ptx" || kind == "asm")
    return ofAssembly(lines, file);
  if (kind == "sass")
    return ofDisassembly(lines, file);
  return std::vector<unsigned>(lines.size(), 0);
}

} // namespace nereid::cli
