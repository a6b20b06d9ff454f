#include "gpu/copies/OverlapStores.h"

#include "gpu/copies/SkipProducts.h"
#include "gpu/copies/TensorMaps.h"
#include "gpu/copies/TmaBox.h"
#include "layout/Conversion.h"

#include "mlir/Interfaces/LoopLikeInterface.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using nereid::layout::Axis;

namespace nereid::gpu {
namespace {

/// Warps of a group.
constexpr unsigned groupWarps = 4;

/// The rows and columns of a stored block that has leading dimensions of 1, or the block.
Value planeOf(Value block) {
  while (auto expand = block.getDefiningOp<tile::ExpandDimsOp>()) {
    if (expand.getAxis() != 0)
      break;
    block = expand.getSrc();
  }
  return block;
}

/// What a store writes to its buffer, with `plane` in two dimensions unless it adds. A conversion
/// through shared memory is left out: the buffer is written in the layout from before it, in which
/// other threads hold the rows.
Value valueOf(Operation *store, bool plane) {
  Value value = store->getOperand(store->getNumOperands() - 1);
  if (plane && isa<tile::DescStoreOp>(store))
    value = planeOf(value);
  auto convert = value.getDefiningOp<ngpu::ConvertLayoutOp>();
  if (!convert)
    return value;
  auto layout = [](Value tensor) {
    return ngpu::layoutOf(cast<RankedTensorType>(tensor.getType())).getLayout();
  };
  auto element = cast<RankedTensorType>(value.getType()).getElementType();
  layout::ConversionPlan plan = layout::planConversion(layout(convert.getSrc()), layout(value),
                                                       8 * tile::sizeInBytes(element));
  return plan.move == layout::Move::Shared ? convert.getSrc() : value;
}

RankedTensorType typeOf(Operation *store, bool plane = false) {
  return cast<RankedTensorType>(valueOf(store, plane).getType());
}

OperandRange coordsOf(Operation *store) {
  return store->getOperands().drop_front().drop_back();
}

ngpu::BufferType bufferOf(Operation *store) {
  return copyBufferOf(cast<tile::DescType>(store->getOperand(0).getType()));
}

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

/// Columns of each group, the first ones of the first group, when what a group holds of a block of
/// this type are whole columns that no other group holds, and whole boxes; 0: it is not so.
int64_t columnsOf(RankedTensorType type, unsigned warps) {
  const layout::LinearLayout &layout = ngpu::layoutOf(type).getLayout();
  unsigned first = llvm::Log2_32(groupWarps), count = llvm::Log2_32(warps);
  if (warps <= groupWarps || layout.bits(Axis::Warp) != count ||
      !llvm::all_of(type.getShape(), [](int64_t size) { return llvm::isPowerOf2_64(size); }))
    return 0;
  int64_t columns = type.getShape().back() / (warps / groupWarps);
  for (Axis axis : {Axis::Register, Axis::Lane, Axis::Warp})
    for (unsigned bit = 0; bit < layout.bits(axis); ++bit) {
      layout::Coords basis = layout.basis(axis, bit);
      bool ofGroup = axis == Axis::Warp && bit >= first;
      for (auto [dim, at] : llvm::enumerate(basis)) {
        bool last = dim + 1 == size_t(type.getRank());
        if (ofGroup ? at != (last ? columns << (bit - first) : 0) : last && at >= columns)
          return 0;
      }
    }
  TmaBox box = tmaBox(type.getShape(), 8 * tile::sizeInBytes(type.getElementType()));
  return columns % box.box.back() ? 0 : columns;
}

class Stores {
public:
  Stores(func::FuncOp kernel, const GpuOptions &options, MutableArrayRef<TensorMapPlan> plans)
      : kernel(kernel), options(options), plans(plans) {}

  bool find(llvm::function_ref<bool(Operation *)> mayMeetAgain);
  void rewrite();

private:
  bool groupsStoreAlone() const;
  bool inGroups() const { return chunk || columns; }
  void lower(OpBuilder b, Operation *store, bool isFirstUse);
  void barrier(OpBuilder &b, Location loc) {
    if (inGroups())
      ngpu::GroupBarrierOp::create(b, loc);
    else
      ngpu::BarrierOp::create(b, loc, IntegerAttr(), IntegerAttr());
  }

