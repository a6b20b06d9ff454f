#include "frontend/value.h"

#include "frontend/builtin.h"
#include "frontend/class.h"
#include "frontend/function.h"
#include "frontend/semantic.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/MathExtras.h"

#include <charconv>
#include <cmath>

namespace nereid::frontend {

Value Value::integer(int64_t value) {
  return Value(llvm::APSInt(llvm::APInt(64, uint64_t(value), /*isSigned=*/true), false));
}

bool Value::isKnown() const {
  if (const std::vector<Value> *items = itemsOf(*this))
    return llvm::all_of(*items, [](const Value &item) { return item.isKnown(); });
  return !isTensor();
}

bool Value::isNumber() const {
  return is<bool>() || is<llvm::APSInt>() || is<double>();
}

/// Python's repr of a float: the shortest digits that give the number back.
static std::string floatRepr(double value) {
  if (std::isnan(value))
    return "nan";
  if (std::isinf(value))
    return value < 0 ? "-inf" : "inf";
  char buffer[64];
  auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  llvm::StringRef text(buffer, size_t(end - buffer));
  auto [mantissa, exponentText] = text.split('e');
  exponentText.consume_front("+");
  int exponent = 0;
  exponentText.getAsInteger(10, exponent);
  if (exponent < -4 || exponent >= 16) {
    std::string digits = std::to_string(std::abs(exponent));
    if (digits.size() < 2)
      digits = "0" + digits;
    return mantissa.str() + "e" + (exponent < 0 ? "-" : "+") + digits;
  }
  end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr;
  std::string plain(buffer, end);
  return plain.find('.') == std::string::npos ? plain + ".0" : plain;
}

static std::string stringRepr(llvm::StringRef text) {
  char quote = text.contains('\'') && !text.contains('"') ? '"' : '\'';
  std::string out(1, quote);
  for (char c : text) {
    if (c == quote || c == '\\')
      out += '\\', out += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\r')
      out += "\\r";
    else
      out += c;
  }
  return out + quote;
}

static std::string tupleRepr(const Tuple &tuple) {
  std::string out = "(";
  for (size_t i = 0; i < tuple.items.size(); ++i) {
    if (i)
      out += ", ";
    if (i < tuple.fields.size())
      out += tuple.fields[i] + "=";
    out += tuple.items[i].repr();
  }
  return out + (tuple.items.size() == 1 && tuple.fields.empty() ? ",)" : ")");
}

static std::string tensorRepr(const Tensor &tensor) {
  if (tensor.type.isDescriptor)
    return tensor.type.str();
  std::string out = tensor.type.element().str() + "[";
  for (size_t i = 0; i < tensor.type.shape.size(); ++i)
    out += (i ? ", constexpr[" : "constexpr[") + std::to_string(tensor.type.shape[i]) + "]";
  return out + "]";
}

static std::string aggregateRepr(const Aggregate &value) {
  std::string out = value.cls->name().str() + "(";
  for (size_t i = 0; i < value.items.size(); ++i)
    out += (i ? ", " : "") + value.cls->fields()[i].name + "=" + value.items[i].repr();
  return out + ")";
}

namespace {
struct Repr {
  std::string operator()(const None &) const { return "None"; }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(const llvm::APSInt &value) const {
    llvm::SmallString<32> text;
    value.toString(text, 10);
    return std::string(text);
  }
  std::string operator()(double value) const { return floatRepr(value); }
  std::string operator()(const std::string &value) const { return stringRepr(value); }
  std::string operator()(const TypeValue &value) const { return value.type.str(); }
  std::string operator()(const Tuple &value) const { return tupleRepr(value); }
  std::string operator()(const Tensor &value) const { return tensorRepr(value); }
  std::string operator()(const FunctionValue &value) const {
    return "<function " + value.function->name().str() + ">";
  }
  std::string operator()(const BuiltinValue &value) const {
    return std::string("<function ") + value.builtin->name + ">";
  }
  std::string operator()(const ModuleValue &value) const { return "<module '" + value.name + "'>"; }
  std::string operator()(const HostObject &value) const {
    return "<" + value.typeName + " object>";
  }
  std::string operator()(const RangeValue &value) const {
    std::string out = value.kind == RangeValue::Kind::Static ? "static_range(" : "range(";
    return out + value.start->repr() + ", " + value.stop->repr() + ", " + value.step->repr() + ")";
  }
  std::string operator()(const SliceValue &value) const {
    return "slice(" + value.start->repr() + ", " + value.stop->repr() + ", " + value.step->repr() +
           ")";
  }
  std::string operator()(const Aggregate &value) const { return aggregateRepr(value); }
  std::string operator()(const ClassValue &value) const {
    return "<class '" + value.cls->name().str() + "'>";
  }
};

struct KindName {
  std::string operator()(const None &) const { return "None"; }
  std::string operator()(bool) const { return "bool"; }
  std::string operator()(const llvm::APSInt &) const { return "int"; }
  std::string operator()(double) const { return "float"; }
  std::string operator()(const std::string &) const { return "str"; }
  std::string operator()(const TypeValue &value) const { return "dtype " + value.type.str(); }
  std::string operator()(const Tuple &) const { return "tuple"; }
  std::string operator()(const Tensor &value) const {
    if (value.type.isDescriptor)
      return "tensor descriptor " + value.type.str();
    if (!value.type.isBlock())
      return value.type.str() + " scalar";
    std::string out = value.type.element().str() + " block of shape [";
    for (size_t i = 0; i < value.type.shape.size(); ++i)
      out += (i ? ", " : "") + std::to_string(value.type.shape[i]);
    return out + "]";
  }
  std::string operator()(const FunctionValue &value) const {
    return "function `" + value.function->name().str() + "`";
  }
  std::string operator()(const BuiltinValue &value) const {
    return std::string("function `") + value.builtin->name + "`";
  }
  std::string operator()(const ModuleValue &value) const { return "module `" + value.name + "`"; }
  std::string operator()(const HostObject &value) const {
    return "`" + value.typeName + "` object";
  }
  std::string operator()(const RangeValue &) const { return "range"; }
  std::string operator()(const SliceValue &) const { return "slice"; }
  std::string operator()(const Aggregate &value) const {
    return "`" + value.cls->name().str() + "` object";
  }
  std::string operator()(const ClassValue &value) const {
    return "class `" + value.cls->name().str() + "`";
  }
};
} // namespace

std::string Value::repr() const {
  return std::visit(Repr{}, storage);
}
std::string Value::kindName() const {
  return std::visit(KindName{}, storage);
}

const Value *knownOrNull(const Value &value) {
  if (auto *tensor = value.getIf<Tensor>())
    return tensor->literal.get();
  return &value;
}

//===--- items
//------------------------------------------------------------------------------------===//

Items::Items(std::vector<Value> values) : node(std::make_shared<Node>()) {
  node->values = std::move(values);
}
Items::Items(std::initializer_list<Value> values) : Items(std::vector<Value>(values)) {}

const std::vector<Value> &Items::all() const {
  static const std::vector<Value> none;
  return node ? node->values : none;
}

std::vector<Value> &Items::edit() {
  if (!node)
    node = std::make_shared<Node>();
  else if (node.use_count() > 1)
    node = std::make_shared<Node>(Node{node->values, 0, 0});
  node->weight = 0;
  return node->values;
}

void Items::push_back(Value value) {
  edit().push_back(std::move(value));
}

uint64_t Items::weight() const {
  if (!node)
    return 0;
  if (!node->weight) {
    node->nesting = 1;
    for (const Value &value : node->values) {
      node->weight = llvm::SaturatingAdd(node->weight, value.weight());
      node->nesting = std::max(node->nesting, value.nesting() + 1);
    }
  }
  return node->weight;
}

unsigned Items::nesting() const {
  weight();
  return node ? node->nesting : 1;
}

/// The value that a member function was read from.
static const Value *ownerOf(const Value &value) {
  if (auto *function = value.getIf<FunctionValue>())
    return function->self.get();
  if (auto *builtin = value.getIf<BuiltinValue>())
    return builtin->self.get();
  auto *object = value.getIf<HostObject>();
  return object ? object->self.get() : nullptr;
}

uint64_t Value::weight() const {
  uint64_t weight = sizeof(Value);
  if (auto *text = getIf<std::string>())
    weight += text->size();
  else if (auto *number = getIf<llvm::APSInt>())
    weight += number->getBitWidth() / 8;
  else if (auto *tuple = getIf<Tuple>())
    weight = llvm::SaturatingAdd(weight, tuple->items.weight());
  else if (auto *aggregate = getIf<Aggregate>())
    weight = llvm::SaturatingAdd(weight, aggregate->items.weight());
  else if (const Value *owner = ownerOf(*this))
    weight = llvm::SaturatingAdd(weight, owner->weight());
  return weight;
}

unsigned Value::nesting() const {
  if (auto *tuple = getIf<Tuple>())
    return tuple->items.nesting();
  if (auto *aggregate = getIf<Aggregate>())
    return aggregate->items.nesting();
  const Value *owner = ownerOf(*this);
  return owner ? owner->nesting() : 0;
}

const std::vector<Value> *itemsOf(const Value &value) {
  if (auto *tuple = value.getIf<Tuple>())
    return &tuple->items.all();
  auto *aggregate = value.getIf<Aggregate>();
  return aggregate ? &aggregate->items.all() : nullptr;
}

std::vector<Value> *editItemsOf(Value &value) {
  if (value.is<Tuple>())
    return &value.get<Tuple>().items.edit();
  return value.is<Aggregate>() ? &value.get<Aggregate>().items.edit() : nullptr;
}

bool sameForm(const Value &a, const Value &b) {
  const std::vector<Value> *itemsA = itemsOf(a), *itemsB = itemsOf(b);
  if (!itemsA || !itemsB || itemsA->size() != itemsB->size())
    return false;
  auto *classA = a.getIf<Aggregate>(), *classB = b.getIf<Aggregate>();
  if (classA || classB)
    return classA && classB && classA->cls->isSame(*classB->cls);
  return a.get<Tuple>().fields == b.get<Tuple>().fields;
}

bool equalKnown(const Value &a, const Value &b) {
  auto result = foldCompare(CompareOp::Eq, a, b);
  auto *value = std::get_if<Value>(&result);
  return value && value->is<bool>() && value->get<bool>();
}

} // namespace nereid::frontend
