// The one interface between the runtime (and the faces) and a target. Its code generator
// (targets/generator.h) takes one kernel in tile IR and gives it back compiled; the target itself
// reads finished kernels from disk and makes them callable, without MLIR and without LLVM's code
// generators. How the runtime starts a kernel is the business of the runtime's device of the same
// name (src/runtime/devices), which knows what `entry()` and the ABI of that target mean.
//
// Kernels come from the library that holds the code generators and are used outside of it: nothing
// here hands on an llvm::Error, whose class is an address in the library that made it.
#pragma once
#include "explain/Hints.h"

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace nereid {
class ByteReader;
class ByteWriter;
} // namespace nereid

namespace nereid::explain {
struct Report;
} // namespace nereid::explain

namespace nereid::targets {

/// How long one stage of a compilation took.
struct StageTime {
  std::string name;
  double ms = 0;
};

/// The options of a compilation. All of them are part of a kernel's cache key.
struct CompileOptions {
  /// Which instructions may be used. CPU: "" or "host" (this machine), "avx512", "avx2", "baseline"
  /// (x86-64 without extensions), "aarch64", "neoverse-n1", "neoverse-v1" (object code and assembly
  /// only).
  std::string features;
  /// Contract a*b+c to one rounding (`enable_fp_fusion`).
  bool fpFusion = true;
  /// Check every access against the extent of the tensor its pointer came from.
  bool checked = false;
  /// `tile.assert` is compiled in (Triton's `debug=True`).
  bool debug = false;
  /// Keep the texts of the stages for `CompiledKernel::text`, which costs time. Off, only those
  /// that can be made again later are offered.
  bool keepStages = false;
  /// Make the kernel callable in this process. Off, only `text` and `object` of the result are
  /// used.
  bool load = true;
  /// Verify the IR after every stage of the target.
  bool verify = false;
  /// Where to write down what is decided and why, machine code included; null when nobody asked.
  explain::Report *explanation = nullptr;
  /// A text that takes the place of a stage of the compilation ("llir", "ptx"), when there is one.
  std::function<std::optional<std::string>(llvm::StringRef stage)> replacement;

  /// Where the times of single passes go (targets/PassTimes.h); null leaves them unmeasured.
  std::vector<StageTime> *passTimes = nullptr;

  /// Files of LLVM bitcode, or LLVM IR as text, whose functions the kernel may call.
  std::vector<std::string> libraries;

  // GPUs only.
  /// NVIDIA's libdevice, where it is not to be the one of the CUDA installation.
  std::string libdevice;
  /// The architecture: 80, 86, 89, 90, 100, 120 for NVIDIA's sm_80...
  int arch = 0;
  /// Warps of a program, depth of pipelined loops, blocks of a cluster.
  int numWarps = 4;
  int numStages = 3;
  int numCtas = 1;
  /// `numCtas` and `numWarps` may be larger than given where one block's registers do not hold a
  /// program's rows: the caller launches by the kernel's own numbers (LaunchInfo).
  bool choosesCtas = false;
  /// Registers of a thread (`maxnreg`), 0 for the assembler's choice.
  int maxRegisters = 0;
  /// The PTX version times ten, 0 for the newest that the assembler reads; further options of it,
  /// separated by spaces.
  int ptxVersion = 0;
  std::string assemblerOptions;
  /// A folder for notes of what is assembled within this process; empty for none.
  std::string assemblyNotes;
  /// Flush subnormals in library functions that ask (`enable_reflect_ftz`).
  bool reflectFtz = true;
  /// All programs run at the same time; programs may start before the launch before has ended
  /// (`launch_pdl`).
  bool cooperative = false;
  bool programmaticLaunch = false;
};

enum class ScalarKind : uint8_t {
  I1,
  I8,
  I16,
  I32,
  I64,
  F16,
  BF16,
  F32,
  F64,
  F8E4M3,
  F8E5M2,
  Pointer
};

/// One kernel parameter, in the order of the tile function's arguments.
struct Param {
  std::string name;
  ScalarKind kind = ScalarKind::I32;
};

/// A finished kernel. Owns its code: the entry lives as long as this object.
class CompiledKernel {
public:
  virtual ~CompiledKernel() = default;

