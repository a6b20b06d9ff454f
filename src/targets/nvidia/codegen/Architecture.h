// The generations of NVIDIA GPUs: what LLVM and the assemblers call them, and what they can do.
// Facts are those of the PTX ISA's tables and of the CUDA programming guide's "Technical
// Specifications per Compute Capability".
#pragma once
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace nereid::nvidia {

/// Threads that execute an instruction together, of every generation.
constexpr int lanesOfWarp = 32;

struct Architecture {
  /// Compute capability times ten: 80, 90, 120.
  int sm = 0;
  /// The features that hold for this one generation ("sm_90a": wgmma, setmaxnreg). On by default
  /// from sm_90 on, as in Triton.
  bool archSpecific = false;

  bool operator==(const Architecture &) const = default;

  /// "sm_90a": what assemblers and LLVM call it.
  std::string name() const;

  // Features that generic code tests.
  bool hasCpAsync() const { return sm >= 80; }
  bool hasFp8Mma() const { return sm >= 89; }
  bool hasFp8Conversions() const { return sm >= 89; }
  bool hasWgmma() const { return sm == 90 && archSpecific; }
  bool hasTma() const { return sm >= 90; }
  bool hasStmatrix() const { return sm >= 90; }
  bool hasClusters() const { return sm >= 90; }
  bool hasBf16Arithmetic() const { return sm >= 90; }
  bool hasRegisterReallocation() const { return sm >= 90 && sm < 120 && archSpecific; }
  bool hasDependentLaunch() const { return sm >= 90; }

  /// Shared memory one block can have when it asks for it, in bytes.
  int maxSharedPerBlock() const;
  /// Shared memory of one multiprocessor, in bytes; every resident block costs 1 KiB beside its
  /// own.
  int sharedPerMultiprocessor() const;
  /// Threads resident on one multiprocessor.
  int maxThreadsPerMultiprocessor() const;

  /// The first PTX version that knows it, times ten (8.0 is 80).
  int firstPtxVersion() const;
};

/// The architecture of a compute capability (times ten), with its specific features where there are
/// any; an error lists those that are known.
llvm::Expected<Architecture> architectureFor(int sm);

/// The newest PTX version that LLVM can write, times ten.
constexpr int newestPtxVersion = 90;
/// The PTX version to write for an architecture: that of the assembler, as far as LLVM knows it and
/// the architecture needs; without an assembler the oldest one that will do.
int ptxVersionFor(const Architecture &arch, std::optional<int> assembler);

} // namespace nereid::nvidia
