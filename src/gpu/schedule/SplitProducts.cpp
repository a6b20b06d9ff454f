#include "gpu/schedule/SplitProducts.h"

#include "ir/ngpu/Dialect.h"
#include "transforms/LaunchNumber.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <cmath>

using namespace mlir;

namespace nereid::gpu {
namespace {

/// Elements of an accumulator at most. Where programs are few, blocks of more elements would be a
/// poor choice anyway, and their exchange would take a third of the time to compile the kernel.
constexpr int64_t kMostElements = 128 * 128;

// What an exchange costs, in iterations of a loop (0.2 to 0.35 us), as measured (docs/clusters.md):
// starting a cluster and meeting twice, and reading the accumulator of one block, by elements. A
// quarter more, because the blocks also share the bandwidth of memory.
constexpr double kMeeting = 4.5, kElementsAnIteration = 1350, kMargin = 1.25;

/// Blocks of a cluster at most, of those that every GPU with clusters can run, for an accumulator
/// of so many elements. With n iterations the best number is about the root of n over the cost of
/// reading one accumulator; n is about 100 where it matters.
unsigned mostBlocks(int64_t elements) {
  return elements <= 2048 ? 8 : elements <= 8192 ? 4 : 2;
}

/// Iterations from which on so many blocks are faster than one.
int64_t leastIterations(unsigned blocks, int64_t elements) {
  double exchange = kMeeting + (blocks - 1) * double(elements) / kElementsAnIteration;
  return int64_t(std::ceil(kMargin * exchange * blocks / (blocks - 1)));
}

bool isZero(Value value) {
  return matchPattern(value, m_Zero()) || matchPattern(value, m_AnyZeroFloat());
}

/// What the loop adds to a value that it carries, in every iteration the same; null: nothing of the
/// kind.
Value stepOf(scf::ForOp loop, unsigned number) {
  Value carried = loop.getRegionIterArg(number);
  Operation *next = loop.getBody()->getTerminator()->getOperand(number).getDefiningOp();
  auto isStep = [&](Value value) {
    return loop.isDefinedOutsideOfLoop(value) && isa<IntegerType>(getElementTypeOrSelf(value));
  };
  if (auto moved = dyn_cast_or_null<tile::AddPtrOp>(next))
    return moved.getPtr() == carried && isStep(moved.getOffset()) ? moved.getOffset() : Value();
  auto sum = dyn_cast_or_null<arith::AddIOp>(next);
  if (!sum)
    return {};
  if (sum.getLhs() == carried && isStep(sum.getRhs()))
    return sum.getRhs();
  return sum.getRhs() == carried && isStep(sum.getLhs()) ? sum.getLhs() : Value();
}

/// Is what the loop carries there a sum of products, and used for nothing else in it?
bool isSumOfProducts(scf::ForOp loop, unsigned number) {
  Value carried = loop.getRegionIterArg(number);
  auto type = dyn_cast<RankedTensorType>(carried.getType());
  if (!type || !type.getElementType().isF32() || type.getNumElements() > kMostElements ||
      !isZero(loop.getInitArgs()[number]))
    return false;
  Value sum = loop.getBody()->getTerminator()->getOperand(number);
  bool any = false;
  while (auto dot = sum.getDefiningOp<tile::DotOp>()) {
    if (!sum.hasOneUse() || dot->getBlock() != loop.getBody())
      return false;
    sum = dot.getC();
    any = true;
  }
  return any && sum == carried && carried.hasOneUse();
}

/// How many iterations the loop has, for the launcher: upper bounds that it can compute, or the
/// quotient of such a number and a constant. The rest of the rule is left empty.
std::optional<SplitRule> iterationsOf(scf::ForOp loop) {
  SplitRule rule;
  APInt step;
  if (!matchPattern(loop.getStep(), m_ConstantInt(&step)) || step.getSExtValue() < 1)
    return std::nullopt;
  rule.divisor = step.getSExtValue();
  Value upper = loop.getUpperBound();
  if (auto quotient = upper.getDefiningOp<arith::DivSIOp>()) {
    APInt divisor;
    if (rule.divisor != 1 || !isZero(loop.getLowerBound()) ||
        !matchPattern(quotient.getRhs(), m_ConstantInt(&divisor)) || divisor.getSExtValue() < 1)
      return std::nullopt;
    rule.divisor = divisor.getSExtValue();
    upper = quotient.getLhs();
  }
  auto above = transforms::launchNumber(upper),
       below = transforms::launchNumber(loop.getLowerBound());
  if (!above || !below)
    return std::nullopt;
  using Op = HostNumber::Op;
  rule.extent = std::move(*above);
  llvm::append_range(rule.extent.steps, below->steps);
  rule.extent.steps.push_back({Op::Sub});
  if (!loop.getUpperBound().getDefiningOp<arith::DivSIOp>()) {
    rule.extent.steps.push_back({Op::Constant, rule.divisor - 1});
    rule.extent.steps.push_back({Op::Add});
  }
  return rule.extent.depth() <= HostNumber::maxDepth ? std::optional(std::move(rule))
                                                     : std::nullopt;
}

/// Does the op leave memory as it is, whichever blocks run it and how often?
bool onlyReads(Operation *op) {
  return !op->walk([](Operation *each) {
              if (auto load = dyn_cast<tile::LoadOp>(each))
                return load.getIsVolatile() ? WalkResult::interrupt() : WalkResult::advance();
              bool fine = isa<tile::DescLoadOp>(each) ||
                          each->hasTrait<OpTrait::HasRecursiveMemoryEffects>() ||
                          isMemoryEffectFree(each);
              return fine ? WalkResult::advance() : WalkResult::interrupt();
            }).wasInterrupted();
}

/// Might a program notice how many blocks run it? Called functions and an author's assembly may ask
/// for the block's number. Atomics and volatile loads may wait for another program, which then must
/// run at the same time: clusters take more multiprocessors than the author has counted.
bool dependsOnGrid(Operation *op) {
  if (auto load = dyn_cast<tile::LoadOp>(op))
    return load.getIsVolatile();
  return isa<func::CallOp, tile::InlineAsmOp, tile::ExternOp, tile::Atomic>(op);
}

class Splitter {
public:
  explicit Splitter(scf::ForOp loop) : loop(loop), b(loop), loc(loop.getLoc()) {}

