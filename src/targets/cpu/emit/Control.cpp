// Blocks, scalars and structured control flow.
//
// Tensors carried by a loop live in two buffers that change roles every round: a round reads
// `current` and writes `next`. Where every reader of the carried tensor has run before its new
// value is written, or reads just the element that is written, one buffer serves as both
// (Carried::inPlace).
#include "targets/cpu/emit/Control.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "targets/cpu/emit/Loops.h"

using namespace mlir;

namespace nereid::cpu {

static bool isTensor(Value value) {
  return isa<RankedTensorType>(value.getType());
}

/// A constant whose elements differ: it is in the memory of the program, not in scratch memory.
static bool isArray(Value value) {
  auto constant = value.getDefiningOp<arith::ConstantOp>();
  return constant && !isa<SplatElementsAttr>(constant.getValue());
}

// A tensor from outside that is written to memory in here is in memory in here alone: the block may
// run never, and its scratch memory is used again behind it. And a block that is emitted twice (a
// function called twice) computes its tensors twice.
void Kernel::emitBlock(Block &block) {
  for (Operation &op : block)
    for (Value value : op.getResults())
      if (!isArray(value))
        buffers.erase(value);
  llvm::SmallDenseSet<Value> before;
  for (auto &entry : buffers)
    before.insert(entry.first);
  emitSteps(block);
  SmallVector<Value> leaves;
  for (auto &entry : buffers) {
    Block *home = entry.first.getParentBlock();
    bool inside = home == &block || block.findAncestorOpInBlock(*home->getParentOp());
    if (!inside && !before.contains(entry.first) && !isArray(entry.first))
      leaves.push_back(entry.first);
  }
  for (Value value : leaves)
    buffers.erase(value);
}

// The tensors of `values` in groups that one loop nest each can make, in an order that will do: the
// shapes of a group agree, and whoever computes one of its members from another needs the same
// element of it. Apart, each would compute again what several of them come from.
static SmallVector<SmallVector<Value>> loopsFor(Kernel &k, ArrayRef<Value> values) {
  SmallVector<SmallVector<Value>> groups;
  llvm::DenseMap<Value, size_t> groupOf;
  for (Value value : values) {
    size_t earliest = 0;                                  // no group before the ones that it needs
    SmallVector<std::pair<Value, int>> stack{{value, 0}}; // 1: of another place
    llvm::DenseSet<std::pair<Value, int>> seen;
    while (!stack.empty()) {
      auto [next, moved] = stack.pop_back_val();
      if (auto other = groupOf.find(next); other != groupOf.end()) {
        earliest = std::max(earliest, other->second + moved);
        continue;
      }
      Operation *op = next.getDefiningOp();
      if (!op || !isTensor(next) || !isVirtual(op) || k.buffers.count(next))
        continue;
      int moves = moved || !(Emit::isElementwise(op) || isa<tile::LoadOp>(op));
      for (Value operand : op->getOperands())
        if (seen.insert({operand, moves}).second)
          stack.push_back({operand, moves});
    }
    size_t group = earliest;
    while (group < groups.size() &&
           tile::shapeOf(groups[group].front().getType()) != tile::shapeOf(value.getType()))
      ++group;
    if (group == groups.size())
      groups.emplace_back();
    groups[group].push_back(value);
    groupOf[value] = group;
  }
  return groups;
}

void Kernel::emitSteps(Block &block) {
  SmallVector<Step> steps = planBlock(block);
  llvm::DenseMap<Operation *, size_t> stepOf;
  for (auto [number, step] : llvm::enumerate(steps)) {
    if (step.op)
      stepOf[step.op] = number;
    for (const Root &root : step.roots)
      if (root.op)
        stepOf[root.op] = number;
  }
  size_t first = space.used.size();
  for (auto [number, step] : llvm::enumerate(steps)) {
    if (!error.empty())
      return;
    auto isEmitted = [&, now = number](Operation *op) {
      return !op->hasTrait<OpTrait::IsTerminator>() && stepOf.lookup(op) < now;
    };
    releaseDead(block, first, isEmitted);
    for (ArrayRef<Value> group : loopsFor(*this, step.before)) {
      materialize(*this, group);
      releaseDead(block, first, isEmitted);
    }
    if (!step.op) {
      LoopStep(*this, step).emit();
      continue;
    }
    if (step.op->hasTrait<OpTrait::IsTerminator>())
      continue; // the caller's
    Location saved = std::exchange(e.loc, step.op->getLoc());
    if (step.op->getNumRegions() && isa<scf::SCFDialect>(step.op->getDialect()))
      emitRegionOp(step.op);
    else if (!emitTensorOp(*this, step.op))
      emitScalarOp(step.op);
    e.loc = saved;
  }
}

void Kernel::emitScalarOp(Operation *op) {
  if (isa<arith::ConstantOp>(op))
    return;
  auto result = [&](Value value) { scalars[op->getResult(0)] = value; };
  auto in = [&](unsigned i) { return scalar(op->getOperand(i)); };
  if (auto id = dyn_cast<tile::ProgramIdOp>(op))
    return result(programIds[id.getAxis()]);
  if (auto count = dyn_cast<tile::NumProgramsOp>(op))
    return result(gridSizes[count.getAxis()]);
  if (auto load = dyn_cast<tile::LoadOp>(op)) {
    Value mask = load.getMask() ? scalar(load.getMask()) : Value();
    Value other = load.getOther() ? scalar(load.getOther()) : Value();
    return result(
        e.guardedLoad(load.getType(), scalar(load.getPtr()), mask, other, load.getIsVolatile()));
  }
  if (auto store = dyn_cast<tile::StoreOp>(op)) {
    Value mask = store.getMask() ? scalar(store.getMask()) : Value();
    return e.guardedStore(store.getValue().getType(), scalar(store.getPtr()),
                          scalar(store.getValue()), mask);
  }
  if (auto assume = dyn_cast<tile::AssumeOp>(op)) {
    LLVM::AssumeOp::create(b, e.loc, in(0));
    return;
  }
  if (isa<ub::PoisonOp>(op)) {
    for (Value value : op->getResults())
      if (!isTensor(value))
        scalars[value] = e.zero(value.getType(), 1);
    return;
  }
  if (Emit::isElementwise(op)) {
    SmallVector<Value> operands =
        llvm::map_to_vector(op->getOperands(), [&](Value v) { return scalar(v); });
    return result(e.elementwise(op, operands, 1));
  }
  fail(op, "the CPU target cannot run this operation");
}

//--- regions
//------------------------------------------------------------------------------------------------

namespace {

// Puts the tensors of `values` (a terminator's operands) where `targets` says; entries without are
// skipped. Values that are computed on demand go together in one loop nest where their shapes
// agree.
void settle(Kernel &k, ValueRange values, ArrayRef<Buffer> targets) {
  SmallVector<std::pair<Value, Buffer>> copies;
  SmallVector<Step> steps;
  SmallVector<Value> placed;
  for (auto [value, target] : llvm::zip(values, targets)) {
    if (!target)
      continue;
    if (Buffer existing = k.buffers.lookup(value)) {
      if (existing.base != target.base)
        copies.push_back({value, target});
      continue;
    }
    if (llvm::is_contained(placed, value) || k.destinations.count(value) == 0) {
      copies.push_back({value, target});
      continue;
    }
    placed.push_back(value);
    auto shape = tile::shapeOf(value.getType());
    auto step =
        llvm::find_if(steps, [&](const Step &s) { return ArrayRef<int64_t>(s.shape) == shape; });
    if (step == steps.end()) {
      step = &steps.emplace_back();
      step->shape.assign(shape.begin(), shape.end());
    }
    step->roots.push_back({Root::Materialize, nullptr, value});
  }
  for (auto [value, target] : copies)
    if (k.buffers.count(value) || !llvm::is_contained(placed, value))
      materializeInto(k, value, target);
  for (const Step &step : steps)
    LoopStep(k, step).emit();
  for (auto [value, target] : copies)
    if (llvm::is_contained(placed, value) && k.buffers.lookup(value).base != target.base)
      materializeInto(k, value, target);
}

// Elements of `argument` are read only to compute the same element of `result`.
bool isElementwiseUpdate(Value argument, Value result) {
  SmallVector<Value> stack{argument};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!stack.empty()) {
    Value value = stack.pop_back_val();
    for (Operation *user : value.getUsers()) {
      if (user->hasTrait<OpTrait::IsTerminator>()) {
        if (value != result && value != argument)
          return false;
        if (value == argument && value != result)
          return false;
        continue;
      }
      if (user->getBlock() != result.getParentBlock() || !Emit::isElementwise(user) ||
          !isTensor(user->getResult(0)))
        return false;
      if (seen.insert(user).second)
        stack.push_back(user->getResult(0));
    }
    if (value != result && value.use_empty())
      return false;
  }
  return true;
}

// What a loop carries: scalars as they are, a tensor as the addresses of its one or two buffers.
struct Carried {
  Value argument;       // of the tile op's region
  Buffer first, second; // second is empty when the update is in place
};

class LoopEmission {
public:
  explicit LoopEmission(Kernel &kernel) : k(kernel) {}

