// Values of tensors at a point of a loop nest: `width` neighbouring elements along the lane
// dimension.
#pragma once
#include "targets/cpu/emit/Forms.h"
#include "targets/cpu/emit/Masks.h"

namespace nereid::cpu {

class Elements {
public:
  /// The body of a loop nest over variables with current values `iv`, of which number `laneDim`
  /// counts in steps of `width`. `forms` were found before the loops and cover every address in the
  /// body; `outside` computes what does not run with the nest at all, before the loops. All three
  /// references outlive this object.
  Elements(Kernel &kernel, int64_t width, int laneDim, llvm::ArrayRef<mlir::Value> iv,
           const Forms *forms, Elements *outside)
      : width(width), k(kernel), laneDim(laneDim), iv(iv), forms(forms), outside(outside) {}
  /// Where nothing runs: scalars only.
  explicit Elements(Kernel &kernel) : Elements(kernel, 1, -1, {}, nullptr, nullptr) {}

  /// The element(s): lanes when the point runs with the lane dimension and they differ, else maybe
  /// a scalar.
  mlir::Value at(mlir::Value value, llvm::ArrayRef<Index> point);
  /// The same as lanes always (a scalar when width is 1).
  mlir::Value lanesAt(mlir::Value value, llvm::ArrayRef<Index> point) {
    return k.e.splat(at(value, point), width);
  }
  /// The elements are known to be these.
  void set(mlir::Value value, llvm::ArrayRef<Index> point, mlir::Value lanes) {
    memo[TensorPoint{value, Point(point)}] = lanes;
  }
  void store(tile::StoreOp op, llvm::ArrayRef<Index> point);
  void write(const Buffer &buffer, llvm::ArrayRef<Index> point, mlir::Value value);
  mlir::Value read(const Buffer &buffer, llvm::ArrayRef<Index> point);
  /// The current value of a coordinate, i64; of its first lane where it runs with the lanes.
  mlir::Value current(const Index &index);

  /// What is known of the masks of `masks` (null: nothing): all are on, or all are off.
  enum class Known { Nothing, On, Off } known = Known::Nothing;
  Masks *masks = nullptr;
  /// Known to be on or off; nothing when it has to be evaluated.
  std::optional<bool> knownMask(mlir::Value mask, llvm::ArrayRef<Index> point) const;
  /// New values are emitted before this operation; null: at the builder's insertion point.
  mlir::Operation *anchor = nullptr;
  const int64_t width;
  /// Memory that loads will read `steps` rounds of loop variable `dim` later is fetched into the
  /// caches; no steps: none.
  struct Ahead {
    int dim = -1;
    int64_t steps = 0;
  } ahead;

private:
  struct Access { // how a set of lanes lies in memory
    enum Kind { Scalar, Contiguous, Scattered } kind;
    mlir::Value address;    // pointer, or lanes of addresses
    mlir::Value first = {}; // scattered at a constant distance in bytes: the first lane's address
    int64_t stride = 0;
  };
  Access access(mlir::Value pointer, llvm::ArrayRef<Index> point, int64_t size);
  /// The distance of lanes in elements where they can be moved by whole registers.
  static std::optional<int64_t> spreadOf(const Access &place, mlir::Type element);
  mlir::Value compute(mlir::Value value, llvm::ArrayRef<Index> point);
  /// Where the tensor is read at the point: of two copies, the one in which lanes are neighbours.
  Buffer bufferOf(mlir::Value value, llvm::ArrayRef<Index> point) const;
  mlir::Value load(tile::LoadOp op, llvm::ArrayRef<Index> point);
  void fetchAhead(tile::LoadOp op, llvm::ArrayRef<Index> point, mlir::Value address);
  mlir::Value maskAt(mlir::Value mask, llvm::ArrayRef<Index> point);
  std::optional<mlir::Value> withoutMasks(mlir::Operation *op, llvm::ArrayRef<Index> point);
  mlir::Value quotient(mlir::Value lhs, mlir::Value rhs);
  mlir::Value narrowed(mlir::Operation *op, llvm::ArrayRef<Index> point);
  mlir::Value fromForm(const Form &form);
  mlir::Value addressOf(const Form &form);
  mlir::Value exchanged(tile::ExchangeOp op, llvm::ArrayRef<Index> point);
  mlir::Value sliced(tile::SliceOp op, llvm::ArrayRef<Index> point);
  mlir::Value gathered(tile::GatherOp op, llvm::ArrayRef<Index> point);
  mlir::Value readAlong(mlir::Value source, llvm::ArrayRef<Index> point, unsigned axis,
                        mlir::Value along);
  mlir::Value offsetIn(const Buffer &buffer, llvm::ArrayRef<Index> point, int64_t &laneStride);

  Kernel &k;
  int laneDim;
  llvm::SmallVector<mlir::Value> iv;
  const Forms *forms;
  Elements *outside;
  llvm::DenseMap<TensorPoint, mlir::Value> memo;
};

} // namespace nereid::cpu