  bool find();
  /// When it is worth it; before `rewrite`. Nothing: the launcher cannot know it.
  std::optional<SplitRule> rule() const;
  void rewrite();
  unsigned blocksAtMost() const { return mostBlocks(elements); }

private:
  Value constant(int64_t value, Type type) {
    return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, value));
  }
  Value times(Value step, Value count);
  Value countIterations();
  Value isWorthIt(Value count);
  void divide();
  void sum();

  scf::ForOp loop;
  OpBuilder b;
  Location loc;
  unsigned accumulator = 0;
  int64_t elements = 0;     ///< of the accumulator
  SmallVector<Value> steps; ///< by number of what the loop carries; null for the accumulator
  Value size, rank;         ///< of the cluster, of this block: as the loop counts
  Value several;            ///< does more than one block have iterations?
};

bool Splitter::find() {
  bool any = false;
  auto counter = dyn_cast<IntegerType>(loop.getInductionVar().getType());
  if (loop.getUnsignedCmp() || !counter || counter.getWidth() < 8)
    return false;
  for (unsigned number = 0; number < loop.getNumRegionIterArgs(); ++number) {
    if (!any && isSumOfProducts(loop, number)) {
      any = true;
      accumulator = number;
      elements = cast<RankedTensorType>(loop.getResult(number).getType()).getNumElements();
      steps.push_back(Value());
      continue;
    }
    steps.push_back(stepOf(loop, number));
    if (!steps.back() || !loop.getResult(number).use_empty())
      return false;
  }
  return any && onlyReads(loop);
}

std::optional<SplitRule> Splitter::rule() const {
  std::optional<SplitRule> rule = iterationsOf(loop);
  if (rule)
    for (unsigned blocks = 2; blocks <= blocksAtMost(); blocks *= 2)
      rule->least.push_back(int32_t(leastIterations(blocks, elements)));
  return rule;
}