  // Buffers for the initial values, filled. `yielded`: the values of the next round, where they are
  // known to come from the block that owns the arguments. `neverRuns` (i1): of a loop that may be
  // told its first turn; sums that start from zeros are then filled only where there is no turn.
  void begin(ValueRange inits, ValueRange arguments, ValueRange yielded, Value neverRuns = {}) {
    for (auto [i, init] : llvm::enumerate(inits)) {
      Carried entry;
      entry.argument = arguments[i];
      if (isTensor(init)) {
        auto type = cast<RankedTensorType>(init.getType());
        Value next = yielded.empty() ? Value() : yielded[i];
        bool isUpdate = next && isElementwiseUpdate(arguments[i], next);
        bool inPlace = isUpdate || (next && isAccumulation(arguments[i], next));
        entry.first = k.allocate(type);
        if (isUpdate)
          k.accumulators.insert(entry.first.base);
        if (!inPlace)
          entry.second = k.allocate(type);
        if (inPlace && neverRuns && startsFromZero(k, init, arguments[i], next)) {
          startedFresh.push_back(arguments[i]);
          if (Emit::constant(neverRuns) != 0) {
            auto branch = scf::IfOp::create(k.b, k.e.loc, neverRuns, /*withElseRegion=*/false);
            OpBuilder::InsertionGuard guard(k.b);
            k.b.setInsertionPoint(branch.thenBlock()->getTerminator());
            materializeInto(k, init, entry.first);
          }
        } else {
          materializeInto(k, init, entry.first);
        }
        if (entry.second) {
          operands.push_back(entry.first.base);
          operands.push_back(entry.second.base);
        }
      } else {
        operands.push_back(k.scalar(init));
      }
      carried.push_back(entry);
    }
  }

