#include "frontend/builtin.h"

#include "frontend/builtins/families.h"
#include "support/text.h"
#include "syntax/parser.h"

#include "llvm/ADT/StringMap.h"

#include <mutex>

namespace nereid::frontend {

//===--- the table
//--------------------------------------------------------------------------------===//

namespace {
struct Table {
  std::vector<Builtin> rows;
  llvm::StringMap<const Builtin *> byName;
  /// Beside `rows`: parsed when first used.
  std::vector<std::vector<Parameter>> parameters;
  std::unique_ptr<std::once_flag[]> parsed;

  Table() {
#define FAMILY(Name)                                                                               \
  for (Builtin &row : Name##Builtins())                                                            \
    rows.push_back(std::move(row));
#include "frontend/builtins/families.def"
#undef FAMILY
    llvm::sort(rows,
               [](const Builtin &a, const Builtin &b) { return llvm::StringRef(a.name) < b.name; });
    for (const Builtin &row : rows) {
      byName[row.name] = &row;
      for (const char *alias : row.aliases)
        byName[alias] = &row;
    }
    parameters.resize(rows.size());
    parsed = std::make_unique<std::once_flag[]>(rows.size());
  }
};

Table &table() {
  static Table instance;
  return instance;
}
} // namespace

llvm::ArrayRef<Builtin> allBuiltins() {
  return table().rows;
}

const Builtin *findBuiltin(llvm::StringRef name) {
  return table().byName.lookup(name);
}

//===--- signatures
//-------------------------------------------------------------------------------===//

/// The value of a default: a literal, or a dotted name of the language.
static Value defaultOf(const syntax::Expr &expr) {
  if (auto *literal = syntax::dynCast<syntax::Constant>(&expr)) {
    switch (literal->constantKind) {
    case syntax::ConstantKind::True:
      return Value(true);
    case syntax::ConstantKind::False:
      return Value(false);
    case syntax::ConstantKind::Int:
      return Value::integer(literal->asInt64().value_or(0));
    case syntax::ConstantKind::Float:
      return Value(literal->number);
    case syntax::ConstantKind::Str:
      return Value(std::string(literal->text));
    default:
      return Value();
    }
  }
  if (auto *minus = syntax::dynCast<syntax::UnaryOp>(&expr)) {
    auto folded = foldUnary(minus->op, defaultOf(*minus->operand));
    return std::get<Value>(folded);
  }
  if (syntax::isa<syntax::Tuple>(expr))
    return Value(Tuple());
  if (auto *name = syntax::dynCast<syntax::Name>(&expr))
    return languageMember("triton.language", llvm::StringRef(name->id)).value_or(Value());
  if (auto *attribute = syntax::dynCast<syntax::Attribute>(&expr)) {
    Value object = defaultOf(*attribute->value);
    if (auto *module = object.getIf<ModuleValue>())
      return languageMember(module->name, llvm::StringRef(attribute->name)).value_or(Value());
  }
  return Value();
}

/// What messages call the function: Python's own have a prefix in the table.
static std::string_view shownName(const Builtin &builtin) {
  std::string_view name = builtin.name;
  constexpr std::string_view prefix = "python.";
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

static std::vector<Parameter> parseSignature(const Builtin &builtin) {
  auto source =
      SourceFile::create(builtin.name, std::string("def f") + builtin.signature + ": pass\n");
  DiagnosticEngine diagnostics;
  auto parsed = syntax::parseModule(source, diagnostics);
  assert(parsed.ok && "the signature of a builtin must parse");
  std::vector<Parameter> result;
  const syntax::FunctionDef *definition = parsed.module->findFunction("f");
  if (!definition)
    return result;
  auto add = [&](const syntax::Arg &arg, bool isVararg, bool keywordOnly) {
    Parameter parameter;
    parameter.name = std::string(arg.name);
    parameter.hasDefault = arg.defaultValue != nullptr;
    if (arg.defaultValue)
      parameter.defaultValue = defaultOf(*arg.defaultValue);
    parameter.isVararg = isVararg;
    parameter.keywordOnly = keywordOnly;
    result.push_back(std::move(parameter));
  };
  for (const syntax::Arg *arg : definition->args->args)
    add(*arg, false, false);
  if (definition->args->vararg)
    add(*definition->args->vararg, true, false);
  for (const syntax::Arg *arg : definition->args->kwOnly)
    add(*arg, false, true);
  if (definition->args->kwarg) {
    add(*definition->args->kwarg, false, true);
    result.back().isKwarg = true;
  }
  return result;
}

llvm::ArrayRef<Parameter> parametersOf(const Builtin &builtin) {
  Table &all = table();
  size_t index = size_t(&builtin - all.rows.data());
  std::call_once(all.parsed[index], [&] { all.parameters[index] = parseSignature(builtin); });
  return all.parameters[index];
}

//===--- calls
//------------------------------------------------------------------------------------===//

BoundArgs::BoundArgs(const Builtin &builtin, std::vector<Value> values, SourceSpan call,
                     std::vector<SourceSpan> spans)
    : builtin(builtin), values(std::move(values)), callSpan(call), spans(std::move(spans)) {}

static size_t indexOf(const Builtin &builtin, llvm::StringRef name) {
  llvm::ArrayRef<Parameter> parameters = parametersOf(builtin);
  for (size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].name == name)
      return i;
  llvm_unreachable("a builder asked for a parameter that its signature lacks");
}

const Value &BoundArgs::operator[](llvm::StringRef parameter) const {
  return values[indexOf(builtin, parameter)];
}

SourceSpan BoundArgs::span(llvm::StringRef parameter) const {
  SourceSpan span = spans[indexOf(builtin, parameter)];
  return span ? span : callSpan;
}

static llvm::LogicalResult unknownKeyword(Semantic &s, const Builtin &builtin,
                                          const KeywordArgument &keyword) {
  std::vector<std::string_view> names;
  for (const Parameter &parameter : parametersOf(builtin))
    if (!parameter.isVararg)
      names.push_back(parameter.name);
  std::string_view near = nearestName(keyword.name, names);
  if (near.empty())
    return s.error(diag::UnknownKeyword, keyword.span, shownName(builtin), keyword.name);
  return s.error(diag::UnknownKeywordNear, keyword.span, shownName(builtin), keyword.name, near);
}

static FailureOr<Value> bindAndBuild(Semantic &s, const Builtin &builtin, const Value *self,
                                     llvm::ArrayRef<Argument> args,
                                     llvm::ArrayRef<KeywordArgument> keywords, SourceSpan call) {
  Semantic::At here(s, call);
  llvm::ArrayRef<Parameter> parameters = parametersOf(builtin);
  std::vector<Value> values(parameters.size());
  std::vector<SourceSpan> spans(parameters.size());
  std::vector<bool> given(parameters.size());

  // Positional arguments: those after the parameters go to `*name`, if there is one.
  Tuple rest, named;
  size_t position = 0;
  auto takePositional = [&](const Value &value, SourceSpan span) {
    if (position < parameters.size() && !parameters[position].isVararg &&
        !parameters[position].keywordOnly) {
      values[position] = value;
      spans[position] = span;
      given[position++] = true;
      return true;
    }
    if (position >= parameters.size() || !parameters[position].isVararg)
      return false;
    if (rest.items.empty())
      spans[position] = span;
    rest.items.push_back(value);
    return true;
  };
  if (self)
    takePositional(*self, call);
  for (const Argument &arg : args)
    if (!takePositional(arg.value, arg.span)) {
      size_t most =
          size_t(llvm::count_if(parameters, [](const Parameter &p) { return !p.keywordOnly; }));
      return s.error(diag::TooManyArguments, arg.span, shownName(builtin), int64_t(most),
                     int64_t(args.size() + (self ? 1 : 0)));
    }

  for (const KeywordArgument &keyword : keywords) {
    auto *found =
        llvm::find_if(parameters, [&](const Parameter &p) { return p.name == keyword.name; });
    if (found == parameters.end() && !parameters.empty() && parameters.back().isKwarg) {
      named.fields.push_back(keyword.name);
      named.items.push_back(keyword.value);
      continue;
    }
    if (found == parameters.end())
      return unknownKeyword(s, builtin, keyword);
    size_t index = size_t(found - parameters.begin());
    if (given[index] || (found->isVararg && !rest.items.empty()))
      return s.error(diag::DuplicateArgument, keyword.span, shownName(builtin), keyword.name);
    given[index] = true;
    spans[index] = keyword.span;
    if (found->isVararg) { // `trans(x, dims=(1, 0))`
      rest.items.push_back(keyword.value);
      continue;
    }
    values[index] = keyword.value;
  }

  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].isVararg)
      values[i] = Value(rest);
    else if (parameters[i].isKwarg)
      values[i] = Value(named);
    else if (given[i])
      continue;
    else if (parameters[i].hasDefault)
      values[i] = parameters[i].defaultValue;
    else
      return s.error(diag::MissingArgument, call, shownName(builtin), parameters[i].name);
  }
  return builtin.build(s, BoundArgs(builtin, std::move(values), call, std::move(spans)));
}

