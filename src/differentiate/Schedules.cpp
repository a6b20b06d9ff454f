// Transposed schedules. In the forward kernel a program reads blocks of a matrix that other
// programs read, too, so each would have to add atomically to the gradient of these. Instead, the
// programs share out the blocks of the gradient. For each, the owner goes through the tiles of the
// output that depend on the block, computes what each contributes, as the tile's own program would
// have, sums in registers and stores once:
//
//   for t = program; t < blocks of the gradient; t += programs      every program
//     (row, round) = t
//     sum = 0
//     for column in columns                  the coordinates that the address does not depend on
//       sum += contribution of the tile (row, column) in this round of its loop
//     store sum at the address in (row, round)
//
// A round of a loop can be taken alone when the adjoints of what the loop carries are the same in
// all rounds: of sums. A contribution must not need a loop of its own, which would be computed
// again for every block; nor what the forward loop carried into the round.
//
// What needs the loop, as the derivative of an activation after a product, takes two steps: each
// program computes the adjoint of what its loop gives and saves it in memory, and the contributions
// are computed from that in a second launch.
//
// Launches have the kernel's grid. Conditions on sizes and strides are checked by
// every program, all with one result; where they fail, the gradient is summed by atomic additions.
#include "differentiate/Access.h"
#include "differentiate/Blocks.h"
#include "differentiate/Conditions.h"
#include "differentiate/Outside.h"
#include "differentiate/Recurrences.h"
#include "differentiate/TileSizes.h"
#include "differentiate/Transposer.h"
#include "ir/tile/RareElse.h"
#include "support/gradient_facts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/SaveAndRestore.h"

#include <vector>

using namespace mlir;

