#include "differentiate/Outside.h"

#include "differentiate/Blocks.h"
#include "differentiate/Coordinates.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace nereid::differentiate {

/// The one value of all elements of a block, or null.
Value splatOf(Value block) {
  while (Operation *op = block.getDefiningOp()) {
    if (auto splat = dyn_cast<tile::SplatOp>(op))
      return splat.getSrc();
    if (!isa<tile::BroadcastOp, tile::ExpandDimsOp>(op))
      break;
    block = op->getOperand(0);
  }
  return {};
}

bool Outside::isZero(Value block, unsigned dim, unsigned depth) const {
  Operation *op = block.getDefiningOp();
  if (!op || !depth)
    return false;
  auto operand = [&](unsigned i, unsigned along) {
    return isZero(op->getOperand(i), along, depth - 1);
  };
  if (matchPattern(block, m_AnyZeroFloat()))
    return true;
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](tile::LoadOp load) {
        return load.getMask() && isFalse(load.getMask(), dim, depth - 1) &&
               (!load.getOther() || isZero(load.getOther(), dim, depth - 1));
      })
      .Case<arith::ExtFOp, arith::TruncFOp, arith::NegFOp, arith::DivFOp>(
          [&](auto) { return operand(0, dim); })
      .Case<arith::AddFOp, arith::SubFOp>([&](auto) { return operand(0, dim) && operand(1, dim); })
      .Case([&](arith::MulFOp) { return operand(0, dim) || operand(1, dim); })
      .Case([&](arith::SelectOp select) {
        return operand(2, dim) &&
               (operand(1, dim) || isFalse(select.getCondition(), dim, depth - 1));
      })
      .Case([&](tile::DotOp dot) {
        unsigned rank = cast<RankedTensorType>(block.getType()).getRank();
        bool fromA = dim + 1 < rank && operand(0, dim);
        bool fromB = dim + 2 != rank && operand(1, dim);
        return (fromA || fromB) && isZero(dot.getC(), dim, depth - 1);
      })
      .Case([&](tile::TransOp trans) { return operand(0, unsigned(trans.getOrder()[dim])); })
      .Case([&](tile::BroadcastOp) {
        return cast<RankedTensorType>(op->getOperand(0).getType()).getDimSize(dim) != 1 &&
               operand(0, dim);
      })
      .Case([&](tile::ExpandDimsOp expand) {
        return dim != expand.getAxis() && operand(0, dim - (dim > expand.getAxis()));
      })
      .Default(false);
}

bool Outside::isFalse(Value mask, unsigned dim, unsigned depth) const {
  Operation *op = mask.getDefiningOp();
  if (!op || !depth)
    return false;
  auto operand = [&](unsigned i, unsigned along) {
    return isFalse(op->getOperand(i), along, depth - 1);
  };
  if (isa<arith::AndIOp>(op))
    return operand(0, dim) || operand(1, dim);
  if (isa<arith::OrIOp>(op))
    return operand(0, dim) && operand(1, dim);
  if (isa<tile::BroadcastOp>(op))
    return cast<RankedTensorType>(op->getOperand(0).getType()).getDimSize(dim) != 1 &&
           operand(0, dim);
  if (auto expand = dyn_cast<tile::ExpandDimsOp>(op))
    return dim != expand.getAxis() && operand(0, dim - (dim > expand.getAxis()));
  // Lanes of an adjoint that are not zero, as Transposer::liveWhereNotZero compares.
  if (auto differs = dyn_cast<arith::CmpFOp>(op))
    return differs.getPredicate() == arith::CmpFPredicate::UNE &&
           matchPattern(differs.getRhs(), m_AnyZeroFloat()) &&
           isZero(differs.getLhs(), dim, depth - 1);
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!compare || compare.getPredicate() != arith::CmpIPredicate::slt)
    return false;
  Value limit = splatOf(compare.getRhs()), left = compare.getLhs();
  if (!limit || !isSame(limit, bound))
    return false;
  while (Operation *view = left.getDefiningOp()) {
    if (auto expand = dyn_cast<tile::ExpandDimsOp>(view)) {
      if (dim == expand.getAxis())
        return false;
      dim -= dim > expand.getAxis();
    } else if (!isa<tile::BroadcastOp>(view)) {
      break;
    }
    left = view->getOperand(0);
  }
  auto type = dyn_cast<RankedTensorType>(left.getType());
  std::optional<Address> sum = type && type.getRank() == 1 ? addressOf(left) : std::nullopt;
  return sum && !sum->base && sum->terms == position.terms;
}