  std::string name;
  std::vector<Param> params;
  /// The table to whose entries the run-time calls of the code refer by number (assertions, prints,
  /// checked accesses). CPU: a `nereid::cpu::SiteTable`; null when there are none.
  std::shared_ptr<const void> sites;
  /// CPU: bytes of private memory that every worker thread must bring along. The arguments are
  /// packed as one slot of 8 bytes a parameter, in order, a narrow value in the slot's first bytes.
  uint64_t scratchBytes = 0;
  /// CPU: no program waits for another, so they may start in any order.
  bool independent = false;
  /// CPU: it has products of tiles (AMX), whose registers Linux gives to a process that asks.
  bool usesTiles = false;
  std::vector<StageTime> times;

  // Results of the compilation that a copy on disk depends on.
  /// The code, or `sites`, names lines of the source.
  bool namesPlaces = true;
  /// Files of bitcode that were linked; NVIDIA's own library beside them.
  std::vector<std::string> files;
  bool usesLibdevice = false;
  /// `Target::restore` has made what was missing: the copy on disk is to be replaced.
  bool completed = false;

  /// CPU: a `nereid::cpu::KernelFn` (kernel_abi/cpu.h), null when compiled with `load` off. NVIDIA:
  /// a `const nereid::nvidia::LaunchInfo *` (kernel_abi/nvidia.h).
  virtual void *entry() const = 0;
  /// Names of the texts there are when they are kept, in pipeline order: for the CPU "tile",
  /// "loops", "llir", "asm"; for NVIDIA "tile", "gpu", "llir", "ptx", "cubin" (bytes).
  virtual std::vector<std::string> stages() const = 0;
  /// The text of a stage. Nothing when the target has no such stage or its text was not kept, or
  /// when it cannot be made: `why` says so then.
  virtual std::optional<std::string> text(llvm::StringRef stage, std::string &why) const = 0;
  /// New advice for the kernel's author since the last call: options without effect, optimisations
  /// that were switched off so that it fits, warnings of the assembler.
  virtual std::vector<explain::Hint> takeAdvice() const { return {}; }
  /// The relocatable object file (CPU) or the loadable image (GPU). Nothing when it cannot be made.
  virtual std::optional<std::string> object(std::string &why) const = 0;

  /// Writes what `Target::restore` makes the same kernel of, in another process; without the texts
  /// of the stages. False for a kernel that cannot be kept.
  virtual bool save(ByteWriter &) const { return false; }

protected:
  /// The members above, for `save` and `restore` of the targets.
  void saveCommon(ByteWriter &out) const;
  void restoreCommon(ByteReader &in);
};

/// Something outside of the library that a target uses when it is there.
struct Tool {
  std::string name;    ///< "assembler"
  std::string found;   ///< "nvJitLink 13.0 (/usr/...)"; empty when it is missing
  std::string problem; ///< what is missing then, or what is known against what was found
};

/// The interface of targets. Objects are immutable and may be used from several threads at
/// once.
class Target {
public:
  virtual ~Target() = default;
  virtual llvm::StringRef name() const = 0;
  /// What the code depends on besides the program and the options: the instruction set that the
  /// options mean on this machine, the assembler. Equal texts, equal code, on any machine. Empty
  /// when there is no such text; then no kernel is kept.
  virtual std::string identity(const CompileOptions &) const { return {}; }
  /// The file of something that only some kernels use ("libdevice").
  virtual std::string fileOf(llvm::StringRef) const { return {}; }
  /// A kernel from what `save` wrote under the same identity and options, ready to be loaded. Null
  /// when it is damaged.
  virtual std::unique_ptr<CompiledKernel> restore(ByteReader &, const CompileOptions &) const = 0;
  /// Makes a kernel callable in this process, once, when `CompileOptions::load` is set; false and
  /// the reason in `why` when it cannot be. A GPU's kernels become callable on their devices.
  virtual bool load(CompiledKernel &, std::string &) const { return true; }
  /// What it found on this machine, for `nereid doctor`.
  virtual std::vector<Tool> tools() const { return {}; }
};

/// The targets. One object each for the process.
const Target &cpuTarget();
const Target &nvidiaTarget();

/// The target of a backend ("cpu", "cuda"); null for one that this build lacks.
const Target *findTarget(llvm::StringRef backend);

} // namespace nereid::targets
