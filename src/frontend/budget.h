// The counts of one compilation against its budget (limits.h).
#pragma once

#include "frontend/limits.h"

#include "mlir/IR/Builders.h"

#include <optional>

namespace nereid::frontend {

/// Counts for one compilation. A listener of the builder: operations are counted as they are made.
class Budget final : public mlir::OpBuilder::Listener {
public:
  explicit Budget(const BudgetLimits &limits) : limits(limits) {}

  void addSteps(uint64_t count) { add(steps, count); }
  void addBytes(uint64_t count) { add(bytes, count); }
  void addOperations(uint64_t count) { add(operations, count); }
  uint64_t operationCount() const { return operations; }

  /// The resource that is exceeded, if any.
  std::optional<Resource> exceeded() const {
    if (steps <= limits.steps && bytes <= limits.bytes && operations <= limits.operations)
      return std::nullopt;
    return firstExceeded();
  }
  uint64_t limit(Resource resource) const;

  const BudgetLimits limits;

private:
  void notifyOperationInserted(mlir::Operation *, mlir::OpBuilder::InsertPoint previous) override {
    if (!previous.isSet()) // else it was moved
      ++operations;
  }
  static void add(uint64_t &sum, uint64_t count) {
    sum = sum > UINT64_MAX - count ? UINT64_MAX : sum + count;
  }
  Resource firstExceeded() const;

  uint64_t steps = 0, bytes = 0, operations = 0;
};

} // namespace nereid::frontend
