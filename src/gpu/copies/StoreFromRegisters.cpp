#include "gpu/copies/StoreFromRegisters.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using nereid::layout::Axis;
using nereid::layout::Coords;
using nereid::layout::LinearLayout;

namespace nereid::gpu {
namespace {

using Bases = std::array<SmallVector<Coords, 8>, layout::kAxes>;

/// The layout with `count` neighbours of a row in a thread: lanes give the bits of columns that
/// are missing there for bits that are farther apart. The same layout where a warp has not got
/// them.
LinearLayout withNeighbours(const LinearLayout &layout, int64_t count) {
  Bases bases;
  for (Axis axis : {Axis::Register, Axis::Lane, Axis::Warp, Axis::Block})
    bases[unsigned(axis)] = layout.bases(axis);
  auto &registers = bases[unsigned(Axis::Register)], &lanes = bases[unsigned(Axis::Lane)];
  auto columnOf = [](const Coords &basis) { return basis[0] ? 0 : basis[1]; };
  for (int64_t column = 1; column < count; column *= 2) {
    auto is = [&](const Coords &basis) { return columnOf(basis) == column; };
    if (llvm::any_of(registers, is))
      continue;
    auto lane = llvm::find_if(lanes, is);
    Coords *far = nullptr;
    for (Coords &basis : registers)
      if (columnOf(basis) >= count && (!far || basis[1] < (*far)[1]))
        far = &basis;
    if (lane == lanes.end() || !far)
      return layout;
    std::swap(*lane, *far);
  }
  return LinearLayout(layout.shape(), bases);
}

/// Pointers to a block of rows and columns, and where it is within the tensor.
class Places {
public:
  Places(OpBuilder &b, Location loc, const LinearLayout &layout) : b(b), loc(loc), layout(layout) {}

  /// All elements lie `coord * stride` further; no stride is 1.
  void move(Value coord, Value stride) {
    Value offset = times(wide(coord), stride);
    base = base ? arith::AddIOp::create(b, loc, base, offset).getResult() : offset;
  }
  void limit(Value coord, Value size) {
    mask = both(mask, splat(inside(coord, size), b.getI1Type()));
  }
  void along(unsigned dim, Value coord, Value stride, Value size) {
    move(coord, stride);
    int64_t count = layout.shape()[dim];
    auto type =
        ngpu::withLayout(RankedTensorType::get({count}, b.getI32Type()), layout.sliced(1 - dim));
    Value steps = tile::RangeOp::create(b, loc, type, 0, int32_t(count));
    Value index = arith::AddIOp::create(b, loc, tile::SplatOp::create(b, loc, type, coord), steps);
    Value limits = tile::SplatOp::create(b, loc, type, size);
    mask = both(mask, spread(inside(index, limits), dim));
    Value offset = wide(steps);
    if (stride)
      offset = times(offset, tile::SplatOp::create(b, loc, offset.getType(), stride));
    offset = spread(offset, dim);
    offsets = offsets ? arith::AddIOp::create(b, loc, offsets, offset).getResult() : offset;
  }
  Value pointers(Value to) {
    Value start = tile::AddPtrOp::create(b, loc, to.getType(), to, base);
    Value all = splat(start, to.getType());
    return tile::AddPtrOp::create(b, loc, all.getType(), all, offsets);
  }
  Value mask;

private:
  RankedTensorType whole(Type element) {
    return ngpu::withLayout(RankedTensorType::get(layout.shape(), element), layout);
  }
  Value splat(Value value, Type element) {
    return tile::SplatOp::create(b, loc, whole(element), value);
  }
  Value both(Value a, Value c) { return a ? arith::AndIOp::create(b, loc, a, c).getResult() : c; }
  Value times(Value a, Value c) { return c ? arith::MulIOp::create(b, loc, a, c).getResult() : a; }
  Value wide(Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return arith::ExtSIOp::create(b, loc, type ? Type(type.clone(b.getI64Type())) : b.getI64Type(),
                                  value);
  }
  /// Unsigned, so that negative coordinates are outside too.
  Value inside(Value index, Value size) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, index, size);
  }
  Value spread(Value vector, unsigned dim) {
    Type element = cast<RankedTensorType>(vector.getType()).getElementType();
    SmallVector<int64_t> sizes = {1, 1};
    sizes[dim] = layout.shape()[dim];
    auto type = ngpu::withLayout(RankedTensorType::get(sizes, element),
                                 layout.sliced(1 - dim).expanded(1 - dim));
    Value thin = tile::ExpandDimsOp::create(b, loc, type, vector, 1 - dim);
    return tile::BroadcastOp::create(b, loc, whole(element), thin);
  }

  OpBuilder &b;
  Location loc;
  const LinearLayout &layout;
  Value base, offsets;
};

} // namespace

bool canStoreFromRegisters(tile::DescStoreOp store) {
  auto type = cast<RankedTensorType>(store.getValue().getType());
  return type.getRank() >= 2 && store.getDesc().getDefiningOp<tile::MakeDescriptorOp>() &&
         llvm::all_of(type.getShape(), [](int64_t size) { return llvm::isPowerOf2_64(size); }) &&
         llvm::all_of(type.getShape().drop_back(2), [](int64_t size) { return size == 1; }) &&
         llvm::equal(type.getShape(), cast<tile::DescType>(store.getDesc().getType()).getShape());
}

void storeFromRegisters(tile::DescStoreOp store) {
  OpBuilder b(store);
  Location loc = store.getLoc();
  auto made = store.getDesc().getDefiningOp<tile::MakeDescriptorOp>();
  Value value = store.getValue();
  auto type = cast<RankedTensorType>(value.getType());
  LinearLayout layout = ngpu::layoutOf(type).getLayout();
  unsigned outer = type.getRank() - 2;
  if (outer) {
    layout = layout.reshaped(type.getShape().take_back(2));
    auto flat = RankedTensorType::get(type.getShape().take_back(2), type.getElementType());
    value = tile::ReshapeOp::create(b, loc, ngpu::withLayout(flat, layout), value);
  }
  // Bytes that a thread writes at once: four lanes fill a sector. More would take more shuffles.
  constexpr int64_t most = 8;
  LinearLayout wide =
      withNeighbours(layout, most / int64_t(tile::sizeInBytes(type.getElementType())));
  if (wide != layout)
    value = ngpu::ConvertLayoutOp::create(b, loc, ngpu::withLayout(value.getType(), wide), value,
                                          IntegerAttr(), /*within_warps=*/true);
  Places places(b, loc, wide);
  for (unsigned dim = 0; dim < outer; ++dim) {
    places.move(store.getCoords()[dim], made.getStrides()[dim]);
    places.limit(store.getCoords()[dim], made.getShape()[dim]);
  }
  places.along(0, store.getCoords()[outer], made.getStrides()[outer], made.getShape()[outer]);
  places.along(1, store.getCoords()[outer + 1], Value(), made.getShape()[outer + 1]);
  tile::StoreOp::create(b, loc, places.pointers(made.getBase()), value, places.mask);
  store.erase();
}

} // namespace nereid::gpu
