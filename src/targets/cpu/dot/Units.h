// The instructions that matrix products are made of, as a table: one row for each way that an
// instruction set multiplies operands of one type.
//
// An instruction takes a *group* of neighbours along K in each 32-bit lane: two bf16 or i16, four
// bytes. Operands with groups lie in memory in units of 32 bits: A row by row, so that a unit is a
// piece of a row; B with the rows of a group interleaved, so that unit (k, n) holds
// B[k * group ... k * group + group - 1][n]. Where K is no multiple of the group, both are filled
// up with zeros.
//
// A unit of *tiles* (AMX) multiplies a tile of 16 x 16 units of A by one of B and adds to a tile of
// 16 x 16 elements of C. A lies as above, its rows filled up with zeros to whole tiles, and memory
// of whole tiles is readable below the last row. B lies row by row, or packed in panels of 16
// columns, one after the other, each row by row; either is filled up to whole tiles: with zeros
// along K, with anything in the columns behind the last.
//
// A unit of *blocks* (BFMMLA, SMMLA) multiplies 2 x 2 groups of 64 bits: two rows of A by two
// columns of B, and adds to a block of 2 x 2 elements of C. Either operand has its groups in rows
// (the groups of a row or column are neighbours) or interleaved (those of two rows or columns are).
#pragma once
#include "targets/cpu/Features.h"

#include "mlir/IR/Builders.h"

namespace nereid::cpu {

enum class DotType { F32, F64, I8, BF16, F16 };

/// The element type of an operand in memory.
enum class DotStorage { F32, F64, I8, I16, BF16, F16 };

struct DotUnit {
  const char *name;
  const char *instructions; // for people
  DotType type;
  bool Features::*needs; // null: any machine
  DotStorage storage;
  int64_t group; // elements of K in one lane, or in a row of a block
  /// The instruction takes A as unsigned: A is stored with 128 added, and the product of 128 with
  /// the sums of B's columns is taken away again.
  bool biased;
  /// The intrinsics of 128, 256 and 512 bits, or that of tiles or blocks; null: a multiplication
  /// and an addition.
  const char *intrinsics[3];
  bool accumulates; // the intrinsic adds to its first operand; else its result is added
  bool tiles = false;
  bool blocks = false;

  /// The bits of a group.
  unsigned wordBits() const { return blocks ? 64 : 32; }
};

/// Rows of a tile, and its units or elements of 32 bits in a row.
constexpr int64_t tileSize = 16;

/// The first row of the table for the type that the machine has and that is worth it for a product
/// of `m` rows and `k` elements of K.
const DotUnit &dotUnit(DotType type, int64_t m, int64_t k, const Features &features);

mlir::Type storageType(mlir::MLIRContext *context, const DotUnit &unit);
mlir::Type accumulatorType(mlir::MLIRContext *context, const DotUnit &unit);

} // namespace nereid::cpu
