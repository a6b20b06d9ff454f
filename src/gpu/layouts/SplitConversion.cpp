#include "gpu/layouts/SplitConversion.h"

#include "layout/Conversion.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace nereid::layout;

namespace nereid::gpu {
namespace {

/// The register bit whose column is this one bit of the packed coordinates, which no other column
/// has.
std::optional<unsigned> ownerOf(const LinearLayout &layout, unsigned bit) {
  std::optional<unsigned> owner;
  for (Axis axis : {Axis::Register, Axis::Lane, Axis::Warp})
    for (auto [number, column] : llvm::enumerate(layout.flatBases(axis))) {
      if (!(column >> bit & 1))
        continue;
      if (owner || axis != Axis::Register || column != uint64_t(1) << bit)
        return std::nullopt;
      owner = number;
    }
  return owner;
}

/// Without a bit of the packed coordinates and without the register bit that owns it.
LinearLayout without(const LinearLayout &layout, unsigned bit, unsigned owner) {
  llvm::SmallVector<int64_t, 4> shape(layout.shape());
  unsigned below = 0;
  for (unsigned dim = shape.size(); dim-- > 0;) {
    unsigned bits = llvm::Log2_64(shape[dim]);
    if (bit < below + bits) {
      shape[dim] /= 2;
      break;
    }
    below += bits;
  }
  std::array<LinearLayout::Columns, kAxes> columns;
  uint64_t low = (uint64_t(1) << bit) - 1;
  for (Axis axis : {Axis::Register, Axis::Lane, Axis::Warp})
    for (auto [number, column] : llvm::enumerate(layout.flatBases(axis)))
      if (axis != Axis::Register || number != owner)
        columns[unsigned(axis)].push_back((column & low) | (column >> 1 & ~low));
  return LinearLayout::fromFlat(shape, std::move(columns));
}

} // namespace

unsigned SplitConversion::whole(unsigned reg, unsigned piece, llvm::ArrayRef<unsigned> bits) {
  // Bits were taken out one after the other: they go in again from the last.
  for (unsigned i = bits.size(); i-- > 0;) {
    unsigned low = (1u << bits[i]) - 1;
    reg = (reg & low) | (reg & ~low) << 1 | (piece >> i & 1) << bits[i];
  }
  return reg;
}

std::optional<SplitConversion> splitConversion(const LinearLayout &from, const LinearLayout &to,
                                               unsigned elementBits, uint64_t maxBytes) {
  SplitConversion split{from, to, {}, {}, {}};
  auto bytes = [&] { return uint64_t(split.from.elements()) * elementBits / 8; };
  for (unsigned bit = llvm::Log2_64(from.elements()); bit-- > 0 && bytes() > maxBytes;) {
    auto a = ownerOf(split.from, bit), b = ownerOf(split.to, bit);
    if (!a || !b)
      continue;
    split.from = without(split.from, bit, *a);
    split.to = without(split.to, bit, *b);
    split.fromBits.push_back(*a);
    split.toBits.push_back(*b);
  }
  if (bytes() > maxBytes)
    return std::nullopt;
  split.buffer = conflictFreeBuffer(split.from, split.to, elementBits);
  return split;
}

SplitConversion splitConversion(ngpu::ConvertLayoutOp convert) {
  auto type = mlir::cast<mlir::RankedTensorType>(convert.getSrc().getType());
  const LinearLayout &from = ngpu::layoutOf(type).getLayout();
  unsigned bits = 8 * tile::sizeInBytes(type.getElementType());
  uint32_t pieces = *convert.getPieces();
  auto split = splitConversion(from, ngpu::layoutOf(convert.getType()).getLayout(), bits,
                               uint64_t(from.elements()) * bits / 8 / uint64_t(pieces));
  assert(split && "it was split before");
  return *split;
}

} // namespace nereid::gpu
