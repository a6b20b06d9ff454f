// Accesses to memory, whatever operation makes them.
#pragma once

#include "ir/tile/Dialect.h"

#include <optional>

namespace nereid::differentiate {

/// Of an `if` whose condition is one of `Ownership::condition`: it has one value in all programs
/// and rounds, which a further derivative of the kernel needs to know.
inline constexpr llvm::StringLiteral uniformAttribute = "tile.uniform";

struct Access {
  mlir::Value address; ///< a pointer, a block of pointers, or a descriptor
  mlir::Value stored;  ///< null for a load
  mlir::Value loaded;  ///< null for what gives nothing, or nothing that is used
  bool isAtomic = false;
  tile::AtomicKind kind = tile::AtomicKind::Xchg; ///< of an atomic
};

/// Nothing for operations that access no memory through pointers.
std::optional<Access> accessOf(mlir::Operation *op);

bool isInLoop(mlir::Operation *op);

/// Whether the two stand in different branches of one `if`, of which a program takes one.
bool exclude(mlir::Operation *a, mlir::Operation *b);

/// The elements that a pointer, a block of pointers or a descriptor leads to.
mlir::Type pointeeOf(mlir::Type address);

} // namespace nereid::differentiate
