// Conversions that cross warps, or that shared memory does cheaper than shuffles, become a buffer
// that is filled in one layout and read in the other. Very large ones stay, with `pieces`, and
// are moved piece by piece (SplitConversion.h).
#include "gpu/Passes.h"
#include "gpu/explain/Explain.h"
#include "gpu/layouts/Blocks.h"
#include "gpu/layouts/SplitConversion.h"
#include "ir/ngpu/Dialect.h"
#include "layout/Conversion.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::gpu {
namespace {

ngpu::BufferType bufferFor(RankedTensorType tensor, const LinearLayout &layout) {
  return ngpu::BufferType::get(tensor.getContext(), tensor.getShape(), tensor.getElementType(),
                               ngpu::LayoutAttr::get(tensor.getContext(), layout));
}

/// Bytes of a piece, and of one where shared memory is scarce.
constexpr int64_t kPiece = 64 * 1024, kSmallPiece = 16 * 1024;

void expand(ngpu::ConvertLayoutOp convert, const GpuOptions &options) {
  Value source = convert.getSrc();
  auto from = cast<RankedTensorType>(source.getType());
  auto to = cast<RankedTensorType>(convert.getType());
  ConversionPlan plan =
      planConversion(ngpu::layoutOf(from).getLayout(), ngpu::layoutOf(to).getLayout(),
                     8 * tile::sizeInBytes(from.getElementType()),
                     convert.getWithinWarps() ? Ways::WithinWarps : Ways::All);
  if (options.explanation)
    explainConversion(convert, plan.move, *options.explanation);
  if (plan.move != Move::Shared)
    return;
  OpBuilder builder(convert);
  // A value that is loaded from shared memory is loaded in the other layout at once. The load stays
  // at its place: the buffer may have changed since.
  if (auto load = source.getDefiningOp<ngpu::LocalLoadOp>()) {
    builder.setInsertionPoint(load);
    convert.replaceAllUsesWith(
        ngpu::LocalLoadOp::create(builder, load.getLoc(), to, load.getBuffer()).getResult());
    convert.erase();
    if (load->use_empty())
      load.erase();
    return;
  }
  // A value that is stored to shared memory needs no conversion before.
  for (OpOperand &use : llvm::make_early_inc_range(convert->getUses()))
    if (isa<ngpu::LocalAllocOp, ngpu::LocalStoreOp>(use.getOwner()))
      use.set(source);
  if (!convert->use_empty()) {
    Location loc = convert.getLoc();
    unsigned bits = 8 * tile::sizeInBytes(from.getElementType());
    ngpu::BufferType whole = bufferFor(from, plan.buffer);
    // Other buffers want a part of shared memory too.
    int64_t most =
        options.without.largeConversions ? kSmallPiece : options.machine.maxSharedBytes / 3 * 2;
    if (whole.getBytes() > most)
      if (auto split =
              splitConversion(ngpu::layoutOf(from).getLayout(), ngpu::layoutOf(to).getLayout(),
                              bits, options.without.largeConversions ? kSmallPiece : kPiece)) {
        convert.setPieces(split->pieces());
        return;
      }
    bool crosses = !keepsBlocks(ngpu::layoutOf(from).getLayout(), ngpu::layoutOf(to).getLayout(),
                                options.numWarps, options.numBlocks);
    auto buffer = ngpu::LocalAllocOp::create(builder, loc, whole, source, nullptr, crosses);
    convert.replaceAllUsesWith(ngpu::LocalLoadOp::create(builder, loc, to, buffer).getResult());
  }
  convert.erase();
}

} // namespace

llvm::Error expandConversions(func::FuncOp kernel, const GpuOptions &options) {
  SmallVector<ngpu::ConvertLayoutOp> conversions;
  kernel.walk([&](ngpu::ConvertLayoutOp op) { conversions.push_back(op); });
  for (ngpu::ConvertLayoutOp op : conversions)
    expand(op, options);
  return llvm::Error::success();
}

} // namespace nereid::gpu
