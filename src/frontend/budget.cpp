// The budget of a compilation: its counts, and the errors when they run out.
#include "frontend/budget.h"

#include "frontend/interpreter.h"

#include "llvm/Support/MathExtras.h"

namespace nereid::frontend {

using llvm::failure;
using llvm::success;

BudgetLimits BudgetLimits::times(uint64_t factor) {
  BudgetLimits limits;
  for (uint64_t *each : {&limits.steps, &limits.bytes, &limits.operations, &limits.iterations})
    *each = factor ? llvm::SaturatingMultiply(*each, factor) : UINT64_MAX;
  limits.factor = factor;
  return limits;
}

Resource Budget::firstExceeded() const {
  if (steps > limits.steps)
    return Resource::Steps;
  return bytes > limits.bytes ? Resource::Bytes : Resource::Operations;
}

uint64_t Budget::limit(Resource resource) const {
  switch (resource) {
  case Resource::Steps:
    return limits.steps;
  case Resource::Bytes:
    return limits.bytes;
  case Resource::Operations:
    return limits.operations;
  }
  llvm_unreachable("every resource has a limit");
}

//===--- the interpreter's part
//-------------------------------------------------------------------===//

/// What takes the resource, and what to do about it.
static std::pair<const char *, const char *> describe(Resource resource) {
  switch (resource) {
  case Resource::Steps:
    return {"steps of evaluation", "unroll and compute less during compilation"};
  case Resource::Bytes:
    return {"bytes of strings and tuples", "make fewer or smaller ones"};
  case Resource::Operations:
    return {"operations",
            "unroll less (`tl.range` instead of `tl.static_range`), call with `noinline`"};
  }
  llvm_unreachable("every resource is described");
}

Diagnostic &Interpreter::reportExceeded(Resource resource, SourceSpan at) {
  auto [what, remedy] = describe(resource);
  Diagnostic &report = diagnostics.report(diag::BudgetExceeded, at ? at : semantic.span(),
                                          int64_t(budget.limit(resource)), what, remedy,
                                          int64_t(budget.limits.factor));
  constexpr size_t maxLoops = 4;
  for (auto [i, loop] : llvm::enumerate(llvm::reverse(unrolledLoops)))
    if (i < maxLoops)
      report.note(diag::InUnrolledLoop, loop.at, int64_t(loop.index + 1), int64_t(loop.count));
  return report;
}

LogicalResult Interpreter::withinBudget(SourceSpan at) {
  std::optional<Resource> resource = budget.exceeded();
  if (!resource)
    return success();
  semantic.addCallNotes(reportExceeded(*resource, at));
  return failure();
}

LogicalResult Interpreter::spend(uint64_t steps, SourceSpan at) {
  budget.addSteps(steps);
  return withinBudget(at);
}

/// Steps for walking over a value once: nothing for one of ordinary size.
static uint64_t stepsOver(const Value &value) {
  if (auto *number = value.getIf<llvm::APSInt>()) {
    uint64_t words = number->getBitWidth() / 64; // products and decimal digits are quadratic
    return words > 1 ? words * words / 8 : 0;
  }
  if (auto *text = value.getIf<std::string>())
    return text->size() / 64;
  return itemsOf(value) ? value.weight() / sizeof(Value) : 0;
}

LogicalResult Interpreter::spendOver(const Value &value, SourceSpan at) {
  return spend(stepsOver(value), at);
}

FailureOr<Value> Interpreter::made(FailureOr<Value> value) {
  if (failed(value))
    return failure();
  const std::vector<Value> *items = itemsOf(*value);
  if (auto *text = value->getIf<std::string>())
    budget.addBytes(text->size());
  else if (items)
    budget.addBytes(items->size() * sizeof(Value));
  else
    return value;
  if (value->weight() > maxValueBytes)
    return error(diag::ValueTooLarge, {}, items ? "tuple" : "string", int64_t(maxValueBytes));
  if (value->nesting() > maxValueDepth)
    return error(diag::ValueTooDeep, {}, int64_t(maxValueDepth));
  if (failed(withinBudget({})))
    return failure();
  return value;
}

} // namespace nereid::frontend
