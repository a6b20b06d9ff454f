#include "runtime/specialise.h"

#include "frontend/class.h"
#include "syntax/parser.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <bit>
#include <cstring>
#include <limits>

using namespace nereid;
using namespace nereid::runtime;
using frontend::DType;
using frontend::ParamSpec;
using frontend::Type;
using frontend::Value;

namespace {

// What one argument contributes to the key. `Multiple` is added where a multiple of 16 is known,
// `Large` where offsets of 32 bits may not do, `Const` for a pointer to const; a pointer is
// followed by its element type, a constant by its value, a descriptor by its element type, rank,
// padding and blocks, a tuple by its size, class and items.
enum Tag : uint8_t {
  TagNone = 1,
  TagOne,
  TagInt32,
  TagInt64,
  TagUInt64,
  TagBool,
  TagFloat,
  TagForced,
  TagPointer,
  TagIntConstant,
  TagUIntConstant,
  TagBoolConstant,
  TagFloatConstant,
  TagValueConstant,
  TagDescriptor,
  TagTuple,
  TagType,
  Large = 0x20,
  Multiple = 0x40,
  Const = 0x80,
};

void appendBytes(KeyBuffer &key, const void *data, size_t size) {
  auto *bytes = static_cast<const uint8_t *>(data);
  key.append(bytes, bytes + size);
}

template <typename T> void appendConstant(KeyBuffer &key, Tag tag, T value) {
  key.push_back(tag);
  appendBytes(key, &value, sizeof value);
}

/// Whether offsets into a pointer's memory come near 2^31, counted in elements. A block may reach
/// beyond the end before its mask stops it, so half of that counts.
bool isLarge(const nrd_arg &arg, DType element) {
  uint64_t bytes = uint64_t(uintptr_t(arg.high) - uintptr_t(arg.low));
  return bytes > (uint64_t(1) << 30) && // nearly always decides alone
         bytes / std::max(frontend::info(element).bits / 8, 1u) > (uint64_t(1) << 30);
}

/// An integer argument as its bits and whether they are a negative number.
struct Integer {
  uint64_t bits;
  bool isSigned;
  bool isOne() const { return bits == 1; }
  bool isMultiple() const { return bits % 16 == 0; }
  DType type() const {
    if (isSigned || bits <= uint64_t(std::numeric_limits<int64_t>::max())) {
      int64_t value = int64_t(bits);
      return value >= std::numeric_limits<int32_t>::min() &&
                     value <= std::numeric_limits<int32_t>::max()
                 ? DType::Int32
                 : DType::Int64;
    }
    return DType::UInt64;
  }
};

std::optional<Integer> integerOf(const nrd_arg &arg) {
  if (arg.kind == NRD_ARG_INT)
    return Integer{uint64_t(arg.i), true};
  if (arg.kind == NRD_ARG_UINT)
    return Integer{arg.u, false};
  return std::nullopt;
}

/// Whether an integer can be given for a parameter of this forced integer type.
bool fits(Integer value, DType type) {
  const frontend::DTypeInfo &row = frontend::info(type);
  bool negative = value.isSigned && int64_t(value.bits) < 0;
  if (row.kind == frontend::DTypeClass::Bool)
    return true;
  if (row.kind == frontend::DTypeClass::UnsignedInt)
    return !negative && (row.bits == 64 || value.bits >> row.bits == 0);
  if (row.kind != frontend::DTypeClass::SignedInt)
    return true;
  if (!negative)
    return value.bits >> (row.bits - 1) == 0;
  return row.bits == 64 || int64_t(value.bits) >= -(int64_t(1) << (row.bits - 1));
}

ErrorPtr badArgument(const ParamRule &rule, llvm::StringRef function, const std::string &expected,
                     const char *found) {
  return makeError(NRD_ERROR_ARGUMENT, "TypeError", diag::LaunchBadArgument,
                   std::string_view(rule.name), std::string_view(function), expected, found);
}

/// What compiled code relies on.
ErrorPtr checkDescriptor(const ParamRule &rule, const nrd_arg &arg, llvm::StringRef function) {
  auto wrong = [&](const char *expected, const std::string &found) {
    return badArgument(rule, function, expected, found.c_str());
  };
  const nrd_descriptor *desc = arg.descriptor;
  if (!desc || desc->rank < 1 || desc->rank > NRD_DESCRIPTOR_MAX_RANK)
    return wrong("a descriptor of rank 1 to 5", "another rank");
  if (arg.dtype == NRD_VOID || arg.dtype > NRD_FP64)
    return wrong("a descriptor of a known element type", "an unknown type");
  if (uintptr_t(arg.p) % 16)
    return wrong("a base address that is a multiple of 16",
                 "0x" + llvm::utohexstr(uintptr_t(arg.p)));
  if (desc->pads_nan && !frontend::isFloat(DType(arg.dtype)))
    return wrong("a padding of zero for integers", "NaN");
  if (desc->rounds_tf32 && arg.dtype != NRD_FP32)
    return wrong("rounding to TF32 of fp32 only", frontend::info(DType(arg.dtype)).shortName);
  int64_t size = std::max<int64_t>(frontend::info(DType(arg.dtype)).bits / 8, 1);
  for (unsigned i = 0; i < desc->rank; ++i) {
    bool isLast = i + 1 == desc->rank;
    if (desc->shape[i] <= 0 || desc->shape[i] > std::numeric_limits<int32_t>::max())
      return wrong("sizes from 1 to 2147483647", std::to_string(desc->shape[i]));
    if (desc->block[i] <= 0)
      return wrong("positive block sizes", std::to_string(desc->block[i]));
    if (isLast && desc->strides[i] != 1)
      return wrong("a last stride of 1", std::to_string(desc->strides[i]));
    int64_t bytes;
    if (llvm::MulOverflow(desc->strides[i], size, bytes))
      return wrong("strides of less than 2^63 bytes",
                   std::to_string(desc->strides[i]) + " elements");
    if (!isLast && bytes % 16)
      return wrong("strides that are multiples of 16 bytes", std::to_string(bytes) + " bytes");
  }
  return nullptr;
}

/// Whether everything is there that a tuple points to.
ErrorPtr checkTuple(const ParamRule &rule, const nrd_arg &arg, llvm::StringRef function) {
  constexpr size_t most = 1 << 16;
  const nrd_tuple *tuple = arg.tuple;
  if (!tuple || (!tuple->items && tuple->count))
    return badArgument(rule, function, "a tuple with its items", "null");
  if (tuple->count > most)
    return badArgument(rule, function, "a tuple of at most 65536 items",
                       std::to_string(tuple->count).c_str());
  if (arg.kind == NRD_ARG_AGGREGATE && (!tuple->class_name || (!tuple->fields && tuple->count)))
    return badArgument(rule, function, "a value of a class with its names", "null");
  for (size_t i = 0; tuple->fields && i < tuple->count; ++i)
    if (!tuple->fields[i])
      return badArgument(rule, function, "names of all items", "null");
  return nullptr;
}

ErrorPtr appendForced(KeyBuffer &key, const ParamRule &rule, const nrd_arg &arg,
                      llvm::StringRef function) {
  const Type &type = *rule.forcedType;
  bool aligned = !(rule.policy & (NRD_PARAM_NO_SPECIALIZE | NRD_PARAM_NO_ALIGNMENT));
  auto expected = [&] { return "a value for its type `" + signatureText(type) + "`"; };
  if (type.isPointer) {
    // A plain integer is an address.
    if (arg.kind != NRD_ARG_POINTER && (!integerOf(arg) || rule.isStrict))
      return rule.isStrict ? badArgument(rule, function, "a pointer", kindText(arg))
                           : makeError(NRD_ERROR_ARGUMENT, "TypeError", diag::NotAPointer,
                                       std::string_view(rule.name), std::string_view(function),
                                       kindText(arg));
    if (rule.isStrict && arg.dtype != NRD_VOID && arg.dtype != uint8_t(type.scalar))
      return badArgument(rule, function, pointerText(uint8_t(type.scalar)),
                         pointerText(arg.dtype).c_str());
    uint64_t address = arg.kind == NRD_ARG_POINTER ? uint64_t(uintptr_t(arg.p)) : arg.u;
    bool large = arg.kind == NRD_ARG_POINTER && isLarge(arg, type.scalar);
    key.push_back(TagForced | (aligned && address % 16 == 0 ? Multiple : 0) | (large ? Large : 0));
    return nullptr;
  }
  if (auto value = integerOf(arg)) {
    if (!fits(*value, type.scalar))
      return makeError(NRD_ERROR_ARGUMENT, "OverflowError", diag::ArgumentOutOfRange,
                       value->isSigned ? llvm::itostr(int64_t(value->bits))
                                       : llvm::utostr(value->bits),
                       std::string_view(rule.name), signatureText(type));
    bool isInt = frontend::isInt(type.scalar) && !frontend::isBool(type.scalar);
    key.push_back(TagForced | (aligned && isInt && value->isMultiple() ? Multiple : 0));
    return nullptr;
  }
  if (arg.kind == NRD_ARG_FLOAT ? frontend::isFloat(type.scalar) : arg.kind == NRD_ARG_BOOL) {
    key.push_back(TagForced);
    return nullptr;
  }
  return badArgument(rule, function, expected(), kindText(arg));
}

ErrorPtr appendConstexpr(KeyBuffer &key, const ParamRule &rule, const nrd_arg &arg,
                         llvm::StringRef function) {
  switch (arg.kind) {
  case NRD_ARG_INT:
    appendConstant(key, TagIntConstant, arg.i);
    return nullptr;
  case NRD_ARG_UINT:
    appendConstant(key, TagUIntConstant, arg.u);
    return nullptr;
  case NRD_ARG_BOOL:
    appendConstant(key, TagBoolConstant, uint8_t(arg.i != 0));
    return nullptr;
  case NRD_ARG_FLOAT:
    appendConstant(key, TagFloatConstant, arg.f);
    return nullptr;
  case NRD_ARG_NONE:
    key.push_back(TagNone);
    return nullptr;
  case NRD_ARG_VALUE:
    if (arg.v && !arg.v->key.empty()) {
      appendConstant(key, TagValueConstant, uint32_t(arg.v->key.size()));
      appendBytes(key, arg.v->key.data(), arg.v->key.size());
      return nullptr;
    }
    break;
  default:
    break;
  }
  return makeError(NRD_ERROR_ARGUMENT, "TypeError", diag::ConstexprNeedsValue,
                   std::string_view(rule.name), std::string_view(function), kindText(arg));
}

ParamSpec runtimeSpec(Type type, bool isMultiple) {
  ParamSpec spec;
  spec.type = std::move(type);
  spec.divisibility = isMultiple ? 16 : 1;
  return spec;
}

ParamSpec constantSpec(Value value) {
  ParamSpec spec;
  spec.kind = ParamSpec::Kind::Constant;
  spec.constant = std::move(value);
  return spec;
}

Value integerValue(Integer value) {
  if (value.isSigned)
    return Value::integer(int64_t(value.bits));
  return Value(llvm::APSInt(llvm::APInt(65, value.bits), /*isUnsigned=*/false));
}

Value constantOf(const nrd_arg &arg) {
  if (auto value = integerOf(arg))
    return integerValue(*value);
  switch (arg.kind) {
  case NRD_ARG_BOOL:
    return Value(arg.i != 0);
  case NRD_ARG_FLOAT:
    return Value(arg.f);
  case NRD_ARG_VALUE:
    return arg.v->value;
  default:
    return Value();
  }
}

} // namespace

