// Tensor descriptors as values: what the rest of the front end needs of them.
#pragma once

#include "frontend/semantic.h"

namespace nereid::frontend {

/// A descriptor of `type` from its parts: one i32 size a dimension, one i64 stride a dimension but
/// the last.
Tensor makeDescriptor(Semantic &s, const Tensor &base, const Type &type, mlir::ValueRange sizes,
                      mlir::ValueRange strides);

/// `desc.name`: attributes and member functions; nothing when there is none of this name.
std::optional<Value> descriptorAttribute(Semantic &s, const Value &self, llvm::StringRef name);

} // namespace nereid::frontend
