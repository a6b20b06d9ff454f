// The compiler's report on a kernel: facts that passes and targets record while they compile, if a
// report was requested (`Report *` is null otherwise). `nereid explain` shows it; as JSON it is the
// stage "explain".
#pragma once
#include "explain/Expression.h"
#include "explain/Hints.h"
#include "layout/LinearLayout.h"

#include "llvm/Support/JSON.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace nereid::explain {

/// A tensor's type, for people: 128x64xfp16.
struct Shape {
  std::vector<int64_t> sizes;
  std::string element;
  unsigned bits = 32;
};

/// A tensor in the registers of the threads, or in shared memory.
struct LayoutFact {
  std::string what; ///< "load", "accumulator of a product", "operand A of a product in shared..."
  SourcePlace place;
  Shape type;
  layout::LinearLayout layout;
};

/// One load, store or atomic of global memory.
struct AccessFact {
  std::string what;      ///< "load", "store", "atomic"
  std::string parameter; ///< whose memory; empty when it may be several
  SourcePlace place;
  Shape type;
  std::string route;     ///< "registers", "asynchronous copy", "copy engine"
  unsigned bytes = 0;    ///< that a thread moves at once
  unsigned possible = 0; ///< the most, for this element type and block
  bool masked = false;
  int64_t lanes = 0; ///< CPU: elements that a round of the loop has at once; 0: not known
  std::optional<int64_t> laneStride; ///< bytes from one lane to the next; nothing: not known
  /// Sectors of 32 bytes that a request of a warp touches, and that as many bytes need.
  unsigned sectors = 0, leastSectors = 0;
};

/// A buffer of shared memory, or a pass' scratch memory: where, and when. Ops are numbered in
/// program order.
struct BufferFact {
  std::string what;
  SourcePlace place;
  int64_t offset = 0, bytes = 0;
  unsigned begin = 0, end = 0;
};

/// An access of shared memory.
struct SharedAccessFact {
  std::string what; ///< "read", "write", "copy"
  SourcePlace place;
  unsigned op = 0;        ///< its number, as the buffers' lives are counted
  int64_t offset = -1;    ///< of the buffer
  unsigned bytes = 0;     ///< of a lane at once; of ldmatrix and stmatrix 0
  unsigned matrices = 0;  ///< of ldmatrix and stmatrix
  unsigned conflicts = 1; ///< turns that the banks need for each that the bytes need
};

struct ConversionFact {
  SourcePlace place;
  Shape type;
  std::string how; ///< "registers", "shuffles", "shared memory"
  int64_t bytes = 0;
  double cycles = 0;
};

/// A load of a block through pointers in a loop with products, and whether a copy engine serves it.
struct BlockFact {
  SourcePlace place;
  Shape type;
  std::string why; ///< why it is not; empty when it is
};

struct ProductFact {
  SourcePlace place;
  std::vector<int64_t> shape; ///< of the result
  int64_t k = 0;
  std::string a, b, accumulator; ///< element types
  std::string unit;              ///< "wgmma", "mma.sync", "multiply-adds"
  std::string why;               ///< why not a better unit; empty when it is the best
  std::string packing; ///< CPU: how the operands are brought into order; empty: not at all
};

struct LoopFact {
  SourcePlace place;
  int parent = -1;
  Expression lower, step, trips;
  // GPU: what pipelining did.
  bool considered = false; ///< it has loads that could go ahead
  unsigned stagesAsked = 0, stages = 0;
  std::string why; ///< why not pipelined
};

/// Warps of a divided kernel, which run the same code.
struct PartFact {
  unsigned firstWarp = 0, warps = 0;
  unsigned registers = 0; ///< a thread, where warps give some away; 0: all have the same
};

/// Slots that one part of a divided kernel fills and another one empties.
struct ChannelFact {
  SourcePlace place;         ///< of the innermost loop around the copies, else of the first copy
  unsigned part = 0;         ///< that copies
  unsigned slots = 1;        ///< that are filled ahead
  int64_t bytes = 0;         ///< of a slot
  std::vector<Shape> blocks; ///< of a slot
  std::vector<std::string> parameters; ///< that these are of
  unsigned products = 0;               ///< of a turn of the loop; 0: no loop with products
};

/// What one execution of an op moves or computes.
struct WorkFact {
  std::string
      what; ///< "read", "write", "atomic" (bytes); an arithmetic of PeakRates.h (operations)
  std::string parameter;
  SourcePlace place;
  int64_t amount = 0;
  int loop = -1; ///< the innermost around it
};

struct Resources {
  int threads = 0;
  int registers = 0;                        ///< a thread; 0: no assembler has said it
  int spillBytes = 0;                       ///< a thread, stored
  int stackBytes = 0;                       ///< a thread
  int64_t sharedBytes = 0, sharedLimit = 0; ///< a block
  int64_t scratchBytes = 0;                 ///< CPU: a worker thread
  std::string instructions;                 ///< CPU: the instruction set
  unsigned vectorBytes = 0;                 ///< CPU: of a vector register
  std::string assembler;                    ///< or why there is no machine code
};

struct Report {
  std::vector<LayoutFact> layouts;
  std::vector<AccessFact> accesses;
  std::vector<BufferFact> buffers;
  std::vector<SharedAccessFact> sharedAccesses;
  std::vector<std::string> ops; ///< names by number, for the picture of shared memory
  std::vector<SourcePlace> opPlaces;
  std::vector<ConversionFact> conversions;
  std::vector<BlockFact> blocks;
  std::vector<ProductFact> products;
  std::vector<LoopFact> loops;
  std::vector<PartFact> parts; ///< none: the warps of the kernel all run the same code
  std::vector<ChannelFact> channels;
  std::vector<WorkFact> work;
  std::vector<Hint> hints;
  Resources resources;
  int sm = 0; ///< 0: not a GPU
  /// By stage ("tile", "gpu"): the place of each line of the text; line 0 where it has none.
  std::map<std::string, std::vector<SourcePlace>> lines;

  /// Whose memory the op at `place` reads or writes; empty when that is not known.
  std::string parameterAt(const SourcePlace &place) const;
  /// Adds a hint, once for a place.
  void hint(HintKind kind, const SourcePlace &place, const std::vector<std::string> &facts);
  void hint(const Hint &hint);
  /// Everything, with the occupancy worked out.
  llvm::json::Object json() const;
};

/// Advice on spilled registers and on occupancy, from the resources.
void adviseOccupancy(Report &report);

/// A layout as an object of its columns, and back. Repeats are not part of it.
llvm::json::Object layoutJson(const layout::LinearLayout &layout);
std::optional<layout::LinearLayout> layoutFromJson(const llvm::json::Object &object);

} // namespace nereid::explain
