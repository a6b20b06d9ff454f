// --test-shared-accesses: says, as a remark on every op that moves registers to or from shared
// memory (and on every cp.async), how one instruction does it and how many turns its banks need for
// each turn that its bytes need: "4 bytes a lane" or "4 matrices, transposed", "no bank conflicts"
// or "bank conflicts: 2". For the tests of the GPU passes; `matrix-stores=0`: of a machine that
// cannot write matrices.
#include "gpu/shared/SharedUse.h"

#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace nereid;
using namespace nereid::layout;

namespace {

struct TestSharedAccesses : public PassWrapper<TestSharedAccesses, OperationPass<>> {
  TestSharedAccesses() = default;
  TestSharedAccesses(const TestSharedAccesses &other) : PassWrapper(other) {}

  StringRef getArgument() const final { return "test-shared-accesses"; }
  StringRef getDescription() const final { return "print widths and bank conflicts"; }

  void runOnOperation() override {
    getOperation()->walk([&](Operation *op) {
      std::optional<gpu::SharedUse> use = gpu::sharedUseOf(op, matrixStores);
      if (!use)
        return;
      const SharedAccess &access = use->access;
      InFlightDiagnostic remark = op->emitRemark();
      if (access.matrix)
        remark << access.matrix->matrices
               << (access.matrix->transposed ? " matrices, transposed" : " matrices");
      else
        remark << access.vector.elements * tile::sizeInBytes(use->buffer.getElementType())
               << " bytes a lane";
      if (access.conflicts == 1)
        remark << ", no bank conflicts";
      else
        remark << ", bank conflicts: " << access.conflicts;
    });
  }

  Option<bool> matrixStores{*this, "matrix-stores",
                            llvm::cl::desc("a warp can write matrices at once"),
                            llvm::cl::init(true)};
};

} // namespace

void registerTestSharedAccesses() {
  PassRegistration<TestSharedAccesses>();
}
