// The notes of a diagnostic that name the calls which led to it: the same for errors of a
// compilation and of a running kernel.
#pragma once

#include "support/diagnostics.h"

namespace nereid {

/// Adds a note for each call, innermost first, one for repeated calls from the same place; long
/// chains are cut in the middle. Calls without a place are left out.
Diagnostic &addCalls(Diagnostic &diagnostic, std::span<const SourceSpan> calls);

} // namespace nereid
