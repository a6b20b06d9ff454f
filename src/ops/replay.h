// Calls that were run once in Python (nereid.ops._record) and are repeated without it: the launches
// of a call, its allocations and its results depend only on what its signature says: dtypes,
// shapes, strides, alignment and numbers. A signature that is met for the first time goes to
// Python.
#pragma once

#include "fork.h"
#include "kernels.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>
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
  /// isRandom: it draws random numbers.
  Replay(const c10::FunctionSchema &schema, bool isCuda, bool isRandom);

  /// False for arguments that signatures do not describe: such calls always go to Python.
  bool sign(const c10::IValue *arguments, Signature &signature) const;
  std::shared_ptr<const Recorded> find(const Signature &signature) const;
  /// Runs a recorded call whose arguments are the last ones on the stack and replaces them by the
  /// results. False, and nothing that others see is done, where an output shares elements with
  /// another argument, or a condition is not answered as it was.
  bool run(const Recorded &recorded, const Signature &signature, torch::jit::Stack &stack) const;
  void add(const Signature &signature, const OpsRecord &record);
  /// Forgets what was recorded. routed: 0 where no call goes to ATen because it is unsteady.
  void route(bool routed);
  /// Whether a call that would run in Python is ATen's. A call in Python costs some hundred
  /// microseconds, once for a signature that is repeated, but each time where shapes keep changing
  /// or elements are read. A score counts such calls up and repeated ones down. From the time that
  /// it is high until it is 0 again, small calls are ATen's, since kernels cannot win the time
  /// back; signatures that were ATen's before then count as repeated. Never for operators that draw
  /// random numbers and in deterministic mode: results must not depend on earlier calls.
  bool isUnsteady(const Signature &signature, const c10::IValue *arguments);

private:
  bool sign(const c10::IValue &value, bool isWritten, Signature &signature) const;

  /// Beyond this many signatures an overload begins anew.
  static constexpr size_t mostRecords = 4096;
  /// A call in Python counts as much as this many repeated ones. From the second number on calls
  /// are unsteady, until the score is back at 0.
  static constexpr int callInPython = 16, highScore = 32 * callInPython;
  /// Bytes of a small call's tensors. On a GPU the launches of many are under way at once.
  static constexpr int64_t smallOnCpu = 2 << 20, smallOnGpu = 64 << 20;
  size_t argumentCount;
  std::optional<size_t> dropout; ///< the argument without which no random numbers are drawn
  std::vector<bool> isWritten;
  bool returnsList; ///< one list of tensors
  bool isCuda, isRandom;
  std::atomic<bool> isRouted{false};
  mutable std::atomic<bool> isScoreHigh{false};
  mutable std::atomic<int> score{0};
  mutable ForkMutex<std::shared_mutex> mutex;
  std::unordered_map<uint64_t, std::shared_ptr<const Recorded>> records;
  std::unordered_set<uint64_t> passed; ///< hashes of signatures that were ATen's
};

} // namespace nereid::ops
