// Products of divided kernels whose rows no store takes.
#pragma once
#include "gpu/Options.h"
#include "ir/tile/Dialect.h"

namespace nereid::gpu {

/// `store`, of a kernel whose warps are divided and whose groups of four warps store `chunk` rows
/// of their own each: a group lets out the products of the loop in front whose sums go to the
/// store alone, where all of its rows are beyond the bounds of the descriptor. It still waits for
/// the slots of the loop and gives them back:
///
///     if a row of this group is inside:      for k:  wait for the slot; product; give it back
///     else:                                  for k:  wait for the slot; give it back
///
/// Taken are stores to tensors of three dimensions or more, as those of rows of groups. The
/// coordinate of the rows is computed in front of the loop. Runs when channels are mbarriers.
/// False: nothing is changed, because the sums have other uses, or the coordinate is not known in
/// front of the loop.
bool skipUnstoredProducts(tile::DescStoreOp store, int64_t chunk, int64_t groups);

} // namespace nereid::gpu
