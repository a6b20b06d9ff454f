#include "gpu/layouts/LayoutRelations.h"

#include "gpu/layouts/Rearrange.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::gpu {
namespace {

using Bases = std::array<SmallVector<Coords, 8>, kAxes>;

Bases basesOf(const LinearLayout &layout) {
  Bases bases;
  for (unsigned axis = 0; axis < kAxes; ++axis)
    bases[axis] = layout.bases(Axis(axis));
  return bases;
}

/// Where join, split and cat put their parts: a dimension, and the size below which coordinates
/// along it are free.
struct Parts {
  unsigned dim;
  int64_t unit;
};
std::optional<Parts> partsOf(Operation *op) {
  if (isa<tile::JoinOp, tile::SplitOp>(op)) {
    unsigned rank = baseType(op).getRank();
    return Parts{rank - 1, 1};
  }
  if (auto cat = dyn_cast<tile::CatOp>(op)) {
    int64_t unit = coreSize(baseType(op).getDimSize(cat.getDim()));
    for (Value operand : cat->getOperands())
      unit = std::min(unit, coreSize(tile::shapeOf(operand.getType())[cat.getDim()]));
    return Parts{cat.getDim(), unit};
  }
  return {};
}

/// Without the coordinates of dimension `parts.dim` from `unit` on, which register bits hold.
LinearLayout withinUnit(const LinearLayout &layout, Parts parts) {
  Bases bases = basesOf(layout);
  for (auto &axis : bases)
    for (Coords &coords : axis)
      coords[parts.dim] &= parts.unit - 1;
  llvm::erase_if(bases[unsigned(Axis::Register)], [](const Coords &coords) {
    return llvm::all_of(coords, [](int32_t c) { return c == 0; });
  });
  SmallVector<int64_t> shape(layout.shape());
  shape[parts.dim] = parts.unit;
  return LinearLayout(shape, std::move(bases));
}

/// Dimension `dim` grows to `size` in register bits, slowest.
LinearLayout grown(const LinearLayout &layout, unsigned dim, int64_t size) {
  Bases bases = basesOf(layout);
  SmallVector<int64_t> shape(layout.shape());
  for (int64_t at = shape[dim]; at < size; at *= 2) {
    Coords coords(shape.size(), 0);
    coords[dim] = at;
    bases[unsigned(Axis::Register)].push_back(coords);
  }
  shape[dim] = size;
  return LinearLayout(shape, std::move(bases));
}

/// A single bit of a single coordinate, or nothing at all.
bool isUnit(const Coords &coords) {
  unsigned ones = 0;
  for (int32_t c : coords)
    ones += llvm::popcount(uint32_t(c));
  return ones <= 1;
}

} // namespace

RankedTensorType baseType(Operation *op) {
  auto first = [](ValueRange values) -> RankedTensorType {
    for (Value value : values)
      if (auto tensor = dyn_cast<RankedTensorType>(value.getType()))
        return tensor;
    return {};
  };
  bool fromOperand = isa<tile::SplitOp, tile::ReduceOp, tile::UnsplatOp, tile::HistogramOp>(op);
  if (auto slice = dyn_cast<tile::SliceOp>(op))
    fromOperand = slicesBits(slice);
  RankedTensorType type = fromOperand ? first(op->getOperands()) : first(op->getResults());
  return type ? type : first(op->getOperands());
}

bool reshapesCore(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  // Groups of dimensions with equal products; within a group, an odd factor may only stand in a
  // dimension that is the whole group on both sides, or in its slowest one on both.
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    size_t i0 = i, j0 = j;
    int64_t a = i < from.size() ? from[i++] : 1, b = j < to.size() ? to[j++] : 1;
    while (a != b) {
      if (a < b)
        a *= from[i++];
      else
        b *= to[j++];
    }
    if (repeatCount(a) == 1)
      continue;
    auto oddIsSlowest = [](ArrayRef<int64_t> sizes) {
      bool seen = false; // a dimension of more than one element
      for (int64_t size : sizes) {
        if (repeatCount(size) != 1 && seen)
          return false;
        seen |= size != 1;
      }
      return true;
    };
    if (!oddIsSlowest(from.slice(i0, i - i0)) || !oddIsSlowest(to.slice(j0, j - j0)))
      return false;
  }
  return true;
}

LinearLayout baseOfHalves(const LinearLayout &part) {
  return grown(part.expanded(part.rank()), part.rank(), 2);
}

LinearLayout everywhere(ArrayRef<int64_t> shape, unsigned lanes, unsigned warps) {
  Bases bases;
  auto core = coreShape(shape);
  Coords zero(shape.size(), 0);
  for (int dim = shape.size() - 1; dim >= 0; --dim)
    for (int64_t at = 1; at < core[dim]; at *= 2) {
      bases[unsigned(Axis::Register)].push_back(zero);
      bases[unsigned(Axis::Register)].back()[dim] = at;
    }
  bases[unsigned(Axis::Lane)].assign(llvm::Log2_32(lanes), zero);
  bases[unsigned(Axis::Warp)].assign(llvm::Log2_32(warps), zero);
  return LinearLayout(core, std::move(bases));
}