namespace nereid::differentiate {

namespace {

/// A schedule must occupy the machine: so many blocks, or a block for every so many programs.
constexpr int32_t enoughBlocks = 128;
constexpr int32_t programsPerBlock = 8;

/// Sums of one loop take at most so many elements: 128 registers a thread with four warps.
constexpr int64_t mostSummedTogether = 16384;

constexpr const char *computedInLoop = "what a tile adds to it is computed in a loop";

/// A count that is not negative as an integer of another type.
Value toInteger(OpBuilder &builder, Location loc, Value count, Type type) {
  Type from = count.getType();
  if (from == type)
    return count;
  if (from.isIndex() || type.isIndex())
    return arith::IndexCastUIOp::create(builder, loc, type, count);
  if (from.getIntOrFloatBitWidth() < type.getIntOrFloatBitWidth())
    return arith::ExtUIOp::create(builder, loc, type, count);
  return arith::TruncIOp::create(builder, loc, type, count);
}

Value number(OpBuilder &builder, Location loc, int64_t value, Type type) {
  return arith::ConstantOp::create(builder, loc, IntegerAttr::get(type, value));
}

/// Whether a value of the loop's body depends on what the loop carries and is linear.
bool dependsOnCarried(Value value, scf::ForOp loop, const llvm::DenseSet<Value> &linear) {
  llvm::DenseSet<Value> seen;
  SmallVector<Value> work{value};
  while (!work.empty()) {
    Value next = work.pop_back_val();
    if (!linear.contains(next) || !seen.insert(next).second ||
        !loop.getRegion().isAncestor(next.getParentRegion()))
      continue;
    Operation *op = next.getDefiningOp();
    if (!op) {
      op = next.getParentBlock()->getParentOp();
      if (op == loop)
        return true;
    }
    op->walk([&](Operation *inner) { work.append(inner->operand_begin(), inner->operand_end()); });
  }
  return false;
}

} // namespace

//===--- what has a schedule ---===//

void Transposer::transposeKernel(Block &body) {
  for (unsigned i = 0; i < kernel.getNumArguments(); ++i)
    if (kernel.getArgAttr(i, "tile.saved"))
      memory = kernel.getArgument(i);
    else if (kernel.getArgAttr(i, "tile.step"))
      step = kernel.getArgument(i);
  if (mayHaveSchedules)
    findSchedules(body);
  if (refusal)
    return;
  findPicked();
  noteOwners();
  body.walk([&](Operation *op) { hasOthers |= readsGradient(op) && !scheduled.contains(op); });
  adjoints.clear();
  lanes.clear();
  residuals.clear();
  if (!saved.empty())
    divideIntoSteps(body, afterCoordinates);
  else if (!picked.empty())
    transposePicked(body);
  else if (hasOthers)
    transposeBlock(body);
}

/// Whether two values are computed by the same operations from the same values.
static bool isComputedAlike(Value a, Value b) {
  SmallVector<std::pair<Value, Value>> pending{{a, b}};
  llvm::DenseSet<std::pair<Value, Value>> seen;
  while (!pending.empty()) {
    auto [x, y] = pending.pop_back_val();
    if (x == y || !seen.insert({x, y}).second)
      continue;
    Operation *of = x.getDefiningOp(), *other = y.getDefiningOp();
    if (!of || !other || of->getNumRegions() || !isPure(of) ||
        !OperationEquivalence::isEquivalentTo(of, other,
                                              OperationEquivalence::ignoreValueEquivalence, nullptr,
                                              OperationEquivalence::IgnoreLocations) ||
        cast<OpResult>(x).getResultNumber() != cast<OpResult>(y).getResultNumber())
      return false;
    for (auto [from, its] : llvm::zip(of->getOperands(), other->getOperands()))
      pending.emplace_back(from, its);
  }
  return true;
}

void Transposer::findSchedules(Block &body) {
  std::vector<Schedule> candidates;
  llvm::SmallDenseSet<unsigned> axes;
  body.walk([&](tile::ProgramIdOp id) { axes.insert(id.getAxis()); });
  for (const Owner &each : owners) {
    if (!each.isByLoads)
      continue;
    // Programs along an axis that the kernel does not use compute the same.
    const Ownership &owner = each.shared.owner;
    if (!owner.why.empty() ||
        llvm::any_of(owner.singleAxes, [&](unsigned axis) { return axes.contains(axis); })) {
      candidates.emplace_back();
      candidates.back().load = each.loads[0];
      candidates.back().all = each.loads;
    }
  }
  if (candidates.empty())
    return;
  lastOfKernel = &*std::prev(builder.getInsertionPoint());
  coordinates = coordinatesOf(kernel, builder);
  afterCoordinates = &*std::prev(builder.getInsertionPoint());
  // Where schedules are taken under one condition, what replaces them computes the kernel's values
  // once for all.
  struct Alternatives {
    scf::IfOp branch;
    Value holds;
    SmallVector<tile::LoadOp> loads;
  };
  SmallVector<Alternatives> written;
  for (Schedule &each : candidates) {
    residuals.clear();
    adjoints.clear();
    lanes.clear();
    each.why = planSchedule(each);
    if (!each.why.empty())
      continue;
    if (each.owner.shared.empty() && each.owner.wraps.empty()) {
      ownByTile(each);
      continue;
    }
    each.count = tilesOf(each);
    each.holds = conditionOf(each, each.count);
  }
  for (Schedule &each : candidates) {
    if (each.isPartner || (each.why.empty() && !each.count))
      continue;
    scf::IfOp branch;
    if (each.why.empty() && findPartners(each, candidates, body))
      branch = writePlanned(each, body);
    if (!branch && !refusal && each.count) {
      for (Schedule *partner : each.partners)
        partner->isPartner = false;
      each.partners.clear();
      branch = writePlanned(each, body);
    }
    if (refusal)
      return;
    if (!branch) {
      notScheduled[each.all[0]] = each.why;
      continue;
    }
    for (Schedule *one : each.written()) {
      scheduled.insert(one->all.begin(), one->all.end());
      notes.push_back(wordsOf(*one));
    }
    if (each.known.value_or(false))
      continue; // nothing replaces it
    Value condition = branch.getCondition();
    auto same = llvm::find_if(written, [&](const Alternatives &other) {
      return isComputedAlike(other.holds, condition);
    });
    if (same == written.end())
      same = &written.emplace_back(Alternatives{branch, condition, {}});
    for (Schedule *one : each.written())
      same->loads.append(one->all);
  }
  for (const Alternatives &each : written) {
    writeOtherwise(each.branch, body, each.loads);
    if (refusal)
      return;
  }
}

bool Transposer::readsLoops(const Schedule &each) const {
  return llvm::any_of(each.all, [&](tile::LoadOp load) {
    auto loop = dyn_cast<scf::ForOp>(load->getParentOp());
    return loop && !readFromLoops(loop).empty();
  });
}

/// Whether the addresses leave out the same remainders. The masks of one must not miss those of
/// the other.
static bool wrapAlike(const Ownership &a, const Ownership &b) {
  auto has = [](const Ownership &owner, const Wrap &wrap) {
    return llvm::any_of(owner.wraps, [&](const Wrap &own) { return own.op == wrap.op; });
  };
  return llvm::all_of(a.wraps, [&](const Wrap &wrap) { return has(b, wrap); }) &&
         llvm::all_of(b.wraps, [&](const Wrap &wrap) { return has(a, wrap); });
}

bool Transposer::canBeWritten(Schedule &each, Block &body) {
  OpBuilder::InsertionGuard guard(builder);
  auto branch =
      scf::IfOp::create(builder, each.load.getLoc(), each.holds, /*withElseRegion=*/false);
  builder.setInsertionPointToStart(branch.thenBlock());
  bool isWritten = writeSchedule(each, body, each.count);
  forget(branch);
  branch.erase();
  each.why.clear();
  return isWritten;
}

bool Transposer::findPartners(Schedule &each, std::vector<Schedule> &candidates, Block &body) {
  auto sumOf = [](const Schedule &one) {
    auto block = dyn_cast<RankedTensorType>(tile::LoadOp(one.load).getType());
    return block ? block.getNumElements() : 1;
  };
  auto sameLoop = [](tile::LoadOp a, tile::LoadOp b) { return a->getBlock() == b->getBlock(); };
  int64_t elements = sumOf(each);
  // What other loops compute, all need. Else those that need nothing of them go together.
  const bool readLoops = readsLoops(each);
  if (!readLoops && !kernel->hasAttr(compactAttribute))
    return false;
  std::optional<bool> isDirect;
  if (readLoops)
    isDirect = true;
  for (Schedule &other : llvm::make_range(candidates.begin(), candidates.end())) {
    bool isLater = &other > &each;
    if (!isLater || other.isPartner || !other.why.empty() || !other.count ||
        other.isByBlocks != each.isByBlocks || other.step != each.step ||
        other.varying != each.varying || other.loops != each.loops || other.owned != each.owned ||
        other.owner.shared != each.owner.shared || other.all.size() != each.all.size() ||
        !wrapAlike(each.owner, other.owner) || !llvm::equal(each.all, other.all, sameLoop) ||
        !sameLoop(each.load, other.load) || !isComputedAlike(each.count, other.count) ||
        elements + sumOf(other) > mostSummedTogether)
      continue;
    if (!isDirect)
      isDirect = canBeWritten(each, body);
    if (!*isDirect || refusal)
      return false;
    if (!readLoops && !canBeWritten(other, body))
      continue;
    elements += sumOf(other);
    other.isPartner = true;
    each.partners.push_back(&other);
  }
  return !each.partners.empty();
}

scf::IfOp Transposer::writePlanned(Schedule &each, Block &body) {
  Location loc = each.load.getLoc();
  Value holds = each.holds;
  for (Schedule *partner : each.partners)
    if (!isComputedAlike(holds, partner->holds))
      holds = arith::AndIOp::create(builder, loc, holds, partner->holds);
  scf::IfOp branch;
  each.why.clear();
  const std::optional<ConditionText> text = textOf(holds);
  std::optional<bool> known;
  if (text)
    if (auto found = knownConditions.find(idOfCondition(text->steps));
        found != knownConditions.end())
      known = found->second;
  for (Schedule *one : each.written())
    one->known = known;
  if (readsLoops(each))
    each.why = computedInLoop;
  else
    branch = writeAlternatives(each, body, holds);
  bool isTogether = !each.partners.empty() && !readsLoops(each);
  if (!branch && each.why == computedInLoop && !isTogether && maySave(each)) {
    each.why.clear();
    for (Schedule *one : each.written())
      one->isSaved = true;
    branch = writeAlternatives(each, body, holds);
  }
  if (branch && text)
    noteCondition(*text);
  return branch;
}

/// No other tile reads what this one reads: its program stores it in the kernel's order.
void Transposer::ownByTile(const Schedule &each) {
  contributions[each.load] = {each.owner, /*isPartial=*/false, /*isFirst=*/true};
  for (Owner &owner : owners)
    if (owner.loads[0] == each.load)
      owner.shared = {each.owner, {true}};
}

std::string Transposer::wordsOf(const Schedule &each) const {
  std::string over;
  for (unsigned place : each.owner.shared)
    over += (over.empty() ? "" : " and ") + each.tiles.all[place].name;
  std::string conditions = each.owner.words(kernel);
  std::string elsewhere = "it is summed by atomic additions elsewhere";
  if (each.known)
    elsewhere = *each.known ? "this kernel is for launches where that holds"
                            : "this kernel is for launches where that does not hold, and sums it "
                              "by atomic additions";
  return "the gradient of " + nameOf(provenance.of(tile::LoadOp(each.load).getPtr()).only()) +
         " has a transposed schedule: programs share out its blocks, and for each " +
         (over.empty() ? "store what one tile adds" : "sum in a loop over " + over) +
         (each.isSaved ? " from what a first step has saved" : "") + "; where " + conditions +
         (conditions.empty() ? "" : " and ") +
         (each.bounded ? "loops read no other blocks and " : "") + "there are at least " +
         std::to_string(enoughBlocks) + " blocks or one for every " +
         std::to_string(programsPerBlock) + " programs; " + elsewhere;
}

Value Transposer::conditionOf(const Schedule &each, Value count) {
  Location loc = tile::LoadOp(each.load).getLoc();
  Type type = builder.getI32Type();
  Value holds = each.owner.condition(builder, loc, [](Value value) { return value; });
  if (each.bounded)
    holds = arith::AndIOp::create(builder, loc, holds, each.bounded);
  Value programs = number(builder, loc, 1, type);
  for (unsigned axis = 0; axis < 3; ++axis)
    programs = arith::MulIOp::create(builder, loc, programs,
                                     tile::NumProgramsOp::create(builder, loc, type, axis));
  Value least = arith::MinSIOp::create(
      builder, loc, number(builder, loc, enoughBlocks, type),
      arith::DivSIOp::create(builder, loc, programs, number(builder, loc, programsPerBlock, type)));
  Value isEnough = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, count, least);
  return arith::AndIOp::create(builder, loc, holds, isEnough);
}

