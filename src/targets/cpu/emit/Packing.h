// Operands of a matrix product brought into the order in which the micro-kernel reads them
// (dot/Units.h). All are matrices of contiguous rows in scratch memory.
#pragma once
#include "targets/cpu/emit/Kernel.h"

namespace nereid::cpu {

/// Writes the transpose of a matrix of `rows` x `columns` elements, square by square: calls a
/// function of the module, one for all matrices of a size, because it has up to a hundred shuffles.
void emitTranspose(Kernel &kernel, mlir::Value source, mlir::Value target, int64_t rows,
                   int64_t columns, mlir::Type element);

/// Writes units of `group` elements: unit (i, j) holds column j of the rows i * group ... i * group
/// + group
/// - 1 of a matrix of `rows` x `columns` elements, zeros where there is no such row.
void emitInterleave(Kernel &kernel, mlir::Value source, mlir::Value target, int64_t rows,
                    int64_t columns, mlir::Type element, int64_t group);

/// Panels of 16 columns, `steps` units of 32 bits for each column, row by row; of the last panel
/// only the columns that exist are written.
///
/// From units in rows, of n x steps for n columns that must be filled up to whole panels: their
/// transpose.
void emitTransposedPanels(Kernel &kernel, mlir::Value source, mlir::Value target, int64_t n,
                          int64_t steps);
/// As emitInterleave, with zeros up to `steps`.
void emitInterleavedPanels(Kernel &kernel, mlir::Value source, mlir::Value target, int64_t rows,
                           int64_t columns, int64_t steps, mlir::Type element, int64_t group);

/// Copies a matrix of `rows` x `columns` elements to rows of `padded` elements, zeros at their
/// ends.
void emitPaddedRows(Kernel &kernel, mlir::Value source, mlir::Value target, int64_t rows,
                    int64_t columns, int64_t padded, mlir::Type element);

} // namespace nereid::cpu
