// --test-integer-analysis: says, as a remark on every operation with an integer or pointer result
// (and on every loop for its block arguments), what the analysis knows; for the tests beside it.
// The form is, per dimension, "LENGTH by STEP from DIVISIBILITYx", then the range if it is not the
// full one, or "= NUMBER".
#include "ir/tile/Dialect.h"
#include "transforms/IntegerAnalysis.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace nereid::transforms;

namespace {

struct TestIntegerAnalysis : public PassWrapper<TestIntegerAnalysis, OperationPass<>> {
  TestIntegerAnalysis() = default;
  TestIntegerAnalysis(const TestIntegerAnalysis &other) : PassWrapper(other) {}

  StringRef getArgument() const final { return "test-integer-analysis"; }
  StringRef getDescription() const final { return "print what the integer analysis knows"; }

  void runOnOperation() override {
    IntegerAnalysis analysis(getOperation(), speculative ? Mode::Speculative : Mode::Proven);
    auto report = [&](llvm::raw_ostream &os, Value value) {
      auto *info = analysis.lookup(value);
      if (!info)
        return;
      os << (os.tell() ? " | " : "");
      info->print(os);
      if (isa<RankedTensorType>(value.getType()) && !info->constant() && info->elementUnit() == 1)
        for (unsigned d = 0; d < info->runs().size(); ++d)
          if (!analysis.signExtensionKeepsRuns(value, d))
            os << ", may wrap along " << d;
    };
    getOperation()->walk<WalkOrder::PreOrder>([&](Operation *op) {
      std::string text;
      llvm::raw_string_ostream os(text);
      if (!isa<func::FuncOp>(op))
        for (Region &region : op->getRegions())
          for (Value argument : region.getArguments())
            report(os, argument);
      for (Value result : op->getResults())
        report(os, result);
      if (!text.empty())
        op->emitRemark() << text;
    });
  }

  Option<bool> speculative{*this, "speculative", llvm::cl::desc("suppose that nothing wraps")};
};

} // namespace

void registerTestIntegerAnalysis() {
  PassRegistration<TestIntegerAnalysis>();
}
