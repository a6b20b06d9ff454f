// The C ABI: version, errors, values.
#include "frontend/builtin.h"
#include "frontend/class.h"
#include "frontend/limits.h"
#include "frontend/semantic.h"
#include "runtime/c_api.h"
#include "runtime/compiler.h"
#include "runtime/function.h"

#include "llvm/ADT/StringExtras.h"

#include <cstring>
#include <string_view>

using namespace nereid;
using namespace nereid::runtime;
using frontend::Value;

#define TEXT(x) #x
#define DOTTED(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)
static_assert(std::string_view(NRD_VERSION) == NEREID_VERSION &&
                  std::string_view(DOTTED(NRD_VERSION_MAJOR, NRD_VERSION_MINOR,
                                          NRD_VERSION_PATCH)) == NRD_VERSION,
              "the file VERSION and nereid/device.h name different versions");
#undef DOTTED
#undef TEXT

const char *nrd_version(void) try { return NEREID_VERSION; }
NRD_CATCH_AND(return nullptr)
uint32_t nrd_abi_version(void) try { return NRD_ABI_VERSION; }
NRD_CATCH_AND(return 0)

//===--- errors -------------------------------------------------------------------------------===//

static const Error &unwrap(const nrd_error *error) {
  return *reinterpret_cast<const Error *>(error);
}

nrd_error *runtime::wrap(ErrorPtr error) {
  return reinterpret_cast<nrd_error *>(error.release());
}

ErrorPtr runtime::taken(nrd_error *error) {
  auto *own = reinterpret_cast<Error *>(error);
  return isEmergency(own) ? std::make_unique<Error>(*own) : ErrorPtr(own);
}

nrd_error_kind nrd_error_get_kind(const nrd_error *error) try {
  if (!error)
    return nrd_error_kind(0);
  return unwrap(error).kind;
}
NRD_CATCH_AND(return nrd_error_kind(0))
const char *nrd_error_name(const nrd_error *error) try {
  if (!error)
    return nullptr;
  return unwrap(error).name.c_str();
}
NRD_CATCH_AND(return nullptr)
const char *nrd_error_message(const nrd_error *error) try {
  if (!error)
    return nullptr;
  return unwrap(error).message.c_str();
}
NRD_CATCH_AND(return nullptr)
const char *nrd_error_summary(const nrd_error *error) try {
  if (!error)
    return nullptr;
  return unwrap(error).summary.c_str();
}
NRD_CATCH_AND(return nullptr)
const char *nrd_error_triton_text(const nrd_error *error) try {
  if (!error)
    return nullptr;
  return unwrap(error).tritonText.c_str();
}
NRD_CATCH_AND(return nullptr)
const char *nrd_error_triton_summary(const nrd_error *error) try {
  if (!error)
    return nullptr;
  return unwrap(error).tritonSummary.c_str();
}
NRD_CATCH_AND(return nullptr)
const char *nrd_error_python_class(const nrd_error *error) try {
  if (!error)
    return nullptr;
  return unwrap(error).pythonClass.c_str();
}
NRD_CATCH_AND(return nullptr)
uint64_t nrd_error_cause(const nrd_error *error) try {
  if (!error)
    return 0;
  return unwrap(error).cause;
}
NRD_CATCH_AND(return 0)
const char *nrd_error_resource(const nrd_error *error, int64_t *required, int64_t *limit) try {
  if (!error)
    return nullptr;
  const Error &self = unwrap(error);
  if (required)
    *required = self.required;
  if (limit)
    *limit = self.limit;
  return self.resource.empty() ? nullptr : self.resource.c_str();
}
NRD_CATCH_AND(return nullptr)
void nrd_error_free(nrd_error *error) try {
  if (!isEmergency(reinterpret_cast<Error *>(error)))
    delete reinterpret_cast<Error *>(error);
}
NRD_CATCH

//===--- making values
//--------------------------------------------------------------------------===//

static nrd_value *literal(Value value) {
  auto *result = new nrd_value{std::move(value), {}, {}, {}};
  result->key = keyOfLiteral(result->value);
  return result;
}

nrd_value *nrd_value_none(void) try { return literal(Value()); }
NRD_CATCH_AND(return nullptr)
nrd_value *nrd_value_bool(int value) try { return literal(Value(value != 0)); }
NRD_CATCH_AND(return nullptr)
nrd_value *nrd_value_int(int64_t value) try { return literal(Value::integer(value)); }
NRD_CATCH_AND(return nullptr)
nrd_value *nrd_value_float(double value) try { return literal(Value(value)); }
NRD_CATCH_AND(return nullptr)
nrd_value *nrd_value_str(const char *text, size_t size) try {
  if (!text && size)
    return nullptr;
  return literal(Value(std::string(text, size)));
}
NRD_CATCH_AND(return nullptr)

