// --test-shared-accesses: says, as a remark on every op that moves registers to or from shared
// memory (and on every cp.async), how one instruction does it and how many turns its banks need for
// each turn that its bytes need: "4 bytes a lane" or "4 matrices, transposed", "no bank conflicts"
// or "bank conflicts: 2". For the tests of the GPU passes; `sm` as for --gpu-pipeline.
#include "ir/ngpu/Dialect.h"
#include "layout/Conversion.h"

#include "mlir/Pass/Pass.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace nereid;
using namespace nereid::layout;

namespace {

struct TestSharedAccesses : public PassWrapper<TestSharedAccesses, OperationPass<>> {
  TestSharedAccesses() = default;
  TestSharedAccesses(const TestSharedAccesses &other) : PassWrapper(other) {}

  StringRef getArgument() const final { return "test-shared-accesses"; }
  StringRef getDescription() const final { return "print widths and bank conflicts"; }

  void report(Operation *op, RankedTensorType tensor, ngpu::BufferType buffer, bool matrices,
              unsigned most = 16) {
    const LinearLayout &distributed = ngpu::layoutOf(tensor).getLayout();
    const LinearLayout &memory = buffer.getLayout().getLayout();
    unsigned bytes = tile::sizeInBytes(buffer.getElementType());
    SharedAccess access = sharedAccess(distributed, memory, 8 * bytes, matrices, most);
    InFlightDiagnostic remark = op->emitRemark();
    if (access.matrix)
      remark << access.matrix->matrices
             << (access.matrix->transposed ? " matrices, transposed" : " matrices");
    else
      remark << access.vector.elements * bytes << " bytes a lane";
    if (access.conflicts == 1)
      remark << ", no bank conflicts";
    else
      remark << ", bank conflicts: " << access.conflicts;
  }

  void runOnOperation() override {
    // stmatrix has no mask: copies are stored by their owners one by one.
    auto store = [&](Operation *op, Value source, ngpu::BufferType buffer) {
      auto tensor = cast<RankedTensorType>(source.getType());
      const LinearLayout &layout = ngpu::layoutOf(tensor).getLayout();
      report(op, tensor, buffer,
             sm >= 90 && !layout.freeBits(Axis::Lane) && !layout.freeBits(Axis::Warp));
    };
    getOperation()->walk([&](Operation *op) {
      llvm::TypeSwitch<Operation *>(op)
          .Case([&](ngpu::LocalAllocOp alloc) {
            if (alloc.getSrc())
              store(op, alloc.getSrc(), alloc.getType());
          })
          .Case([&](ngpu::LocalStoreOp local) {
            store(op, local.getSrc(), local.getBuffer().getType());
          })
          .Case([&](ngpu::LocalLoadOp load) {
            report(op, cast<RankedTensorType>(load.getType()), load.getBuffer().getType(), true);
          })
          .Case([&](ngpu::AsyncCopyOp copy) {
            report(op, cast<RankedTensorType>(copy.getPtr().getType()), copy.getBuffer().getType(),
                   false, copy.getContiguity());
          });
    });
  }

  Option<int> sm{*this, "sm", llvm::cl::desc("compute capability times ten"), llvm::cl::init(90)};
};

} // namespace

void registerTestSharedAccesses() {
  PassRegistration<TestSharedAccesses>();
}