std::vector<ParamRule> runtime::paramRules(const frontend::Function &function) {
  std::vector<ParamRule> rules;
  for (const frontend::FunctionParam &param : function.params()) {
    ParamRule &rule = rules.emplace_back();
    rule.name = param.name.str();
    rule.isConstexpr = param.isConstexpr;
    rule.isConst = param.isConst;
    rule.hasDefault = param.hasDefault();
    rule.forcedType = param.type;
  }
  return rules;
}

namespace {

bool holdsArguments(const nrd_arg &arg) {
  return arg.kind == NRD_ARG_TUPLE || arg.kind == NRD_ARG_AGGREGATE;
}

/// The rule for the items of a tuple given for a parameter: none of the parameter's policies.
ParamRule itemRule(const ParamRule &tuple, bool isField = false) {
  ParamRule rule;
  rule.name = tuple.name;
  rule.foldsOne = !isField; // a field that is a tensor stays one
  return rule;
}

Type descriptorType(const nrd_arg &arg) {
  const nrd_descriptor &desc = *arg.descriptor;
  return Type::descriptorOf(DType(arg.dtype), llvm::ArrayRef(desc.block, desc.rank), desc.pads_nan,
                            desc.rounds_tf32);
}

void appendDescriptor(KeyBuffer &key, DType element, bool padsNaN, bool roundsTF32,
                      llvm::ArrayRef<int64_t> block, bool isMultiple, bool isConst) {
  key.push_back(TagDescriptor | (isMultiple ? Multiple : 0) | (isConst ? Const : 0));
  key.push_back(uint8_t(element));
  key.push_back(uint8_t(block.size() | (padsNaN ? 0x80 : 0) | (roundsTF32 ? 0x40 : 0)));
  appendBytes(key, block.data(), block.size() * sizeof(int64_t));
}

/// The type of an argument that is known by its type only; null when it is not one.
const Type *typeOnly(const nrd_arg &arg) {
  const auto *type = arg.v ? arg.v->value.getIf<frontend::TypeValue>() : nullptr;
  return type && type->type.shape.empty() && type->type.scalar != DType::Void ? &type->type
                                                                              : nullptr;
}

/// The same key as of a value of this type, where values can have it.
ErrorPtr appendType(KeyBuffer &key, const ParamRule &rule, const nrd_arg &arg,
                    llvm::StringRef function) {
  const Type *type = typeOnly(arg);
  if (!type)
    return badArgument(rule, function, "the type of an argument", kindText(arg));
  uint8_t multiple = arg.divisibility && arg.divisibility % 16 == 0 ? Multiple : 0;
  bool isConst = type->isConst || rule.isConst || (rule.policy & NRD_PARAM_CONST);
  if (rule.forcedType && *rule.forcedType == *type) {
    key.push_back(TagForced | multiple);
  } else if (type->isDescriptor) {
    appendDescriptor(key, type->scalar, type->padsNaN, type->roundsTF32, type->block, multiple,
                     isConst);
  } else if (type->isPointer) {
    key.push_back(TagPointer | multiple | (isConst ? Const : 0));
    key.push_back(uint8_t(type->scalar));
  } else {
    switch (type->scalar) {
    case DType::Int32:
      key.push_back(TagInt32 | multiple);
      break;
    case DType::Int64:
      key.push_back(TagInt64 | multiple);
      break;
    case DType::UInt64:
      key.push_back(TagUInt64 | multiple);
      break;
    case DType::Int1:
      key.push_back(TagBool);
      break;
    case DType::Float32:
      key.push_back(TagFloat);
      break;
    default: // types that only an annotation gives to a value
      key.push_back(TagType | multiple);
      key.push_back(uint8_t(type->scalar));
    }
  }
  return nullptr;
}

ErrorPtr appendArgument(KeyBuffer &key, const ParamRule &rule, const nrd_arg &arg,
                        llvm::StringRef functionName) {
  if (rule.isConstexpr)
    return appendConstexpr(key, rule, arg, functionName);
  if (arg.kind == NRD_ARG_TYPE) [[unlikely]]
    return appendType(key, rule, arg, functionName);
  if (rule.forcedType && arg.kind != NRD_ARG_NONE && arg.kind != NRD_ARG_VALUE)
    return appendForced(key, rule, arg, functionName);
  bool specialises = !(rule.policy & NRD_PARAM_NO_SPECIALIZE);
  bool aligned = specialises && !(rule.policy & NRD_PARAM_NO_ALIGNMENT);
  switch (arg.kind) {
  case NRD_ARG_INT:
  case NRD_ARG_UINT: {
    Integer value{arg.u, arg.kind == NRD_ARG_INT};
    if (value.isOne() && specialises && rule.foldsOne) {
      key.push_back(TagOne);
      return nullptr;
    }
    DType type = value.type();
    Tag tag = type == DType::Int32 ? TagInt32 : type == DType::Int64 ? TagInt64 : TagUInt64;
    key.push_back(tag | (aligned && value.isMultiple() ? Multiple : 0));
    return nullptr;
  }
  case NRD_ARG_BOOL:
    key.push_back(TagBool);
    return nullptr;
  case NRD_ARG_FLOAT:
    key.push_back(TagFloat);
    return nullptr;
  case NRD_ARG_POINTER: {
    if (arg.dtype == NRD_VOID || arg.dtype > NRD_FP64)
      return badArgument(rule, functionName, "a pointer to a known element type",
                         "a pointer of unknown type");
    uint8_t tag = TagPointer;
    if (aligned && uintptr_t(arg.p) % 16 == 0)
      tag |= Multiple;
    if (rule.isConst || (rule.policy & NRD_PARAM_CONST))
      tag |= Const;
    if (isLarge(arg, DType(arg.dtype))) [[unlikely]]
      tag |= Large;
    key.push_back(tag);
    key.push_back(arg.dtype);
    return nullptr;
  }
  case NRD_ARG_DESCRIPTOR: {
    if (ErrorPtr error = checkDescriptor(rule, arg, functionName))
      return error;
    const nrd_descriptor &desc = *arg.descriptor;
    bool isConst = rule.isConst || (rule.policy & NRD_PARAM_CONST);
    appendDescriptor(key, DType(arg.dtype), desc.pads_nan, desc.rounds_tf32,
                     {desc.block, desc.rank}, aligned && desc.shape[desc.rank - 1] % 16 == 0,
                     isConst);
    return nullptr;
  }
  case NRD_ARG_NONE:
    key.push_back(TagNone);
    return nullptr;
  case NRD_ARG_VALUE:
    if (arg.v)
      if (const auto *integer = arg.v->value.getIf<llvm::APSInt>();
          integer && integer->getSignificantBits() > 65)
        return makeError(NRD_ERROR_ARGUMENT, "OverflowError", diag::IntegerTooLarge,
                         std::string_view(rule.name));
    return appendConstexpr(key, rule, arg, functionName);
  case NRD_ARG_TUPLE:
  case NRD_ARG_AGGREGATE: {
    if (ErrorPtr error = checkTuple(rule, arg, functionName))
      return error;
    const nrd_tuple &tuple = *arg.tuple;
    appendConstant(key, TagTuple, uint32_t(tuple.count));
    appendBytes(key, &tuple.host_class, sizeof tuple.host_class);
    ParamRule item = itemRule(rule, arg.kind == NRD_ARG_AGGREGATE);
    for (size_t i = 0; i < tuple.count; ++i)
      if (ErrorPtr error = appendArgument(key, item, tuple.items[i], functionName))
        return error;
    return nullptr;
  }
  default:
    return badArgument(rule, functionName, "a number, a pointer or a constant",
                       "an argument of unknown kind");
  }
}

ParamSpec specOf(const ParamRule &rule, const nrd_arg &arg) {
  bool specialises = !(rule.policy & NRD_PARAM_NO_SPECIALIZE);
  bool aligned = specialises && !(rule.policy & NRD_PARAM_NO_ALIGNMENT);
  bool isConst = rule.isConst || (rule.policy & NRD_PARAM_CONST);
  if (rule.isConstexpr || arg.kind == NRD_ARG_NONE || arg.kind == NRD_ARG_VALUE)
    return constantSpec(constantOf(arg));
  if (arg.kind == NRD_ARG_TYPE) {
    Type type = *typeOnly(arg);
    type.isConst |= isConst && (type.isPointer || type.isDescriptor);
    return runtimeSpec(std::move(type), arg.divisibility && arg.divisibility % 16 == 0);
  }
  if (rule.forcedType) {
    const Type &type = *rule.forcedType;
    bool facts = type.isPointer || (frontend::isInt(type.scalar) && integerOf(arg));
    ParamSpec spec =
        runtimeSpec(type, facts && aligned && arg.u % 16 == 0 && !frontend::isBool(type.scalar));
    spec.isLarge = type.isPointer && arg.kind == NRD_ARG_POINTER && isLarge(arg, type.scalar);
    return spec;
  }
  if (arg.kind == NRD_ARG_POINTER) {
    ParamSpec spec = runtimeSpec(Type::pointerTo(DType(arg.dtype), isConst),
                                 aligned && uintptr_t(arg.p) % 16 == 0);
    spec.isLarge = isLarge(arg, DType(arg.dtype));
    return spec;
  }
  if (arg.kind == NRD_ARG_DESCRIPTOR) {
    const nrd_descriptor &desc = *arg.descriptor;
    Type type = descriptorType(arg);
    type.isConst = isConst;
    return runtimeSpec(std::move(type), aligned && desc.shape[desc.rank - 1] % 16 == 0);
  }
  if (holdsArguments(arg)) {
    const nrd_tuple &tuple = *arg.tuple;
    ParamSpec spec;
    spec.kind = ParamSpec::Kind::Tuple;
    spec.hostClass = tuple.host_class;
    if (arg.kind == NRD_ARG_AGGREGATE)
      spec.cls = std::make_shared<const frontend::Class>(
          tuple.host_class, tuple.class_name,
          std::vector<std::string>(tuple.fields, tuple.fields + tuple.count));
    ParamRule item = itemRule(rule, arg.kind == NRD_ARG_AGGREGATE);
    for (size_t i = 0; i < tuple.count; ++i) {
      spec.items.push_back(specOf(item, tuple.items[i]));
      if (tuple.fields)
        spec.fields.push_back(tuple.fields[i]);
    }
    return spec;
  }
  if (auto value = integerOf(arg))
    return value->isOne() && specialises && rule.foldsOne
               ? constantSpec(Value::integer(1))
               : runtimeSpec(Type::of(value->type()), aligned && value->isMultiple());
  return runtimeSpec(Type::of(arg.kind == NRD_ARG_BOOL ? DType::Int1 : DType::Float32), false);
}

void flattenInto(llvm::ArrayRef<nrd_arg> args, llvm::SmallVectorImpl<nrd_arg> &leaves) {
  for (const nrd_arg &arg : args)
    if (holdsArguments(arg))
      flattenInto({arg.tuple->items, arg.tuple->count}, leaves);
    else
      leaves.push_back(arg);
}

void visitLeaves(const ParamSpec &spec, const std::string &name, LeafFn leaf) {
  if (spec.kind != ParamSpec::Kind::Tuple)
    return leaf(spec, name);
  for (size_t i = 0; i < spec.items.size(); ++i)
    visitLeaves(spec.items[i], spec.itemName(name, i), leaf);
}

} // namespace

