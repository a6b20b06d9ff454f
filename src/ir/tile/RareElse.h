// Branches that are hardly ever taken.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace nereid::tile {

/// Of an `if` whose `else` is a fallback for launches that kernels are hardly ever given, as atomic
/// additions for addresses that overlap: what is chosen for speed, such as layouts, follows the
/// other branch.
inline constexpr llvm::StringLiteral rareElseAttribute = "tile.rare_else";

} // namespace nereid::tile
