// Prints trees as text, for tests and debugging.
#pragma once

#include "syntax/parser.h"

#include <string>

namespace nereid::syntax {

/// One line, like Python's `ast.dump` without positions: `BinOp(left=Name(id='a'), op=Add(), ...)`.
std::string dumpText(const Node &node);

/// All nodes that have a position, as JSON lines `["Kind", begin, end]` in pre-order, named as in
/// Python's `ast`, for comparing with CPython. A Constant's line ends with its exact value.
std::string dumpRanges(const Module &module);

} // namespace nereid::syntax
