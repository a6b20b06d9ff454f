// Where the elements of a tensor live: linear maps over bits.
//
// A GPU holds a tensor of 2^n elements in the registers of many threads, or in shared memory. In
// every arrangement that the hardware's instructions want, the coordinates of an element are XORs
// of constants, one per bit of its place. Take a 4 x 8 tensor over 8 lanes with 4 registers each, a
// lane holding a row of 4:
//
//     register bit 0 → (0, 1)      lane bit 0 → (0, 4)
//     register bit 1 → (0, 2)      lane bit 1 → (1, 0)
//                                  lane bit 2 → (2, 0)
//
// Register 3 of lane 5 holds (0,1) ^ (0,2) ^ (0,4) ^ (2,0) = (2, 7). This is a matrix over GF(2),
// the numbers 0 and 1 with XOR for a sum: a column per bit of the place, a row per bit of the
// coordinates. All that a compiler asks about layouts is linear algebra on such matrices:
//
//   - Going from layout A to layout B means solving A(x) = B(y) for x: with B's place y given, the
//     data comes from the place A⁻¹(B(y)) (`invertAndCompose`).
//   - If that map is the identity on lanes and warps, only registers are renamed; if it is the
//     identity on warps, shuffles do; else the data goes through shared memory.
//   - Elements next to each other in a thread's registers that are next to each other in memory:
//     the leading columns of `memory⁻¹ ∘ layout` being the identity says how wide an access may be.
//   - Swizzled shared memory is a matrix too: an XOR of address bits with row bits. Which lanes
//     meet in one bank is a rank.
//   - A column of zeros: two places hold the same element (a broadcast). A thread is the owner of
//   an
//     element when all such bits of its index are 0.
//
// Dimensions need not be powers of two: a size s = 2^k · odd is a core of 2^k, to which the map
// applies, repeated `odd` times. The repeats of all dimensions stand outside the matrix and count
// slowest, in row-major order of the dimensions: in registers for a distributed layout
// (register = coreRegister + coreRegisters · repeat), in the offset for shared memory. Which
// repeats there are follows from the tensor's shape, so the map itself only knows the core
// (`coreShape`).
//
// The idea is published as "Linear Layouts: Robust Code Generation of Efficient Tensor Computation
// Using F2" (Zhou et al., arXiv 2505.23819). This library is free of MLIR.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/raw_ostream.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace nereid::layout {

/// What an index of a place counts. A distributed layout uses Register, Lane, Warp and (clusters)
/// Block; a shared-memory layout uses Offset, which counts elements, and Block.
enum class Axis : uint8_t { Register, Lane, Warp, Block, Offset };
constexpr unsigned kAxes = 5;
llvm::StringRef axisName(Axis axis); // "register", "lane", ...

/// The coordinates of one basis vector, an entry per dimension.
using Coords = llvm::SmallVector<int32_t, 4>;

/// The core of a size: its largest power-of-two factor; and the odd rest.
int64_t coreSize(int64_t size);
int64_t repeatCount(int64_t size);
llvm::SmallVector<int64_t, 4> coreShape(llvm::ArrayRef<int64_t> shape);

/// A matrix over GF(2), stored by columns; at most 64 rows and 64 columns. Bit i of a column is its
/// row i.
class BitMatrix {
public:
  BitMatrix(unsigned rows, llvm::ArrayRef<uint64_t> columns);
  static BitMatrix identity(unsigned n);

  unsigned rows() const { return rowCount; }
  unsigned columns() const { return cols.size(); }
  uint64_t column(unsigned i) const { return cols[i]; }

  /// The product with a vector.
  uint64_t apply(uint64_t x) const;
  BitMatrix operator*(const BitMatrix &right) const;
  bool operator==(const BitMatrix &) const = default;
  /// The rows of `below` under these; as many columns.
  BitMatrix stacked(const BitMatrix &below) const;

  unsigned rank() const;
  /// A basis of all x with apply(x) == 0.
  llvm::SmallVector<uint64_t> kernel() const;
  /// The set (bit i: column i) of columns that depend on earlier ones.
  uint64_t redundantColumns() const;
  /// The x with apply(x) == y that has zeros in all redundant columns, or nothing.
  std::optional<uint64_t> solve(uint64_t y) const;
  /// The X with (*this) * X == right that has zeros in all redundant columns, or nothing.
  std::optional<BitMatrix> solve(const BitMatrix &right) const;
  /// Some X with (*this) * X * (*this) == *this; columns of X are solutions with zeros in redundant
  /// (linearly dependent on earlier) columns. The inverse when there is one.
  BitMatrix pseudoInverse() const;
  std::optional<BitMatrix> inverse() const;

private:
  unsigned rowCount;
  llvm::SmallVector<uint64_t, 16> cols;
};

class LinearLayout {
public:
  /// Every place has no bits: the layout of a tensor of one element in one place.
  LinearLayout() = default;
  /// `shape`: power-of-two sizes (the core). `bases[axis][bit]`: coordinates, one per dimension,
  /// each below its size.
  LinearLayout(llvm::ArrayRef<int64_t> shape,
               const std::array<llvm::SmallVector<Coords, 8>, kAxes> &bases);
  /// The same with coordinates packed as `flat` packs them.
  using Columns = llvm::SmallVector<uint64_t, 8>;
  static LinearLayout fromFlat(llvm::ArrayRef<int64_t> shape, std::array<Columns, kAxes> columns);

  unsigned rank() const { return sizes.size(); }
  /// The power-of-two core sizes.
  llvm::ArrayRef<int64_t> shape() const { return sizes; }
  int64_t elements() const;

