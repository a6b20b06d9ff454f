// Pictures of small layouts for documentation, tests and debugging.
#pragma once
#include "layout/LinearLayout.h"

namespace nereid::layout {

/// The last two dimensions (the others at 0) as a grid, a line for each row. A cell of a
/// distributed layout names the owner of the element, `lane.register`, with `block/` and `warp:`
/// before it if there are several; a cell of shared memory is its offset; `-` an element that no
/// thread holds. Of copies the place with zeros in the bits that do not matter is shown. At most
/// `limit` rows and columns.
std::string draw(const LinearLayout &layout, unsigned limit = 64);

} // namespace nereid::layout