nrd_value *nrd_value_big_int(const char *decimal) try {
  if (!decimal)
    return nullptr;
  llvm::StringRef text(decimal);
  llvm::StringRef digits = text;
  digits.consume_front("-");
  if (digits.empty() || !llvm::all_of(digits, llvm::isDigit))
    return nullptr;
  // Four bits a digit are enough, and one for the sign.
  unsigned bits = std::max<unsigned>(64, unsigned(digits.size()) * 4 + 1);
  llvm::APSInt value(llvm::APInt(bits, text, 10), /*isUnsigned=*/false);
  return literal(Value(value.trunc(std::max(64u, value.getSignificantBits()))));
}
NRD_CATCH_AND(return nullptr)

nrd_value *nrd_value_type(const char *signature, const int64_t *shape, size_t rank) try {
  if (!signature || (!shape && rank) || rank > mostItems)
    return nullptr;
  auto type = frontend::parseSignatureType(signature);
  if (!type) {
    auto dtype = frontend::dtypeByName(signature);
    if (!dtype)
      return nullptr;
    type = frontend::Type::of(*dtype);
  }
  return literal(Value(frontend::TypeValue{type->withShape({shape, rank})}));
}
NRD_CATCH_AND(return nullptr)

nrd_value *nrd_value_tuple(nrd_value *const *items, size_t count, const char *const *fields,
                           uint64_t host_class) try {
  if (hasNull(items, count) || (fields && hasNull(fields, count)))
    return nullptr;
  frontend::Tuple tuple;
  auto *result = new nrd_value();
  std::string key = "(";
  bool isConstant = true;
  for (size_t i = 0; i < count; ++i) {
    tuple.items.push_back(items[i]->value);
    if (fields)
      tuple.fields.push_back(fields[i]);
    result->owners.insert(result->owners.end(), items[i]->owners.begin(), items[i]->owners.end());
    isConstant &= !items[i]->key.empty();
    key += items[i]->key;
    if (fields)
      key += std::string(fields[i]) + ",";
  }
  tuple.hostClass = host_class;
  if (tuple.items.weight() > frontend::maxValueBytes ||
      tuple.items.nesting() > frontend::maxValueDepth) {
    delete result;
    return nullptr;
  }
  if (isConstant)
    result->key = key + llvm::utohexstr(host_class) + ")";
  result->value = Value(std::move(tuple));
  return result;
}
NRD_CATCH_AND(return nullptr)

nrd_value *nrd_value_aggregate(nrd_value *const *items, size_t count, const char *const *fields,
                               uint64_t host_class, const char *class_name) try {
  if (hasNull(items, count) || hasNull(fields, count) || !class_name)
    return nullptr;
  frontend::Aggregate aggregate;
  auto result = std::make_unique<nrd_value>();
  std::string key = std::string("a") + class_name + "(";
  std::vector<std::string> names;
  bool isConstant = true;
  for (size_t i = 0; i < count; ++i) {
    aggregate.items.push_back(items[i]->value);
    names.push_back(fields[i]);
    result->owners.insert(result->owners.end(), items[i]->owners.begin(), items[i]->owners.end());
    isConstant &= !items[i]->key.empty();
    key += items[i]->key;
  }
  if (host_class)
    aggregate.cls = std::make_shared<const frontend::Class>(host_class, class_name, names);
  else if (const Compiler *compiler = Compiler::find())
    aggregate.cls = compiler->findPreludeClass(class_name);
  if (!aggregate.cls || aggregate.cls->fields().size() != count)
    return nullptr;
  if (isConstant)
    result->key = key + llvm::utohexstr(host_class) + ")";
  result->value = Value(std::move(aggregate));
  return result.release();
}
NRD_CATCH_AND(return nullptr)

nrd_value *nrd_value_function(nrd_function *function) try {
  if (!function)
    return nullptr;
  const std::shared_ptr<FunctionRecord> &record = function->record;
  auto *result = new nrd_value{Value(frontend::FunctionValue{&record->function, nullptr}),
                               "F" + llvm::utohexstr(uintptr_t(record.get())) + ";",
                               {record},
                               {}};
  return result;
}
NRD_CATCH_AND(return nullptr)

