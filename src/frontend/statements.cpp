// Statements, assignment and its targets.
#include "frontend/interpreter.h"

#include "llvm/ADT/ScopeExit.h"

namespace nereid::frontend {

using namespace nereid::syntax;
using frontend::Tuple;
using llvm::failure;
using llvm::success;

static void collectTargets(const Node &target, llvm::function_ref<void(llvm::StringRef)> add) {
  if (auto *name = dynCast<Name>(&target))
    add(name->id);
  else if (auto *tuple = dynCast<syntax::Tuple>(&target))
    for (const Expr *element : tuple->elements)
      collectTargets(*element, add);
  else if (auto *list = dynCast<List>(&target))
    for (const Expr *element : list->elements)
      collectTargets(*element, add);
  else if (auto *starred = dynCast<Starred>(&target))
    collectTargets(*starred->value, add);
}

llvm::SmallVector<llvm::StringRef, 4> assignedTargets(const Expr &target) {
  llvm::SmallVector<llvm::StringRef, 4> names;
  collectTargets(target, [&](llvm::StringRef name) { names.push_back(name); });
  return names;
}

void collectAssigned(const Node &node, llvm::SetVector<llvm::StringRef> &names) {
  auto add = [&](llvm::StringRef name) { names.insert(name); };
  switch (node.kind) {
  case NodeKind::FunctionDef:
    return add(cast<FunctionDef>(&node)->name);
  case NodeKind::ClassDef:
  case NodeKind::Lambda:
    return;
  case NodeKind::Assign:
    for (const Expr *target : cast<Assign>(&node)->targets)
      collectTargets(*target, add);
    break;
  case NodeKind::AugAssign:
    collectTargets(*cast<AugAssign>(&node)->target, add);
    break;
  case NodeKind::AnnAssign:
    collectTargets(*cast<AnnAssign>(&node)->target, add);
    break;
  case NodeKind::For:
    collectTargets(*cast<For>(&node)->target, add);
    break;
  case NodeKind::NamedExpr:
    collectTargets(*cast<NamedExpr>(&node)->target, add);
    break;
  case NodeKind::WithItem:
    if (const Expr *target = cast<WithItem>(&node)->target)
      collectTargets(*target, add);
    break;
  default:
    break;
  }
  forEachChild(node, [&](const Node &child) { collectAssigned(child, names); });
}

llvm::SetVector<llvm::StringRef> assignedNames(NodeList<Stmt> body) {
  llvm::SetVector<llvm::StringRef> names;
  for (const Stmt *stmt : body)
    collectAssigned(*stmt, names);
  return names;
}

static bool mayLeave(const Node &node, bool ownLoop) {
  switch (node.kind) {
  case NodeKind::Return:
    return true;
  case NodeKind::Break:
    return ownLoop;
  case NodeKind::FunctionDef:
  case NodeKind::ClassDef:
    return false;
  case NodeKind::For:
  case NodeKind::While:
    ownLoop = false;
    break;
  default:
    if (isa<Expr>(node))
      return false;
  }
  bool found = false;
  forEachChild(node, [&](const Node &child) { found |= mayLeave(child, ownLoop); });
  return found;
}

bool mayLeaveLoop(NodeList<Stmt> body) {
  return llvm::any_of(body, [](const Stmt *stmt) { return mayLeave(*stmt, true); });
}

//===--- bodies
//-----------------------------------------------------------------------------------===//

/// Whether the last statement is a `return`, `break` or `continue`, on every path that the tree
/// shows.
static bool endsByLeaving(NodeList<Stmt> body) {
  if (body.empty())
    return false;
  switch (body.back()->kind) {
  case NodeKind::Return:
  case NodeKind::Break:
  case NodeKind::Continue:
    return true;
  case NodeKind::If:
    return endsByLeaving(cast<If>(body.back())->body) &&
           endsByLeaving(cast<If>(body.back())->orelse);
  default:
    return false;
  }
}

/// Triton walks what follows an `if`, or an unrolled loop, that has returned, for whatever it
/// decided: the types are checked there too. In strict mode so do we, on a path that is never
/// taken.
bool Interpreter::isWalkedBehind(const Stmt &left) {
  Scope &here = scope();
  if (!comparesAllSides() || !(isa<If>(left) || isa<For>(left)) || here.leavesLoop() ||
      here.returned.never())
    return false;
  here.done = false;
  here.returned = Flag::of(constantBool(true));
  return true;
}

LogicalResult Interpreter::visitBody(Body body, size_t from, bool tail) {
  for (size_t i = from; i < body.size(); ++i) {
    if (scope().done && (i == from || !isWalkedBehind(*body[i - 1])))
      return success();
    if (scope().mayHaveLeft())
      return guarded([&] { return visitBody(body, i, tail); }, spanOf(*body[i]), tail);
    bool last = i + 1 == body.size();
    if (auto *branching = dynCast<If>(body[i]); branching && !last) {
      // Where one side ends by leaving, the rest belongs to the other: one scf.if less, and no flag
      // to test. Not in strict mode, which compares the names after the two sides as Triton does.
      bool thenLeaves = endsByLeaving(branching->body),
           elseLeaves = endsByLeaving(branching->orelse);
      if (thenLeaves != elseLeaves && !comparesAllSides()) {
        auto condition = visitCondition(*branching->test);
        if (failed(condition))
          return failure();
        // Without the remainder, which stands in no `if`.
        auto within = [&](Body statements) {
          ++frame->conditionals;
          LogicalResult walked = visitBody(statements, 0, false);
          --frame->conditionals;
          return walked;
        };
        if (condition->known) {
          if (failed(within(*condition->known ? branching->body : branching->orelse)))
            return failure();
          continue;
        }
        auto side = [&](Body statements, bool leaves) -> LogicalResult {
          if (failed(within(statements)))
            return failure();
          return leaves ? success() : visitBody(body, i + 1, tail);
        };
        return branch(
            condition->runtime, [&] { return side(branching->body, thenLeaves); },
            [&] { return side(branching->orelse, elseLeaves); }, spanOf(*branching->test),
            {.tail = tail});
      }
    }
    if (failed(visit(*body[i], tail && last)))
      return failure();
  }
  return success();
}

LogicalResult Interpreter::visit(const Stmt &node, bool tail) {
  Semantic::At at(semantic, spanOf(node));
  if (failed(spend(1)))
    return failure();
  switch (node.kind) {
  case NodeKind::ExprStmt: {
    const Expr *value = cast<ExprStmt>(&node)->value;
    if (isa<Constant>(value)) // a docstring, `...`
      return success();
    if (auto *call = dynCast<Call>(value))
      unusedCallee = call->func;
    return visit(*value);
  }
  case NodeKind::Assign:
    return visitAssign(*cast<Assign>(&node));
  case NodeKind::AugAssign:
    return visitAugAssign(*cast<AugAssign>(&node));
  case NodeKind::AnnAssign:
    return visitAnnAssign(*cast<AnnAssign>(&node));
  case NodeKind::If:
    return visitIf(*cast<If>(&node), tail);
  case NodeKind::For:
    return visitFor(*cast<For>(&node));
  case NodeKind::While:
    return visitWhile(*cast<While>(&node));
  case NodeKind::Return:
    return visitReturn(*cast<Return>(&node));
  case NodeKind::Assert:
    return visitAssert(*cast<Assert>(&node));
  case NodeKind::Pass:
    return success();
  case NodeKind::Break:
  case NodeKind::Continue: {
    if (options.strict)
      return unsupported(syntax::kindName(node.kind), spanOf(node));
    (node.kind == NodeKind::Break ? scope().broke : scope().continued) = Flag::always_();
    scope().done = true;
    return success();
  }
  case NodeKind::FunctionDef: {
    auto &function = *cast<FunctionDef>(&node);
    if (options.strict)
      return error(diag::NestedFunction, spanOf(function.nameRange), function.name);
    for (const Expr *decorator : function.decorators)
      if (decoratorKind(*decorator) != Decorator::Jit)
        return error(diag::LocalDecorator, spanOf(*decorator), function.name);
    auto value = localFunction(node);
    if (failed(value))
      return failure();
    return setName(function.name, std::move(*value), spanOf(function.nameRange));
  }
  case NodeKind::With:
    return visitWith(*cast<With>(&node));
  case NodeKind::UnsupportedStmt: {
    std::string_view name = cast<UnsupportedStmt>(&node)->astName;
    return unsupported(name, spanOf(node));
  }
  default:
    return unsupported(syntax::kindName(node.kind), spanOf(node));
  }
}

/// As in Triton, values returned inside an `if` consist of tensors: numbers are converted, other
/// values are errors.
LogicalResult Interpreter::tensorsOf(Value &value, SourceSpan at) {
  if (value.is<Aggregate>())
    return success();
  if (value.is<Tuple>()) {
    for (Value &item : value.get<Tuple>().items.edit())
      if (failed(tensorsOf(item, at)))
        return failure();
    return success();
  }
  auto tensor = semantic.toTensor(value, at);
  if (failed(tensor))
    return failure();
  value = std::move(*tensor);
  return success();
}

/// What Triton returns as it is since 3.7, in place of a tensor: None, a text or a number, or a
/// tuple of such and of tensors.
static bool isKnownResult(const Value &value) {
  if (auto *tuple = value.getIf<Tuple>())
    return llvm::all_of(tuple->items,
                        [](const Value &item) { return item.isTensor() || isKnownResult(item); });
  return value.isNone() || value.isNumber() || value.is<std::string>();
}

LogicalResult Interpreter::visitReturn(const Return &node) {
  if (options.strict && frame->loops)
    return error(diag::ReturnInLoop, spanOf(node));
  Value value;
  if (node.value) {
    auto visited = visit(*node.value);
    if (failed(visited))
      return failure();
    value = std::move(*visited);
  }
  SourceSpan at = node.value ? spanOf(*node.value) : spanOf(node);
  bool staysKnown = semantic.since(307) && isKnownResult(value);
  if (comparesAllSides() && frame->conditionals && node.value && !staysKnown &&
      failed(tensorsOf(value, at)))
    return failure();
  if (frame->isKernel && !value.isNone())
    return error(diag::KernelReturnsValue, at, frame->function->name(), describeType(value));
  scope().result = std::move(value);
  scope().resultSpan = at;
  scope().returned = Flag::always_();
  scope().done = true;
  return success();
}

/// `with call() as x`: `__enter__` and `__exit__` run during the compilation, around the walk of
/// the body.
LogicalResult Interpreter::visitWith(const With &node) {
  llvm::SmallVector<Value, 2> managers;
  for (const WithItem *item : node.items) {
    auto manager = visit(*item->context);
    if (failed(manager))
      return failure();
    SourceSpan at = spanOf(*item->context);
    auto enter = getAttribute(*manager, "__enter__", at);
    if (failed(enter))
      return failure();
    auto entered = callValue(*enter, {}, {}, at);
    if (failed(entered))
      return failure();
    managers.push_back(std::move(*manager));
    if (item->target && failed(assign(*item->target, *entered)))
      return failure();
  }
  if (mayLeaveLoop(node.body))
    return error(diag::ReturnInWith, spanOf(node));
  if (failed(visitBody(node.body, 0, false)))
    return failure();
  for (auto [item, manager] : llvm::reverse(llvm::zip(node.items, managers))) {
    SourceSpan at = spanOf(*item->context);
    auto exit = getAttribute(manager, "__exit__", at);
    if (failed(exit))
      return failure();
    Argument none{Value(), at};
    if (failed(callValue(*exit, {none, none, none}, {}, at)))
      return failure();
  }
  return success();
}

LogicalResult Interpreter::visitAssert(const Assert &node) {
  const Builtin *check = findBuiltin("device_assert");
  if (!check)
    return unsupported("Assert", spanOf(node));
  llvm::SmallVector<Argument, 2> args;
  for (const Expr *part : {node.test, node.message}) {
    if (!part)
      continue;
    auto value = visit(*part);
    if (failed(value))
      return failure();
    args.push_back({std::move(*value), spanOf(*part)});
  }
  return callBuiltin(semantic, *check, nullptr, args, {}, spanOf(node));
}

//===--- assignment
//-------------------------------------------------------------------------------===//

LogicalResult Interpreter::setName(llvm::StringRef name, Value value, SourceSpan span,
                                   bool constant) {
  Binding &binding = scope().names[name];
  mlir::Block *block = semantic.builder.getInsertionBlock();
  if (binding.constant && binding.block != block)
    return error(diag::ConstexprReassigned, span, name);
  binding.value = std::move(value);
  binding.id = ++nextBinding;
  binding.constant = constant;
  binding.block = constant ? block : nullptr;
  binding.span = span;
  return success();
}

/// What Triton binds to no name without a `tl.constexpr`.
static bool isNoVariable(const Value &value) {
  auto *range = value.getIf<RangeValue>();
  return value.is<FunctionValue>() || value.is<BuiltinValue>() || value.is<ModuleValue>() ||
         value.is<std::string>() || (range && range->kind == RangeValue::Kind::Range);
}

LogicalResult Interpreter::assign(const Expr &target, const Value &value, bool keepKnown) {
  SourceSpan span = spanOf(target);
  NodeList<Expr> elements;
  switch (target.kind) {
  case NodeKind::Name: {
    llvm::StringRef name = cast<Name>(&target)->id;
    if (llvm::is_contained(scope().declared, name) && !scope().find(name)) {
      if (const Value *known = knownOrNull(value))
        return setName(name, *known, span, /*constant=*/true);
    }
    if (keepKnown)
      return setName(name, value, span);
    Semantic::At at(semantic, span);
    if (failed(spendOver(value)))
      return failure();
    if (comparesAllSides() && isNoVariable(value))
      return error(diag::CannotConvertToTensor, span, value.kindName());
    auto assigned = semantic.assigned(value, span);
    if (failed(assigned))
      return failure();
    return setName(name, std::move(*assigned), span);
  }
  case NodeKind::Tuple:
    elements = cast<syntax::Tuple>(&target)->elements;
    break;
  case NodeKind::List:
    if (options.strict)
      return unsupported("List in an assignment", span);
    elements = cast<List>(&target)->elements;
    break;
  case NodeKind::Starred:
    return unsupported("Starred in an assignment", span);
  case NodeKind::Subscript:
    return error(diag::SubscriptAssignment, span);
  case NodeKind::Attribute: {
    auto done = assignField(*cast<Attribute>(&target), value);
    if (failed(done))
      return failure();
    return *done ? success() : error(diag::AttributeAssignment, span);
  }
  default:
    return unsupported(syntax::kindName(target.kind), span);
  }
  return unpack(elements, value, span, keepKnown);
}

LogicalResult Interpreter::unpack(NodeList<Expr> targets, const Value &value, SourceSpan span,
                                  bool keepKnown) {
  if (!value.is<Tuple>() && (options.strict || !value.is<RangeValue>()))
    return error(diag::NotUnpackable, span, value.kindName());
  // A copy: assigning may rebind the name that holds the tuple.
  auto items = knownItems(value, span);
  if (failed(items))
    return failure();
  size_t count = targets.size(), star = count;
  for (size_t i = 0; i < count; ++i) {
    if (!isa<Starred>(targets[i]))
      continue;
    if (options.strict)
      return unsupported("Starred", spanOf(*targets[i]));
    star = i;
  }
  bool hasStar = star < count;
  bool isTooLong = !hasStar && items->size() > count;
  if (items->size() + hasStar < count || (isTooLong && options.strict && semantic.since(309)))
    return error(diag::UnpackCount, span, int64_t(hasStar ? count - 1 : count),
                 int64_t(items->size()));
  if (isTooLong) // Triton takes the first ones without a word, before 3.9
    semantic.warning(diag::UnpackDrops, span, int64_t(items->size()), int64_t(count));
  size_t taken = hasStar ? items->size() + 1 - count : 0; // by the starred target
  for (size_t i = 0; i < count; ++i) {
    if (i != star) {
      if (failed(assign(*targets[i], (*items)[i < star ? i : i - 1 + taken], keepKnown)))
        return failure();
      continue;
    }
    Tuple rest;
    rest.items = std::vector<Value>(items->begin() + star, items->begin() + star + taken);
    if (failed(assign(*cast<Starred>(targets[i])->value, Value(std::move(rest)), keepKnown)))
      return failure();
  }
  return success();
}

LogicalResult Interpreter::visitAssign(const Assign &node) {
  if (options.strict && node.targets.size() > 1)
    return error(diag::SeveralTargets, spanOf(node));
  auto value = visit(*node.value);
  if (failed(value))
    return failure();
  for (const Expr *target : node.targets)
    if (failed(assign(*target, *value)))
      return failure();
  return success();
}

LogicalResult Interpreter::visitAugAssign(const AugAssign &node) {
  if (isa<Subscript>(node.target))
    return error(diag::SubscriptAssignment, spanOf(*node.target));
  if (isa<Attribute>(node.target) && !frame->constructs)
    return error(diag::AttributeAssignment, spanOf(*node.target));
  auto left = visit(*node.target);
  if (failed(left))
    return failure();
  auto right = visit(*node.value);
  if (failed(right))
    return failure();
  auto result = binary(node.op, *left, *right, spanOf(*node.target), spanOf(*node.value));
  if (failed(result))
    return failure();
  return assign(*node.target, *result);
}

LogicalResult Interpreter::visitAnnAssign(const AnnAssign &node) {
  bool constant = isConstexprAnnotation(node.annotation);
  auto *name = dynCast<Name>(node.target);
  if (!name && isa<Attribute>(node.target) && node.value && frame->constructs) {
    auto value = visit(*node.value);
    return failed(value) ? failure() : assign(*node.target, *value);
  }
  if (!name)
    return isa<Subscript>(node.target) ? error(diag::SubscriptAssignment, spanOf(*node.target))
                                       : error(diag::AttributeAssignment, spanOf(*node.target));
  if (!node.value) {
    if (constant)
      scope().declared.push_back(name->id);
    return success();
  }
  auto value = visit(*node.value);
  if (failed(value))
    return failure();
  if (!constant)
    return assign(*node.target, *value);
  SourceSpan span = spanOf(*node.target);
  const Value *known = knownOrNull(*value);
  if (!known) // Triton does not look
    return assign(*node.target, *value);
  // The same line again is no second definition: an unrolled loop comes back to it.
  if (const Binding *old = scope().find(name->id)) {
    if (!old->constant || old->span.file != span.file || old->span.range != span.range)
      return error(diag::ConstexprReassigned, span, name->id);
    scope().names[name->id].constant = false;
  }
  return setName(name->id, *known, span, /*constant=*/true);
}

} // namespace nereid::frontend