  // Binds block arguments of the lowered op to the tile op's `arguments`. The next round's buffer
  // of each.
  SmallVector<Buffer> bind(ValueRange arguments, ValueRange lowered) {
    SmallVector<Buffer> next;
    size_t position = 0;
    for (auto [entry, argument] : llvm::zip(carried, arguments)) {
      if (!isTensor(argument)) {
        k.scalars[argument] = lowered[position++];
        next.emplace_back();
        continue;
      }
      auto type = cast<RankedTensorType>(argument.getType());
      if (!entry.second) {
        k.buffers[argument] = entry.first;
        next.push_back(entry.first);
        continue;
      }
      k.buffers[argument] = {lowered[position], type};
      next.push_back({lowered[position + 1], type});
      position += 2;
    }
    return next;
  }

  // The operands of the lowered terminator after `values` were settled: buffers exchange their
  // roles.
  SmallVector<Value> rotate(ValueRange values, ValueRange lowered) {
    SmallVector<Value> result;
    size_t position = 0;
    for (auto [entry, value] : llvm::zip(carried, values)) {
      if (!isTensor(value)) {
        result.push_back(k.scalar(value));
        ++position;
      } else if (entry.second) {
        result.push_back(lowered[position + 1]);
        result.push_back(lowered[position]);
        position += 2;
      }
    }
    return result;
  }

  // Results of the tile op from those of the lowered op: in either of the two buffers.
  void finish(ValueRange results, ValueRange lowered) {
    bind(results, lowered);
    for (auto [entry, result] : llvm::zip(carried, results))
      if (entry.second)
        k.eitherOf[k.buffers.lookup(result).base] = {entry.first.base, entry.second.base};
  }

  // Announces where the yielded values are to be made, as far as nothing speaks against it.
  void announce(ValueRange values, ArrayRef<Buffer> next, Block *block) {
    for (auto [value, target] : llvm::zip(values, next)) {
      Operation *op = value.getDefiningOp();
      if (target && op && op->getBlock() == block && !k.destinations.count(value))
        k.destinations[value] = target;
    }
  }

  SmallVector<Value> operands;
  SmallVector<Carried> carried;
  SmallVector<Value> startedFresh; // arguments whose memory was not filled

private:
  Kernel &k;
};

} // namespace

bool isAccumulation(Value argument, Value yielded) {
  auto dot = yielded.getDefiningOp<tile::DotOp>();
  return dot && dot.getC() == argument && argument.hasOneUse() && yielded.hasOneUse() &&
         dot->getBlock() == argument.getParentBlock();
}

