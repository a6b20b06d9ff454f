// Schedules of blocks that tiles read in different rounds of their loops, or in several loops, as
// keys and values of causal attention (Schedules.cpp). Blocks are numbered by the loops' variable:
// block b is what a round with the variable b * step reads. For each block and each loop the owner
// goes through the tiles that have such a round. Bounds that never fall along a coordinate make
// these a range of tiles, whose ends are found by bisection:
//
//   first tile whose loop ends behind b * step ... last tile whose loop begins at b * step or
//   before
//
// What a round needs of other loops of its tile, as the statistics of rows of attention, the first
// step saves beside the adjoints.
#include "differentiate/Bounds.h"
#include "differentiate/Transposer.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;

namespace nereid::differentiate {

namespace {

Value number(OpBuilder &builder, Location loc, int64_t value) {
  return arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(value));
}

/// One of the comparisons that a mask consists of: a sum that is below 0.
using Conjunct = std::map<std::vector<Atom>, int64_t>;

/// Those of a mask; nothing where it is anything else.
std::optional<std::vector<Conjunct>> conjunctsOf(const Coordinates &tiles, Value mask,
                                                 ArrayRef<unsigned> dims, unsigned depth = 16) {
  Operation *op = mask.getDefiningOp();
  if (!op || !depth)
    return std::nullopt;
  if (isa<tile::BroadcastOp>(op))
    return conjunctsOf(tiles, op->getOperand(0), dims, depth - 1);
  if (isa<tile::SplatOp>(op))
    return conjunctsOf(tiles, op->getOperand(0), {}, depth - 1);
  if (auto expand = dyn_cast<tile::ExpandDimsOp>(op)) {
    SmallVector<unsigned> rest(dims);
    rest.erase(rest.begin() + expand.getAxis());
    return conjunctsOf(tiles, expand.getSrc(), rest, depth - 1);
  }
  if (isa<arith::AndIOp>(op)) {
    auto left = conjunctsOf(tiles, op->getOperand(0), dims, depth - 1),
         right = conjunctsOf(tiles, op->getOperand(1), dims, depth - 1);
    if (!left || !right)
      return std::nullopt;
    left->insert(left->end(), right->begin(), right->end());
    return left;
  }
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!compare || compare.getPredicate() != arith::CmpIPredicate::slt)
    return std::nullopt;
  SmallVector<Wrap> wraps;
  std::optional<Address> left = addressIn(tiles, compare.getLhs(), dims, wraps),
                         right = addressIn(tiles, compare.getRhs(), dims, wraps);
  if (!left || !right || left->base || right->base || !wraps.empty())
    return std::nullopt;
  Conjunct difference = left->terms;
  for (const auto &[factors, coefficient] : right->terms) {
    int64_t &total = difference[factors];
    total -= coefficient;
    if (!total)
      difference.erase(factors);
  }
  return std::vector<Conjunct>{difference};
}

/// Whether a condition is the same in all tiles with the same block and coordinates.
bool isOfBlock(const Conjunct &conjunct, ArrayRef<unsigned> shared) {
  return llvm::all_of(conjunct, [&](const auto &term) {
    return llvm::all_of(term.first, [&](const Atom &atom) {
      return atom.kind == Atom::Place    ? !llvm::is_contained(shared, atom.number)
             : atom.kind == Atom::Symbol ? isUniform(atom.symbol())
                                         : atom.kind != Atom::ProgramId && atom.kind != Atom::Round;
    });
  });
}

/// Of `positions < bound`, where positions are those of the block along a dimension: the bound.
std::optional<Size> boundOf(const Conjunct &conjunct, unsigned block, int64_t step) {
  Size bound;
  bool hasBlock = false, hasLane = false;
  for (const auto &[factors, coefficient] : conjunct) {
    bool moves = llvm::any_of(factors, [](const Atom &atom) { return atom.isMoving(); });
    if (!moves) {
      bound[factors] = -coefficient;
      continue;
    }
    if (factors.size() != 1)
      return std::nullopt;
    const Atom &atom = factors[0];
    bool isBlock = atom.kind == Atom::Place && atom.number == block && coefficient == step;
    bool isLane = atom.kind == Atom::Lane && coefficient == 1 && atom.extent <= step && !hasLane;
    if (!isBlock && !isLane)
      return std::nullopt;
    hasBlock |= isBlock;
    hasLane |= isLane;
  }
  return hasBlock && hasLane ? std::optional(bound) : std::nullopt;
}

} // namespace

