#include "gpu/schedule/ProductsInFlight.h"

#include "gpu/schedule/Rings.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

bool canStayInFlight(scf::ForOp loop, ArrayRef<ngpu::WgmmaOp> products) {
  bool other = false;
  loop.getBody()->walk([&](Operation *op) {
    other |= isDot(op) && !llvm::is_contained(products, op);
    other |= isa<ngpu::LocalStoreOp>(op);
  });
  return !other && products.size() > 2 && llvm::all_of(products, [&](ngpu::WgmmaOp product) {
    return !product.getAsync() && !product.getPromoteK();
  });
}

/// Moves a product behind the last of its operands, and not in front of `earliest`, an op of the
/// same block.
void moveUp(ngpu::WgmmaOp product, Operation *earliest) {
  Operation *last = earliest;
  for (Value operand : product->getOperands()) {
    Operation *op = operand.getDefiningOp();
    if (!op || op->getBlock() != product->getBlock())
      continue;
    if (op->hasTrait<OpTrait::ConstantLike>())
      op->moveBefore(&op->getBlock()->front());
    else if (last->isBeforeInBlock(op))
      last = op;
  }
  if (last->isBeforeInBlock(product))
    product->moveAfter(last);
}

/// The place of the last of `products` that `op`, or an op in it, reads; -1: it reads none.
int lastRead(Operation *op, ArrayRef<ngpu::WgmmaOp> products) {
  int last = -1;
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands())
      if (auto product = operand.getDefiningOp<ngpu::WgmmaOp>())
        if (const auto *found = llvm::find(products, product); found != products.end())
          last = std::max(last, int(found - products.begin()));
  });
  return last;
}

/// Waits in front of `op` for the first `count` of the products in flight.
void waitFor(Operation *op, SmallVectorImpl<ngpu::WgmmaOp> &flying, size_t count) {
  OpBuilder b(op);
  SmallVector<Value> values;
  for (ngpu::WgmmaOp product : ArrayRef(flying).take_front(count))
    values.push_back(product.getResult());
  auto wait =
      ngpu::WgmmaWaitOp::create(b, flying[count - 1].getLoc(), TypeRange(ValueRange(values)),
                                uint32_t(flying.size() - count), values);
  for (auto [value, complete] : llvm::zip(values, wait.getResults()))
    value.replaceAllUsesExcept(complete, wait);
  flying.erase(flying.begin(), flying.begin() + ptrdiff_t(count));
}

} // namespace

bool keepProductsInFlight(scf::ForOp loop) {
  Block *body = loop.getBody();
  SmallVector<ngpu::WgmmaOp> products(body->getOps<ngpu::WgmmaOp>());
  if (!canStayInFlight(loop, products))
    return false;
  Operation *first = products[0];
  for (ngpu::WgmmaOp product : ArrayRef(products).drop_front()) {
    moveUp(product, first);
    if (product->getPrevNode() == first) // those that need nothing keep their order
      first = product;
  }
  SmallVector<ngpu::WgmmaOp> flying;
  for (Operation &op : llvm::make_early_inc_range(*body)) {
    if (int last = lastRead(&op, flying); last >= 0)
      waitFor(&op, flying, size_t(last) + 1);
    if (auto product = dyn_cast<ngpu::WgmmaOp>(op)) {
      product.setAsync(true);
      flying.push_back(product);
    }
  }
  if (!flying.empty())
    waitFor(body->getTerminator(), flying, flying.size());
  return true;
}

} // namespace nereid::gpu
