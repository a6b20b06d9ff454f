#include "gpu/schedule/Rings.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace nereid::gpu {

bool isDot(Operation *op) {
  return isa<ngpu::MmaOp, ngpu::WgmmaOp, ngpu::FmaDotOp, tile::DotOp>(op);
}

bool isWholeView(Operation *op) {
  return isa_and_nonnull<ngpu::TransBufferOp, ngpu::ReshapeBufferOp>(op);
}

Operation *behindViews(Value buffer) {
  Operation *op = buffer.getDefiningOp();
  while (isWholeView(op))
    op = op->getOperand(0).getDefiningOp();
  return op;
}

bool feedsDot(Value value, Block *body, unsigned depth) {
  return depth < 16 &&
         llvm::any_of(
             value.getUsers(),
             [&](Operation *user) {
               if (user->getBlock() != body)
                 return false;
               if (isDot(user))
                 return user->getOperand(0) == value || user->getOperand(1) == value;
               if (!isMemoryEffectFree(user) && !isa<ngpu::LocalAllocOp, ngpu::LocalLoadOp>(user))
                 return false;
               return llvm::any_of(user->getResults(),
                                   [&](Value result) { return feedsDot(result, body, depth + 1); });
             });
}

bool staysInFlight(ngpu::WgmmaOp product) {
  return product->hasOneUse() && isa<scf::YieldOp>(*product->user_begin()) &&
         product->getBlock() == product->user_begin()->getBlock();
}

Value makeRing(OpBuilder &builder, Location loc, ngpu::BufferType slot, unsigned slots) {
  SmallVector<int64_t> shape = {slots};
  llvm::append_range(shape, slot.getShape());
  auto type =
      ngpu::BufferType::get(builder.getContext(), shape, slot.getElementType(), slot.getLayout());
  return ngpu::LocalAllocOp::create(builder, loc, type, Value(), IntegerAttr());
}

void readFromSlot(OpBuilder &builder, Operation *load, ngpu::BufferType type, Value ring,
                  Value index) {
  Location loc = load->getLoc();
  Value result = load->getResult(0);
  Value slot = ngpu::SlotOp::create(builder, loc, type, ring, index);
  for (OpOperand &use : llvm::make_early_inc_range(result.getUses())) {
    Operation *user = use.getOwner();
    if (auto alloc = dyn_cast<ngpu::LocalAllocOp>(user); alloc && alloc.getType() == type) {
      alloc.getResult().replaceAllUsesWith(slot);
      alloc.erase();
    } else if (auto convert = dyn_cast<ngpu::ConvertLayoutOp>(user)) {
      OpBuilder at(convert);
      Value loaded = ngpu::LocalLoadOp::create(at, convert.getLoc(), convert.getType(), slot);
      convert.getResult().replaceAllUsesWith(loaded);
      convert.erase();
    }
  }
  if (!load->use_empty()) {
    Value loaded = ngpu::LocalLoadOp::create(builder, loc, result.getType(), slot);
    result.replaceAllUsesWith(loaded);
  }
  load->erase();
}

} // namespace nereid::gpu