FailureOr<Value> callBuiltin(Semantic &s, const Builtin &builtin, const Value *self,
                             llvm::ArrayRef<Argument> args,
                             llvm::ArrayRef<KeywordArgument> keywords, SourceSpan call) {
  auto result = bindAndBuild(s, builtin, self, args, keywords, call);
  bool isPythons = llvm::StringRef(builtin.name).starts_with("python.");
  if (failed(result) && !isPythons)
    if (Diagnostic *error = s.diagnostics.lastError())
      error->setRefusedCall();
  return result;
}

//===--- helpers of the families
//------------------------------------------------------------------===//

FailureOr<int> choice(Semantic &s, const BoundArgs &args, llvm::StringRef name,
                      llvm::ArrayRef<const char *> names, int fallback) {
  const Value &value = args[name];
  if (value.isNone() || (value.is<std::string>() && value.get<std::string>().empty()))
    return fallback;
  auto text = s.knownString(value, "`" + name.str() + "`", args.span(name));
  if (failed(text))
    return failure();
  for (size_t i = 0; i < names.size(); ++i)
    if (*text == names[i])
      return int(i);
  std::string all;
  for (const char *each : names)
    all += (all.empty() ? "`" : ", `") + std::string(each) + "`";
  return s.error(diag::UnknownChoice, args.span(name), name, *text, all);
}

std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

} // namespace nereid::frontend