void Transposer::noteCondition(const ConditionText &text) {
  if (!llvm::is_contained(conditions, text.steps))
    conditions.push_back(text.steps);
  for (unsigned argument : text.arguments)
    addFacts(argument, DecidesPlaces);
}

scf::IfOp Transposer::writeAlternatives(Schedule &each, Block &body, Value holds) {
  size_t savedBefore = saved.size();
  int64_t bytesBefore = savedBytes;
  if (each.isSaved)
    for (Schedule *one : each.written())
      saveValues(*one);
  Location loc = each.load.getLoc();
  if (each.known)
    holds = arith::ConstantOp::create(builder, loc, builder.getBoolAttr(*each.known));
  auto create = [&] {
    auto branch = scf::IfOp::create(builder, loc, holds, /*withElseRegion=*/true);
    branch->setAttr(tile::rareElseAttribute, builder.getUnitAttr());
    return branch;
  };
  scf::IfOp branch = create();
  bool isWritten;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    isWritten = writeSchedule(each, body, each.count);
  }
  if (isWritten && each.known.value_or(true))
    return branch;
  forget(branch);
  branch.erase();
  saved.truncate(savedBefore);
  savedBytes = bytesBefore;
  // A schedule that could be written is replaced, and one that could not has no alternatives.
  return isWritten ? create() : scf::IfOp();
}

void Transposer::writeOtherwise(scf::IfOp branch, Block &body, ArrayRef<tile::LoadOp> loads) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.elseBlock());
  adjoints.clear();
  lanes.clear();
  residuals.clear();
  recompute(body);
  alone.assign(loads.begin(), loads.end());
  transposeBlock(body);
  alone.clear();
  eraseDead(*branch.elseBlock());
}

