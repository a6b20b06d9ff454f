// The lowest layer of the CPU target's code emission: scalars and short vectors ("lanes") of the
// builtin types, memory through LLVM pointers, and the meaning of each elementwise op on them.
//
// Representation. A tile scalar becomes a scalar of the same type, except: a pointer is
// `!llvm.ptr`, an 8-bit float is the `i8` of its bits. `width` elements of a tensor, neighbours
// along one dimension, become `vector<width x T>` when width > 1 and the scalar when width == 1;
// lanes of pointers are lanes of `i64` addresses. Integers may be folded while they are built, so
// that loop bounds and strides known at compile time show as constants.
#pragma once
#include "ir/tile/Dialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "targets/cpu/Features.h"

#include <functional>
#include <optional>

namespace nereid::cpu {

class Emit {
public:
  Emit(mlir::OpBuilder &builder, mlir::Location location, const Features &features)
      : b(builder), loc(location), features(features) {}

  mlir::OpBuilder &b;
  mlir::Location loc;
  const Features &features;

  //--- types ---
  /// The scalar that stands for one element of tile type `element`.
  mlir::Type lower(mlir::Type element) const;
  /// The type of `width` lanes of tile element type `element`.
  mlir::Type lanes(mlir::Type element, int64_t width) const;
  mlir::Type ptr() const { return mlir::LLVM::LLVMPointerType::get(b.getContext()); }
  static int64_t widthOf(mlir::Value lanes);

  //--- integers, folded while built; lhs and rhs are scalars or lanes of one type ---
  mlir::Value integer(mlir::Type type, int64_t value);
  mlir::Value i64(int64_t value) { return integer(b.getI64Type(), value); }
  static std::optional<int64_t> constant(mlir::Value value);
  mlir::Value add(mlir::Value lhs, mlir::Value rhs);
  mlir::Value sub(mlir::Value lhs, mlir::Value rhs);
  mlir::Value mul(mlir::Value lhs, mlir::Value rhs);
  mlir::Value min(mlir::Value lhs, mlir::Value rhs);
  mlir::Value max(mlir::Value lhs, mlir::Value rhs);
  mlir::Value cmp(mlir::arith::CmpIPredicate predicate, mlir::Value lhs, mlir::Value rhs);
  mlir::Value both(mlir::Value lhs, mlir::Value rhs); // logical and; either may be null (true)
  /// Scalar integer `value` sign-extended or truncated to `type`.
  mlir::Value resize(mlir::Value value, mlir::Type type);

  /// `base * step + offset` of an i64, made where `base` is: asked for again it is the same value.
  mlir::Value displaced(mlir::Value base, int64_t step, int64_t offset);

  //--- lanes ---
  /// All lanes equal to the scalar; a pointer becomes lanes of its address.
  mlir::Value splat(mlir::Value scalar, int64_t width);
  /// 0, 1, 2, ... in lanes of the integer type.
  mlir::Value iota(mlir::Type integer, int64_t width);
  mlir::Value extract(mlir::Value lanes, int64_t lane);
  mlir::Value shuffle(mlir::Value lanes, llvm::ArrayRef<int64_t> order);

