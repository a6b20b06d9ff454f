#include "targets/nvidia/emit/WgmmaDescriptor.h"

namespace nereid::nvidia {

using namespace layout;

namespace {

/// One arrangement that the unit knows.
struct Arrangement {
  bool kMajor;
  int64_t width; ///< bytes of the swizzle; 16: none
  int64_t bytes; ///< of an element
  int64_t leading = 0, stride = 0;

  /// The address of element (o, k) of a block at `start`: see the header.
  int64_t address(int64_t start, int64_t o, int64_t k) const {
    bool plain = width == 16;
    int64_t chunk = 16 / bytes, row = width / bytes;
    int64_t at = start;
    if (kMajor && plain)
      at += o % 8 * 16 + o / 8 * stride + k % chunk * bytes + k / chunk * leading;
    else if (kMajor)
      at += o % 8 * width + o / 8 * stride + k * bytes;
    else if (plain)
      at += o % chunk * bytes + o / chunk * stride + k % 8 * 16 + k / 8 * leading;
    else
      at += o % row * bytes + o / row * leading + k % 8 * width + k / 8 * stride;
    return at ^ (at >> 3 & (width - 16));
  }
};

bool fitsField(int64_t bytes) {
  return bytes >= 0 && bytes % 16 == 0 && bytes / 16 <= 0x3FFF;
}

} // namespace

std::optional<WgmmaDescriptor> describeBlock(const BufferMap &map, const WgmmaBlock &block) {
  int64_t bytes = map.elementBits() / 8;
  auto at = [&](int64_t o, int64_t k) {
    o += block.outer;
    k += block.k;
    return block.kDim == 1 ? map(o, k) : map(k, o);
  };
  // Distances along a dimension that the block does not reach do not matter.
  int64_t start = at(0, 0);
  auto along = [&](int64_t o) { return o < block.outerCount ? at(o, 0) - start : 0; };
  auto alongK = [&](int64_t k) { return k < block.kCount ? at(0, k) - start : 0; };

  Arrangement found{alongK(1) == bytes, 16, bytes};
  if (!found.kMajor && (bytes != 2 || along(1) != bytes))
    return std::nullopt;
  int64_t chunk = 16 / bytes;
  auto matches = [&](int64_t width) {
    found.width = width;
    bool plain = width == 16;
    found.stride = found.kMajor || plain ? along(8) : alongK(8);
    found.leading = found.kMajor ? (plain ? alongK(chunk) : 16)
                    : plain      ? alongK(8)
                                 : along(width / bytes);
    if (!fitsField(found.stride) || !fitsField(found.leading))
      return false;
    auto same = [&](int64_t o, int64_t k) { return found.address(start, o, k) == at(o, k); };
    // Everything is linear over the bits of o % 8 and of k; beyond 8, rows repeat.
    for (int64_t o = 0; o < block.outerCount;
         o = o < 4 ? std::max<int64_t>(2 * o, 1) : o / 8 * 8 + 8)
      if (!same(o, 0))
        return false;
    for (int64_t k = 1; k < block.kCount; k *= 2)
      if (!same(0, k) || !same(std::min<int64_t>(7, block.outerCount - 1), k))
        return false;
    return true;
  };
  static const struct {
    int64_t width;
    uint64_t code;
  } swizzles[] = {{128, 1}, {64, 2}, {32, 3}, {16, 0}};
  for (const auto &swizzle : swizzles)
    if (matches(swizzle.width)) {
      WgmmaDescriptor result;
      result.bits = uint64_t(found.leading / 16) << 16 | uint64_t(found.stride / 16) << 32 |
                    swizzle.code << 62;
      result.kMajor = found.kMajor;
      result.start = start;
      return result;
    }
  return std::nullopt;
}

} // namespace nereid::nvidia
