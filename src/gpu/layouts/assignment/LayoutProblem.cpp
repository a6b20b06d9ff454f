#include "gpu/layouts/assignment/LayoutProblem.h"

#include "gpu/layouts/LayoutRelations.h"
#include "gpu/layouts/Rearrange.h"
#include "ir/tile/RareElse.h"
#include "layout/Constructors.h"
#include "layout/Conversion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::gpu {
namespace {

/// How often a loop of unknown length is supposed to run.
constexpr double kTrips = 8;
/// How often the fallback of an `if` with `tile.rare_else` is taken.
constexpr double kRare = 1.0 / 256;
/// From as many issue slots on it matters that a run's elements are computed once.
constexpr double kDivision = 16;

bool isTensor(Value value) {
  return isa<RankedTensorType>(value.getType());
}

/// Operands and results are in one layout.
bool hasOneLayout(Operation *op) {
  return tile::isElementwise(op) ||
         isa<tile::HintOp, tile::ExternOp, tile::InlineAsmOp, tile::MapElementwiseOp>(op);
}

/// Cheap enough to be computed in several layouts, if its operands are.
bool isCheap(Operation *op) {
  if (!isMemoryEffectFree(op))
    return false;
  if (isa_and_nonnull<math::MathDialect>(op->getDialect()))
    return isa<math::AbsFOp, math::AbsIOp, math::FloorOp, math::CeilOp>(op);
  return !isa<arith::DivFOp, arith::RemFOp, tile::DivRNOp, tile::SqrtRNOp, tile::ExternOp,
              tile::InlineAsmOp, tile::MapElementwiseOp>(op);
}

/// The elements of a thread without those that lie behind another one in the same run.
double firstOfRuns(const LinearLayout &layout, ArrayRef<int64_t> runs) {
  double most = 1;
  for (auto [dim, run] : llvm::enumerate(runs)) {
    int64_t length = 1;
    auto stepsBy = [&](const Coords &basis) {
      return basis[dim] == length && llvm::count(basis, 0) + 1 == int64_t(basis.size());
    };
    while (2 * length <= run && llvm::any_of(layout.bases(Axis::Register), stepsBy))
      length *= 2;
    most = std::max(most, double(length));
  }
  return double(layout.size(Axis::Register)) / most;
}

double tripCount(scf::ForOp loop) {
  IntegerAttr lower, upper, step;
  if (!matchPattern(loop.getLowerBound(), m_Constant(&lower)) ||
      !matchPattern(loop.getUpperBound(), m_Constant(&upper)) ||
      !matchPattern(loop.getStep(), m_Constant(&step)) || step.getInt() <= 0)
    return kTrips;
  return std::max<double>(
      1, double(llvm::divideCeil(std::max<int64_t>(0, upper.getInt() - lower.getInt()),
                                 uint64_t(step.getInt()))));
}

} // namespace

ViewedValue::ViewedValue(Value value) : source(value) {
  while (Operation *op = source.getDefiningOp()) {
    auto reshape = dyn_cast<tile::ReshapeOp>(op);
    if (!isa<tile::TransOp>(op) && !(reshape && changesUnitDims(reshape)))
      return;
    views.push_back(op);
    source = op->getOperand(0);
  }
}

LinearLayout ViewedValue::behind(LinearLayout layout) const {
  for (Operation *op : views)
    layout = bufferBehind(op, layout);
  return layout;
}

LayoutId LayoutTable::intern(const LinearLayout &layout) {
  auto &same = byHash[unsigned(size_t(hash_value(layout)))];
  for (LayoutId id : same)
    if (*layouts[id] == layout)
      return id;
  same.push_back(layouts.size());
  layouts.push_back(std::make_unique<LinearLayout>(layout));
  return same.back();
}

//===--- building
//---------------------------------------------------------------------------------===//

struct LayoutProblem::Builder {
  LayoutProblem &p;
  const transforms::IntegerAnalysis &analysis;
  std::vector<int> parents; ///< of nodes: union-find
  std::optional<transforms::IntegerAnalysis> speculative = std::nullopt;

  /// The analysis that supposes that offsets do not wrap; made when it is asked for.
  const transforms::IntegerAnalysis &supposed() {
    if (!speculative)
      speculative.emplace(p.kernel, transforms::Mode::Speculative);
    return *speculative;
  }

