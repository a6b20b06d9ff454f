// How passes of this room say no.
#pragma once

#include "differentiate/Differentiate.h"

#include <array>
#include <string>
#include <tuple>

namespace nereid::differentiate {

/// A refusal whose parameters are texts.
template <typename... Params, typename... Args>
Refusal refuse(mlir::Location where, diag::Def<Params...> def, Args &&...args) {
  std::array<std::string, sizeof...(Args)> texts{std::string(std::forward<Args>(args))...};
  return {where, [def, texts](DiagnosticEngine &engine, SourceSpan span) -> Diagnostic & {
            return std::apply(
                [&](const auto &...text) -> Diagnostic & {
                  return engine.report(def, span, std::string_view(text)...);
                },
                texts);
          }};
}

} // namespace nereid::differentiate
