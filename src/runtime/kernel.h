// A compiled kernel: the object behind `nrd_kernel`.
#pragma once

#include "nereid/nereid.h"
#include "runtime/devices/device.h"
#include "runtime/options.h"
#include "runtime/specialise.h"
#include "targets/target.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace nereid::runtime {

struct FunctionRecord;

/// What to compile: one specialisation of one function under resolved options.
struct CompileRequest {
  const FunctionRecord *function = nullptr;
  std::vector<frontend::ParamSpec> specs;
  Options options;
  /// With the architecture, on a GPU; `options.target` is its text.
  TargetName target;
  /// Keep the texts of all stages.
  bool keepStages = false;
  /// Where to write down what the compiler decides and why; null when nobody asked.
  explain::Report *explanation = nullptr;
  /// Make it callable in this process (not possible for a foreign instruction set).
  bool load = true;
  /// Keeps alive what constants in `specs` point to.
  std::vector<std::shared_ptr<const void>> owners;
};

/// How one parameter of the function reaches the code.
struct ParamSlot {
  bool passed = false;        ///< false: folded into the code
  bool written = false;       ///< a pointer that the kernel may store through
  uint8_t descriptorRank = 0; ///< of a descriptor, whose `kind` is that of its base
  targets::ScalarKind kind = targets::ScalarKind::I32;
  std::string name;
  frontend::DType type = frontend::DType::Int32; ///< element type
  /// The assumptions of the compilation, which launches must satisfy; null where the host's rules
  /// apply instead (see `nrd_kernel_launch`).
  const frontend::ParamSpec *spec = nullptr;

  /// Parameters of the code: of a descriptor its base, its sizes, its strides but the last.
  unsigned codeParams() const { return descriptorRank ? 2 * descriptorRank : passed; }
};

/// How an ordinary argument is packed: few bytes, close together.
struct Packing {
  enum Kind : uint8_t {
    Skipped,  ///< it is folded into the code, whatever the argument is
    Constant, ///< it is folded into the code, and the argument must be `constant`
    Pointer,
    Int32,
    Int64,
    Float,  ///< fp32
    Double, ///< fp64
    Other   ///< anything else
  };
  Kind kind = Skipped;
  uint8_t zeroBits = 0; ///< bits of the value that must be 0: a promised multiple of 16
  /// The first 4 bytes of the argument, where `mask` has ones: its kind and, of a pointer, type.
  uint32_t head = 0, mask = 0;
  uint64_t constant = 0; ///< Constant: a value that 8 bytes hold
};

} // namespace nereid::runtime

struct nrd_kernel {
  // What launches read comes first, side by side.
  /// On a GPU: where it was prepared last, since launches mostly stay where they are; null before.
  mutable std::atomic<const nereid::runtime::ReadyKernel *> ready = nullptr;
  void *entry = nullptr;                                 ///< null when it is not for this machine
  std::unique_ptr<nereid::runtime::DeviceCode> onDevice; ///< what its device keeps with it
  std::vector<nereid::runtime::Packing> packing;         ///< of `params`; empty: not known
  unsigned passedCount = 0;                              ///< of `params`
  bool takesTuples = false;
  bool hasWrites = false; ///< some pointer may be stored through
  bool checked = false;   ///< the code expects the extents of its pointers after the arguments
  llvm::SmallVector<nereid::runtime::ParamSlot, 16>
      params; ///< one per parameter of the function, or per item of a tuple

  nereid::runtime::CompileRequest request;
  /// For a kernel that is not owned by its function's dispatcher.
  std::shared_ptr<const nereid::runtime::FunctionRecord> keepAlive;

  std::string name;
  std::unique_ptr<nereid::targets::CompiledKernel> code;
  std::string layout;                                ///< see nrd_kernel_layout
  std::vector<nereid::targets::StageTime> times;     ///< of the stages
  std::vector<nereid::targets::StageTime> passTimes; ///< of single passes, when they are wanted
  std::string metadata;
  /// Of a gradient kernel that was compiled here: how each gradient is summed and why.
  std::vector<std::string> gradients;
  /// Of a gradient kernel, by parameter of the code: GradientFact. Otherwise empty.
  std::vector<uint8_t> gradientFacts;

  /// The same kernel with checked accesses, compiled when it is first asked for.
  nereid::runtime::ErrorPtr withChecks(nrd_kernel *&kernel);

  /// The text or bytes of a stage; compiles again, keeping everything, for one that was not kept.
  /// Null when the target has no such stage, or when it cannot be made: `why` says so then.
  const std::string *stage(llvm::StringRef name, std::string *why = nullptr);
  const std::vector<std::string> &stageNames();
  /// The stage that is the finished code: "obj" on the CPU, "cubin" on NVIDIA GPUs.
  const char *objectName() const;

private:
  std::mutex checkedMutex;
  std::unique_ptr<nrd_kernel> checkedKernel;
  std::mutex stageMutex;
  std::vector<std::string> names;
  llvm::StringMap<std::unique_ptr<std::string>> stages;
  std::unique_ptr<nereid::targets::CompiledKernel> withStages;
};