  int find(int node) {
    while (parents[node] != node)
      node = parents[node] = parents[parents[node]];
    return node;
  }
  void unite(int a, int b) {
    a = find(a), b = find(b);
    if (a != b)
      parents[std::max(a, b)] = std::min(a, b);
  }

  int newNode(LayoutNode::Kind kind, Type type) {
    LayoutNode node;
    node.kind = kind;
    node.type = cast<RankedTensorType>(type);
    p.nodes.push_back(node);
    parents.push_back(parents.size());
    return parents.size() - 1;
  }

  unsigned newValue(Value value, int node, Operation *via, double weight) {
    LayoutValue info;
    info.value = value;
    info.node = node;
    info.via = via;
    Type element = tile::elementOf(value.getType());
    info.elementBits = element.isIntOrFloat() ? std::max(8u, element.getIntOrFloatBitWidth()) : 64;
    for (int64_t size : tile::shapeOf(value.getType()))
      info.repeats *= repeatCount(size);
    info.weight = weight;
    p.values.push_back(info);
    p.numbers[value] = p.values.size() - 1;
    return p.values.size() - 1;
  }

  const LayoutValue &info(Value value) { return p.values[p.numbers.lookup(value)]; }
  bool isChain(Value value) {
    int node = info(value).node;
    return node >= 0 && p.nodes[find(node)].kind == LayoutNode::Kind::Chain;
  }

  /// An operand whose layout is that of `node`.
  void passOn(LayoutStep &step, OpOperand &operand, Value to) {
    if (!isTensor(operand.get()))
      return;
    int node = info(to).node;
    step.uses.push_back({operand.getOperandNumber(), p.numbers.lookup(operand.get()), node});
  }

  void useOperands(LayoutStep &step) {
    for (OpOperand &operand : step.op->getOpOperands())
      if (isTensor(operand.get()))
        step.uses.push_back({operand.getOperandNumber(), p.numbers.lookup(operand.get())});
  }

  void block(Block &block, double weight) {
    for (Operation &op : block)
      visit(&op, weight);
  }

  void visit(Operation *op, double weight);
  void visitFor(scf::ForOp loop, double weight);
  void visitWhile(scf::WhileOp loop, double weight);
  void visitIf(scf::IfOp branch, double weight);
  void visitDot(tile::DotOp dot, LayoutStep &step, double weight);
  void markDotLoads(Value operand);
  void finish();
};

void LayoutProblem::Builder::visitFor(scf::ForOp loop, double weight) {
  LayoutStep step{loop};
  step.weight = weight;
  double inside = weight * tripCount(loop);
  for (auto [init, arg, result] :
       llvm::zip(loop.getInitArgsMutable(), loop.getRegionIterArgs(), loop.getResults())) {
    if (!isTensor(arg))
      continue;
    int node = newNode(LayoutNode::Kind::Chain, arg.getType());
    newValue(arg, node, nullptr, inside);
    newValue(result, node, nullptr, weight);
    passOn(step, init, arg);
    if (isChain(init.get()) && isa<BlockArgument>(init.get()))
      unite(node, info(init.get()).node);
  }
  p.steps.push_back(step);
  block(*loop.getBody(), inside);
}

void LayoutProblem::Builder::visitWhile(scf::WhileOp loop, double weight) {
  LayoutStep step{loop};
  step.weight = weight;
  double inside = weight * kTrips;
  for (auto [init, arg] : llvm::zip(loop.getInitsMutable(), loop.getBeforeArguments())) {
    if (!isTensor(arg))
      continue;
    newValue(arg, newNode(LayoutNode::Kind::Chain, arg.getType()), nullptr, inside);
    passOn(step, init, arg);
  }
  for (auto [arg, result] : llvm::zip(loop.getAfterArguments(), loop.getResults())) {
    if (!isTensor(arg))
      continue;
    int node = newNode(LayoutNode::Kind::Chain, arg.getType());
    newValue(arg, node, nullptr, inside);
    newValue(result, node, nullptr, weight);
  }
  p.steps.push_back(step);
  block(*loop.getBeforeBody(), inside);
  block(*loop.getAfterBody(), inside);
}

