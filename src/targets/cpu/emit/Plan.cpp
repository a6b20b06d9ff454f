#include "targets/cpu/emit/Plan.h"

#include "targets/cpu/emit/Control.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;

namespace nereid::cpu {

static bool isTensor(Value value) {
  return isa<RankedTensorType>(value.getType());
}

bool isVirtual(Operation *op) {
  if (op->getNumResults() != 1 || !isTensor(op->getResult(0)))
    return false;
  if (auto load = dyn_cast<tile::LoadOp>(op))
    return !load.getIsVolatile();
  if (isa<tile::ReshapeOp>(op))
    return isRegularReshape(op);
  return isa<tile::RangeOp, tile::SplatOp, arith::ConstantOp, tile::ExchangeOp, tile::GatherOp>(
             op) ||
         movesElements(op) || Emit::isElementwise(op);
}

void collectLoads(Value value, Kernel &kernel, llvm::SmallSetVector<Operation *, 8> &loads) {
  SmallVector<Value> stack{value};
  llvm::SmallPtrSet<void *, 32> seen;
  while (!stack.empty()) {
    Value next = stack.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (!isTensor(next) || !op || !isVirtual(op) || kernel.buffers.count(next) ||
        !seen.insert(next.getAsOpaquePointer()).second)
      continue;
    if (isa<tile::LoadOp>(op))
      loads.insert(op);
    llvm::append_range(stack, op->getOperands());
  }
}

/// A scan that goes on from chunk to chunk of a row: its own step, with what computes its operands.
static bool runsAlongRows(tile::ScanOp scan) {
  ArrayRef<int64_t> shape = tile::shapeOf(scan.getSrcs()[0].getType());
  int lane = int(shape.size()) - 1;
  while (lane > 0 && shape[lane] == 1)
    --lane;
  return int(scan.getAxis()) == lane && shape[lane] >= 4 && !scan.getReverse() &&
         isSimpleCombiner(scan.getCombine()) && llvm::none_of(scan.getSrcs(), [](Value source) {
           return isa<tile::PtrType>(tile::elementOf(source.getType()));
         });
}

int costOf(Operation *op) {
  if (isa<tile::RangeOp, tile::SplatOp, arith::ConstantOp>(op) || movesElements(op))
    return 0;
  if (isa<tile::ExternOp>(op) ||
      (isa<math::MathDialect>(op->getDialect()) &&
       !isa<math::AbsFOp, math::AbsIOp, math::FmaOp, math::FloorOp, math::CeilOp>(op)))
    return 20;
  if (isa<arith::DivFOp, tile::DivRNOp, tile::SqrtRNOp, tile::FpCastOp, arith::DivSIOp,
          arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::RemFOp>(op))
    return 8;
  return 1;
}

/// Whether an op keeps a part of each integer: as a tensor in memory the part takes less to read
/// than the whole, of which a register also holds fewer lanes.
static bool narrows(Operation *op) {
  return isa<arith::TruncIOp>(op) && !tile::elementOf(op->getResult(0).getType()).isInteger(1);
}

namespace {

class Planner {
public:
  explicit Planner(Block &block) : block(block) {}
  SmallVector<Step> run();

private:
  struct Cone {                                  // what a root needs from this block
    llvm::SmallSetVector<Operation *, 8> leaves; // non-virtual ops
    llvm::SmallSetVector<Operation *, 8> loads;
  };
  Cone coneOf(ValueRange values);
  bool join(Root root, ValueRange needs, ArrayRef<int64_t> shape, int axis);
  void chooseMaterialized();
  void findClobbers();
  int firstClobberAfter(Operation *load) const;
  bool fusesInto(Value value, const Step &step);

