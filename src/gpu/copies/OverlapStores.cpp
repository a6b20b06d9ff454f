#include "gpu/copies/OverlapStores.h"

#include "gpu/copies/TensorMaps.h"
#include "gpu/copies/TmaBox.h"

#include "mlir/Interfaces/LoopLikeInterface.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using nereid::layout::Axis;

namespace nereid::gpu {
namespace {

/// Warps of a group.
constexpr unsigned groupWarps = 4;

/// Rows of the chunks that groups have in turn (`chunkedLayout`), when what a group holds of a
/// block of this type is not held by another group; 0: it is not so.
int64_t chunkOf(RankedTensorType type, unsigned warps) {
  const layout::LinearLayout &layout = ngpu::layoutOf(type).getLayout();
  bool powers =
      llvm::all_of(type.getShape(), [](int64_t size) { return llvm::isPowerOf2_64(size); });
  unsigned first = llvm::Log2_32(groupWarps), count = llvm::Log2_32(warps);
  if (type.getRank() != 2 || !powers || warps <= groupWarps || layout.bits(Axis::Warp) != count)
    return 0;
  // The bits of the rows that tell groups apart, in order, and that nothing else changes.
  int64_t chunk = layout.basis(Axis::Warp, first)[0];
  int64_t rowsOfGroups = chunk * (warps / groupWarps) - chunk;
  if (!llvm::isPowerOf2_64(chunk))
    return 0;
  for (Axis axis : {Axis::Register, Axis::Lane, Axis::Warp})
    for (unsigned bit = 0; bit < layout.bits(axis); ++bit) {
      layout::Coords basis = layout.basis(axis, bit);
      bool ofGroup = axis == Axis::Warp && bit >= first;
      int64_t expected = ofGroup ? chunk << (bit - first) : basis[0] & ~rowsOfGroups;
      if (basis[0] != expected || (ofGroup && basis[1]))
        return 0;
    }
  // Boxes begin where the pattern of the widest swizzle does.
  return chunk % 8 ? 0 : chunk;
}

class Stores {
public:
  Stores(func::FuncOp kernel, const GpuOptions &options, MutableArrayRef<TensorMapPlan> plans)
      : kernel(kernel), options(options), plans(plans) {}

  bool find(llvm::function_ref<bool(tile::DescStoreOp)> mayMeetAgain);
  void rewrite();

private:
  bool groupsStoreAlone() const;
  void lower(OpBuilder b, tile::DescStoreOp store, bool isFirstUse);
  void barrier(OpBuilder &b, Location loc) {
    if (chunk)
      ngpu::GroupBarrierOp::create(b, loc);
    else
      ngpu::BarrierOp::create(b, loc, IntegerAttr(), IntegerAttr());
  }