std::string Transposer::planSchedule(Schedule &each) {
  if (!coordinates.why.empty())
    return coordinates.why;
  each.tiles = coordinates;
  bool isUneven = each.all.size() > 1;
  if (!isUneven) {
    each.owner = ownershipIn(coordinates, each.load);
    if (each.owner.why.empty() && each.owner.shared.empty() && each.owner.wraps.empty())
      return ""; // each tile owns what it reads
  }
  for (Operation *parent = each.load->getParentOp(); parent != kernel;
       parent = parent->getParentOp()) {
    auto loop = dyn_cast<scf::ForOp>(parent);
    if (!loop)
      return "it is loaded in a branch";
    for (Value bound : {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()})
      isUneven |= !isUniform(bound);
    each.loops.insert(each.loops.begin(), loop);
  }
  if (isUneven) {
    std::string why = planBlocks(each);
    if (!why.empty())
      return why;
    if (each.owner.shared.empty())
      return "no other program reads its blocks";
    each.loops.clear();
  }
  if (!each.owner.why.empty())
    return each.owner.why;
  for (unsigned place = 0; place < each.tiles.all.size(); ++place)
    if (!llvm::is_contained(each.owner.shared, place))
      each.owned.push_back(place);
  if (each.varying && !llvm::is_contained(each.owner.shared, *each.varying))
    return "the number of rounds of a loop is not the same in all programs";
  if (!llvm::all_of(each.loops, [&](scf::ForOp loop) { return isSumLoop(loop); }))
    return "a loop around it is no sum: what a round adds depends on other rounds";
  if (each.owned.empty() || (each.isByBlocks && each.owned.size() == 1))
    // as many blocks as rounds do not occupy the machine
    return each.loops.empty() && !each.isByBlocks
               ? "all programs read the same block"
               : "all programs read the same blocks in the rounds of a loop";
  return "";
}

bool Transposer::isSumLoop(scf::ForOp loop) const {
  for (auto [i, carried] : llvm::enumerate(loop.getRegionIterArgs())) {
    if (!linear.contains(carried))
      continue;
    // A sum that is used in the loop, as one that every round stores, has other adjoints in every
    // round.
    if (!carried.hasOneUse())
      return false;
    Value next = loop.getYieldedValues()[i];
    while (next != carried) {
      Operation *op = next.getDefiningOp();
      if (!op || op->getBlock() != loop.getBody() || !next.hasOneUse() ||
          !isa<arith::AddFOp, arith::SubFOp, tile::DotOp>(op))
        return false;
      SmallVector<Value> from;
      for (Value operand : op->getOperands())
        if (dependsOnCarried(operand, loop, linear))
          from.push_back(operand);
      bool isPassedOn =
          from.size() == 1 &&
          (isa<arith::AddFOp>(op) ||
           from[0] == (isa<tile::DotOp>(op) ? cast<tile::DotOp>(op).getC() : op->getOperand(0)));
      if (!isPassedOn)
        return false;
      next = from[0];
    }
  }
  return true;
}

//===--- the loop over blocks ---===//

Value Transposer::tilesOf(Schedule &each) {
  Location loc = tile::LoadOp(each.load).getLoc();
  Value count = number(builder, loc, 1, builder.getI32Type());
  auto multiply = [&](Value by) {
    count = arith::MulIOp::create(builder, loc, count,
                                  toInteger(builder, loc, by, builder.getI32Type()));
  };
  for (unsigned place : each.owned)
    multiply(each.tiles.all[place].extent);
  for (scf::ForOp loop : each.loops) {
    each.blocksOfRound = count;
    each.countOfRounds = toInteger(builder, loc, roundsOf(loop).count, builder.getI32Type());
    multiply(each.countOfRounds);
  }
  return count;
}

/// Moves what is the same for all tiles in front of the loops over them, also loads, which read
/// nothing where a loop has no tiles.
static void hoistFromTiles(scf::ForOp blocks) {
  blocks.walk([&](scf::ForOp loop) {
    auto isWrite = [](Operation *op) {
      return !isa<tile::LoadOp>(op) && !op->getNumRegions() && !isMemoryEffectFree(op);
    };
    bool writes = false;
    loop.getBody()->walk([&](Operation *op) { writes |= isWrite(op); });
    if (loop == blocks || writes)
      return;
    OpBuilder builder(loop);
    Location loc = loop.getLoc();
    Value runs = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt,
                                       loop.getLowerBound(), loop.getUpperBound());
    moveLoopInvariantCode(
        loop.getLoopRegions(),
        [&](Value value, Region *) { return loop.isDefinedOutsideOfLoop(value); },
        [&](Operation *op, Region *) {
          auto load = dyn_cast<tile::LoadOp>(op);
          return load ? !load.getIsVolatile() : isMemoryEffectFree(op) && isSpeculatable(op);
        },
        [&](Operation *op, Region *) {
          loop.moveOutOfLoop(op);
          auto load = dyn_cast<tile::LoadOp>(op);
          if (!load)
            return;
          builder.setInsertionPoint(load);
          Value mask = runs;
          if (auto type = dyn_cast<RankedTensorType>(load.getType()))
            mask = tile::SplatOp::create(builder, loc, type.clone(builder.getI1Type()), runs);
          if (load.getMask())
            mask = arith::AndIOp::create(builder, loc, load.getMask(), mask);
          load.getMaskMutable().assign(mask);
        });
  });
}

