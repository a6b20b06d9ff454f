// Loops. `for` over a run-time range without early exits is scf.for; every other run-time loop
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
      return generalLoop(node.body, &node, &*bounds, nullptr, true);
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
  return generalLoop(node.body, nullptr, nullptr, node.test, mayLeaveLoop(node.body));
}

FailureOr<Interpreter::Condition> Interpreter::loopCondition(const Expr &test, mlir::Value left) {
  if (!left) {
    auto value = visit(test);
    if (failed(value))
      return failure();
    Semantic::At at(semantic, spanOf(test));
    // Triton hands the condition to the loop as it is, before 3.9; `while True` has an error of its
    // own.
    auto *tensor = value->getIf<Tensor>();
    bool isBool =
        tensor && !tensor->type.isBlock() &&
        (tensor->type.scalar == DType::Int1 || (semantic.since(309) && !tensor->type.isPointer));
    auto known = semantic.knownTruth(*value, spanOf(test));
    if (failed(known))
      return failure();
    if (comparesAllSides() && !isBool && !known->value_or(false))
      return error(diag::ExpectedArgumentKind, spanOf(test), "the condition of a `while`",
                   "a run-time bool (strict mode)",
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

/// Builds one scf.while. The values that such a loop carries are known only after its body was
/// walked (whether and with what the function returned), so the regions are filled in a draft and
/// then handed over.
class Interpreter::GeneralLoop {
public:
  GeneralLoop(Interpreter &in, const For *loop, const LoopBounds *bounds, const Expr *test,
              bool mayLeave)
      : in(in), builder(in.builder), loop(loop), bounds(bounds), test(test), mayLeave(mayLeave),
        at(in.spanOf(loop ? *loop->iter : *test)), loc(in.semantic.loc()) {}
  LogicalResult build(Body body);

private:
  LogicalResult begin(Body body);
  FailureOr<bool> walkCondition();
  LogicalResult walkBody(Body body);
  void carryExits(const Scope &after);
  mlir::scf::WhileOp finish();
  void bindResults(const Scope &after, mlir::scf::WhileOp result);
  mlir::Value valueOf(const Flag &flag) {
    return flag.runtime() ? flag.value : in.constantBool(flag.always());
  }

  Interpreter &in;
  mlir::OpBuilder &builder;
  const For *loop;
  const LoopBounds *bounds;
  const Expr *test;
  bool mayLeave;
  SourceSpan at;
  mlir::Location loc;

  std::vector<CarriedName> carried;
  std::vector<CarriedName> fromTest; ///< names that only the condition assigns
  Scope before;
  mlir::scf::WhileOp draft;
  mlir::Value condition;
  bool endless = false; ///< the condition is known to hold
  /// Values of one iteration: the induction value, the carried names, whether the loop was left;
  /// what the condition forwards: also `fromTest`; both: then what `carryExits` adds.
  llvm::SmallVector<mlir::Value> inits, forwarded, yields;
  size_t inputs = 0;        ///< of `inits` before `carryExits`
  size_t firstFromTest = 0; ///< in `forwarded`
  size_t firstExit = 0;     ///< in `forwarded`
};

LogicalResult Interpreter::generalLoop(Body body, const For *loop, const LoopBounds *bounds,
                                       const Expr *test, bool mayLeave) {
  return GeneralLoop(*this, loop, bounds, test, mayLeave).build(body);
}

LogicalResult Interpreter::GeneralLoop::build(Body body) {
  mlir::OpBuilder::InsertPoint start = builder.saveInsertionPoint();
  if (failed(begin(body)))
    return failure();
  auto entered = walkCondition();
  if (failed(entered))
    return failure();
  if (!*entered) { // and nothing was evaluated
    builder.restoreInsertionPoint(start);
    draft.erase();
    in.scope() = std::move(before);
    return success();
  }
  if (failed(walkBody(body)))
    return failure();
  Scope after = std::move(in.scope());
  in.scope() = std::move(before);
  carryExits(after);
  bindResults(after, finish());
  return success();
}

LogicalResult Interpreter::GeneralLoop::begin(Body body) {
  auto assigned = assignedNames(body);
  if (test)
    collectAssigned(*test, assigned);
  auto names = in.carriedNames(assigned, loop, bounds);
  if (failed(names))
    return failure();
  carried = std::move(*names);
  before = in.scope();
  if (bounds)
    inits.push_back(bounds->start);
  llvm::append_range(inits, initialValues(carried));
  if (mayLeave)
    inits.push_back(in.constantBool(false));
  inputs = inits.size();
  draft = mlir::scf::WhileOp::create(builder, loc, mlir::TypeRange(), inits, nullptr, nullptr);
  return success();
}

/// The condition, and what it forwards: also names that only it assigns (`while (x := f()) > 0`).
/// False if the loop is never entered.
FailureOr<bool> Interpreter::GeneralLoop::walkCondition() {
  mlir::Block *block = draft.getBeforeBody();
  builder.setInsertionPointToEnd(block);
  size_t next = 0;
  if (bounds)
    forwarded.push_back(block->getArgument(next++));
  in.bindCarried(carried, block->getArguments(), next);
  mlir::Value left = mayLeave ? block->getArgument(next) : mlir::Value();
  if (bounds) {
    auto predicate = isSignedInt(bounds->type.scalar) ? mlir::arith::CmpIPredicate::slt
                                                      : mlir::arith::CmpIPredicate::ult;
    condition = mlir::arith::CmpIOp::create(builder, loc, predicate, forwarded[0], bounds->stop);
    if (left)
      condition = mlir::arith::AndIOp::create(builder, loc, condition, in.negate(left));
  } else {
    auto tested = in.loopCondition(*test, left);
    if (failed(tested))
      return failure();
    if (tested->known && !*tested->known)
      return false;
    endless = tested->known.has_value();
    if (endless && (!mayLeave || in.options.strict))
      return in.error(diag::EndlessLoop, at);
    condition = tested->runtime;
  }
  if (failed(in.collectCarried(carried, forwarded)))
    return failure();
  if (left)
    forwarded.push_back(left);
  for (auto &[name, binding] : in.scope().names)
    if (!before.find(name))
      fromTest.push_back({name, binding.value});
  llvm::append_range(forwarded, initialValues(fromTest));
  return true;
}

LogicalResult Interpreter::GeneralLoop::walkBody(Body body) {
  mlir::Block *block = draft.getAfterBody();
  for (mlir::Value value : forwarded)
    block->addArgument(value.getType(), loc);
  builder.setInsertionPointToEnd(block);
  size_t next = bounds ? 1 : 0;
  in.bindCarried(carried, block->getArguments(), next);
  firstFromTest = next = next + (mayLeave ? 1 : 0);
  in.bindCarried(fromTest, block->getArguments(), next);
  if (bounds && failed(in.bindInduction(*loop, *bounds, block->getArgument(0))))
    return failure();
  ++in.frame->loops;
  if (failed(in.visitBody(body, 0, false)))
    return failure();
  --in.frame->loops;
  in.endIteration();
  if (bounds)
    yields.push_back(
        mlir::arith::AddIOp::create(builder, loc, block->getArgument(0), bounds->step));
  return in.collectCarried(carried, yields);
}

/// More values that only now are known to be carried: whether and with what the function returned.
void Interpreter::GeneralLoop::carryExits(const Scope &after) {
  firstExit = forwarded.size();
  if (!mayLeave)
    return;
  bool returns = !after.returned.never(), breaks = !after.broke.never();
  mlir::Value returned = valueOf(after.returned);
  yields.push_back(returns && breaks ? mlir::Value(mlir::arith::OrIOp::create(
                                           builder, loc, returned, valueOf(after.broke)))
                                     : (returns ? returned : valueOf(after.broke)));
  mlir::OpBuilder::InsertionGuard restore(builder);
  auto carry = [&](mlir::Value initial, mlir::Value value) {
    inits.push_back(initial);
    forwarded.push_back(draft.getBeforeBody()->addArgument(value.getType(), loc));
    draft.getAfterBody()->addArgument(value.getType(), loc);
    yields.push_back(value);
  };
  builder.setInsertionPoint(draft);
  if (returns && breaks)
    carry(in.constantBool(false), returned);
  llvm::SmallVector<Tensor> results;
  if (after.result)
    flattenTensors(*after.result, results);
  for (const Tensor &result : results)
    carry(mlir::ub::PoisonOp::create(builder, loc, result.ir.getType()), result.ir);
}

/// The loop with all that it carries, in the draft's place.
mlir::scf::WhileOp Interpreter::GeneralLoop::finish() {
  mlir::scf::YieldOp::create(builder, loc, yields);
  builder.setInsertionPointToEnd(draft.getBeforeBody());
  mlir::scf::ConditionOp::create(builder, loc, condition, forwarded);

  builder.setInsertionPoint(draft);
  auto result = mlir::scf::WhileOp::create(builder, loc,
                                           mlir::TypeRange(mlir::ValueRange(forwarded).getTypes()),
                                           inits, nullptr, nullptr);
  result.getBefore().takeBody(draft.getBefore());
  result.getAfter().takeBody(draft.getAfter());
  draft.erase();
  builder.setInsertionPointAfter(result);
  return result;
}

void Interpreter::GeneralLoop::bindResults(const Scope &after, mlir::scf::WhileOp result) {
  size_t next = bounds ? 1 : 0;
  in.bindCarried(carried, result.getResults(), next);
  next = firstFromTest;
  in.bindCarried(fromTest, result.getResults(), next);
  in.forgetBodyNames(after, at);
  bool breaks = !after.broke.never();
  if (after.returned.never())
    return;
  if (after.result) {
    size_t first = firstExit + (breaks ? 1 : 0);
    in.scope().result = replaceTensors(*after.result, result.getResults(), first);
    in.scope().resultSpan = after.resultSpan;
  }
  if (endless && !breaks) {
    in.scope().returned = Flag::always_(); // the only way out of the loop
    in.scope().done = true;
  } else {
    in.scope().returned = Flag::of(result.getResult(breaks ? firstExit : inputs - 1));
  }
}

} // namespace nereid::frontend