/// Whether the index of a loop may pass the largest number of its type before it passes the loop's
/// end.
static bool mayPassLargest(scf::ForOp op) {
  APInt step, end;
  if (!matchPattern(op.getStep(), m_ConstantInt(&step)))
    return true;
  if (step.isOne())
    return false;
  if (!matchPattern(op.getUpperBound(), m_ConstantInt(&end)))
    return true;
  bool passes = false;
  if (op.getUnsignedCmp())
    (void)end.uadd_ov(step, passes);
  else
    (void)end.sadd_ov(step, passes);
  return passes;
}

static void emitFor(Kernel &k, scf::ForOp op) {
  Block &body = *op.getBody();
  auto yield = cast<scf::YieldOp>(body.getTerminator());
  Value first = k.scalar(op.getLowerBound()), end = k.scalar(op.getUpperBound());
  Value neverRuns = k.e.cmp(
      op.getUnsignedCmp() ? arith::CmpIPredicate::uge : arith::CmpIPredicate::sge, first, end);
  LoopEmission emission(k);
  emission.begin(op.getInitArgs(), op.getRegionIterArgs(), yield.getOperands(), neverRuns);
  Kernel::Space mark = k.scratchMark();
  // An index of up to 32 bits is counted in 64, from which it is taken without a loss.
  Value step = k.scalar(op.getStep()), begin = first;
  Type indexType = first.getType(), wideType = k.b.getI64Type();
  bool isUnsigned = op.getUnsignedCmp();
  bool isWidened = indexType.getIntOrFloatBitWidth() < 64 && mayPassLargest(op);
  if (isWidened)
    for (Value *bound : {&begin, &end, &step})
      *bound = isUnsigned ? arith::ExtUIOp::create(k.b, k.e.loc, wideType, *bound).getResult()
                          : arith::ExtSIOp::create(k.b, k.e.loc, wideType, *bound).getResult();
  auto loop = scf::ForOp::create(k.b, k.e.loc, begin, end, step, emission.operands);
  if (isUnsigned)
    loop.setUnsignedCmp(true);
  {
    OpBuilder::InsertionGuard guard(k.b);
    if (emission.operands.empty())
      k.b.setInsertionPoint(loop.getBody()->getTerminator());
    else
      k.b.setInsertionPointToStart(loop.getBody());
    Value index = loop.getInductionVar();
    if (isWidened)
      index = arith::TruncIOp::create(k.b, k.e.loc, indexType, index,
                                      isUnsigned ? arith::IntegerOverflowFlags::nuw
                                                 : arith::IntegerOverflowFlags::nsw);
    k.scalars[op.getInductionVar()] = index;
    SmallVector<Buffer> next = emission.bind(op.getRegionIterArgs(), loop.getRegionIterArgs());
    for (Value argument : emission.startedFresh)
      k.freshSums[argument] = k.e.cmp(arith::CmpIPredicate::eq, index, first);
    emission.announce(yield.getOperands(), next, &body);
    k.emitBlock(body);
    settle(k, yield.getOperands(), next);
    SmallVector<Value> rotated = emission.rotate(yield.getOperands(), loop.getRegionIterArgs());
    if (!emission.operands.empty())
      scf::YieldOp::create(k.b, k.e.loc, rotated);
  }
  k.scratchRelease(mark);
  emission.finish(op.getResults(), loop.getResults());
  for (const Carried &entry : emission.carried)
    k.accumulators.erase(entry.first.base);
}

static bool waits(Operation *op) {
  return op
      ->walk([](Operation *inner) {
        auto load = dyn_cast<tile::LoadOp>(inner);
        return isa<tile::Atomic>(inner) || (load && load.getIsVolatile()) ? WalkResult::interrupt()
                                                                          : WalkResult::advance();
      })
      .wasInterrupted();
}