void LayoutProblem::Builder::visitIf(scf::IfOp branch, double weight) {
  LayoutStep step{branch};
  step.weight = weight;
  for (Value result : branch.getResults())
    if (isTensor(result))
      newValue(result, newNode(LayoutNode::Kind::Chain, result.getType()), nullptr, weight);
  p.steps.push_back(step);
  const bool isRare = branch->hasAttr(tile::rareElseAttribute);
  double then = isRare ? weight : weight / 2, otherwise = isRare ? weight * kRare : weight / 2;
  block(branch.getThenRegion().front(), then);
  if (!branch.getElseRegion().empty())
    block(branch.getElseRegion().front(), otherwise);
}

/// Loads behind an operand of a dot (through what is elementwise or a view) stay coalesced.
void LayoutProblem::Builder::markDotLoads(Value operand) {
  SmallVector<Value, 4> work{operand};
  for (unsigned i = 0; i < work.size() && i < 16; ++i) {
    Operation *op = work[i].getDefiningOp();
    if (!op || !isTensor(work[i]))
      continue;
    if (isa<tile::LoadOp>(op))
      p.nodes[info(work[i]).node].noFragments = true;
    else if (hasOneLayout(op) || tile::isView(op))
      llvm::append_range(work, op->getOperands());
  }
}

void LayoutProblem::Builder::visitDot(tile::DotOp dot, LayoutStep &step, double weight) {
  DotPlan plan = planDot(gatherDotFacts(dot, analysis), p.options);
  step.dot = p.dots.size();
  step.node = newNode(LayoutNode::Kind::Dot, dot.getType());
  LayoutNode &node = p.nodes[step.node];
  node.fixed = true;
  node.layout = p.table.intern(plan.accumulator);
  newValue(dot.getResult(), step.node, nullptr, weight);
  auto use = [&](OpOperand &operand, const DotOperandPlan &wanted) {
    LayoutUse use{operand.getOperandNumber(), p.numbers.lookup(operand.get())};
    if (wanted.storage == DotOperandPlan::Storage::Fragment) {
      use.layout = p.table.intern(wanted.layout);
    } else {
      ViewedValue viewed(operand.get());
      use.value = p.numbers.lookup(viewed.source);
      use.any = true;
      use.buffer = p.buffers.size();
      p.buffers.push_back(viewed.behind(wanted.layout));
    }
    step.uses.push_back(use);
    markDotLoads(operand.get());
  };
  use(dot.getAMutable(), plan.a);
  use(dot.getBMutable(), plan.b);
  step.uses.push_back(
      {dot.getCMutable().getOperandNumber(), p.numbers.lookup(dot.getC()), step.node});
  p.dots.push_back(std::move(plan));
}

