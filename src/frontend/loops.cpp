// Loops. `for` over a range of the run without early exits is scf.for; everything else of the run
// is scf.while, with the pending exits among the carried values; loops over known items are
// unrolled.
//
// Carried values: the names that exist before the loop and may be assigned in it, by a look at the
// tree. Their types must not change, so one walk of the body is enough.
#include "frontend/interpreter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "llvm/ADT/ScopeExit.h"

namespace nereid::frontend {

using namespace nereid::syntax;
using frontend::Tuple;
using llvm::failure;
using llvm::success;

//===--- carried names
//----------------------------------------------------------------------------===//

/// A value as it goes round a loop: numbers become tensors, but for those of aggregates, and no
/// tensor remembers a literal.
static FailureOr<Value> loopCarried(Semantic &semantic, const Value &value,
                                    bool numbersStay = false) {
  if ((value.isNumber() && !numbersStay) || value.isTensor()) {
    auto tensor = semantic.toCarried(value);
    if (failed(tensor))
      return failure();
    tensor->literal.reset();
    return Value(std::move(*tensor));
  }
  Value result = value;
  if (std::vector<Value> *items = editItemsOf(result))
    for (Value &item : *items) {
      auto converted = loopCarried(semantic, item, numbersStay || value.is<Aggregate>());
      if (failed(converted))
        return failure();
      item = std::move(*converted);
    }
  return result;
}

FailureOr<std::vector<Interpreter::CarriedName>>
Interpreter::carriedNames(llvm::SetVector<llvm::StringRef> assigned, const For *loop,
                          const LoopBounds *bounds) {
  // The loop's own variable keeps its last value where a variable of that name and type existed.
  if (auto *target = loop ? dynCast<Name>(loop->target) : nullptr) {
    const Binding *old = scope().find(target->id);
    auto *tensor = old ? old->value.getIf<Tensor>() : nullptr;
    if (tensor && tensor->type == bounds->type)
      assigned.insert(target->id);
    else
      assigned.remove(target->id);
  }
  std::vector<CarriedName> carried;
  for (auto &[name, binding] : scope().names) {
    if (binding.constant || !assigned.contains(name))
      continue;
    auto value = loopCarried(semantic, binding.value);
    if (failed(value))
      return failure();
    carried.push_back({name, std::move(*value)});
  }
  return carried;
}

template <typename Names> static llvm::SmallVector<mlir::Value> initialValues(const Names &names) {
  llvm::SmallVector<Tensor> tensors;
  for (const auto &name : names)
    flattenTensors(name.initial, tensors);
  return llvm::to_vector(llvm::map_range(tensors, [](const Tensor &tensor) { return tensor.ir; }));
}

void Interpreter::bindCarried(llvm::ArrayRef<CarriedName> carried, mlir::ValueRange values,
                              size_t &next) {
  for (const CarriedName &name : carried) {
    Binding &binding = scope().names[name.name];
    binding.value = replaceTensors(name.initial, values, next);
    binding.id = ++nextBinding;
  }
}

/// Appends the tensors of `now`, which must have the form and types of `initial`.
static bool appendCarried(Semantic &semantic, const Value &initial, const Value &now,
                          llvm::SmallVectorImpl<mlir::Value> &values) {
  if (auto *tensor = initial.getIf<Tensor>()) {
    if (!now.isTensor() && !now.isNumber())
      return false;
    auto converted = semantic.toCarried(now);
    if (failed(converted) || converted->type != tensor->type)
      return false;
    values.push_back(converted->ir);
    return true;
  }
  if (const std::vector<Value> *items = itemsOf(initial)) {
    if (!sameForm(initial, now))
      return false;
    for (size_t i = 0; i < items->size(); ++i)
      if (!appendCarried(semantic, (*items)[i], (*itemsOf(now))[i], values))
        return false;
    return true;
  }
  if (initial.variant().index() != now.variant().index())
    return false;
  if (auto *object = initial.getIf<HostObject>())
    return semantic.host.identical(*object, now.get<HostObject>());
  return equalKnown(initial, now);
}

LogicalResult Interpreter::collectCarried(llvm::ArrayRef<CarriedName> carried,
                                          llvm::SmallVectorImpl<mlir::Value> &values) {
  for (const CarriedName &name : carried) {
    const Binding &binding = *scope().find(name.name);
    if (!appendCarried(semantic, name.initial, binding.value, values))
      return error(diag::LoopCarriedType, binding.span, name.name, describeType(name.initial),
                   describeType(binding.value));
  }
  return success();
}

void Interpreter::forgetBodyNames(const Scope &body, SourceSpan loop) {
  for (auto &[name, binding] : body.names)
    if (!scope().find(name))
      scope().gone.insert({name, Gone{Gone::Why::LoopBody, binding.span, loop}});
  for (auto &entry : body.gone)
    scope().gone.insert(entry);
}

void Interpreter::endIteration() {
  if (scope().continued.never())
    return;
  scope().continued = {};
  scope().done = false;
}

//===--- for
//--------------------------------------------------------------------------------------===//

LogicalResult Interpreter::visitFor(const For &node) {
  if (!node.orelse.empty())
    return unsupported("`else` of a `for`", spanOf(*node.orelse.front()));
  auto iterated = visit(*node.iter);
  if (failed(iterated))
    return failure();
  SourceSpan at = spanOf(*node.iter);
  auto *range = iterated->getIf<RangeValue>();
  if (range && range->kind == RangeValue::Kind::Range) {
    if (!isa<Name>(node.target))
      return error(diag::NotUnpackable, spanOf(*node.target), "an integer");
    auto bounds = loopBounds(*range, at);
    if (failed(bounds))
      return failure();
    if (mayLeaveLoop(node.body))
      return generalLoop(node, node.body, &node, &*bounds, nullptr, true);
    return structuredFor(node, *range, *bounds);
  }
  if (options.strict && !range)
    return error(diag::NotIterable, at, iterated->kindName());
  auto items = knownItems(*iterated, at);
  if (failed(items))
    return failure();
  unrolledLoops.push_back({at, 0, items->size()});
  llvm::scope_exit leave([&] { unrolledLoops.pop_back(); });
  if (failed(unroll(node, *items, 0)))
    return failure();
  if (!scope().broke.never()) {
    scope().broke = {};
    scope().done = false;
  }
  return success();
}

LogicalResult Interpreter::unroll(const For &node, const Items &items, size_t from) {
  for (size_t i = from; i < items.size(); ++i) {
    if (scope().done)
      return success();
    unrolledLoops.back().index = i;
    if (failed(spend(1, spanOf(*node.target))))
      return failure();
    if (scope().mayHaveLeft())
      return guarded([&] { return unroll(node, items, i); }, spanOf(*node.target), false);
    if (failed(assign(*node.target, items[i], /*keepKnown=*/true)) ||
        failed(visitBody(node.body, 0, false)))
      return failure();
    endIteration();
  }
  return success();
}

FailureOr<Interpreter::LoopBounds> Interpreter::loopBounds(const RangeValue &range, SourceSpan at) {
  Semantic::At here(semantic, at);
  const Value *knownStep = knownOrNull(*range.step);
  auto *stepNumber = knownStep ? knownStep->getIf<llvm::APSInt>() : nullptr;
  bool negative = stepNumber && stepNumber->isNegative();
  if (stepNumber && stepNumber->isZero())
    return error(diag::LoopStepZero, at);
  Value step = *range.step;
  if (negative)
    step =
        Value(llvm::APSInt(-stepNumber->sext(stepNumber->getBitWidth() + 1), /*isUnsigned=*/false));

  Tensor parts[3];
  DType common = DType::Int32;
  const Value *values[3] = {range.start.get(), range.stop.get(), &step};
  for (int i = 0; i < 3; ++i) {
    if (!values[i]->isTensor() && !values[i]->is<llvm::APSInt>() && !values[i]->is<bool>())
      return error(diag::LoopBoundType, at, describeType(*values[i]));
    auto tensor = semantic.toTensor(*values[i], at);
    if (failed(tensor))
      return failure();
    if (tensor->type.isBlock() || tensor->type.isPointer || !isInt(tensor->type.scalar))
      return error(diag::LoopBoundType, at, describeType(*values[i]));
    parts[i] = *tensor;
    auto promoted = i ? semantic.commonType(common, false, tensor->type.scalar, false, false, at)
                      : FailureOr<DType>(tensor->type.scalar);
    if (failed(promoted))
      return failure();
    common = *promoted;
  }
  if (isBool(common))
    common = DType::Int32;
  for (Tensor &part : parts) {
    auto converted = semantic.cast(part, common, at);
    if (failed(converted))
      return failure();
    part = *converted;
  }
  LoopBounds bounds{parts[0].ir, parts[1].ir, parts[2].ir, Type::of(common), {}};
  if (negative) {
    bounds.mirror = mlir::arith::AddIOp::create(builder, semantic.loc(), bounds.start, bounds.stop);
    std::swap(bounds.start, bounds.stop);
  }
  return bounds;
}

LogicalResult Interpreter::bindInduction(const For &node, const LoopBounds &bounds,
                                         mlir::Value iv) {
  if (bounds.mirror)
    iv = mlir::arith::SubIOp::create(builder, semantic.loc(), bounds.mirror, iv);
  return setName(cast<Name>(node.target)->id, Semantic::wrap(iv, bounds.type),
                 spanOf(*node.target));
}

/// The hints of `tl.range` as attributes of the loop.
static void addHints(mlir::scf::ForOp loop, const RangeValue &range) {
  mlir::OpBuilder builder(loop.getContext());
  for (auto &[name, value] : range.hints) {
    bool count = name == "num_stages" || name == "loop_unroll_factor";
    std::string attribute = "tile." + (name == "loop_unroll_factor" ? "unroll" : name);
    if (count)
      loop->setAttr(attribute, builder.getI32IntegerAttr(int32_t(value)));
    else if (value)
      loop->setAttr(attribute, builder.getUnitAttr());
  }
}

LogicalResult Interpreter::structuredFor(const For &node, const RangeValue &range,
                                         const LoopBounds &bounds) {
  SourceSpan at = spanOf(*node.iter);
  mlir::Location loc = semantic.loc();
  auto carried = carriedNames(assignedNames(node.body), &node, &bounds);
  if (failed(carried))
    return failure();
  llvm::SmallVector<mlir::Value> inits = initialValues(*carried);
  Scope before = scope();
  bool isUnsigned = !isSignedInt(bounds.type.scalar);
  auto loop = mlir::scf::ForOp::create(builder, loc, bounds.start, bounds.stop, bounds.step, inits,
                                       nullptr, isUnsigned);
  addHints(loop, range);
  mlir::Block *body = loop.getBody();
  if (!body->empty())
    body->back().erase();
  {
    mlir::OpBuilder::InsertionGuard restore(builder);
    builder.setInsertionPointToEnd(body);
    size_t next = 0;
    bindCarried(*carried, loop.getRegionIterArgs(), next);
    if (failed(bindInduction(node, bounds, loop.getInductionVar())) ||
        failed(visitBody(node.body, 0, false)))
      return failure();
    endIteration();
    llvm::SmallVector<mlir::Value> yields;
    if (failed(collectCarried(*carried, yields)))
      return failure();
    mlir::scf::YieldOp::create(builder, loc, yields);
  }
  Scope after = std::move(scope());
  scope() = std::move(before);
  size_t next = 0;
  bindCarried(*carried, loop.getResults(), next);
  forgetBodyNames(after, at);
  return success();
}

//===--- while, and loops that are left early
//-----------------------------------------------------===//

LogicalResult Interpreter::visitWhile(const While &node) {
  if (!node.orelse.empty())
    return unsupported("`else` of a `while`", spanOf(*node.orelse.front()));
  return generalLoop(node, node.body, nullptr, nullptr, node.test, mayLeaveLoop(node.body));
}

FailureOr<Interpreter::Condition> Interpreter::loopCondition(const Expr &test, mlir::Value left) {
  if (!left) {
    auto value = visit(test);
    if (failed(value))
      return failure();
    Semantic::At at(semantic, spanOf(test));
    // Triton hands the condition to the loop as it is; `while True` has an error of its own.
    auto *tensor = value->getIf<Tensor>();
    bool isBool = tensor && !tensor->type.isBlock() && tensor->type.scalar == DType::Int1;
    auto known = semantic.knownTruth(*value, spanOf(test));
    if (failed(known))
      return failure();
    if (comparesAllSides() && !isBool && !known->value_or(false))
      return error(diag::ExpectedArgumentKind, spanOf(test), "the condition of a `while`",
                   "a bool of the run (strict mode)",
                   tensor ? tensor->type.str() : value->kindName());
    return conditionOf(*value, spanOf(test));
  }
  // Once the loop was left the condition must not be evaluated any more: it may have effects.
  std::optional<bool> known;
  scope().broke = Flag::of(left);
  scope().carried = Value(false);
  auto evaluate = [&]() -> LogicalResult {
    auto condition = visitCondition(test);
    if (failed(condition))
      return failure();
    known = condition->known;
    scope().carried = condition->known
                          ? Value(*condition->known)
                          : Value(Semantic::wrap(condition->runtime, Type::of(DType::Int1)));
    return success();
  };
  if (failed(guarded(evaluate, spanOf(test), false)))
    return failure();
  scope().broke = {};
  auto condition = semantic.toTensor(*scope().carried);
  if (failed(condition))
    return failure();
  scope().carried.reset();
  return Condition{known, condition->ir};
}

LogicalResult Interpreter::generalLoop(const Stmt &node, Body body, const For *loop,
                                       const LoopBounds *bounds, const Expr *test, bool mayLeave) {
  SourceSpan at = spanOf(loop ? *loop->iter : *test);
  mlir::Location loc = semantic.loc();
  auto assigned = assignedNames(body);
  if (test)
    collectAssigned(*test, assigned);
  auto carried = carriedNames(assigned, loop, bounds);
  if (failed(carried))
    return failure();
  Scope before = scope();
  mlir::OpBuilder::InsertPoint start = builder.saveInsertionPoint();

  // Values of one iteration: the induction value, the carried names, whether the loop was left.
  llvm::SmallVector<mlir::Value> inits;
  if (bounds)
    inits.push_back(bounds->start);
  llvm::append_range(inits, initialValues(*carried));
  if (mayLeave)
    inits.push_back(constantBool(false));
  auto draft = mlir::scf::WhileOp::create(builder, loc, mlir::TypeRange(), inits, nullptr, nullptr);
  // The condition, and what it forwards: also names that only it assigns (`while (x := f()) > 0`).
  mlir::Block *beforeBlock = draft.getBeforeBody();
  builder.setInsertionPointToEnd(beforeBlock);
  size_t next = 0;
  llvm::SmallVector<mlir::Value> forwarded;
  if (bounds)
    forwarded.push_back(beforeBlock->getArgument(next++));
  bindCarried(*carried, beforeBlock->getArguments(), next);
  mlir::Value left = mayLeave ? beforeBlock->getArgument(next) : mlir::Value();
  mlir::Value condition;
  bool endless = false;
  if (bounds) {
    auto predicate = isSignedInt(bounds->type.scalar) ? mlir::arith::CmpIPredicate::slt
                                                      : mlir::arith::CmpIPredicate::ult;
    condition = mlir::arith::CmpIOp::create(builder, loc, predicate, forwarded[0], bounds->stop);
    if (left)
      condition = mlir::arith::AndIOp::create(builder, loc, condition, negate(left));
  } else {
    auto tested = loopCondition(*test, left);
    if (failed(tested))
      return failure();
    if (tested->known && !*tested->known) {
      // Never entered, and nothing was evaluated.
      builder.restoreInsertionPoint(start);
      draft.erase();
      scope() = std::move(before);
      return success();
    }
    endless = tested->known.has_value();
    if (endless && (!mayLeave || options.strict))
      return error(diag::EndlessLoop, at);
    condition = tested->runtime;
  }
  if (failed(collectCarried(*carried, forwarded)))
    return failure();
  if (left)
    forwarded.push_back(left);
  std::vector<CarriedName> fromTest;
  for (auto &[name, binding] : scope().names)
    if (!before.find(name))
      fromTest.push_back({name, binding.value});
  llvm::append_range(forwarded, initialValues(fromTest));

  // The body.
  mlir::Block *afterBlock = draft.getAfterBody();
  for (mlir::Value value : forwarded)
    afterBlock->addArgument(value.getType(), loc);
  builder.setInsertionPointToEnd(afterBlock);
  size_t inputs = inits.size();
  next = bounds ? 1 : 0;
  bindCarried(*carried, afterBlock->getArguments(), next);
  size_t firstFromTest = next = next + (left ? 1 : 0);
  bindCarried(fromTest, afterBlock->getArguments(), next);
  if (bounds && failed(bindInduction(*loop, *bounds, afterBlock->getArgument(0))))
    return failure();
  ++frame->loops;
  if (failed(visitBody(body, 0, false)))
    return failure();
  --frame->loops;
  endIteration();
  llvm::SmallVector<mlir::Value> yields;
  if (bounds)
    yields.push_back(
        mlir::arith::AddIOp::create(builder, loc, afterBlock->getArgument(0), bounds->step));
  if (failed(collectCarried(*carried, yields)))
    return failure();
  Scope after = std::move(scope());
  scope() = std::move(before);
  auto flagValue = [&](const Flag &flag) {
    return flag.runtime() ? flag.value : constantBool(flag.always());
  };
  // More values that only now are known to be carried: whether and with what the function returned.
  bool returns = !after.returned.never(), breaks = !after.broke.never();
  llvm::SmallVector<Tensor> results;
  if (after.result)
    flattenTensors(*after.result, results);
  size_t extra = forwarded.size();
  if (left) {
    mlir::Value returned = flagValue(after.returned);
    yields.push_back(returns && breaks ? mlir::Value(mlir::arith::OrIOp::create(
                                             builder, loc, returned, flagValue(after.broke)))
                                       : (returns ? returned : flagValue(after.broke)));
    mlir::OpBuilder::InsertionGuard restore(builder);
    auto carry = [&](mlir::Value initial, mlir::Value value) {
      inits.push_back(initial);
      forwarded.push_back(beforeBlock->addArgument(value.getType(), loc));
      afterBlock->addArgument(value.getType(), loc);
      yields.push_back(value);
    };
    builder.setInsertionPoint(draft);
    if (returns && breaks)
      carry(constantBool(false), returned);
    for (const Tensor &result : results)
      carry(mlir::ub::PoisonOp::create(builder, loc, result.ir.getType()), result.ir);
  }
  mlir::scf::YieldOp::create(builder, loc, yields);
  builder.setInsertionPointToEnd(beforeBlock);
  mlir::scf::ConditionOp::create(builder, loc, condition, forwarded);

  builder.setInsertionPoint(draft);
  auto result = mlir::scf::WhileOp::create(builder, loc,
                                           mlir::TypeRange(mlir::ValueRange(forwarded).getTypes()),
                                           inits, nullptr, nullptr);
  result.getBefore().takeBody(draft.getBefore());
  result.getAfter().takeBody(draft.getAfter());
  draft.erase();
  builder.setInsertionPointAfter(result);

  // What is left behind.
  next = bounds ? 1 : 0;
  bindCarried(*carried, result.getResults(), next);
  next = firstFromTest;
  bindCarried(fromTest, result.getResults(), next);
  forgetBodyNames(after, at);
  if (!returns)
    return success();
  if (after.result) {
    size_t first = extra + (breaks ? 1 : 0);
    scope().result = replaceTensors(*after.result, result.getResults(), first);
    scope().resultSpan = after.resultSpan;
  }
  if (endless && !breaks) {
    scope().returned = Flag::always_(); // the only way out of the loop
    scope().done = true;
  } else {
    scope().returned = Flag::of(result.getResult(breaks ? extra : inputs - 1));
  }
  return success();
}

} // namespace nereid::frontend