// The values that pass from the condition to the body may be others than the loop's, in number and
// type; their tensors get buffers of their own.
static void emitWhile(Kernel &k, scf::WhileOp op) {
  Block &before = *op.getBeforeBody(), &after = *op.getAfterBody();
  auto condition = cast<scf::ConditionOp>(before.getTerminator());
  auto yield = cast<scf::YieldOp>(after.getTerminator());
  LoopEmission emission(k);
  emission.begin(op.getInits(), before.getArguments(), {});
  // Passed tensors: one buffer each, written in the condition's block.
  SmallVector<Buffer> passed;
  SmallVector<Type> passedTypes;
  for (Value value : condition.getArgs()) {
    passed.push_back(isTensor(value) ? k.allocate(cast<RankedTensorType>(value.getType()))
                                     : Buffer());
    if (!isTensor(value))
      passedTypes.push_back(k.e.lower(value.getType()));
  }
  // The round's own buffers travel along, so that the body knows which is the next.
  SmallVector<Type> types(passedTypes), carriedTypes;
  for (Value operand : emission.operands)
    carriedTypes.push_back(operand.getType());
  types.append(carriedTypes);
  Kernel::Space mark = k.scratchMark();
  SmallVector<Location> locations(types.size(), k.e.loc),
      carriedLocations(carriedTypes.size(), k.e.loc);
  auto loop = scf::WhileOp::create(k.b, k.e.loc, types, emission.operands);
  OpBuilder::InsertionGuard guard(k.b);
  Block *lowBefore = k.b.createBlock(&loop.getBefore(), {}, carriedTypes, carriedLocations);
  {
    emission.bind(before.getArguments(), lowBefore->getArguments());
    if (waits(op))
      k.callSpin();
    k.emitBlock(before);
    settle(k, condition.getArgs(), passed);
    SmallVector<Value> arguments;
    for (Value value : condition.getArgs())
      if (!isTensor(value))
        arguments.push_back(k.scalar(value));
    llvm::append_range(arguments, lowBefore->getArguments());
    scf::ConditionOp::create(k.b, k.e.loc, k.scalar(condition.getCondition()), arguments);
  }
  auto bindPassed = [&](ValueRange tileValues, ValueRange lowered) {
    size_t position = 0;
    for (auto [value, buffer] : llvm::zip(tileValues, passed)) {
      if (isTensor(value))
        k.buffers[value] = buffer;
      else
        k.scalars[value] = lowered[position++];
    }
    return lowered.drop_front(position);
  };
  Block *lowAfter = k.b.createBlock(&loop.getAfter(), {}, types, locations);
  {
    ValueRange round = bindPassed(after.getArguments(), lowAfter->getArguments());
    SmallVector<Buffer> next = emission.bind(before.getArguments(), round);
    emission.announce(yield.getOperands(), next, &after);
    k.emitBlock(after);
    settle(k, yield.getOperands(), next);
    scf::YieldOp::create(k.b, k.e.loc, emission.rotate(yield.getOperands(), round));
  }
  k.b.setInsertionPointAfter(loop);
  k.scratchRelease(mark);
  bindPassed(op.getResults(), loop.getResults());
}

static void emitIf(Kernel &k, scf::IfOp op) {
  SmallVector<Buffer> targets;
  SmallVector<Type> types;
  for (Value result : op.getResults()) {
    targets.push_back(isTensor(result) ? k.allocate(result) : Buffer());
    if (!isTensor(result))
      types.push_back(k.e.lower(result.getType()));
  }
  Kernel::Space mark = k.scratchMark();
  bool hasElse = !op.getElseRegion().empty();
  auto branch = scf::IfOp::create(k.b, k.e.loc, types, k.scalar(op.getCondition()),
                                  hasElse || !types.empty());
  auto emitBranch = [&](Region &from, Region &to) {
    OpBuilder::InsertionGuard guard(k.b);
    if (types.empty())
      k.b.setInsertionPoint(to.front().getTerminator());
    else
      k.b.setInsertionPointToStart(&to.front());
    auto yield = cast<scf::YieldOp>(from.front().getTerminator());
    for (auto [value, target] : llvm::zip(yield.getOperands(), targets)) {
      Operation *definition = value.getDefiningOp();
      if (target && definition && definition->getBlock() == &from.front() &&
          !k.destinations.count(value))
        k.destinations[value] = target;
    }
    k.emitBlock(from.front());
    settle(k, yield.getOperands(), targets);
    SmallVector<Value> values;
    for (Value value : yield.getOperands())
      if (!isTensor(value))
        values.push_back(k.scalar(value));
    if (!types.empty())
      scf::YieldOp::create(k.b, k.e.loc, values);
    k.scratchRelease(mark);
  };
  emitBranch(op.getThenRegion(), branch.getThenRegion());
  if (hasElse)
    emitBranch(op.getElseRegion(), branch.getElseRegion());
  size_t position = 0;
  for (auto [result, target] : llvm::zip(op.getResults(), targets)) {
    if (target)
      k.buffers[result] = target;
    else
      k.scalars[result] = branch.getResult(position++);
  }
}

void Kernel::emitRegionOp(Operation *op) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return emitFor(*this, loop);
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return emitWhile(*this, loop);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return emitIf(*this, branch);
  fail(op, "the CPU target cannot run this control flow");
}

} // namespace nereid::cpu