void LayoutProblem::Builder::visit(Operation *op, double weight) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return visitFor(loop, weight);
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return visitWhile(loop, weight);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return visitIf(branch, weight);

  LayoutStep step{op};
  step.weight = weight;
  if (isa<scf::YieldOp, scf::ConditionOp>(op)) {
    Operation *parent = op->getParentOp();
    unsigned first = isa<scf::ConditionOp>(op) ? 1 : 0;
    for (OpOperand &operand : op->getOpOperands().drop_front(first)) {
      unsigned i = operand.getOperandNumber() - first;
      Value to = parent->getNumResults() > i ? Value(parent->getResult(i)) : Value();
      if (auto loop = dyn_cast<scf::ForOp>(parent))
        to = loop.getRegionIterArg(i);
      else if (auto loop = dyn_cast<scf::WhileOp>(parent); loop && !first)
        to = loop.getBeforeArguments()[i];
      passOn(step, operand, to);
      if (isTensor(operand.get()) && isChain(operand.get()))
        unite(info(to).node, info(operand.get()).node);
    }
    if (!step.uses.empty())
      p.steps.push_back(step);
    return;
  }
  if (llvm::none_of(op->getOperands(), isTensor) && llvm::none_of(op->getResults(), isTensor)) {
    for (Region &region : op->getRegions())
      if (!isa<tile::ReduceOp, tile::ScanOp>(op))
        for (Block &inner : region)
          block(inner, weight);
    return;
  }

  auto allComputed = [&]() {
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      return !isTensor(operand) || (info(operand).node < 0 && info(operand).root < 0);
    });
  };
  auto place = [&](LayoutNode::Kind kind, bool via) {
    step.node = newNode(kind, baseType(op));
    for (Value result : op->getResults())
      if (isTensor(result))
        step.results.push_back(newValue(result, step.node, via ? op : nullptr, weight));
  };
  bool noTensorOperands = llvm::none_of(op->getOperands(), isTensor);
  bool source =
      noTensorOperands && isMemoryEffectFree(op) && !isa<tile::ExternOp, tile::InlineAsmOp>(op);
  useOperands(step);
  step.slots = slotsOf(op);
  step.derives = tile::isView(op) || isa<tile::JoinOp, tile::CatOp>(op);

  if (auto dot = dyn_cast<tile::DotOp>(op)) {
    step.uses.clear();
    visitDot(dot, step, weight);
  } else if (tile::isView(op) || (source && !hasOneLayout(op)) ||
             (hasOneLayout(op) && isCheap(op) && allComputed())) {
    step.computed = true;
    for (Value result : op->getResults())
      if (isTensor(result))
        step.results.push_back(newValue(result, -1, nullptr, weight));
    if (step.slots >= kDivision)
      for (auto [dim, size] : llvm::enumerate(tile::shapeOf(op->getResult(0).getType())))
        step.runs.push_back(std::max(analysis.contiguity(op->getResult(0), dim),
                                     analysis.constancy(op->getResult(0), dim)));
    if (isa<tile::ExpandDimsOp, tile::TransOp, tile::ReshapeOp>(op)) {
      unsigned from = p.numbers.lookup(op->getOperand(0));
      p.values[step.results.front()].root =
          p.values[from].node >= 0 ? int(from) : p.values[from].root;
    }
  } else if (hasOneLayout(op) || isa<tile::ExchangeOp>(op)) {
    place(LayoutNode::Kind::Chain, false);
    for (Value operand : op->getOperands())
      if (isTensor(operand) && isChain(operand))
        unite(step.node, info(operand).node);
  } else if (isa<tile::LoadOp, tile::StoreOp, tile::Atomic, tile::DescLoadOp, tile::DescStoreOp,
                 tile::DescReduceOp>(op)) {
    place(LayoutNode::Kind::Access, false);
    step.access = p.accesses.size();
    p.accesses.push_back(
        accessFacts(op, analysis, [&]() -> const auto & { return supposed(); }, p.options.machine));
  } else if (isa<tile::ReduceOp>(op)) {
    place(LayoutNode::Kind::Reduce, true);
    step.slots = slotsOf(op->getRegion(0));
  } else if (isa<tile::ScanOp>(op)) {
    place(LayoutNode::Kind::Scan, false);
    step.slots = slotsOf(op->getRegion(0));
  } else if (isa<tile::JoinOp, tile::SplitOp, tile::CatOp>(op)) {
    place(LayoutNode::Kind::Parts, isa<tile::SplitOp>(op));
  } else if (auto gather = dyn_cast<tile::GatherOp>(op)) {
    place(LayoutNode::Kind::Other, false);
    step.derives = gathersFromBase(gather);
    step.uses.front().any = !step.derives;
  } else if (auto slice = dyn_cast<tile::SliceOp>(op)) {
    bool bits = slicesBits(slice);
    place(bits ? LayoutNode::Kind::Reduce : LayoutNode::Kind::Other, bits);
    step.uses.front().any = !bits;
  } else if (isa<tile::HistogramOp>(op)) {
    place(LayoutNode::Kind::Reduce, true);
  } else if (isa<tile::UnsplatOp, tile::PrintOp>(op)) {
    for (LayoutUse &use : step.uses)
      use.any = true;
  } else {
    place(LayoutNode::Kind::Other, false);
  }
  p.steps.push_back(step);
}

/// Nodes that were united become one; the rest is numbered anew.
void LayoutProblem::Builder::finish() {
  std::vector<int> renumbered(parents.size(), -1);
  std::vector<LayoutNode> kept;
  for (unsigned i = 0; i < parents.size(); ++i)
    if (find(i) == int(i)) {
      renumbered[i] = kept.size();
      kept.push_back(p.nodes[i]);
    }
  auto renumber = [&](int &node) {
    if (node >= 0)
      node = renumbered[find(node)];
  };
  for (LayoutValue &value : p.values)
    renumber(value.node);
  for (auto [i, step] : llvm::enumerate(p.steps)) {
    renumber(step.node);
    for (LayoutUse &use : step.uses)
      renumber(use.node);
    if (step.node >= 0)
      kept[step.node].steps.push_back(i);
  }
  p.nodes = std::move(kept);
}

