#include "gpu/layouts/assignment/LayoutAssignment.h"

#include "gpu/Passes.h"
#include "gpu/explain/Explain.h"
#include "gpu/layouts/AccessWidth.h"
#include "gpu/layouts/LayoutRelations.h"
#include "layout/Constructors.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/MathExtras.h"

#include <map>

using namespace mlir;
using namespace nereid::layout;

namespace nereid::gpu {
namespace {

/// A node's candidates at most: those found first are of the costliest anchors.
constexpr unsigned kMaxCandidates = 12;
/// Rounds over all nodes at most.
constexpr unsigned kMaxRounds = 4;
/// Steps looked at while improving, at most: kernels unrolled to thousands of ops keep what the
/// largest nodes gained.
constexpr uint64_t kMaxWork = 300'000;

class Solver {
public:
  explicit Solver(LayoutProblem &problem) : p(problem) {}
  double run();

private:
  /// The nodes that change together with a node: none; neighbours with the same layout; these, and
  /// smaller tensors.
  enum class Move : uint8_t { Alone, WithEqual, WithFollowers };
  struct Edge {
    int to;
    Operation *via; ///< the neighbour's layout is `via`'s result layout; null: the same
  };

  void findCandidates();
  void addCandidate(int node, LayoutId layout);
  void want(unsigned value, LayoutId layout);
  void findEdges();
  void start();
  bool improve(int node);
  double evaluate();
  LayoutId favourite(int node);
  void follow(int node);
  void moveWith(int node, LayoutId layout);
  double nodeWeight(const LayoutNode &node);

