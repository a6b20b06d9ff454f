// Buffers in shared memory: allocation, views, loads and stores of whole tensors.
#include "gpu/emit/SharedAccess.h"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::gpu {
namespace {

SharedMove moveOf(Emitter &e, RankedTensorType tensor, ngpu::BufferType buffer) {
  const LinearLayout &distributed = ngpu::layoutOf(tensor).getLayout();
  const LinearLayout &memory = buffer.getLayout().getLayout();
  SharedMove move{distributed, memory, e.type(tensor)};
  for (int64_t size : tensor.getShape())
    move.repeats *= repeatCount(size);
  move.repeatBytes = memory.size(Axis::Offset) * tile::sizeInBytes(buffer.getElementType());
  return move;
}

/// Bytes from the start of a buffer to a part at a constant position, on the buffer's innermost
/// dimensions that the layout covers and the slots before them.
int64_t displacement(ngpu::BufferType buffer, ArrayRef<int32_t> offsets) {
  const LinearLayout &map = buffer.getLayout().getLayout();
  unsigned slots = offsets.size() - map.rank();
  int64_t slot = 0;
  for (unsigned dim = 0; dim < slots; ++dim)
    slot = slot * buffer.getShape()[dim] + offsets[dim];
  int64_t repeat = 0;
  Coords core;
  for (auto [offset, size] : llvm::zip_equal(offsets.drop_front(slots), buffer.getInnerShape())) {
    repeat = repeat * repeatCount(size) + offset / coreSize(size);
    core.push_back(offset % coreSize(size));
  }
  auto offset = map.matrix().solve(map.flat(core));
  assert(offset && "a buffer holds every element");
  return slot * buffer.getSlotBytes() + (repeat * map.size(Axis::Offset) + int64_t(*offset)) *
                                            int64_t(tile::sizeInBytes(buffer.getElementType()));
}

} // namespace

bool emitShared(Emitter &e, Operation *op) {
  auto bytes = [&](Value buffer, llvm::Value *offset) {
    return e.b.CreateGEP(e.b.getInt8Ty(), e.scalar(buffer), offset);
  };
  return TypeSwitch<Operation *, bool>(op)
      .Case([&](ngpu::LocalAllocOp alloc) {
        if (!alloc.getOffset()) {
          e.fail(op, "internal error: a buffer has no place in shared memory");
          return true;
        }
        llvm::Value *base = e.shared(*alloc.getOffset());
        e.set(alloc.getResult(), {base});
        if (alloc.getSrc())
          storeShared(e, base,
                      moveOf(e, cast<RankedTensorType>(alloc.getSrc().getType()), alloc.getType()),
                      e.get(alloc.getSrc()), alloc.getAllBlocks());
        return true;
      })
      .Case([&](ngpu::LocalDeallocOp) { return true; })
      .Case([&](ngpu::LocalStoreOp store) {
        storeShared(e, e.scalar(store.getBuffer()),
                    moveOf(e, cast<RankedTensorType>(store.getSrc().getType()),
                           store.getBuffer().getType()),
                    e.get(store.getSrc()));
        return true;
      })
      .Case([&](ngpu::LocalLoadOp load) {
        e.set(load.getResult(), loadShared(e, e.scalar(load.getBuffer()),
                                           moveOf(e, cast<RankedTensorType>(load.getType()),
                                                  load.getBuffer().getType())));
        return true;
      })
      .Case([&](ngpu::SlotOp slot) {
        // The stride: all copies that the result still counts.
        ngpu::BufferType part = slot.getType(), whole = slot.getBuffer().getType();
        uint32_t stride = part.getSlots() * whole.getSlotBytes();
        e.set(slot.getResult(), {bytes(slot.getBuffer(), e.b.CreateMul(e.scalar(slot.getIndex()),
                                                                       e.b.getInt32(stride)))});
        return true;
      })
      .Case([&](ngpu::SubviewOp view) {
        uint32_t offset = displacement(view.getBuffer().getType(), view.getOffsets());
        e.set(view.getResult(), {bytes(view.getBuffer(), e.b.getInt32(offset))});
        return true;
      })
      .Case<ngpu::TransBufferOp, ngpu::ReshapeBufferOp>([&](auto view) {
        e.set(view.getResult(), {e.scalar(view.getBuffer())});
        return true;
      })
      .Default(false);
}

} // namespace nereid::gpu