namespace {

inline void writeConstant(uint8_t *&end, Tag tag, uint64_t bits) {
  *end++ = tag;
  std::memcpy(end, &bits, sizeof bits);
  end += sizeof bits;
}

/// The key of an argument as `appendArgument` makes it, at most 9 bytes at `end`; false for those
/// that need more thought.
inline bool writeUsual(uint8_t *&end, RuleKind rule, const nrd_arg &arg) {
  if (rule == RuleKind::Usual) {
    if (arg.kind == NRD_ARG_POINTER) {
      end[0] = TagPointer | (uintptr_t(arg.p) % 16 == 0 ? Multiple : 0);
      end[1] = arg.dtype;
      bool usual = unsigned(arg.dtype - 1) < NRD_FP64 && !isLarge(arg, DType(arg.dtype));
      end += usual ? 2 : 0;
      return usual;
    }
    if (arg.kind == NRD_ARG_INT) {
      Tag tag = arg.i == int32_t(arg.i) ? TagInt32 : TagInt64;
      *end++ = arg.i == 1 ? TagOne : tag | (arg.u % 16 == 0 ? Multiple : 0);
      return true;
    }
  }
  bool constant = rule == RuleKind::Constant;
  if (arg.kind == NRD_ARG_NONE) {
    *end++ = TagNone;
    return true;
  }
  if (rule == RuleKind::Special)
    return false;
  switch (arg.kind) {
  case NRD_ARG_INT:
    writeConstant(end, TagIntConstant, arg.u);
    return true;
  case NRD_ARG_FLOAT:
    if (constant)
      writeConstant(end, TagFloatConstant, arg.u);
    else
      *end++ = TagFloat;
    return true;
  case NRD_ARG_BOOL:
    *end++ = constant ? TagBoolConstant : TagBool;
    if (constant)
      *end++ = arg.i != 0;
    return true;
  default:
    return false;
  }
}

} // namespace

