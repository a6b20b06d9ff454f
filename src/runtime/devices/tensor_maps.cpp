#include "runtime/devices/tensor_maps.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>

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

/// What the engine can be told of a tensor: the driver's own rules, and no more than 31 bits a
/// size.
bool isDescribable(const gpu::TensorMapPlan &plan, const uint64_t *numbers) {
  size_t rank = plan.shape.size();
  bool fine = numbers[0] % 16 == 0;
  for (uint64_t size : llvm::ArrayRef(numbers + 1, rank))
    fine &= size >= 1 && size <= INT32_MAX;
  constexpr uint64_t mostBytes = uint64_t(1) << 40;
  for (uint64_t stride : llvm::ArrayRef(numbers + 1 + rank, rank - 1))
    fine &= stride >= 1 && stride < mostBytes / plan.elementBytes &&
            stride * plan.elementBytes % 16 == 0;
  return fine;
}

/// `numbers`: address, sizes, strides in elements. Dimensions from the outermost on.
ErrorPtr encode(const Driver &driver, const gpu::TensorMapPlan &plan, const uint64_t *numbers,
                TensorMap &map) {
  if (plan.optional && !isDescribable(plan, numbers)) {
    map = {};
    return nullptr;
  }
  // The driver counts dimensions from the innermost on, and strides in bytes.
  unsigned rank = unsigned(plan.shape.size());
  uint64_t sizes[maxRank], strides[maxRank] = {};
  uint32_t box[maxRank], steps[maxRank];
  for (unsigned i = 0; i < rank; ++i) {
    sizes[i] = numbers[rank - i];
    box[i] = plan.box[rank - 1 - i];
    steps[i] = 1;
  }
  for (unsigned i = 0; i + 1 < rank; ++i)
    strides[i] = numbers[2 * rank - 1 - i] * plan.elementBytes;
  Result result = driver.cuTensorMapEncodeTiled(
      &map, int(plan.element), rank, reinterpret_cast<void *>(numbers[0]), sizes, strides, box,
      steps, NoInterleave, swizzleOf(plan.swizzleBytes), PromoteTo256,
      plan.padsNaN ? FillNaN : FillZero);
  // Kernels look at the first 16 bytes of an optional map alone.
  if (result == Success && (!plan.optional || map.words[0] || map.words[1]))
    return nullptr;
  if (plan.optional) {
    map = {};
    return nullptr;
  }
  return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::TensorMapRefused, plan.name,
                   listText(llvm::ArrayRef(sizes, rank)),
                   listText(llvm::ArrayRef(strides, rank - 1)), "0x" + llvm::utohexstr(numbers[0]),
                   driver.describe(result));
}

} // namespace

ErrorPtr TensorMapCache::get(const Driver &driver, llvm::ArrayRef<gpu::TensorMapPlan> plans,
                             const uint64_t *slots, llvm::SmallVectorImpl<TensorMap> &maps) {
  llvm::SmallVector<uint64_t, 32> numbers;
  uint64_t hash = 0;
  auto add = [&](const gpu::HostNumber &number) {
    numbers.push_back(uint64_t(number.evaluate(slots)));
    hash = (hash ^ numbers.back()) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  };
  for (const gpu::TensorMapPlan &plan : plans) {
    add(plan.base);
    for (const gpu::HostNumber &size : plan.shape)
      add(size);
    for (const gpu::HostNumber &stride : plan.strides)
      add(stride);
  }
  std::lock_guard lock(mutex);
  if (!entries)
    entries = std::make_unique<Entry[]>(entryCount);
  Entry &entry = entries[hash % entryCount];
  if (entry.maps.empty() || !std::ranges::equal(entry.numbers, numbers)) {
    entry.maps.clear();
    llvm::SmallVector<TensorMap, 4> made(plans.size());
    const uint64_t *of = numbers.data();
    for (auto [plan, map] : llvm::zip(plans, made)) {
      if (ErrorPtr error = encode(driver, plan, of, map))
        return error;
      of += 1 + plan.shape.size() + plan.strides.size();
    }
    entry.numbers.assign(numbers.begin(), numbers.end());
    entry.maps = std::move(made);
  }
  maps.assign(entry.maps.begin(), entry.maps.end());
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
                                      {"optional", plan.optional},
                                      {"box", llvm::json::Array(plan.box)},
                                      {"base", describe(plan.base)},
                                      {"shape", describe(plan.shape)},
                                      {"strides", describe(plan.strides)}});
  return list;
}