static nrd_value *languageValue(const char *name) {
  const Compiler *compiler = Compiler::find();
  if (!compiler)
    return nullptr;
  if (const frontend::Builtin *builtin = compiler->findBuiltin(name))
    return literal(Value(frontend::BuiltinValue{builtin, nullptr}));
  if (const frontend::Function *prelude = compiler->findPrelude(name)) {
    nrd_value *value = literal(Value(frontend::FunctionValue{prelude, nullptr}));
    value->key = std::string("P") + name + ";";
    return value;
  }
  // Constants, dtypes and members of submodules: "math.exp", "float32", "PropagateNan".
  auto [module, member] = llvm::StringRef(name).rsplit('.');
  std::string path = member.empty() ? "triton.language" : ("triton.language." + module).str();
  auto found = compiler->languageMember(path, member.empty() ? module : member);
  if (!found)
    return nullptr;
  nrd_value *value = literal(std::move(*found));
  if (value->key.empty())
    value->key = std::string("P") + name + ";";
  return value;
}

nrd_value *nrd_value_builtin(const char *name) try {
  if (!name)
    return nullptr;
  nrd_value *value = languageValue(name);
  if (value)
    value->languageName = name;
  return value;
}
NRD_CATCH_AND(return nullptr)

nrd_value *nrd_value_named(const char *name) try {
  if (!name)
    return nullptr;
  auto *value = new nrd_value{Value(), {}, {}, {}};
  value->languageName = name;
  value->isNameAlone = true;
  return value;
}
NRD_CATCH_AND(return nullptr)

nrd_value *nrd_value_module(const char *name) try {
  if (!name)
    return nullptr;
  llvm::StringRef text(name);
  if (text != "triton" && !text.starts_with("triton.language"))
    return nullptr;
  return literal(Value(frontend::ModuleValue{text.str()}));
}
NRD_CATCH_AND(return nullptr)

nrd_value *nrd_value_slice(const nrd_value *start, const nrd_value *stop,
                           const nrd_value *step) try {
  auto part = [](const nrd_value *value) {
    return std::make_shared<const Value>(value ? value->value : Value());
  };
  return literal(Value(frontend::SliceValue{part(start), part(stop), part(step)}));
}
NRD_CATCH_AND(return nullptr)

nrd_value *nrd_value_object(uint64_t handle, const char *type_name, const char *key) try {
  if (!type_name)
    return nullptr;
  auto *result = new nrd_value{Value(frontend::HostObject{handle, type_name}), {}, {}, {}};
  if (key)
    result->key = "o" + std::to_string(std::strlen(key)) + ":" + key;
  return result;
}
NRD_CATCH_AND(return nullptr)

nrd_value *nrd_value_copy(const nrd_value *value) try {
  if (!value)
    return nullptr;
  return new nrd_value(*value);
}
NRD_CATCH_AND(return nullptr)
void nrd_value_free(nrd_value *value) try { delete value; }
NRD_CATCH

//===--- reading values
//-------------------------------------------------------------------------===//

nrd_value_kind nrd_value_get_kind(const nrd_value *value) try {
  if (!value)
    return NRD_VALUE_NONE;
  const Value &of = value->value;
  if (of.isNone())
    return NRD_VALUE_NONE;
  if (of.is<bool>())
    return NRD_VALUE_BOOL;
  if (of.is<llvm::APSInt>())
    return NRD_VALUE_INT;
  if (of.is<double>())
    return NRD_VALUE_FLOAT;
  if (of.is<std::string>())
    return NRD_VALUE_STR;
  if (of.is<frontend::TypeValue>())
    return NRD_VALUE_TYPE;
  if (of.is<frontend::Tuple>())
    return NRD_VALUE_TUPLE;
  if (of.is<frontend::Tensor>())
    return NRD_VALUE_TENSOR;
  if (of.is<frontend::FunctionValue>())
    return NRD_VALUE_FUNCTION;
  if (of.is<frontend::BuiltinValue>())
    return NRD_VALUE_BUILTIN;
  if (of.is<frontend::ModuleValue>())
    return NRD_VALUE_MODULE;
  if (of.is<frontend::HostObject>())
    return NRD_VALUE_OBJECT;
  if (of.is<frontend::Aggregate>())
    return NRD_VALUE_AGGREGATE;
  return NRD_VALUE_OTHER;
}
NRD_CATCH_AND(return NRD_VALUE_NONE)