  func::FuncOp kernel;
  const GpuOptions &options;
  MutableArrayRef<TensorMapPlan> plans;
  Block *consumers = nullptr;
  SmallVector<tile::DescStoreOp> stores; ///< in order
  int64_t chunk = 0;                     ///< 0: the block stores as one
  Value buffer;
};

bool isInLoop(Operation *op) {
  return bool(op->getParentOfType<LoopLikeOpInterface>());
}

/// Do groups have rows of their own in all stores, and are the maps used for nothing else?
bool Stores::groupsStoreAlone() const {
  int64_t its = chunkOf(cast<RankedTensorType>(tile::DescStoreOp(stores[0]).getValue().getType()),
                        options.numWarps);
  return its && llvm::all_of(stores, [&](tile::DescStoreOp store) {
           auto made = store.getDesc().getDefiningOp<tile::MakeDescriptorOp>();
           bool alone = made && made.getNumber() && *made.getNumber() < plans.size() &&
                        llvm::all_of(
                            made->getUsers(),
                            [&](Operation *user) { return llvm::is_contained(stores, user); });
           auto type = cast<RankedTensorType>(store.getValue().getType());
           return alone && chunkOf(type, options.numWarps) == its;
         });
}

bool Stores::find(llvm::function_ref<bool(tile::DescStoreOp)> mayMeetAgain) {
  ngpu::WarpSpecializeOp parts = ngpu::warpSpecializeOf(kernel);
  if (!parts || options.overlapStores == OverlapStores::Never || options.without.overlappedStores)
    return false;
  consumers = &parts.getParts()[0].front();
  consumers->walk([&](tile::DescStoreOp store) {
    if (!mayMeetAgain(store))
      stores.push_back(store);
  });
  auto typeOf = [](tile::DescStoreOp store) {
    return copyBufferOf(cast<tile::DescType>(store.getDesc().getType()));
  };
  if (llvm::none_of(stores, [](tile::DescStoreOp store) { return isInLoop(store); }) ||
      !llvm::all_of(stores,
                    [&](tile::DescStoreOp store) { return typeOf(store) == typeOf(stores[0]); }))
    return false;
  if (options.overlapStores == OverlapStores::Groups && groupsStoreAlone())
    chunk = chunkOf(cast<RankedTensorType>(stores[0].getValue().getType()), options.numWarps);
  return true;
}

void Stores::lower(OpBuilder b, tile::DescStoreOp store, bool isFirstUse) {
  Location loc = store.getLoc();
  if (!isFirstUse) {
    ngpu::TmaStoreWaitOp::create(b, loc, 0, /*complete=*/false, /*each_group=*/chunk != 0);
    barrier(b, loc);
  }
  ngpu::LocalStoreOp::create(b, loc, store.getValue(), buffer);
  ngpu::FenceAsyncOp::create(b, loc);
  barrier(b, loc);
  ngpu::TmaStoreOp::create(b, loc, tensorMapOf(b, store.getDesc()), store.getCoords(), buffer,
                           tile::AtomicKindAttr(),
                           chunk ? b.getI32IntegerAttr(chunk) : IntegerAttr());
  if (chunk) {
    auto made = store.getDesc().getDefiningOp<tile::MakeDescriptorOp>();
    TmaBox box = tmaBox({chunk, cast<ngpu::BufferType>(buffer.getType()).getShape()[1]},
                        8 * tile::sizeInBytes(store.getValue().getType().getElementType()));
    plans[*made.getNumber()].box.assign(box.box.begin(), box.box.end());
  }
  store.erase();
}

void Stores::rewrite() {
  Operation *front = consumers->findAncestorOpInBlock(*stores.front());
  Operation *back = consumers->findAncestorOpInBlock(*stores.back());
  Location loc = stores.back().getLoc();
  OpBuilder b(front);
  ngpu::BufferType type = copyBufferOf(cast<tile::DescType>(stores[0].getDesc().getType()));
  if (chunk) {
    auto layout = chunkedLayout(type.getShape(), 8 * tile::sizeInBytes(type.getElementType()),
                                chunk, options.numWarps / groupWarps);
    type = ngpu::BufferType::get(b.getContext(), type.getShape(), type.getElementType(),
                                 ngpu::LayoutAttr::get(b.getContext(), layout));
  }
  auto alloc = ngpu::LocalAllocOp::create(b, loc, type, Value(), IntegerAttr());
  buffer = alloc.getResult();
  if (chunk)
    alloc->setAttr(ngpu::byGroupName, b.getUnitAttr());
  b.setInsertionPointAfter(back);
  // Behind this its bytes may be others'.
  ngpu::TmaStoreWaitOp::create(b, loc, 0, /*complete=*/false, /*each_group=*/chunk != 0);
  auto wait = b.getInsertionPoint();
  while (isa<ngpu::LocalDeallocOp>(*wait))
    ++wait;
  if (!wait->hasTrait<OpTrait::IsTerminator>())
    ngpu::BarrierOp::create(b, loc, IntegerAttr(), IntegerAttr());
  ngpu::LocalDeallocOp::create(b, loc, buffer);
  for (tile::DescStoreOp store : stores)
    lower(OpBuilder(store), store, store == stores[0] && !isInLoop(store));
}

} // namespace

bool overlapStores(func::FuncOp kernel, const GpuOptions &options,
                   MutableArrayRef<TensorMapPlan> plans,
                   llvm::function_ref<bool(tile::DescStoreOp)> mayMeetAgain) {
  Stores stores(kernel, options, plans);
  if (!stores.find(mayMeetAgain))
    return false;
  stores.rewrite();
  return true;
}

} // namespace nereid::gpu
