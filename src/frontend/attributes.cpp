// Attributes of the language's own values, and the members of its modules.
#include "frontend/builtin.h"
#include "frontend/builtins/descriptor.h"
#include "frontend/prelude.h"
#include "frontend/semantic.h"

namespace nereid::frontend {

static Value bound(const Value &self, const Builtin &builtin) {
  return Value(BuiltinValue{&builtin, std::make_shared<const Value>(self)});
}

static Value shapeValue(llvm::ArrayRef<int64_t> shape) {
  Tuple tuple;
  for (int64_t size : shape)
    tuple.items.push_back(Value::integer(size));
  return Value(std::move(tuple));
}

static FailureOr<std::optional<Value>> tensorAttribute(Semantic &s, const Value &self,
                                                       llvm::StringRef name) {
  const Tensor &tensor = self.get<Tensor>();
  const Type &type = tensor.type;
  if (type.isDescriptor)
    return descriptorAttribute(s, self, name);
  if (name == "dtype")
    return std::optional<Value>(Value(TypeValue{type.element()}));
  if (name == "type")
    return std::optional<Value>(Value(TypeValue{type}));
  if (name == "shape")
    return std::optional<Value>(shapeValue(type.shape));
  if (name == "numel")
    return std::optional<Value>(Value::integer(type.numElements()));
  if (name == "T") {
    auto turned = s.permute(tensor, {1, 0});
    if (failed(turned))
      return llvm::failure();
    return std::optional<Value>(Value(*turned));
  }
  if (const Builtin *builtin = findBuiltin(name); builtin && builtin->isMethod)
    return std::optional<Value>(bound(self, *builtin));
  if (const PreludeFunction *function = findPrelude(name); function && function->isMethod)
    return std::optional<Value>(
        Value(FunctionValue{function->function, std::make_shared<const Value>(self)}));
  return std::optional<Value>();
}

static std::optional<Value> typeAttribute(const Value &self, llvm::StringRef name) {
  const Type &type = self.get<TypeValue>().type;
  const DTypeInfo &row = info(type.scalar);
  unsigned bits = type.isPointer ? 64 : row.bits;
  if (name == "name")
    return Value(type.str());
  if (name == "primitive_bitwidth" || (name == "int_bitwidth" && isInt(type.scalar)))
    return Value::integer(bits);
  if (name == "itemsize")
    return Value::integer((bits + 7) / 8);
  if (name == "fp_mantissa_width" && isFloat(type.scalar))
    return Value::integer(row.mantissaBits);
  if (name == "exponent_bias" && isFloat(type.scalar))
    return Value::integer(row.exponentBias);
  if (name == "scalar")
    return Value(TypeValue{type.element()});
  if (name == "element_ty" && type.isBlock())
    return Value(TypeValue{type.element()});
  if (name == "element_ty" && type.isPointer)
    return Value(TypeValue{Type::of(type.scalar)});
  if (name == "int_signedness" && type.isArithmetic() && isInt(type.scalar))
    return Value::integer(!isBool(type.scalar) && !isSignedInt(type.scalar));
  if (name == "cache_key_part" && !type.isPointer && !type.isBlock())
    return Value(type.str());
  if (name == "KIND" || name == "SIGNEDNESS")
    return Value(ModuleValue{("triton.language.dtype." + name).str()});
  if ((name == "kind" && !type.isArithmetic()) || (name == "get_block_shapes" && !type.isBlock()))
    return std::nullopt;
  if (name == "address_space" && type.isPointer)
    return Value::integer(type.addressSpace);
  if (name == "const" && type.isPointer)
    return Value(type.isConst);
  if (name == "shape" && type.isBlock())
    return shapeValue(type.shape);
  if (name == "numel" && type.isBlock())
    return Value::integer(type.numElements());
  if (name == "nbytes" && type.isBlock())
    return Value::integer(type.numElements() * ((bits + 7) / 8));
  if (const Builtin *builtin = findBuiltin(("dtype." + name).str()))
    return bound(self, *builtin);
  return std::nullopt;
}

FailureOr<std::optional<Value>> Semantic::attribute(const Value &object, llvm::StringRef name) {
  if (object.isTensor())
    return tensorAttribute(*this, object, name);
  if (object.is<TypeValue>() && name != "value")
    return typeAttribute(object, name);
  if (auto *module = object.getIf<ModuleValue>())
    return languageMember(module->name, name);
  if (auto *cls = object.getIf<BuiltinValue>(); cls &&
                                                llvm::StringRef(cls->builtin->name) == "dtype" &&
                                                (name == "KIND" || name == "SIGNEDNESS"))
    return std::optional<Value>(ModuleValue{("triton.language.dtype." + name).str()});
  if (auto *tuple = object.getIf<Tuple>()) {
    for (size_t i = 0; i < tuple->fields.size(); ++i)
      if (tuple->fields[i] == name)
        return std::optional<Value>(tuple->items[i]);
    if (name == "_fields" && !tuple->fields.empty()) {
      Tuple names;
      names.items.edit().assign(tuple->fields.begin(), tuple->fields.end());
      return std::optional<Value>(Value(std::move(names)));
    }
    if (name == "index" || (name == "_replace" && !tuple->fields.empty()))
      return std::optional<Value>(bound(object, *findBuiltin(("tuple." + name).str())));
    return std::optional<Value>();
  }
  // The box that known values do not have: `N.value`, `N.type`.
  if (object.isKnown() && itemsOf(object) == nullptr && name == "value")
    return std::optional<Value>(object);
  if (object.isKnown() && !object.is<Aggregate>() && name == "type")
    return std::optional<Value>(Aggregate{findPreludeClass("constexpr_type"), {object}});
  return std::optional<Value>();
}

//===--- modules
//----------------------------------------------------------------------------------===//

/// Triton's limit, a public constant.
static constexpr int64_t maxTensorNumel = 1048576;

/// Names of modules that mean one of ours.
static llvm::StringRef canonicalModule(llvm::StringRef module) {
  if (!module.consume_front("triton"))
    module.consume_front("nereid");
  return module;
}

/// The prelude's function behind one of `tl.standard` that authors reduce and scan with, or "".
static llvm::StringRef combinerNamed(llvm::StringRef name) {
  return llvm::StringSwitch<llvm::StringRef>(name)
      .Case("_sum_combine", "_add")
      .Case("_prod_combine", "_multiply")
      .Case("_xor_combine", "_xor")
      .Case("_or_combine", "_or")
      .Case("_elementwise_max", "_larger")
      .Case("_elementwise_min", "_smaller")
      .Case("_argmax_combine_tie_break_left", "_larger_with_index")
      .Case("_argmax_combine_tie_break_fast", "_larger_with_any_index")
      .Case("_argmin_combine_tie_break_left", "_smaller_with_index")
      .Case("_argmin_combine_tie_break_fast", "_smaller_with_any_index")
      .Default("");
}

std::optional<Value> languageMember(llvm::StringRef module, llvm::StringRef name) {
  llvm::StringRef path = canonicalModule(module);
  auto submodule = [&] { return Value(ModuleValue{(module + "." + name).str()}); };
  auto builtinNamed = [](llvm::StringRef each) -> std::optional<Value> {
    if (const Builtin *builtin = findBuiltin(each))
      return Value(BuiltinValue{builtin, nullptr});
    return std::nullopt;
  };
  auto preludeNamed = [](llvm::StringRef each) -> std::optional<Value> {
    if (const PreludeFunction *function = findPrelude(each))
      return Value(FunctionValue{function->function, nullptr});
    return std::nullopt;
  };

  if (path.empty()) { // triton itself
    if (name == "language")
      return submodule();
    if (name == "cdiv")
      return preludeNamed(name);
    if (name == "next_power_of_2")
      return builtinNamed("python.next_power_of_2");
    if (name == "detach")
      return builtinNamed(name);
    return std::nullopt;
  }
  if (path == ".language.math")
    return builtinNamed(("math." + name).str());
  if (path == ".language.target_info")
    return builtinNamed(("target_info." + name).str());
  if (path == ".language.PropagateNan") {
    if (name == "NONE")
      return Value::integer(0);
    if (name == "ALL")
      return Value::integer(0xffff);
    return std::nullopt;
  }
  if (path.starts_with(".language.dtype.")) { // enumerations of Python's class
    std::optional<int64_t> number = llvm::StringSwitch<std::optional<int64_t>>(name)
                                        .Cases({"BOOLEAN", "SIGNED"}, 0)
                                        .Cases({"INTEGRAL", "UNSIGNED"}, 1)
                                        .Case("FLOATING", 2)
                                        .Default(std::nullopt);
    return number ? std::optional(Value::integer(*number)) : std::nullopt;
  }
  if (path.starts_with(".language.extra")) {
    if (path.ends_with(".libdevice")) {
      return builtinNamed(("libdevice." + name).str());
    }
    if (name == "libdevice" || name == "cuda" || name == "cpu")
      return submodule();
    return path.ends_with(".cuda") ? builtinNamed(("cuda." + name).str()) : std::nullopt;
  }
  if (path != ".language" && path != ".language.core" && path != ".language.standard" &&
      path != ".language.random")
    return std::nullopt;

  if (name == "math" || name == "core" || name == "standard" || name == "random" ||
      name == "PropagateNan" || name == "extra" || name == "target_info")
    return Value(ModuleValue{("triton.language." + name).str()});
  if (name == "aggregate_replace")
    return builtinNamed("python.aggregate_replace");
  if ((path == ".language.core" && (name == "get_int_dtype" || name == "_unwrap_if_constexpr")) ||
      (path == ".language.standard" && name == "_log2"))
    return builtinNamed(("python." + name).str());
  if (path == ".language.standard" && !combinerNamed(name).empty())
    return preludeNamed(combinerNamed(name));
  if (name == "constexpr_type")
    return Value(ClassValue{findPreludeClass(name)});
  if (name == "TRITON_MAX_TENSOR_NUMEL")
    return Value::integer(maxTensorNumel);
  if (name == "pi32_t")
    return Value(TypeValue{Type::pointerTo(DType::Int32)});
#define DTYPE(Enum, Name, ...)                                                                     \
  if (name == Name)                                                                                \
    return Value(TypeValue{Type::of(DType::Enum)});
#include "frontend/dtypes.def"
#undef DTYPE
  if (auto function = preludeNamed(name))
    return function;
  // Dotted rows (`math.exp`, `dtype.is_int`, `python.len`) belong elsewhere, member functions to
  // tensors.
  const Builtin *builtin =
      name.contains('.') || name == "to" || name == "item" ? nullptr : findBuiltin(name);
  if (builtin)
    return Value(BuiltinValue{builtin, nullptr});
  return std::nullopt;
}

std::optional<Value> pythonBuiltin(llvm::StringRef name) {
  if (name == "range")
    return Value(BuiltinValue{findBuiltin("range"), nullptr});
  if (name == "print")
    return Value(BuiltinValue{findBuiltin("device_print"), nullptr});
  if (const Builtin *builtin = findBuiltin(("python." + name).str()))
    return Value(BuiltinValue{builtin, nullptr});
  return std::nullopt;
}

} // namespace nereid::frontend
