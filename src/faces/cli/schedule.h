// The schedule of a divided kernel, drawn with letters: which warps copy and compute what, turn by
// turn.
#pragma once
#include "llvm/Support/JSON.h"

#include <string>
#include <vector>

namespace nereid::cli {

/// Lines of text without ends, of a report (docs/cli.md, `explain`): the parts, the channels, and
/// for each loop with products a picture of its first turns. None where all warps run the same
/// code. The picture assumes that a copy takes a step and a product two, which is enough to show
/// who waits for whom; it has no times.
std::vector<std::string> scheduleLines(const llvm::json::Object &report);

} // namespace nereid::cli
