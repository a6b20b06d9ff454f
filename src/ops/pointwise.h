// Pointwise operators: from the arguments of a call to the launch of a kernel of
// python/nereid/ops/kernels/pointwise.py. The steps are those of nereid.ops.pointwise.run, which is
// the reference: promotion, shapes, outputs, dimensions collapsed, a kernel.
#pragma once

#include "kernels.h"

#include <ATen/core/stack.h>

#include <string>
#include <vector>

namespace nereid::ops {

class Pointwise {
public:
  explicit Pointwise(const OpsOverload &overload);

  /// Runs a call whose arguments are the last ones on the stack and replaces them by the results,
  /// or leaves them and answers why ATen has to run it.
  OpsReason call(torch::jit::Stack &stack);
  /// As `ops_route`; also while calls run.
  void route(const uint64_t *sizes);

private:
  struct Rule : OpsRule {
    std::string text; ///< owns choice_text
  };
  /// A call on its way.
  struct Call;

  const Rule *choose(const c10::IValue *arguments) const;
  OpsReason collect(const c10::IValue *arguments, Call &call) const;
  OpsReason promote(Call &call) const;
  OpsReason scalars(const c10::IValue *arguments, Call &call) const;
  OpsReason shape(Call &call);
  OpsReason makeContiguous(Call &call) const;
  OpsReason shapeByIterator(Call &call);
  const at::Tensor *sameLayout(const Call &call) const;
  bool isRouted(OpsKernel kernel, Code common, int64_t elements) const;
  OpsReason launchFlat(Call &call, int64_t elements, uint16_t fixed);
  static bool isInterleaved(const Call &call, int count);
  OpsReason launchStrided(Call &call);

  OpsOverload plan;
  std::vector<Rule> rules;
  Kernels kernels;
  std::atomic<uint64_t> routed[OPS_KERNELS][OPS_CODES] = {};
};

} // namespace nereid::ops
