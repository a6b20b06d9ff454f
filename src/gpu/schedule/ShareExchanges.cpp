// Sums of a gradient kernel that wait for each other less.
//
// In a gradient of a row, each sum over the row is followed by an exchange between all threads of
// the program, at whose barrier nothing else happens: layer norm has four, one behind the other.
// By hand one takes two, since sums that do not need each other share an exchange, and since
// numbers that are the same for the whole row are multiplied behind the sum:
//
//   sum(g * s + c * t)   with s and t from earlier sums   =   s * sum(g) + t * sum(c)
//
// where sum(g) needs no earlier sum. This pass does both in kernels that the compiler wrote: sums
// are written as such terms where the terms need fewer exchanges before them, and sums with as many
// exchanges before them become one `tile.reduce`. As elsewhere in gradients, what is zero in all
// elements is zero whatever it is multiplied by (docs/differentiation.md).
//
// No load and no write is passed. Kernels of an author keep their arithmetic.
#include "gpu/Passes.h"
#include "ir/tile/Combiner.h"
#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <map>

using namespace mlir;

namespace nereid::gpu {
namespace {

/// Different terms of one sum, and sums of one exchange.
constexpr size_t kMostTerms = 3, kMostSums = 4;
/// Operations that move in front of an exchange.
constexpr size_t kMostOperations = 64;
/// Operations that are looked at for the terms of a sum; some of them several times.
constexpr unsigned kMostVisits = 64;

/// What a sum is multiplied by: a tensor that is the same along the axis.
struct Factor {
  enum { Negated, Times, Over, Where } kind; ///< Where: zero unless a condition holds
  Value by;
};
struct Term {
  Value core;
  SmallVector<Factor, 2> factors;
};

/// Is it the sum of one tensor of fp32 or fp64?
bool isSum(tile::ReduceOp op) {
  return op.getSrcs().size() == 1 &&
         tile::combinerKind(op.getCombine()) == tile::CombinerKind::AddF &&
         tile::elementOf(op.getSrcs()[0].getType()).getIntOrFloatBitWidth() >= 32;
}

bool isZero(Value value) {
  return matchPattern(value, m_AnyZeroFloat());
}

/// The operations of a block from one write or region to the next.
class Exchanges {
public:
  explicit Exchanges(ArrayRef<Operation *> ops) {
    for (Operation *op : ops) {
      members.insert(op);
      order.push_back(op);
      if (auto reduce = dyn_cast<tile::ReduceOp>(op); reduce && isSum(reduce))
        sums.push_back(reduce);
    }
  }

  void run() {
    for (tile::ReduceOp &sum : sums)
      writeAsTerms(sum);
    shareAll();
    // What the terms have replaced, too: later passes count what a thread keeps.
    for (Operation *op : llvm::reverse(made))
      if (op->use_empty())
        op->erase();
    for (Operation *op : llvm::reverse(order))
      if (members.contains(op) && isOpTriviallyDead(op))
        op->erase();
  }

private:
  /// The exchanges before a value.
  unsigned depthOf(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || !members.contains(op))
      return 0;
    if (auto known = depths.find(op); known != depths.end())
      return known->second;
    unsigned depth = 0;
    for (Value operand : op->getOperands())
      depth = std::max(depth, depthOf(operand));
    depth += isa<tile::ReduceOp, tile::ScanOp>(op);
    depths[op] = depth;
    return depth;
  }

  template <typename Op, typename... Args> Value make(OpBuilder &builder, Args &&...args) {
    auto op = Op::create(builder, std::forward<Args>(args)...);
    made.push_back(op);
    members.insert(op);
    return op->getResult(0);
  }

