#include "support/diagnostics.h"

#include <array>
#include <cassert>

namespace nereid {

namespace {

/// The parameters that a format names, bit i for `{i}`; all bits when it is malformed.
constexpr unsigned formatParameters(std::string_view format) {
  unsigned seen = 0;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '{')
      continue;
    if (i + 1 < format.size() && format[i + 1] == '{') {
      ++i;
      continue;
    }
    if (i + 2 >= format.size() || format[i + 1] < '0' || format[i + 1] > '9' ||
        format[i + 2] != '}')
      return ~0u;
    seen |= 1u << (format[i + 1] - '0');
    i += 2;
  }
  return seen;
}

template <typename... Params> constexpr unsigned countOf(const diag::Def<Params...> &) {
  return sizeof...(Params);
}

constexpr bool wellFormed(std::string_view format) {
  return !format.empty() && !format.ends_with('.') && !(format[0] >= 'A' && format[0] <= 'Z');
}

struct Words {
  DiagId id;
  std::string_view format;
};

constexpr Words tritonsWords[] = {
#define TRITON(Name, Format) {DiagId::Name, Format},
#include "support/tritons_words.def"
#undef TRITON
};

constexpr std::string_view wordsFor(DiagId id) {
  for (const Words &words : tritonsWords)
    if (words.id == id)
      return words.format;
  return "";
}

#define DIAG(Name, Kind, Format, ...)                                                              \
  static_assert((formatParameters(Format) | formatParameters(wordsFor(DiagId::Name))) ==           \
                    (1u << countOf(diag::Name)) - 1,                                               \
                #Name ": the message or Triton's words must name each parameter, {0} to {n}");     \
  static_assert(wellFormed(Format), #Name ": lower-case start, no full stop");
#include "support/diagnostics.def"
#undef DIAG

constexpr DiagInfo registry[] = {
#define DIAG(Name, Kind, Format, ...)                                                              \
  {#Name, DiagKind::Kind, Format, countOf(diag::Name), wordsFor(DiagId::Name)},
#include "support/diagnostics.def"
#undef DIAG
};

} // namespace

std::string_view kindName(DiagKind kind) {
  switch (kind) {
  case DiagKind::Error:
    return "error";
  case DiagKind::Runtime:
    return "run-time error";
  case DiagKind::Bug:
    return "internal error";
  case DiagKind::Warning:
    return "warning";
  case DiagKind::Note:
    return "note";
  }
  return "error";
}

const DiagInfo &diagInfo(DiagId id) {
  return registry[size_t(id)];
}

std::span<const DiagInfo> allDiagnostics() {
  return registry;
}

/// Appends a text of the user's. Of very long words only both ends are shown.
static void appendShortened(std::string &out, std::string_view text) {
  constexpr size_t longest = 400, head = 100, tail = 60;
  auto isInside = [&](size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; };
  while (!text.empty()) {
    size_t end = std::min(text.find_first_of(" \t\n"), text.size());
    if (end > longest) {
      size_t first = head, last = end - tail;
      while (first > 0 && isInside(first))
        --first;
      while (last < end && isInside(last))
        ++last;
      out += text.substr(0, first);
      out += "...(" + std::to_string(last - first) + " bytes)...";
      out += text.substr(last, end - last);
    } else {
      out += text.substr(0, end);
    }
    size_t next = std::min(text.find_first_not_of(" \t\n", end), text.size());
    out += text.substr(end, next - end);
    text.remove_prefix(next);
  }
}

std::string formatMessage(std::string_view format, std::span<const DiagArg> args) {
  std::string out;
  out.reserve(format.size() + 32);
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '{') {
      out += format[i];
      continue;
    }
    if (i + 1 < format.size() && format[i + 1] == '{') {
      out += '{';
      ++i;
      continue;
    }
    size_t index = size_t(format[i + 1] - '0');
    i += 2;
    if (index >= args.size())
      continue;
    if (auto *text = std::get_if<std::string_view>(&args[index]))
      appendShortened(out, *text);
    else
      out += std::to_string(*std::get_if<int64_t>(&args[index]));
  }
  return out;
}

static SourceFilePtr owner(SourceSpan span) {
  return span.file ? span.file->weak_from_this().lock() : nullptr;
}

Diagnostic::Diagnostic(DiagId id, SourceSpan span, std::span<const DiagArg> args)
    : diagId(id), source(owner(span)), place(span.range),
      text(formatMessage(diagInfo(id).format, args)),
      words(formatMessage(diagInfo(id).triton, args)) {
  if (!words.empty())
    note(diag::InTritonsWords, {}, words);
}

Diagnostic &Diagnostic::addNote(DiagId id, SourceSpan span, std::span<const DiagArg> args) {
  attached.push_back({id, owner(span), span.range, formatMessage(diagInfo(id).format, args)});
  return *this;
}

Diagnostic &DiagnosticEngine::add(DiagId id, SourceSpan span, std::span<const DiagArg> args) {
  Diagnostic diagnostic(id, span, args);
  if (diagnostic.isError()) {
    if (errors >= limit) {
      if (errors == limit) {
        ++errors;
        DiagArg count = int64_t(limit);
        list.push_back(Diagnostic(DiagId::TooManyErrors, span, {&count, 1}));
      }
      dropped.clear();
      dropped.push_back(std::move(diagnostic));
      return dropped.back();
    }
    ++errors;
  }
  list.push_back(std::move(diagnostic));
  return list.back();
}

Diagnostic *DiagnosticEngine::lastError() {
  for (auto it = list.rbegin(); it != list.rend(); ++it)
    if (it->isError())
      return &*it;
  return nullptr;
}

void DiagnosticEngine::clear() {
  errors = 0;
  list.clear();
  dropped.clear();
}

std::string DiagnosticEngine::renderAll(const RenderOptions &options) const {
  std::string out;
  for (const Diagnostic &diagnostic : list)
    out += render(diagnostic, options);
  return out;
}

} // namespace nereid
