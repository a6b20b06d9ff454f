#include "differentiate/Access.h"
#include "differentiate/Blocks.h"
#include "differentiate/Transposer.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace nereid::differentiate {

bool Transposer::transposeMemory(Operation *op) {
  std::optional<Access> access = accessOf(op);
  if (!access)
    return false;
  Location loc = op->getLoc();
  if (isa<tile::DescGatherOp, tile::DescScatterOp>(op)) {
    refuseHere(op, "an access to rows of a descriptor", "use pointers in its place");
    return true;
  }
  if (access->stored) { // the gradient of what was stored
    auto atomic = dyn_cast<tile::AtomicRMWOp>(op);
    auto store = dyn_cast<tile::StoreOp>(op);
    Type type = access->stored.getType();
    if (atomic || store) {
      Value mask = atomic ? atomic.getMask() : store.getMask();
      Value loaded = tile::LoadOp::create(builder, loc, type, here(access->address),
                                          mask ? here(mask) : mask, Value());
      accumulate(access->stored, atomic ? loaded : whereStoredOnce(store, loaded));
      return true;
    }
    if (cast<tile::DescType>(access->address.getType()).getPadding() == tile::Padding::NaN) {
      refuseHere(op, "a descriptor with the padding NaN", "what is outside would give NaN");
      return true;
    }
    auto coords = isa<tile::DescStoreOp>(op) ? cast<tile::DescStoreOp>(op).getCoords()
                                             : cast<tile::DescReduceOp>(op).getCoords();
    SmallVector<Value> places = llvm::map_to_vector(coords, [&](Value v) { return here(v); });
    accumulate(access->stored,
               tile::DescLoadOp::create(builder, loc, type, here(access->address), places));
    return true;
  }
  Value a = adjoints.lookup(access->loaded);
  if (!a)
    return true;
  if (auto load = dyn_cast<tile::LoadOp>(op)) {
    Value mask = load.getMask() ? here(load.getMask()) : Value();
    if (load.getOther() && linear.contains(load.getOther()))
      accumulate(load.getOther(),
                 arith::SelectOp::create(builder, loc, mask, zeroOf(builder, loc, a.getType()), a));
    if (readsGradient(op))
      addTo(load, a);
  } else if (auto load = dyn_cast<tile::DescLoadOp>(op)) {
    SmallVector<Value> places =
        llvm::map_to_vector(load.getCoords(), [&](Value v) { return here(v); });
    notes.push_back("a gradient is summed by atomic additions: it belongs to a descriptor");
    tile::DescReduceOp::create(builder, loc, tile::AtomicKind::FAdd, here(load.getDesc()), places,
                               a);
  }
  return true;
}

/// NaN where rounds of loops may store to one element: only the last one's value is left of these,
/// so there would be no gradient of the others.
Value Transposer::whereStoredOnce(tile::StoreOp store, Value a) {
  Ownership rounds = ownershipOfRounds(store, store.getPtr(), store.getMask());
  if (rounds.requirements.empty())
    return a;
  Location loc = store.getLoc();
  notes.push_back("the gradient of " + nameOf(provenance.of(store.getPtr()).only()) +
                  " is taken as NaN unless " + rounds.words(kernel) +
                  ", since rounds of a loop might store to one element");
  Value holds = rounds.condition(builder, loc, [&](Value value) { return here(value); });
  if (isa<RankedTensorType>(a.getType()))
    holds =
        tile::SplatOp::create(builder, loc, tile::withShapeOf(holds.getType(), a.getType()), holds);
  Value nan = constantOf(builder, loc, a.getType(), std::numeric_limits<double>::quiet_NaN());
  return arith::SelectOp::create(builder, loc, holds, a, nan);
}

std::string Transposer::nameOf(int gradient) const {
  return gradient < 0 ? "several tensors" : "`" + argumentName(kernel, tensorOf(gradient)) + "`";
}

/// Adds to a gradient. Other programs, and other loads of this one, may add to the same element,
/// unless it is proven, or found at run time, that each element has one owner.
void Transposer::addTo(tile::LoadOp load, Value a) {
  Location loc = load.getLoc();
  Value address = here(load.getPtr()), mask = load.getMask() ? here(load.getMask()) : Value();
  int argument = provenance.of(load.getPtr()).only();
  Ownership owner;
  if (argument < 0)
    owner.why = "the address may belong to several arguments";
  else if (loads[argument] > 1)
    owner.why = "it is loaded in " + std::to_string(loads[argument]) + " places";
  else
    owner = ownershipOf(load, load.getPtr(), load.getMask());
  note(argument, owner);
  auto addAtomically = [&] {
    tile::AtomicRMWOp::create(builder, loc, a.getType(), tile::AtomicKind::FAdd, address, a, mask,
                              tile::MemSemantic::Relaxed);
  };
  if (!owner.why.empty())
    return addAtomically();
  auto branch = scf::IfOp::create(
      builder, loc, owner.condition(builder, loc, [&](Value value) { return here(value); }),
      /*withElseRegion=*/true);
  branch->setAttr(uniformAttribute, builder.getUnitAttr());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  tile::StoreOp::create(builder, loc, address, a, mask);
  builder.setInsertionPointToStart(branch.elseBlock());
  addAtomically();
}

void Transposer::note(int argument, const Ownership &owner) {
  std::string text = "the gradient of " + nameOf(argument);
  if (!owner.why.empty()) {
    notes.push_back(text + " is summed by atomic additions: " + owner.why);
    return;
  }
  std::string conditions = owner.words(kernel);
  notes.push_back(text + " is stored by the program that owns it" +
                  (conditions.empty() ? "" : " where " + conditions) +
                  ", and summed by atomic additions elsewhere");
}

/// The argument whose gradient this one is.
unsigned Transposer::tensorOf(int gradient) const {
  for (auto [i, argument] : llvm::enumerate(arguments))
    if (argument.tangent == gradient)
      return i;
  return gradient;
}

} // namespace nereid::differentiate
