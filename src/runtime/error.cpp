#include "runtime/error.h"

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
  error->tritonText = first->file() ? renderTriton(*first, function) : first->message();
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

ErrorPtr internalError(std::string_view what) {
  return makeError(NRD_ERROR_INTERNAL, "", diag::InternalError, what);
}

} // namespace nereid::runtime
