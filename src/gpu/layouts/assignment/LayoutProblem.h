// The choice of layouts as a problem: what there is to choose, and what a choice costs.
//
// Values are of two sorts. A *placed* value has one layout; a use that needs another converts it,
// right behind its definition. A *computed* value is cheap and pure (ranges, splats, constants,
// arithmetic on addresses and masks, and views of placed values: expand_dims, broadcast, trans):
// it has no layout of its own but is computed once in every layout that a use asks for, and passes
// the wish on to its operands.
//
// Placed values are tied into *nodes* that choose one layout together: a chain of elementwise ops
// with the loop-carried values and branch results in it; one access to memory; one reduction, scan,
// join or dot. All else follows from the nodes' layouts by LayoutRelations.h, in one backward sweep
// over the function: every op asks for its operands, computed ops for what they were asked.
#pragma once
#include "gpu/Options.h"
#include "gpu/dots/DotPlan.h"
#include "gpu/layouts/LayoutCost.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <vector>

namespace nereid::gpu {

using LayoutId = unsigned;
constexpr LayoutId kNoLayout = ~0u;

/// Layouts by number, so that comparing and remembering are cheap.
class LayoutTable {
public:
  LayoutId intern(const layout::LinearLayout &layout);
  const layout::LinearLayout &operator[](LayoutId id) const { return *layouts[id]; }

private:
  std::vector<std::unique_ptr<layout::LinearLayout>> layouts;
  llvm::DenseMap<unsigned, llvm::SmallVector<LayoutId, 1>> byHash;
};

struct LayoutNode {
  enum class Kind : uint8_t { Chain, Access, Reduce, Scan, Parts, Dot, Other };
  Kind kind = Kind::Chain;
  mlir::RankedTensorType type;
  bool fixed = false;
  /// Loads on the way to a dot's operand stay coalesced: pipelining copies them to shared memory.
  bool noFragments = false;
  LayoutId layout = kNoLayout;
  llvm::SmallVector<LayoutId, 8> candidates;
  llvm::SmallVector<unsigned, 4> steps;
};

struct LayoutValue {
  mlir::Value value;
  int node = -1; ///< -1: computed where it is needed
  /// The op whose `resultLayout` gives the layout from the node's; null: it is the node's.
  mlir::Operation *via = nullptr;
  unsigned elementBits = 32;
  int64_t repeats = 1;
  double weight = 1;   ///< how often its definition runs
  bool anyway = false; ///< some use takes whatever layout it has
  /// Computed: the value, at last a placed one, whose elements these are, seen under another shape
  /// or in another order; -1: there is none, or not all elements are different ones.
  int root = -1;
};

struct LayoutUse {
  unsigned operand;
  unsigned value;
  /// The operand has the layout of this node (values that a region passes on), or this layout, or
  /// any; else what `operandLayout` says.
  int node = -1;
  LayoutId layout = kNoLayout;
  bool any = false;
  /// Any, but it is written to shared memory in this layout (an index into `buffers`).
  int buffer = -1;
};

struct LayoutStep {
  mlir::Operation *op;
  int node = -1; ///< -1: computed, or an op that only passes values on
  bool computed = false;
  double weight = 1;
  double slots = 0;
  llvm::SmallVector<LayoutUse, 3> uses = {};
  llvm::SmallVector<unsigned, 2> results; ///< numbers of values
  int access = -1, dot = -1;              ///< indices into the problem's `accesses`, `dots`
  /// Of a computed value: by dimension, the length of aligned runs in which the elements are equal
  /// or follow one another. Accesses use the first of a vector.
  llvm::SmallVector<int64_t, 4> runs = {};
  bool derives = false; ///< layouts of operands are computed from the base, not the base itself
  /// By layout: what the operands need (all uses of one layout side by side), and the cost; filled
  /// when asked for.
  std::vector<LayoutId> operandMemo;
  std::vector<double> costMemo;
};

/// Which layouts a value is wanted in, by value.
using Demands = std::vector<llvm::SmallVector<LayoutId, 2>>;

class LayoutProblem {
public:
  LayoutProblem(mlir::func::FuncOp kernel, const GpuOptions &options,
                const transforms::IntegerAnalysis &analysis);

  mlir::func::FuncOp kernel;
  const GpuOptions &options;
  LayoutTable table;
  std::vector<LayoutNode> nodes;
  std::vector<LayoutValue> values;
  std::vector<LayoutStep> steps; ///< in program order, outer before inner
  std::vector<AccessFacts> accesses;
  std::vector<DotPlan> dots;
  std::vector<layout::LinearLayout>
      buffers; ///< of operands of dots, as the values written see them
  llvm::DenseMap<mlir::Value, unsigned> numbers; ///< of values

  /// The layout of a placed value under the present choice.
  LayoutId layoutOf(const LayoutValue &value);
  LayoutId operand(unsigned step, const LayoutUse &use, LayoutId base);
  LayoutId result(mlir::Operation *op, LayoutId base);
  /// The layout of a value whose layout does not matter.
  LayoutId defaultLayout(mlir::RankedTensorType type);
  /// The layout that a computed value has when its root has `layout`.
  LayoutId seenFromRoot(unsigned value, LayoutId layout);

  /// The backward sweep. Nodes without a layout ask for nothing.
  void sweep(Demands &demands);
  /// Cycles of one execution of the kernel under the present choice.
  double cost(Demands &demands);
  double stepCost(unsigned step, LayoutId base);
  /// Of writing a placed value to the buffer of a dot's operand.
  double bufferCost(const LayoutUse &use);
  double conversion(const LayoutValue &value, LayoutId from, LayoutId to);

private:
  struct Builder;
  llvm::DenseMap<uint64_t, LayoutId> resultMemo;
  llvm::DenseMap<uint64_t, double> bufferMemo;
  llvm::DenseMap<std::pair<uint64_t, uint64_t>, double> conversionMemo;
};

/// A value as a buffer sees it: the elements of `source`, in its order in memory, under the views
/// (transpositions, and reshapes that only add or drop dimensions of size 1) that lead to it.
struct ViewedValue {
  mlir::Value source;
  llvm::SmallVector<mlir::Operation *, 2> views; ///< the one next to the source comes last

  explicit ViewedValue(mlir::Value value);
  /// The layout of a buffer of the source that the views show in `layout`.
  layout::LinearLayout behind(layout::LinearLayout layout) const;
};

} // namespace nereid::gpu
