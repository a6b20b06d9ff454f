// Maxima and minima of lanes that are NaN if an element is, and tell the zeros apart.
//
// One combination of two such registers takes five instructions. A reduction of rows keeps three
// states in place of its partial result, which take two to three:
//   * the extreme of all elements that are no NaN, where zeros are equal;
//   * of the bits of all elements the conjunction (maximum) or disjunction (minimum): where the
//   extreme is zero, its sign bit is that of the result;
//   * whether an element was NaN, of one register of lanes for all registers of a chunk.
//
// Elements that were widened from bf16 or fp16 are reduced as integers of 16 bits, twice as many a
// register and not widened at all: the bits of a number, those of a negative one but for its sign
// turned over, have the order of the numbers, with -0 below 0 and NaNs beyond the infinities. Such
// a reduction keeps the greatest and the least of these, whichever is asked for: a NaN with a sign
// is in the one, a NaN without in the other.
#pragma once
#include "ir/tile/Combiner.h"
#include "targets/cpu/emit/Emit.h"

namespace nereid::cpu {

class Extremes {
public:
  /// Of a combiner of `kind` on `width` lanes of tile type `element`; only where `applies`.
  /// `narrow`: the type of the lanes that are added, or null: `element`.
  Extremes(Emit &emit, tile::CombinerKind kind, mlir::Type element, int64_t width,
           mlir::Type narrow = {})
      : e(emit), kind(kind), element(element), narrow(narrow), width(width) {}
  static bool applies(tile::CombinerKind kind, mlir::Type element, int64_t width) {
    return (kind == tile::CombinerKind::Maximum || kind == tile::CombinerKind::Minimum) &&
           (element.isF32() || element.isF64()) && width > 1;
  }

  unsigned states() const { return narrow ? 2 : 3; }
  /// The states before the first element.
  llvm::SmallVector<mlir::Value> none();
  /// The states of `lanes` alone.
  llvm::SmallVector<mlir::Value> of(mlir::Value lanes);
  /// Adds `lanes` to the states.
  void add(llvm::MutableArrayRef<mlir::Value> current, mlir::Value lanes);
  /// Lanes of `element`, or a single one, whose combination is the result; a NaN may be in another
  /// lane than it was.
  mlir::Value lanes(llvm::ArrayRef<mlir::Value> current);
  /// The states of `count` lanes, which have the same result; empty where `lanes` has to be
  /// combined for that.
  llvm::SmallVector<mlir::Value> folded(llvm::ArrayRef<mlir::Value> current, int64_t count);

private:
  mlir::Value ordered(mlir::Value bits);
  mlir::Value orderOfInfinity(mlir::Type type, bool isNegative);
  mlir::Value narrowResult(llvm::ArrayRef<mlir::Value> current);
  mlir::Value bitsOf(mlir::Value lanes);
  mlir::Value hasNan(mlir::Value lanes);
  int64_t lanesOfNan() const;
  mlir::Type typeOfNan() const;

  Emit &e;
  tile::CombinerKind kind;
  mlir::Type element, narrow;
  int64_t width;
};

/// The tensor of bf16 or fp16 whose elements, widened, are those of `value`, which may be the first
/// few of a row beside a constant: made before `before` where it is not there yet. Null where there
/// is none.
mlir::Value narrowSource(mlir::Value value, mlir::Operation *before,
                         llvm::function_ref<bool(mlir::Value)> isInMemory);

} // namespace nereid::cpu
