#include "targets/cpu/dot/Units.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/ErrorHandling.h"

namespace nereid::cpu {
namespace {

constexpr DotUnit table[] = {
    {"bf16_tiles",
     "tdpbf16ps (tiles of 16x32 and 32x16 bf16)",
     DotType::BF16,
     &Features::tileProducts,
     DotStorage::BF16,
     2,
     false,
     {"llvm.x86.tdpbf16ps"},
     true,
     true},
    {"i8_tiles",
     "tdpbssd (tiles of 16x64 and 64x16 bytes)",
     DotType::I8,
     &Features::tileProducts,
     DotStorage::I8,
     4,
     false,
     {"llvm.x86.tdpbssd"},
     true,
     true},
    {"f16_tiles",
     "tdpfp16ps (tiles of 16x32 and 32x16 f16)",
     DotType::F16,
     &Features::tileHalfProducts,
     DotStorage::F16,
     2,
     false,
     {"llvm.x86.tdpfp16ps"},
     true,
     true},
    {"bf16_blocks",
     "bfmmla (blocks of 2x4 and 4x2 bf16)",
     DotType::BF16,
     &Features::bf16MatrixProducts,
     DotStorage::BF16,
     4,
     false,
     {"llvm.aarch64.neon.bfmmla"},
     true,
     false,
     true},
    {"bf16x2",
     "bfdot (two products of bf16 a lane)",
     DotType::BF16,
     &Features::bf16MatrixProducts,
     DotStorage::BF16,
     2,
     false,
     {"llvm.aarch64.neon.bfdot"},
     true},
    {"i8_blocks",
     "smmla (blocks of 2x8 and 8x2 bytes)",
     DotType::I8,
     &Features::i8MatrixProducts,
     DotStorage::I8,
     8,
     false,
     {"llvm.aarch64.neon.smmla"},
     true,
     false,
     true},
    {"i8x4_signed",
     "sdot (four products of bytes a lane)",
     DotType::I8,
     &Features::signedProducts,
     DotStorage::I8,
     4,
     false,
     {"llvm.aarch64.neon.sdot"},
     true},
    {"bf16x2",
     "vdpbf16ps (two products of bf16 a lane)",
     DotType::BF16,
     &Features::bf16Products,
     DotStorage::BF16,
     2,
     false,
     {"llvm.x86.avx512bf16.dpbf16ps.128", "llvm.x86.avx512bf16.dpbf16ps.256",
      "llvm.x86.avx512bf16.dpbf16ps.512"},
     true},
    {"f32", "multiply-adds of fp32", DotType::BF16, nullptr, DotStorage::F32, 1, false, {}, false},
    {"i8x4",
     "vpdpbusd (four products of bytes a lane)",
     DotType::I8,
     &Features::byteProducts,
     DotStorage::I8,
     4,
     true,
     {"llvm.x86.avx512.vpdpbusd.128", "llvm.x86.avx512.vpdpbusd.256",
      "llvm.x86.avx512.vpdpbusd.512"},
     true},
    {"i16x2",
     "pmaddwd (two products of 16 bits a lane)",
     DotType::I8,
     &Features::pairProducts,
     DotStorage::I16,
     2,
     false,
     {"llvm.x86.sse2.pmadd.wd", "llvm.x86.avx2.pmadd.wd", "llvm.x86.avx512.pmaddw.d.512"},
     false},
    {"i8",
     "multiplications and additions of int32",
     DotType::I8,
     nullptr,
     DotStorage::I8,
     1,
     false,
     {},
     false},
    {"f32", "multiply-adds of fp32", DotType::F16, nullptr, DotStorage::F32, 1, false, {}, false},
    {"f32", "multiply-adds of fp32", DotType::F32, nullptr, DotStorage::F32, 1, false, {}, false},
    {"f64", "multiply-adds of fp64", DotType::F64, nullptr, DotStorage::F64, 1, false, {}, false},
};

/// A product of tiles takes the 16 clocks of 16 rows by 16 units even where fewer count: from four
/// of each on this is less than vectors take. Of a block with one row half is wasted.
bool isWorthIt(const DotUnit &unit, int64_t m, int64_t k) {
  return unit.tiles ? m >= 4 && k >= 4 * unit.group : !unit.blocks || m >= 2;
}

} // namespace

const DotUnit &dotUnit(DotType type, int64_t m, int64_t k, const Features &features) {
  for (const DotUnit &unit : table)
    if (unit.type == type && (!unit.needs || features.*unit.needs) && isWorthIt(unit, m, k))
      return unit;
  llvm_unreachable("every type has a row that any machine runs");
}

mlir::Type storageType(mlir::MLIRContext *context, const DotUnit &unit) {
  switch (unit.storage) {
  case DotStorage::F32:
    return mlir::Float32Type::get(context);
  case DotStorage::F64:
    return mlir::Float64Type::get(context);
  case DotStorage::BF16:
    return mlir::BFloat16Type::get(context);
  case DotStorage::F16:
    return mlir::Float16Type::get(context);
  case DotStorage::I8:
    return mlir::IntegerType::get(context, 8);
  case DotStorage::I16:
    return mlir::IntegerType::get(context, 16);
  }
  llvm_unreachable("a storage without a type");
}

mlir::Type accumulatorType(mlir::MLIRContext *context, const DotUnit &unit) {
  if (unit.type == DotType::F64)
    return mlir::Float64Type::get(context);
  if (unit.type == DotType::I8)
    return mlir::IntegerType::get(context, 32);
  return mlir::Float32Type::get(context);
}

} // namespace nereid::cpu
