#include "differentiate/TileSizes.h"

#include "differentiate/Addresses.h"
#include "differentiate/Blocks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace nereid::differentiate {

namespace {

/// A dimension that changes its size: along the rounds, or along the steps of the product.
enum class Along : uint8_t { Rounds, Steps };

/// What has no operand of the same shape: every use can have a size of its own.
bool isLeaf(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto constant = dyn_cast_or_null<arith::ConstantOp>(op))
    return isa<SplatElementsAttr>(constant.getValue());
  return isa_and_nonnull<tile::RangeOp, tile::SplatOp>(op);
}

int64_t sizeOf(Value value, unsigned dim) {
  return cast<RankedTensorType>(value.getType()).getDimSize(dim);
}

class Exchange {
public:
  explicit Exchange(BlockLoop blocks)
      : blocks(blocks), round(blocks.round->getResult(0)), builder(blocks.loop) {}

  bool run() {
    if (!findProduct() || !findSizes())
      return false;
    write();
    return true;
  }

private:
  //===--- what can be exchanged ---===//

  /// The store of the block, the product that adds to it, and the innermost loop around that.
  bool findProduct() {
    for (auto each : blocks.loop.getOps<tile::StoreOp>()) {
      if (store)
        return false;
      store = each;
    }
    if (!store)
      return false;
    Value sum = store.getValue();
    while (Operation *op = sum.getDefiningOp()) {
      auto loop = dyn_cast<scf::ForOp>(op);
      if (!loop && !isa<arith::TruncFOp, arith::ExtFOp>(op))
        break;
      if (!loop) {
        sum = op->getOperand(0);
        continue;
      }
      inner = loop;
      unsigned index = cast<OpResult>(sum).getResultNumber();
      sum = loop.getYieldedValues()[index];
      product = sum.getDefiningOp<tile::DotOp>();
      if (product && product.getC() == loop.getRegionIterArg(index))
        break;
      product = {};
    }
    return product && cast<RankedTensorType>(product.getType()).getRank() == 2 &&
           product->getParentOp() == inner;
  }

  bool findSizes() {
    steps = sizeOf(product.getA(), 1);
    for (unsigned dim = 0; dim < 2; ++dim) {
      size = sizeOf(product, dim);
      factor = steps / size;
      if (steps % size || factor < 2)
        continue;
      kinds.clear();
      leaves.clear();
      known.clear();
      if (spread(Along::Rounds, store.getPtr(), dim) && spread(Along::Steps, product.getA(), 1) &&
          isDistinct() && isInInnerLoop() && isAlike(store.getPtr(), dim) &&
          isAlike(store.getValue(), dim) && (!store.getMask() || isAlike(store.getMask(), dim)))
        return true;
    }
    return false;
  }

  /// Finds all dimensions that have the same size because of an operation.
  bool spread(Along along, Value value, unsigned dim) {
    pending.clear();
    isPossible = true;
    add(along, value, dim);
    while (isPossible && !pending.empty()) {
      auto [next, at] = pending.pop_back_val();
      if (Operation *op = next.getDefiningOp())
        spreadThrough(along, op, at, &next);
      else
        spreadFromArgument(along, cast<BlockArgument>(next), at);
      for (OpOperand &use : next.getUses())
        spreadToUser(along, use, at);
    }
    return isPossible;
  }

  void add(Along along, Value value, unsigned dim) {
    if (isLeaf(value)) {
      isPossible = false; // a use of its own is needed
      return;
    }
    if (value.getDefiningOp() && !blocks.loop->isProperAncestor(value.getDefiningOp()))
      isPossible = false;
    auto [found, isNew] = kinds.try_emplace({value, dim}, along);
    isPossible &= found->second == along;
    if (isNew)
      pending.push_back({value, dim});
  }

  void addOperand(Along along, OpOperand &use, unsigned dim) {
    if (!isa<RankedTensorType>(use.get().getType()))
      return;
    if (!isLeaf(use.get()))
      return add(along, use.get(), dim);
    auto [found, isNew] = leaves.insert({{&use, dim}, along});
    isPossible &= found->second == along;
  }

