#include "gpu/copies/TmaBox.h"

#include "layout/Constructors.h"

using namespace nereid::layout;

namespace nereid::gpu {
namespace {

llvm::SmallVector<unsigned> rowMajor(size_t rank) {
  llvm::SmallVector<unsigned> order;
  for (size_t i = rank; i-- > 0;)
    order.push_back(i);
  return order;
}

/// The swizzle of a tile's rows, which repeats after 8 spans. A smaller tile has none: in a ring of
/// slots it begins anywhere in the pattern.
unsigned swizzleOf(llvm::ArrayRef<int64_t> shape, int64_t elementBytes) {
  int64_t bytes = elementBytes;
  for (int64_t size : coreShape(shape))
    bytes *= size;
  unsigned span = swizzleFor(coreSize(shape.back()) * elementBytes);
  return bytes < 8 * int64_t(span) ? 0 : span;
}

} // namespace

LinearLayout tmaLayout(llvm::ArrayRef<int64_t> shape, unsigned elementBits) {
  return sharedSwizzled(coreShape(shape), rowMajor(shape.size()), elementBits,
                        swizzleOf(shape, elementBits / 8));
}

LinearLayout chunkedLayout(llvm::ArrayRef<int64_t> shape, unsigned elementBits, int64_t chunk,
                           int64_t groups) {
  std::array<llvm::SmallVector<Coords, 8>, kAxes> bases;
  auto &offsets = bases[unsigned(Axis::Offset)];
  int64_t chunks = shape[0] / chunk;
  for (int64_t row = groups; row < chunks; row *= 2)
    offsets.push_back({int32_t(row), 0});
  for (int64_t row = 1; row < groups; row *= 2)
    offsets.push_back({int32_t(row), 0});
  return tmaLayout({chunk, shape[1]}, elementBits) * LinearLayout({chunks, 1}, bases);
}

TmaBox tmaBox(llvm::ArrayRef<int64_t> shape, unsigned elementBits) {
  TmaBox result;
  int64_t bytes = elementBits / 8;
  result.swizzleBytes = swizzleOf(shape, bytes);
  for (int64_t size : shape)
    result.box.push_back(std::min<int64_t>(size, 256));
  if (result.swizzleBytes)
    result.box.back() = std::min<int64_t>(result.box.back(), result.swizzleBytes / bytes);

  LinearLayout memory = tmaLayout(shape, elementBits);
  BitMatrix toOffset = *memory.matrix().inverse();
  llvm::SmallVector<int32_t, 5> start(shape.size(), 0);
  // A box begins at the beginning of a row of the swizzle, wherever in that its first element is.
  uint32_t inRow = result.swizzleBytes ? result.swizzleBytes - 1 : 0;
  while (true) {
    auto first = uint32_t(toOffset.apply(memory.flat(start)) * bytes);
    result.parts.push_back({start, first & ~inRow});
    int dim = int(shape.size()) - 1;
    for (; dim >= 0; --dim) {
      start[dim] += result.box[dim];
      if (start[dim] < shape[dim])
        break;
      start[dim] = 0;
    }
    if (dim < 0)
      return result;
  }
}

TmaBox tmaBox(ngpu::BufferType buffer) {
  return tmaBox(buffer.getInnerShape(), 8 * tile::sizeInBytes(buffer.getElementType()));
}

} // namespace nereid::gpu
