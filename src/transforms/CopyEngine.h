// What a copy engine can move, as far as targets agree.
#pragma once
#include "ir/tile/Dialect.h"

namespace nereid::transforms {

/// Addresses, strides and the last coordinate are multiples of so many bytes.
constexpr int64_t copyBytes = 16;

/// Has the block of a descriptor sizes that the engine moves? See ChooseTensorCopies.cpp.
bool blocksFit(tile::DescType type);

} // namespace nereid::transforms