std::vector<RuleKind> runtime::ruleKinds(llvm::ArrayRef<ParamRule> rules) {
  std::vector<RuleKind> kinds;
  for (const ParamRule &rule : rules)
    kinds.push_back(rule.isConstexpr                                 ? RuleKind::Constant
                    : rule.policy || rule.isConst || rule.forcedType ? RuleKind::Special
                                                                     : RuleKind::Usual);
  return kinds;
}

ErrorPtr runtime::appendKey(KeyBuffer &key, llvm::ArrayRef<ParamRule> rules,
                            llvm::ArrayRef<RuleKind> kinds, llvm::ArrayRef<nrd_arg> args,
                            llvm::StringRef functionName, bool &usual) {
  usual = true;
  if (args.size() < rules.size())
    return makeError(NRD_ERROR_ARGUMENT, "TypeError", diag::LaunchMissingArgument,
                     std::string_view(functionName), std::string_view(rules[args.size()].name));
  if (args.size() > rules.size())
    return makeError(NRD_ERROR_ARGUMENT, "TypeError", diag::LaunchTooManyArguments,
                     std::string_view(functionName), int64_t(rules.size()), int64_t(args.size()));
  for (size_t i = 0; i < rules.size(); ++i) {
    // Most arguments are done without a call, in the room that is there.
    size_t size = key.size();
    key.resize_for_overwrite(key.capacity());
    uint8_t *end = key.data() + size, *last = key.data() + key.size() - 9;
    while (i < rules.size() && end <= last && writeUsual(end, kinds[i], args[i]))
      ++i;
    key.truncate(size_t(end - key.data()));
    if (i == rules.size())
      break;
    usual = false;
    if (ErrorPtr error = appendArgument(key, rules[i], args[i], functionName))
      return error;
  }
  return nullptr;
}