/// `step`, a number or a tensor of numbers, `count` times, in numbers of its type.
Value Splitter::times(Value step, Value count) {
  auto resized = [&](Value value, Type type, bool isSigned) -> Value {
    unsigned from = value.getType().getIntOrFloatBitWidth(), to = type.getIntOrFloatBitWidth();
    if (from == to)
      return value;
    if (from > to)
      return arith::TruncIOp::create(b, loc, type, value);
    return isSigned ? Value(arith::ExtSIOp::create(b, loc, type, value))
                    : Value(arith::ExtUIOp::create(b, loc, type, value));
  };
  auto tensor = dyn_cast<RankedTensorType>(step.getType());
  Type element = getElementTypeOrSelf(step.getType());
  Value factor = resized(count, element, false);
  if (tensor)
    factor = tile::SplatOp::create(b, loc, tensor, factor);
  return arith::MulIOp::create(b, loc, step, factor);
}

/// How often the loop runs; unsigned.
Value Splitter::countIterations() {
  Type type = loop.getInductionVar().getType();
  Value lower = loop.getLowerBound(), upper = loop.getUpperBound(), step = loop.getStep();
  Value zero = constant(0, type), one = constant(1, type);
  // Exact as an unsigned number, whatever the bounds are.
  Value rest = arith::SubIOp::create(b, loc, upper, lower);
  Value steps = rest;
  if (!matchPattern(step, m_One())) {
    Value behindFirst = arith::SubIOp::create(b, loc, rest, one);
    Value further = arith::DivUIOp::create(b, loc, behindFirst, step);
    steps = arith::AddIOp::create(b, loc, further, one);
  }
  Value any = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, lower, upper);
  return arith::SelectOp::create(b, loc, any, steps, zero);
}

/// Are `count` iterations enough for a cluster of this size?
Value Splitter::isWorthIt(Value count) {
  Type type = count.getType();
  unsigned bits = type.getIntOrFloatBitWidth();
  Value least;
  for (unsigned blocks = blocksAtMost(); blocks > 1; blocks /= 2) {
    // Beyond the numbers of a narrow type there are none.
    int64_t number = leastIterations(blocks, elements);
    if (bits < 63)
      number = std::min(number, (int64_t(1) << bits) - 1);
    Value its = constant(number, type);
    if (!least) {
      least = its;
      continue;
    }
    Value isSize =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, size, constant(blocks, type));
    least = arith::SelectOp::create(b, loc, isSize, its, least);
  }
  Value enough = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, count, least);
  Value any = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, size, constant(1, type));
  return arith::AndIOp::create(b, loc, any, enough);
}

/// This block's iterations, and what the loop carries at the first of them.
void Splitter::divide() {
  Type type = loop.getInductionVar().getType();
  Value count = countIterations();
  Value one = constant(1, type), zero = constant(0, type);
  several = isWorthIt(count);
  // count / size, rounded up. Of 1, 2, 4 and 8 the half less the eighth is the logarithm.
  auto shifted = [&](Value value, Value by) -> Value {
    return arith::ShRUIOp::create(b, loc, value, by);
  };
  Value bits = arith::SubIOp::create(b, loc, shifted(size, one), shifted(size, constant(3, type)));
  Value last = arith::SubIOp::create(b, loc, count, one);
  Value share = arith::AddIOp::create(b, loc, shifted(last, bits), one);
  share = arith::SelectOp::create(b, loc, several, share, count);
  Value first = arith::MulIOp::create(b, loc, rank, share);
  first = arith::MinUIOp::create(b, loc, first, count);
  Value left = arith::SubIOp::create(b, loc, count, first);
  Value ends = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ule, left, share);

  auto at = [&](Value start, Value iterations) -> Value {
    Value distance = arith::MulIOp::create(b, loc, iterations, loop.getStep());
    return arith::AddIOp::create(b, loc, start, distance);
  };
  Value lower = at(loop.getLowerBound(), first);
  Value upper = at(lower, share);
  // The sums may be beyond the last number of the type, where they are not used.
  Value none = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, left, zero);
  Value bound = loop.getUpperBound();
  loop.getLowerBoundMutable().assign(arith::SelectOp::create(b, loc, none, bound, lower));
  loop.getUpperBoundMutable().assign(arith::SelectOp::create(b, loc, ends, bound, upper));
  for (auto [number, step] : llvm::enumerate(steps)) {
    if (!step)
      continue;
    OpOperand &start = loop.getInitArgsMutable()[number];
    Operation *next = loop.getBody()->getTerminator()->getOperand(number).getDefiningOp();
    if (isa<tile::AddPtrOp>(next)) {
      // Offsets of 32 bits may add up to more. Where all are the same, one is computed.
      auto splat = step.getDefiningOp<tile::SplatOp>();
      Value each = splat ? splat.getSrc() : step;
      Type wide = tile::withShapeOf(b.getI64Type(), each.getType());
      if (each.getType() != wide)
        each = arith::ExtSIOp::create(b, loc, wide, each);
      Value distance = times(each, first);
      if (splat)
        distance = tile::SplatOp::create(b, loc, tile::withShapeOf(b.getI64Type(), step.getType()),
                                         distance);
      start.set(tile::AddPtrOp::create(b, loc, start.get(), distance));
    } else {
      start.set(arith::AddIOp::create(b, loc, start.get(), times(step, first)));
    }
  }
}