  //--- memory; `element` is the tile element type, an i1 is a byte of memory ---
  mlir::Value advance(mlir::Value pointer, mlir::Value bytes); // bytes: i64
  mlir::Value advance(mlir::Value pointer, int64_t bytes) { return advance(pointer, i64(bytes)); }
  mlir::Value load(mlir::Type element, mlir::Value pointer, int64_t width, bool isVolatile = false);
  void store(mlir::Type element, mlir::Value pointer, mlir::Value value);
  /// Elements off the mask touch no memory and give `other`. `other` may be null: zero.
  mlir::Value maskedLoad(mlir::Type element, mlir::Value pointer, mlir::Value mask,
                         mlir::Value other);
  void maskedStore(mlir::Type element, mlir::Value pointer, mlir::Value value, mlir::Value mask);
  /// `addresses`: lanes of i64. `mask` may be null: all.
  mlir::Value gather(mlir::Type element, mlir::Value addresses, mlir::Value mask,
                     mlir::Value other);
  void scatter(mlir::Type element, mlir::Value addresses, mlir::Value value, mlir::Value mask);
  /// Lanes from scalar loads, `stride` bytes apart.
  mlir::Value loadEach(mlir::Type element, mlir::Value first, int64_t stride, int64_t width,
                       bool isVolatile);
  /// Whether lanes that lie `steps` elements apart are better moved by whole registers than one by
  /// one: neighbours in reverse order, and up to four elements apart.
  static bool isSpread(int64_t steps) { return steps == -1 || (steps >= 2 && steps <= 4); }
  /// Whether this also holds for lanes under a mask: the masks of the registers are shuffled, too.
  bool canMaskSpread() const { return features.vectorBytes == 64; }
  /// Lanes `steps` elements apart (`isSpread`), the first at `first`. Without a mask it loads the
  /// elements between them, too, but none before the first or behind the last. `mask` (null: all,
  /// else `canMaskSpread`), `other`: as for maskedLoad.
  mlir::Value loadSpread(mlir::Type element, mlir::Value first, int64_t steps, int64_t width,
                         mlir::Value mask = {}, mlir::Value other = {});
  /// Whether they can be stored so, which takes masked stores unless they are neighbours.
  bool canStoreSpread(int64_t steps) const {
    return steps == -1 || (isSpread(steps) && features.vectorBytes == 64);
  }
  /// Stores them (`canStoreSpread`), and writes nothing in between. `mask`: as for loadSpread.
  void storeSpread(mlir::Type element, mlir::Value first, int64_t steps, mlir::Value value,
                   mlir::Value mask = {});
  /// A scalar load or store under a scalar condition.
  mlir::Value guardedLoad(mlir::Type element, mlir::Value pointer, mlir::Value condition,
                          mlir::Value other, bool isVolatile = false);
  void guardedStore(mlir::Type element, mlir::Value pointer, mlir::Value value,
                    mlir::Value condition);

  //--- elementwise ops ---
  /// True for the ops that `elementwise` lowers.
  static bool isElementwise(mlir::Operation *op);
  /// `op` applied to operands that are already scalars or lanes of one width. `tileTypes` of the
  /// operands are taken from `op` itself.
  mlir::Value elementwise(mlir::Operation *op, llvm::ArrayRef<mlir::Value> operands, int64_t width);
  /// Conversion between float types of the tile dialect (f8 in i8).
  mlir::Value convertFloat(mlir::Value value, mlir::Type from, mlir::Type to,
                           bool towardsZero = false);
  /// Numbers of f32, each of which is one of bf16 or NaN, as bf16.
  mlir::Value upperHalf(mlir::Value value);
  /// The constant of `attribute` (IntegerAttr or FloatAttr) as lowered scalar.
  mlir::Value constantOf(mlir::Attribute attribute, mlir::Type element);
  mlir::Value zero(mlir::Type element, int64_t width);
  /// The combiner region of a reduce or scan on operands that are scalars or lanes.
  llvm::SmallVector<mlir::Value> combine(mlir::Region &region, llvm::ArrayRef<mlir::Value> lhs,
                                         llvm::ArrayRef<mlir::Value> rhs, int64_t width);

  /// The lowered form of a scalar defined outside a combiner's region.
  std::function<mlir::Value(mlir::Value)> outside;

  /// Where constants are put, once each; null: where they are asked for.
  mlir::Block *constantBlock = nullptr;

private:
  mlir::Value constantOp(mlir::TypedAttr value);
  llvm::DenseMap<std::pair<mlir::Attribute, mlir::Type>, mlir::Value> constants;
  llvm::DenseMap<std::tuple<mlir::Value, int64_t, int64_t>, mlir::Value> displacements;
  mlir::Type memoryLanes(mlir::Type element, int64_t width) const;
  mlir::Value spreadMask(mlir::Value mask, int64_t steps, int64_t start, int64_t width);
  mlir::Value toMemory(mlir::Type element, mlir::Value value);
  mlir::Value fromMemory(mlir::Type element, mlir::Value value);
  mlir::Value clone(mlir::Operation *op, llvm::ArrayRef<mlir::Value> operands, mlir::Type result);
};

} // namespace nereid::cpu