  /// What a tensor that is the same along the axis is without the axis; null for others. Nothing is
  /// made without a builder.
  Value withoutAxis(Value value, unsigned axis, OpBuilder *builder, Type type) {
    if (auto splat = value.getDefiningOp<tile::SplatOp>()) {
      if (!builder || !isa<RankedTensorType>(type))
        return splat.getSrc();
      return make<tile::SplatOp>(*builder, value.getLoc(),
                                 tile::withShapeOf(splat.getSrc().getType(), type), splat.getSrc());
    }
    auto wide = value.getDefiningOp<tile::BroadcastOp>();
    auto column = wide ? wide.getSrc().getDefiningOp<tile::ExpandDimsOp>() : nullptr;
    if (!column || column.getAxis() != axis)
      return Value();
    SmallVector<int64_t> shape(wide.getType().getShape());
    shape.erase(shape.begin() + axis);
    return column.getSrc().getType().getShape() == ArrayRef(shape) ? column.getSrc() : Value();
  }
  bool isSameAlong(Value value, unsigned axis) {
    return bool(withoutAxis(value, axis, nullptr, Type()));
  }

  /// A value as a sum of terms.
  SmallVector<Term> termsOf(Value value, unsigned axis) {
    SmallVector<Term> one{{value, {}}};
    Operation *op = value.getDefiningOp();
    if (!op || !members.contains(op) || ++visits > kMostVisits)
      return one;
    OpBuilder builder(op);
    builder.setInsertionPointAfter(op);
    auto scaled = [&](Value of, Factor factor) {
      SmallVector<Term> terms = termsOf(of, axis);
      for (Term &term : terms)
        term.factors.push_back(factor);
      return terms;
    };
    if (isa<arith::NegFOp>(op))
      return scaled(op->getOperand(0), {Factor::Negated, {}});
    // Terms that nearly cancel, as those of `x - mean`, stay one term.
    if (isa<arith::AddFOp>(op) &&
        llvm::none_of(op->getOperands(), [&](Value each) { return isSameAlong(each, axis); })) {
      SmallVector<Term> terms = termsOf(op->getOperand(0), axis);
      terms.append(termsOf(op->getOperand(1), axis));
      return terms.size() <= 2 * kMostTerms ? terms : one;
    }
    if (isa<arith::MulFOp>(op)) {
      Value left = op->getOperand(0), right = op->getOperand(1);
      if (isSameAlong(right, axis))
        return scaled(left, {Factor::Times, right});
      if (isSameAlong(left, axis))
        return scaled(right, {Factor::Times, left});
      SmallVector<Term> first = termsOf(left, axis), second = termsOf(right, axis);
      if (first.size() > 1 || second.size() > 1 ||
          first[0].factors.size() + second[0].factors.size() == 0)
        return one;
      Term product{make<arith::MulFOp>(builder, op->getLoc(), first[0].core, second[0].core),
                   first[0].factors};
      product.factors.append(second[0].factors);
      return {product};
    }
    if (isa<arith::DivFOp>(op) && isSameAlong(op->getOperand(1), axis))
      return scaled(op->getOperand(0), {Factor::Over, op->getOperand(1)});
    if (auto select = dyn_cast<arith::SelectOp>(op); select && isZero(select.getFalseValue())) {
      Value condition = select.getCondition();
      if (isSameAlong(condition, axis))
        return scaled(select.getTrueValue(), {Factor::Where, condition});
      if (!isa<RankedTensorType>(condition.getType()))
        return one;
      SmallVector<Term> terms = termsOf(select.getTrueValue(), axis);
      for (Term &term : terms)
        term.core = term.core == select.getTrueValue()
                        ? value
                        : make<arith::SelectOp>(builder, op->getLoc(), condition, term.core,
                                                select.getFalseValue());
      return terms;
    }
    return one;
  }

