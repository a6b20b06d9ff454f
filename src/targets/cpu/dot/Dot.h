// The register-blocked matrix product of two tiles that lie in memory: C[M x N] += A[M x K] * B[K x
// N], static shapes, any M, N, K >= 1. Emits scf loops around outer products: for each step of K,
// NV vectors of B are loaded and each of MR elements of A is broadcast, giving MR * NV independent
// multiply-adds on accumulators that stay in registers for all of K.
//
// Operands are reached through an `!llvm.ptr` and strides in elements. B and C have contiguous
// rows. A may be row-major (aRowStride = lda, aColStride = 1), transposed, or packed; each of its
// elements is read once per column panel, so a row-major tile that fits L1 or L2 needs no packing.
// B is best row-major with bRowStride = N, or packed in the order of `columnPanels()` (see
// DotBlocking): panel after panel, each K x width.
//
// Units of blocks (Blocks.cpp) have accumulators of 2 x 2 elements; otherwise the loops are the
// same.
//
// Types: f32 and f64 (A, B, C alike), i8 (A and B i8 signed, C i32: sums wrap), bf16 (C f32). How
// the operands of the last two lie in memory follows from the machine's instructions (Units.h);
// with groups, a step of K below is a group. Tiles of f16, and of bf16 on machines without products
// of them, are converted to f32 while they are copied to the buffers; a dot with an f16 result
// accumulates in f32 and is rounded once at the end, when C is converted back. fp32 is IEEE on
// every input precision: better than tf32 asks for.
#pragma once
#include "targets/cpu/Features.h"
#include "targets/cpu/dot/Units.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace nereid::cpu {

// The blocking, a function of shape, type and features alone.
struct DotBlocking {
  const DotUnit *unit;
  int64_t m, n;
  int64_t k;     // steps: groups of K
  int64_t lanes; // of a full accumulator vector
  // Rows (of units of blocks: pairs of rows) are cut into `rowBlocks` of `rows` + 1 (the first
  // `longBlocks`) or `rows` rows.
  int64_t rowBlocks, longBlocks, rows;
  // Columns are cut into `panels` of `panelWidth`, then one of `tailWidth` (0: none). Of a unit of
  // tiles the last block and the last panel may reach beyond M and N.
  int64_t panels, panelWidth, tailWidth;
  int64_t unroll; // steps of K in the loop's body
};
/// `k` in elements.
DotBlocking blockDot(DotType type, int64_t m, int64_t n, int64_t k, const Features &features);

struct DotOperands {
  mlir::Value a, b, c; // !llvm.ptr
  // Strides of A and B in units: elements, or groups where the instruction takes them.
  int64_t aRowStride, aColStride;
  int64_t bRowStride;     // used when not bPacked
  int64_t bColStride = 1; // other than 1 of units of blocks only
  bool bPacked = false;
  int64_t cRowStride;
  bool zeroC = false; // C = A * B: C's old contents are not read
  mlir::Value fresh;  // or an i1: whether that is so; null: C += A * B
  mlir::Value bias;   // of a biased unit: N i32 to take away from each row (emitColumnSums)
  mlir::Value edge;   // of tiles, where M or N is no multiple of 16: memory for a tile of C
};
// Emits at the builder's insertion point; leaves it after the loops.
void emitDot(mlir::OpBuilder &builder, mlir::Location loc, const DotBlocking &plan,
             const DotOperands &operands, const Features &features);

/// Around all products of tiles, once for a kernel: sets the eight tile registers up, each of 16
/// rows of 64 bytes, from a constant that is added to the module; and gives them back. A product
/// keeps nothing in them afterwards, so calls in between save no tiles.
void emitTileSetup(mlir::OpBuilder &builder, mlir::Location loc, mlir::ModuleOp module);
void emitTileRelease(mlir::OpBuilder &builder, mlir::Location loc);

/// Of a biased unit: writes 128 times the sum of each column of B, as the units of `operands.b`
/// hold it, to the N i32 at `operands.bias`.
void emitColumnSums(mlir::OpBuilder &builder, mlir::Location loc, const DotBlocking &plan,
                    const DotOperands &operands, const Features &features);

} // namespace nereid::cpu
