#include "runtime/devices/tensor_maps.h"

#include "llvm/ADT/StringExtras.h"

using namespace nereid;
using namespace nereid::runtime;
using namespace nereid::runtime::cuda;

namespace {

constexpr unsigned maxRank = 5;

std::string listText(llvm::ArrayRef<uint64_t> outermostLast) {
  std::string text;
  for (uint64_t value : llvm::reverse(outermostLast))
    text += (text.empty() ? "[" : ", ") + llvm::itostr(int64_t(value));
  return text + "]";
}

} // namespace

ErrorPtr cuda::encodeTensorMaps(const Driver &driver, llvm::ArrayRef<gpu::TensorMapPlan> plans,
                                const uint64_t *slots, llvm::SmallVectorImpl<TensorMap> &maps) {
  maps.resize(plans.size());
  for (auto [plan, map] : llvm::zip(plans, maps)) {
    // The driver counts dimensions from the innermost on, and strides in bytes.
    unsigned rank = unsigned(plan.shape.size());
    uint64_t sizes[maxRank], strides[maxRank] = {};
    uint32_t box[maxRank], steps[maxRank];
    for (unsigned i = 0; i < rank; ++i) {
      sizes[i] = uint64_t(plan.shape[rank - 1 - i].evaluate(slots));
      box[i] = plan.box[rank - 1 - i];
      steps[i] = 1;
    }
    for (unsigned i = 0; i + 1 < rank; ++i)
      strides[i] = uint64_t(plan.strides[rank - 2 - i].evaluate(slots)) * plan.elementBytes;
    auto base = uint64_t(plan.base.evaluate(slots));
    Result result = driver.cuTensorMapEncodeTiled(
        &map, int(plan.element), rank, reinterpret_cast<void *>(base), sizes, strides, box, steps,
        NoInterleave, swizzleOf(plan.swizzleBytes), PromoteTo256,
        plan.padsNaN ? FillNaN : FillZero);
    if (result != Success)
      return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::TensorMapRefused, plan.name,
                       listText(llvm::ArrayRef(sizes, rank)),
                       listText(llvm::ArrayRef(strides, rank - 1)), "0x" + llvm::utohexstr(base),
                       driver.describe(result));
  }
  return nullptr;
}

static llvm::json::Array describe(const gpu::HostNumber &number) {
  llvm::json::Array steps;
  for (const gpu::HostNumber::Step &step : number.steps)
    steps.push_back(llvm::json::Array{int(step.op), step.value});
  return steps;
}

static llvm::json::Array describe(llvm::ArrayRef<gpu::HostNumber> numbers) {
  llvm::json::Array list;
  for (const gpu::HostNumber &number : numbers)
    list.push_back(describe(number));
  return list;
}

llvm::json::Array cuda::describeTensorMaps(llvm::ArrayRef<gpu::TensorMapPlan> plans) {
  llvm::json::Array list;
  for (const gpu::TensorMapPlan &plan : plans)
    list.push_back(llvm::json::Object{{"name", plan.name},
                                      {"element", int(plan.element)},
                                      {"element_bytes", plan.elementBytes},
                                      {"swizzle_bytes", plan.swizzleBytes},
                                      {"pads_nan", plan.padsNaN},
                                      {"box", llvm::json::Array(plan.box)},
                                      {"base", describe(plan.base)},
                                      {"shape", describe(plan.shape)},
                                      {"strides", describe(plan.strides)}});
  return list;
}
