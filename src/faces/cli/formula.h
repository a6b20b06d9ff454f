// Integer formulas on the command line: "cdiv(n, BLOCK)", "(M + 127) // 128 * 4".
#pragma once
#include "explain/Expression.h"
#include "support/diagnostics.h"

#include <optional>
#include <string_view>

namespace nereid::cli {

/// Numbers, names, + - * / // %, brackets, cdiv(a, b), min(a, b), max(a, b). Divisions drop the
/// remainder. Errors are reported to `diagnostics` (CliBadFormula).
std::optional<explain::Expression> parseFormula(std::string_view text,
                                                DiagnosticEngine &diagnostics);

/// Its value; `value` answers for names, nothing for one that is unknown (CliUnknownInFormula).
std::optional<int64_t>
evaluateFormula(const explain::Expression &formula, std::string_view text,
                const std::function<std::optional<int64_t>(std::string_view name)> &value,
                DiagnosticEngine &diagnostics);

} // namespace nereid::cli
