// Calls that were run once in Python (nereid.ops._record) and are repeated without it: the launches
// of a call, its allocations and its results depend only on what its signature says: dtypes,
// shapes, strides, alignment and numbers. A signature that is met for the first time goes to
// Python.
#pragma once

#include "kernels.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace nereid::ops {

/// A call's arguments as words; the tensors among them, in order.
struct Signature {
  c10::SmallVector<int64_t, 96> words;
  c10::SmallVector<const at::Tensor *, 8> tensors;
  c10::SmallVector<bool, 8> written; ///< by tensor
  c10::Device device = c10::kCPU;    ///< of the first tensor that is on the key's device
  /// A number that PyTorch has put into a tensor of a GPU (searchsorted does): Python would get it
  /// as a number of the host. Such a call is ATen's.
  bool isNumberOnDevice = false;
  uint64_t hash = 0;
};

/// What is done for one signature.
struct Recorded {
  struct Allocation {
    at::ScalarType type;
    c10::SmallVector<int64_t, 5> sizes, strides;
  };
  struct Patch { ///< an argument of a launch that is an address
    uint32_t argument;
    bool isAllocation;
    uint16_t index;
    int64_t offset; ///< bytes
  };
  struct Step {
    nrd_kernel *kernel; ///< null: a condition (OpsStep)
    uint32_t grid[3];
    std::vector<nrd_arg> arguments;
    std::vector<Patch> patches;
  };
  struct Result {
    OpsResultKind kind;
    uint16_t index;
    int64_t offset; ///< elements
    c10::SmallVector<int64_t, 5> sizes, strides;
  };

  std::vector<int64_t> words;
  OpsRoute route = OPS_ROUTE_PYTHON;
  uint8_t reason = 0;
  std::vector<Allocation> allocations;
  std::vector<Step> steps;
  std::vector<Result> results;
};

/// The recorded calls of one overload at one key. Safe for threads.
class Replay {
public:
  Replay(const c10::FunctionSchema &schema, bool isCuda);

  /// False for arguments that signatures do not describe: such calls always go to Python.
  bool sign(const c10::IValue *arguments, Signature &signature) const;
  std::shared_ptr<const Recorded> find(const Signature &signature) const;
  /// Runs a recorded call whose arguments are the last ones on the stack and replaces them by the
  /// results. False, and nothing that others see is done, where an output shares elements with
  /// another argument, or a condition is not answered as it was.
  bool run(const Recorded &recorded, const Signature &signature, torch::jit::Stack &stack) const;
  void add(const Signature &signature, const OpsRecord &record);
  void clear();

private:
  bool sign(const c10::IValue &value, bool isWritten, Signature &signature) const;

  /// Beyond this many signatures an overload begins anew.
  static constexpr size_t mostRecords = 4096;
  size_t argumentCount;
  std::vector<bool> isWritten;
  bool returnsList; ///< one list of tensors
  bool isCuda;
  mutable std::shared_mutex mutex;
  std::unordered_map<uint64_t, std::shared_ptr<const Recorded>> records;
};

} // namespace nereid::ops
