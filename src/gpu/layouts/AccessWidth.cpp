#include "gpu/layouts/AccessWidth.h"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::gpu {

AccessWidth accessWidth(const transforms::IntegerAnalysis &analysis, Value ptr, Value mask,
                        unsigned maxBytes) {
  auto type = cast<RankedTensorType>(ptr.getType());
  auto attr = ngpu::layoutOf(type);
  const transforms::IntegerInfo *info = analysis.lookup(ptr);
  if (!attr || !info)
    return {};
  const LinearLayout &map = attr.getLayout();
  int64_t bytes = tile::sizeInBytes(cast<tile::PtrType>(type.getElementType()).getPointee());

  AccessWidth best;
  for (unsigned dim = 0; dim < map.rank(); ++dim) {
    int64_t limit = std::min({info->contiguity(dim), info->divisibility(dim) / bytes,
                              int64_t(maxBytes) / bytes, map.shape()[dim]});
    if (mask)
      limit = std::min(limit, analysis.constancy(mask, dim));
    AccessWidth width;
    while (int64_t(width.elements) * 2 <= limit) {
      // The register bit that steps by `elements` along this dimension and nothing else.
      int found = -1;
      for (unsigned bit = 0; bit < map.bits(Axis::Register) && found < 0; ++bit) {
        const Coords &basis = map.basis(Axis::Register, bit);
        bool matches = basis[dim] == int32_t(width.elements);
        for (unsigned other = 0; other < map.rank(); ++other)
          matches &= other == dim || basis[other] == 0;
        if (matches)
          found = bit;
      }
      if (found < 0)
        break;
      width.registerBits.push_back(found);
      width.elements *= 2;
    }
    // Other bits must not step inside the vector.
    auto stepsInside = [&](Axis axis) {
      for (unsigned bit = 0; bit < map.bits(axis); ++bit) {
        bool own = axis == Axis::Register && llvm::is_contained(width.registerBits, bit);
        if (!own && (map.basis(axis, bit)[dim] & int32_t(width.elements - 1)))
          return true;
      }
      return false;
    };
    while (width.elements > 1 &&
           (stepsInside(Axis::Register) || stepsInside(Axis::Lane) || stepsInside(Axis::Warp))) {
      width.registerBits.pop_back();
      width.elements /= 2;
    }
    if (width.elements > best.elements)
      best = width;
  }
  return best;
}

} // namespace nereid::gpu
