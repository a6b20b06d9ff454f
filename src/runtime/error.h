// What went wrong, as the faces hand it on: the object behind `nrd_error`.
//
// An Error is self-contained (texts only), so it outlives the compilation it came from and may be
// shared by several threads that waited for one compilation.
#pragma once

#include "nereid/nereid.h"
#include "support/diagnostics.h"

#include <memory>
#include <optional>
#include <string>

namespace nereid::runtime {

struct Error {
  nrd_error_kind kind = NRD_ERROR_INTERNAL;
  std::string name;          ///< of the first diagnostic in the registry
  std::string message;       ///< everything, rendered
  std::string summary;       ///< the first diagnostic's message
  std::string tritonText;    ///< the first diagnostic in Triton's form
  std::string tritonSummary; ///< its message there: Triton's words if known, else `summary`
  /// For argument errors "TypeError", "ValueError"...; for errors of a compilation the classes of
  /// the causes that Triton's would have, with blanks between them; else empty.
  std::string pythonClass;
  uint64_t cause = 0;   ///< the host's handle of an exception
  std::string resource; ///< what is too small ("shared memory"), with how much is needed and there
  int64_t required = 0, limit = 0;
};

/// Null is success.
using ErrorPtr = std::unique_ptr<Error>;

/// The errors an engine has collected, as one Error of the first one's kind. `function` is the
/// range that Triton's form counts its lines from.
ErrorPtr errorFrom(const DiagnosticEngine &diagnostics, nrd_error_kind kind,
                   std::optional<SourceRange> function = std::nullopt);

/// The kind of a compile error, from the first diagnostic's place in the registry.
nrd_error_kind compileErrorKind(const DiagnosticEngine &diagnostics);

/// One diagnostic without a place, as an Error: `makeError(NRD_ERROR_ARGUMENT, "TypeError",
/// diag::LaunchMissingArgument, name, param)`.
template <typename... Params>
ErrorPtr makeError(nrd_error_kind kind, const char *pythonClass, diag::Def<Params...> def,
                   std::type_identity_t<Params>... args) {
  DiagnosticEngine engine;
  engine.report(def, SourceSpan(), args...);
  ErrorPtr error = errorFrom(engine, kind);
  error->pythonClass = pythonClass;
  return error;
}

/// A kernel needs more of `what` than the device has. `configuration` is what its author chose:
/// "num_warps=8, num_stages=3, BLOCK=128". `biggest`: what takes most of it, where that is known.
ErrorPtr resourceError(std::string_view what, int64_t required, int64_t limit,
                       std::string_view kernel, std::string_view configuration,
                       std::string_view biggest = "");

/// A defect of ours.
ErrorPtr internalError(std::string_view what);

} // namespace nereid::runtime
