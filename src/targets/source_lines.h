// Lines of source texts, for what compiled code says while it runs.
#pragma once
#include "llvm/ADT/StringRef.h"

#include <functional>
#include <optional>
#include <string>

namespace nereid::targets {

/// A line of a source text, without its line break.
struct SourceLine {
  std::string text;
  unsigned indent = 0; ///< columns that were taken off it
};

/// Line `line` (from 1) of a file, where its text is known.
using SourceLines = std::function<std::optional<SourceLine>(llvm::StringRef file, unsigned line)>;

} // namespace nereid::targets
