#include "gpu/OddShapes.h"

#include "ir/ngpu/Dialect.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::gpu {
namespace {

/// Row-major indices under `shape` of all registers of one thread; the tensor lies at `offset`
/// along `dim`.
SmallVector<int64_t> held(RankedTensorType type, ArrayRef<int64_t> shape, unsigned lane,
                          unsigned warp, unsigned dim = 0, int64_t offset = 0) {
  const LinearLayout &layout = ngpu::layoutOf(type).getLayout();
  Coords thread = layout.apply(0, lane % layout.size(Axis::Lane), warp % layout.size(Axis::Warp));
  SmallVector<int64_t> result;
  for (unsigned reg = 0, count = ngpu::registerCount(type); reg < count; ++reg) {
    ngpu::RegisterPlace place = ngpu::registerPlace(type, reg);
    int64_t flat = 0;
    for (unsigned d = 0; d < shape.size(); ++d)
      flat = flat * shape[d] + (place.core[d] ^ thread[d]) + place.repeatOffset[d] +
             (d == dim ? offset : 0);
    result.push_back(flat);
  }
  return result;
}

} // namespace

bool oddShapeCrossesThreads(Operation *op) {
  if (!isa<tile::ReshapeOp, tile::CatOp>(op))
    return false;
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  SmallVector<RankedTensorType, 2> sources;
  for (Value operand : op->getOperands())
    sources.push_back(cast<RankedTensorType>(operand.getType()));
  auto odd = [](RankedTensorType type) {
    return llvm::any_of(type.getShape(), [](int64_t size) { return repeatCount(size) > 1; });
  };
  if (!odd(result) && llvm::none_of(sources, odd))
    return false;
  auto cat = dyn_cast<tile::CatOp>(op);
  SmallVector<int> chosen;
  for (unsigned warp = 0; warp < ngpu::warpCount(op); ++warp)
    for (unsigned lane = 0; lane < 32; ++lane) {
      llvm::SmallDenseMap<int64_t, int, 32> holder;
      int number = 0;
      int64_t offset = 0;
      for (RankedTensorType source : sources) {
        for (int64_t flat : held(source, cat ? result.getShape() : source.getShape(), lane, warp,
                                 cat ? cat.getDim() : 0, offset))
          holder.try_emplace(flat, number++);
        offset += cat ? source.getDimSize(cat.getDim()) : 0;
      }
      SmallVector<int> mine;
      for (int64_t flat : held(result, result.getShape(), lane, warp)) {
        auto found = holder.find(flat);
        if (found == holder.end())
          return true;
        mine.push_back(found->second);
      }
      if (chosen.empty())
        chosen = mine;
      if (chosen != mine)
        return true;
    }
  return false;
}

} // namespace nereid::gpu
