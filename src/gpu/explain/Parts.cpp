// Divided kernels in the report: which warps copy and compute, and the channels between them.
#include "gpu/explain/Explain.h"

#include "ir/ngpu/Programs.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace nereid::gpu {

using explain::SourcePlace;
using transforms::placeOf;

namespace {

/// The mbarriers of all slots that a slot's is one of.
Value allSlots(Value barrier) {
  auto slot = barrier.getDefiningOp<ngpu::SlotOp>();
  return slot ? slot.getBuffer() : barrier;
}

/// Of the author's loop around an op; of an op without one its own.
SourcePlace placeOfLoop(Operation *op) {
  auto loop = op->getParentOfType<scf::ForOp>();
  return placeOf(loop && !ngpu::isOverPrograms(loop) ? loop.getLoc() : op->getLoc());
}

/// Products of a turn of the loop at `place`, counted once where the loop is there in two versions.
unsigned countProducts(Region &part, const SourcePlace &place) {
  std::vector<SourcePlace> known;
  part.walk([&](Operation *op) {
    if (!isa<ngpu::WgmmaOp, ngpu::MmaOp>(op) || !(placeOfLoop(op) == place))
      return;
    SourcePlace own = placeOf(op->getLoc());
    if (llvm::none_of(known, [&](const SourcePlace &other) { return other == own; }))
      known.push_back(own);
  });
  return known.size();
}

void addChannels(ngpu::WarpSpecializeOp divided, unsigned number, explain::Report &report) {
  llvm::MapVector<Value, explain::ChannelFact> channels;
  divided.getParts()[number].walk([&](ngpu::TmaLoadOp load) {
    Value barriers = allSlots(load.getBarrier());
    explain::ChannelFact &channel = channels[barriers];
    ngpu::BufferType block = load.getBuffer().getType();
    if (channel.blocks.empty()) {
      channel.place = placeOfLoop(load);
      channel.part = number;
      channel.products = countProducts(divided.getParts().front(), channel.place);
      ArrayRef<int64_t> shape = cast<ngpu::BufferType>(barriers.getType()).getShape();
      channel.slots = shape.size() > 1 ? shape.front() : 1;
    } else if (!(channel.place == placeOfLoop(load))) {
      return; // the same channel in another loop
    }
    auto type = RankedTensorType::get(block.getShape(), block.getElementType());
    channel.bytes += type.getNumElements() * tile::sizeInBytes(type.getElementType());
    channel.blocks.push_back(transforms::shapeOf(type));
    channel.parameters.push_back(report.parameterAt(placeOf(load.getLoc())));
  });
  for (auto &[barriers, channel] : channels)
    report.channels.push_back(std::move(channel));
}

} // namespace

void explainParts(func::FuncOp kernel, explain::Report &report) {
  kernel.walk([&](ngpu::WarpSpecializeOp divided) {
    ArrayRef<int32_t> registers = divided.getRegisters();
    unsigned first = 0;
    for (unsigned number = 0; number < divided.getParts().size(); ++number) {
      explain::PartFact part;
      part.firstWarp = first;
      part.warps = number ? divided.getPartitionWarps()[number - 1] : ngpu::warpCount(kernel);
      part.registers = number < registers.size() ? registers[number] : 0;
      // With registers of their own parts begin at a multiple of four warps.
      first += registers.empty() ? part.warps : llvm::alignTo(part.warps, 4);
      report.parts.push_back(part);
      if (number)
        addChannels(divided, number, report);
    }
  });
}

} // namespace nereid::gpu
