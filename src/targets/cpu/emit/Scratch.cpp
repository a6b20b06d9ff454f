// Scratch memory of a program: places are given out, and taken back behind the last step that needs
// what is in them.
#include "targets/cpu/emit/Plan.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace nereid::cpu {

Buffer Kernel::allocate(RankedTensorType type) {
  constexpr uint64_t alignment = 64;
  uint64_t bytes =
      llvm::alignTo(type.getNumElements() * tile::sizeInBytes(type.getElementType()), alignment);
  // The smallest free piece that is large enough, else what lies behind everything.
  Piece *best = nullptr;
  for (Piece &piece : space.free)
    if (piece.bytes >= bytes && (!best || piece.bytes < best->bytes))
      best = &piece;
  uint64_t offset = best ? best->offset : space.top;
  if (!best) {
    space.top += bytes;
    scratchBytes = std::max(scratchBytes, space.top);
  } else if (best->bytes == bytes) {
    space.free.erase(best);
  } else {
    best->offset += bytes;
    best->bytes -= bytes;
  }
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(entryAnchor);
  Buffer buffer{e.advance(scratch, int64_t(offset)), type};
  space.used.push_back({{offset, bytes}, buffer.base});
  return buffer;
}

Buffer Kernel::allocate(Value value) {
  if (Buffer chosen = destinations.lookup(value))
    return chosen;
  return allocate(cast<RankedTensorType>(value.getType()));
}

void Kernel::giveBack(Piece piece) {
  // Neighbours become one; a piece at the end is no piece.
  for (bool grown = true; grown;) {
    grown = false;
    for (Piece &other : space.free) {
      if (other.offset + other.bytes != piece.offset && piece.offset + piece.bytes != other.offset)
        continue;
      piece = {std::min(piece.offset, other.offset), piece.bytes + other.bytes};
      space.free.erase(&other);
      grown = true;
      break;
    }
  }
  if (piece.offset + piece.bytes == space.top)
    space.top = piece.offset;
  else
    space.free.push_back(piece);
}

/// Whether a step of `block` that has not been emitted needs the elements of `value`: itself, or to
/// compute tensors that are in no buffer.
static bool isNeeded(Kernel &k, Value value, Block &block,
                     llvm::function_ref<bool(Operation *)> isEmitted) {
  SmallVector<Value> stack{value};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!stack.empty()) {
    for (Operation *user : stack.pop_back_val().getUsers()) {
      if (!seen.insert(user).second)
        continue;
      Operation *here = block.findAncestorOpInBlock(*user);
      if (here && here != user && !isEmitted(here))
        return true; // in a region of it
      if (here && here != user)
        continue;
      if (isVirtual(user)) {
        if (!k.buffers.count(user->getResult(0)))
          stack.push_back(user->getResult(0));
      } else if (here && !isEmitted(here)) {
        return true;
      }
    }
  }
  return false;
}

void Kernel::releaseDead(Block &block, size_t first,
                         llvm::function_ref<bool(Operation *)> isEmitted) {
  if (space.used.size() == first)
    return;
  llvm::SmallDenseSet<Value> needed, here; // addresses
  for (const Space::Used &used : llvm::drop_begin(space.used, first))
    here.insert(used.base);
  SmallVector<Value> forgotten;
  for (auto &[value, buffer] : buffers) {
    if (isNeeded(*this, value, block, isEmitted))
      needed.insert(buffer.base);
    else if (here.contains(buffer.base))
      forgotten.push_back(value);
  }
  for (Value value : forgotten)
    buffers.erase(value);
  for (Value base : llvm::to_vector(needed))
    if (auto known = eitherOf.find(base); known != eitherOf.end()) {
      needed.insert(known->second.first);
      needed.insert(known->second.second);
    }
  for (size_t i = space.used.size(); i-- > first;) {
    if (needed.contains(space.used[i].base))
      continue;
    giveBack(space.used[i].piece);
    space.used.erase(space.used.begin() + i);
  }
}

} // namespace nereid::cpu
