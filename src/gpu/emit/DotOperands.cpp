#include "gpu/emit/DotOperands.h"

using namespace nereid::layout;

namespace nereid::gpu {

RegisterMap::RegisterMap(mlir::RankedTensorType type)
    : rowCount(type.getDimSize(type.getRank() - 2)), count(ngpu::registerCount(type)) {
  unsigned rank = type.getRank();
  for (int64_t size : type.getShape().drop_back(2))
    batchCount *= size;
  for (unsigned reg = 0; reg < count; ++reg) {
    ngpu::RegisterPlace place = ngpu::registerPlace(type, reg);
    int64_t batch = 0;
    auto at = [&](unsigned dim) { return int64_t(place.core[dim]) + place.repeatOffset[dim]; };
    for (unsigned dim = 0; dim + 2 < rank; ++dim)
      batch = batch * type.getDimSize(dim) + at(dim);
    int64_t row = at(rank - 2), column = at(rank - 1);
    // Copies of an element in later registers are not looked at.
    if (registers.try_emplace({batch * rowCount + row, column}, reg).second) {
      allRows.push_back(row);
      allColumns.push_back(column);
    }
  }
  for (llvm::SmallVector<int64_t> *list : {&allRows, &allColumns}) {
    llvm::sort(*list);
    list->erase(llvm::unique(*list), list->end());
  }
}

unsigned RegisterMap::at(int64_t batch, int64_t row, int64_t column) const {
  auto found = registers.find({batch * rowCount + row, column});
  assert(found != registers.end() && "the verifier has checked the layout");
  return found->second;
}

BufferMap::BufferMap(llvm::ArrayRef<int64_t> shape, const LinearLayout &layout,
                     unsigned elementBits)
    : sizes(shape), cores(layout.shape()), offsets(layout.matrix().pseudoInverse()),
      coreElements(layout.size(Axis::Offset)), bits(elementBits) {}

int64_t BufferMap::operator()(llvm::ArrayRef<int64_t> coords) const {
  uint64_t flat = 0;
  int64_t repeat = 0;
  for (auto [at, size, core] : llvm::zip_equal(coords, sizes, cores)) {
    flat = flat * core + at % core;
    repeat = repeat * (size / core) + at / core;
  }
  return (int64_t(offsets.apply(flat)) + repeat * coreElements) * bits / 8;
}

} // namespace nereid::gpu