std::string Transposer::planBlocks(Schedule &each) {
  Location loc = each.load.getLoc();
  const unsigned block = coordinates.all.size();
  each.isByBlocks = true;
  each.tiles = coordinates;
  for (tile::LoadOp load : each.all) {
    auto loop = dyn_cast<scf::ForOp>(load->getParentOp());
    APInt step;
    if (!loop || loop->getParentOp() != kernel || load.getType() != each.load.getType())
      return each.all.size() > 1 ? "several loads read it, not each in a loop over its blocks"
                                 : "the number of rounds of a loop is not the same in all programs";
    if (!isSumLoop(loop))
      return "a loop around it is no sum: what a round adds depends on other rounds";
    if (!loop.getInductionVar().getType().isInteger(32) || loop.getUnsignedCmp() ||
        !matchPattern(loop.getStep(), m_ConstantInt(&step)) || !step.isStrictlyPositive() ||
        (each.step && each.step != step.getSExtValue()))
      return "the steps of its loops differ, or are not known";
    each.step = step.getSExtValue();
    each.tiles.rounds[loop] = {block, each.step};
    for (Value bound : {loop.getLowerBound(), loop.getUpperBound()}) {
      Direction direction = directionOf(coordinates, bound);
      if (!direction.isKnown ||
          (direction.place && each.varying && direction.place != each.varying))
        return "the number of rounds of a loop is not the same in all programs, and may fall";
      if (direction.place)
        each.varying = direction.place;
    }
    SmallVector<Wrap> wraps;
    std::optional<Address> lower = addressIn(coordinates, loop.getLowerBound(), wraps);
    if (!lower ||
        !llvm::all_of(lower->terms, [&](const auto &term) { return term.second % each.step == 0; }))
      return "its blocks do not begin at multiples of the loop's step in all programs";
  }
  // The number of blocks: up to where the last tile's loops end.
  Type type = builder.getI32Type();
  Value zero = number(builder, loc, 0), one = number(builder, loc, 1), all;
  auto atTile = [&](Value bound, Value tile) {
    return each.varying ? valueAt(coordinates, bound, *each.varying, tile, builder) : bound;
  };
  SmallVector<Value> counts;
  for (tile::LoadOp load : each.all) {
    auto loop = cast<scf::ForOp>(load->getParentOp());
    Value last = zero;
    if (each.varying)
      last = arith::SubIOp::create(builder, loc, coordinates.all[*each.varying].extent, one);
    Value end = arith::MaxSIOp::create(builder, loc, atTile(loop.getUpperBound(), last), zero);
    Value up = arith::AddIOp::create(builder, loc, end, number(builder, loc, each.step - 1));
    counts.push_back(arith::DivSIOp::create(builder, loc, up, number(builder, loc, each.step)));
    all = all ? arith::MaxSIOp::create(builder, loc, type, all, counts.back()).getResult()
              : counts.back();
    APInt constant;
    if (matchPattern(loop.getLowerBound(), m_ConstantInt(&constant)) && !constant.isNegative())
      continue;
    Value begins = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge,
                                         atTile(loop.getLowerBound(), zero), zero);
    each.bounded = each.bounded
                       ? arith::AndIOp::create(builder, loc, each.bounded, begins).getResult()
                       : begins;
  }
  each.tiles.all.push_back({{}, all, "blocks"});
  return planMasks(each, counts);
}

