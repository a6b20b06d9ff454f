// Pictures of a kernel's report, as SVG: where a layout keeps the elements of a tensor, and which
// buffers occupy shared memory over time.
#pragma once
#include "llvm/Support/JSON.h"

#include <string>
#include <string_view>

namespace nereid::cli {

/// `text` for HTML and SVG, in content and in attributes.
std::string escaped(std::string_view text);

/// The last two dimensions of a tensor as a table of cells. Registers: neighbours of one thread are
/// one cell, coloured by warp (hue) and lane (brightness). Shared memory: coloured by bank. Large
/// tensors are cut; the caption says so. `fact` is an entry of "layouts" of the report.
std::string layoutPicture(const llvm::json::Object &fact);

/// Buffers as rectangles: from left to right the program's ops, from top to bottom the bytes; marks
/// where they are accessed, red with a number where banks conflict. `shared` is "shared" of the
/// report. Empty when there are no buffers.
std::string sharedPicture(const llvm::json::Object &shared);

} // namespace nereid::cli
