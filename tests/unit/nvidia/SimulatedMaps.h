// Tensor maps of the simulated device: made of the plans that the compiler leaves for launchers, as
// cuTensorMapEncodeTiled makes them, and the arithmetic of reductions into their tensors.
#pragma once
#include "kernel_abi/TensorMapPlan.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nereid::test {

/// A tensor map, which kernels have the address of. Innermost dimension first, strides in bytes
/// (the first is the element's size). All zeros: one that could not be made.
struct alignas(64) SimulatedMap {
  unsigned rank = 0, swizzleBytes = 0;
  uint64_t base = 0;
  std::array<int64_t, 5> sizes = {}, strides = {}, box = {};
  gpu::TensorMapElement element = gpu::TensorMapElement::UInt8;
  bool padsNaN = false;

  /// Byte `index` of an element outside of the tensor.
  uint8_t fill(unsigned index) const;
};

/// The maps of a launch with these arguments. `wrong` becomes what a driver would refuse; an
/// optional map is then all zeros.
std::vector<SimulatedMap> makeMaps(const std::vector<gpu::TensorMapPlan> &plans,
                                   const uint64_t *slots, std::string &wrong);

/// Plans as `tensor_map_plans` of a kernel's metadata has them; nothing: it is something else.
std::optional<std::vector<gpu::TensorMapPlan>> readPlans(const llvm::json::Value &value);

/// What `cp.reduce.async.bulk.tensor` with `operation` leaves of an element in memory; nothing: it
/// has no such operation.
std::optional<uint64_t> reduceElement(gpu::TensorMapElement element, llvm::StringRef operation,
                                      uint64_t old, uint64_t part);

} // namespace nereid::test