  LayoutProblem &p;
  Demands demands;
  std::vector<SmallVector<Edge, 4>> edges;
  llvm::DenseMap<Operation *, unsigned> stepOf;         ///< of computed values
  llvm::DenseSet<std::pair<unsigned, LayoutId>> wanted; ///< what `want` has seen
  llvm::DenseSet<LayoutId> fragments;
  std::vector<int> order; ///< of nodes: the largest first
  /// By node: its values that have its layout itself, and the operands that must have it.
  std::vector<SmallVector<unsigned, 4>> valuesOf;
  std::vector<SmallVector<const LayoutUse *, 4>> usesOf;
  uint64_t work = 0;
  double best = 0;
};

double Solver::nodeWeight(const LayoutNode &node) {
  double weight = 0;
  for (unsigned step : node.steps)
    weight = std::max(weight, p.steps[step].weight);
  return weight * double(node.type.getNumElements());
}

void Solver::addCandidate(int number, LayoutId layout) {
  LayoutNode &node = p.nodes[number];
  if (node.fixed || node.candidates.size() >= kMaxCandidates ||
      llvm::is_contained(node.candidates, layout))
    return;
  const LinearLayout &map = p.table[layout];
  if (map.shape() != ArrayRef<int64_t>(coreShape(node.type.getShape())))
    return;
  if (node.noFragments && fragments.contains(layout))
    return;
  bool restricted = node.kind == LayoutNode::Kind::Parts || node.kind == LayoutNode::Kind::Scan;
  for (unsigned step : restricted ? ArrayRef<unsigned>(node.steps) : ArrayRef<unsigned>()) {
    Operation *op = p.steps[step].op;
    if (!admitsBase(op, p.table[layout]))
      layout = p.table.intern(withPartsInRegisters(op, p.table[layout]));
    if (!admitsBase(op, p.table[layout]))
      return;
  }
  if (!llvm::is_contained(node.candidates, layout))
    node.candidates.push_back(layout);
}

/// A candidate for the node behind a value, through what is computed.
void Solver::want(unsigned number, LayoutId layout) {
  LayoutValue &value = p.values[number];
  if (value.node >= 0) {
    if (!value.via)
      addCandidate(value.node, layout);
    return;
  }
  if (!wanted.insert({number, layout}).second)
    return;
  unsigned step = stepOf.lookup(value.value.getDefiningOp());
  for (LayoutUse &use : p.steps[step].uses)
    want(use.value, p.operand(step, use, layout));
}

void Solver::findCandidates() {
  for (auto [i, step] : llvm::enumerate(p.steps))
    stepOf[step.op] = i;
  // By shape: what the anchors propose, costliest first.
  std::map<std::vector<int64_t>, SmallVector<LayoutId, 16>> pools;
  auto propose = [&](RankedTensorType type, LayoutId layout) {
    auto core = coreShape(type.getShape());
    auto &pool = pools[std::vector<int64_t>(core.begin(), core.end())];
    if (!llvm::is_contained(pool, layout))
      pool.push_back(layout);
  };
  for (LayoutStep &step : p.steps)
    if (step.dot >= 0) {
      if (p.dots[step.dot].unit != MatrixUnit::Fma)
        fragments.insert(p.nodes[step.node].layout);
      propose(p.nodes[step.node].type, p.nodes[step.node].layout);
      for (LayoutUse &use : step.uses)
        if (use.layout != kNoLayout) {
          fragments.insert(use.layout);
          propose(cast<RankedTensorType>(step.op->getOperand(use.operand).getType()), use.layout);
        }
    }
  SmallVector<unsigned> accesses;
  for (auto [i, step] : llvm::enumerate(p.steps))
    if (step.access >= 0)
      accesses.push_back(i);
  llvm::stable_sort(accesses, [&](unsigned a, unsigned b) {
    return nodeWeight(p.nodes[p.steps[a].node]) > nodeWeight(p.nodes[p.steps[b].node]);
  });
  for (unsigned i : accesses) {
    LayoutStep &step = p.steps[i];
    RankedTensorType type = p.nodes[step.node].type;
    for (const LinearLayout &layout :
         accessCandidates(type.getShape(), p.accesses[step.access], p.options.numWarps)) {
      LayoutId id = p.table.intern(layout);
      addCandidate(step.node, id);
      propose(type, id);
    }
  }
  for (auto &[shape, pool] : pools)
    for (auto [i, node] : llvm::enumerate(p.nodes))
      for (LayoutId layout : pool)
        addCandidate(i, layout);
  // What follows through the relations, in both directions; twice, for chains of them.
  for (unsigned round = 0; round < 2; ++round)
    for (auto [i, step] : llvm::enumerate(p.steps)) {
      if (step.node < 0)
        continue;
      LayoutNode &node = p.nodes[step.node];
      auto bases = node.candidates;
      if (node.fixed)
        bases.push_back(node.layout);
      for (LayoutUse &use : step.uses)
        if (LayoutValue &value = p.values[use.value]; value.node >= 0 && !value.via) {
          LayoutNode &from = p.nodes[value.node];
          if (isa<tile::JoinOp>(step.op))
            for (LayoutId base : SmallVector<LayoutId, 8>(from.candidates))
              addCandidate(step.node, p.table.intern(baseOfHalves(p.table[base])));
          else if ((from.kind == LayoutNode::Kind::Parts ||
                    isa<tile::SplitOp, tile::ReduceOp, tile::ScanOp>(step.op)) &&
                   !use.any)
            for (LayoutId base : SmallVector<LayoutId, 8>(from.candidates))
              addCandidate(use.node >= 0 ? use.node : step.node, base);
        }
      for (LayoutUse &use : step.uses)
        if (LayoutValue &value = p.values[use.value]; value.root >= 0 && !use.any) {
          LayoutValue &root = p.values[value.root];
          auto rootBases = p.nodes[root.node].candidates;
          if (p.nodes[root.node].fixed)
            rootBases.push_back(p.nodes[root.node].layout);
          for (LayoutId base : rootBases)
            addCandidate(use.node >= 0 ? use.node : step.node,
                         p.seenFromRoot(use.value, root.via ? p.result(root.via, base) : base));
        }
      for (LayoutId base : bases) {
        for (LayoutUse &use : step.uses)
          if (!use.any && use.layout == kNoLayout && use.node < 0)
            want(use.value, p.operand(i, use, base));
        for (unsigned result : step.results)
          if (p.values[result].via)
            for (auto [j, other] : llvm::enumerate(p.nodes))
              if (other.type.getShape() == tile::shapeOf(p.values[result].value.getType()))
                addCandidate(j, p.result(step.op, base));
      }
    }
  for (auto [i, node] : llvm::enumerate(p.nodes))
    if (node.candidates.empty() && !node.fixed) {
      node.noFragments = false;
      addCandidate(i, p.defaultLayout(node.type));
    }
}

void Solver::findEdges() {
  edges.resize(p.nodes.size());
  valuesOf.resize(p.nodes.size());
  usesOf.resize(p.nodes.size());
  for (auto [i, value] : llvm::enumerate(p.values))
    if (value.node >= 0 && !value.via)
      valuesOf[value.node].push_back(i);
  for (LayoutStep &step : p.steps)
    for (LayoutUse &use : step.uses) {
      if (int node = use.node >= 0 ? use.node : step.node; node >= 0 && !use.any)
        usesOf[node].push_back(&use);
      LayoutValue &value = p.values[use.value];
      int to = use.node >= 0 ? use.node : step.node;
      if (value.node < 0 || to < 0 || use.any || use.layout != kNoLayout || to == value.node ||
          isa<tile::JoinOp, tile::CatOp>(step.op))
        continue;
      edges[value.node].push_back({to, value.via});
      if (!value.via)
        edges[to].push_back({value.node, nullptr});
    }
}

/// The candidate that most of what is next to a node has or wants; `demands` are those of now.
LayoutId Solver::favourite(int number) {
  LayoutNode &node = p.nodes[number];
  SmallVector<std::pair<LayoutId, double>, 4> votes;
  auto vote = [&](LayoutId layout, const LayoutValue &value) {
    if (!llvm::is_contained(node.candidates, layout))
      return;
    double weight = value.weight * value.elementBits;
    for (auto &[known, sum] : votes)
      if (known == layout) {
        sum += weight;
        return;
      }
    votes.push_back({layout, weight});
  };
  for (unsigned i : valuesOf[number])
    for (LayoutId layout : demands[i])
      vote(layout, p.values[i]);
  for (const LayoutUse *use : usesOf[number]) {
    LayoutValue &value = p.values[use->value];
    LayoutValue &root = value.root >= 0 ? p.values[value.root] : value;
    if (root.node >= 0 && p.nodes[root.node].layout != kNoLayout)
      vote(p.seenFromRoot(use->value, p.layoutOf(root)), value);
  }
  auto most = llvm::max_element(votes, [](auto &a, auto &b) { return a.second < b.second; });
  return most == votes.end() ? kNoLayout : most->first;
}

/// Nodes of fewer elements than `number` take what their neighbours now want of them.
void Solver::follow(int number) {
  p.sweep(demands);
  for (int other : order) {
    LayoutNode &node = p.nodes[other];
    if (node.fixed || node.type.getNumElements() >= p.nodes[number].type.getNumElements())
      continue;
    if (LayoutId layout = favourite(other); layout != kNoLayout)
      node.layout = layout;
  }
}

/// Nodes take, one after the other, the layout that most of what is next to them has or wants.
void Solver::start() {
  for (auto [i, node] : llvm::enumerate(p.nodes))
    order.push_back(i);
  llvm::stable_sort(order,
                    [&](int a, int b) { return nodeWeight(p.nodes[a]) > nodeWeight(p.nodes[b]); });
  for (LayoutStep &step : p.steps) {
    if (step.access < 0)
      continue;
    LayoutNode &node = p.nodes[step.node];
    double lowest = 0;
    for (LayoutId candidate : node.candidates) {
      double cost = p.stepCost(&step - p.steps.data(), candidate);
      if (node.layout == kNoLayout || cost < lowest) {
        lowest = cost;
        node.layout = candidate;
      }
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    p.sweep(demands);
    for (int number : order)
      if (p.nodes[number].layout == kNoLayout)
        if (LayoutId layout = favourite(number); layout != kNoLayout) {
          p.nodes[number].layout = layout;
          changed = true;
        }
    if (changed)
      continue;
    for (int number : order)
      if (p.nodes[number].layout == kNoLayout) {
        p.nodes[number].layout = p.nodes[number].candidates.front();
        changed = true;
        break;
      }
  }
}

/// Moves a node, and with it the neighbours that agreed with it before.
void Solver::moveWith(int start, LayoutId layout) {
  SmallVector<std::pair<int, LayoutId>, 8> work{{start, layout}};
  llvm::SmallDenseSet<int> moved{start};
  while (!work.empty()) {
    auto [number, to] = work.pop_back_val();
    LayoutId from = p.nodes[number].layout;
    p.nodes[number].layout = to;
    for (const Edge &edge : edges[number]) {
      LayoutNode &other = p.nodes[edge.to];
      LayoutId before = edge.via ? p.result(edge.via, from) : from;
      LayoutId after = edge.via ? p.result(edge.via, to) : to;
      if (other.layout == before && llvm::is_contained(other.candidates, after) &&
          moved.insert(edge.to).second)
        work.push_back({edge.to, after});
    }
  }
}

double Solver::evaluate() {
  work += p.steps.size();
  return p.cost(demands);
}

bool Solver::improve(int number) {
  LayoutNode &node = p.nodes[number];
  if (node.fixed || node.candidates.size() < 2 || work > kMaxWork)
    return false;
  SmallVector<LayoutId, 32> before, found;
  for (LayoutNode &each : p.nodes)
    before.push_back(each.layout);
  auto restore = [&](ArrayRef<LayoutId> layouts) {
    for (auto [each, layout] : llvm::zip(p.nodes, layouts))
      each.layout = layout;
  };
  for (LayoutId candidate : node.candidates)
    for (Move move : {Move::Alone, Move::WithEqual, Move::WithFollowers}) {
      if (candidate == before[number])
        continue;
      if (move == Move::Alone)
        node.layout = candidate;
      else
        moveWith(number, candidate);
      if (move == Move::WithFollowers)
        follow(number);
      double cost = evaluate();
      if (cost < best * (1 - 1e-9)) {
        best = cost;
        found.clear();
        for (LayoutNode &each : p.nodes)
          found.push_back(each.layout);
      }
      restore(before);
    }
  if (!found.empty())
    restore(found);
  return !found.empty();
}

double Solver::run() {
  findCandidates();
  findEdges();
  start();
  best = evaluate();
  for (unsigned round = 0; round < kMaxRounds; ++round) {
    bool changed = false;
    for (int node : order)
      changed |= improve(node);
    if (!changed)
      break;
  }
  return best;
}

StringRef kindName(LayoutNode::Kind kind) {
  constexpr StringRef names[] = {"values", "access", "reduce", "scan", "parts", "dot", "other"};
  return names[unsigned(kind)];
}

void printPlace(llvm::raw_ostream &os, Operation *op) {
  os << op->getName();
  if (auto loc = op->getLoc()->findInstanceOf<FileLineColLoc>())
    os << " (line " << loc.getLine() << ")";
}

} // namespace

SmallVector<LinearLayout, 8> accessCandidates(ArrayRef<int64_t> shape, const AccessFacts &facts,
                                              unsigned warps) {
  auto core = coreShape(shape);
  unsigned rank = core.size();
  SmallVector<unsigned> order;
  for (unsigned dim = rank; dim-- > 0;)
    order.push_back(dim);
  llvm::stable_sort(order, [&](unsigned a, unsigned b) {
    auto rate = [&](unsigned dim) {
      // Runs first; among what has none, many elements at one address come last.
      return std::pair(facts.contiguous[dim], -facts.constant[dim]);
    };
    return rate(a) > rate(b);
  });
  unsigned fast = order.front();
  int64_t elements = 1;
  for (int64_t size : core)
    elements *= size;
  int64_t lanesOfWarp = facts.machine.lanes, threads = lanesOfWarp * warps;
  int64_t most = int64_t(llvm::bit_floor(uint64_t(std::max<int64_t>(1, elements / threads))));
  int64_t widest = std::min(facts.vector[fast], most);
  // Neighbours that fill a word, though each is loaded by itself: what follows moves words.
  int64_t word = std::min({core[fast], 4 / int64_t(facts.elementBytes), most});

  SmallVector<LinearLayout, 8> layouts;
  auto add = [&](int64_t vector, int64_t fastLanes, bool warpsAlongRows) {
    SmallVector<int64_t> perThread(rank, 1), lanes(rank, 1), warpCounts(rank, 1);
    perThread[fast] = vector;
    int64_t lanesLeft = lanesOfWarp, warpsLeft = warps;
    auto fill = [&](SmallVector<int64_t> &counts, int64_t &left, unsigned dim, int64_t limit) {
      int64_t room =
          std::max<int64_t>(1, core[dim] / (perThread[dim] * lanes[dim] * warpCounts[dim]));
      int64_t count = std::min({left, room, limit});
      counts[dim] *= count;
      left /= count;
    };
    fill(lanes, lanesLeft, fast, fastLanes);
    for (unsigned dim : ArrayRef(order).drop_front())
      fill(lanes, lanesLeft, dim, lanesLeft);
    fill(lanes, lanesLeft, fast, lanesLeft);
    lanes[order.back()] *= lanesLeft; // copies
    if (!warpsAlongRows)
      fill(warpCounts, warpsLeft, fast, warpsLeft);
    for (unsigned i = rank; i-- > 1;)
      fill(warpCounts, warpsLeft, order[warpsAlongRows ? i : rank - i], warpsLeft);
    fill(warpCounts, warpsLeft, fast, warpsLeft);
    warpCounts[order.back()] *= warpsLeft;
    LinearLayout layout = blocked(core, perThread, lanes, warpCounts, order);
    if (!llvm::is_contained(layouts, layout))
      layouts.push_back(std::move(layout));
  };
  int64_t line = std::max<int64_t>(1, facts.machine.lineBytes / (facts.elementBytes * widest));
  add(widest, lanesOfWarp, false);
  if (rank > 1) {
    add(widest, lanesOfWarp, true);
    add(widest, line, true);
    add(widest, std::max<int64_t>(1, line / 2), true);
  }
  if (widest > 1)
    add(widest / 2, lanesOfWarp, rank > 1);
  if (word > widest) {
    add(word, lanesOfWarp, rank > 1);
    if (rank > 1)
      add(word, std::max<int64_t>(1, 128 / (facts.elementBytes * word)), true);
  }
  return layouts;
}

double solveLayouts(LayoutProblem &problem) {
  return Solver(problem).run();
}

std::string layoutReport(LayoutProblem &p) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto cycles = [](double value) { return llvm::format("%.0f", value); };
  Demands demands;
  double total = p.cost(demands);
  os << "layouts of @" << p.kernel.getName() << ": " << cycles(total) << " cycles\n";
  for (auto [number, node] : llvm::enumerate(p.nodes)) {
    double cost = 0;
    for (unsigned step : node.steps)
      if (p.steps[step].dot < 0)
        cost += p.steps[step].weight * p.stepCost(step, node.layout);
    os << "  " << kindName(node.kind) << " ";
    os << node.type << ": " << cycles(cost) << "\n    ";
    p.table[node.layout].print(os);
    os << "\n   ";
    for (unsigned step : node.steps) {
      os << " ";
      printPlace(os, p.steps[step].op);
      if (p.steps[step].access >= 0) {
        int64_t repeats = 1;
        for (int64_t size : node.type.getShape())
          repeats *= repeatCount(size);
        AccessShape shape =
            accessShape(p.accesses[p.steps[step].access], p.table[node.layout], repeats);
        os << " [" << shape.requests << " x " << shape.vector << " elements, " << shape.sectors
           << " sectors, " << shape.lines << " lines]";
      }
    }
    os << "\n";
  }
  for (auto [i, value] : llvm::enumerate(p.values)) {
    if (value.node < 0)
      continue;
    LayoutId from = p.layoutOf(value);
    for (LayoutId to : demands[i]) {
      if (to == from)
        continue;
      os << "  conversion " << value.value.getType() << ": "
         << cycles(value.weight * p.conversion(value, from, to)) << " behind ";
      if (Operation *op = value.value.getDefiningOp())
        printPlace(os, op);
      else
        os << "a loop's argument";
      os << "\n    ";
      p.table[from].print(os);
      os << "\n    ";
      p.table[to].print(os);
      os << "\n";
    }
  }
  return text;
}

llvm::Error assignLayouts(func::FuncOp kernel, const GpuOptions &options, std::string *report) {
  for (Type type : kernel.getArgumentTypes())
    if (isa<RankedTensorType>(type))
      return llvm::createStringError("internal error: a kernel takes no tensors");
  transforms::IntegerAnalysis analysis = addressAnalysis(kernel);
  if (options.explanation)
    explainProducts(kernel, options, analysis);
  LayoutProblem problem(kernel, options, analysis);
  solveLayouts(problem);
  if (report)
    *report = layoutReport(problem);
  applyLayouts(problem);
  return llvm::Error::success();
}

} // namespace nereid::gpu