std::vector<ParamSpec> runtime::specialise(llvm::ArrayRef<ParamRule> rules,
                                           llvm::ArrayRef<nrd_arg> args) {
  std::vector<ParamSpec> specs;
  for (auto [rule, arg] : llvm::zip_equal(rules, args))
    specs.push_back(specOf(rule, arg));
  return specs;
}

llvm::ArrayRef<nrd_arg> runtime::flatten(llvm::ArrayRef<nrd_arg> args,
                                         llvm::SmallVectorImpl<nrd_arg> &storage) {
  bool hasTuple = false;
  for (const nrd_arg &arg : args)
    hasTuple |= holdsArguments(arg);
  if (!hasTuple) [[likely]]
    return args;
  flattenInto(args, storage);
  return storage;
}

void runtime::forEachLeaf(llvm::ArrayRef<ParamRule> rules, llvm::ArrayRef<ParamSpec> specs,
                          LeafFn leaf) {
  for (auto [rule, spec] : llvm::zip_equal(rules, specs))
    visitLeaves(spec, rule.name, leaf);
}

// The element types of pointers keep one order on both sides of the ABI.
static_assert(NRD_VOID == int(DType::Void) && NRD_INT1 == int(DType::Int1) &&
              NRD_INT8 == int(DType::Int8) && NRD_UINT64 == int(DType::UInt64) &&
              NRD_FP8E5 == int(DType::Float8E5) && NRD_FP8E4B15 == int(DType::Float8E4B15) &&
              NRD_FP16 == int(DType::Float16) && NRD_BF16 == int(DType::BFloat16) &&
              NRD_FP32 == int(DType::Float32) && NRD_FP64 == int(DType::Float64));

