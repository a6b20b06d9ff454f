// `if`, and the joining of two paths: see scope.h for how early exits are treated.
//
// Both sides of a run-time `if` are walked into the regions of an scf.if that has no results yet.
// What they assigned is then compared, the op is rebuilt with a result per tensor that differs, and
// the joined scope names the results. A template Value stands for a joined value: a tensor without
// an IR value in it means "the next result".
#include "frontend/class.h"
#include "frontend/interpreter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "llvm/ADT/ScopeExit.h"

namespace nereid::frontend {

using namespace nereid::syntax;
using frontend::Tuple;
using llvm::failure;
using llvm::success;

//===--- values as lists of tensors
//---------------------------------------------------------------===//

void flattenTensors(const Value &value, llvm::SmallVectorImpl<Tensor> &out) {
  if (auto *tensor = value.getIf<Tensor>())
    out.push_back(*tensor);
  else if (const std::vector<Value> *items = itemsOf(value))
    for (const Value &item : *items)
      flattenTensors(item, out);
}

Value replaceTensors(const Value &value, mlir::ValueRange values, size_t &next) {
  if (auto *tensor = value.getIf<Tensor>())
    return Tensor{values[next++], tensor->type, nullptr};
  Value result = value;
  if (std::vector<Value> *items = editItemsOf(result))
    for (Value &item : *items)
      item = replaceTensors(item, values, next);
  return result;
}

/// Fills the holes of a template.
static void fillHoles(Value &value, mlir::ValueRange values, size_t &next) {
  if (auto *tensor = value.getIf<Tensor>(); tensor && !tensor->ir)
    value.get<Tensor>().ir = values[next++];
  else if (std::vector<Value> *items = editItemsOf(value))
    for (Value &item : *items)
      fillHoles(item, values, next);
}

std::string describeType(const Value &value) {
  if (auto *tensor = value.getIf<Tensor>())
    return tensor->type.str();
  if (auto *tuple = value.getIf<Tuple>()) {
    std::string text = "(";
    for (auto [i, item] : llvm::enumerate(tuple->items))
      text += (i ? ", " : "") + describeType(item);
    return text + (tuple->items.size() == 1 ? ",)" : ")");
  }
  if (auto *aggregate = value.getIf<Aggregate>()) {
    std::string text = aggregate->cls->name().str() + "<";
    for (auto [i, item] : llvm::enumerate(aggregate->items))
      text += (i ? ", " : "") + (item.isKnown() ? item.repr() : describeType(item));
    return text + ">";
  }
  if (value.is<bool>())
    return "int1";
  if (value.is<double>())
    return "fp32";
  if (auto *integer = value.getIf<llvm::APSInt>())
    return integer->isSignedIntN(32) ? "int32" : "int64";
  return value.isNone() ? "None" : value.kindName();
}

//===--- joining two values
//-----------------------------------------------------------------------===//

/// Collects what the two sides of an scf.if yield.
struct Interpreter::Joiner {
  Joiner(Semantic &semantic, mlir::Block *thenBlock, mlir::Block *elseBlock)
      : semantic(semantic), thenBlock(thenBlock), elseBlock(elseBlock) {}

  Semantic &semantic;
  mlir::Block *thenBlock, *elseBlock;
  llvm::SmallVector<mlir::Value> thenYields, elseYields;