bool Transposer::writeSchedule(Schedule &each, Block &body, Value count) {
  Location loc = each.load.getLoc();
  Type type = builder.getI32Type();
  Value first, programs = number(builder, loc, 1, type);
  for (unsigned axis = 0; axis < 3; ++axis) {
    Value id = tile::ProgramIdOp::create(builder, loc, type, axis);
    Value along = arith::MulIOp::create(builder, loc, id, programs);
    first = first ? arith::AddIOp::create(builder, loc, first, along).getResult() : along;
    programs = arith::MulIOp::create(builder, loc, programs,
                                     tile::NumProgramsOp::create(builder, loc, type, axis));
  }
  auto blocks = scf::ForOp::create(builder, loc, first, count, programs);
  each.loopsWritten = 1;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(blocks.getBody());
  schedule = &each;
  storeTile(each, body, blocks.getInductionVar());
  schedule = nullptr;
  if (refusal || !each.why.empty())
    return false;
  eraseDead(*blocks.getBody());
  unsigned loops = 0;
  blocks.walk([&](Operation *op) {
    if (isa<UnrealizedConversionCastOp>(op))
      each.why = "its address, its mask or what it adds depends on other programs or rounds";
    else if (isa<tile::ProgramIdOp>(op))
      each.why = "a program id is used in another way than to number tiles";
    else if (isa<LoopLikeOpInterface>(op))
      ++loops;
  });
  // Besides the loop over blocks, and those over tiles.
  if (each.why.empty() && loops > each.loopsWritten)
    each.why = computedInLoop;
  if (each.why.empty())
    unwrapProducts(blocks);
  if (each.why.empty() && each.roundOfBlock)
    exchangeTileSizes(
        {blocks, each.roundOfBlock, each.restOfBlock, each.countOfRounds, each.blocksOfRound});
  if (each.why.empty())
    hoistFromTiles(blocks);
  return each.why.empty();
}

void Transposer::enterTile(Block &body, ArrayRef<Value> places) {
  residuals.clear();
  schedule->places.assign(places.begin(), places.end());
  for (auto [coordinate, place] : llvm::zip(coordinates.all, places))
    for (Value value : coordinate.values)
      residuals.map(value, place);
  SmallVector<Value> positions;
  for (const Position &position : coordinates.positions) {
    if (!position.width) {
      positions.push_back(places[position.place]);
      continue;
    }
    Location loc = position.width.getLoc();
    Value begin = arith::MulIOp::create(builder, loc, positions[position.quotient], position.width);
    positions.push_back(arith::AddIOp::create(builder, loc, begin, positions[position.remainder]));
    for (Value value : position.values)
      residuals.map(value, positions.back());
  }
  recompute(body);
}

bool Transposer::isGiven(Operation *op) {
  if (!schedule)
    return false;
  if (op->getNumResults() == 1 &&
      (coordinates.indexOf(op->getResult(0)) || coordinates.positionOf(op->getResult(0))))
    return true;
  if (schedule->isSaved && op->getParentOp() == kernel) {
    bool isLoop = isa<LoopLikeOpInterface>(op), isRead = false;
    for (Value result : op->getResults()) {
      auto found = llvm::find_if(saved, [&](const Saved &each) { return each.of == result; });
      if (found != saved.end() && !linear.contains(result)) {
        residuals.map(result, loadSaved(*found, schedule->places));
        isRead = true;
      } else if (isLoop && !linear.contains(result)) {
        residuals.map(result, placeholder(result.getType()));
      }
    }
    if (isLoop || isRead)
      return true;
  }
  if (!unwrapped.contains(op))
    return false;
  residuals.map(op->getResult(0), here(op->getOperand(0)));
  return true;
}

Value Transposer::placeholder(Type type) {
  return UnrealizedConversionCastOp::create(builder, kernel.getLoc(), TypeRange{type}, ValueRange())
      .getResult(0);
}

