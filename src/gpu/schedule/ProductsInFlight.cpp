#include "gpu/schedule/ProductsInFlight.h"

#include "gpu/schedule/Rings.h"
#include "layout/LinearLayout.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

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

/// Registers of a thread that a tensor takes; 0 for scalars.
int64_t registersOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return 0;
  int64_t count = ngpu::layoutOf(type).getLayout().size(layout::Axis::Register);
  return llvm::divideCeil(count * tile::sizeInBytes(type.getElementType()), 4);
}

/// What a product is computed from, in the body of the loop.
struct Sources {
  SmallVector<Operation *> movable; ///< ops without effects, in order
  SmallVector<Operation *> fixed;   ///< what these and the product read besides

  bool needProducts() const { return llvm::any_of(fixed, llvm::IsaPred<ngpu::WgmmaOp>); }
};

Sources sourcesOf(ngpu::WgmmaOp product) {
  Sources found;
  Block *body = product->getBlock();
  llvm::DenseSet<Operation *> seen;
  SmallVector<Operation *> left = {product};
  while (!left.empty())
    for (Value operand : left.pop_back_val()->getOperands()) {
      Operation *op = operand.getDefiningOp();
      if (!op || op->getBlock() != body || !seen.insert(op).second)
        continue;
      if (op->getNumRegions() || !isMemoryEffectFree(op) || isDot(op)) {
        found.fixed.push_back(op);
        continue;
      }
      found.movable.push_back(op);
      left.push_back(op);
    }
  llvm::sort(found.movable, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return found;
}

/// Moves a product, with what it is computed from, to the front as far as that allows, but behind
/// `anchor`.
void moveUp(ngpu::WgmmaOp product, const Sources &sources, Operation *anchor) {
  Operation *last = anchor;
  for (Operation *op : sources.fixed)
    if (last->isBeforeInBlock(op))
      last = op;
  for (Operation *op : sources.movable)
    if (op->hasTrait<OpTrait::ConstantLike>()) {
      op->moveBefore(&op->getBlock()->front());
    } else if (last->isBeforeInBlock(op)) {
      op->moveAfter(last);
      last = op;
    }
  if (last->isBeforeInBlock(product))
    product->moveAfter(last);
}

/// The last op of the body that needs the result of `product`; null where another product does.
Operation *lastUse(ngpu::WgmmaOp product) {
  Block *body = product->getBlock();
  Operation *last = product;
  llvm::DenseSet<Operation *> seen;
  SmallVector<Operation *> left = {product};
  while (!left.empty())
    for (Operation *user : left.pop_back_val()->getUsers()) {
      user = body->findAncestorOpInBlock(*user);
      if (!user || isDot(user) || user->hasTrait<OpTrait::IsTerminator>())
        return nullptr;
      if (!seen.insert(user).second)
        continue;
      if (last->isBeforeInBlock(user))
        last = user;
      left.push_back(user);
    }
  return last;
}

/// Moves the products to the front that need no other's result, in order, then the others. What
/// does not fit into `registers` beside what the loop carries waits for the last use of a result.
void order(scf::ForOp loop, ArrayRef<ngpu::WgmmaOp> products, int64_t registers) {
  int64_t taken = 0;
  for (Value carried : loop.getRegionIterArgs())
    taken += registersOf(carried);
  SmallVector<ngpu::WgmmaOp> unread; // their results take registers
  Operation *last = nullptr;
  for (ngpu::WgmmaOp product : products) {
    Sources sources = sourcesOf(product);
    if (sources.needProducts())
      continue;
    int64_t its = registersOf(product.getResult());
    for (ngpu::WgmmaOp *one = unread.begin(); one != unread.end() && taken + its > registers;) {
      Operation *use = lastUse(*one);
      if (!use || product->isBeforeInBlock(use)) {
        ++one;
        continue;
      }
      if (last->isBeforeInBlock(use))
        last = use;
      taken -= registersOf(one->getResult());
      one = unread.erase(one);
    }
    if (last)
      moveUp(product, sources, last);
    last = product;
    unread.push_back(product);
    taken += its;
  }
  for (ngpu::WgmmaOp product : products) {
    Sources sources = sourcesOf(product);
    if (!sources.needProducts())
      continue;
    if (last && last->isBeforeInBlock(product))
      moveUp(product, sources, last);
    last = product;
  }
}

/// Does `product` only add to an accumulator of the loop, and read nothing that the body makes?
bool mayTrail(scf::ForOp loop, ngpu::WgmmaOp product) {
  if (!staysInFlight(product))
    return false;
  BlockArgument carried = loop.getRegionIterArg(product->use_begin()->getOperandNumber());
  auto isLasting = [&](Value operand) {
    if (!isa<ngpu::BufferType>(operand.getType()))
      return true;
    Operation *source = behindViews(operand);
    return !source || isa<ngpu::SlotOp>(source) || !loop->isAncestor(source);
  };
  return carried.hasOneUse() && product.getC() == carried && isLasting(product.getA()) &&
         isLasting(product.getB());
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

std::optional<ProductsInFlight> keepProductsInFlight(scf::ForOp loop, int64_t registers) {
  // Addresses, masks, what is between two products.
  constexpr int64_t others = 32;
  Block *body = loop.getBody();
  SmallVector<ngpu::WgmmaOp> products(body->getOps<ngpu::WgmmaOp>());
  if (!canStayInFlight(loop, products))
    return std::nullopt;
  order(loop, products, registers - others);
  SmallVector<ngpu::WgmmaOp> flying;
  for (Operation &op : llvm::make_early_inc_range(body->without_terminator())) {
    if (int last = lastRead(&op, flying); last >= 0)
      waitFor(&op, flying, size_t(last) + 1);
    if (auto product = dyn_cast<ngpu::WgmmaOp>(op)) {
      product.setAsync(true);
      flying.push_back(product);
    }
  }
  ProductsInFlight result;
  if (!flying.empty() && mayTrail(loop, flying.back()))
    result.trailing = flying.back();
  if (size_t ending = flying.size() - bool(result.trailing))
    waitFor(body->getTerminator(), flying, ending);
  auto waits = body->getOps<ngpu::WgmmaWaitOp>();
  if (waits.empty())
    result.trailing = {};
  else
    result.landed = *waits.begin();
  return result;
}

} // namespace nereid::gpu
