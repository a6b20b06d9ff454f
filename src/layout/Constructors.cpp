#include "layout/Constructors.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace nereid::layout {
namespace {

/// Lays a tensor out bit by bit: each dimension has a next bit that some axis takes.
class Builder {
public:
  explicit Builder(llvm::ArrayRef<int64_t> shape) : shape(shape), next(shape.size(), 1) {
    for (int64_t size : shape)
      elements *= size;
    int64_t stride = elements;
    for (int64_t size : shape)
      strides.push_back(stride /= size);
  }

  /// Gives the next log2(count) bits of `dim` to `axis`. Past the end of the dimension registers
  /// are left out; other axes get columns of zeros: copies.
  void take(Axis axis, unsigned dim, int64_t count) {
    assert(llvm::isPowerOf2_64(count) && "layouts are made of powers of two");
    for (; count > 1; count /= 2) {
      if (next[dim] < shape[dim])
        columns[unsigned(axis)].push_back(next[dim] * strides[dim]);
      else if (axis != Axis::Register)
        columns[unsigned(axis)].push_back(0);
      next[dim] *= 2;
    }
  }

  /// Gives bits of several dimensions, order[0] first.
  void takeAll(Axis axis, llvm::ArrayRef<unsigned> order, llvm::ArrayRef<int64_t> counts) {
    for (unsigned dim : order)
      take(axis, dim, counts[dim]);
  }

  /// Gives all that is left to `axis`, order[0] first.
  void takeRest(Axis axis, llvm::ArrayRef<unsigned> order) {
    for (unsigned dim : order)
      if (next[dim] < shape[dim])
        take(axis, dim, shape[dim] / next[dim]);
  }

  /// A bit of `axis` that holds copies.
  void copies(Axis axis, int64_t count) {
    for (; count > 1; count /= 2)
      columns[unsigned(axis)].push_back(0);
  }

  /// How much of a dimension is not given to anything yet.
  int64_t left(unsigned dim) const { return std::max<int64_t>(shape[dim] / next[dim], 1); }

  LinearLayout finish() { return LinearLayout::fromFlat(shape, std::move(columns)); }

private:
  llvm::ArrayRef<int64_t> shape;
  llvm::SmallVector<int64_t, 4> next, strides;
  int64_t elements = 1;
  std::array<LinearLayout::Columns, kAxes> columns;
};

/// The dimensions of a matrix with leading batches: `first`, `second`, then the batches, last
/// first.
llvm::SmallVector<unsigned, 4> matrixOrder(unsigned rank, unsigned first, unsigned second) {
  llvm::SmallVector<unsigned, 4> order = {first, second};
  for (unsigned dim = rank - 2; dim-- > 0;)
    order.push_back(dim);
  return order;
}

} // namespace

LinearLayout blocked(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> threadSizes,
                     llvm::ArrayRef<int64_t> lanes, llvm::ArrayRef<int64_t> warps,
                     llvm::ArrayRef<unsigned> order) {
  assert(order.size() == shape.size() && "every dimension has a place in the order");
  Builder builder(shape);
  builder.takeAll(Axis::Register, order, threadSizes);
  builder.takeAll(Axis::Lane, order, lanes);
  builder.takeAll(Axis::Warp, order, warps);
  builder.takeRest(Axis::Register, order);
  return builder.finish();
}

LinearLayout striped(llvm::ArrayRef<int64_t> shape, unsigned vector, unsigned lanes,
                     unsigned warpCount, llvm::ArrayRef<unsigned> order) {
  assert(order.size() == shape.size() && "every dimension has a place in the order");
  Builder builder(shape);
  if (!order.empty())
    builder.take(Axis::Register, order[0], vector);
  auto spread = [&](Axis axis, int64_t count) {
    for (unsigned dim : order) {
      int64_t part = std::min(count, builder.left(dim));
      builder.take(axis, dim, part);
      count /= part;
    }
    builder.copies(axis, count);
  };
  spread(Axis::Lane, lanes);
  spread(Axis::Warp, warpCount);
  builder.takeRest(Axis::Register, order);
  return builder.finish();
}

LinearLayout mmaAccumulator(llvm::ArrayRef<int64_t> shape, std::array<int64_t, 2> warps,
                            unsigned elementBits) {
  assert(shape.size() >= 2 && "a matrix, perhaps in batches");
  unsigned m = shape.size() - 2, n = shape.size() - 1;
  Builder builder(shape);
  builder.take(Axis::Register, n, 2);
  builder.take(Axis::Lane, n, 4);
  builder.take(Axis::Lane, m, 8);
  if (elementBits != 64)
    builder.take(Axis::Register, m, 2);
  builder.take(Axis::Warp, m, warps[0]);
  builder.take(Axis::Warp, n, warps[1]);
  builder.takeRest(Axis::Register, matrixOrder(shape.size(), n, m));
  return builder.finish();
}