void Transposer::storeTile(Schedule &each, Block &body, Value tile) {
  Location loc = each.load.getLoc();
  Type type = builder.getI32Type();
  // The last loop runs fastest, the first coordinate slowest.
  Value rest = tile;
  auto takeOff = [&](Value extent) {
    extent = toInteger(builder, loc, extent, type);
    Value digit = arith::RemSIOp::create(builder, loc, rest, extent);
    rest = arith::DivSIOp::create(builder, loc, rest, extent);
    return digit;
  };
  residuals.clear();
  if (each.isByBlocks)
    each.loops.assign(1, cast<scf::ForOp>(each.load->getParentOp()));
  each.rounds.assign(each.loops.size(), Value());
  for (unsigned i = each.isByBlocks ? 0 : each.loops.size(); i-- > 0;) {
    Value count = roundsOf(each.loops[i]).count;
    Value round = takeOff(count);
    each.rounds[i] = toInteger(builder, loc, round, count.getType());
    if (i + 1 == each.loops.size()) {
      each.roundOfBlock = round.getDefiningOp();
      each.restOfBlock = rest.getDefiningOp();
    }
  }
  SmallVector<Value> places(each.tiles.all.size());
  for (unsigned place : llvm::reverse(each.owned))
    places[place] = takeOff(each.tiles.all[place].extent);
  if (each.isByBlocks)
    each.position =
        arith::MulIOp::create(builder, loc, places.back(), number(builder, loc, each.step, type));

  // Where the block is. Nothing there depends on the other coordinates; of blocks with numbers it
  // may be computed from them, all with one result.
  SmallVector<Value> own = places;
  for (unsigned place : each.owner.shared)
    own[place] = each.isByBlocks ? number(builder, loc, 0, type) : placeholder(type);
  SmallVector<Value> addresses, masks, sums;
  {
    llvm::SaveAndRestore leftOut(unwrapped, {});
    for (Schedule *one : each.written())
      for (const Wrap &wrap : one->owner.wraps)
        unwrapped.insert(wrap.op);
    enterTile(body, own);
    for (scf::ForOp loop : each.loops)
      enterScheduledRound(loop);
    for (Schedule *one : each.written()) {
      addresses.push_back(here(one->load.getPtr()));
      masks.push_back(maskOfBlock(*one, addresses.back()));
      each.why = one->why;
      if (!each.why.empty())
        return;
    }
  }

  // What the tiles with these coordinates add.
  const SmallVector<Schedule *> written = each.written();
  SmallVector<tile::LoadOp> chosen;
  for (Schedule *one : written) {
    Type block = one->load.getType(), element = tile::elementOf(block);
    Type wide = element.getIntOrFloatBitWidth() < 32 ? builder.getF32Type() : element;
    sums.push_back(zeroOf(builder, loc, tile::withShapeOf(wide, block)));
    chosen.push_back(one->load);
  }
  each.places = places;
  for (size_t i = 0; i < each.all.size(); ++i) {
    for (Schedule *one : written)
      one->load = one->all[i];
    if (each.isByBlocks)
      each.loops.assign(1, cast<scf::ForOp>(each.load->getParentOp()));
    each.places = places;
    sums = sumOverTiles(each, body, sums);
  }
  for (auto [one, load] : llvm::zip(written, chosen)) {
    one->load = load;
    if (each.why.empty())
      each.why = one->why;
  }
  if (refusal || !each.why.empty())
    return;
  for (auto [one, address, mask, sum] : llvm::zip(written, addresses, masks, sums))
    tile::StoreOp::create(builder, loc, address,
                          convertTo(builder, sum, tile::elementOf(one->load.getType())), mask);
}

Value Transposer::maskOfBlock(Schedule &each, Value address) {
  Location loc = each.load.getLoc();
  Value mask = each.load.getMask() ? here(each.load.getMask()) : Value();
  for (const Wrap &wrap : each.owner.wraps) {
    Value position = here(wrap.position), bound = here(wrap.op->getOperand(1));
    Value inside = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, position, bound);
    auto block = dyn_cast<RankedTensorType>(address.getType());
    if (wrap.dims.size() != 1 || !splatOf(wrap.op->getOperand(1))) {
      each.why = "positions wrap around in a way that is not known";
      return mask;
    }
    inside = alongDim(builder, loc, inside, wrap.dims[0], block);
    mask = mask ? arith::AndIOp::create(builder, loc, mask, inside).getResult() : inside;
  }
  return mask;
}

SmallVector<Value> Transposer::sumOverTiles(Schedule &each, Block &body, SmallVector<Value> sums,
                                            unsigned sharedBefore) {
  Location loc = each.load.getLoc();
  if (sharedBefore < each.owner.shared.size()) {
    unsigned place = each.owner.shared[sharedBefore];
    Value begin = number(builder, loc, 0, builder.getI32Type()), end = each.tiles.all[place].extent;
    if (each.isByBlocks && place == each.varying.value_or(each.owner.shared[0]))
      std::tie(begin, end) = tilesWithBlock(each);
    ++each.loopsWritten;
    return loopOver(builder, loc, begin, end, sums, [&](Value at, ValueRange carried) {
      each.places[place] = at;
      return sumOverTiles(each, body, SmallVector<Value>(carried), sharedBefore + 1);
    });
  }
  SmallVector<Value> places = each.places;
  enterTile(body, places);
  adjoints.clear();
  lanes.clear();
  for (Schedule *one : each.written())
    one->contribution = Value();
  if (each.isSaved)
    contributeSaved(each, places);
  else
    transposeBlock(body);
  if (refusal)
    return sums;
  for (auto [one, sum] : llvm::zip(each.written(), sums))
    sum = addContribution(*one, sum);
  return sums;
}

Value Transposer::addContribution(Schedule &each, Value sum) {
  if (!each.contribution) {
    each.why = "nothing that is differentiated depends on it";
    return sum;
  }
  // What is saved was looked at when it was written without.
  if (!each.isSaved && !vanishWhereWrapped(each)) {
    each.why = "positions that wrap around may have a gradient: their outputs are not masked";
    return sum;
  }
  // A product is rounded once, after the sum, and adds to it.
  Value product = each.contribution;
  while (Operation *op = product.getDefiningOp()) {
    if (!isa<arith::ExtFOp, arith::TruncFOp>(op))
      break;
    product = op->getOperand(0);
  }
  auto dot = product.getDefiningOp<tile::DotOp>();
  if (dot && dot.getType() == sum.getType() && matchPattern(dot.getC(), m_AnyZeroFloat())) {
    auto copy = cast<tile::DotOp>(builder.clone(*dot));
    copy.getCMutable().assign(sum);
    return copy;
  }
  return arith::AddFOp::create(
      builder, sum.getLoc(), sum,
      convertTo(builder, each.contribution, tile::elementOf(sum.getType())));
}

bool Transposer::vanishWhereWrapped(const Schedule &each) {
  return llvm::all_of(each.owner.wraps, [&](const Wrap &wrap) {
    std::optional<Address> position = addressOf(here(wrap.position));
    Value bound = splatOf(here(wrap.op->getOperand(1)));
    return position && bound && Outside{*position, bound}.isZero(each.contribution, wrap.dims[0]);
  });
}

