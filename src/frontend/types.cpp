#include "frontend/types.h"

#include "llvm/ADT/StringSwitch.h"

namespace nereid::frontend {

static const DTypeInfo infos[] = {
#define DTYPE(Enum, Name, Short, Bits, Class, Mantissa, Bias)                                      \
  {Name, Short, Bits, DTypeClass::Class, Mantissa, Bias},
#include "frontend/dtypes.def"
#undef DTYPE
};

const DTypeInfo &info(DType type) {
  return infos[size_t(type)];
}

std::optional<DType> dtypeByName(llvm::StringRef name) {
  for (size_t i = 0; i < std::size(infos); ++i)
    if (name == infos[i].name || name == infos[i].shortName)
      return DType(i);
  // The names of torch and numpy, and the letters of signatures.
  return llvm::StringSwitch<std::optional<DType>>(name)
      .Cases({"bool", "i1", "u1", "bool_"}, DType::Int1)
      .Case("i8", DType::Int8)
      .Cases({"i16", "short"}, DType::Int16)
      .Cases({"i32", "int"}, DType::Int32)
      .Cases({"i64", "long"}, DType::Int64)
      .Case("u8", DType::UInt8)
      .Case("u16", DType::UInt16)
      .Case("u32", DType::UInt32)
      .Case("u64", DType::UInt64)
      .Cases({"half", "f16"}, DType::Float16)
      .Case("f32", DType::Float32)
      .Cases({"float", "single"}, DType::Float32)
      .Cases({"double", "f64"}, DType::Float64)
      .Cases({"float8_e4m3fn", "fp8e4m3fn"}, DType::Float8E4NV)
      .Cases({"float8_e5m2", "fp8e5m2"}, DType::Float8E5)
      .Case("float8_e4m3fnuz", DType::Float8E4B8)
      .Case("float8_e5m2fnuz", DType::Float8E5B16)
      .Default(std::nullopt);
}

bool isFloat(DType type) {
  return info(type).kind == DTypeClass::Float || info(type).kind == DTypeClass::Float8;
}
bool isInt(DType type) {
  return info(type).kind == DTypeClass::Bool || info(type).kind == DTypeClass::SignedInt ||
         info(type).kind == DTypeClass::UnsignedInt;
}
bool isSignedInt(DType type) {
  return info(type).kind == DTypeClass::SignedInt;
}
bool isBool(DType type) {
  return info(type).kind == DTypeClass::Bool;
}
bool isFloat8(DType type) {
  return info(type).kind == DTypeClass::Float8;
}
bool isSoftwareFloat8(DType type) {
  return type == DType::Float8E4B15 || type == DType::Float8E4B8 || type == DType::Float8E5B16;
}

Type Type::of(DType scalar, llvm::ArrayRef<int64_t> shape) {
  Type type;
  type.scalar = scalar;
  type.shape.assign(shape.begin(), shape.end());
  return type;
}

Type Type::pointerTo(DType pointee, bool isConst) {
  Type type = of(pointee);
  type.isPointer = true;
  type.isConst = isConst;
  return type;
}

Type Type::descriptorOf(DType scalar, llvm::ArrayRef<int64_t> block, bool padsNaN,
                        bool roundsTF32) {
  Type type = of(scalar);
  type.isDescriptor = true;
  type.padsNaN = padsNaN;
  type.roundsTF32 = roundsTF32;
  type.block.assign(block.begin(), block.end());
  return type;
}

int64_t Type::numElements() const {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

Type Type::withShape(llvm::ArrayRef<int64_t> newShape) const {
  Type type = *this;
  type.shape.assign(newShape.begin(), newShape.end());
  return type;
}

Type Type::withScalar(DType newScalar) const {
  return of(newScalar, shape);
}

bool Type::operator==(const Type &other) const {
  return scalar == other.scalar && isPointer == other.isPointer && isConst == other.isConst &&
         isDescriptor == other.isDescriptor && padsNaN == other.padsNaN &&
         roundsTF32 == other.roundsTF32 && addressSpace == other.addressSpace &&
         shape == other.shape && block == other.block;
}

std::string Type::descriptorOptions() const {
  return std::string(padsNaN ? ", nan" : "") + (roundsTF32 ? ", tf32" : "");
}

std::string Type::str() const {
  std::string text = info(scalar).shortName;
  if (isPointer)
    text = (isConst ? "const_pointer<" : "pointer<") + text + ">";
  if (isDescriptor) {
    std::string dims;
    for (int64_t size : block)
      dims += (dims.empty() ? "" : ", ") + std::to_string(size);
    return "tensor_descriptor<" + text + "[" + dims + "]" + descriptorOptions() + ">";
  }
  if (!isBlock())
    return text;
  std::string dims;
  for (int64_t size : shape)
    dims += (dims.empty() ? "'" : ", '") + std::to_string(size) + "'";
  return "<[" + dims + "], " + text + ">";
}

std::string Type::mangle() const {
  const DTypeInfo &row = info(scalar);
  std::string text;
  switch (row.kind) {
  case DTypeClass::Void:
    text = "V";
    break;
  case DTypeClass::Bool:
  case DTypeClass::UnsignedInt:
    text = "u" + std::to_string(row.bits);
    break;
  case DTypeClass::SignedInt:
    text = "i" + std::to_string(row.bits);
    break;
  case DTypeClass::Float:
  case DTypeClass::Float8:
    text = row.shortName;
    break;
  }
  if (isPointer)
    text = (isConst ? "Pk" : "P") + text +
           (addressSpace == 1 ? "" : "A" + std::to_string(addressSpace));
  if (isDescriptor) {
    text = std::string("D") + (padsNaN ? "N" : "") + (roundsTF32 ? "R" : "") + text;
    for (int64_t size : block)
      text += "_" + std::to_string(size);
    return text;
  }
  if (!isBlock())
    return text;
  text += "S";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? "_" : "") + std::to_string(shape[i]);
  return text + "S";
}

/// What stands between "tensordesc<" and ">".
static std::optional<Type> parseDescriptor(llvm::StringRef text) {
  auto option = [&](llvm::StringRef name) {
    llvm::StringRef rest = text.rtrim();
    bool isGiven = rest.consume_back(name) && (rest = rest.rtrim()).consume_back(",");
    if (isGiven)
      text = rest;
    return isGiven;
  };
  bool roundsTF32 = option("tf32"), padsNaN = option("nan");
  auto [name, rest] = text.rtrim().split('[');
  auto scalar = dtypeByName(name.trim());
  if (!scalar || *scalar == DType::Void || !rest.consume_back("]"))
    return std::nullopt;
  llvm::SmallVector<llvm::StringRef> sizes;
  rest.split(sizes, ',');
  llvm::SmallVector<int64_t, 4> block;
  for (llvm::StringRef size : sizes) {
    int64_t number = 0;
    if (size.trim().getAsInteger(10, number) || number < 1)
      return std::nullopt;
    block.push_back(number);
  }
  if (block.size() > maxDescriptorRank || (padsNaN && !isFloat(*scalar)) ||
      (roundsTF32 && *scalar != DType::Float32))
    return std::nullopt;
  return Type::descriptorOf(*scalar, block, padsNaN, roundsTF32);
}

std::optional<Type> parseSignatureType(llvm::StringRef text) {
  if (text.consume_front("tensordesc<"))
    return text.consume_back(">") ? parseDescriptor(text) : std::nullopt;
  if (text.consume_front("*")) {
    bool isConst = text.consume_front("k");
    if (auto pointee = dtypeByName(text))
      return Type::pointerTo(*pointee, isConst);
    return std::nullopt;
  }
  if (text == "B")
    return Type::of(DType::Int1);
  if (auto scalar = dtypeByName(text))
    return Type::of(*scalar);
  return std::nullopt;
}

} // namespace nereid::frontend