std::string runtime::signatureText(const Type &type) {
  const frontend::DTypeInfo &row = frontend::info(type.scalar);
  std::string scalar;
  switch (row.kind) {
  case frontend::DTypeClass::Bool:
    scalar = "u1";
    break;
  case frontend::DTypeClass::SignedInt:
    scalar = "i" + llvm::utostr(row.bits);
    break;
  case frontend::DTypeClass::UnsignedInt:
    scalar = "u" + llvm::utostr(row.bits);
    break;
  default:
    scalar = row.shortName;
  }
  if (type.isDescriptor) {
    std::string dims;
    for (int64_t size : type.block)
      dims += (dims.empty() ? "" : ", ") + std::to_string(size);
    return "tensordesc<" + scalar + "[" + dims + "]" + type.descriptorOptions() + ">";
  }
  return (type.isPointer ? type.isConst ? "*k" : "*" : "") + scalar;
}

std::string runtime::signatureText(const ParamSpec &spec) {
  if (spec.kind == ParamSpec::Kind::Constant)
    return spec.constant.repr();
  if (spec.kind == ParamSpec::Kind::Tuple) {
    std::string text;
    for (const ParamSpec &item : spec.items)
      text += (text.empty() ? "" : ", ") + signatureText(item);
    return "(" + text + ")";
  }
  return signatureText(spec.type) + (spec.divisibility % 16 == 0 ? ":16" : "") +
         (spec.isLarge ? ":large" : "");
}