/// Behind the loop: the sum, and the rest of the program in a branch of the first block.
void Splitter::sum() {
  Block *body = loop->getBlock();
  SmallVector<Operation *> rest;
  for (Operation *op = loop->getNextNode(); op != body->getTerminator(); op = op->getNextNode())
    rest.push_back(op);
  b.setInsertionPointAfter(loop);
  Value result = loop.getResult(accumulator);
  auto choice = scf::IfOp::create(b, loc, result.getType(), several, /*withElseRegion=*/true);
  b.setInsertionPointToStart(choice.thenBlock());
  Value all = ngpu::SumBlocksOp::create(b, loc, result);
  scf::YieldOp::create(b, loc, all);
  b.setInsertionPointToStart(choice.elseBlock());
  scf::YieldOp::create(b, loc, result);
  b.setInsertionPointAfter(choice);
  Value isFirst =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, rank, constant(0, rank.getType()));
  auto first = scf::IfOp::create(b, loc, isFirst, /*withElseRegion=*/false);
  for (Operation *op : rest)
    op->moveBefore(first.thenBlock()->getTerminator());
  result.replaceUsesWithIf(choice.getResult(0),
                           [&](OpOperand &use) { return first->isProperAncestor(use.getOwner()); });
}

void Splitter::rewrite() {
  Type type = loop.getInductionVar().getType();
  auto asLoopCounts = [&](Value value) -> Value {
    unsigned bits = type.getIntOrFloatBitWidth();
    if (bits == 32)
      return value;
    return bits > 32 ? Value(arith::ExtUIOp::create(b, loc, type, value))
                     : Value(arith::TruncIOp::create(b, loc, type, value));
  };
  size = asLoopCounts(ngpu::ClusterSizeOp::create(b, loc));
  rank = asLoopCounts(ngpu::ClusterRankOp::create(b, loc));
  divide();
  sum();
}

} // namespace

std::optional<SplitRule> splitProducts(func::FuncOp kernel, const GpuOptions &options) {
  if (!options.splitProducts || options.numBlocks > 1 ||
      options.machine.maxBlocks < mostBlocks(1) || options.specialise == Specialise::Always ||
      !llvm::hasSingleElement(kernel.getBody()))
    return std::nullopt;
  if (kernel
          ->walk([](Operation *op) {
            return dependsOnGrid(op) ? WalkResult::interrupt() : WalkResult::advance();
          })
          .wasInterrupted())
    return std::nullopt;
  Block &body = kernel.getBody().front();
  for (Operation &op : body) {
    auto loop = dyn_cast<scf::ForOp>(op);
    bool product = op.walk([](tile::DotOp) { return WalkResult::interrupt(); }).wasInterrupted();
    if (loop && product) {
      Splitter splitter(loop);
      if (loop->hasAttr("tile.warp_specialize") || !splitter.find())
        return std::nullopt;
      std::optional<SplitRule> rule = splitter.rule();
      if (!rule)
        return std::nullopt;
      splitter.rewrite();
      kernel->setAttr(
          ngpu::splitsName,
          Builder(kernel.getContext()).getI32IntegerAttr(int32_t(splitter.blocksAtMost())));
      return rule;
    }
    if (product || !onlyReads(&op))
      return std::nullopt;
  }
  return std::nullopt;
}

} // namespace nereid::gpu