  unsigned bits(Axis axis) const { return columns[unsigned(axis)].size(); }
  int64_t size(Axis axis) const { return int64_t(1) << bits(axis); }
  /// The coordinates that a bit contributes, and all of an axis.
  Coords basis(Axis axis, unsigned bit) const { return unflat(columns[unsigned(axis)][bit]); }
  llvm::SmallVector<Coords, 8> bases(Axis axis) const;
  /// The same packed as `flat` packs them: what loops over many bits should use.
  llvm::ArrayRef<uint64_t> flatBases(Axis axis) const { return columns[unsigned(axis)]; }

  /// Coordinates (in the core) of a place.
  Coords apply(Axis axis, int64_t index) const;
  Coords apply(int64_t reg, int64_t lane, int64_t warp = 0, int64_t block = 0) const;
  /// The packed coordinates of a place.
  uint64_t applyFlat(Axis axis, int64_t index) const;
  /// The coordinates packed into one row-major index of the core: dimension 0 slowest.
  int64_t flat(llvm::ArrayRef<int32_t> coords) const;
  Coords unflat(int64_t index) const;

  bool isSurjective() const;
  bool isInjective() const;
  bool isBijective() const { return isSurjective() && isInjective(); }
  /// Bits of an axis' index that hold no new element given all earlier bits, axes in the order
  /// Register, Lane, Warp, Block: those whose column depends on earlier columns. A store is made by
  /// the places in which all of these are 0.
  uint32_t freeBits(Axis axis) const;

  /// All columns side by side, axes in the order of the enumeration; rows are the bits of `flat`.
  BitMatrix matrix() const;

  //===--- new layouts from old ones
  //------------------------------------------------------------===//
  /// Block-diagonal product: this layout's bits of every axis come first (fastest), `outer` then
  /// tiles whole copies. Shapes multiply dimension by dimension; ranks are equal.
  LinearLayout operator*(const LinearLayout &outer) const;
  /// The X with `inner * X == *this`, if this layout consists of whole copies of `inner`.
  std::optional<LinearLayout> divideLeft(const LinearLayout &inner) const;
  /// The X with `X * outer == *this`.
  std::optional<LinearLayout> divideRight(const LinearLayout &outer) const;
  /// Dimension i of the result is dimension order[i].
  LinearLayout transposed(llvm::ArrayRef<int32_t> order) const;
  /// Without dimension `dim` (the layout of a reduction's result along it): places that differed in
  /// it now hold the same element. Register bits that become zero are removed (their order stays).
  LinearLayout sliced(unsigned dim) const;
  /// With a new dimension of size 1.
  LinearLayout expanded(unsigned dim) const;
  /// Dimension `dim` of size 1 grows to `size`, in registers (slowest bits): what a broadcast of a
  /// register-resident value gives.
  LinearLayout broadcastInRegisters(unsigned dim, int64_t size) const;
  /// The same elements in row-major order under another shape (the product of sizes is equal). This
  /// is the core's order: it is the tensor's too only if no repeated dimension is split or merged.
  LinearLayout reshaped(llvm::ArrayRef<int64_t> shape) const;
  /// Register bits whose column is zero or depends on earlier columns are removed.
  LinearLayout withoutRedundantRegisters() const;
  bool operator==(const LinearLayout &other) const;
  bool operator!=(const LinearLayout &other) const { return !(*this == other); }
  friend llvm::hash_code hash_value(const LinearLayout &layout);

  /// `register = [[0, 1], [0, 2]], lane = [[0, 4], [1, 0]], warp = [], shape = [4, 8]`: axes
  /// without bits are left out.
  void print(llvm::raw_ostream &os) const;
  std::string str() const;

private:
  llvm::SmallVector<int64_t, 4> sizes;
  std::array<Columns, kAxes> columns; // packed coordinates
};

/// A linear map from the places of one layout to those of another.
class PlaceMap {
public:
  PlaceMap(std::array<uint8_t, kAxes> fromBits, std::array<uint8_t, kAxes> toBits,
           BitMatrix matrix);
  /// The index on `to`'s axis `axis` for one index on `from`'s axis `from` (indices of several axes
  /// combine by XOR).
  int64_t apply(Axis from, int64_t index, Axis axis) const;
  /// The part of `axis` that index bit `bit` of `from` contributes.
  int64_t column(Axis from, unsigned bit, Axis axis) const {
    return apply(from, int64_t(1) << bit, axis);
  }
  /// Does the index on `axis` depend on `from` at all?
  bool dependsOn(Axis axis, Axis from) const;
  /// Is the index on `axis` simply that of the same axis of the source, whatever the other axes
  /// are?
  bool isIdentityOn(Axis axis) const;
  const BitMatrix &matrix() const { return map; }
  unsigned fromBits(Axis axis) const { return from[unsigned(axis)]; }
  unsigned toBits(Axis axis) const { return to[unsigned(axis)]; }

private:
  std::array<uint8_t, kAxes> from, to;
  BitMatrix map;
};

/// For every place of `at`, where `of` keeps the same element: y with of(y) == at(x), zeros in the
/// redundant bits of `of`. Both cover one shape, `of` is surjective.
PlaceMap locate(const LinearLayout &of, const LinearLayout &at);

/// The same with y equal to x on the axes `kept`, where `of` holds the elements there at all (its
/// redundant bits are then chosen to fit). Nothing if some element must come from elsewhere.
std::optional<PlaceMap> locateKeeping(const LinearLayout &of, const LinearLayout &at,
                                      llvm::ArrayRef<Axis> kept);

} // namespace nereid::layout
