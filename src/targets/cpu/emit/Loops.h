// Emission of a Loop step: the loops over its iteration space with the lanes of all its roots
// inside.
//
// Shape of the code, from the outside in:
//   * matrices that lie the other way are transposed (Transposed.cpp);
//   * fused or not: when stores and loads of the step might touch the same memory, a condition on
//   the extents,
//     computed once, chooses between the fused nest and one that first reads everything;
//   * scalar loops over all dimensions but the last;
//   * versions: the vector loop under the assumptions that Forms made, or a scalar loop;
//   * segments: full-width chunks, then narrower ones for what remains of an extent.
// Reductions along the lane dimension keep lanes of partial results (every lane combines each
// width-th element, which needs a commutative combiner; others are combined in order inside each
// chunk). Reductions along another dimension keep one partial result a lane.
#pragma once
#include "targets/cpu/emit/Elements.h"
#include "targets/cpu/emit/Extremes.h"
#include "targets/cpu/emit/Masks.h"
#include "targets/cpu/emit/Plan.h"

namespace nereid::cpu {

class LoopStep {
public:
  LoopStep(Kernel &kernel, const Step &step) : k(kernel), step(step) {}
  /// Emits everything and registers the results (buffers, scalars) with the kernel.
  void emit();

private:
  struct Nest {
    llvm::SmallVector<mlir::Value, 4> outer; // one per outer dimension, i64
    Forms *forms = nullptr;                  // null: no assumption may be made: scalar loops
    Elements *outside = nullptr;
    int64_t maxWidth = 1;
    int64_t narrowWidth = 1; // of chunks with masks: one register
    Masks *masks = nullptr;  // not null: not all chunks are alike
    bool offIsShort = false; // where all masks are off, one value stands for all elements
  };
  struct Segment {
    int64_t begin, count, width;
  };
  /// The partial results of one reduction.
  using Partial = llvm::SmallVector<mlir::Value, 2>;

  void chooseDims();
  int laneOfStores();
  /// Tensors with another buffer while this step is emitted, and their own buffers.
  /// `loaded`: the loads that this puts into memory, for this step alone.
  void readTransposed(llvm::SmallVectorImpl<mlir::Value> &loaded);
  void makeTransposed(mlir::Value value, int lanes, int other,
                      llvm::SmallVectorImpl<mlir::Value> &loaded);
  void allocate();
  void emitSafe();
  mlir::Value fusionIsSafe(bool &impossible);
  void emitNest();
  void emitOuter(size_t dim, llvm::SmallVector<mlir::Value, 4> &outer);
  void emitVersions(llvm::ArrayRef<mlir::Value> outer);
  void prepareMasks(llvm::ArrayRef<Index> point, Masks &masks, Nest &nest);
  void prepare(mlir::Value value, llvm::ArrayRef<Index> point, Forms &forms, bool &scattered);
  void preparePointer(mlir::Value pointer, llvm::ArrayRef<Index> point, Forms &forms,
                      bool &scattered, mlir::Operation *op);
  /// An access is done element by element, or in vectors.
  void explainAccess(mlir::Operation *op, mlir::Value pointer, const char *how,
                     const std::string &why = "", const char *remedy = "");
  void emitRows(const Nest &nest);
  void emitSegment(const Nest &nest, const Segment &segment, int64_t begin,
                   llvm::SmallVectorImpl<mlir::Value> &carried);
  void emitChunk(const Nest &nest, const Segment &segment, mlir::Value index,
                 llvm::SmallVectorImpl<mlir::Value> &carried, Elements::Known known,
                 llvm::ArrayRef<std::pair<mlir::Value, mlir::Value>> values = {});
  void emitEither(const Nest &nest, const Segment &segment, mlir::Value index,
                  llvm::SmallVectorImpl<mlir::Value> &carried);
  void emitColumns(const Nest &nest);
  llvm::SmallVector<Segment> segments(int64_t maxWidth) const;
  Point pointOf(llvm::ArrayRef<mlir::Value> outer, bool withoutAxis = false) const;
  void emitRoots(Elements &lanes, const Nest &nest, llvm::MutableArrayRef<Partial> partials,
                 bool first, bool ordered);
  void finish(const Nest &nest, Elements &lanes, llvm::ArrayRef<Partial> partials);
  using LoopBody = llvm::function_ref<void(mlir::Value, llvm::SmallVectorImpl<mlir::Value> &)>;
  void loop(int64_t begin, int64_t end, int64_t by, llvm::SmallVectorImpl<mlir::Value> &carried,
            LoopBody body);
  void loop(mlir::Value begin, mlir::Value end, int64_t by,
            llvm::SmallVectorImpl<mlir::Value> &carried, LoopBody body);
  void emitScan(const Root &root, Elements &lanes, llvm::ArrayRef<Index> point, int64_t width,
                Partial &before);
  void narrowPartials(llvm::SmallVectorImpl<mlir::Value> &carried, int64_t width);
  bool staysInRegisters() const;
  void narrowSources();
  std::optional<Extremes> extremesOf(const Root &root, int64_t width) const;
  unsigned statesOf(const Root &root, int64_t width) const;
  void mergeStates(llvm::SmallVectorImpl<mlir::Value> &carried, int64_t width);
  int64_t registersOfLanes(bool scattered) const;
  int64_t registersOfColumns() const;
  int costOfElements() const;
  int64_t vectorWidth(bool scattered) const;

  Kernel &k;
  const Step &step;
  llvm::SmallVector<Root> stores, reduces, materials;    // of the step, by kind
  bool scans = false;                                    // `reduces` are scans
  llvm::DenseMap<mlir::Operation *, mlir::Value> narrow; // sources of 16 bits (Extremes.h)
  llvm::DenseMap<mlir::Value, Buffer> targets;           // of materials and of reduce results
  int lane = -1, axis = -1;             // dimensions of the iteration space; -1: none
  bool columns = false;                 // the axis is not the lane dimension
  bool unrolled = false;                // straight code, no loops
  llvm::DenseSet<TensorPoint> prepared; // what `prepare` has seen for this version
};

/// The dimension along which the places that a tensor of pointers names are neighbours in memory;
/// -1 when there is none that is known.
int contiguousDimension(Kernel &kernel, mlir::Value pointer);

/// The buffer of a tensor, materialising it now if it has none.
Buffer materialize(Kernel &kernel, mlir::Value value);
/// Materialises tensors of one shape in one loop nest, those that have no buffer yet.
void materialize(Kernel &kernel, llvm::ArrayRef<mlir::Value> values);
/// Copies or computes `value` into `target` now.
void materializeInto(Kernel &kernel, mlir::Value value, const Buffer &target);
/// A scalar loop over [0, extent) of every dimension of `shape`, with the coordinates.
void forEachPoint(Kernel &kernel, llvm::ArrayRef<int64_t> shape,
                  llvm::function_ref<void(llvm::ArrayRef<mlir::Value>)> body);

/// May lanes be combined in another order than that of their elements? Of a combiner of several
/// operations only where the op says so.
bool isReorderable(mlir::Region &combiner);
/// All lanes of each operand combined, in lane order unless the combiner is commutative; down to
/// `width` lanes.
llvm::SmallVector<mlir::Value> combineLanes(Kernel &kernel, mlir::Region &combiner,
                                            llvm::ArrayRef<mlir::Value> lanes, bool commutative,
                                            int64_t width = 1);
/// Each lane combined with all lanes before it, in order.
llvm::SmallVector<mlir::Value> scanLanes(Kernel &kernel, mlir::Region &combiner,
                                         llvm::ArrayRef<mlir::Value> lanes);

} // namespace nereid::cpu