LinearLayout mmaOperand(llvm::ArrayRef<int64_t> shape, Operand operand,
                        std::array<int64_t, 2> warps, unsigned elementBits) {
  assert(shape.size() >= 2 && "a matrix, perhaps in batches");
  assert((elementBits == 8 || elementBits == 16 || elementBits == 32 || elementBits == 64) &&
         "no such operands");
  bool isA = operand == Operand::A;
  unsigned outer = shape.size() - (isA ? 2 : 1), k = shape.size() - (isA ? 1 : 2);
  Builder builder(shape);
  builder.take(Axis::Register, k, std::max(32 / elementBits, 1u)); // inside a 32-bit word
  builder.take(Axis::Lane, k, 4);
  builder.take(Axis::Lane, outer, 8);
  if (elementBits != 64) {
    if (isA)
      builder.take(Axis::Register, outer, 2);
    builder.take(Axis::Register, k, 2);
  }
  if (!isA)
    builder.copies(Axis::Warp, warps[0]);
  builder.take(Axis::Warp, outer, warps[isA ? 0 : 1]);
  if (isA)
    builder.copies(Axis::Warp, warps[1]);
  builder.takeRest(Axis::Register, matrixOrder(shape.size(), k, outer));
  return builder.finish();
}

LinearLayout wgmmaAccumulator(llvm::ArrayRef<int64_t> shape, std::array<int64_t, 2> warps,
                              unsigned instructionN) {
  assert(shape.size() >= 2 && "a matrix, perhaps in batches");
  assert(warps[0] % 4 == 0 && "wgmma is made by groups of 4 warps");
  unsigned m = shape.size() - 2, n = shape.size() - 1;
  Builder builder(shape);
  builder.take(Axis::Register, n, 2);
  builder.take(Axis::Lane, n, 4);
  builder.take(Axis::Lane, m, 8);
  builder.take(Axis::Register, m, 2);
  builder.take(Axis::Register, n, std::max(coreSize(instructionN) / 8, int64_t(1)));
  builder.take(Axis::Warp, m, warps[0]);
  builder.take(Axis::Warp, n, warps[1]);
  builder.takeRest(Axis::Register, matrixOrder(shape.size(), n, m));
  return builder.finish();
}

LinearLayout wgmmaOperandA(llvm::ArrayRef<int64_t> shape, std::array<int64_t, 2> warps,
                           unsigned elementBits) {
  assert(warps[0] % 4 == 0 && "wgmma is made by groups of 4 warps");
  assert(elementBits <= 32 && "wgmma has no wider operands");
  return mmaOperand(shape, Operand::A, warps, elementBits);
}

LinearLayout sharedLinear(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> order) {
  assert(order.size() == shape.size() && "every dimension has a place in the order");
  Builder builder(shape);
  builder.takeRest(Axis::Offset, order);
  return builder.finish();
}

LinearLayout sharedSwizzled(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> order,
                            unsigned elementBits, unsigned swizzleBytes) {
  assert(order.size() == shape.size() && !order.empty() && "every dimension has a place");
  assert((swizzleBytes == 0 || swizzleBytes == 32 || swizzleBytes == 64 || swizzleBytes == 128) &&
         "no such swizzle");
  int64_t row = std::max(swizzleBytes, 16u) * 8 / elementBits;
  assert((swizzleBytes == 0 || shape[order[0]] >= row) && "rows fill the width of the swizzle");
  Builder builder(shape);
  builder.take(Axis::Offset, order[0], std::min(row, shape[order[0]]));
  builder.takeRest(Axis::Offset, order.drop_front());
  builder.takeRest(Axis::Offset, order);
  LinearLayout plain = builder.finish();
  if (swizzleBytes == 0)
    return plain;

  // Byte address bits 7.. are XORed into bits 4..: as an index of the buffer and as a map of it.
  std::array<LinearLayout::Columns, kAxes> columns;
  LinearLayout::Columns &offsets = columns[unsigned(Axis::Offset)];
  offsets.assign(plain.flatBases(Axis::Offset).begin(), plain.flatBases(Axis::Offset).end());
  unsigned byteBits = llvm::Log2_32(elementBits) - 3; // bits of an offset start here in an address
  unsigned width = llvm::Log2_32(swizzleBytes) - 4;
  for (unsigned bit = 0; bit < width; ++bit)
    if (7 + bit - byteBits < offsets.size())
      offsets[7 + bit - byteBits] ^= offsets[4 + bit - byteBits];
  return LinearLayout::fromFlat(shape, std::move(columns));
}

unsigned swizzleFor(int64_t bytes) {
  for (unsigned swizzle : {128, 64, 32})
    if (bytes % swizzle == 0)
      return swizzle;
  return 0;
}

} // namespace nereid::layout