  mlir::Value poison(mlir::Block *block, mlir::Type type) {
    mlir::OpBuilder::InsertionGuard guard(semantic.builder);
    semantic.builder.setInsertionPointToEnd(block);
    return mlir::ub::PoisonOp::create(semantic.builder, semantic.loc(), type);
  }
  mlir::Value flag(mlir::Block *block, const Flag &flag) {
    if (flag.runtime())
      return flag.value;
    mlir::OpBuilder::InsertionGuard guard(semantic.builder);
    semantic.builder.setInsertionPointToEnd(block);
    return semantic.constant(Value(flag.always()), Type::of(DType::Int1)).ir;
  }
  /// The next result.
  Value hole(mlir::Value thenValue, mlir::Value elseValue, const Type &type) {
    thenYields.push_back(thenValue);
    elseYields.push_back(elseValue);
    return Tensor{{}, type, nullptr};
  }
  /// A number as a tensor made at the end of its side.
  FailureOr<Tensor> tensorIn(mlir::Block *block, const Value &number) {
    mlir::OpBuilder::InsertionGuard guard(semantic.builder);
    semantic.builder.setInsertionPointToEnd(block);
    return semantic.toCarried(number);
  }
  /// The joined value, with holes; nothing when the two do not fit. A null side has no value there:
  /// the path left.
  /// `numbersStay`: numbers that differ do not become tensors, because they belong to an
  /// aggregate's type.
  std::optional<Value> join(const Value *a, const Value *b, bool numbersStay = false) {
    size_t yields = thenYields.size();
    auto joined = joinParts(a, b, numbersStay);
    if (!joined) {
      thenYields.truncate(yields);
      elseYields.truncate(yields);
    }
    return joined;
  }

private:
  std::optional<Value> joinParts(const Value *a, const Value *b, bool numbersStay);
};

std::optional<Value> Interpreter::Joiner::joinParts(const Value *a, const Value *b,
                                                    bool numbersStay) {
  if (!a || !b) {
    const Value &only = a ? *a : *b;
    if (auto *tensor = only.getIf<Tensor>()) {
      mlir::Value nothing = poison(a ? elseBlock : thenBlock, tensor->ir.getType());
      return a ? hole(tensor->ir, nothing, tensor->type) : hole(nothing, tensor->ir, tensor->type);
    }
    Value result = only;
    if (std::vector<Value> *items = editItemsOf(result))
      for (Value &item : *items) {
        Value copy = item;
        item = *join(a ? &copy : nullptr, a ? nullptr : &copy);
      }
    return result;
  }
  auto *tensorA = a->getIf<Tensor>(), *tensorB = b->getIf<Tensor>();
  if (numbersStay && (a->isNumber() || b->isNumber()))
    return a->variant().index() == b->variant().index() && equalKnown(*a, *b) ? std::optional(*a)
                                                                              : std::nullopt;
  if ((tensorA && b->isNumber()) || (tensorB && a->isNumber()) ||
      (a->isNumber() && b->isNumber() &&
       (a->variant().index() != b->variant().index() || !equalKnown(*a, *b)))) {
    auto left = tensorIn(thenBlock, *a), right = tensorIn(elseBlock, *b);
    if (failed(left) || failed(right) || left->type != right->type)
      return std::nullopt;
    return hole(left->ir, right->ir, left->type);
  }
  if (tensorA && tensorB) {
    if (tensorA->type != tensorB->type)
      return std::nullopt;
    if (tensorA->ir == tensorB->ir)
      return *a;
    return hole(tensorA->ir, tensorB->ir, tensorA->type);
  }
  if (itemsOf(*a) && itemsOf(*b)) {
    if (!sameForm(*a, *b))
      return std::nullopt;
    Value result = *a;
    std::vector<Value> &items = *editItemsOf(result);
    for (size_t i = 0; i < items.size(); ++i) {
      auto item = join(&(*itemsOf(*a))[i], &(*itemsOf(*b))[i], numbersStay || a->is<Aggregate>());
      if (!item)
        return std::nullopt;
      items[i] = std::move(*item);
    }
    return result;
  }
  if (tensorA || tensorB || a->variant().index() != b->variant().index())
    return std::nullopt;
  if (auto *object = a->getIf<HostObject>())
    return semantic.host.identical(*object, b->get<HostObject>()) ? std::optional(*a)
                                                                  : std::nullopt;
  return equalKnown(*a, *b) ? std::optional(*a) : std::nullopt;
}

//===--- flags
//------------------------------------------------------------------------------------===//

mlir::Value Interpreter::constantBool(bool value) {
  return semantic.constant(Value(value), Type::of(DType::Int1)).ir;
}

mlir::Value Interpreter::negate(mlir::Value flag) {
  return mlir::arith::XOrIOp::create(builder, semantic.loc(), flag, constantBool(true));
}

/// The flag after the two sides. A flag that needs a result is marked Runtime without a value: a
/// hole.
Flag Interpreter::joinFlag(Joiner &joiner, const Flag &a, const Flag &b, mlir::Value condition,
                           bool guard) {
  if (a.kind == b.kind && a.value == b.value)
    return a;
  // The else side has left: where the then side runs, `b` is false, and is `b` still.
  if (guard && a.never())
    return b;
  if (a.always() && b.never())
    return Flag::of(condition);
  if (a.never() && b.always())
    return Flag::of(negate(condition));
  joiner.hole(joiner.flag(joiner.thenBlock, a), joiner.flag(joiner.elseBlock, b),
              Type::of(DType::Int1));
  return Flag::of({});
}

mlir::Value Interpreter::notLeft() {
  mlir::Value left;
  for (const Flag *flag : {&scope().returned, &scope().broke, &scope().continued})
    if (flag->runtime())
      left =
          left ? mlir::Value(mlir::arith::OrIOp::create(builder, semantic.loc(), left, flag->value))
               : flag->value;
  return negate(left);
}

LogicalResult Interpreter::guarded(Walk rest, SourceSpan construct, bool tail) {
  Scope &current = scope();
  mlir::Value stays = notLeft();
  auto onlyThere = [&]() -> LogicalResult {
    current.returned = current.broke = current.continued = {};
    return rest();
  };
  return branch(stays, onlyThere, [] { return success(); }, construct,
                {.guard = true, .tail = tail});
}

//===--- branches
//---------------------------------------------------------------------------------===//

LogicalResult Interpreter::visitIf(const If &node, bool tail) {
  auto condition = visitCondition(*node.test);
  if (failed(condition))
    return failure();
  ++frame->conditionals;
  llvm::scope_exit leave([&] { --frame->conditionals; });
  if (condition->known)
    return visitBody(*condition->known ? node.body : node.orelse, 0, tail);
  return branch(
      condition->runtime, [&] { return visitBody(node.body, 0, tail); },
      [&] { return visitBody(node.orelse, 0, tail); }, spanOf(*node.test), {.tail = tail});
}

LogicalResult Interpreter::branch(mlir::Value condition, Walk thenWalk, Walk elseWalk,
                                  SourceSpan construct, BranchOptions options) {
  Semantic::At at(semantic, construct);
  if (branchDepth == maxBranchDepth)
    return error(diag::BranchesTooDeep, construct, int64_t(maxBranchDepth));
  ++branchDepth;
  llvm::scope_exit leave([&] { --branchDepth; });
  mlir::Location loc = semantic.loc();
  Scope before = scope();
  auto draft =
      mlir::scf::IfOp::create(builder, loc, mlir::TypeRange(), condition, /*addThenBlock=*/true,
                              /*addElseBlock=*/true);
  mlir::Block *thenBlock = &draft.getThenRegion().front(),
              *elseBlock = &draft.getElseRegion().front();
  Scope thenScope, elseScope;
  {
    mlir::OpBuilder::InsertionGuard restore(builder);
    builder.setInsertionPointToEnd(thenBlock);
    if (failed(thenWalk()))
      return failure();
    thenScope = std::move(scope());
    scope() = before;
    builder.setInsertionPointToEnd(elseBlock);
    if (failed(elseWalk()))
      return failure();
    elseScope = std::move(scope());
  }
  Joiner joiner(semantic, thenBlock, elseBlock);
  scope() = before;
  if (failed(joinScopes(joiner, before, thenScope, elseScope, condition, construct, options)))
    return failure();

  // Rebuild the op with its results.
  builder.setInsertionPointAfter(draft);
  if (joiner.thenYields.empty() && thenBlock->empty() && !elseBlock->empty()) {
    // `if c: return` and a remainder: only the remainder is left.
    std::swap(thenBlock, elseBlock);
    draft.getThenRegion().getBlocks().splice(draft.getThenRegion().end(),
                                             draft.getElseRegion().getBlocks());
    thenBlock->moveBefore(&draft.getThenRegion().front());
    draft.getElseRegion().getBlocks().splice(
        draft.getElseRegion().end(), draft.getThenRegion().getBlocks(), elseBlock->getIterator());
    condition = negate(condition);
  }
  auto types = mlir::ValueRange(joiner.thenYields).getTypes();
  auto result = mlir::scf::IfOp::create(builder, loc, mlir::TypeRange(types), condition);
  result.getThenRegion().takeBody(draft.getThenRegion());
  bool needsElse = !elseBlock->empty() || !joiner.elseYields.empty();
  if (needsElse)
    result.getElseRegion().takeBody(draft.getElseRegion());
  draft.erase();
  {
    mlir::OpBuilder::InsertionGuard restore(builder);
    builder.setInsertionPointToEnd(thenBlock);
    mlir::scf::YieldOp::create(builder, loc, joiner.thenYields);
    if (needsElse) {
      builder.setInsertionPointToEnd(elseBlock);
      mlir::scf::YieldOp::create(builder, loc, joiner.elseYields);
    }
  }
  // Fill the holes in the order in which joinScopes made them.
  size_t next = 0;
  Scope &joined = scope();
  mlir::ValueRange results = result.getResults();
  for (Flag *flag : {&joined.returned, &joined.broke, &joined.continued})
    if (flag->runtime() && !flag->value)
      flag->value = results[next++];
  if (joined.result)
    fillHoles(*joined.result, results, next);
  if (joined.carried)
    fillHoles(*joined.carried, results, next);
  for (auto &[name, binding] : joined.names)
    fillHoles(binding.value, results, next);
  return success();
}

/// Whether the assignments of a side have no effect, because it has left the function.
static bool leftFunction(const Scope &side) {
  return side.done && !side.leavesLoop();
}

LogicalResult Interpreter::joinScopes(Joiner &joiner, const Scope &before, Scope &thenScope,
                                      Scope &elseScope, mlir::Value condition, SourceSpan construct,
                                      BranchOptions how) {
  Scope &joined = scope();
  mlir::OpBuilder::InsertionGuard restore(builder);
  bool elseLeft = elseScope.done || how.guard;
  // What the flags need, a negated condition, stands before the op, where all that follows sees it.
  builder.setInsertionPoint(joiner.thenBlock->getParentOp());
  joined.returned = joinFlag(joiner, thenScope.returned, elseScope.returned, condition, how.guard);
  joined.broke = joinFlag(joiner, thenScope.broke, elseScope.broke, condition, how.guard);
  joined.continued =
      joinFlag(joiner, thenScope.continued, elseScope.continued, condition, how.guard);
  joined.done = thenScope.done && elseLeft;

  // The value of `return`.
  joined.result.reset();
  if (thenScope.result && elseScope.result) {
    auto value = joiner.join(&*thenScope.result, &*elseScope.result);
    auto integer = [](const Value &result) -> std::optional<llvm::APSInt> {
      if (auto *flag = result.getIf<bool>())
        return llvm::APSInt::get(*flag);
      auto *number = result.getIf<llvm::APSInt>();
      return number ? std::optional(*number) : std::nullopt;
    };
    const Value &earlier = how.guard ? *elseScope.result : *thenScope.result;
    const Value &later = how.guard ? *thenScope.result : *elseScope.result;
    // Equal numbers are one value in Triton since 3.7: the first one, also of 1 and True.
    auto one = integer(earlier), other = integer(later);
    if (comparesAllSides() && semantic.since(307) && one && other &&
        llvm::APSInt::isSameValue(*one, *other))
      value = earlier;
    if (!value) {
      SourceSpan second = how.guard ? thenScope.resultSpan : elseScope.resultSpan;
      SourceSpan first = how.guard ? elseScope.resultSpan : thenScope.resultSpan;
      semantic.addCallNotes(
          diagnostics
              .report(diag::ReturnTypeMismatch, second, describeType(earlier), describeType(later))
              .note(diag::OtherReturn, first, describeType(earlier)));
      return failure();
    }
    joined.result = std::move(*value);
    joined.resultSpan = thenScope.resultSpan;
  } else if (how.guard && elseScope.result) {
    joined.result = elseScope.result; // set before the guard: it is still good here
    joined.resultSpan = elseScope.resultSpan;
  } else if (thenScope.result || elseScope.result) {
    joined.result = *joiner.join(thenScope.result ? &*thenScope.result : nullptr,
                                 elseScope.result ? &*elseScope.result : nullptr);
    joined.resultSpan = thenScope.result ? thenScope.resultSpan : elseScope.resultSpan;
  }

  // The arms of a conditional expression.
  if (thenScope.carried && elseScope.carried) {
    auto value = joiner.join(&*thenScope.carried, &*elseScope.carried);
    if (!value)
      return error(diag::ConditionalExpressionTypes, construct, describeType(*thenScope.carried),
                   describeType(*elseScope.carried));
    joined.carried = std::move(*value);
  }
  if (joined.done || (how.tail && !joined.leavesLoop()))
    return success(); // names are not read again, unless the loop continues with them
  return joinNames(joiner, before, thenScope, elseScope, construct, how.guard);
}

LogicalResult Interpreter::joinNames(Joiner &joiner, const Scope &before, Scope &thenScope,
                                     Scope &elseScope, SourceSpan construct, bool guard) {
  Scope &joined = scope();
  // The side that has left: its values are wanted only where the loop goes on with them.
  bool thenLeft = thenScope.done, elseLeft = elseScope.done || guard;
  bool thenGone = leftFunction(thenScope);
  bool elseGone = leftFunction(elseScope) || (guard && !elseScope.leavesLoop());
  bool strict = comparesAllSides() && !guard;
  if (strict)
    thenLeft = elseLeft = thenGone = elseGone = false;
  joined.names.clear();
  auto goneInBranch = [&](llvm::StringRef name, SourceSpan assigned) {
    joined.gone.insert({name, Gone{Gone::Why::OneBranch, assigned, construct}});
  };
  auto joinOne = [&](llvm::StringRef name, const Binding *a, const Binding *b) -> LogicalResult {
    const Binding *old = before.find(name);
    if (a && b && a->id == b->id) {
      joined.names.insert({name, *a});
      return success();
    }
    // A side that left the function says nothing about the name.
    if (thenGone && (b || !a)) {
      if (!b)
        return success();
      a = nullptr;
    } else if (elseGone && (a || !b)) {
      if (!a)
        return success();
      b = nullptr;
    }
    if (!a || !b) {
      const Binding *only = a ? a : b;
      bool otherLeft = a ? elseLeft : thenLeft;
      if (!otherLeft) {
        goneInBranch(name, only->span);
        return success();
      }
      Binding binding = *only;
      // Unchanged since before the `if`: good on both sides.
      if (!old || old->id != only->id) {
        binding.value = *joiner.join(a ? &only->value : nullptr, b ? &only->value : nullptr);
        binding.id = ++nextBinding;
      }
      joined.names.insert({name, std::move(binding)});
      return success();
    }
    // Triton merges run-time values: new constants of the two sides are gone.
    if (strict && !old && (a->constant || b->constant)) {
      goneInBranch(name, a->span);
      return success();
    }
    auto value = joiner.join(&a->value, &b->value);
    bool wasNoTensor =
        old && old->value.isKnown() && !itemsOf(old->value) && !old->value.isNumber();
    if (value && strict && old && !wasNoTensor && describeType(*value) != describeType(old->value))
      value.reset();
    Binding binding = *a;
    binding.id = ++nextBinding;
    if (!value && (thenLeft || elseLeft)) {
      // The side that goes on decides.
      binding = thenLeft ? *b : *a;
      binding.id = ++nextBinding;
      value = joiner.join(thenLeft ? nullptr : &a->value, thenLeft ? &b->value : nullptr);
    }
    if (!value) {
      std::string typeA = describeType(a->value), typeB = describeType(b->value);
      // The value was no tensor before and cannot become one. The name is undefined after the
      // branch; a later use is an error.
      if (wasNoTensor) {
        goneInBranch(name, a->id != old->id ? a->span : b->span);
        return success();
      }
      if (old) {
        std::string initial = describeType(old->value);
        bool inThen = a->id != old->id && typeA != initial;
        return error(diag::BranchChangesType, inThen ? a->span : b->span, name, initial,
                     inThen ? "then" : "else", inThen ? typeA : typeB);
      }
      return error(diag::BranchTypesDiffer, b->span, name, typeA, typeB);
    }
    binding.value = std::move(*value);
    joined.names.insert({name, std::move(binding)});
    return success();
  };
  for (auto &[name, binding] : thenScope.names)
    if (failed(joinOne(name, &binding, elseScope.find(name))))
      return failure();
  for (auto &[name, binding] : elseScope.names)
    if (!thenScope.find(name) && failed(joinOne(name, nullptr, &binding)))
      return failure();
  for (auto &entry : thenScope.gone)
    joined.gone.insert(entry);
  for (auto &entry : elseScope.gone)
    joined.gone.insert(entry);
  return success();
}

} // namespace nereid::frontend
