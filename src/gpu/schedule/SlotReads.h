// What the consumers of a divided kernel do between filling and emptying of slots: products in
// flight, holds, turns. See docs/warp-specialisation.md.
#pragma once
#include "ir/ngpu/Dialect.h"

#include "llvm/Support/Error.h"

namespace nereid::gpu {

/// Follows the consumers' part through all of its paths. An error that begins with "internal error"
/// where on one of them
///
///   - a slot is read that no hold belongs to: not yet filled, or given back before;
///   - a slot may be read through the hold of no slot: a hold that a loop begins with as
///     `channel_none` counts in iterations behind the first, and behind the loop if it has run;
///   - a hold is released while a product that reads its slot may be in flight;
///   - a turn is taken twice or passed twice, or something is waited for within one that other
///     groups may have to do first.
llvm::Error verifySlotReads(ngpu::WarpSpecializeOp parts);

} // namespace nereid::gpu
