// What the GPU passes need to know of the machine and of the launch.
#pragma once
#include "gpu/Machine.h"

#include <functional>

namespace nereid::explain {
struct Report;
} // namespace nereid::explain

namespace nereid::gpu {

/// Optimisations that are switched off for a kernel that does not fit with them (FitKernel.h).
struct Concessions {
  bool largeConversions = false;   ///< conversions through shared memory are moved in small pieces
  unsigned stages = 0;             ///< slots of a pipelined loop at most; 0: as many as it asks for
  bool wgmma = false;              ///< products on mma.sync, whose operands are in registers
  bool overlappedStores = false;   ///< stores end where they are issued
  bool persistentProducts = false; ///< a block computes one program
};

/// Which loops are divided between warps that copy and warps that compute.
enum class Specialise : uint8_t { AsAsked, Always, Never };

/// How stores by the copy engine in divided kernels overlap with what follows: not at all; their
/// buffers are waited for when they are used again; each group of four warps also stores for itself
/// where it can.
enum class OverlapStores : uint8_t { Never, Waits, Groups };

/// Where multiplications of an accumulator by factors that are all 1 are left out (SkipScaling.h).
enum class SkipScaling : uint8_t { Divided, Always, Never };

/// In which loops maxima of rows are computed only where weights are too great (SkipMaxima.h).
enum class SkipMaxima : uint8_t { Never, Divided, Always };

/// Which kernels of rows run several programs in a block, one after the other (PersistentRows.h):
/// none; those of 16-bit elements whose block has a multiprocessor to itself; all.
enum class PersistentRows : uint8_t { Never, Wide, Always };

/// Which kernels of products compute several programs in a block, one after the other
/// (PersistentProducts.h): none; those that were measured to be faster; all that can.
enum class PersistentProducts : uint8_t { Never, Measured, Always };

struct GpuOptions {
  Machine machine = {};
  int numWarps = 4;  ///< of a program, all its blocks together; a power of two
  int numStages = 3; ///< default depth of pipelined loops
  int numBlocks = 1; ///< that run a program together, as a cluster; a power of two
  /// Several blocks may run a program although `numBlocks` is 1 (ChooseBlocks.h); `numWarps` is
  /// then that of the one block.
  bool choosesBlocks = false;
  bool keepsNarrow = true;    ///< KeepNarrow.cpp
  bool sendsPartials = false; ///< SendPartials.cpp
  PersistentRows persistentRows = PersistentRows::Never;
  PersistentProducts persistentProducts = PersistentProducts::Never;
  /// The same of kernels whose loops have two products (PersistentProducts.h).
  PersistentProducts persistentAttention = PersistentProducts::Never;
  int maxRegisters = 0; ///< 0: no limit of the user's
  Specialise specialise = Specialise::AsAsked;
  OverlapStores overlapStores = OverlapStores::Groups;
  /// The iterations of products may be divided among the blocks of a cluster (SplitProducts.h).
  bool splitProducts = false;
  /// Pairs of programs may share what the copy engine brings to divided loops (SharedCopies.h).
  bool multicast = false;
  SkipScaling skipScaling = SkipScaling::Divided;
  SkipMaxima skipMaxima = SkipMaxima::Never;
  /// Whether code that moves registers between warps can be assembled (null: it can). Asked only
  /// for kernels with a loop that is divided.
  std::function<bool()> movesRegisters = nullptr;
  Concessions without = {};
  bool verify = false; ///< verify the IR after every pass
  /// Where passes write down what they decide and why; null when nobody asked.
  explain::Report *explanation = nullptr;
};

} // namespace nereid::gpu
