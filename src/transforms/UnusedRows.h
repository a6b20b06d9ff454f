// Elements of a tensor that no one sees.
#pragma once
#include "transforms/AffineForms.h"

namespace nereid::transforms {

/// Are the elements of `value` whose index along `dim` is not below `limit` of no consequence?
/// True when they only lead to other such elements (an operation element by element, a row of a
/// product, what a loop carries), and at last to stores whose mask excludes them. `loop`: where
/// `value` is computed, and whose values `forms` is about.
bool areUnused(mlir::Value value, unsigned dim, const Polynomial &limit, AffineForms &forms,
               mlir::scf::ForOp loop);

} // namespace nereid::transforms