std::string runtime::keyOfLiteral(const Value &value) {
  if (value.isNone())
    return "N";
  if (auto *flag = value.getIf<bool>())
    return *flag ? "b1" : "b0";
  if (auto *integer = value.getIf<llvm::APSInt>())
    return "i" + llvm::toString(*integer, 10) + ";";
  if (auto *number = value.getIf<double>())
    return "f" + llvm::utohexstr(std::bit_cast<uint64_t>(*number)) + ";";
  if (auto *text = value.getIf<std::string>())
    return "s" + llvm::utostr(text->size()) + ":" + *text;
  if (auto *type = value.getIf<frontend::TypeValue>())
    return "t" + type->type.mangle() + (type->type.isConst ? "k" : "") + ";";
  if (auto *builtin = value.getIf<frontend::BuiltinValue>())
    return "p" + llvm::utohexstr(uintptr_t(builtin->builtin)) + ";";
  if (auto *module = value.getIf<frontend::ModuleValue>())
    return "m" + module->name + ";";
  if (auto *tuple = value.getIf<frontend::Tuple>()) {
    std::string key = "(";
    for (const Value &item : tuple->items) {
      std::string part = keyOfLiteral(item);
      if (part.empty())
        return "";
      key += part;
    }
    for (const std::string &field : tuple->fields)
      key += field + ",";
    return key + llvm::utohexstr(tuple->hostClass) + ")";
  }
  return "";
}

std::optional<Value> runtime::parseLiteral(llvm::StringRef text) {
  text = text.trim();
  if (text == "None")
    return Value();
  if (text == "True" || text == "False")
    return Value(text == "True");
  if (text.size() >= 2 && (text.front() == '\'' || text.front() == '"') &&
      text.back() == text.front()) {
    llvm::StringRef inner = text.drop_front().drop_back();
    if (inner.contains(text.front()) || inner.contains('\\'))
      return std::nullopt;
    return Value(inner.str());
  }
  if (auto type =
          text.starts_with("tl.") ? frontend::dtypeByName(text.drop_front(3)) : std::nullopt)
    return Value(frontend::TypeValue{Type::of(*type)});
  llvm::StringRef digits = text;
  bool negative = digits.consume_front("-");
  if (!digits.empty() && llvm::isDigit(digits.front())) {
    llvm::APInt integer;
    if (!digits.contains('_') && !digits.getAsInteger(0, integer)) {
      llvm::APSInt value(integer.zext(std::max(64u, integer.getActiveBits() + 1)), false);
      return Value(negative ? llvm::APSInt(-value, false) : value);
    }
  }
  double number = 0;
  if (!digits.empty() && (llvm::isDigit(digits.front()) || digits.front() == '.') &&
      !digits.getAsDouble(number))
    return Value(negative ? -number : number);
  if (digits == "inf" || digits == "float('inf')")
    return Value(negative ? -std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::infinity());
  return std::nullopt;
}

/// The items of "(a, (b, c), d)"; nothing when brackets do not match.
static std::optional<llvm::SmallVector<llvm::StringRef>> tupleItems(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> items;
  if (!text.consume_front("(") || !text.consume_back(")"))
    return std::nullopt;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '(' || text[i] == '[' || text[i] == '<';
    depth -= text[i] == ')' || text[i] == ']' || text[i] == '>';
    if (depth < 0)
      return std::nullopt;
    if (depth == 0 && text[i] == ',') {
      items.push_back(text.slice(begin, i).trim());
      begin = i + 1;
    }
  }
  if (llvm::StringRef last = text.drop_front(begin).trim(); !last.empty())
    items.push_back(last);
  return depth == 0 ? std::optional(items) : std::nullopt;
}

static ErrorPtr specOfSignature(const ParamRule &rule, llvm::StringRef text, ParamSpec &spec) {
  text = text.trim();
  auto bad = [&](const char *expected) {
    return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::BadSignature,
                     std::string_view(rule.name), expected, std::string_view(text));
  };
  if (rule.isConstexpr) {
    auto value = parseLiteral(text);
    if (!value)
      return bad("a Python literal, because it is a constexpr");
    spec = constantSpec(std::move(*value));
    return nullptr;
  }
  if (text.starts_with("(")) {
    auto items = tupleItems(text);
    if (!items)
      return bad("a tuple of types, `(*fp32, i32)`");
    spec.kind = ParamSpec::Kind::Tuple;
    for (llvm::StringRef item : *items)
      if (ErrorPtr error = specOfSignature(itemRule(rule), item, spec.items.emplace_back()))
        return error;
    return nullptr;
  }
  auto [typeText, facts] = text.split(':');
  llvm::StringRef fact = facts;
  bool large = fact.consume_back("large"); // "*fp32:large", "*fp32:16:large"
  if (large)
    fact.consume_back(":");
  auto type = frontend::parseSignatureType(typeText.trim());
  if (!type) {
    if (text == "None") {
      spec = constantSpec(Value());
      return nullptr;
    }
    return bad("a type such as `*fp32:16`, `i32`, `i32:16`, `fp32`");
  }
  fact = fact.trim();
  bool isInt = type->isArithmetic() && frontend::isInt(type->scalar);
  if (large && !type->isPointer)
    return bad("`:large` after a pointer");
  if (fact == "1" && isInt)
    spec = constantSpec(Value::integer(1));
  else if (fact.empty() || (fact == "16" && (isInt || type->isPointer || type->isDescriptor)))
    spec = runtimeSpec(std::move(*type), fact == "16");
  else
    return bad("`:16` or, for an integer, `:1` after the type");
  spec.isLarge = large;
  return nullptr;
}