LinearLayout operandLayout(Operation *op, unsigned operand, const LinearLayout &base) {
  if (auto expand = dyn_cast<tile::ExpandDimsOp>(op))
    return base.sliced(expand.getAxis());
  if (isa<tile::BroadcastOp>(op)) {
    LinearLayout source = base;
    auto from = tile::shapeOf(op->getOperand(0).getType()), to = baseType(op).getShape();
    for (unsigned dim = 0; dim < from.size(); ++dim)
      if (from[dim] != to[dim])
        source = source.sliced(dim).expanded(dim);
    return source;
  }
  if (auto trans = dyn_cast<tile::TransOp>(op)) {
    SmallVector<int32_t> inverse(trans.getOrder().size());
    for (auto [i, dim] : llvm::enumerate(trans.getOrder()))
      inverse[dim] = i;
    return base.transposed(inverse);
  }
  if (isa<tile::ReshapeOp>(op)) {
    auto from = tile::shapeOf(op->getOperand(0).getType());
    if (reshapesCore(from, baseType(op).getShape()))
      return base.reshaped(coreShape(from));
    return everywhere(from, base.size(Axis::Lane), base.size(Axis::Warp));
  }
  if (isa<tile::JoinOp>(op))
    return base.sliced(base.rank() - 1);
  if (auto gather = dyn_cast<tile::GatherOp>(op); gather && operand == 0)
    return gatherSource(gather, base);
  if (auto cat = dyn_cast<tile::CatOp>(op)) {
    Parts parts = *partsOf(op);
    return grown(withinUnit(base, parts), parts.dim,
                 coreSize(tile::shapeOf(op->getOperand(operand).getType())[parts.dim]));
  }
  return base;
}

LinearLayout resultLayout(Operation *op, unsigned, const LinearLayout &base) {
  if (auto reduce = dyn_cast<tile::ReduceOp>(op))
    return base.sliced(reduce.getAxis());
  if (isa<tile::SplitOp>(op))
    return base.sliced(base.rank() - 1);
  if (auto slice = dyn_cast<tile::SliceOp>(op); slice && slicesBits(slice))
    return slicedBits(slice, base);
  if (auto histogram = dyn_cast<tile::HistogramOp>(op))
    return histogramLayout(histogram, base.size(Axis::Warp));
  return base;
}

bool admitsBase(Operation *op, const LinearLayout &base) {
  if (auto scan = dyn_cast<tile::ScanOp>(op)) {
    for (Axis axis : {Axis::Register, Axis::Lane, Axis::Warp})
      for (unsigned bit = 0; bit < base.bits(axis); ++bit) {
        Coords coords = base.basis(axis, bit);
        if (coords[scan.getAxis()] && !isUnit(coords))
          return false;
      }
    return base.isInjective() || base.isSurjective();
  }
  if (isa<tile::ReshapeOp>(op)) {
    auto from = tile::shapeOf(op->getOperand(0).getType()), to = baseType(op).getShape();
    return reshapesCore(from, to) ||
           base == everywhere(to, base.size(Axis::Lane), base.size(Axis::Warp));
  }
  auto parts = partsOf(op);
  if (!parts)
    return true;
  // Coordinates from the unit on come from register bits that hold nothing else.
  for (Axis axis : {Axis::Register, Axis::Lane, Axis::Warp, Axis::Block})
    for (unsigned bit = 0; bit < base.bits(axis); ++bit) {
      Coords coords = base.basis(axis, bit);
      if (coords[parts->dim] >= parts->unit && (axis != Axis::Register || !isUnit(coords)))
        return false;
    }
  return true;
}

LinearLayout withPartsInRegisters(Operation *op, const LinearLayout &base) {
  if (isa<tile::ReshapeOp>(op) && !admitsBase(op, base))
    return everywhere(baseType(op).getShape(), base.size(Axis::Lane), base.size(Axis::Warp));
  auto parts = partsOf(op);
  if (!parts || admitsBase(op, base))
    return base;
  return grown(withinUnit(base, *parts), parts->dim, base.shape()[parts->dim]);
}

bool changesUnitDims(tile::ReshapeOp reshape) {
  auto sizes = [](Value value) {
    SmallVector<int64_t> all(tile::shapeOf(value.getType()));
    llvm::erase(all, 1);
    return all;
  };
  SmallVector<int64_t> from = sizes(reshape.getSrc());
  return from == sizes(reshape.getResult()) &&
         llvm::all_of(from, [](int64_t size) { return llvm::isPowerOf2_64(size); });
}

LinearLayout bufferBehind(Operation *view, const LinearLayout &seen) {
  auto trans = dyn_cast<tile::TransOp>(view);
  if (!trans)
    return seen.reshaped(tile::shapeOf(view->getOperand(0).getType()));
  SmallVector<int32_t> inverse(trans.getOrder().size());
  for (auto [i, dim] : llvm::enumerate(trans.getOrder()))
    inverse[dim] = i;
  return seen.transposed(inverse);
}

} // namespace nereid::gpu
