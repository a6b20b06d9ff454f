// Random matrices and layouts for property tests. The seed is fixed: a failure repeats.
#pragma once
#include "layout/LinearLayout.h"

#include <algorithm>
#include <random>

namespace nereid::layout {

struct Random {
  std::mt19937_64 engine{20240607};

  uint64_t below(uint64_t limit) { return engine() % limit; }
  uint64_t bits(unsigned count) { return count ? engine() >> (64 - count) : 0; }

  BitMatrix matrix(unsigned rows, unsigned columns) {
    llvm::SmallVector<uint64_t> values;
    for (unsigned i = 0; i < columns; ++i)
      values.push_back(bits(rows));
    return BitMatrix(rows, values);
  }

  llvm::SmallVector<int64_t, 4> shape(unsigned rank, unsigned maxBits) {
    llvm::SmallVector<int64_t, 4> sizes(rank, 1);
    for (unsigned left = below(maxBits + 1); left > 0 && rank > 0; --left)
      sizes[below(rank)] *= 2;
    return sizes;
  }

  /// The coordinates' bits, dealt out to the axes in a random order, then mixed by adding columns
  /// to others if `mixed`, and with `copies` columns of zeros: surjective.
  LinearLayout layout(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<Axis> axes, bool mixed,
                      unsigned copies = 0) {
    uint64_t elements = 1;
    for (int64_t size : shape)
      elements *= size;
    llvm::SmallVector<uint64_t> all;
    for (uint64_t bit = 1; bit < elements; bit *= 2)
      all.push_back(bit);
    std::shuffle(all.begin(), all.end(), engine);
    for (unsigned step = 0; mixed && all.size() > 1 && step < all.size(); ++step) {
      unsigned a = below(all.size()), b = below(all.size());
      if (a != b)
        all[a] ^= all[b];
    }
    for (unsigned i = 0; i < copies; ++i)
      all.insert(all.begin() + below(all.size() + 1), mixed ? bits(1) * (elements - 1) : 0);
    std::array<LinearLayout::Columns, kAxes> columns;
    for (uint64_t column : all)
      columns[unsigned(axes[below(axes.size())])].push_back(column);
    return LinearLayout::fromFlat(shape, columns);
  }

  /// A layout of 2^laneBits lanes and 2^warpBits warps with the rest in registers, surjective.
  LinearLayout distributed(llvm::ArrayRef<int64_t> shape, unsigned laneBits, unsigned warpBits,
                           bool mixed, unsigned copies = 0) {
    LinearLayout line = layout(shape, {Axis::Register}, mixed, copies);
    LinearLayout::Columns all(line.flatBases(Axis::Register));
    while (all.size() < laneBits + warpBits)
      all.insert(all.begin() + below(all.size() + 1), 0);
    std::array<LinearLayout::Columns, kAxes> columns;
    auto take = [&](Axis axis, unsigned count) {
      columns[unsigned(axis)].assign(all.end() - count, all.end());
      all.truncate(all.size() - count);
    };
    take(Axis::Warp, warpBits);
    take(Axis::Lane, laneBits);
    take(Axis::Register, all.size());
    return LinearLayout::fromFlat(shape, columns);
  }
};

} // namespace nereid::layout