namespace {

/// The load whose elements an operand of a product holds, in another order or type; and which of
/// its dimensions `dim` of the operand is.
tile::LoadOp loadOf(Value operand, unsigned &dim) {
  while (Operation *op = operand.getDefiningOp()) {
    if (auto load = dyn_cast<tile::LoadOp>(op))
      return load;
    if (auto trans = dyn_cast<tile::TransOp>(op))
      dim = unsigned(trans.getOrder()[dim]);
    else if (!isa<arith::ExtFOp, arith::TruncFOp>(op))
      break;
    if (!operand.hasOneUse())
      break;
    operand = op->getOperand(0);
  }
  return {};
}

/// Of an address, the only remainder of a block of positions that it is computed from; null where
/// it is none, or also serves other accesses.
arith::RemSIOp wrapOf(tile::LoadOp load) {
  arith::RemSIOp found;
  SmallVector<Value> work{load.getPtr()};
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (!op ||
        !(tile::isElementwise(op) || isa<tile::BroadcastOp, tile::ExpandDimsOp, tile::TransOp>(op)))
      continue;
    if (auto rest = dyn_cast<arith::RemSIOp>(op); rest && isa<RankedTensorType>(rest.getType())) {
      if (found && found != rest)
        return {};
      found = rest;
      continue;
    }
    work.append(op->operand_begin(), op->operand_end());
  }
  if (!found)
    return {};
  llvm::DenseSet<Operation *> seen;
  SmallVector<Operation *> users(found->user_begin(), found->user_end());
  while (!users.empty()) {
    Operation *user = users.pop_back_val();
    if (user == load || !seen.insert(user).second)
      continue;
    if (!tile::isElementwise(user) &&
        !isa<tile::BroadcastOp, tile::ExpandDimsOp, tile::TransOp>(user))
      return {};
    users.append(user->user_begin(), user->user_end());
  }
  return found;
}

/// Leaves the positions that wrap around out of one operand, along the products' sum.
void unwrap(tile::DotOp dot, bool isA) {
  unsigned rank = cast<RankedTensorType>(dot.getType()).getRank();
  unsigned dim = isA ? rank - 1 : rank - 2, otherDim = isA ? rank - 2 : rank - 1;
  tile::LoadOp load = loadOf(isA ? dot.getA() : dot.getB(), dim);
  arith::RemSIOp rest = load ? wrapOf(load) : arith::RemSIOp();
  Value bound = rest ? splatOf(rest.getRhs()) : Value();
  if (!bound || cast<RankedTensorType>(rest.getType()).getRank() != 1 ||
      rest->getBlock() != load->getBlock() || dot->getBlock() != load->getBlock())
    return;
  std::optional<Address> position = addressOf(rest.getLhs());
  if (!position || !Outside{*position, bound}.isZero(isA ? dot.getB() : dot.getA(), otherDim))
    return;
  OpBuilder builder(load);
  Location loc = load.getLoc();
  Value inside =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, rest.getLhs(), rest.getRhs());
  inside = alongDim(builder, loc, inside, dim, cast<RankedTensorType>(load.getType()));
  if (load.getMask())
    inside = arith::AndIOp::create(builder, loc, load.getMask(), inside);
  load.getMaskMutable().assign(inside);
  if (!load.getOther())
    load.getOtherMutable().assign(zeroOf(builder, loc, load.getType()));
  rest.replaceAllUsesWith(rest.getLhs());
}

} // namespace

void unwrapProducts(scf::ForOp blocks) {
  blocks.walk([](tile::DotOp dot) {
    unwrap(dot, /*isA=*/true);
    unwrap(dot, /*isA=*/false);
  });
}

} // namespace nereid::differentiate