  Block &block;
  SmallVector<Step> steps;
  llvm::DenseMap<Operation *, int> position, stepOf;
  int lastMemoryStep = -1;
  /// By step: where the last write of it and of all before it stands in the block.
  SmallVector<int> lastClobber;
};

// Above this, computing a tensor again in a second loop costs more than writing and reading it.
constexpr int cheap = 12;

// Above this, what a check needs is not computed again either: in the code of its lanes each use of
// a tensor has code of its own, so that the code of a sort, say, would double with each of its
// steps.
constexpr int costly = 100;

Planner::Cone Planner::coneOf(ValueRange values) {
  Cone cone;
  SmallVector<Value> stack(values);
  llvm::SmallPtrSet<Operation *, 32> seen;
  while (!stack.empty()) {
    Value value = stack.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || op->getBlock() != &block || !seen.insert(op).second)
      continue;
    if (!isVirtual(op)) {
      cone.leaves.insert(op);
      continue;
    }
    if (isa<tile::LoadOp>(op))
      cone.loads.insert(op);
    llvm::append_range(stack, op->getOperands());
  }
  return cone;
}

// Roots of one loop. Each is compared with all others when the loop is planned and emitted;
// unrolled code brings any number of them.
constexpr size_t maxRoots = 64;

// Adds the root to the latest loop step if it may run there.
bool Planner::join(Root root, ValueRange needs, ArrayRef<int64_t> shape, int axis) {
  int target = steps.size() - 1;
  while (target >= 0 && steps[target].op)
    --target;
  if (target <= lastMemoryStep)
    return false;
  Step &step = steps[target];
  if (step.roots.front().kind == Root::Scan || step.roots.size() >= maxRoots ||
      ArrayRef<int64_t>(step.shape) != shape || (axis >= 0 && step.axis >= 0 && axis != step.axis))
    return false;
  Cone cone = coneOf(needs);
  for (Operation *leaf : cone.leaves)
    if (stepOf.lookup(leaf) >= target)
      return false;
  int firstStore = INT_MAX;
  llvm::SmallSetVector<Operation *, 8> loads = cone.loads;
  for (const Root &other : step.roots) {
    if (other.kind == Root::Store)
      firstStore = std::min(firstStore, position[other.op]);
    SmallVector<Value> otherNeeds;
    if (other.op)
      llvm::append_range(otherNeeds, other.op->getOperands());
    else
      otherNeeds.push_back(other.value);
    Cone otherCone = coneOf(otherNeeds);
    loads.insert(otherCone.loads.begin(), otherCone.loads.end());
  }
  for (Operation *load : cone.loads)
    if (position[load] > firstStore)
      return false;
  if (root.kind == Root::Store) { // moves up: no load with other users may stand in between
    Operation *first = step.roots.front().op;
    for (Operation *op = first ? first : root.op; op && op != root.op; op = op->getNextNode())
      if (isa<tile::LoadOp>(op) && isVirtual(op) && !loads.contains(op))
        return false;
  }
  step.roots.push_back(root);
  if (axis >= 0)
    step.axis = axis;
  if (root.op)
    stepOf[root.op] = target;
  return true;
}

/// Ends the program or does nothing.
bool isCheck(Operation *op) {
  return isa<tile::AssertOp, tile::CheckOp>(op);
}

bool touchesMemory(Operation *op) {
  if (isa<tile::AssumeOp>(op))
    return false;
  return !isMemoryEffectFree(op);
}
bool mayWrite(Operation *op) {
  if (isa<tile::AssumeOp, tile::PrintOp>(op) || isCheck(op))
    return false;
  if (auto load = dyn_cast<tile::LoadOp>(op))
    return load.getIsVolatile(); // orders what follows
  return !isMemoryEffectFree(op);
}

SmallVector<Step> Planner::run() {
  int number = 0;
  for (Operation &op : block)
    position[&op] = number++;
  for (Operation &op : block) {
    if (isVirtual(&op))
      continue;
    if (auto store = dyn_cast<tile::StoreOp>(op); store && isTensor(store.getPtr())) {
      auto shape = tile::shapeOf(store.getPtr().getType());
      Root root{Root::Store, &op, {}};
      if (join(root, op.getOperands(), shape, -1))
        continue;
      Step step;
      step.roots.push_back(root);
      step.shape.assign(shape.begin(), shape.end());
      stepOf[&op] = steps.size();
      steps.push_back(std::move(step));
      continue;
    }
    if (auto reduce = dyn_cast<tile::ReduceOp>(op);
        reduce && isSimpleCombiner(reduce.getCombine())) {
      auto shape = tile::shapeOf(reduce.getSrcs()[0].getType());
      Root root{Root::Reduce, &op, {}};
      int axis = reduce.getAxis();
      if (join(root, op.getOperands(), shape, axis))
        continue;
      Step step;
      step.roots.push_back(root);
      step.shape.assign(shape.begin(), shape.end());
      step.axis = axis;
      stepOf[&op] = steps.size();
      steps.push_back(std::move(step));
      continue;
    }
    if (auto scan = dyn_cast<tile::ScanOp>(op); scan && runsAlongRows(scan)) {
      Step step;
      step.roots.push_back({Root::Scan, &op, {}});
      step.shape.assign(tile::shapeOf(scan.getSrcs()[0].getType()));
      stepOf[&op] = steps.size();
      steps.push_back(std::move(step));
      continue;
    }
    Step step;
    step.op = &op;
    stepOf[&op] = steps.size();
    if (touchesMemory(&op))
      lastMemoryStep = steps.size();
    steps.push_back(std::move(step));
  }
  chooseMaterialized();
  return std::move(steps);
}

void Planner::findClobbers() {
  int last = -1;
  for (const Step &step : steps) {
    if (step.op && mayWrite(step.op))
      last = std::max(last, position[step.op]);
    for (const Root &root : step.roots)
      if (root.kind == Root::Store)
        last = std::max(last, position[root.op]);
    lastClobber.push_back(last);
  }
}

int Planner::firstClobberAfter(Operation *load) const {
  auto *found = llvm::upper_bound(lastClobber, position.lookup(load));
  return found == lastClobber.end() ? INT_MAX : int(found - lastClobber.begin());
}

// True when a loop step reaches the value element by element, so that it can be written on the way.
bool Planner::fusesInto(Value value, const Step &step) {
  if (step.op || ArrayRef<int64_t>(step.shape) != tile::shapeOf(value.getType()))
    return false;
  SmallVector<Value> stack;
  for (const Root &root : step.roots)
    if (root.op)
      llvm::append_range(stack, root.op->getOperands());
    else
      stack.push_back(root.value);
  llvm::SmallPtrSet<void *, 32> seen;
  while (!stack.empty()) {
    Value next = stack.pop_back_val();
    if (next == value)
      return true;
    Operation *op = next.getDefiningOp();
    if (!op || !isTensor(next) || op->getBlock() != &block || !isVirtual(op) || movesElements(op) ||
        !seen.insert(next.getAsOpaquePointer()).second)
      continue;
    llvm::append_range(stack, op->getOperands());
  }
  return false;
}

// Times of execution: step s is 2s+1, the moment before it 2s.
void Planner::chooseMaterialized() {
  findClobbers();
  llvm::DenseMap<Operation *, int> cost;
  for (Operation &op : block) {
    if (!isVirtual(&op))
      continue;
    int sum = costOf(&op);
    if (!isa<tile::LoadOp>(op))
      for (Value operand : op.getOperands())
        if (Operation *source = operand.getDefiningOp())
          sum += cost.lookup(source);
    cost[&op] = std::min(sum, 1000);
  }

  // When each op is needed, and how often of these not just by checks, which mostly look at no lane
  // (Checks.cpp): what they need is computed again, except for loads.
  llvm::DenseMap<Operation *, llvm::SmallSet<int, 4>> neededAt, neededBesideChecks;
  llvm::DenseSet<Operation *>
      neededInside; // by the body of a region op, or lane by lane beside writes
  llvm::DenseMap<Operation *, int> madeAt;
  for (Operation &op : llvm::reverse(block)) {
    if (!isVirtual(&op))
      continue;
    Value value = op.getResult(0);
    llvm::SmallSet<int, 4> times, besideChecks;
    bool inside = false, elsewhere = llvm::any_of(value.getUses(), readsElsewhere);
    for (Operation *user : value.getUsers()) {
      if (user->getBlock() != &block) {
        Operation *ancestor = block.findAncestorOpInBlock(*user);
        if (!ancestor)
          continue;
        times.insert(2 * stepOf[ancestor] + 1);
        besideChecks.insert(2 * stepOf[ancestor] + 1);
        inside = inside || !isa<tile::ReduceOp, tile::ScanOp>(ancestor);
        continue;
      }
      if (auto made = madeAt.find(user); made != madeAt.end()) {
        times.insert(made->second);
        besideChecks.insert(made->second);
      } else if (isVirtual(user)) {
        for (int time : neededAt[user])
          times.insert(time);
        for (int time : neededBesideChecks[user])
          besideChecks.insert(time);
        inside = inside || neededInside.contains(user);
      } else {
        times.insert(2 * stepOf[user] + 1);
        if (!isCheck(user))
          besideChecks.insert(2 * stepOf[user] + 1);
        if (isa<tile::Atomic, tile::ExternOp, tile::InlineAsmOp, tile::MapElementwiseOp>(user))
          inside = true;
      }
    }
    if (times.empty())
      continue;
    bool isLoad = isa<tile::LoadOp>(op);
    bool byChecks = besideChecks.size() < times.size();
    SmallVector<int> allTimes(times.begin(), times.end());
    int first = INT_MAX;
    for (int time : isLoad || elsewhere ? times : besideChecks)
      first = std::min(first, time);
    int clobber = isLoad ? firstClobberAfter(&op) : INT_MAX;
    bool isFixed = isa<tile::RangeOp, tile::SplatOp, arith::ConstantOp>(op);
    int made = INT_MAX;
    if (isLoad && clobber != INT_MAX && 2 * clobber + 1 < first)
      made = 2 * clobber;
    else if (elsewhere) // in memory before anything of it is read
      made = 2 * (first / 2);
    else if (isLoad && (times.size() > 1 || inside || byChecks))
      made = first;
    else if (!isFixed && besideChecks.size() > 1 && cost[&op] > cheap)
      made = first;
    else if (!isFixed && inside && !besideChecks.empty() && (cost[&op] > cheap || narrows(&op)))
      made = first;
    else if (!isFixed && byChecks && cost[&op] > costly)
      made = *llvm::min_element(allTimes);
    if (made != INT_MAX) {
      Step &step = steps[made / 2];
      if (made % 2 && fusesInto(value, step)) {
        step.roots.push_back({Root::Materialize, nullptr, value});
      } else {
        made = 2 * (made / 2);
        step.before.insert(step.before.begin(), value);
      }
      madeAt[&op] = made;
    }
    neededAt[&op] = times;
    neededBesideChecks[&op] = besideChecks;
    if (inside)
      neededInside.insert(&op);
  }
}

} // namespace

SmallVector<Step> planBlock(Block &block) {
  return Planner(block).run();
}

} // namespace nereid::cpu
