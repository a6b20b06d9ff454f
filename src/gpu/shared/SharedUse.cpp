#include "gpu/shared/SharedUse.h"

#include "explain/Report.h"
#include "transforms/Explain.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::gpu {

std::optional<SharedUse> sharedUseOf(Operation *op, bool matrixStores) {
  auto use = [&](RankedTensorType tensor, Value buffer, ngpu::BufferType type, bool matrices,
                 const char *what, unsigned most = 16) {
    unsigned bytes = tile::sizeInBytes(type.getElementType());
    return SharedUse{sharedAccess(ngpu::layoutOf(tensor).getLayout(), type.getLayout().getLayout(),
                                  8 * bytes, matrices, most),
                     type, buffer, what};
  };
  auto write = [&](Value source, Value buffer) {
    auto tensor = cast<RankedTensorType>(source.getType());
    const LinearLayout &layout = ngpu::layoutOf(tensor).getLayout();
    // stmatrix has no mask: copies are stored by their owners one by one.
    return use(tensor, buffer, cast<ngpu::BufferType>(buffer.getType()),
               matrixStores && !layout.freeBits(Axis::Lane) && !layout.freeBits(Axis::Warp),
               "write");
  };
  return llvm::TypeSwitch<Operation *, std::optional<SharedUse>>(op)
      .Case([&](ngpu::LocalAllocOp alloc) -> std::optional<SharedUse> {
        if (!alloc.getSrc())
          return std::nullopt;
        return write(alloc.getSrc(), alloc.getResult());
      })
      .Case([&](ngpu::LocalStoreOp store) { return write(store.getSrc(), store.getBuffer()); })
      .Case([&](ngpu::LocalLoadOp load) {
        return use(cast<RankedTensorType>(load.getType()), load.getBuffer(),
                   load.getBuffer().getType(), true, "read");
      })
      .Case([&](ngpu::AsyncCopyOp copy) {
        return use(cast<RankedTensorType>(copy.getPtr().getType()), copy.getBuffer(),
                   copy.getBuffer().getType(), false, "copy", copy.getContiguity());
      })
      .Default([](Operation *) { return std::nullopt; });
}

void explainSharedAccess(Operation *op, unsigned position, const BufferUses &uses,
                         const Machine &machine, explain::Report &report) {
  std::optional<SharedUse> use = sharedUseOf(op, machine.matrixStores);
  if (!use)
    return;
  explain::SharedAccessFact fact;
  fact.what = use->what;
  fact.place = transforms::placeOf(op->getLoc());
  fact.op = position;
  if (auto parts = uses.parts(use->value); !parts.empty()) {
    BufferPart part = parts.front();
    if (std::optional<uint32_t> offset = part.root.getOffset())
      fact.offset = int64_t(*offset) + part.offset;
  }
  if (use->access.matrix)
    fact.matrices = use->access.matrix->matrices;
  else
    fact.bytes = use->access.vector.elements * tile::sizeInBytes(use->buffer.getElementType());
  fact.conflicts = use->access.conflicts;
  if (fact.conflicts > 1)
    report.hint(explain::HintKind::BankConflicts, fact.place,
                {fact.what, std::to_string(fact.conflicts)});
  report.sharedAccesses.push_back(std::move(fact));
}

} // namespace nereid::gpu
