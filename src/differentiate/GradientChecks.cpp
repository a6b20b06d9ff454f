// What has tangents but no gradient: tensors that are read and written, outputs that may be stored
// twice.
#include "differentiate/Access.h"
#include "differentiate/Addresses.h"
#include "differentiate/Ownership.h"
#include "differentiate/Refuse.h"
#include "differentiate/Transpose.h"
#include "transforms/Provenance.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;
using nereid::transforms::Origins;
using nereid::transforms::Provenance;

namespace nereid::differentiate {

namespace {

struct Store {
  Operation *op;
  Access access;
};

bool isInLoop(Operation *op) {
  for (Operation *parent = op->getParentOp(); parent; parent = parent->getParentOp())
    if (isa<LoopLikeOpInterface>(parent))
      return true;
  return false;
}

/// Whether the two stand in different branches of one `if`, of which a program takes one.
bool exclude(Operation *a, Operation *b) {
  for (Operation *parent = a->getParentOp(); parent; parent = parent->getParentOp())
    if (auto branch = dyn_cast<scf::IfOp>(parent)) {
      Region *ofA = nullptr, *ofB = nullptr;
      for (Region &region : branch->getRegions()) {
        if (region.isAncestor(a->getParentRegion()))
          ofA = &region;
        if (region.isAncestor(b->getParentRegion()))
          ofB = &region;
      }
      if (ofA && ofB && ofA != ofB)
        return branch->hasAttr(uniformAttribute) || !isInLoop(branch);
    }
  return false;
}

/// Whether a mask may differ between the lanes along a dimension.
bool differsAlong(Value mask, int64_t dim) {
  Operation *op = mask ? mask.getDefiningOp() : nullptr;
  if (!mask || isa_and_nonnull<tile::SplatOp>(op))
    return false;
  if (auto broadcast = dyn_cast_or_null<tile::BroadcastOp>(op))
    if (cast<RankedTensorType>(broadcast.getSrc().getType()).getDimSize(dim) == 1)
      return false;
  if (isa_and_nonnull<arith::AndIOp>(op))
    return differsAlong(op->getOperand(0), dim) || differsAlong(op->getOperand(1), dim);
  return !matchPattern(mask, m_Constant());
}

/// Lanes of a block must store to elements of their own: of those that meet one value is left, but
/// each would get the gradient.
std::optional<Refusal> checkLanes(const Store &store, const std::string &name) {
  auto plain = dyn_cast<tile::StoreOp>(store.op);
  auto type = plain ? dyn_cast<RankedTensorType>(plain.getPtr().getType()) : nullptr;
  std::optional<Address> address = type ? addressOf(plain.getPtr()) : std::nullopt;
  if (!address)
    return std::nullopt;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    auto isLane = [&](const Atom &atom) {
      return atom.kind == Atom::Lane && atom.number == unsigned(dim);
    };
    bool isMoved = llvm::any_of(address->terms,
                                [&](const auto &term) { return llvm::any_of(term.first, isLane); });
    if (type.getDimSize(dim) > 1 && !isMoved && !differsAlong(plain.getMask(), dim))
      return refuse(store.op->getLoc(), diag::GradientStoredByLanes, name,
                    std::to_string(type.getDimSize(dim)), std::to_string(dim));
  }
  return std::nullopt;
}

/// Rounds of loops must store to elements of their own.
std::optional<Refusal> checkRounds(const Store &store, const std::string &name) {
  if (!isInLoop(store.op) || store.access.isAtomic)
    return std::nullopt;
  auto plain = dyn_cast<tile::StoreOp>(store.op);
  Ownership rounds;
  if (plain)
    rounds = ownershipOfRounds(plain, plain.getPtr(), plain.getMask());
  else
    rounds.why = "it is stored through a descriptor";
  if (rounds.why.empty())
    return std::nullopt;
  return refuse(store.op->getLoc(), diag::GradientStoredInLoop, name, rounds.why);
}

} // namespace

std::optional<Refusal> findGradientRefusal(func::FuncOp kernel, ArrayRef<Argument> arguments) {
  Provenance provenance(kernel);
  llvm::BitVector isRead(arguments.size());
  SmallVector<SmallVector<Store>> stores(arguments.size());
  std::optional<Refusal> found;
  kernel.walk([&](Operation *op) {
    std::optional<Access> access = accessOf(op);
    if (!access)
      return WalkResult::advance();
    const Origins &from = provenance.of(access->address);
    if (from.unknown) {
      found = refuse(op->getLoc(), diag::DerivativePointerUnknown);
      return WalkResult::interrupt();
    }
    for (unsigned argument : from.arguments.set_bits()) {
      if (access->loaded)
        isRead.set(argument);
      if (access->stored)
        stores[argument].push_back({op, *access});
    }
    return WalkResult::advance();
  });
  if (found)
    return found;
  for (unsigned argument = 0; argument < arguments.size(); ++argument) {
    ArrayRef<Store> all = stores[argument];
    if (all.empty())
      continue;
    if (isRead.test(argument))
      return refuse(all[0].op->getLoc(), diag::GradientInPlace, argumentName(kernel, argument));
    if (!arguments[argument].isOutput)
      continue;
    std::string name = argumentName(kernel, argument);
    for (const Store &store : all)
      for (auto check : {checkLanes, checkRounds})
        if (std::optional<Refusal> refusal = check(store, name))
          return refusal;
    for (unsigned i = 0; i < all.size(); ++i)
      for (unsigned j = i + 1; j < all.size(); ++j) {
        bool areSums = all[i].access.isAtomic && all[j].access.isAtomic;
        // In a loop, one may meet what the other stored in another round.
        bool isRepeated = isInLoop(all[i].op) || isInLoop(all[j].op);
        if (!areSums && !exclude(all[i].op, all[j].op) &&
            (isRepeated || !neverMeet(all[i].access.address, all[j].access.address)))
          return refuse(all[j].op->getLoc(), diag::GradientStoredTwice, name);
      }
  }
  return std::nullopt;
}
} // namespace nereid::differentiate
