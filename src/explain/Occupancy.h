// How many programs of a kernel run on one multiprocessor (SM) of an NVIDIA GPU at the same time,
// and what limits their number.
//
// A block is resident as a whole. Of an SM it takes
//
//   warps       threads / 32, of at most `warps` an SM
//   a place     of at most `blocks` an SM
//   registers   given to warps: registers a thread x 32, rounded up to 256; each of the four
//               parts of an SM has a quarter of the 65,536 and holds whole warps
//   memory      static and dynamic shared memory and 1 KiB of the system's, rounded up to 128
//               bytes, of `sharedBytes` an SM
//
// and the occupancy is the share of an SM's warps that are then resident. The rules and the figures
// of the architectures are those of the CUDA C++ Programming Guide ("Technical Specifications per
// Compute Capability", "Hardware Multithreading") and of the calculator in Nsight Compute; the
// driver's cuOccupancyMaxActiveBlocksPerMultiprocessor gives the same numbers (checked on an H200).
#pragma once
#include <optional>
#include <string_view>

namespace nereid::explain {

/// What one multiprocessor has.
struct Multiprocessor {
  int sm;          ///< compute capability times ten
  int warps;       ///< resident
  int blocks;      ///< resident
  int sharedBytes; ///< shared memory, when it gets all that the L1 cache can spare
  int registers = 65536;
};
/// Nothing for an architecture that is not known.
std::optional<Multiprocessor> multiprocessorOf(int sm);

struct BlockNeeds {
  int threads = 128;
  int registers = 0; ///< a thread; 0: not known, not counted
  int sharedBytes = 0;
};

struct Occupancy {
  int blocksByWarps, blocksByPlaces, blocksByRegisters, blocksByShared;
  int blocks;    ///< resident: the least of these
  int warps;     ///< resident
  int warpsMost; ///< of the SM
  double share() const { return double(warps) / warpsMost; }
  /// What admits no more: "warps", "registers", "shared memory", "registers and shared memory", or
  /// "places for blocks".
  std::string_view limit() const;
};
Occupancy occupancyOf(const Multiprocessor &multiprocessor, const BlockNeeds &needs);

/// The most registers a thread may have for `blocks` blocks to be resident as far as registers go;
/// 0 if there is no such number.
int registersFor(const Multiprocessor &multiprocessor, int threads, int blocks);

} // namespace nereid::explain
