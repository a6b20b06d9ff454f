#include "runtime/error.h"

#include "runtime/settings_problem.h"
#include "support/bad_settings.h"
#include "support/settings.h"

#include <algorithm>

namespace nereid::runtime {

nrd_error_kind compileErrorKind(const DiagnosticEngine &diagnostics) {
  for (const Diagnostic &diagnostic : diagnostics.diagnostics()) {
    if (!diagnostic.isError())
      continue;
    if (diagnostic.kind() == DiagKind::Bug)
      return NRD_ERROR_INTERNAL;
    if (diagnostic.name() == "StaticAssertFailed" || diagnostic.name() == "StaticAssertFailedWith")
      return NRD_ERROR_STATIC_ASSERT;
    if (diagnostic.name() == "UnsupportedSyntax")
      return NRD_ERROR_UNSUPPORTED;
    return NRD_ERROR_COMPILE;
  }
  return NRD_ERROR_INTERNAL;
}

/// The class of the exception with which Triton refuses the arguments of a function.
static std::string_view reasonOf(DiagId id) {
  switch (id) {
#define REASON(Name, Class)                                                                        \
  case DiagId::Name:                                                                               \
    return #Class;
#include "runtime/reasons.def"
#undef REASON
  default:
    return "ValueError";
  }
}

/// The causes that the error of a compilation has in Triton, outermost first: an error of the
/// compilation for each call, the last of them of the error's own class, then the exception of a
/// function of the language.
static std::string causesOf(const Diagnostic &diagnostic, nrd_error_kind kind) {
  auto calls = std::ranges::count_if(diagnostic.notes(), [](const Diagnostic::Note &note) {
    return note.id == DiagId::CalledFromHere || note.id == DiagId::CalledRepeatedly;
  });
  std::string causes;
  auto add = [&](std::string_view name) { (causes += causes.empty() ? "" : " ") += name; };
  for (; calls > 1; --calls)
    add("CompilationError");
  if (calls)
    add(kind == NRD_ERROR_STATIC_ASSERT ? "CompileTimeAssertionFailure"
        : kind == NRD_ERROR_UNSUPPORTED ? "UnsupportedLanguageConstruct"
                                        : "CompilationError");
  // Subscripts are a function in Triton, other operators are not.
  bool isSubscript = diagnostic.id() == DiagId::UnsupportedIndex ||
                     diagnostic.id() == DiagId::UnsupportedIndexKind;
  if (kind == NRD_ERROR_COMPILE && (isSubscript || diagnostic.isRefusedCall()))
    add(reasonOf(diagnostic.id()));
  return causes;
}

ErrorPtr errorFrom(const DiagnosticEngine &diagnostics, nrd_error_kind kind,
                   std::optional<SourceRange> function) {
  auto error = std::make_unique<Error>();
  error->kind = kind;
  const Diagnostic *first = nullptr;
  for (const Diagnostic &diagnostic : diagnostics.diagnostics())
    if (diagnostic.isError() && !first)
      first = &diagnostic;
  if (!first)
    return internalError("an operation failed without saying why");
  error->name = first->name();
  error->summary = first->message();
  error->message = diagnostics.renderAll();
  while (!error->message.empty() && error->message.back() == '\n')
    error->message.pop_back();
  if (kind == NRD_ERROR_COMPILE || kind == NRD_ERROR_STATIC_ASSERT || kind == NRD_ERROR_UNSUPPORTED)
    error->pythonClass = causesOf(*first, kind);
  error->tritonText = renderTriton(*first, function);
  error->tritonSummary = first->tritonMessage();
  return error;
}

ErrorPtr resourceError(std::string_view what, int64_t required, int64_t limit,
                       std::string_view kernel, std::string_view configuration,
                       std::string_view biggest) {
  DiagnosticEngine engine;
  Diagnostic &report =
      engine.report(diag::OutOfDeviceResources, SourceSpan(), what, required, limit)
          .note(diag::OfConfiguration, SourceSpan(), kernel, configuration);
  if (!biggest.empty())
    report.note(diag::MostOfResource, SourceSpan(), biggest);
  ErrorPtr error = errorFrom(engine, NRD_ERROR_RESOURCES);
  error->resource = what;
  error->required = required;
  error->limit = limit;
  return error;
}

ErrorPtr settingsProblem() {
  Settings::current(); // read at first use
  if (badSettings().empty()) [[likely]]
    return nullptr;
  Settings::refresh();
  DiagnosticEngine engine;
  for (const BadSetting &setting : badSettings())
    engine.report(diag::BadSettingValue, {}, setting.variable, setting.expected, setting.value);
  if (!engine.hasErrors())
    return nullptr;
  ErrorPtr error = errorFrom(engine, NRD_ERROR_ARGUMENT);
  error->pythonClass = "ValueError";
  return error;
}

ErrorPtr internalError(std::string_view what) {
  return makeError(NRD_ERROR_INTERNAL, "", diag::InternalError, what);
}

} // namespace nereid::runtime
