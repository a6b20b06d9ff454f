// A target that spreads tensors over threads chooses their layouts for the kernel as a whole: a
// function that stays on its own can only hold scalars. Functions that compute on tensors, also in
// functions they call, lose `no_inline` here, before the inliner; those of scalars keep it.
#include "transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Pass/Pass.h"

namespace nereid::transforms {
#define GEN_PASS_DEF_INLINEBLOCKFUNCTIONS
#include "transforms/Passes.h.inc"

namespace {

using namespace mlir;

class InlineBlockFunctions final : public impl::InlineBlockFunctionsBase<InlineBlockFunctions> {
  void runOnOperation() override {
    auto module = cast<ModuleOp>(getOperation());
    module.walk([&](func::CallOp call) {
      auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
      if (!call.getNoInline() || !callee || !holdsTensors(module, callee))
        return;
      call.setNoInline(false);
      callee.setNoInline(false);
    });
  }

  static bool isTensor(Type type) { return isa<RankedTensorType>(type); }

  /// Whether the function, or one that it calls, has a tensor. Calls form no cycle: the language
  /// has no recursion that the front end does not unfold.
  static bool holdsTensors(ModuleOp module, func::FuncOp function) {
    return function
        .walk([&](Operation *op) {
          bool tensors = llvm::any_of(op->getResultTypes(), isTensor) ||
                         llvm::any_of(op->getOperandTypes(), isTensor);
          if (auto call = dyn_cast<func::CallOp>(op); call && !tensors)
            if (auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee()))
              tensors = holdsTensors(module, callee);
          return tensors ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  }
};

} // namespace
} // namespace nereid::transforms