  func::FuncOp kernel;
  const GpuOptions &options;
  MutableArrayRef<TensorMapPlan> plans;
  Block *consumers = nullptr;
  SmallVector<Operation *> stores; ///< in order
  /// What each group stores by itself; both 0: the block stores as one.
  int64_t chunk = 0, columns = 0;
  Value buffer;
};

bool isInLoop(Operation *op) {
  return bool(op->getParentOfType<LoopLikeOpInterface>());
}

/// Do groups have rows of their own in all stores, and are the maps used for nothing else?
bool Stores::groupsStoreAlone() const {
  int64_t its = chunkOf(typeOf(stores[0], true), options.numWarps);
  return its && llvm::all_of(stores, [&](Operation *store) {
           auto made = store->getOperand(0).getDefiningOp<tile::MakeDescriptorOp>();
           bool alone = made && made.getNumber() && *made.getNumber() < plans.size() &&
                        llvm::all_of(
                            made->getUsers(),
                            [&](Operation *user) { return llvm::is_contained(stores, user); });
           return alone && chunkOf(typeOf(store, true), options.numWarps) == its;
         });
}

bool Stores::find(llvm::function_ref<bool(Operation *)> mayMeetAgain) {
  ngpu::WarpSpecializeOp parts = ngpu::warpSpecializeOf(kernel);
  if (!parts || options.overlapStores == OverlapStores::Never || options.without.overlappedStores)
    return false;
  consumers = &parts.getParts()[0].front();
  consumers->walk([&](Operation *op) {
    if (isa<tile::DescStoreOp, tile::DescReduceOp>(op) && !mayMeetAgain(op))
      stores.push_back(op);
  });
  auto inLoop = llvm::find_if(stores, isInLoop);
  if (inLoop == stores.end())
    return false;
  ngpu::BufferType type = bufferOf(*inLoop);
  if (llvm::any_of(stores,
                   [&](Operation *store) { return isInLoop(store) && bufferOf(store) != type; }))
    return false;
  // Behind the loops the buffer's bytes are others' again.
  llvm::erase_if(stores, [&](Operation *store) { return bufferOf(store) != type; });
  if (options.overlapStores != OverlapStores::Groups)
    return true;
  if (groupsStoreAlone()) {
    chunk = chunkOf(typeOf(stores[0], true), options.numWarps);
    return true;
  }
  int64_t its = columnsOf(typeOf(stores[0]), options.numWarps);
  if (llvm::all_of(stores, [&](Operation *store) {
        return columnsOf(typeOf(store), options.numWarps) == its;
      }))
    columns = its;
  return true;
}

void Stores::lower(OpBuilder b, Operation *store, bool isFirstUse) {
  Location loc = store->getLoc();
  if (auto plain = dyn_cast<tile::DescStoreOp>(store); plain && chunk)
    skipUnstoredProducts(plain, chunk, options.numWarps / groupWarps);
  if (!isFirstUse) {
    ngpu::TmaStoreWaitOp::create(b, loc, 0, /*complete=*/false, /*each_group=*/inGroups());
    barrier(b, loc);
  }
  ngpu::LocalStoreOp::create(b, loc, valueOf(store, chunk != 0), buffer);
  ngpu::FenceAsyncOp::create(b, loc);
  barrier(b, loc);
  auto reduce = dyn_cast<tile::DescReduceOp>(store);
  ngpu::TmaStoreOp::create(b, loc, tensorMapOf(b, store->getOperand(0)), coordsOf(store), buffer,
                           reduce ? reduce.getKindAttr() : tile::AtomicKindAttr(),
                           chunk ? b.getI32IntegerAttr(chunk) : IntegerAttr(),
                           columns ? b.getI32IntegerAttr(columns) : IntegerAttr());
  if (chunk) {
    auto made = store->getOperand(0).getDefiningOp<tile::MakeDescriptorOp>();
    TmaBox box = tmaBox({chunk, cast<ngpu::BufferType>(buffer.getType()).getShape().back()},
                        8 * tile::sizeInBytes(typeOf(store).getElementType()));
    auto &whole = plans[*made.getNumber()].box; // with the leading dimensions
    llvm::copy(box.box, whole.end() - box.box.size());
  }
  store->erase();
}

void Stores::rewrite() {
  Operation *front = consumers->findAncestorOpInBlock(*stores.front());
  Operation *back = consumers->findAncestorOpInBlock(*stores.back());
  Location loc = stores.back()->getLoc();
  OpBuilder b(front);
  ngpu::BufferType type = bufferOf(stores[0]);
  if (chunk) {
    ArrayRef<int64_t> plane = type.getShape().take_back(2);
    auto layout = chunkedLayout(plane, 8 * tile::sizeInBytes(type.getElementType()), chunk,
                                options.numWarps / groupWarps);
    type = ngpu::BufferType::get(b.getContext(), plane, type.getElementType(),
                                 ngpu::LayoutAttr::get(b.getContext(), layout));
  }
  auto alloc = ngpu::LocalAllocOp::create(b, loc, type, Value(), IntegerAttr());
  buffer = alloc.getResult();
  if (inGroups())
    alloc->setAttr(ngpu::byGroupName, b.getUnitAttr());
  b.setInsertionPointAfter(back);
  // Behind this its bytes may be others'.
  ngpu::TmaStoreWaitOp::create(b, loc, 0, /*complete=*/false, /*each_group=*/inGroups());
  auto wait = b.getInsertionPoint();
  while (isa<ngpu::LocalDeallocOp>(*wait))
    ++wait;
  if (!wait->hasTrait<OpTrait::IsTerminator>())
    ngpu::BarrierOp::create(b, loc, IntegerAttr(), IntegerAttr());
  ngpu::LocalDeallocOp::create(b, loc, buffer);
  for (Operation *store : stores)
    lower(OpBuilder(store), store, store == stores[0] && !isInLoop(store));
}

} // namespace

bool overlapStores(func::FuncOp kernel, const GpuOptions &options,
                   MutableArrayRef<TensorMapPlan> plans,
                   llvm::function_ref<bool(Operation *)> mayMeetAgain) {
  Stores stores(kernel, options, plans);
  if (!stores.find(mayMeetAgain))
    return false;
  stores.rewrite();
  return true;
}

} // namespace nereid::gpu
