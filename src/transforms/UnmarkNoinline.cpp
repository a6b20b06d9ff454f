// Which functions marked `noinline` stay functions. A function that is inlined has everything that
// its caller has; one that stays gets its arguments alone. So a function that needs more than these
// loses `no_inline` here, before the inliner; so does every function that calls one, since the
// needs of a callee are those of its caller.
//
// On a target that spreads tensors over threads (`keep=scalars`) a function needs its caller when
//  - it has tensors: their layouts are chosen for the kernel as a whole;
//  - it computes on pointers, and the kernel has arguments marked `tile.large`: offsets into these
//    are computed in 64 bits (widen-offsets), which follows them from the kernel's arguments.
//
// A target that emits a kernel as one function (`keep=none`: the CPU) has all functions inlined:
// program ids, scratch memory, printing, and the extents of checked mode are the kernel's.
#include "transforms/Passes.h"

#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Pass/Pass.h"

namespace nereid::transforms {
#define GEN_PASS_DEF_UNMARKNOINLINE
#include "transforms/Passes.h.inc"

namespace {

using namespace mlir;

bool hasLargeArgument(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (function.getArgAttr(i, "tile.large"))
        return true;
  return false;
}

class UnmarkNoinline final : public impl::UnmarkNoinlineBase<UnmarkNoinline> {
public:
  using UnmarkNoinlineBase::UnmarkNoinlineBase;

  void runOnOperation() override {
    auto module = cast<ModuleOp>(getOperation());
    if (keep != "scalars" && keep != "none") {
      module.emitError("unmark-noinline: `keep` is `scalars` or `none`");
      return signalPassFailure();
    }
    large = hasLargeArgument(module);
    module.walk([&](func::CallOp call) {
      auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
      if (!call.getNoInline() || !callee || callee.isExternal() ||
          (keep == "scalars" && !needsCaller(module, callee)))
        return;
      call.setNoInline(false);
      callee.setNoInline(false);
    });
  }

private:
  /// Whether an operation needs more than the arguments of the function that it stands in.
  bool needsMore(Operation *op) const {
    auto isTensor = [](Type type) { return isa<RankedTensorType>(type); };
    return llvm::any_of(op->getResultTypes(), isTensor) ||
           llvm::any_of(op->getOperandTypes(), isTensor) || (large && isa<tile::AddPtrOp>(op));
  }

  /// The same of the function or one that it calls. Calls form no cycle: the language has no
  /// recursion that the front end does not unfold.
  bool needsCaller(ModuleOp module, func::FuncOp function) {
    auto [known, isNew] = decided.try_emplace(function, false);
    if (!isNew)
      return known->second;
    bool needs = function
                     .walk([&](Operation *op) {
                       bool more = needsMore(op);
                       if (auto call = dyn_cast<func::CallOp>(op); call && !more)
                         if (auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee()))
                           more = needsCaller(module, callee);
                       return more ? WalkResult::interrupt() : WalkResult::advance();
                     })
                     .wasInterrupted();
    return decided[function] = needs;
  }

  bool large = false;
  llvm::DenseMap<Operation *, bool> decided;
};

} // namespace
} // namespace nereid::transforms
