// Calls: of builtins, of functions of the language, of objects of the host.
//
// A function of the language is specialised by the types of its run-time arguments and by the
// values of the known ones. Each specialisation is walked once, into a private func.func; the
// inliner of the tile passes puts it where it is called. Functions of the prelude, and whatever is
// called inside the combiner of a reduction (which must hold no calls), are walked in place.
#include "frontend/class.h"
#include "frontend/interpreter.h"

#include "ir/tile/Dialect.h"
#include "support/text.h"

#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"

namespace nereid::frontend {

using namespace nereid::syntax;
using frontend::Tuple;
using llvm::failure;
using llvm::success;

/// Nested calls, specialisations of one function by ever other types included.
static constexpr unsigned maxCallDepth = 64;

FailureOr<Value> Interpreter::visitCall(const Call &node) {
  auto callee = visit(*node.func);
  if (failed(callee))
    return failure();
  if (node.func == unusedCallee && failed(checkResultUsed(node, *callee)))
    return failure();
  llvm::SmallVector<Argument, 6> args;
  for (const Expr *arg : node.args) {
    SourceSpan at = spanOf(*arg);
    if (auto *starred = dynCast<Starred>(arg)) {
      auto value = visit(*starred->value);
      if (failed(value))
        return failure();
      auto items = knownItems(*value, at);
      if (failed(items))
        return failure();
      if (failed(spend(items->size())))
        return failure();
      for (const Value &item : *items)
        args.push_back({item, at});
      continue;
    }
    auto value = visit(*arg);
    if (failed(value))
      return failure();
    args.push_back({std::move(*value), at});
  }
  llvm::SmallVector<KeywordArgument, 4> keywords;
  for (const Keyword *keyword : node.keywords) {
    if (keyword->name.empty())
      return unsupported("`**` in a call", spanOf(*keyword));
    auto value = visit(*keyword->value);
    if (failed(value))
      return failure();
    keywords.push_back({std::string(keyword->name), std::move(*value), spanOf(*keyword->value)});
  }
  for (const Argument &arg : args)
    if (failed(spendOver(arg.value)))
      return failure();
  return callValue(*callee, args, keywords, spanOf(node));
}

FailureOr<Value> Interpreter::call(const Value &callee, llvm::ArrayRef<Value> args,
                                   Keywords keywords, SourceSpan call) {
  llvm::SmallVector<Argument, 6> placed;
  for (const Value &arg : args)
    placed.push_back({arg, call});
  llvm::SmallVector<KeywordArgument, 4> placedKeywords;
  for (auto &[name, value] : keywords)
    placedKeywords.push_back({name, value, call});
  return callValue(callee, placed, placedKeywords, call);
}

/// A function of the language, or a parameter of one, that not every release of Triton has.
namespace {
struct Availability {
  llvm::StringLiteral function;
  TritonVersion since, until; ///< the first release with it, and the first one without (0: none)
  llvm::StringLiteral parameter = "";
  size_t position = 0; ///< of the parameter
};
} // namespace
static constexpr Availability availabilities[] = {
    {"advance", 0, 309},      {"atomic_load", 309, 0},       {"atomic_poll", 309, 0},
    {"atomic_store", 309, 0}, {"cat", 307, 0, "dim", 3},     {"cumprod", 309, 0, "dtype", 3},
    {"expect_zero", 308, 0},  {"fdiv", 309, 0, "approx", 3}, {"make_block_ptr", 0, 309},
    {"squeeze", 307, 0},      {"to_tensor", 307, 0},         {"topk", 308, 0, "descending", 3},
    {"unsqueeze", 307, 0},
};

LogicalResult Interpreter::checkRelease(llvm::StringRef name, size_t positional,
                                        llvm::ArrayRef<KeywordArgument> keywords, SourceSpan call) {
  auto text = [](TritonVersion version) {
    return std::to_string(version / 100) + "." + std::to_string(version % 100);
  };
  for (const Availability &row : availabilities) {
    TritonVersion rules = options.tritonVersion;
    if (row.function != name || (rules >= row.since && (!row.until || rules < row.until)))
      continue;
    bool isGiven = row.parameter.empty() || positional > row.position ||
                   llvm::any_of(keywords, [&](const KeywordArgument &keyword) {
                     return keyword.name == row.parameter;
                   });
    if (!isGiven)
      continue;
    std::string what = name.str();
    if (!row.parameter.empty())
      what += "(" + row.parameter.str() + "=)";
    return error(diag::NotInRelease, call, what, text(rules),
                 row.until ? "until " + text(row.until - 1) : "since " + text(row.since));
  }
  return success();
}

FailureOr<Value> Interpreter::callValue(const Value &callee, llvm::ArrayRef<Argument> args,
                                        llvm::ArrayRef<KeywordArgument> keywords, SourceSpan call) {
  if (options.strict && !frame->function->isPrelude) {
    auto *builtin = callee.getIf<BuiltinValue>();
    auto *function = callee.getIf<FunctionValue>();
    bool hasSelf = builtin ? bool(builtin->self) : function && function->self;
    llvm::StringRef name;
    if (builtin)
      name = builtin->builtin->name;
    else if (function && function->function->isPrelude)
      name = function->function->name();
    if (!name.empty() && failed(checkRelease(name, args.size() + hasSelf, keywords, call)))
      return failure();
  }
  if (auto *builtin = callee.getIf<BuiltinValue>())
    return callBuiltin(semantic, *builtin->builtin, builtin->self.get(), args, keywords, call);
  if (auto *function = callee.getIf<FunctionValue>())
    return callFunction(*function, args, keywords, call);
  if (auto *object = callee.getIf<HostObject>())
    return callHost(*object, args, keywords, call);
  if (auto *cls = callee.getIf<ClassValue>())
    return construct(cls->cls, args, keywords, call);
  if (callee.is<Aggregate>()) {
    auto method = member(callee, "__call__", call);
    if (failed(method))
      return failure();
    if (*method)
      return callValue(**method, args, keywords, call);
  }
  return error(diag::NotCallable, call, callee.kindName());
}

FailureOr<Value> Interpreter::callHost(const HostObject &callee, llvm::ArrayRef<Argument> args,
                                       llvm::ArrayRef<KeywordArgument> keywords, SourceSpan call) {
  std::vector<Value> values;
  if (callee.self)
    values.push_back(*callee.self);
  for (const Argument &arg : args)
    values.push_back(arg.value);
  std::vector<std::pair<std::string, Value>> named;
  for (const KeywordArgument &keyword : keywords)
    named.emplace_back(keyword.name, keyword.value);
  unsigned errorsBefore = diagnostics.errorCount();
  auto result = host.call(callee, values, named, semantic);
  if (result.value)
    return std::move(*result.value);
  // Foreign code that entered the builtin table may have met an error there, which is reported
  // already.
  if (diagnostics.errorCount() != errorsBefore && !result.error.exception)
    return failure();
  return hostFailed(result.error, call);
}

//===--- functions of the language
//----------------------------------------------------------------===//

/// Whether a value means something of the caller's own function: a local function, which sees its
/// names, or a member function of one of its tensors.
static bool belongsToCaller(const Value &value) {
  llvm::SmallVector<Tensor> tensors;
  if (auto *function = value.getIf<FunctionValue>()) {
    if (function->self)
      flattenTensors(*function->self, tensors);
    return function->activation || !tensors.empty();
  }
  if (auto *builtin = value.getIf<BuiltinValue>())
    return builtin->self != nullptr;
  if (auto *object = value.getIf<HostObject>())
    return object->self != nullptr;
  const std::vector<Value> *items = itemsOf(value);
  return items && llvm::any_of(*items, belongsToCaller);
}

FailureOr<Value> Interpreter::callFunction(const FunctionValue &callee,
                                           llvm::ArrayRef<Argument> args,
                                           llvm::ArrayRef<KeywordArgument> keywords,
                                           SourceSpan call) {
  const Function &function = *callee.function;
  if (callDepth >= maxCallDepth)
    return error(diag::CallsTooDeep, call, maxCallDepth);
  std::vector<Value> bound;
  if (failed(bindArguments(function, callee.self.get(), args, keywords, call, bound)))
    return failure();
  if (function.noinline) {
    llvm::SmallVector<Tensor> tensors;
    for (const Value &value : bound)
      flattenTensors(value, tensors);
    for (const Tensor &tensor : tensors)
      if (tensor.type.isBlock())
        return error(diag::NoinlineNonScalar, call, function.name(), tensor.type.str());
  }
  bool inPlace = function.isPrelude || callee.activation || insideCombiner() ||
                 llvm::any_of(bound, belongsToCaller);
  if (inPlace)
    return callInPlace(callee, bound, call);
  return callInstance(function, bound, call);
}

Interpreter::Frame *Interpreter::activationOf(uint64_t number) {
  Frame *each = frame;
  while (each && each->activation != number)
    each = each->caller;
  return each;
}

FailureOr<Value> Interpreter::localFunction(const syntax::Node &node) {
  std::unique_ptr<Function> &function = localFunctions[&node];
  if (!function) {
    const syntax::ModulePtr &module = frame->function->modulePtr();
    void *data = frame->function->hostData();
    if (auto *definition = dynCast<FunctionDef>(&node))
      function = std::make_unique<Function>(module, definition, data);
    else
      function = std::make_unique<Function>(module, cast<Lambda>(&node), data);
    function->isPrelude = frame->function->isPrelude;
  }
  return Value(FunctionValue{function.get(), nullptr, frame->activation});
}

LogicalResult Interpreter::checkResultUsed(const Call &node, const Value &callee) {
  std::string hint;
  if (auto *builtin = callee.getIf<BuiltinValue>()) {
    if (!builtin->builtin->mustUseResult)
      return success();
    hint = builtin->builtin->mustUseResult;
  } else {
    auto *function = callee.getIf<FunctionValue>();
    if (!function || !function->function->mustUseResult)
      return success();
    hint = *function->function->mustUseResult;
  }
  std::string_view text = frame->function->module().source().text(node.func->range);
  return error(diag::ResultNotUsed, spanOf(node), text, hint.empty() ? "" : " " + hint);
}

bool Interpreter::insideCombiner() {
  for (mlir::Operation *op = builder.getInsertionBlock()->getParentOp(); op;
       op = op->getParentOp()) {
    if (llvm::isa<tile::ReduceOp, tile::ScanOp, tile::MapElementwiseOp>(op))
      return true;
    if (llvm::isa<mlir::func::FuncOp>(op))
      return false;
  }
  return false;
}

LogicalResult Interpreter::bindArguments(const Function &function, const Value *self,
                                         llvm::ArrayRef<Argument> args,
                                         llvm::ArrayRef<KeywordArgument> keywords, SourceSpan call,
                                         std::vector<Value> &bound) {
  if (function.hasKwarg)
    return error(diag::UnsupportedSyntax, call, "`**` parameter");
  if (options.strict &&
      llvm::any_of(function.params(), [](const FunctionParam &param) { return param.keywordOnly; }))
    return error(diag::UnsupportedSyntax, call, "keyword-only parameter");
  auto params = function.params();
  bound.assign(params.size(), Value());
  std::vector<bool> given(params.size());
  std::vector<SourceSpan> spans(params.size(), call);
  size_t next = 0;
  auto fail = [&](auto def, SourceSpan at, auto... arguments) {
    semantic.addCallNotes(diagnostics.report(def, at, arguments...)
                              .note(diag::DefinedHere, function.span(), function.name()));
    return failure();
  };
  auto positional = [&](const Value &value, SourceSpan at) -> LogicalResult {
    if (next < params.size() && params[next].isVararg) {
      if (!given[next])
        bound[next] = Value(Tuple{});
      given[next] = true;
      bound[next].get<Tuple>().items.push_back(value);
      return success();
    }
    if (next == params.size() || params[next].keywordOnly)
      return fail(diag::TooManyArguments, at, std::string_view(function.name()), int64_t(next),
                  int64_t(args.size() + (self ? 1 : 0)));
    spans[next] = at;
    given[next] = true;
    bound[next++] = value;
    return success();
  };
  if (self && failed(positional(*self, call)))
    return failure();
  for (const Argument &arg : args)
    if (failed(positional(arg.value, arg.span)))
      return failure();
  for (const KeywordArgument &keyword : keywords) {
    auto *found = llvm::find_if(params, [&](const FunctionParam &param) {
      return param.name == keyword.name && !param.isVararg;
    });
    if (found == params.end()) {
      std::vector<std::string_view> names;
      for (const FunctionParam &param : params)
        names.push_back(param.name);
      std::string_view near = nearestName(keyword.name, names);
      if (!near.empty())
        return fail(diag::UnknownKeywordNear, keyword.span, std::string_view(function.name()),
                    std::string_view(keyword.name), near);
      return fail(diag::UnknownKeyword, keyword.span, std::string_view(function.name()),
                  std::string_view(keyword.name));
    }
    size_t index = found - params.begin();
    if (given[index])
      return fail(diag::DuplicateArgument, keyword.span, std::string_view(function.name()),
                  std::string_view(keyword.name));
    given[index] = true;
    spans[index] = keyword.span;
    bound[index] = keyword.value;
  }
  for (size_t i = 0; i < params.size(); ++i) {
    if (!given[i]) {
      if (params[i].isVararg) {
        bound[i] = Value(Tuple{});
      } else if (params[i].hasDefault()) {
        auto value = defaultValue(function, params[i].name, *params[i].node->defaultValue);
        if (failed(value))
          return failure();
        bound[i] = std::move(*value);
      } else {
        return fail(diag::MissingArgument, call, std::string_view(function.name()),
                    std::string_view(params[i].name));
      }
    }
    // As in Triton, whose own kernels do it: a run-time value may be given for a constexpr, and
    // is no constant inside then.
    if (params[i].isConstexpr)
      if (const Value *known = knownOrNull(bound[i]))
        bound[i] = Value(*known);
  }
  return success();
}

/// Python evaluates a default value where the function or class is defined; what names meant there
/// only the host knows. A literal means what it says.
FailureOr<Value> Interpreter::defaultValue(const Function &place, llvm::StringRef name,
                                           const Expr &node) {
  if (!place.isPrelude && !isa<Constant>(node)) {
    auto result = host.lookup(place, (name + "=").str());
    if (result.value)
      return *result.value;
    if (!result.error.message.empty() || result.error.exception)
      return hostFailed(result.error, place.module().span(node));
  }
  return evaluateIn(place, node);
}

void Interpreter::bindParameters(Frame &inner, llvm::ArrayRef<Value> values) {
  for (auto [param, value] : llvm::zip(inner.function->params(), values)) {
    Binding &binding = inner.scope.names[param.name];
    binding.value = value;
    binding.id = ++nextBinding;
    binding.span = inner.function->module().span(*param.node);
  }
}

std::vector<SourceFilePtr> Interpreter::sources() const {
  std::vector<SourceFilePtr> result;
  for (const SourceFile *source : walkedSources)
    result.push_back(source->shared_from_this());
  return result;
}

FailureOr<Value> Interpreter::walkFunction() {
  walkedSources.insert(&frame->function->module().source());
  if (const Expr *expression = frame->function->expression())
    return visit(*expression);
  if (failed(visitBody(frame->function->body(), 0, /*tail=*/true)))
    return failure();
  Scope &end = scope();
  Value result = end.result ? *end.result : Value();
  // As in Triton, whose kernels do it: the path without a `return` gives nothing in particular.
  if (!end.done && end.returned.runtime() && !result.isNone() &&
      !mlir::matchPattern(end.returned.value, mlir::m_One()))
    semantic.warning(diag::ReturnMissing, end.resultSpan, frame->function->name());
  return result;
}

FailureOr<Value> Interpreter::callInPlace(const FunctionValue &callee, llvm::ArrayRef<Value> bound,
                                          SourceSpan call) {
  const Function &function = *callee.function;
  Frame inner{&function, {}, false, frame, 0, ++nextActivation};
  if (callee.activation && !(inner.enclosing = activationOf(callee.activation)))
    return error(diag::ClosureEnded, call, function.name());
  bindParameters(inner, bound);
  semantic.enterCall(call);
  frame = &inner;
  ++callDepth;
  llvm::scope_exit leave([&] {
    --callDepth;
    frame = inner.caller;
    semantic.leaveCall();
  });
  return walkFunction();
}

/// Identifies a known value in the key of a specialisation; false for values that cannot be told
/// apart by text.
static void appendKey(const Value &value, std::string &key) {
  if (auto *tensor = value.getIf<Tensor>()) {
    key += tensor->literal ? "=" + tensor->literal->repr() + ":" : "";
    key += (tensor->type.isConst ? "k" : "") + tensor->type.mangle();
  } else if (auto *tuple = value.getIf<Tuple>()) {
    key += "(";
    for (const Value &item : tuple->items)
      appendKey(item, key);
    for (const std::string &field : tuple->fields)
      key += field + ".";
    key += ")" + (tuple->hostClass ? llvm::utostr(tuple->hostClass) : "");
  } else if (auto *aggregate = value.getIf<Aggregate>()) {
    const Class &cls = *aggregate->cls;
    key += "a" + llvm::utohexstr(cls.handle() ? cls.handle() : uintptr_t(&cls)) + "(";
    for (const Value &item : aggregate->items)
      appendKey(item, key);
    key += ")";
  } else if (auto *cls = value.getIf<ClassValue>()) {
    key += "c" + llvm::utohexstr(uintptr_t(cls->cls.get()));
  } else if (auto *function = value.getIf<FunctionValue>()) {
    key += "f" + llvm::utohexstr(uintptr_t(function->function));
    if (function->self)
      appendKey(*function->self, key);
  } else if (auto *builtin = value.getIf<BuiltinValue>()) {
    key += "b" + llvm::utohexstr(uintptr_t(builtin->builtin));
    if (builtin->self)
      appendKey(*builtin->self, key);
  } else if (auto *object = value.getIf<HostObject>()) {
    key += "o" + llvm::utohexstr(object->handle);
    if (object->self)
      appendKey(*object->self, key);
  } else if (auto *text = value.getIf<std::string>()) {
    key += "s" + llvm::utostr(text->size()) + ":" + *text;
  } else {
    key += llvm::utostr(value.variant().index()) + ":" + value.repr();
  }
  key += ";";
}

FailureOr<Value> Interpreter::callInstance(const Function &function, llvm::ArrayRef<Value> bound,
                                           SourceSpan call) {
  std::string key = llvm::utohexstr(uintptr_t(&function)) + "|";
  for (const Value &value : bound)
    appendKey(value, key);
  auto [entry, isNew] = instances.try_emplace(key);
  Instance &instance = entry->second;
  if (instance.inProgress)
    return error(diag::RecursiveCall, call, function.name());
  uint64_t before = budget.operationCount();
  if (isNew) {
    if (failed(buildInstance(function, bound, call, instance)))
      return failure();
    instance.operations = budget.operationCount() - before;
  } else if (instance.function && !instance.function.getNoInline()) {
    // Inlined again.
    budget.addOperations(instance.operations);
    if (auto resource = budget.exceeded()) {
      Diagnostic &report = reportExceeded(*resource, call);
      report.note(diag::CallTakes, function.span(), function.name(), int64_t(instance.operations));
      semantic.addCallNotes(report);
      return failure();
    }
  }
  if (!instance.function)
    return instance.result;
  // Tensors that remember a literal are made anew inside.
  llvm::SmallVector<Tensor> tensors;
  for (const Value &value : bound)
    flattenTensors(value, tensors);
  llvm::SmallVector<mlir::Value> operands;
  for (const Tensor &tensor : tensors)
    if (!tensor.literal)
      operands.push_back(tensor.ir);
  auto callOp = mlir::func::CallOp::create(builder, semantic.loc(), instance.function, operands);
  if (instance.function.getNoInline())
    callOp.setNoInline(true);
  size_t next = 0;
  return replaceTensors(instance.result, callOp.getResults(), next);
}

/// The argument inside the instance: run-time tensors become block arguments, literals are made
/// again.
static Value insideInstance(Semantic &semantic, const Value &value, mlir::Block &block,
                            mlir::Location loc) {
  if (auto *tensor = value.getIf<Tensor>()) {
    if (tensor->literal) {
      Tensor again = semantic.constant(*tensor->literal, tensor->type);
      again.literal = tensor->literal;
      return again;
    }
    return Tensor{block.addArgument(tensor->ir.getType(), loc), tensor->type, nullptr};
  }
  Value result = value;
  if (std::vector<Value> *items = editItemsOf(result))
    for (Value &item : *items)
      item = insideInstance(semantic, item, block, loc);
  return result;
}

/// Whether a function of these operations can be removed when its results are not used.
static bool hasNoEffects(mlir::Block &block) {
  return llvm::all_of(block.without_terminator(),
                      [](mlir::Operation &op) { return mlir::isMemoryEffectFree(&op); });
}

LogicalResult Interpreter::buildInstance(const Function &function, llvm::ArrayRef<Value> bound,
                                         SourceSpan call, Instance &instance) {
  mlir::OpBuilder::InsertionGuard restore(builder);
  Frame inner{&function, {}, false, frame, 0, ++nextActivation};
  semantic.enterCall(call, /*inPlace=*/false);
  frame = &inner;
  ++callDepth;
  instance.inProgress = true;
  llvm::scope_exit leave([&] {
    --callDepth;
    frame = inner.caller;
    instance.inProgress = false;
    semantic.leaveCall();
  });
  Semantic::At at(semantic, function.span());

  std::string name = function.name().str() + "__";
  llvm::SmallVector<Tensor> tensors;
  for (const Value &value : bound)
    flattenTensors(value, tensors);
  for (auto [i, tensor] : llvm::enumerate(tensors))
    name += (i ? "_" : "") + tensor.type.mangle();
  std::string unique = name;
  for (unsigned i = 1; module.lookupSymbol(unique); ++i)
    unique = name + "." + std::to_string(i);

  builder.setInsertionPointToEnd(module.getBody());
  mlir::Location loc = semantic.loc();
  auto built = mlir::func::FuncOp::create(builder, loc, unique, builder.getFunctionType({}, {}));
  built.setPrivate();
  mlir::Block &entry = *built.addEntryBlock();
  builder.setInsertionPointToStart(&entry);
  std::vector<Value> values;
  for (const Value &value : bound)
    values.push_back(insideInstance(semantic, value, entry, loc));
  bindParameters(inner, values);
  auto result = walkFunction();
  if (failed(result))
    return failure();
  llvm::SmallVector<Tensor> results;
  flattenTensors(*result, results);
  auto resultValues = llvm::map_to_vector(results, [](const Tensor &tensor) { return tensor.ir; });
  // Calls in the machine code pass scalars: what returns blocks is inlined all the same.
  if (function.noinline &&
      llvm::none_of(results, [](const Tensor &tensor) { return tensor.type.isBlock(); }))
    built.setNoInline(true);
  instance.result = std::move(*result);
  if (resultValues.empty() && hasNoEffects(entry)) {
    built.erase();
    return success();
  }
  mlir::func::ReturnOp::create(builder, loc, resultValues);
  built.setFunctionType(
      builder.getFunctionType(entry.getArgumentTypes(), mlir::ValueRange(resultValues).getTypes()));
  instance.function = built;
  return success();
}

} // namespace nereid::frontend
