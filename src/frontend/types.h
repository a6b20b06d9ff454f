// The types of the language, as an author sees them.
//
// The IR's integers are signless and its bool is an i1; the sign of an integer, const pointers and
// the names of types exist only here. A `Type` is a small value: compare with ==, copy freely.
#pragma once

#include "mlir/IR/Types.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace nereid::frontend {

/// A scalar type, `tl.float32` and its kin. Rows of dtypes.def: name in the language, short name,
/// bits, class.
enum class DType : uint8_t {
#define DTYPE(Enum, ...) Enum,
#include "frontend/dtypes.def"
#undef DTYPE
};

enum class DTypeClass : uint8_t { Void, Bool, SignedInt, UnsignedInt, Float, Float8 };

struct DTypeInfo {
  const char *name;      ///< attribute of `tl`: "float32"
  const char *shortName; ///< as in messages and signatures: "fp32"
  unsigned bits;         ///< primitive_bitwidth: 1 for int1
  DTypeClass kind;
  unsigned mantissaBits; ///< fp_mantissa_width; 0 for integers
  int exponentBias;      ///< 0 for integers
};

const DTypeInfo &info(DType type);
/// By either name, or by torch's and numpy's ("bool", "half", "float", "uint16"...). Nothing when
/// unknown.
std::optional<DType> dtypeByName(llvm::StringRef name);

bool isFloat(DType type);     ///< fp8 included
bool isInt(DType type);       ///< bool included
bool isSignedInt(DType type); ///< bool is unsigned
bool isBool(DType type);
bool isFloat8(DType type);
/// An 8-bit float that is a byte to every target: conversions are written in the language.
bool isSoftwareFloat8(DType type);

/// The type of a run-time value: a scalar or pointer, a block of them, or a tensor descriptor.
struct Type {
  DType scalar = DType::Void; ///< of the value, or of what the pointer points to
  bool isPointer = false;
  bool isConst = false;                ///< pointer to const
  bool isDescriptor = false;           ///< of a tensor of `scalar`, in blocks of `block`
  bool padsNaN = false;                ///< of a descriptor: NaN is read outside, not zero
  bool roundsTF32 = false;             ///< of a descriptor of fp32: loads round to TF32
  uint8_t addressSpace = 1;            ///< of the pointer
  llvm::SmallVector<int64_t, 4> shape; ///< empty for a scalar and for a descriptor
  llvm::SmallVector<int64_t, 4> block; ///< empty but for a descriptor

  static Type of(DType scalar, llvm::ArrayRef<int64_t> shape = {});
  static Type pointerTo(DType pointee, bool isConst = false);
  static Type descriptorOf(DType scalar, llvm::ArrayRef<int64_t> block, bool padsNaN = false,
                           bool roundsTF32 = false);

  bool isBlock() const { return !shape.empty(); }
  bool isArithmetic() const { return !isPointer && !isDescriptor && scalar != DType::Void; }
  int64_t numElements() const;
  /// The same element with another shape.
  Type withShape(llvm::ArrayRef<int64_t> newShape) const;
  /// The element: this type without its shape.
  Type element() const { return withShape({}); }
  /// Another scalar, of the same shape, no pointer.
  Type withScalar(DType newScalar) const;

  bool operator==(const Type &other) const;
  bool operator!=(const Type &other) const { return !(*this == other); }

  /// Of a descriptor, as in signatures behind the block: "", ", nan", ", tf32" or ", nan, tf32".
  std::string descriptorOptions() const;
  /// The block that a descriptor reads and writes.
  Type blockType() const { return of(scalar, block); }

  /// `int32`, `pointer<fp32>`, `<['16', '32'], fp32>`, `tensor_descriptor<fp32[16, 32]>`: the text
  /// users see in messages.
  std::string str() const;
  /// The mangled form used in names of specialisations: "i32", "Pfp32", "fp32S16_32S".
  std::string mangle() const;
  /// The type in tile IR.
  mlir::Type toIR(mlir::MLIRContext &context) const;
};

/// Parses a signature's type: "*fp32", "*kfp16", "i32", "u1", "fp32", "tensordesc<fp16[64, 64]>",
/// "tensordesc<fp16[64, 64], nan>", "tensordesc<fp32[64, 64], tf32>". Nothing when it is not one.
std::optional<Type> parseSignatureType(llvm::StringRef text);

/// Dimensions of a descriptor at most.
constexpr unsigned maxDescriptorRank = 5;

} // namespace nereid::frontend