  /// The sum of a term from that of its core. A sum that is zero stays zero.
  Value scaledSum(OpBuilder &builder, Value sum, ArrayRef<Factor> factors, unsigned axis) {
    Location loc = sum.getLoc();
    Type type = sum.getType();
    Value zero = make<arith::ConstantOp>(builder, loc, builder.getZeroAttr(type)), result = sum;
    bool mayBeInfinite = false;
    for (const Factor &factor : factors) {
      Value by = factor.by ? withoutAxis(factor.by, axis, &builder, type) : Value();
      switch (factor.kind) {
      case Factor::Negated:
        result = make<arith::NegFOp>(builder, loc, result);
        break;
      case Factor::Times:
        result = make<arith::MulFOp>(builder, loc, result, by);
        mayBeInfinite = true;
        break;
      case Factor::Over:
        result = make<arith::DivFOp>(builder, loc, result, by);
        mayBeInfinite = true;
        break;
      case Factor::Where:
        result = make<arith::SelectOp>(builder, loc, by, result, zero);
        break;
      }
    }
    if (!mayBeInfinite)
      return result;
    Value counts = make<arith::CmpFOp>(builder, loc, arith::CmpFPredicate::UNE, sum, zero);
    return make<arith::SelectOp>(builder, loc, counts, result, zero);
  }

  /// Whether a sum of `core` in place of `sum` would share the exchange of an earlier sum.
  bool canShare(Value core, tile::ReduceOp sum) {
    return llvm::any_of(llvm::concat<tile::ReduceOp>(sums, further), [&](tile::ReduceOp other) {
      llvm::SetVector<Operation *> ops;
      return other && other != sum && other->isBeforeInBlock(sum) &&
             other.getAxis() == sum.getAxis() && other.getSrcs()[0].getType() == core.getType() &&
             depthOf(other.getSrcs()[0]) == depthOf(core) && collect(core, other, ops);
    });
  }

  /// Writes a sum as one of terms that need fewer exchanges, if it is.
  void writeAsTerms(tile::ReduceOp &sum) {
    unsigned axis = sum.getAxis(), depth = depthOf(sum.getSrcs()[0]);
    if (!depth)
      return;
    visits = 0;
    SmallVector<Term> terms = termsOf(sum.getSrcs()[0], axis);
    llvm::MapVector<Value, tile::ReduceOp> cores;
    for (const Term &term : terms)
      cores.insert({term.core, nullptr});
    if (cores.size() > kMostTerms ||
        llvm::any_of(cores, [&](auto &core) { return depthOf(core.first) >= depth; }))
      return;
    // No more exchanges than before.
    if (llvm::count_if(cores, [&](auto &core) { return canShare(core.first, sum); }) + 1 <
        int64_t(cores.size()))
      return;
    OpBuilder builder(sum);
    for (auto &[core, own] : cores) {
      own = cast<tile::ReduceOp>(builder.clone(*sum));
      own.getSrcsMutable().assign(core);
      members.insert(own);
      further.push_back(own);
    }
    Value all;
    for (const Term &term : terms) {
      Value part =
          scaledSum(builder, cores.find(term.core)->second->getResult(0), term.factors, axis);
      all = all ? make<arith::AddFOp>(builder, sum.getLoc(), all, part) : part;
    }
    sum->getResult(0).replaceAllUsesWith(all);
    depths.clear();
    members.erase(sum);
    sum.erase();
    sum = nullptr;
  }

  /// Collects what computes a value behind `first`, in the order of the program; false where that
  /// cannot move.
  bool collect(Value value, Operation *first, llvm::SetVector<Operation *> &ops) {
    Operation *op = value.getDefiningOp();
    if (!op || op->getBlock() != first->getBlock() || op->isBeforeInBlock(first) ||
        ops.contains(op))
      return true;
    if (op->getNumRegions() || !isPure(op) ||
        !llvm::all_of(op->getOperands(), [&](Value each) { return collect(each, first, ops); }))
      return false;
    ops.insert(op);
    return ops.size() <= kMostOperations;
  }