LayoutProblem::LayoutProblem(func::FuncOp kernel, const GpuOptions &options,
                             const transforms::IntegerAnalysis &analysis)
    : kernel(kernel), options(options) {
  Builder builder{*this, analysis, {}};
  builder.block(kernel.getBody().front(), 1);
  builder.finish();
}

//===--- evaluating
//-------------------------------------------------------------------------------===//

LayoutId LayoutProblem::defaultLayout(RankedTensorType type) {
  SmallVector<unsigned> order;
  for (unsigned dim = type.getRank(); dim-- > 0;)
    order.push_back(dim);
  return table.intern(
      striped(coreShape(type.getShape()), 1, options.machine.lanes, options.numWarps, order));
}

LayoutId LayoutProblem::seenFromRoot(unsigned number, LayoutId layout) {
  LayoutValue &value = values[number];
  if (value.node >= 0)
    return layout;
  Operation *op = value.value.getDefiningOp();
  const LinearLayout &from = table[seenFromRoot(numbers.lookup(op->getOperand(0)), layout)];
  if (auto expand = dyn_cast<tile::ExpandDimsOp>(op))
    return table.intern(from.expanded(expand.getAxis()));
  if (auto trans = dyn_cast<tile::TransOp>(op))
    return table.intern(from.transposed(trans.getOrder()));
  auto to = tile::shapeOf(value.value.getType());
  if (reshapesCore(tile::shapeOf(op->getOperand(0).getType()), to))
    return table.intern(from.reshaped(coreShape(to)));
  return table.intern(everywhere(to, options.machine.lanes, options.numWarps));
}

LayoutId LayoutProblem::layoutOf(const LayoutValue &value) {
  LayoutId base = nodes[value.node].layout;
  return value.via && base != kNoLayout ? result(value.via, base) : base;
}

LayoutId LayoutProblem::result(Operation *op, LayoutId base) {
  uint64_t key = (uint64_t(reinterpret_cast<uintptr_t>(op)) << 16) ^ base;
  auto [it, isNew] = resultMemo.try_emplace(key, kNoLayout);
  if (isNew)
    it->second = table.intern(resultLayout(op, 0, table[base]));
  return it->second;
}

LayoutId LayoutProblem::operand(unsigned index, const LayoutUse &use, LayoutId base) {
  LayoutStep &step = steps[index];
  if (!step.derives)
    return base;
  size_t at = size_t(base) * step.uses.size() + (&use - step.uses.data());
  if (at >= step.operandMemo.size())
    step.operandMemo.resize(at + 1, kNoLayout);
  if (step.operandMemo[at] == kNoLayout)
    step.operandMemo[at] = table.intern(operandLayout(step.op, use.operand, table[base]));
  return step.operandMemo[at];
}

void LayoutProblem::sweep(Demands &demands) {
  demands.resize(values.size());
  for (auto &demand : demands)
    demand.clear();
  auto want = [&](unsigned value, LayoutId layout) {
    if (layout != kNoLayout && !llvm::is_contained(demands[value], layout))
      demands[value].push_back(layout);
  };
  for (unsigned i = steps.size(); i-- > 0;) {
    LayoutStep &step = steps[i];
    if (step.computed) {
      auto &wanted = demands[step.results.front()];
      if (LayoutValue &value = values[step.results.front()]; wanted.empty() && value.anyway) {
        LayoutId root = value.root >= 0 ? layoutOf(values[value.root]) : kNoLayout;
        wanted.push_back(root != kNoLayout ? seenFromRoot(step.results.front(), root)
                                           : defaultLayout(cast<RankedTensorType>(
                                                 step.op->getResult(0).getType())));
      }
      for (LayoutId base : wanted)
        for (LayoutUse &use : step.uses)
          want(use.value, operand(i, use, base));
      continue;
    }
    for (LayoutUse &use : step.uses) {
      if (use.any)
        values[use.value].anyway = true;
      else if (use.layout != kNoLayout)
        want(use.value, use.layout);
      else if (use.node >= 0)
        want(use.value, nodes[use.node].layout);
      else if (nodes[step.node].layout != kNoLayout)
        want(use.value, operand(i, use, nodes[step.node].layout));
    }
  }
}

