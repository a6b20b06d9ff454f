// Maxima and minima of lanes that are NaN if an element is, and tell the zeros apart.
//
// One combination of two such registers takes five instructions. A reduction of rows keeps three
// states in place of its partial result, which take two to three:
//   * the extreme of all elements that are no NaN, where zeros are equal;
//   * of the bits of all elements the conjunction (maximum) or disjunction (minimum): where the
//   extreme is zero, its sign bit is that of the result;
//   * whether an element was NaN, of one register of lanes for all registers of a chunk.
#pragma once
#include "ir/tile/Combiner.h"
#include "targets/cpu/emit/Emit.h"

namespace nereid::cpu {

class Extremes {
public:
  static constexpr unsigned states = 3;

  /// Of a combiner of `kind` on `width` lanes of tile type `element`; only where `applies`.
  Extremes(Emit &emit, tile::CombinerKind kind, mlir::Type element, int64_t width)
      : e(emit), kind(kind), element(element), width(width) {}
  static bool applies(tile::CombinerKind kind, mlir::Type element, int64_t width) {
    return (kind == tile::CombinerKind::Maximum || kind == tile::CombinerKind::Minimum) &&
           (element.isF32() || element.isF64()) && width > 1;
  }

  /// The states before the first element.
  llvm::SmallVector<mlir::Value> none();
  /// The states of `lanes` alone.
  llvm::SmallVector<mlir::Value> of(mlir::Value lanes);
  /// Adds `lanes` to the states.
  void add(llvm::MutableArrayRef<mlir::Value> current, mlir::Value lanes);
  /// Lanes whose combination is the result; a NaN may be in another lane than it was.
  mlir::Value lanes(llvm::ArrayRef<mlir::Value> current);

private:
  mlir::Value bitsOf(mlir::Value lanes);
  mlir::Value hasNan(mlir::Value lanes);
  int64_t lanesOfNan() const;
  mlir::Type typeOfNan() const;

  Emit &e;
  tile::CombinerKind kind;
  mlir::Type element;
  int64_t width;
};

} // namespace nereid::cpu
