// Masks of the form `offsets < n`, which are on for the first elements of a row and off for those
// behind. How many are on is computed before the loops. Chunks of which all elements are on, which
// are nearly all, run without masks: below AVX-512 masked accesses are no instructions, and with it
// they are slower than plain ones on several processors. Chunks of which all are off touch no
// memory, and what is computed of their elements is mostly one value for all (the exponential of
// minus infinity, say). Only the chunk in between evaluates masks.
#pragma once
#include "targets/cpu/emit/Forms.h"

namespace nereid::cpu {

class Elements;

class Masks {
public:
  /// For one row of a nest: loop variable 0 runs along the lanes, over [0, extent). Code is emitted
  /// at the builder's insertion point. The references outlive this object.
  Masks(Kernel &kernel, Forms &forms, Elements &outside, int64_t extent)
      : extent(extent), k(kernel), forms(forms), outside(outside) {}

  /// Takes in what computing the elements of `value` at `point` evaluates: masks of accesses, which
  /// chunks without them are worth a loop for, and masks that only select or that a tensor in
  /// memory was loaded with, which are not.
  void collect(mlir::Value value, llvm::ArrayRef<Index> point);
  /// The same of the mask of an access.
  void collectMask(mlir::Value mask, llvm::ArrayRef<Index> point);

  /// How many elements of the row, counted from the first, may be on, i64; null where unknown.
  mlir::Value mostOn(mlir::Value mask, llvm::ArrayRef<Index> point) {
    std::optional<Prefix> prefix = prefixOf(mask, point);
    return prefix ? prefix->off : mlir::Value();
  }

  /// Whether there are masks of accesses.
  bool ofAccesses() const { return bool(firstOn); }
  /// Known to be on for the elements [0, on()), known to be off for [off(), extent); i64.
  bool isOn(mlir::Value mask, llvm::ArrayRef<Index> point) const;
  bool isOff(mlir::Value mask, llvm::ArrayRef<Index> point) const;
  mlir::Value on() const { return firstOn; }
  mlir::Value off() const { return lastOff; }

  /// Where all masks are off: whether all elements of the row are equal.
  bool isUniformOff(mlir::Value value, llvm::ArrayRef<Index> point);

  const int64_t extent;

private:
  struct Prefix {
    mlir::Value on, off; // equal, unless the numbers compared wrap
  };
  std::optional<Prefix> prefixOf(mlir::Value mask, llvm::ArrayRef<Index> point);
  std::optional<Prefix> comparison(mlir::arith::CmpIOp compare, llvm::ArrayRef<Index> point);
  bool add(mlir::Value mask, llvm::ArrayRef<Index> point, bool ofAccess);
  bool computeUniformOff(mlir::Value value, llvm::ArrayRef<Index> point);

  Kernel &k;
  Forms &forms;
  Elements &outside;
  llvm::DenseMap<TensorPoint, std::optional<Prefix>> prefixes;
  llvm::DenseSet<TensorPoint> onSet, offSet, seen;
  llvm::DenseMap<TensorPoint, bool> uniform;
  mlir::Value firstOn, lastOff;
};

} // namespace nereid::cpu
