// Blocks that go through a descriptor are written by threads, without a buffer in shared memory.
#pragma once
#include "ir/ngpu/Dialect.h"

namespace nereid::gpu {

/// Can threads write the block? It has rows and columns in numbers that are powers of two, and one
/// place of every other dimension.
bool canStoreFromRegisters(tile::DescStoreOp store);

/// The store becomes one through pointers, masked at the tensor's bounds. Lanes exchange elements
/// by shuffles, so that a thread writes 8 bytes at once where its warp has them. Nothing waits:
/// no barrier, no buffer. Needs `canStoreFromRegisters`; layouts have been chosen.
void storeFromRegisters(tile::DescStoreOp store);

} // namespace nereid::gpu
