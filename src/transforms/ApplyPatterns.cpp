#include "transforms/ApplyPatterns.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Rewrite/PatternApplicator.h"
#include "mlir/Transforms/FoldUtils.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;

namespace nereid::transforms {
namespace {

/// Operations to be visited, each once; the last one first.
class Pending {
public:
  void add(Operation *op) {
    if (places.try_emplace(op, ops.size()).second)
      ops.push_back(op);
  }
  void drop(Operation *op) {
    auto found = places.find(op);
    if (found == places.end())
      return;
    ops[found->second] = nullptr;
    places.erase(found);
  }
  /// Null when there are none.
  Operation *next() {
    while (!ops.empty())
      if (Operation *op = ops.pop_back_val()) {
        places.erase(op);
        return op;
      }
    return nullptr;
  }
  void turnRound() {
    std::reverse(ops.begin(), ops.end());
    for (auto [place, op] : llvm::enumerate(ops))
      if (op)
        places[op] = place;
  }

private:
  SmallVector<Operation *> ops;
  llvm::DenseMap<Operation *, size_t> places;
};

struct Rewriter final : PatternRewriter {
  explicit Rewriter(MLIRContext *context) : PatternRewriter(context) {}
};

class Driver : RewriterBase::Listener {
public:
  Driver(MLIRContext *context, const FrozenRewritePatternSet &patterns)
      : rewriter(context), folder(context, this), applicator(patterns) {
    rewriter.setListener(this);
    applicator.applyDefaultCostModel();
  }

  LogicalResult run(MutableArrayRef<Region> regions) {
    constexpr unsigned kMostRounds = 10;
    for (unsigned i = 0; i < kMostRounds; ++i)
      if (!round(regions))
        return success();
    return failure();
  }

private:
  /// One visit of everything, and of what changes meanwhile. Whether anything did.
  bool round(MutableArrayRef<Region> regions) {
    folder.clear();
    for (Region &region : regions)
      region.walk<WalkOrder::PreOrder>([&](Operation *op) {
        Attribute constant;
        if (matchPattern(op, m_Constant(&constant)) && !folder.insertKnownConstant(op, constant))
          return WalkResult::skip();
        pending.add(op);
        return WalkResult::advance();
      });
    pending.turnRound();
    bool changed = false;
    while (Operation *op = pending.next())
      changed |= visit(op);
    return succeeded(simplifyRegions(rewriter, regions)) || changed;
  }

  bool visit(Operation *op) {
    if (isOpTriviallyDead(op)) {
      rewriter.eraseOp(op);
      return true;
    }
    return (!op->hasTrait<OpTrait::ConstantLike>() && fold(op)) ||
           succeeded(applicator.matchAndRewrite(op, rewriter));
  }

  bool fold(Operation *op) {
    SmallVector<OpFoldResult> results;
    if (failed(op->fold(results)))
      return false;
    if (results.empty()) {
      notifyOperationModified(op);
      return true;
    }
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPoint(op);
    SmallVector<Value> values;
    for (auto [result, type] : llvm::zip(results, op->getResultTypes())) {
      if (auto value = dyn_cast<Value>(result)) {
        values.push_back(value);
        continue;
      }
      Operation *constant = op->getDialect()->materializeConstant(rewriter, cast<Attribute>(result),
                                                                  type, op->getLoc());
      if (!constant)
        return false; // Constants of other results are dead, and go.
      values.push_back(constant->getResult(0));
    }
    rewriter.replaceOp(op, values);
    return true;
  }

  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override { pending.add(op); }
  void notifyOperationModified(Operation *op) override { pending.add(op); }
  void notifyOperationReplaced(Operation *op, ValueRange) override {
    for (Operation *user : op->getUsers())
      pending.add(user);
  }
  void notifyOperationErased(Operation *op) override {
    // What loses its last user is dead, and what keeps one may match now.
    for (Value operand : op->getOperands())
      if (Operation *definition = operand.getDefiningOp(); definition && hasFewUsers(operand))
        pending.add(definition);
    pending.drop(op);
    if (op->hasTrait<OpTrait::ConstantLike>())
      folder.notifyRemoval(op);
  }

  /// Two at most.
  static bool hasFewUsers(Value value) {
    llvm::SmallPtrSet<Operation *, 2> users;
    for (Operation *user : value.getUsers())
      if (users.insert(user).second && users.size() > 2)
        return false;
    return true;
  }

  Rewriter rewriter;
  OperationFolder folder;
  PatternApplicator applicator;
  Pending pending;
};

} // namespace

LogicalResult applyPatterns(Operation *root, const FrozenRewritePatternSet &patterns) {
  return Driver(root->getContext(), patterns).run(root->getRegions());
}

} // namespace nereid::transforms
