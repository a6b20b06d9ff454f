#include "layout/Draw.h"

#include "llvm/ADT/STLExtras.h"

namespace nereid::layout {
namespace {

/// The name of the place that owns an element, given all axes' bits side by side.
std::string nameOf(const LinearLayout &layout, std::optional<uint64_t> place) {
  if (!place)
    return "-";
  std::array<uint64_t, kAxes> index;
  for (unsigned axis = 0; axis < kAxes; ++axis) {
    index[axis] = *place & uint64_t(layout.size(Axis(axis)) - 1);
    *place >>= layout.bits(Axis(axis));
  }
  auto part = [&](Axis axis) { return std::to_string(index[unsigned(axis)]); };
  std::string name;
  if (layout.bits(Axis::Block))
    name += part(Axis::Block) + "/";
  if (layout.bits(Axis::Offset))
    return name + part(Axis::Offset);
  if (layout.bits(Axis::Warp))
    name += part(Axis::Warp) + ":";
  return name + part(Axis::Lane) + "." + part(Axis::Register);
}

} // namespace

std::string draw(const LinearLayout &layout, unsigned limit) {
  auto sizeFromEnd = [&](unsigned back) {
    return layout.rank() < back ? 1 : layout.shape()[layout.rank() - back];
  };
  int64_t rows = sizeFromEnd(2), columns = sizeFromEnd(1);
  int64_t shownRows = std::min<int64_t>(rows, limit),
          shownColumns = std::min<int64_t>(columns, limit);
  BitMatrix matrix = layout.matrix();
  std::vector<std::string> cells;
  size_t width = 0;
  for (int64_t row = 0; row < shownRows; ++row)
    for (int64_t column = 0; column < shownColumns; ++column) {
      cells.push_back(nameOf(layout, matrix.solve(uint64_t(row * columns + column))));
      width = std::max(width, cells.back().size());
    }
  std::string text;
  for (auto [i, cell] : llvm::enumerate(cells)) {
    text += std::string(width - cell.size(), ' ') + cell;
    bool last = int64_t(i) % shownColumns == shownColumns - 1;
    text += !last ? " " : shownColumns < columns ? " ...\n" : "\n";
  }
  return shownRows < rows ? text + "...\n" : text;
}

} // namespace nereid::layout