double LayoutProblem::conversion(const LayoutValue &value, LayoutId from, LayoutId to) {
  if (from == to)
    return 0;
  std::pair<uint64_t, uint64_t> key(uint64_t(from) << 32 | to,
                                    uint64_t(value.elementBits) << 32 | uint64_t(value.repeats));
  auto [it, isNew] = conversionMemo.try_emplace(key, 0);
  if (isNew)
    it->second = conversionCost(table[from], table[to], value.elementBits, value.repeats);
  return it->second;
}

double LayoutProblem::bufferCost(const LayoutUse &use) {
  const LayoutValue &value = values[use.value];
  const LayoutValue &root = value.root >= 0 ? values[value.root] : value;
  if (root.node < 0)
    return 0;
  LayoutId from = seenFromRoot(use.value, layoutOf(root));
  auto [it, isNew] = bufferMemo.try_emplace(uint64_t(use.buffer) << 32 | from, 0);
  if (isNew) {
    bool matrices = options.machine.matrixStores;
    MoveCost cost =
        sharedAccess(table[from], buffers[use.buffer], value.elementBits, matrices).cost;
    it->second = double(value.repeats) * (cost.turns * double(table[from].size(Axis::Warp)) +
                                          issueCycles(cost.instructions, table[from]));
  }
  return it->second;
}

double LayoutProblem::stepCost(unsigned index, LayoutId base) {
  LayoutStep &step = steps[index];
  if (base >= step.costMemo.size())
    step.costMemo.resize(base + 1, -1);
  if (step.costMemo[base] >= 0)
    return step.costMemo[base];
  const LinearLayout &layout = table[base];
  RankedTensorType type = baseType(step.op);
  int64_t repeats = 1;
  for (int64_t size : type.getShape())
    repeats *= repeatCount(size);
  Type element = type.getElementType();
  unsigned bits = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 64;
  double registers = firstOfRuns(layout, step.runs) * double(repeats);
  double cost = 0;
  if (step.access >= 0) {
    auto atomic = dyn_cast<tile::Atomic>(step.op);
    bool load = isa<tile::LoadOp, tile::DescLoadOp>(step.op);
    cost = accessCost(accesses[step.access], layout, repeats,
                      atomic ? AccessKind::Atomic
                      : load ? AccessKind::Load
                             : AccessKind::Store);
    Value seen = atomic ? atomic.getSeen() : Value();
    if (seen && !seen.use_empty() && !layout.isInjective())
      cost += 100; // the owner's result must be sent to all that hold a copy
  } else if (auto reduce = dyn_cast<tile::ReduceOp>(step.op)) {
    cost = reduceCost(layout, reduce.getAxis(), bits, step.slots, repeats,
                      repeatCount(type.getDimSize(reduce.getAxis())));
  } else if (auto scan = dyn_cast<tile::ScanOp>(step.op)) {
    cost = scanCost(layout, scan.getAxis(), bits, step.slots, repeats);
  } else if (isa<tile::ExchangeOp, tile::SliceOp, tile::GatherOp, tile::HistogramOp>(step.op)) {
    cost = rearrangeCost(step.op, layout, bits, repeats);
  } else {
    cost = issueCycles(registers * step.slots, layout);
  }
  if (step.node >= 0)
    cost += registerCharge(layout, bits, repeats);
  return step.costMemo[base] = cost;
}

double LayoutProblem::cost(Demands &demands) {
  sweep(demands);
  double total = 0;
  for (auto [i, step] : llvm::enumerate(steps)) {
    if (step.computed) {
      if (step.slots > 0)
        for (LayoutId base : demands[step.results.front()])
          total += step.weight * stepCost(i, base);
      continue;
    }
    if (step.node >= 0 && step.dot < 0)
      total += step.weight * stepCost(i, nodes[step.node].layout);
    if (step.dot >= 0) // what goes to shared memory from registers
      for (LayoutUse &use : step.uses)
        if (use.buffer >= 0)
          total += step.weight * bufferCost(use);
  }
  for (auto [i, value] : llvm::enumerate(values))
    if (value.node >= 0)
      for (LayoutId wanted : demands[i])
        total += value.weight * conversion(value, layoutOf(value), wanted);
  return total;
}

} // namespace nereid::gpu