Transposer::Rounds Transposer::enterScheduledRound(scf::ForOp loop) {
  Rounds rounds = roundsOf(loop);
  for (unsigned i : rounds.states)
    residuals.map(loop.getRegionIterArg(i), placeholder(loop.getRegionIterArg(i).getType()));
  if (schedule->isByBlocks) {
    Location loc = loop.getLoc();
    Value distance = builder.createOrFold<arith::SubIOp>(loc, schedule->position, rounds.lower);
    Value step = number(builder, loc, schedule->step, builder.getI32Type());
    Value round = matchPattern(rounds.lower, m_Zero())
                      ? schedule->places.back()
                      : builder.createOrFold<arith::DivSIOp>(loc, distance, step);
    rounds.mayBeNegative = true; // at the block's address, in a tile that has no such round
    enterRound(rounds, round);
    residuals.map(loop.getInductionVar(), schedule->position);
  } else {
    size_t depth = llvm::find(schedule->loops, loop) - schedule->loops.begin();
    enterRound(rounds, schedule->rounds[depth]);
  }
  recompute(*loop.getBody());
  return rounds;
}

void Transposer::transposeRound(scf::ForOp loop) {
  Rounds rounds = enterScheduledRound(loop);
  bool isMasked = hasMasks(schedule->isSaved ? kernel.getOperation() : loop.getOperation());
  for (unsigned i : rounds.tangents)
    if (Value after = adjoints.lookup(loop.getResult(i)))
      accumulate(loop.getYieldedValues()[i], isMasked ? liveWhereNotZero(after) : after);
  transposeBlock(*loop.getBody());
}

//===--- two steps ---===//

/// Whether a linear value enters no loop.
static bool avoidsLoops(Value value, const llvm::DenseSet<Value> &linear) {
  llvm::DenseSet<Value> seen;
  SmallVector<Value> work{value};
  while (!work.empty()) {
    Value next = work.pop_back_val();
    if (!linear.contains(next) || !seen.insert(next).second)
      continue;
    for (Operation *user : next.getUsers()) {
      if (!isa<func::FuncOp>(user->getParentOp()) || isa<LoopLikeOpInterface, scf::IfOp>(user))
        return false;
      work.append(user->result_begin(), user->result_end());
    }
  }
  return true;
}

bool Transposer::maySave(const Schedule &each) const {
  return memory && step &&
         (each.isByBlocks || !each.loops.empty() ||
          avoidsLoops(tile::LoadOp(each.load).getResult(), linear));
}

/// What a loop's sums are saved as: products round them to the type of their operands anyway.
static Type savedType(scf::ForOp loop, unsigned index) {
  Type type = tile::elementOf(loop.getResult(index).getType());
  Value next = loop.getYieldedValues()[index];
  if (auto sum = next.getDefiningOp<arith::AddFOp>())
    next = sum.getLhs().getDefiningOp<tile::DotOp>() ? sum.getLhs() : sum.getRhs();
  auto dot = next.getDefiningOp<tile::DotOp>();
  if (!dot)
    return type;
  Type a = tile::elementOf(dot.getA().getType()), b = tile::elementOf(dot.getB().getType());
  bool isNarrow = a == b && isa<Float16Type, BFloat16Type>(a);
  return isNarrow ? a : type;
}

void Transposer::saveValues(const Schedule &each) {
  for (tile::LoadOp load : each.all)
    if (auto loop = dyn_cast<scf::ForOp>(load->getParentOp()))
      for (Value value : readFromLoops(loop))
        if (Type element = tile::elementOf(value.getType());
            element.isIntOrFloat() && element.getIntOrFloatBitWidth() >= 8)
          savedOf(value);
}

/// Where the next loop goes on with a sum, its result has the same adjoint.
Value Transposer::lastOfSum(Value value) const {
  while (value.hasOneUse()) {
    OpOperand &use = *value.use_begin();
    auto next = dyn_cast<scf::ForOp>(use.getOwner());
    if (!next || use.getOperandNumber() < next.getNumControlOperands() || !isSumLoop(next))
      break;
    value = next.getTiedLoopResult(&use);
  }
  return value;
}

unsigned Transposer::savedOf(Value value) {
  value = lastOfSum(value);
  for (auto [i, each] : llvm::enumerate(saved))
    if (each.of == value)
      return i;
  auto result = cast<OpResult>(value);
  Type element = tile::elementOf(value.getType());
  auto loop = dyn_cast<scf::ForOp>(result.getOwner());
  if (!linear.contains(value)) { // a value, as it is
  } else if (loop)
    element = savedType(loop, result.getResultNumber());
  else if (element.getIntOrFloatBitWidth() < 32)
    element = builder.getF32Type();
  auto block = dyn_cast<RankedTensorType>(value.getType());
  int64_t bytes = (block ? block.getNumElements() : 1) * element.getIntOrFloatBitWidth() / 8;
  saved.push_back({value, element, savedBytes});
  savedBytes += (bytes + 15) / 16 * 16;
  return saved.size() - 1;
}

