// Loads and stores through block pointers: values of the prelude's class `block_pointer`.
#pragma once

#include "frontend/builtin.h"
#include "frontend/semantic.h"

namespace nereid::frontend {

bool isBlockPointer(const Value &value);

/// `load` and `store` whose `pointer` is a block pointer. The rows share the names of their
/// parameters with those of ordinary pointers.
FailureOr<Value> loadThroughBlock(Semantic &s, const BoundArgs &args);
FailureOr<Value> storeThroughBlock(Semantic &s, const BoundArgs &args);

} // namespace nereid::frontend