/// Chooses the load whose mask says where the block is stored, and requires that the others read
/// nothing outside.
std::string Transposer::planMasks(Schedule &each, ArrayRef<Value> counts) {
  const unsigned block = coordinates.all.size();
  std::vector<std::vector<Conjunct>> masks;
  size_t chosen = 0;
  std::optional<Address> address;
  for (auto [i, load] : llvm::enumerate(each.all)) {
    SmallVector<Wrap> wraps;
    std::optional<Address> own = addressIn(each.tiles, load.getPtr(), wraps);
    if (!own || !wraps.empty())
      return "its addresses are no sums of positions, program ids and strides";
    if (address && (address->base != own->base || address->terms != own->terms))
      return "its loads do not read the same blocks";
    address = own;
    std::optional<std::vector<Conjunct>> mask = std::vector<Conjunct>();
    if (load.getMask())
      mask = conjunctsOf(each.tiles, load.getMask(), dimsOf(load.getMask()));
    if (!mask)
      return "its mask is no comparison of positions with numbers";
    masks.push_back(*mask);
    if (mask->size() > masks[chosen].size())
      chosen = i;
  }
  each.load = each.all[chosen];
  each.owner = ownershipIn(each.tiles, each.load);
  if (!each.owner.why.empty())
    return each.owner.why;
  for (const std::vector<Conjunct> &mask : masks)
    for (const Conjunct &conjunct : mask)
      if (!isOfBlock(conjunct, each.owner.shared) || !llvm::is_contained(masks[chosen], conjunct))
        return "its mask is not the same in all programs";
  Location loc = each.load.getLoc();
  for (auto [mask, count] : llvm::zip(masks, counts))
    for (const Conjunct &conjunct : masks[chosen]) {
      if (llvm::is_contained(mask, conjunct))
        continue;
      std::optional<Size> bound = boundOf(conjunct, block, each.step);
      if (!bound)
        return "its loads have different masks";
      Value limit = valueOf(*bound, builder, loc, [](Value value) { return value; });
      Value end = arith::MulIOp::create(
          builder, loc, arith::ExtSIOp::create(builder, loc, builder.getI64Type(), count),
          arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(each.step)));
      Value inside = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, end, limit);
      each.bounded = each.bounded
                         ? arith::AndIOp::create(builder, loc, each.bounded, inside).getResult()
                         : inside;
    }
  return "";
}

std::pair<Value, Value> Transposer::tilesWithBlock(Schedule &each) {
  Location loc = each.load.getLoc();
  scf::ForOp loop = each.loops.front();
  const unsigned place = each.varying.value_or(each.owner.shared[0]);
  Value extent = coordinates.all[place].extent;
  auto firstBehind = [&](Value bound, arith::CmpIPredicate predicate) {
    ++each.loopsWritten;
    return firstWhere(builder, loc, extent, [&](Value tile) -> Value {
      return arith::CmpIOp::create(builder, loc, predicate,
                                   valueAt(coordinates, bound, place, tile, builder),
                                   each.position);
    });
  };
  auto differs = [&](Value bound) { return bool(directionOf(coordinates, bound).place); };
  // A bound that does not differ lets all tiles pass, or none.
  auto allOrNone = [&](Value bound, arith::CmpIPredicate predicate, bool isEnd) -> Value {
    Value holds = arith::CmpIOp::create(builder, loc, predicate, bound, each.position);
    Value zero = number(builder, loc, 0);
    return arith::SelectOp::create(builder, loc, holds, isEnd ? extent : zero,
                                   isEnd ? zero : extent);
  };
  using Predicate = arith::CmpIPredicate;
  Value upper = loop.getUpperBound(), lower = loop.getLowerBound();
  Value begin = differs(upper) ? firstBehind(upper, Predicate::sgt)
                               : allOrNone(upper, Predicate::sgt, /*isEnd=*/false);
  Value end = differs(lower) ? firstBehind(lower, Predicate::sgt)
                             : allOrNone(lower, Predicate::sle, /*isEnd=*/true);
  return {begin, end};
}

SmallVector<Value> Transposer::readFromLoops(scf::ForOp loop) const {
  llvm::DenseMap<Value, bool> known;
  std::function<bool(Value)> isFromLoop = [&](Value value) {
    auto [found, isNew] = known.try_emplace(value, false);
    if (!isNew)
      return found->second;
    Operation *op = value.getDefiningOp();
    bool result =
        op && (isa<LoopLikeOpInterface>(op) || llvm::any_of(op->getOperands(), isFromLoop));
    return known[value] = result;
  };
  llvm::SetVector<Value> read;
  loop.getBody()->walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      if (operand.getParentBlock() == loop->getBlock() && !linear.contains(operand) &&
          isFromLoop(operand))
        read.insert(operand);
  });
  return read.takeVector();
}

} // namespace nereid::differentiate