  void shareAll() {
    SmallVector<tile::ReduceOp> all;
    for (tile::ReduceOp sum : sums)
      if (sum)
        all.push_back(sum);
    all.append(further);
    llvm::sort(all, [](tile::ReduceOp a, tile::ReduceOp b) { return a->isBeforeInBlock(b); });
    // With the same exchanges before them; depths stay what they are.
    std::map<unsigned, SmallVector<SmallVector<tile::ReduceOp>>> groups;
    for (tile::ReduceOp sum : all) {
      auto &at = groups[depthOf(sum.getSrcs()[0])];
      auto fits = [&](ArrayRef<tile::ReduceOp> group) {
        tile::ReduceOp first = group.front();
        return group.size() < kMostSums && first.getAxis() == sum.getAxis() &&
               first.getSrcs()[0].getType() == sum.getSrcs()[0].getType() &&
               first.getAnyOrder() == sum.getAnyOrder();
      };
      auto group = llvm::find_if(at, fits);
      if (group == at.end())
        at.push_back({sum});
      else
        group->push_back(sum);
    }
    for (auto &[depth, at] : groups)
      for (ArrayRef<tile::ReduceOp> group : at)
        share(group);
  }

  void share(ArrayRef<tile::ReduceOp> group) {
    tile::ReduceOp first = group.front();
    SmallVector<tile::ReduceOp> shared{first};
    for (tile::ReduceOp sum : group.drop_front()) {
      llvm::SetVector<Operation *> ops;
      if (!collect(sum.getSrcs()[0], first, ops))
        continue;
      for (Operation *op : ops)
        op->moveBefore(first);
      shared.push_back(sum);
    }
    if (shared.size() == 1)
      return;
    OpBuilder builder(first);
    llvm::SetVector<Value> sources;
    for (tile::ReduceOp sum : shared)
      sources.insert(sum.getSrcs()[0]);
    size_t count = sources.size();
    SmallVector<Type> types(count, first->getResult(0).getType());
    auto together = tile::ReduceOp::create(builder, first.getLoc(), types, sources.getArrayRef(),
                                           first.getAxis());
    together.setAnyOrder(first.getAnyOrder());
    members.insert(together);
    Block &block = together.getCombine().emplaceBlock();
    Type element = tile::elementOf(sources[0].getType());
    block.addArguments(SmallVector<Type>(2 * count, element),
                       SmallVector<Location>(2 * count, first.getLoc()));
    builder.setInsertionPointToStart(&block);
    SmallVector<Value> added;
    for (size_t i = 0; i < count; ++i)
      added.push_back(arith::AddFOp::create(builder, first.getLoc(), block.getArgument(i),
                                            block.getArgument(count + i)));
    tile::YieldOp::create(builder, first.getLoc(), added);
    for (tile::ReduceOp sum : shared) {
      size_t number = llvm::find(sources, sum.getSrcs()[0]) - sources.begin();
      sum->getResult(0).replaceAllUsesWith(together->getResult(number));
      members.erase(sum);
      sum.erase();
    }
  }

  llvm::DenseSet<Operation *> members;
  SmallVector<tile::ReduceOp> sums, further; ///< of the author; and those of terms
  SmallVector<Operation *> order, made;
  DenseMap<Operation *, unsigned> depths;
  unsigned visits = 0;
};

void shareExchanges(Block &block) {
  SmallVector<SmallVector<Operation *>> parts(1);
  for (Operation &op : block) {
    auto effects = dyn_cast<MemoryEffectOpInterface>(op);
    bool isExchange = isa<tile::ReduceOp, tile::ScanOp>(op) && isMemoryEffectFree(&op);
    bool onlyReads =
        !op.getNumRegions() &&
        (isMemoryEffectFree(&op) || (effects && effects.onlyHasEffect<MemoryEffects::Read>()));
    if (isExchange || onlyReads)
      parts.back().push_back(&op);
    else
      parts.emplace_back();
  }
  for (ArrayRef<Operation *> part : parts)
    Exchanges(part).run();
}

} // namespace

void shareExchanges(func::FuncOp kernel) {
  if (!kernel->hasAttr("tile.gradients"))
    return;
  SmallVector<Block *> blocks;
  kernel->walk([&](Block *block) {
    if (!isa<tile::ReduceOp, tile::ScanOp, tile::MapElementwiseOp>(block->getParentOp()))
      blocks.push_back(block);
  });
  for (Block *block : blocks)
    shareExchanges(*block);
}

} // namespace nereid::gpu