Value Transposer::savedAddress(const Saved &each, ArrayRef<Value> places) {
  Location loc = each.of.getLoc();
  Type wide = builder.getI64Type();
  auto widened = [&](Value value) -> Value {
    return arith::ExtSIOp::create(builder, loc, wide, value);
  };
  auto multiply = [&](Value a, Value b) -> Value {
    return arith::MulIOp::create(builder, loc, a, b);
  };
  auto add = [&](Value a, Value b) -> Value { return arith::AddIOp::create(builder, loc, a, b); };
  Value index = number(builder, loc, 0, wide), programs = number(builder, loc, 1, wide);
  for (auto [coordinate, place] : llvm::zip(coordinates.all, places))
    index = add(multiply(index, widened(coordinate.extent)), widened(place));
  for (unsigned axis = 0; axis < 3; ++axis)
    programs = multiply(
        programs, widened(tile::NumProgramsOp::create(builder, loc, builder.getI32Type(), axis)));
  auto block = dyn_cast<RankedTensorType>(each.of.getType());
  int64_t elements = block ? block.getNumElements() : 1;
  int64_t size = each.element.getIntOrFloatBitWidth() / 8;
  int64_t stride = (elements * size + 15) / 16 * 16 / size;
  Value offset = add(multiply(programs, number(builder, loc, each.before / size, wide)),
                     multiply(index, number(builder, loc, stride, wide)));
  auto pointer = tile::PtrType::get(each.element);
  Value base = tile::PtrCastOp::create(builder, loc, pointer, memory);
  base = tile::AddPtrOp::create(builder, loc, pointer, base, offset);
  if (!block)
    return base;
  Value positions;
  for (unsigned axis = block.getRank(); axis-- > 0;) {
    Value along = positionsAlong(builder, loc, axis, block.getShape());
    int64_t step = 1;
    for (unsigned inner = axis + 1; inner < block.getRank(); ++inner)
      step *= block.getDimSize(inner);
    Value factor = tile::SplatOp::create(builder, loc, along.getType(),
                                         number(builder, loc, step, builder.getI32Type()));
    along = multiply(along, factor);
    positions = positions ? add(positions, along) : along;
  }
  auto pointers = block.clone(Type(pointer));
  base = tile::SplatOp::create(builder, loc, pointers, base);
  return tile::AddPtrOp::create(builder, loc, pointers, base, positions);
}

void Transposer::save(Value value, Value adjoint) {
  auto found = llvm::find_if(saved, [&](const Saved &each) { return each.of == value; });
  if (found == saved.end())
    return;
  Location loc = value.getLoc();
  SmallVector<Value> places;
  for (const Coordinate &coordinate : coordinates.all)
    places.push_back(coordinate.values[0]);
  if (linear.contains(value))
    adjoint = convertTo(builder, orZero(zeroed(adjoint), value), found->element);
  auto branch = scf::IfOp::create(builder, loc, coordinates.holds, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  tile::StoreOp::create(builder, loc, savedAddress(*found, places), adjoint, Value());
}

Value Transposer::loadSaved(const Saved &each, ArrayRef<Value> places) {
  Location loc = each.of.getLoc();
  Type type = tile::withShapeOf(each.element, each.of.getType());
  Value address = savedAddress(each, places);
  Value read = tile::LoadOp::create(builder, loc, type, address, Value(), Value());
  return convertTo(builder, read, tile::elementOf(each.of.getType()));
}

void Transposer::contributeSaved(Schedule &each, ArrayRef<Value> places) {
  auto load = [&](Value value) { return loadSaved(saved[savedOf(value)], places); };
  if (each.loops.empty()) {
    each.contribution = load(each.load.getResult());
    return;
  }
  scf::ForOp loop = each.loops.front();
  for (Value result : loop.getResults())
    if (linear.contains(result))
      adjoints[result] = load(result);
  transposeRound(loop);
}

void Transposer::divideIntoSteps(Block &body, Operation *marker) {
  Location loc = kernel.getLoc();
  auto isStep = [&](int64_t which) -> Value {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, step,
                                 number(builder, loc, which, step.getType()));
  };
  SmallVector<Operation *> written;
  for (Operation *op = marker->getNextNode(); op != body.getTerminator(); op = op->getNextNode())
    written.push_back(op);
  auto second = scf::IfOp::create(builder, loc, isStep(1), /*withElseRegion=*/false);
  for (Operation *op : written)
    op->moveBefore(second.thenBlock()->getTerminator());
  auto first = scf::IfOp::create(builder, loc, isStep(0), /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(first.thenBlock());
    recompute(body, /*withOutputs=*/true);
    for (const Saved &each : saved)
      if (!linear.contains(each.of))
        save(each.of, here(each.of));
    isSaving = true;
    transposeBlock(body);
    isSaving = false;
    eraseDead(*first.thenBlock());
  }
  writeQuery();
}

void Transposer::writeQuery() {
  Location loc = kernel.getLoc();
  Value isQuery = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, step,
                                        number(builder, loc, -1, step.getType()));
  auto query = scf::IfOp::create(builder, loc, isQuery, /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(query.thenBlock());
    Value isFirst;
    for (unsigned axis = 0; axis < 3; ++axis) {
      Value id = tile::ProgramIdOp::create(builder, loc, builder.getI32Type(), axis);
      Value isZero = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, id,
                                           number(builder, loc, 0, id.getType()));
      isFirst = isFirst ? arith::AndIOp::create(builder, loc, isFirst, isZero).getResult() : isZero;
    }
    auto pointer = tile::PtrType::get(builder.getI64Type());
    tile::StoreOp::create(builder, loc, tile::PtrCastOp::create(builder, loc, pointer, memory),
                          number(builder, loc, savedBytes, builder.getI64Type()), isFirst);
  }
  kernel->setAttr("tile.saved_bytes", builder.getI64IntegerAttr(savedBytes));
}

} // namespace nereid::differentiate