ErrorPtr runtime::specialiseSignature(llvm::ArrayRef<ParamRule> rules,
                                      llvm::ArrayRef<llvm::StringRef> texts,
                                      llvm::StringRef functionName, std::vector<ParamSpec> &specs) {
  if (texts.size() < rules.size())
    return makeError(NRD_ERROR_ARGUMENT, "TypeError", diag::LaunchMissingArgument,
                     std::string_view(functionName), std::string_view(rules[texts.size()].name));
  if (texts.size() > rules.size())
    return makeError(NRD_ERROR_ARGUMENT, "TypeError", diag::LaunchTooManyArguments,
                     std::string_view(functionName), int64_t(rules.size()), int64_t(texts.size()));
  for (auto [rule, text] : llvm::zip_equal(rules, texts))
    if (ErrorPtr error = specOfSignature(rule, text, specs.emplace_back()))
      return error;
  return nullptr;
}

ErrorPtr runtime::checkTuples(llvm::ArrayRef<nrd_arg> args, llvm::StringRef functionName) {
  ParamRule rule;
  for (const nrd_arg &arg : args) {
    if (!holdsArguments(arg))
      continue;
    rule.name = "#" + llvm::utostr(size_t(&arg - args.begin()));
    if (ErrorPtr error = checkTuple(rule, arg, functionName))
      return error;
    if (ErrorPtr error = checkTuples({arg.tuple->items, arg.tuple->count}, functionName))
      return error;
  }
  return nullptr;
}

bool runtime::fits(const nrd_arg &arg, DType type) {
  std::optional<Integer> value = integerOf(arg);
  return value && ::fits(*value, type);
}

bool runtime::isConstant(const nrd_arg &arg, const Value &value) {
  if (arg.kind == NRD_ARG_POINTER)
    return !arg.p && value.isNone();
  if (arg.kind == NRD_ARG_VALUE && !arg.v)
    return false;
  if (arg.kind > NRD_ARG_VALUE)
    return false;
  Value given = constantOf(arg);
  std::string a = keyOfLiteral(given), b = keyOfLiteral(value);
  if (a == b || a.empty() || b.empty())
    return true;
  // 1, True and 1.0 are equal.
  auto number = [](const Value &of) -> std::optional<double> {
    if (auto *flag = of.getIf<bool>())
      return *flag;
    if (auto *integer = of.getIf<llvm::APSInt>(); integer && integer->getSignificantBits() <= 53)
      return double(integer->getExtValue());
    if (auto *real = of.getIf<double>())
      return *real;
    return std::nullopt;
  };
  std::optional<double> x = number(given), y = number(value);
  return x && y && *x == *y;
}

ErrorPtr runtime::checkDescriptor(const nrd_arg &arg, const ParamSpec &spec, llvm::StringRef param,
                                  llvm::StringRef functionName) {
  ParamRule rule;
  rule.name = param.str();
  if (ErrorPtr error = ::checkDescriptor(rule, arg, functionName))
    return error;
  const nrd_descriptor &desc = *arg.descriptor;
  Type given = descriptorType(arg);
  given.isConst = spec.type.isConst;
  if (!(given == spec.type))
    return badArgument(rule, functionName,
                       "a descriptor of type `" + signatureText(spec.type) + "`",
                       ("`" + signatureText(given) + "`").c_str());
  if (int64_t last = desc.shape[desc.rank - 1]; spec.divisibility % 16 == 0 && last % 16)
    return badArgument(rule, functionName,
                       "a last size that is a multiple of 16, as `" + signatureText(spec) +
                           "` promises",
                       std::to_string(last).c_str());
  return nullptr;
}

std::string runtime::pointerText(uint8_t dtype) {
  if (dtype == NRD_VOID || dtype > NRD_FP64)
    return "a pointer of unknown type";
  return "a pointer to `" + signatureText(Type::of(DType(dtype))) + "`";
}

const char *nereid::runtime::kindText(const nrd_arg &arg) {
  switch (arg.kind) {
  case NRD_ARG_INT:
  case NRD_ARG_UINT:
    return "an integer";
  case NRD_ARG_BOOL:
    return "a bool";
  case NRD_ARG_FLOAT:
    return "a float";
  case NRD_ARG_POINTER:
    return "a pointer";
  case NRD_ARG_DESCRIPTOR:
    return "a tensor descriptor";
  case NRD_ARG_NONE:
    return "None";
  case NRD_ARG_TUPLE:
    return "a tuple";
  case NRD_ARG_AGGREGATE:
    return "a value of a class";
  case NRD_ARG_TYPE:
    return "a type without a value";
  default:
    return "a compile-time value";
  }
}
