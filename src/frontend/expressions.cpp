// Expressions: every kind of expression node to a Value.
#include "frontend/interpreter.h"
#include "frontend/prelude.h"

#include "ir/tile/Dialect.h"
#include "support/text.h"

#include "llvm/ADT/ScopeExit.h"

namespace nereid::frontend {

using namespace nereid::syntax;
using frontend::Tuple;
using llvm::failure;
using llvm::success;

/// Nested visits of expressions, statements and calls together; the C++ stack allows some more.
static constexpr unsigned maxDepth = 2000;

FailureOr<Value> Interpreter::visit(const Expr &node) {
  if (depth >= maxDepth)
    return error(diag::NestingTooDeep, spanOf(node), maxDepth);
  ++depth;
  llvm::scope_exit leave([&] { --depth; });
  Semantic::At at(semantic, spanOf(node));
  if (failed(spend(1)))
    return failure();
  // Apart from what follows it: this recurses, and the C++ stack is finite.
  auto evaluate = [&]() -> FailureOr<Value> {
    switch (node.kind) {
    case NodeKind::Constant:
      return visitConstant(*cast<Constant>(&node));
    case NodeKind::Name:
      return visitName(*cast<Name>(&node));
    case NodeKind::BinOp: {
      auto &binary = *cast<BinOp>(&node);
      auto left = visit(*binary.left);
      if (failed(left))
        return failure();
      auto right = visit(*binary.right);
      if (failed(right))
        return failure();
      if (failed(spendOver(*left)) || failed(spendOver(*right)))
        return failure();
      return this->binary(binary.op, *left, *right, spanOf(*binary.left), spanOf(*binary.right));
    }
    case NodeKind::UnaryOp: {
      auto &unary = *cast<UnaryOp>(&node);
      auto operand = visit(*unary.operand);
      if (failed(operand))
        return failure();
      if (unary.op == UnaryOpKind::Not && !operand->isTensor()) {
        auto known = semantic.knownTruth(*operand, spanOf(*unary.operand));
        if (failed(known))
          return failure();
        if (*known)
          return Value(!**known);
      }
      if (operand->is<Aggregate>() && unary.op != UnaryOpKind::Not) {
        const char *name = unary.op == UnaryOpKind::USub   ? "__neg__"
                           : unary.op == UnaryOpKind::UAdd ? "__pos__"
                                                           : "__invert__";
        auto result = callSpecial(*operand, name, {}, spanOf(node));
        if (failed(result))
          return failure();
        if (*result)
          return std::move(**result);
      }
      return semantic.unary(unary.op, *operand, spanOf(*unary.operand));
    }
    case NodeKind::BoolOp:
      return visitBoolOp(*cast<BoolOp>(&node));
    case NodeKind::Compare:
      return visitCompare(*cast<Compare>(&node));
    case NodeKind::IfExp:
      return visitIfExp(*cast<IfExp>(&node));
    case NodeKind::Call:
      return visitCall(*cast<Call>(&node));
    case NodeKind::Attribute:
      return visitAttribute(*cast<Attribute>(&node));
    case NodeKind::Subscript:
      return visitSubscript(*cast<Subscript>(&node));
    case NodeKind::NamedExpr: {
      if (options.strict && !semantic.since(308))
        return unsupported(syntax::kindName(node.kind), spanOf(node));
      auto &named = *cast<NamedExpr>(&node);
      auto value = visit(*named.value);
      if (failed(value))
        return failure();
      if (failed(assign(*named.target, *value)))
        return failure();
      return scope().find(named.target->id)->value;
    }
    case NodeKind::List:
      return visitElements(cast<List>(&node)->elements);
    case NodeKind::Tuple:
      return visitElements(cast<syntax::Tuple>(&node)->elements);
    case NodeKind::ListComp:
      return visitListComp(*cast<ListComp>(&node));
    case NodeKind::Lambda:
      if (options.strict)
        return unsupported(syntax::kindName(node.kind), spanOf(node));
      return localFunction(node);
    case NodeKind::JoinedStr:
      return visitJoinedStr(*cast<JoinedStr>(&node));
    case NodeKind::Slice: {
      auto &slice = *cast<Slice>(&node);
      SliceValue result;
      for (auto [part, to] :
           {std::pair(slice.lower, &result.start), std::pair(slice.upper, &result.stop),
            std::pair(slice.step, &result.step)}) {
        Value value;
        if (part) {
          auto visited = visit(*part);
          if (failed(visited))
            return failure();
          value = std::move(*visited);
        }
        if (value.is<SliceValue>())
          return error(diag::ExpectedArgumentKind, spanOf(*part), "a bound of a slice",
                       "an integer or `None`", value.kindName());
        *to = std::make_shared<const Value>(std::move(value));
      }
      return Value(std::move(result));
    }
    case NodeKind::Starred:
      return error(diag::StarredNotAllowed, spanOf(node));
    case NodeKind::UnsupportedExpr: {
      std::string_view name = cast<UnsupportedExpr>(&node)->astName;
      return unsupported(name, spanOf(node));
    }
    default:
      return unsupported(syntax::kindName(node.kind), spanOf(node));
    }
  };
  FailureOr<Value> value = evaluate();
  if (failed(value))
    return failure();
  switch (node.kind) {
  case NodeKind::Name:
    if (value->is<std::string>() && failed(spendOver(*value)))
      return failure(); // strings are copied
    return value;
  case NodeKind::BinOp:
  case NodeKind::Call:
  case NodeKind::Subscript:
  case NodeKind::List:
  case NodeKind::Tuple:
  case NodeKind::ListComp:
  case NodeKind::JoinedStr:
    return made(std::move(value));
  default:
    return value;
  }
}

LogicalResult Interpreter::unsupported(std::string_view what, SourceSpan span) {
  return error(diag::UnsupportedSyntax, span, what);
}

FailureOr<Value> Interpreter::visitConstant(const Constant &node) {
  switch (node.constantKind) {
  case ConstantKind::None:
    return Value();
  case ConstantKind::True:
    return Value(true);
  case ConstantKind::False:
    return Value(false);
  case ConstantKind::Int: {
    // A sign bit more than the digits need: known integers are signed.
    unsigned bits = unsigned(node.words.size()) * 64 + 64;
    llvm::SmallVector<uint64_t, 4> words(node.words.begin(), node.words.end());
    words.push_back(0);
    llvm::APInt value(bits, words);
    return Value(llvm::APSInt(value.trunc(std::max(64u, value.getActiveBits() + 1)), false));
  }
  case ConstantKind::Float:
    return Value(node.number);
  case ConstantKind::Str:
    if (node.hasNamedCharacter)
      return unsupported("Constant with a \\N{...} escape", spanOf(node));
    return Value(std::string(node.text));
  case ConstantKind::Ellipsis:
    return unsupported("Constant `...`", spanOf(node));
  case ConstantKind::Imaginary:
    return unsupported("Constant of type complex", spanOf(node));
  case ConstantKind::Bytes:
    return unsupported("Constant of type bytes", spanOf(node));
  }
  llvm_unreachable("constant kind");
}

//===--- names
//------------------------------------------------------------------------------------===//

/// A value of an enclosing function. The region that combines elements may not use tensors from
/// around it; literals are made again there.
FailureOr<Value> Interpreter::captured(const Name &node, const Value &value) {
  mlir::Operation *combiner = builder.getInsertionBlock()->getParentOp();
  while (combiner && !llvm::isa<tile::ReduceOp, tile::ScanOp>(combiner))
    combiner = combiner->getParentOp();
  if (!combiner)
    return value;
  if (auto *tensor = value.getIf<Tensor>(); tensor && tensor->literal)
    return semantic.assigned(*tensor->literal);
  llvm::SmallVector<Tensor> tensors;
  flattenTensors(value, tensors);
  for (Tensor &tensor : tensors)
    if (!combiner->isAncestor(tensor.ir.getParentBlock()->getParentOp()))
      return error(diag::CombinerCapture, spanOf(node), node.id);
  return value;
}

FailureOr<Value> Interpreter::visitName(const Name &node) {
  if (const Binding *binding = scope().find(node.id))
    return binding->value;
  auto gone = scope().gone.find(node.id);
  if (gone != scope().gone.end()) {
    const Gone &why = gone->second;
    int64_t line = why.construct.file->position(why.construct.range.begin).line;
    auto &def = why.why == Gone::Why::OneBranch ? diag::AssignedInOneBranch : diag::AssignedInLoop;
    semantic.addCallNotes(diagnostics.report(def, spanOf(node), node.id, line)
                              .note(diag::AssignedHere, why.assigned, node.id));
    return failure();
  }
  for (Frame *outer = frame->enclosing; outer; outer = outer->enclosing)
    if (const Binding *binding = outer->scope.find(node.id))
      return captured(node, binding->value);
  return resolveGlobal(node.id, spanOf(node));
}

FailureOr<Value> Interpreter::resolveGlobal(llvm::StringRef name, SourceSpan at) {
  if (frame->function->isPrelude) {
    if (auto value = lookupInPrelude(name))
      return *value;
  } else {
    auto result = host.lookup(*frame->function, name);
    if (result.value)
      return *result.value;
    if (!result.error.message.empty() || result.error.exception)
      return hostFailed(result.error, at);
  }
  if (auto value = pythonBuiltin(name))
    return *value;
  std::vector<std::string_view> candidates;
  for (auto &[known, binding] : scope().names)
    candidates.push_back(known);
  for (const char *builtin :
       {"range", "len", "min", "max", "print", "int", "float", "bool", "isinstance", "getattr",
        "hasattr", "abs", "list", "tuple", "tl", "triton", "nereid"})
    candidates.push_back(builtin);
  for (const FunctionParam &param : frame->function->params())
    candidates.push_back(param.name);
  std::string_view near = nearestName(name, candidates);
  if (!near.empty())
    return error(diag::UnknownNameNear, at, name, near);
  return error(diag::UnknownName, at, name);
}

LogicalResult Interpreter::hostFailed(const HostError &failed, SourceSpan span) {
  semantic.addCallNotes(
      diagnostics.report(diag::HostFailed, span, failed.message).setCause(failed.exception));
  return failure();
}

//===--- conditions, comparisons
//------------------------------------------------------------------===//

FailureOr<Interpreter::Condition> Interpreter::conditionOf(const Value &value, SourceSpan at) {
  if (!value.isTensor()) {
    auto known = semantic.knownTruth(value, at);
    if (failed(known))
      return failure();
    if (*known)
      return Condition{**known, {}};
  }
  auto tensor = semantic.condition(value, at);
  if (failed(tensor))
    return failure();
  return Condition{std::nullopt, tensor->ir};
}

FailureOr<Interpreter::Condition> Interpreter::visitCondition(const Expr &node) {
  auto value = visit(node);
  if (failed(value))
    return failure();
  Semantic::At at(semantic, spanOf(node));
  return conditionOf(*value, spanOf(node));
}

/// As in Python, an operand whose truth is known either decides (then it is the result, whatever
/// stood before it) or has no part in the result, unless it is the last and nothing else remains.
/// Run-time operands are all evaluated.
FailureOr<Value> Interpreter::visitBoolOp(const BoolOp &node) {
  bool isAnd = node.op == BoolOpKind::And;
  std::optional<Value> result; // the tensor part so far, or the last known operand
  SourceSpan resultSpan;
  for (const Expr *operand : node.values) {
    auto value = visit(*operand);
    if (failed(value))
      return failure();
    SourceSpan at = spanOf(*operand);
    if (!value->isTensor()) {
      auto known = semantic.knownTruth(*value, at);
      if (failed(known))
        return failure();
      if (*known && **known != isAnd)
        return *value; // decided: the rest is not even looked at
      if (result && result->isTensor())
        continue;
      result = std::move(*value);
      resultSpan = at;
      continue;
    }
    if (value->get<Tensor>().type.isBlock())
      semantic.warning(diag::LogicalOnBlock, at, isAnd ? "and" : "or", isAnd ? "&" : "|");
    if (!result || !result->isTensor()) { // known operands that decide nothing, then a tensor
      result = std::move(*value);
      resultSpan = at;
      continue;
    }
    auto combined = semantic.logical(isAnd, *result, *value, resultSpan, at);
    if (failed(combined))
      return failure();
    result = std::move(*combined);
  }
  return *result;
}

/// Python's `is` of known values.
static bool sameObject(const Value &a, const Value &b) {
  if (a.variant().index() != b.variant().index())
    return false;
  return equalKnown(a, b);
}

/// The methods that `a op b` asks of `a`, then of `b`.
static std::pair<const char *, const char *> comparisonNames(CompareOp op) {
  switch (op) {
  case CompareOp::Lt:
    return {"__lt__", "__gt__"};
  case CompareOp::LtE:
    return {"__le__", "__ge__"};
  case CompareOp::Gt:
    return {"__gt__", "__lt__"};
  case CompareOp::GtE:
    return {"__ge__", "__le__"};
  case CompareOp::NotEq:
    return {"__ne__", "__ne__"};
  default:
    return {"__eq__", "__eq__"};
  }
}

FailureOr<Value> Interpreter::compareOnce(CompareOp op, const Value &a, const Value &b,
                                          SourceSpan atA, SourceSpan atB) {
  switch (op) {
  case CompareOp::Is:
  case CompareOp::IsNot: {
    bool same;
    if (auto *left = a.getIf<HostObject>(), *right = b.getIf<HostObject>(); left && right)
      same = host.identical(*left, *right);
    else if (auto *left = a.getIf<Tensor>(), *right = b.getIf<Tensor>(); left && right)
      same = left->ir == right->ir;
    else
      same = sameObject(a, b);
    return Value(same == (op == CompareOp::Is));
  }
  case CompareOp::In:
  case CompareOp::NotIn: {
    if (options.strict)
      return error(diag::OperatorStrict, atA, "comparison", op == CompareOp::In ? "In" : "NotIn");
    bool found = false;
    if (auto *text = b.getIf<std::string>()) {
      auto *part = a.getIf<std::string>();
      if (!part)
        return error(diag::MembershipUnknown, atA, a.kindName());
      if (failed(spend((text->size() / 64) * (part->size() / 64 + 1))))
        return failure();
      found = text->find(*part) != std::string::npos;
    } else {
      auto items = knownItems(b, atB);
      if (failed(items))
        return failure();
      const Value *wanted = knownOrNull(a);
      if (!wanted)
        return error(diag::MembershipUnknown, atA, a.kindName());
      for (const Value &item : *items) {
        const Value *known = knownOrNull(item);
        if (!known)
          return error(diag::MembershipUnknown, atB, item.kindName());
        found |= equalKnown(*known, *wanted);
      }
    }
    return Value(found == (op == CompareOp::In));
  }
  default:
    break;
  }
  if (a.is<Aggregate>() || b.is<Aggregate>()) {
    auto [name, reflected] = comparisonNames(op);
    auto left = callSpecial(a, name, b, semantic.span());
    if (failed(left))
      return failure();
    if (*left)
      return std::move(**left);
    auto right = callSpecial(b, reflected, a, semantic.span());
    if (failed(right))
      return failure();
    if (*right)
      return std::move(**right);
  }
  return semantic.compare(op, a, b, atA, atB);
}

FailureOr<Value> Interpreter::visitCompare(const Compare &node) {
  if (options.strict && node.ops.size() > 1 && !semantic.since(309))
    return error(diag::ChainedComparison, spanOf(node));
  auto left = visit(*node.left);
  if (failed(left))
    return failure();
  SourceSpan leftSpan = spanOf(*node.left);
  std::optional<Value> result;
  for (uint32_t i = 0; i < node.ops.size(); ++i) {
    auto right = visit(*node.comparators[i]);
    if (failed(right))
      return failure();
    SourceSpan rightSpan = spanOf(*node.comparators[i]);
    if (failed(spendOver(*left)) || failed(spendOver(*right)))
      return failure();
    auto compared = compareOnce(node.ops[i], *left, *right, leftSpan, rightSpan);
    if (failed(compared))
      return failure();
    if (!result || !result->isTensor()) {
      // A known false ends the chain; a known true leaves it to the next link.
      result = std::move(*compared);
      auto known = semantic.knownTruth(*result, spanOf(node));
      if (failed(known))
        return failure();
      if (*known && !**known)
        return *result;
    } else {
      auto both = semantic.logical(/*isAnd=*/true, *result, *compared, leftSpan, rightSpan);
      if (failed(both))
        return failure();
      result = std::move(*both);
    }
    left = std::move(right);
    leftSpan = rightSpan;
  }
  return *result;
}

FailureOr<Value> Interpreter::visitIfExp(const IfExp &node) {
  auto condition = visitCondition(*node.test);
  if (failed(condition))
    return failure();
  if (condition->known)
    return visit(*condition->known ? *node.body : *node.orelse);
  auto arm = [&](const Expr &expr) -> LogicalResult {
    auto value = visit(expr);
    if (failed(value))
      return failure();
    scope().carried = std::move(*value);
    return success();
  };
  if (failed(branch(
          condition->runtime, [&] { return arm(*node.body); }, [&] { return arm(*node.orelse); },
          spanOf(node), {})))
    return failure();
  Value result = std::move(*scope().carried);
  scope().carried.reset();
  return result;
}

//===--- attributes and subscripts
//----------------------------------------------------------------===//

FailureOr<Value> Interpreter::visitAttribute(const Attribute &node) {
  auto object = visit(*node.value);
  if (failed(object))
    return failure();
  return getAttribute(*object, node.name, spanOf(node.nameRange));
}

FailureOr<Value> Interpreter::getAttribute(const Value &object, llvm::StringRef name,
                                           SourceSpan span) {
  auto found = findAttribute(object, name, span);
  if (failed(found))
    return failure();
  if (*found)
    return std::move(**found);
  std::vector<std::string_view> candidates;
  std::string kind = object.kindName();
  auto addFunctions = [&](bool methods) {
    for (const Builtin &builtin : allBuiltins())
      if (!methods || builtin.isMethod)
        candidates.push_back(builtin.name);
    for (const PreludeFunction &function : allPreludeFunctions())
      if (!llvm::StringRef(function.name).starts_with("_") && (!methods || function.isMethod))
        candidates.push_back(function.name);
  };
  if (auto *ours = object.getIf<ModuleValue>()) {
    kind = "module `" + ours->name + "`";
    addFunctions(false);
#define DTYPE(Enum, Name, ...) candidates.push_back(Name);
#include "frontend/dtypes.def"
#undef DTYPE
  } else if (object.isTensor()) {
    addFunctions(true);
    candidates.insert(candidates.end(), {"dtype", "shape", "type", "numel", "T"});
  } else if (auto *tuple = object.getIf<Tuple>()) {
    candidates.assign(tuple->fields.begin(), tuple->fields.end());
  } else if (auto *aggregate = object.getIf<Aggregate>()) {
    for (const Class::Field &field : aggregate->cls->fields())
      candidates.push_back(field.name);
  }
  std::string_view near = nearestName(name, candidates);
  if (!near.empty())
    return error(diag::UnknownAttributeNear, span, kind, name, near);
  return error(diag::UnknownAttribute, span, kind, name);
}

static bool isEllipsis(const Expr &node) {
  auto *constant = dynCast<Constant>(&node);
  return constant && constant->constantKind == ConstantKind::Ellipsis;
}

/// The index of a block: `...` stands for the slices `:` that are missing.
FailureOr<Value> Interpreter::visitBlockIndex(const Expr &node, const Tensor &block) {
  auto *display = dynCast<syntax::Tuple>(&node);
  bool hasEllipsis = isEllipsis(node);
  if (display)
    for (const Expr *element : display->elements)
      hasEllipsis |= isEllipsis(*element);
  if (!hasEllipsis)
    return visit(node);
  auto none = std::make_shared<const Value>();
  const Value full{SliceValue{none, none, none}};
  if (options.strict)
    return error(diag::UnsupportedIndex, spanOf(node), "Ellipsis");
  Tuple parts;
  std::optional<size_t> place;
  if (!display)
    place = 0;
  else
    for (const Expr *element : display->elements) {
      if (!isEllipsis(*element)) {
        auto part = visit(*element);
        if (failed(part))
          return failure();
        parts.items.push_back(std::move(*part));
      } else if (place) {
        return error(diag::SeveralEllipses, spanOf(*element));
      } else {
        place = parts.items.size();
      }
    }
  size_t rank = block.type.shape.size();
  size_t taken =
      size_t(llvm::count_if(parts.items, [](const Value &part) { return !part.isNone(); }));
  if (taken < rank) {
    std::vector<Value> &all = parts.items.edit();
    all.insert(all.begin() + int64_t(*place), rank - taken, full);
  }
  return Value(std::move(parts));
}

FailureOr<Value> Interpreter::visitSubscript(const Subscript &node) {
  auto object = visit(*node.value);
  if (failed(object))
    return failure();
  auto *block = object->getIf<Tensor>();
  if (object->is<std::string>() && failed(spendOver(*object)))
    return failure();
  auto index = block ? visitBlockIndex(*node.index, *block) : visit(*node.index);
  if (failed(index))
    return failure();
  auto item = callSpecial(*object, "__getitem__", *index, spanOf(node));
  if (failed(item))
    return failure();
  if (*item)
    return std::move(**item);
  if (auto *foreign = object->getIf<HostObject>()) {
    auto result = host.getItem(*foreign, *index);
    if (result.value)
      return std::move(*result.value);
    return hostFailed(result.error, spanOf(node));
  }
  return semantic.subscript(*object, *index, spanOf(*node.index));
}

//===--- displays
//---------------------------------------------------------------------------------===//

/// A tuple that is being made may be larger than one that is made, but not by much.
LogicalResult Interpreter::growing(const Tuple &tuple) {
  if (tuple.items.size() * sizeof(Value) <= maxValueBytes)
    return success();
  return error(diag::ValueTooLarge, {}, "tuple", int64_t(maxValueBytes));
}

FailureOr<Value> Interpreter::visitElements(NodeList<Expr> elements) {
  Tuple tuple;
  for (const Expr *element : elements) {
    if (auto *starred = dynCast<Starred>(element)) {
      auto value = visit(*starred->value);
      if (failed(value))
        return failure();
      auto items = knownItems(*value, spanOf(*starred->value));
      if (failed(items))
        return failure();
      llvm::append_range(tuple.items.edit(), items->all());
      if (failed(growing(tuple)))
        return failure();
      continue;
    }
    auto value = visit(*element);
    if (failed(value))
      return failure();
    tuple.items.push_back(std::move(*value));
  }
  return Value(std::move(tuple));
}

FailureOr<Items> Interpreter::knownItems(const Value &value, SourceSpan at) {
  if (auto *tuple = value.getIf<Tuple>())
    return tuple->items;
  auto *range = value.getIf<RangeValue>();
  if (!range)
    return error(diag::NotIterable, at, value.kindName());
  const char *what = range->kind == RangeValue::Kind::Static
                         ? "a bound of tl.static_range"
                         : "a bound of a range that is unrolled";
  auto start = semantic.knownInt(*range->start, what, at);
  auto stop = semantic.knownInt(*range->stop, what, at);
  auto step = semantic.knownInt(*range->step, what, at);
  if (failed(start) || failed(stop) || failed(step))
    return failure();
  if (*step == 0)
    return error(diag::LoopStepZero, at);
  if (*step > 0 ? *start >= *stop : *start <= *stop)
    return Items();
  uint64_t distance =
      *step > 0 ? uint64_t(*stop) - uint64_t(*start) : uint64_t(*start) - uint64_t(*stop);
  uint64_t stride = *step > 0 ? uint64_t(*step) : -uint64_t(*step);
  uint64_t count = (distance - 1) / stride + 1;
  if (count > budget.limits.iterations)
    return error(diag::TooManyIterations, at, int64_t(budget.limits.iterations),
                 int64_t(std::min(count, uint64_t(INT64_MAX))));
  if (failed(spend(count)))
    return failure();
  std::vector<Value> items;
  items.reserve(count);
  for (uint64_t i = 0; i < count; ++i)
    items.push_back(Value::integer(int64_t(uint64_t(*start) + i * uint64_t(*step))));
  return Items(std::move(items));
}

LogicalResult Interpreter::generate(NodeList<Comprehension> generators, size_t from,
                                    llvm::function_ref<LogicalResult()> element) {
  if (from == generators.size())
    return element();
  const Comprehension &generator = *generators[from];
  if (generator.isAsync)
    return unsupported("asynchronous comprehension", spanOf(generator));
  auto iterated = visit(*generator.iter);
  if (failed(iterated))
    return failure();
  auto items = knownItems(*iterated, spanOf(*generator.iter));
  if (failed(items))
    return failure();
  // The target is a name of the comprehension alone.
  auto targets = assignedTargets(*generator.target);
  std::vector<std::pair<llvm::StringRef, std::optional<Binding>>> saved;
  for (llvm::StringRef name : targets) {
    const Binding *binding = scope().find(name);
    saved.emplace_back(name, binding ? std::optional(*binding) : std::nullopt);
  }
  llvm::scope_exit restore([&] {
    for (auto &[name, binding] : saved) {
      if (binding)
        scope().names[name] = std::move(*binding);
      else
        scope().names.erase(name);
    }
  });
  unrolledLoops.push_back({spanOf(*generator.iter), 0, items->size()});
  llvm::scope_exit leave([&] { unrolledLoops.pop_back(); });
  for (size_t i = 0; i < items->size(); ++i) {
    const Value &item = (*items)[i];
    unrolledLoops.back().index = i;
    if (failed(spend(1)))
      return failure();
    for (llvm::StringRef name : targets)
      scope().names.erase(name);
    if (failed(assign(*generator.target, item, /*keepKnown=*/true)))
      return failure();
    bool wanted = true;
    for (const Expr *test : generator.conditions) {
      auto condition = visitCondition(*test);
      if (failed(condition))
        return failure();
      if (!condition->known)
        return error(diag::ExpectedKnownValue, spanOf(*test), "the condition of a comprehension",
                     "a run-time value");
      if (!(wanted = *condition->known))
        break;
    }
    if (wanted && failed(generate(generators, from + 1, element)))
      return failure();
  }
  return success();
}

FailureOr<Value> Interpreter::visitListComp(const ListComp &node) {
  if (options.strict && node.generators.size() != 1)
    return error(diag::NestedComprehension, spanOf(node));
  if (const Expr &target = *node.generators[0]->target; options.strict && !isa<Name>(target))
    return unsupported("Tuple as the target of a comprehension", spanOf(target));
  Tuple tuple;
  auto element = [&]() -> LogicalResult {
    auto value = visit(*node.element);
    if (failed(value))
      return failure();
    tuple.items.push_back(std::move(*value));
    return growing(tuple);
  };
  if (failed(generate(node.generators, 0, element)))
    return failure();
  return Value(std::move(tuple));
}

} // namespace nereid::frontend
