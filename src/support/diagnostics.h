// Diagnostics: errors are a product.
//
// Every message has a name, a kind and typed parameters in one registry (diagnostics.def). Code
// reports by name:
//
//   engine.report(diag::ExpectedColon, span, "the `if` condition", "a new line")
//         .note(diag::CalledFromHere, callSpan);
//
// and a wrong number or type of arguments does not compile. Where Triton reports the same error in
// other words (tritons_words.def), the diagnostic gets its sentence as a note. Nothing is thrown
// and nothing is printed: the engine collects, its owner renders.
#pragma once

#include "support/source.h"

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace nereid {

/// Whose fault it is. A test of a user's error fails when a Bug answers.
enum class DiagKind : uint8_t {
  Error,   ///< the author of the kernel or of the launch made a mistake
  Runtime, ///< found while a kernel was running (bounds, assertions, the device)
  Bug,     ///< our own mistake
  Warning, ///< worth saying, does not stop anything
  Note,    ///< only ever attached to another diagnostic
};

/// "error", "run-time error", "internal error", "warning", "note".
std::string_view kindName(DiagKind kind);

enum class DiagId : uint16_t {
#define DIAG(Name, Kind, Format, ...) Name,
#include "support/diagnostics.def"
#undef DIAG
};

/// One row of the registry.
struct DiagInfo {
  std::string_view name;
  DiagKind kind;
  std::string_view format;
  unsigned paramCount;
  std::string_view triton; ///< format of Triton's sentence (tritons_words.def); "" if none
};

const DiagInfo &diagInfo(DiagId id);
std::span<const DiagInfo> allDiagnostics();

/// The typed names to report by.
namespace diag {
using Str = std::string_view;
using Int = int64_t;

template <typename... Params> struct Def {
  DiagId id;
};

#define DIAG(Name, Kind, Format, ...) inline constexpr Def<__VA_ARGS__> Name{DiagId::Name};
#include "support/diagnostics.def"
#undef DIAG
} // namespace diag

/// A parameter on its way into a message.
using DiagArg = std::variant<std::string_view, int64_t>;

/// Fills `{0}`, `{1}`... of a registry format; `{{` is a literal brace. Words of more than 400
/// bytes are shortened.
std::string formatMessage(std::string_view format, std::span<const DiagArg> args);

/// One reported problem, self-contained: it keeps the source alive and can be rendered later.
class Diagnostic {
public:
  struct Note {
    DiagId id;
    SourceFilePtr file;
    SourceRange range;
    std::string message;
  };

  DiagId id() const { return diagId; }
  DiagKind kind() const { return diagInfo(diagId).kind; }
  std::string_view name() const { return diagInfo(diagId).name; }
  bool isError() const { return kind() != DiagKind::Warning && kind() != DiagKind::Note; }
  /// Null when the problem has no place in a source text.
  const SourceFilePtr &file() const { return source; }
  SourceRange range() const { return place; }
  const std::string &message() const { return text; }
  /// Triton's sentence for the same error, "" if none is known. It is also the first note.
  const std::string &tritonsWords() const { return words; }
  /// The message for programs written for Triton: its sentence if known, else ours.
  const std::string &tritonMessage() const { return words.empty() ? text : words; }
  const std::vector<Note> &notes() const { return attached; }

  /// Attaches a note, for instance one per level of the chain of inlined calls, innermost first.
  template <typename... Params>
  Diagnostic &note(diag::Def<Params...> def, SourceSpan span,
                   std::type_identity_t<Params>... args) {
    const DiagArg list[sizeof...(Params) + 1] = {DiagArg(args)..., DiagArg(int64_t(0))};
    return addNote(def.id, span, std::span<const DiagArg>(list, sizeof...(Params)));
  }

  /// The host's handle of the exception that led here (it becomes Python's `__cause__`); 0 if none.
  uint64_t cause() const { return hostException; }
  Diagnostic &setCause(uint64_t exception) {
    hostException = exception;
    return *this;
  }

  /// A function of the language refused its arguments: in Triton an exception of its own, the cause
  /// of the compilation's error.
  bool isRefusedCall() const { return refusedCall; }
  void setRefusedCall() { refusedCall = true; }

private:
  friend class DiagnosticEngine;
  Diagnostic(DiagId id, SourceSpan span, std::span<const DiagArg> args);
  Diagnostic &addNote(DiagId id, SourceSpan span, std::span<const DiagArg> args);

  DiagId diagId;
  SourceFilePtr source;
  SourceRange place;
  std::string text;
  std::string words;
  std::vector<Note> attached;
  uint64_t hostException = 0;
  bool refusedCall = false;
};

/// How to print.
struct RenderOptions {
  bool color = false;      ///< ANSI colours, for terminals
  unsigned maxWidth = 120; ///< source lines longer than this are clipped around the caret
};

/// `file:line:col: error: message`, the source line, a caret and underline, then the notes.
std::string render(const Diagnostic &diagnostic, const RenderOptions &options = {});

/// Triton's form, which its users and their tests know:
///
///   at 3:8:
///   def kernel(x):
///       y = x + 1
///           ^
///   message
///
/// The message is `tritonMessage()`.
/// At most 12 source lines, ending with the one at fault. Lines are counted from 1 at the
/// beginning of `function` (pass the range of the whole definition), or of the text when absent.
std::string renderTriton(const Diagnostic &diagnostic,
                         std::optional<SourceRange> function = std::nullopt);

/// Collects the diagnostics of one compilation (or one launch). Not shared between threads.
class DiagnosticEngine {
public:
  explicit DiagnosticEngine(unsigned errorLimit = 20) : limit(errorLimit) {}

  /// The reference stays valid as long as the engine; use it to add notes.
  template <typename... Params>
  Diagnostic &report(diag::Def<Params...> def, SourceSpan span,
                     std::type_identity_t<Params>... args) {
    const DiagArg list[sizeof...(Params) + 1] = {DiagArg(args)..., DiagArg(int64_t(0))};
    return add(def.id, span, std::span<const DiagArg>(list, sizeof...(Params)));
  }

  const std::deque<Diagnostic> &diagnostics() const { return list; }
  /// The error that was reported last; null when there is none.
  Diagnostic *lastError();
  unsigned errorCount() const { return errors; }
  bool hasErrors() const { return errors != 0; }
  /// True once the limit was reached: a phase should stop looking for more.
  bool full() const { return errors >= limit; }
  void clear();

  /// Everything, rendered one after the other.
  std::string renderAll(const RenderOptions &options = {}) const;

private:
  Diagnostic &add(DiagId id, SourceSpan span, std::span<const DiagArg> args);

  unsigned limit;
  unsigned errors = 0;
  std::deque<Diagnostic> list;
  std::deque<Diagnostic> dropped; ///< a place for what is reported beyond the limit
};

} // namespace nereid