  /// From a result of an operation, or from an operand, to the operation's other values.
  void spreadThrough(Along along, Operation *op, unsigned dim, Value *result) {
    if (tile::isElementwise(op) && op->getNumResults() == 1) {
      add(along, op->getResult(0), dim);
      for (OpOperand &operand : op->getOpOperands())
        addOperand(along, operand, dim);
      return;
    }
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](tile::BroadcastOp broadcast) {
          add(along, broadcast, dim);
          if (sizeOf(broadcast.getSrc(), dim) != 1)
            addOperand(along, broadcast.getSrcMutable(), dim);
        })
        .Case<tile::LoadOp, tile::StoreOp>([&](auto) {
          if (isa<tile::StoreOp>(op) && op != store.getOperation())
            isPossible = false;
          for (OpOperand &operand : op->getOpOperands())
            addOperand(along, operand, dim);
          for (Value each : op->getResults())
            add(along, each, dim);
        })
        .Case([&](tile::ExpandDimsOp expand) {
          isPossible &= dim != expand.getAxis() || !result;
          unsigned after = result ? dim : dim + (dim >= expand.getAxis());
          add(along, expand, after);
          addOperand(along, expand.getSrcMutable(), after - (after > expand.getAxis()));
        })
        .Case([&](tile::TransOp trans) {
          ArrayRef<int32_t> order = trans.getOrder();
          unsigned after = result ? dim : llvm::find(order, int32_t(dim)) - order.begin();
          add(along, trans, after);
          addOperand(along, trans.getSrcMutable(), order[after]);
        })
        .Case([&](scf::ForOp loop) {
          if (result)
            spreadAround(along, loop, cast<OpResult>(*result).getResultNumber(), dim);
          else
            isPossible = false;
        })
        .Case([&](tile::DotOp dot) {
          if (result)
            spreadThroughProduct(along, dot, dim);
          else
            isPossible = false;
        })
        .Default([&](Operation *) { isPossible = false; });
  }

  /// From a dimension of the result.
  void spreadThroughProduct(Along along, tile::DotOp dot, unsigned dim) {
    if (cast<RankedTensorType>(dot.getType()).getRank() != 2) {
      isPossible = false;
      return;
    }
    add(along, dot, dim);
    addOperand(along, dot.getCMutable(), dim);
    addOperand(along, dim == 0 ? dot.getAMutable() : dot.getBMutable(), dim);
  }

  /// What a loop carries.
  void spreadAround(Along along, scf::ForOp loop, unsigned index, unsigned dim) {
    if (!blocks.loop->isProperAncestor(loop)) {
      isPossible = false;
      return;
    }
    add(along, loop.getResult(index), dim);
    add(along, loop.getRegionIterArg(index), dim);
    addOperand(along, loop.getInitArgsMutable()[index], dim);
    addOperand(along, (*loop.getYieldedValuesMutable())[index], dim);
  }

  void spreadFromArgument(Along along, BlockArgument argument, unsigned dim) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    if (loop && argument != loop.getInductionVar())
      spreadAround(along, loop, argument.getArgNumber() - loop.getNumInductionVars(), dim);
    else
      isPossible = false;
  }

  void spreadToUser(Along along, OpOperand &use, unsigned dim) {
    Operation *user = use.getOwner();
    if (!blocks.loop->isProperAncestor(user)) {
      isPossible = false;
    } else if (auto dot = dyn_cast<tile::DotOp>(user)) {
      unsigned operand = use.getOperandNumber();
      if (operand == 2 || operand == dim)
        return spreadThroughProduct(along, dot, dim);
      // Only the product that the block is the sum of may add over the steps.
      isPossible &= dot == product && along == Along::Steps;
      addOperand(along, dot.getAMutable(), 1);
      addOperand(along, dot.getBMutable(), 0);
    } else if (isa<scf::YieldOp>(user)) {
      if (auto loop = dyn_cast<scf::ForOp>(user->getParentOp()))
        spreadAround(along, loop, use.getOperandNumber(), dim);
      else
        isPossible = false;
    } else if (auto loop = dyn_cast<scf::ForOp>(user)) {
      spreadAround(along, loop, use.getOperandNumber() - loop.getNumControlOperands(), dim);
    } else {
      spreadThrough(along, user, dim, nullptr);
    }
  }

  /// Whether no value has two dimensions that change alike.
  bool isDistinct() const {
    return llvm::all_of(kinds, [&](const auto &each) {
      auto [value, dim] = each.first;
      unsigned count = 0;
      for (unsigned other = 0; other < cast<RankedTensorType>(value.getType()).getRank(); ++other) {
        auto found = kinds.find({value, other});
        count += found != kinds.end() && found->second == each.second;
      }
      return count == 1;
    });
  }

  bool isInInnerLoop() const {
    auto isInside = [&](Operation *op) { return op && inner->isProperAncestor(op); };
    return llvm::all_of(kinds,
                        [&](const auto &each) {
                          return each.second != Along::Steps ||
                                 isInside(each.first.first.getDefiningOp());
                        }) &&
           llvm::all_of(leaves, [&](const auto &each) {
             return each.second != Along::Steps || isInside(each.first.first->getOwner());
           });
  }

  //===--- whether rounds follow one another ---===//

  /// Whether a value inside the loop over blocks depends on the round.
  bool dependsOnRound(Value value) const {
    llvm::DenseSet<Value> seen;
    SmallVector<Value> work{value};
    while (!work.empty()) {
      Value next = work.pop_back_val();
      if (next == round)
        return true;
      Operation *op =
          next.getDefiningOp() ? next.getDefiningOp() : next.getParentBlock()->getParentOp();
      if (!blocks.loop->isProperAncestor(op) || !seen.insert(next).second)
        continue;
      auto loop = dyn_cast<scf::ForOp>(op);
      if (!loop) {
        op->walk([&](Operation *each) { work.append(each->operand_begin(), each->operand_end()); });
        continue;
      }
      work.append({loop.getLowerBound(), loop.getUpperBound(), loop.getStep()});
      if (next == loop.getInductionVar())
        continue;
      unsigned index = isa<OpResult>(next)
                           ? cast<OpResult>(next).getResultNumber()
                           : cast<BlockArgument>(next).getArgNumber() - loop.getNumInductionVars();
      work.append({loop.getInitArgs()[index], loop.getYieldedValues()[index]});
    }
    return false;
  }

  bool isRound(const Atom &atom) const {
    if (atom.kind != Atom::Symbol)
      return false;
    Value value = atom.symbol();
    while (Operation *op = value.getDefiningOp()) {
      if (!isa<arith::ExtUIOp, arith::ExtSIOp, arith::IndexCastOp, arith::IndexCastUIOp>(op))
        break;
      value = op->getOperand(0);
    }
    return value == round;
  }

  /// Coefficients of products of other atoms: of the lane, times the size, minus those of the
  /// round. All are zero where a sum has both only as round * size + lane.
  using Ahead = std::map<std::vector<Atom>, int64_t>;

  bool addTo(Ahead &ahead, const Address &sum, std::optional<unsigned> dim, int64_t sign) const {
    if (sum.base && dependsOnRound(sum.base))
      return false;
    for (const auto &[factors, coefficient] : sum.terms) {
      std::vector<Atom> others;
      int64_t weight = 0;
      bool hasOtherLanes = false;
      for (const Atom &atom : factors) {
        bool isLane = atom.kind == Atom::Lane && dim && atom.number == *dim;
        if (!isLane && !isRound(atom)) {
          if (atom.kind == Atom::Symbol && dependsOnRound(atom.symbol()))
            return false;
          hasOtherLanes |= atom.kind == Atom::Lane;
          others.push_back(atom);
          continue;
        }
        if (weight)
          return false;
        weight = isLane ? size : -1;
      }
      if (weight && hasOtherLanes)
        return false;
      if (weight)
        ahead[others] += sign * weight * coefficient;
    }
    return true;
  }

  /// Adds a value that varies along `dim`, or along no dimension that changes.
  bool addTo(Ahead &ahead, Value value, std::optional<unsigned> dim, int64_t sign = 1) const {
    if (std::optional<Address> sum = addressOf(value))
      return addTo(ahead, *sum, dim, sign);
    Operation *op = value.getDefiningOp();
    if (isa_and_nonnull<tile::AddPtrOp, arith::AddIOp, arith::SubIOp>(op))
      return addTo(ahead, op->getOperand(0), dim, sign) &&
             addTo(ahead, op->getOperand(1), dim, isa<arith::SubIOp>(op) ? -sign : sign);
    if (auto broadcast = dyn_cast_or_null<tile::BroadcastOp>(op))
      return addTo(ahead, broadcast.getSrc(),
                   dim && sizeOf(broadcast.getSrc(), *dim) != 1 ? dim : std::nullopt, sign);
    if (auto expand = dyn_cast_or_null<tile::ExpandDimsOp>(op); expand && dim)
      return addTo(ahead, expand.getSrc(), *dim - (*dim > expand.getAxis()), sign);
    return !dim && !dependsOnRound(value);
  }

  /// Whether the next round reads on where this one ends; of the difference of two values with
  /// `minus`.
  bool isSequence(Value value, unsigned dim, Value minus = {}) const {
    Ahead ahead;
    return addTo(ahead, value, dim) && (!minus || addTo(ahead, minus, dim, -1)) &&
           llvm::all_of(ahead, [](const auto &each) { return !each.second; });
  }

  /// Whether a lane that a larger block has behind the block of this round is a lane of one of the
  /// next rounds.
  bool isAlike(Value value, unsigned dim) {
    if (!known.insert({value, dim}).second)
      return true; // around a loop, or found before
    Type element = tile::elementOf(value.getType());
    if ((element.isInteger() || isa<tile::PtrType>(element)) && isSequence(value, dim))
      return true;
    auto operand = [&](Value each, unsigned at) {
      bool isBlock = isa<RankedTensorType>(each.getType()) && sizeOf(each, at) != 1;
      return isBlock ? isAlike(each, at) : !dependsOnRound(each);
    };
    Operation *op = value.getDefiningOp();
    if (!op)
      return isCarriedAlike(cast<BlockArgument>(value), dim);
    if (auto compare = dyn_cast<arith::CmpIOp>(op))
      if (compare.getPredicate() < arith::CmpIPredicate::ult &&
          isSequence(compare.getLhs(), dim, compare.getRhs()))
        return true;
    if (tile::isElementwise(op) || isa<tile::LoadOp, tile::BroadcastOp>(op))
      return llvm::all_of(op->getOperands(), [&](Value each) { return operand(each, dim); });
    return llvm::TypeSwitch<Operation *, bool>(op)
        .Case([&](tile::SplatOp splat) { return !dependsOnRound(splat.getSrc()); })
        .Case([&](arith::ConstantOp) { return true; })
        .Case([&](tile::ExpandDimsOp expand) {
          return operand(expand.getSrc(), dim - (dim > expand.getAxis()));
        })
        .Case([&](tile::TransOp trans) {
          return operand(trans.getSrc(), unsigned(trans.getOrder()[dim]));
        })
        .Case([&](tile::DotOp dot) {
          return operand(dot.getC(), dim) && operand(dim == 0 ? dot.getA() : dot.getB(), dim) &&
                 !dependsOnRound(dim == 0 ? dot.getB() : dot.getA());
        })
        .Case([&](scf::ForOp loop) {
          return isAlike(loop.getRegionIterArg(cast<OpResult>(value).getResultNumber()), dim);
        })
        .Default(false);
  }

  bool isCarriedAlike(BlockArgument argument, unsigned dim) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    if (!loop || argument == loop.getInductionVar() || !blocks.loop->isProperAncestor(loop))
      return false;
    unsigned index = argument.getArgNumber() - loop.getNumInductionVars();
    return llvm::none_of(ValueRange{loop.getLowerBound(), loop.getUpperBound(), loop.getStep()},
                         [&](Value bound) { return dependsOnRound(bound); }) &&
           isAlike(loop.getInitArgs()[index], dim) && isAlike(loop.getYieldedValues()[index], dim);
  }

  //===--- the exchange ---===//

  Value number(int64_t value, Type type) {
    return arith::ConstantOp::create(builder, loc(), IntegerAttr::get(type, value));
  }
  Location loc() { return store.getLoc(); }

  void write() {
    Type type = round.getType();
    builder.setInsertionPoint(blocks.loop);
    Value up = arith::AddIOp::create(builder, loc(), blocks.rounds, number(factor - 1, type));
    Value fewer = arith::DivSIOp::create(builder, loc(), up, number(factor, type));
    blocks.loop.getUpperBoundMutable().assign(
        arith::MulIOp::create(builder, loc(), blocks.others, fewer));
    blocks.round->setOperand(1, fewer);
    blocks.rest->setOperand(1, fewer);
    builder.setInsertionPointAfter(blocks.round);
    Value first = arith::MulIOp::create(builder, loc(), round, number(factor, type));
    round.replaceAllUsesExcept(first, first.getDefiningOp());
    // The lanes of rounds that the loop has.
    Value left = arith::SubIOp::create(builder, loc(), blocks.rounds, first);
    left = arith::MinSIOp::create(builder, loc(), left, number(factor, type));
    lanes = arith::MulIOp::create(builder, loc(), left, number(size, type));

    divideSteps();
    for (const auto &[use, kind] : llvm::make_early_inc_range(leaves))
      resizeLeaf(*use.first);
    llvm::DenseSet<Value> values;
    for (const auto &each : kinds)
      values.insert(each.first.first);
    for (Value value : values)
      value.setType(resized(value.getType(), [&](unsigned dim) -> std::optional<Along> {
        auto found = kinds.find({value, dim});
        return found == kinds.end() ? std::nullopt : std::optional(found->second);
      }));
    for (const auto &[at, along] : kinds)
      if (auto load =
              along == Along::Rounds ? at.first.getDefiningOp<tile::LoadOp>() : tile::LoadOp())
        restrict(load, load.getMaskMutable(), load.getType(), at.second);
    for (const auto &[at, along] : kinds)
      if (along == Along::Rounds && at.first == store.getPtr())
        restrict(store, store.getMaskMutable(), store.getPtr().getType(), at.second);
  }

  /// Every tile takes several iterations of the loop.
  void divideSteps() {
    builder.setInsertionPoint(inner);
    Type type = inner.getInductionVar().getType();
    Value times = number(factor, type);
    for (OpOperand *bound : {&inner.getLowerBoundMutable(), &inner.getUpperBoundMutable()})
      bound->set(arith::MulIOp::create(builder, loc(), bound->get(), times));
    builder.setInsertionPointToStart(inner.getBody());
    Value variable = inner.getInductionVar();
    Value tile = arith::DivSIOp::create(builder, loc(), variable, times);
    Value part = arith::RemSIOp::create(builder, loc(), variable, times);
    variable.replaceUsesWithIf(tile, [&](OpOperand &use) {
      return use.getOwner() != tile.getDefiningOp() && use.getOwner() != part.getDefiningOp();
    });
    begin = arith::MulIOp::create(builder, loc(), part, number(size, type));
  }

  RankedTensorType resized(Type type, llvm::function_ref<std::optional<Along>(unsigned)> along) {
    auto block = cast<RankedTensorType>(type);
    SmallVector<int64_t> shape(block.getShape());
    for (unsigned dim = 0; dim < shape.size(); ++dim)
      if (std::optional<Along> kind = along(dim))
        shape[dim] = *kind == Along::Rounds ? steps : size;
    return block.clone(shape);
  }

  void resizeLeaf(OpOperand &use) {
    auto kindOf = [&](unsigned dim) -> std::optional<Along> {
      auto found = leaves.find({&use, dim});
      return found == leaves.end() ? std::nullopt : std::optional(found->second);
    };
    RankedTensorType type = resized(use.get().getType(), kindOf);
    if (use.get().getType() == type)
      return; // along its other dimension
    builder.setInsertionPoint(use.getOwner());
    if (auto splat = use.get().getDefiningOp<tile::SplatOp>()) {
      use.set(tile::SplatOp::create(builder, loc(), type, splat.getSrc()));
    } else if (auto range = use.get().getDefiningOp<tile::RangeOp>()) {
      auto start = int32_t(range.getStart());
      Value positions =
          tile::RangeOp::create(builder, loc(), type, start, int32_t(start + type.getDimSize(0)));
      if (*kindOf(0) == Along::Steps)
        positions = arith::AddIOp::create(builder, loc(), positions,
                                          tile::SplatOp::create(builder, loc(), type, begin));
      use.set(positions);
    } else {
      auto constant = cast<arith::ConstantOp>(use.get().getDefiningOp());
      auto splat = cast<SplatElementsAttr>(constant.getValue());
      use.set(arith::ConstantOp::create(builder, loc(), splat.resizeSplat(type)));
    }
  }

  /// An access touches nothing of rounds that the loop does not have.
  void restrict(Operation *access, MutableOperandRange mask, Type block, unsigned dim) {
    builder.setInsertionPoint(access);
    auto type = RankedTensorType::get({steps}, builder.getI32Type());
    Value positions = tile::RangeOp::create(builder, loc(), type, 0, int32_t(steps));
    Value inside = arith::CmpIOp::create(builder, loc(), arith::CmpIPredicate::slt, positions,
                                         tile::SplatOp::create(builder, loc(), type, lanes));
    inside = alongDim(builder, loc(), inside, dim, cast<RankedTensorType>(block));
    if (!mask.empty())
      inside = arith::AndIOp::create(builder, loc(), mask[0].get(), inside);
    mask.assign(inside);
  }

  mutable BlockLoop blocks;
  Value round;
  OpBuilder builder;
  tile::StoreOp store;
  tile::DotOp product;
  scf::ForOp inner;
  int64_t size = 0;   ///< of the block along the rounds; then of a step
  int64_t steps = 0;  ///< of a step; then of the block along the rounds
  int64_t factor = 0; ///< between the two
  llvm::MapVector<std::pair<Value, unsigned>, Along> kinds;
  llvm::MapVector<std::pair<OpOperand *, unsigned>, Along> leaves;
  SmallVector<std::pair<Value, unsigned>> pending;
  bool isPossible = true;
  llvm::DenseSet<std::pair<Value, unsigned>> known; ///< alike, or being looked at
  Value lanes, begin;
};

} // namespace

bool exchangeTileSizes(const BlockLoop &blocks) {
  return Exchange(blocks).run();
}

} // namespace nereid::differentiate
