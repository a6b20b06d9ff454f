#include "differentiate/Access.h"
#include "differentiate/Blocks.h"
#include "differentiate/Differentiate.h"
#include "differentiate/Transposer.h"
#include "ir/tile/RareElse.h"
#include "support/gradient_facts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/MapVector.h"

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
      Value given = atomic ? loaded : whereStoredOnce(store, loaded);
      if (mask)
        lanes.insert({given, {here(mask), /*isZeroed=*/given == loaded}});
      accumulate(access->stored, given);
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
      accumulate(load.getOther(), selected(mask, a, false));
    if (readsGradient(op))
      contribute(load, a);
  } else if (schedule || !alone.empty()) { // other gradients are written elsewhere
  } else if (auto load = dyn_cast<tile::DescLoadOp>(op)) {
    SmallVector<Value> places =
        llvm::map_to_vector(load.getCoords(), [&](Value v) { return here(v); });
    notes.push_back("a gradient is summed by atomic additions: it belongs to a descriptor");
    tile::DescReduceOp::create(builder, loc, tile::AtomicKind::FAdd, here(load.getDesc()), places,
                               zeroed(a));
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

void Transposer::findOwners() {
  llvm::MapVector<int, SmallVector<tile::LoadOp>> loads;
  llvm::DenseMap<int, std::string> reasons; // against an owner
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (!readsGradient(op))
      return;
    const transforms::Origins &from = provenance.of(accessOf(op)->address);
    auto load = dyn_cast<tile::LoadOp>(op);
    if (load)
      loads[from.only()].push_back(load);
    for (unsigned gradient : from.arguments.set_bits())
      if (!load)
        reasons[gradient] = "it is also read through a descriptor";
      else if (from.only() < 0)
        reasons[gradient] = "an address may belong to several arguments";
  });
  reasons[-1] = "the address may belong to several arguments";
  for (auto &[gradient, all] : loads) {
    SharedOwnership shared;
    if (auto reason = reasons.find(gradient); reason != reasons.end())
      shared.owner.why = reason->second;
    else if (rows.contains(gradient))
      shared.owner = ownershipOfLanes(all);
    else
      shared = ownershipOf(all);
    // A tensor that is read, added to and written has no derivative, nor has one with several
    // stores that might meet; atomic additions have one.
    if (isDifferentiatedAgain(kernel) && (all.size() > 1 || !shared.isOneStoreEach()))
      shared.owner.why = "it is differentiated again";
    for (auto [i, load] : llvm::enumerate(all))
      contributions[load] = {shared.owner, rows.contains(gradient),
                             !shared.isFirst.empty() && shared.isFirst[i]};
    bool isByLoads = gradient >= 0 && !rows.contains(gradient) && !reasons.contains(gradient);
    owners.push_back({gradient, all, shared, isByLoads});
  }
}

void Transposer::addFacts(unsigned argument, unsigned facts) {
  if (auto known = kernel.getArgAttrOfType<IntegerAttr>(argument, "tile.gradient_facts"))
    facts |= known.getInt();
  if (facts)
    kernel.setArgAttr(argument, "tile.gradient_facts", builder.getI64IntegerAttr(facts));
}

void Transposer::addFacts(const Owner &owner, bool isScheduled) {
  if (!owner.isByLoads || !(isScheduled || owner.shared.owner.why.empty()))
    return;
  llvm::BitVector deciding(kernel.getNumArguments());
  for (tile::LoadOp load : owner.loads)
    if (!isPlacedByScalars(load, deciding))
      return;
  bool isOneStore = isScheduled ? owner.loads.size() == 1 : owner.shared.isOneStoreEach();
  addFacts(owner.gradient, isOneStore ? FixedPlaces | OneStore : FixedPlaces);
  for (unsigned scalar : deciding.set_bits())
    addFacts(scalar, DecidesPlaces);
}

