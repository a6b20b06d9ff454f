// Python's own builtin functions, as far as kernels may use them. They are found by bare name,
// after the host's globals.
#include "frontend/builtins/families.h"
#include "frontend/class.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/Support/Error.h"

#include <cmath>
#include <optional>
#include <string>
#include <tuple>

namespace nereid::frontend {

static FailureOr<Value> length(Semantic &s, const BoundArgs &args) {
  const Value &value = args["obj"];
  if (value.is<Aggregate>()) {
    auto method = s.evaluator.findAttribute(value, "__len__", args.call());
    if (failed(method))
      return failure();
    if (*method)
      return s.evaluator.call(**method, {}, {}, args.call());
  }
  if (auto *tuple = value.getIf<Tuple>())
    return Value::integer(int64_t(tuple->items.size()));
  if (auto *text = value.getIf<std::string>())
    return Value::integer(llvm::count_if(*text, [](char c) { return (c & 0xc0) != 0x80; }));
  if (auto *tensor = value.getIf<Tensor>(); tensor && tensor->type.isBlock())
    return Value::integer(tensor->type.shape.front());
  return s.error(diag::NoLength, args.span("obj"), value.kindName());
}

static FailureOr<Value> toTuple(Semantic &s, const BoundArgs &args) {
  if (args[0].isNone())
    return Value(Tuple());
  if (args[0].is<Tuple>())
    return args[0];
  auto *range = args[0].getIf<RangeValue>();
  if (!range)
    return s.error(diag::ExpectedArgumentKind, args.call(),
                   "the argument of `" + std::string(args.row().name + 7) + "`", "a tuple or range",
                   args[0].kindName());
  auto start = s.knownInt(*range->start, "a bound of `range`", args.call());
  auto stop = s.knownInt(*range->stop, "a bound of `range`", args.call());
  auto step = s.knownInt(*range->step, "the step of `range`", args.call());
  if (failed(start) || failed(stop) || failed(step))
    return failure();
  auto most = size_t(s.options.budget.iterations);
  Tuple items;
  for (int64_t i = *start; *step > 0 ? i < *stop : *step < 0 && i > *stop;) {
    if (items.items.size() == most)
      return s.error(diag::TooManyIterations, args.call(), int64_t(most), int64_t(most) + 1);
    items.items.push_back(Value::integer(i));
    if (llvm::AddOverflow(i, *step, i))
      break;
  }
  return Value(std::move(items));
}

static const Value *knownNumber(Semantic &s, const BoundArgs &args, llvm::StringRef function) {
  const Value *known = knownOrNull(args["x"]);
  if (known)
    return known;
  (void)s.error(diag::ExpectedKnownValue, args.span("x"),
                "the argument of `" + function.str() + "`", args["x"].kindName());
  return nullptr;
}

/// Not by C's functions, for which a locale says what a point is.
static std::optional<double> floatOfText(llvm::StringRef text) {
  std::string digits = text.trim().lower();
  llvm::erase(digits, '_');
  llvm::StringRef rest = digits;
  bool isNegative = rest.consume_front("-");
  if (!isNegative)
    rest.consume_front("+");
  llvm::APFloat number(llvm::APFloat::IEEEdouble());
  if (rest == "inf" || rest == "infinity") {
    number = llvm::APFloat::getInf(number.getSemantics());
  } else if (rest == "nan") {
    number = llvm::APFloat::getNaN(number.getSemantics());
  } else {
    if (rest.empty() || (!llvm::isDigit(rest.front()) && rest.front() != '.') || rest.contains('x'))
      return std::nullopt;
    auto status = number.convertFromString(rest, llvm::APFloat::rmNearestTiesToEven);
    if (!status) {
      llvm::consumeError(status.takeError());
      return std::nullopt;
    }
  }
  return isNegative ? -number.convertToDouble() : number.convertToDouble();
}

static FailureOr<Value> toFloat(Semantic &s, const BoundArgs &args) {
  const Value *known = knownNumber(s, args, "float");
  if (!known)
    return failure();
  if (auto *text = known->getIf<std::string>()) {
    auto number = floatOfText(*text);
    if (!number)
      return s.error(diag::NotANumber, args.span("x"), "float", known->repr());
    return Value(*number);
  }
  if (!known->isNumber())
    return s.error(diag::NotANumber, args.span("x"), "float", known->kindName());
  if (known->is<double>())
    return *known;
  auto sum = foldBinary(BinaryOp::Add, *known, Value(0.0));
  return std::get<Value>(sum);
}

static FailureOr<Value> toInt(Semantic &s, const BoundArgs &args) {
  const Value *known = knownNumber(s, args, "int");
  if (!known)
    return failure();
  if (auto *text = known->getIf<std::string>()) {
    llvm::StringRef digits = llvm::StringRef(*text).trim();
    bool isNegative = digits.consume_front("-");
    llvm::APInt magnitude;
    if (digits.empty() || digits.getAsInteger(10, magnitude))
      return s.error(diag::NotANumber, args.span("x"), "int", known->repr());
    Value number(llvm::APSInt(magnitude.zext(magnitude.getBitWidth() + 1), false));
    return std::get<Value>(foldUnary(isNegative ? UnaryOpKind::USub : UnaryOpKind::UAdd, number));
  }
  if (auto *real = known->getIf<double>()) {
    if (!std::isfinite(*real))
      return s.error(diag::NotANumber, args.span("x"), "int", known->repr());
    llvm::APSInt whole(1100, /*isUnsigned=*/false);
    bool exact;
    llvm::APFloat(*real).convertToInteger(whole, llvm::APFloat::rmTowardZero, &exact);
    return std::get<Value>(foldUnary(UnaryOpKind::UAdd, Value(whole)));
  }
  if (!known->isNumber())
    return s.error(diag::NotANumber, args.span("x"), "int", known->kindName());
  return std::get<Value>(foldUnary(UnaryOpKind::UAdd, *known));
}

static FailureOr<Value> toBool(Semantic &s, const BoundArgs &args) {
  if (args["x"].isTensor())
    return result(s.truth(args["x"], args.span("x")));
  auto truth = s.knownTruth(args["x"], args.span("x"));
  if (failed(truth))
    return failure();
  return Value(truth->value_or(true));
}

static FailureOr<Value> toStr(Semantic &, const BoundArgs &args) {
  return Value(strOfKnown(args["object"]));
}

static FailureOr<Value> absolute(Semantic &s, const BoundArgs &args) {
  const Value &x = args["x"];
  if (x.isTensor())
    return callBuiltin(s, *findBuiltin("abs"), &x, {}, {}, args.call());
  if (!x.isNumber())
    return s.error(diag::NotANumber, args.span("x"), "abs", x.kindName());
  auto isNegative = foldCompare(CompareOp::Lt, x, Value::integer(0));
  bool flip = std::get<Value>(isNegative).get<bool>();
  return s.unary(flip ? UnaryOpKind::USub : UnaryOpKind::UAdd, x);
}

/// `min(a, b, ...)` and `max`: of known values Python's, else `tl.minimum` and `tl.maximum`.
template <bool isMax> static FailureOr<Value> extremum(Semantic &s, const BoundArgs &args) {
  Value items = spread(args["args"]);
  const std::vector<Value> &values = items.get<Tuple>().items;
  if (values.empty())
    return s.error(diag::MissingArgument, args.call(), isMax ? "max" : "min", "args");
  Value best = values.front();
  const Builtin &runTime = *findBuiltin(isMax ? "maximum" : "minimum");
  for (const Value &value : llvm::ArrayRef(values).drop_front()) {
    if (best.isTensor() || value.isTensor()) {
      auto chosen = callBuiltin(s, runTime, nullptr, {{best, args.call()}, {value, args.call()}},
                                {}, args.call());
      if (failed(chosen))
        return failure();
      best = *chosen;
      continue;
    }
    auto order = s.compare(isMax ? CompareOp::Gt : CompareOp::Lt, value, best);
    if (failed(order))
      return failure();
    if (truthOfKnown(*order).value_or(false))
      best = value;
  }
  return best;
}

static FailureOr<Value> getAttribute(Semantic &s, const BoundArgs &args) {
  auto name = s.knownString(args["name"], "the name of an attribute", args.span("name"));
  if (failed(name))
    return failure();
  const std::vector<Value> &fallback = args["default"].get<Tuple>().items;
  if (fallback.size() > 1)
    return s.error(diag::TooManyArguments, args.call(), "getattr", int64_t(3),
                   int64_t(fallback.size() + 2));
  if (fallback.empty())
    return s.evaluator.getAttribute(args["object"], *name, args.call());
  auto found = s.evaluator.findAttribute(args["object"], *name, args.span("object"));
  if (failed(found))
    return failure();
  return *found ? **found : fallback.front();
}

static FailureOr<Value> hasAttribute(Semantic &s, const BoundArgs &args) {
  auto name = s.knownString(args["name"], "the name of an attribute", args.span("name"));
  if (failed(name))
    return failure();
  auto found = s.evaluator.findAttribute(args["object"], *name, args.span("object"));
  if (failed(found))
    return failure();
  return Value(found->has_value());
}

/// Whether `value` is an instance of the class that a name of the language or of Python stands for.
static std::optional<bool> isInstance(const Value &value, const Value &type) {
  auto *classValue = type.getIf<BuiltinValue>();
  if (!classValue)
    return std::nullopt;
  auto found =
      llvm::StringSwitch<std::optional<bool>>(classValue->builtin->name)
          .Case("tensor", value.isTensor() && !value.get<Tensor>().type.isDescriptor)
          .Cases({"tensor_descriptor", "tensor_descriptor_base"},
                 value.isTensor() && value.get<Tensor>().type.isDescriptor)
          .Case("constexpr", false) // as in Triton: Python's functions see what is in the box
          .Cases({"tuple", "python.tuple", "python.list"}, value.is<Tuple>())
          .Case("dtype", value.is<TypeValue>() && !value.get<TypeValue>().type.isPointer &&
                             !value.get<TypeValue>().type.isBlock())
          .Case("pointer_type", value.is<TypeValue>() && value.get<TypeValue>().type.isPointer)
          .Case("block_type", value.is<TypeValue>() && value.get<TypeValue>().type.isBlock())
          .Case("python.int", value.is<llvm::APSInt>() || value.is<bool>())
          .Case("python.bool", value.is<bool>())
          .Case("python.float", value.is<double>())
          .Case("python.str", value.is<std::string>())
          .Default(std::nullopt);
  return found;
}

/// Whether an aggregate is of a class, or of one derived from it.
static bool isOfClass(Semantic &s, const Value &value, const Value &type) {
  auto *aggregate = value.getIf<Aggregate>();
  if (!aggregate)
    return false;
  if (auto *cls = type.getIf<ClassValue>())
    return aggregate->cls->derivesFrom(*cls->cls);
  auto *wanted = type.getIf<HostObject>();
  if (!wanted || !aggregate->cls->handle())
    return false;
  if (wanted->handle == aggregate->cls->handle())
    return true;
  HostObject cls{aggregate->cls->handle(), aggregate->cls->name().str()};
  auto bases = s.host.getAttribute(cls, "__mro__");
  auto *all = bases.value ? bases.value->getIf<Tuple>() : nullptr;
  return all && llvm::any_of(all->items, [&](const Value &base) {
           auto *object = base.getIf<HostObject>();
           return object && object->handle == wanted->handle;
         });
}

static FailureOr<Value> instanceTest(Semantic &s, const BoundArgs &args) {
  Value classes = args["classinfo"];
  std::vector<Value> items{classes};
  if (auto *tuple = classes.getIf<Tuple>())
    items = tuple->items;
  for (const Value &item : items) {
    auto is = isInstance(args["object"], item);
    if (!is && !item.is<HostObject>() && !item.is<ClassValue>())
      return s.error(diag::NotAClass, args.span("classinfo"), item.kindName());
    if (is.value_or(false) || isOfClass(s, args["object"], item))
      return Value(true);
  }
  return Value(false);
}

/// Fills `changes` (a named tuple) in among the items whose names `indexOf` knows.
static llvm::LogicalResult replaceItems(Semantic &s, const BoundArgs &args,
                                        std::vector<Value> &items, llvm::StringRef className,
                                        llvm::function_ref<int(llvm::StringRef)> indexOf) {
  const Tuple &changes = args["changes"].get<Tuple>();
  for (auto [name, value] : llvm::zip(changes.fields, changes.items)) {
    int index = indexOf(name);
    if (index < 0)
      return s.error(diag::UnknownAttribute, args.call(), "`" + className.str() + "` object", name);
    items[index] = value;
  }
  return llvm::success();
}

/// A named tuple with other values in some of its fields.
static FailureOr<Value> tupleReplace(Semantic &s, const BoundArgs &args) {
  Tuple result = args["self"].get<Tuple>();
  auto indexOf = [&](llvm::StringRef name) {
    auto *found = llvm::find(llvm::ArrayRef(result.fields), name);
    return found == llvm::ArrayRef(result.fields).end()
               ? -1
               : int(found - llvm::ArrayRef(result.fields).begin());
  };
  if (failed(replaceItems(s, args, result.items.edit(), "tuple", indexOf)))
    return failure();
  return Value(std::move(result));
}

/// An aggregate with other values in some of its fields; each keeps its kind.
static FailureOr<Value> aggregateReplace(Semantic &s, const BoundArgs &args) {
  auto *object = args["obj"].getIf<Aggregate>();
  if (!object)
    return s.error(diag::ExpectedArgumentKind, args.span("obj"),
                   "the argument of `aggregate_replace`", "an aggregate", args["obj"].kindName());
  Aggregate result = *object;
  auto indexOf = [&](llvm::StringRef name) { return result.cls->fieldIndex(name); };
  if (failed(replaceItems(s, args, result.items.edit(), result.cls->name(), indexOf)))
    return failure();
  for (size_t i = 0; i < result.items.size(); ++i) {
    const Value &before = object->items[i];
    Value &after = result.items.edit()[i];
    if (!before.isTensor() && knownOrNull(after))
      after = Value(*knownOrNull(after));
    bool fits =
        before.isTensor() == after.isTensor() && bool(itemsOf(before)) == bool(itemsOf(after));
    if (!fits)
      return s.error(diag::FieldType, args.call(), before.kindName(), result.cls->fields()[i].name,
                     after.kindName());
  }
  return Value(std::move(result));
}

static FailureOr<Value> tupleIndex(Semantic &s, const BoundArgs &args) {
  const std::vector<Value> &items = args["self"].get<Tuple>().items;
  for (size_t i = 0; i < items.size(); ++i)
    if (knownOrNull(items[i]) && knownOrNull(args["value"]) &&
        equalKnown(*knownOrNull(items[i]), *knownOrNull(args["value"])))
      return Value::integer(int64_t(i));
  return s.error(diag::ExpectedArgumentKind, args.call(), "the argument of `index`",
                 "an item of the tuple", args["value"].repr());
}

static FailureOr<Value> nextPowerOfTwo(Semantic &s, const BoundArgs &args) {
  auto number = s.knownInt(args["n"], "the argument of `next_power_of_2`", args.span("n"));
  if (failed(number))
    return failure();
  if (*number < 1)
    return Value::integer(0);
  return std::get<Value>(foldBinary(BinaryOp::LShift, Value::integer(1),
                                    Value::integer(llvm::Log2_64_Ceil(uint64_t(*number)))));
}

/// `tl.core.get_int_dtype(bitwidth, signed)`: how kernels name the integers that hold the bits of a
/// float.
static FailureOr<Value> integerType(Semantic &s, const BoundArgs &args) {
  auto bits = s.knownInt(args["bitwidth"], "the width of an integer type", args.span("bitwidth"));
  auto isSigned = s.knownTruth(args["signed"], args.span("signed"));
  if (failed(bits) || failed(isSigned))
    return failure();
  for (auto [width, plain, natural] : {std::tuple(1, DType::Int1, DType::Int1),
                                       {8, DType::Int8, DType::UInt8},
                                       {16, DType::Int16, DType::UInt16},
                                       {32, DType::Int32, DType::UInt32},
                                       {64, DType::Int64, DType::UInt64}})
    if (*bits == width)
      return Value(TypeValue{Type::of(isSigned->value_or(true) ? plain : natural)});
  return s.error(diag::UnknownAttribute, args.span("bitwidth"), "module `triton.language`",
                 "int" + std::to_string(*bits));
}

/// `tl.standard._log2(n)` of a power of two.
static FailureOr<Value> logarithm(Semantic &s, const BoundArgs &args) {
  auto number = s.knownInt(args["i"], "the argument of `_log2`", args.span("i"));
  if (failed(number))
    return failure();
  return Value::integer(*number < 1 ? 0 : int64_t(llvm::Log2_64(uint64_t(*number))));
}

/// `tl.core._unwrap_if_constexpr(x)`: values known here have no box.
static FailureOr<Value> unwrapped(Semantic &, const BoundArgs &args) {
  return args["o"];
}

std::vector<Builtin> pythonBuiltins() {
  const char *category = "Python";
  return {
      {.name = "python.len", .signature = "(obj)", .build = &length, .category = category},
      {.name = "python.list",
       .signature = "(iterable=None)",
       .build = &toTuple,
       .category = category},
      {.name = "python.tuple",
       .signature = "(iterable=None)",
       .build = &toTuple,
       .category = category},
      {.name = "python.float", .signature = "(x=0.0)", .build = &toFloat, .category = category},
      {.name = "python.int", .signature = "(x=0)", .build = &toInt, .category = category},
      {.name = "python.bool", .signature = "(x=False)", .build = &toBool, .category = category},
      {.name = "python.str", .signature = "(object='')", .build = &toStr, .category = category},
      {.name = "python.abs", .signature = "(x)", .build = &absolute, .category = category},
      {.name = "python.min",
       .signature = "(*args)",
       .build = &extremum<false>,
       .category = category},
      {.name = "python.max",
       .signature = "(*args)",
       .build = &extremum<true>,
       .category = category},
      {.name = "python.getattr",
       .signature = "(object, name, *default)",
       .build = &getAttribute,
       .category = category},
      {.name = "python.hasattr",
       .signature = "(object, name)",
       .build = &hasAttribute,
       .category = category},
      {.name = "python.aggregate_replace",
       .signature = "(obj, **changes)",
       .build = &aggregateReplace,
       .category = category},
      {.name = "tuple._replace",
       .signature = "(self, **changes)",
       .build = &tupleReplace,
       .category = category},
      {.name = "tuple.index",
       .signature = "(self, value)",
       .build = &tupleIndex,
       .category = category},
      {.name = "python.next_power_of_2",
       .signature = "(n)",
       .build = &nextPowerOfTwo,
       .category = category},
      {.name = "python.get_int_dtype",
       .signature = "(bitwidth, signed)",
       .build = &integerType,
       .category = category},
      {.name = "python._log2", .signature = "(i)", .build = &logarithm, .category = category},
      {.name = "python._unwrap_if_constexpr",
       .signature = "(o)",
       .build = &unwrapped,
       .category = category},
      {.name = "python.isinstance",
       .signature = "(object, classinfo)",
       .build = &instanceTest,
       .category = category},
  };
}

} // namespace nereid::frontend
