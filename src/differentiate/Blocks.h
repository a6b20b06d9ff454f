// Small computations on blocks of floats that derivatives are made of.
#pragma once

#include "ir/tile/Dialect.h"

#include "mlir/IR/Builders.h"

namespace nereid::differentiate {

/// A float, or a block of one, of this type.
mlir::Value constantOf(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type, double value);
mlir::Value zeroOf(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type);

/// Converts among fp16, bf16, fp32 and fp64, elementwise.
mlir::Value convertTo(mlir::OpBuilder &builder, mlir::Value value, mlir::Type element);

/// The sum along an axis, which is gone; of a block of one dimension a scalar. Floats of 16 bits
/// are summed in fp32.
mlir::Value sumAlong(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value block,
                     unsigned axis);
mlir::Value sumOfAll(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value block);

/// A value without an axis of a block of this type, the same all along the axis.
mlir::Value repeatAlong(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                        unsigned axis, mlir::RankedTensorType type);

/// The position of every element along an axis, i32, with the shape of a block.
mlir::Value positionsAlong(mlir::OpBuilder &builder, mlir::Location loc, unsigned axis,
                           llvm::ArrayRef<int64_t> shape);

/// A block of one dimension, repeated to the shape of `like`, of which it is dimension `dim`.
mlir::Value alongDim(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value line, unsigned dim,
                     mlir::RankedTensorType like);

/// Where along the axis the first of the largest (smallest) elements is, i32; numbers before NaN.
mlir::Value firstExtremum(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value block,
                          unsigned axis, bool isLargest);

} // namespace nereid::differentiate