void Transposer::noteOwners() {
  // A launch with partial sums is of use beside schedules of vectors, not of operands of products.
  bool hasProducts = llvm::any_of(scheduled, [](Operation *load) {
    auto block = dyn_cast<RankedTensorType>(load->getResult(0).getType());
    return isa<scf::ForOp>(load->getParentOp()) ||
           (block && llvm::count_if(block.getShape(), [](int64_t size) { return size > 1; }) > 1);
  });
  for (const Owner &each : owners) {
    bool isScheduled = scheduled.contains(each.loads[0]); // whose schedule has a note
    addFacts(each, isScheduled);
    if (!isScheduled)
      note(each, notScheduled.lookup(each.loads[0]));
    if (!each.isByLoads || (isScheduled && hasProducts))
      continue;
    // An axis that moves no address is shared; without a proof all are.
    unsigned axes = each.shared.owner.why.empty() ? 0 : 7;
    for (unsigned axis : each.shared.owner.singleAxes)
      axes |= 1u << axis;
    if (axes && ownershipOfLanes(each.loads).why.empty())
      addFacts(each.gradient, axes);
  }
}

void Transposer::contribute(tile::LoadOp load, Value a) {
  if (schedule) {
    for (Schedule *each : schedule->written())
      if (load == each->load)
        each->contribution = zeroed(a);
  } else if (isSaving && scheduled.contains(load)) {
    save(load.getResult(), a);
  } else if (!alone.empty() ? llvm::is_contained(alone, load) : !scheduled.contains(load)) {
    addTo(load, a);
  }
}

void Transposer::addTo(tile::LoadOp load, Value a) {
  Location loc = load.getLoc();
  Value address = here(load.getPtr()), mask = load.getMask() ? here(load.getMask()) : Value();
  if (auto one = picked.find(load); one != picked.end()) {
    if (isSaving)
      return pick(one->second, a);
    mask = isLeft(one->second);
  }
  const Contribution &contribution = contributions.find(load)->second;
  if (auto live = lanes.find(a); live != lanes.end() && live->second.mask != mask)
    a = zeroed(a);
  if (isSaving)
    a = withPicked(load, a);
  auto addAtomically = [&] {
    tile::AtomicRMWOp::create(builder, loc, a.getType(), tile::AtomicKind::FAdd, address, a, mask,
                              tile::MemSemantic::Relaxed);
  };
  if (!contribution.owner.why.empty())
    return addAtomically();
  if (contribution.isPartial && sumInRegisters(load, a))
    return;
  auto branch = scf::IfOp::create(
      builder, loc,
      contribution.owner.condition(builder, loc, [&](Value value) { return here(value); }),
      /*withElseRegion=*/true);
  branch->setAttr(uniformAttribute, builder.getUnitAttr());
  branch->setAttr(tile::rareElseAttribute, builder.getUnitAttr());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  if (contribution.isFirst)
    tile::StoreOp::create(builder, loc, address, a, mask);
  else
    addToStored(address, mask, a);
  builder.setInsertionPointToStart(branch.elseBlock());
  addAtomically();
}

void Transposer::note(const Owner &owner, const std::string &notTransposed) {
  const int gradient = owner.gradient;
  const SharedOwnership &shared = owner.shared;
  std::string text = "the gradient of " + nameOf(gradient);
  if (rows.contains(gradient)) {
    std::string conditions = shared.owner.why.empty() ? shared.owner.words(kernel) : "";
    notes.push_back(text +
                    " is summed in partial sums, one of each launched program, which a "
                    "second launch adds" +
                    (shared.owner.why.empty() ? "" : "; within a program by atomic additions: ") +
                    shared.owner.why +
                    (conditions.empty() ? "" : "; within a program by atomic additions unless ") +
                    conditions);
    return;
  }
  std::string further = notTransposed.empty() || notTransposed == shared.owner.why
                            ? ""
                            : "; its schedule is not transposed: " + notTransposed;
  if (!shared.owner.why.empty()) {
    notes.push_back(text + " is summed by atomic additions: " + shared.owner.why + further);
    return;
  }
  std::string conditions = shared.owner.words(kernel);
  notes.push_back(text + (shared.isOneStoreEach() ? " is stored" : " is summed") +
                  " by the program that owns it" +
                  (conditions.empty() ? "" : " where " + conditions) +
                  ", and summed by atomic additions elsewhere" +
                  (owner.isPicked ? "; with it what is read at positions from memory, or in a "
                                    "second step by atomic additions where the program's blocks do "
                                    "not cover it"
                                  : further));
}

/// The argument whose gradient this one is.
unsigned Transposer::tensorOf(int gradient) const {
  for (auto [i, argument] : llvm::enumerate(arguments))
    if (argument.tangent == gradient)
      return i;
  return gradient;
}

} // namespace nereid::differentiate