int nrd_value_get_bool(const nrd_value *value) try {
  if (!value)
    return 0;
  auto *flag = value->value.getIf<bool>();
  return flag && *flag;
}
NRD_CATCH_AND(return 0)

int nrd_value_get_int(const nrd_value *value, int64_t *out) try {
  if (!value || !out)
    return 0;
  if (auto *flag = value->value.getIf<bool>()) {
    *out = *flag;
    return 1;
  }
  auto *integer = value->value.getIf<llvm::APSInt>();
  if (!integer)
    return 0;
  if (integer->isUnsigned() ? integer->getActiveBits() > 63 : integer->getSignificantBits() > 64)
    return 0;
  *out = integer->getExtValue();
  return 1;
}
NRD_CATCH_AND(return 0)

const char *nrd_value_get_text(const nrd_value *value) try {
  if (!value)
    return nullptr;
  const Value &of = value->value;
  if (auto *text = of.getIf<std::string>())
    return text->c_str();
  if (auto *integer = of.getIf<llvm::APSInt>())
    value->text = llvm::toString(*integer, 10);
  else if (auto *type = of.getIf<frontend::TypeValue>())
    value->text = type->type.str();
  else if (auto *module = of.getIf<frontend::ModuleValue>())
    value->text = module->name;
  else if (auto *builtin = of.getIf<frontend::BuiltinValue>())
    value->text = builtin->builtin->name;
  else if (auto *function = of.getIf<frontend::FunctionValue>())
    value->text = function->function->name().str();
  else if (auto *object = of.getIf<frontend::HostObject>())
    value->text = object->typeName;
  else if (auto *aggregate = of.getIf<frontend::Aggregate>())
    value->text = aggregate->cls->name().str();
  else
    value->text = of.repr();
  return value->text.c_str();
}
NRD_CATCH_AND(return nullptr)

double nrd_value_get_float(const nrd_value *value) try {
  if (!value)
    return 0;
  if (auto *number = value->value.getIf<double>())
    return *number;
  int64_t integer = 0;
  return nrd_value_get_int(value, &integer) ? double(integer) : 0.0;
}
NRD_CATCH_AND(return 0)

size_t nrd_value_get_count(const nrd_value *value) try {
  if (!value)
    return 0;
  const std::vector<Value> *items = frontend::itemsOf(value->value);
  return items ? items->size() : 0;
}
NRD_CATCH_AND(return 0)

nrd_value *nrd_value_get_item(const nrd_value *value, size_t index) try {
  if (!value)
    return nullptr;
  const std::vector<Value> *items = frontend::itemsOf(value->value);
  if (!items || index >= items->size())
    return nullptr;
  nrd_value *item = literal((*items)[index]);
  item->owners = value->owners;
  return item;
}
NRD_CATCH_AND(return nullptr)

const char *nrd_value_get_field(const nrd_value *value, size_t index) try {
  if (!value)
    return nullptr;
  if (auto *aggregate = value->value.getIf<frontend::Aggregate>())
    return index < aggregate->items.size() ? aggregate->cls->fields()[index].name.c_str() : nullptr;
  auto *tuple = value->value.getIf<frontend::Tuple>();
  return tuple && index < tuple->fields.size() ? tuple->fields[index].c_str() : nullptr;
}
NRD_CATCH_AND(return nullptr)

uint64_t nrd_value_get_handle(const nrd_value *value) try {
  if (!value)
    return 0;
  if (auto *object = value->value.getIf<frontend::HostObject>())
    return object->handle;
  if (auto *tuple = value->value.getIf<frontend::Tuple>())
    return tuple->hostClass;
  if (auto *aggregate = value->value.getIf<frontend::Aggregate>())
    return aggregate->cls->handle();
  if (auto *function = value->value.getIf<frontend::FunctionValue>())
    return uint64_t(uintptr_t(function->function->hostData()));
  return 0;
}
NRD_CATCH_AND(return 0)

const char *nrd_value_get_type(const nrd_value *value, const int64_t **shape, size_t *rank) try {
  if (!value)
    return nullptr;
  const frontend::Type *type = nullptr;
  if (auto *known = value->value.getIf<frontend::TypeValue>())
    type = &known->type;
  else if (auto *tensor = value->value.getIf<frontend::Tensor>())
    type = &tensor->type;
  if (!type)
    return nullptr;
  if (shape)
    *shape = type->shape.data();
  if (rank)
    *rank = type->shape.size();
  value->text = signatureText(type->element());
  return value->text.c_str();
}
NRD_CATCH_AND(return nullptr)
