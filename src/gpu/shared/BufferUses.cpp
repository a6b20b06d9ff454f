#include "gpu/shared/BufferUses.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace nereid::gpu {

BufferUses::BufferUses(func::FuncOp function) {
  // Values flow around loops: until nothing new is found.
  bool changed = true;
  while (changed) {
    changed = false;
    function.walk<WalkOrder::PreOrder>([&](Operation *op) { changed |= visit(op); });
  }
}

llvm::ArrayRef<BufferPart> BufferUses::parts(Value buffer) const {
  auto found = known.find(buffer);
  return found == known.end() ? llvm::ArrayRef<BufferPart>() : found->second;
}

bool BufferUses::flow(Value from, Value to) {
  if (!isa<ngpu::BufferType>(to.getType()))
    return false;
  bool changed = false;
  SmallVector<BufferPart> source(parts(from));
  for (const BufferPart &part : source)
    if (auto &target = known[to]; !llvm::is_contained(target, part)) {
      target.push_back(part);
      changed = true;
    }
  return changed;
}

bool BufferUses::visit(Operation *op) {
  bool changed = false;
  auto flowAll = [&](ValueRange from, ValueRange to) {
    for (auto [source, target] : llvm::zip_equal(from, to))
      changed |= flow(source, target);
  };
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](ngpu::LocalAllocOp alloc) {
        auto &target = known[alloc.getResult()];
        if (target.empty()) {
          target.push_back({alloc, 0, alloc.getType().getBytes()});
          changed = true;
        }
      })
      .Case([&](ngpu::SlotOp slot) {
        APInt index;
        if (!matchPattern(slot.getIndex(), m_ConstantInt(&index))) {
          changed |= flow(slot.getBuffer(), slot.getResult());
          return;
        }
        int64_t stride = slot.getType().getSlots() * slot.getBuffer().getType().getSlotBytes();
        SmallVector<BufferPart> wholes(parts(slot.getBuffer()));
        for (BufferPart part : wholes) {
          if (part.bytes >= (index.getSExtValue() + 1) * stride) {
            part.offset += index.getSExtValue() * stride;
            part.bytes = stride;
          }
          if (auto &target = known[slot.getResult()]; !llvm::is_contained(target, part)) {
            target.push_back(part);
            changed = true;
          }
        }
      })
      .Case<ngpu::SubviewOp, ngpu::TransBufferOp, ngpu::ReshapeBufferOp>(
          [&](auto view) { changed |= flow(view.getBuffer(), view.getResult()); })
      .Case([&](ngpu::WgmmaWaitOp wait) { flowAll(wait.getValues(), wait.getResults()); })
      .Case([&](arith::SelectOp select) {
        changed |= flow(select.getTrueValue(), select.getResult());
        changed |= flow(select.getFalseValue(), select.getResult());
      })
      .Case([&](scf::ForOp loop) {
        ValueRange yielded = loop.getBody()->getTerminator()->getOperands();
        flowAll(loop.getInitArgs(), loop.getRegionIterArgs());
        flowAll(yielded, loop.getRegionIterArgs());
        flowAll(loop.getInitArgs(), loop.getResults());
        flowAll(yielded, loop.getResults());
      })
      .Case([&](scf::WhileOp loop) {
        flowAll(loop.getInits(), loop.getBeforeArguments());
        flowAll(loop.getYieldOp().getOperands(), loop.getBeforeArguments());
        flowAll(loop.getConditionOp().getArgs(), loop.getAfterArguments());
        flowAll(loop.getConditionOp().getArgs(), loop.getResults());
      })
      .Case([&](scf::IfOp branch) {
        for (Region &region : branch->getRegions())
          if (!region.empty())
            flowAll(region.front().getTerminator()->getOperands(), branch.getResults());
      })
      .Case([&](ngpu::WarpSpecializeOp parts) {
        flowAll(parts.getParts()[0].front().getTerminator()->getOperands(), parts.getResults());
      });
  return changed;
}

} // namespace nereid::gpu
