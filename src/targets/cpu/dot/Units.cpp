#include "targets/cpu/dot/Units.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/ErrorHandling.h"

namespace nereid::cpu {
namespace {

constexpr DotUnit table[] = {
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
    {"f32", "multiply-adds of fp32", DotType::F32, nullptr, DotStorage::F32, 1, false, {}, false},
    {"f64", "multiply-adds of fp64", DotType::F64, nullptr, DotStorage::F64, 1, false, {}, false},
};

} // namespace

const DotUnit &dotUnit(DotType type, const Features &features) {
  for (const DotUnit &unit : table)
    if (unit.type == type && (!unit.needs || features.*unit.needs))
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
