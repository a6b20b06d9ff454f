// What the ways of fetching tiles ahead have in common: which loads feed products, the buffers of
// several slots that their tiles go to, and how the loop's body reads a slot instead of a load.
#pragma once
#include "ir/ngpu/Dialect.h"

#include "mlir/IR/Builders.h"

namespace nereid::gpu {

bool isDot(mlir::Operation *op);

/// Is `op` a view of all elements of a buffer: transposed, or in another shape?
bool isWholeView(mlir::Operation *op);

/// The op that a buffer comes from, behind views of all its elements; null for an argument.
mlir::Operation *behindViews(mlir::Value buffer);

/// Does a value reach a dot of this block through ops without effects or buffers?
bool feedsDot(mlir::Value value, mlir::Block *body, unsigned depth = 0);

/// A product whose result only goes to the next iteration need not end where it is issued.
bool staysInFlight(ngpu::WgmmaOp product);

/// A buffer of `slots` copies of `slot`.
mlir::Value makeRing(mlir::OpBuilder &builder, mlir::Location loc, ngpu::BufferType slot,
                     unsigned slots);

/// Replaces the load by a read of slot `index` of `ring`, whose copies have type `type`, and erases
/// it. The builder must be at a point where the slot is filled.
void readFromSlot(mlir::OpBuilder &builder, mlir::Operation *load, ngpu::BufferType type,
                  mlir::Value ring, mlir::Value index);

} // namespace nereid::gpu
