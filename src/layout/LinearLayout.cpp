#include "layout/LinearLayout.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

namespace nereid::layout {
namespace {

constexpr std::array<Axis, kAxes> kAllAxes = {Axis::Register, Axis::Lane, Axis::Warp, Axis::Block,
                                              Axis::Offset};

unsigned shapeBits(llvm::ArrayRef<int64_t> shape) {
  unsigned bits = 0;
  for (int64_t size : shape)
    bits += llvm::Log2_64(size);
  return bits;
}

/// Rewrites packed coordinates: `repack(flat, from, order, shifts, to)` puts dimension order[i] of
/// `from`, moved up by shifts[i] bits (down if negative), at dimension i of `to`.
uint64_t repack(uint64_t flat, llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int32_t> order,
                llvm::ArrayRef<int> shifts, llvm::ArrayRef<int64_t> to) {
  std::array<uint64_t, 32> parts;
  assert(from.size() <= parts.size() && "ranks are small");
  for (unsigned dim = from.size(); dim-- > 0;) {
    parts[dim] = flat & (from[dim] - 1);
    flat >>= llvm::Log2_64(from[dim]);
  }
  uint64_t result = 0;
  for (unsigned dim = 0; dim < to.size(); ++dim) {
    uint64_t part = parts[order[dim]];
    part = shifts[dim] < 0 ? part >> -shifts[dim] : part << shifts[dim];
    assert(part < uint64_t(to[dim]) && "a coordinate exceeds its size");
    result = result << llvm::Log2_64(to[dim]) | part;
  }
  return result;
}

llvm::SmallVector<int32_t, 4> inOrder(unsigned rank) {
  return llvm::to_vector<4>(llvm::seq<int32_t>(0, rank));
}

} // namespace

llvm::StringRef axisName(Axis axis) {
  constexpr std::array<llvm::StringLiteral, kAxes> names = {"register", "lane", "warp", "block",
                                                            "offset"};
  return names[unsigned(axis)];
}

int64_t coreSize(int64_t size) {
  assert(size > 0 && "a dimension has a size");
  return size & -size;
}

int64_t repeatCount(int64_t size) {
  return size / coreSize(size);
}

llvm::SmallVector<int64_t, 4> coreShape(llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<int64_t, 4> core;
  for (int64_t size : shape)
    core.push_back(coreSize(size));
  return core;
}

LinearLayout LinearLayout::fromFlat(llvm::ArrayRef<int64_t> shape,
                                    std::array<Columns, kAxes> columns) {
  LinearLayout layout;
  layout.sizes.assign(shape.begin(), shape.end());
  layout.columns = std::move(columns);
  assert(llvm::all_of(shape, [](int64_t size) { return llvm::isPowerOf2_64(size); }) &&
         "a layout covers a core");
  for ([[maybe_unused]] const Columns &axis : layout.columns)
    for ([[maybe_unused]] uint64_t column : axis)
      assert(column < uint64_t(layout.elements()) && "a coordinate exceeds its size");
  return layout;
}

LinearLayout::LinearLayout(llvm::ArrayRef<int64_t> shape,
                           const std::array<llvm::SmallVector<Coords, 8>, kAxes> &bases)
    : sizes(shape.begin(), shape.end()) {
  assert(llvm::all_of(shape, [](int64_t size) { return llvm::isPowerOf2_64(size); }) &&
         "a layout covers a core");
  for (auto [axis, vectors] : llvm::zip_equal(columns, bases))
    for (const Coords &vector : vectors)
      axis.push_back(flat(vector));
}

int64_t LinearLayout::elements() const {
  return int64_t(1) << shapeBits(sizes);
}

llvm::SmallVector<Coords, 8> LinearLayout::bases(Axis axis) const {
  llvm::SmallVector<Coords, 8> result;
  for (uint64_t column : flatBases(axis))
    result.push_back(unflat(column));
  return result;
}

uint64_t LinearLayout::applyFlat(Axis axis, int64_t index) const {
  llvm::ArrayRef<uint64_t> bits = flatBases(axis);
  assert(uint64_t(index) >> bits.size() == 0 && "an index exceeds its axis");
  uint64_t result = 0;
  for (uint64_t rest = index; rest; rest &= rest - 1)
    result ^= bits[llvm::countr_zero(rest)];
  return result;
}

Coords LinearLayout::apply(Axis axis, int64_t index) const {
  return unflat(applyFlat(axis, index));
}

Coords LinearLayout::apply(int64_t reg, int64_t lane, int64_t warp, int64_t block) const {
  return unflat(applyFlat(Axis::Register, reg) ^ applyFlat(Axis::Lane, lane) ^
                applyFlat(Axis::Warp, warp) ^ applyFlat(Axis::Block, block));
}

int64_t LinearLayout::flat(llvm::ArrayRef<int32_t> coords) const {
  assert(coords.size() == rank() && "a coordinate per dimension");
  int64_t index = 0;
  for (auto [coord, size] : llvm::zip_equal(coords, sizes)) {
    assert(coord >= 0 && coord < size && "a coordinate exceeds its size");
    index = index * size + coord;
  }
  return index;
}

Coords LinearLayout::unflat(int64_t index) const {
  Coords coords(rank());
  for (unsigned dim = rank(); dim-- > 0; index >>= llvm::Log2_64(sizes[dim]))
    coords[dim] = index & (sizes[dim] - 1);
  return coords;
}

BitMatrix LinearLayout::matrix() const {
  llvm::SmallVector<uint64_t, 32> all;
  for (const Columns &axis : columns)
    all.append(axis.begin(), axis.end());
  return BitMatrix(shapeBits(sizes), all);
}

bool LinearLayout::isSurjective() const {
  BitMatrix all = matrix();
  return all.rank() == all.rows();
}

bool LinearLayout::isInjective() const {
  return matrix().redundantColumns() == 0;
}

uint32_t LinearLayout::freeBits(Axis axis) const {
  uint64_t redundant = matrix().redundantColumns();
  for (unsigned before = 0; before < unsigned(axis); ++before)
    redundant >>= columns[before].size();
  return redundant & ((uint64_t(1) << bits(axis)) - 1);
}

LinearLayout LinearLayout::operator*(const LinearLayout &outer) const {
  assert(rank() == outer.rank() && "a product needs layouts of one rank");
  llvm::SmallVector<int64_t, 4> shape;
  llvm::SmallVector<int, 4> none(rank(), 0), up;
  for (auto [inside, outside] : llvm::zip_equal(sizes, outer.sizes)) {
    shape.push_back(inside * outside);
    up.push_back(llvm::Log2_64(inside));
  }
  std::array<Columns, kAxes> result;
  llvm::SmallVector<int32_t, 4> order = inOrder(rank());
  for (Axis axis : kAllAxes) {
    for (uint64_t column : flatBases(axis))
      result[unsigned(axis)].push_back(repack(column, sizes, order, none, shape));
    for (uint64_t column : outer.flatBases(axis))
      result[unsigned(axis)].push_back(repack(column, outer.sizes, order, up, shape));
  }
  return fromFlat(shape, std::move(result));
}

/// The factor of `whole` beside `known`, whose bits are the first (`left`) or the last of each
/// axis.
static std::optional<LinearLayout> divide(const LinearLayout &whole, const LinearLayout &known,
                                          bool left) {
  if (whole.rank() != known.rank())
    return std::nullopt;
  llvm::SmallVector<int64_t, 4> shape;
  for (auto [size, part] : llvm::zip_equal(whole.shape(), known.shape())) {
    if (size < part)
      return std::nullopt;
    shape.push_back(size / part);
  }
  std::array<llvm::SmallVector<Coords, 8>, kAxes> bases;
  for (Axis axis : kAllAxes) {
    if (whole.bits(axis) < known.bits(axis))
      return std::nullopt;
    llvm::SmallVector<Coords, 8> vectors = whole.bases(axis);
    llvm::ArrayRef<Coords> rest(vectors);
    rest = left ? rest.drop_front(known.bits(axis)) : rest.drop_back(known.bits(axis));
    // The inner factor's coordinates fill the low bits, the outer factor's are multiples of it.
    for (const Coords &vector : rest) {
      Coords scaled(vector);
      for (unsigned dim = 0; dim < whole.rank(); ++dim) {
        if (left ? vector[dim] % known.shape()[dim] != 0 : vector[dim] >= shape[dim])
          return std::nullopt;
        scaled[dim] = left ? vector[dim] / known.shape()[dim] : vector[dim];
      }
      bases[unsigned(axis)].push_back(scaled);
    }
  }
  LinearLayout other(shape, bases);
  if ((left ? known * other : other * known) != whole)
    return std::nullopt;
  return other;
}

std::optional<LinearLayout> LinearLayout::divideLeft(const LinearLayout &inner) const {
  return divide(*this, inner, true);
}

std::optional<LinearLayout> LinearLayout::divideRight(const LinearLayout &outer) const {
  return divide(*this, outer, false);
}

LinearLayout LinearLayout::transposed(llvm::ArrayRef<int32_t> order) const {
  assert(order.size() == rank() && "a permutation of the dimensions");
  llvm::SmallVector<int64_t, 4> shape;
  for (int32_t dim : order)
    shape.push_back(sizes[dim]);
  llvm::SmallVector<int, 4> none(rank(), 0);
  std::array<Columns, kAxes> result = columns;
  for (Columns &axis : result)
    for (uint64_t &column : axis)
      column = repack(column, sizes, order, none, shape);
  return fromFlat(shape, std::move(result));
}

LinearLayout LinearLayout::sliced(unsigned dim) const {
  assert(dim < rank() && "no such dimension");
  llvm::SmallVector<int64_t, 4> shape(sizes);
  shape.erase(shape.begin() + dim);
  llvm::SmallVector<int32_t, 4> order = inOrder(rank());
  order.erase(order.begin() + dim);
  llvm::SmallVector<int, 4> none(shape.size(), 0);
  std::array<Columns, kAxes> result = columns;
  for (Columns &axis : result)
    for (uint64_t &column : axis)
      column = repack(column, sizes, order, none, shape);
  llvm::erase(result[unsigned(Axis::Register)], 0);
  return fromFlat(shape, std::move(result));
}

LinearLayout LinearLayout::expanded(unsigned dim) const {
  assert(dim <= rank() && "no such dimension");
  LinearLayout result = *this;
  result.sizes.insert(result.sizes.begin() + dim, 1);
  return result;
}

LinearLayout LinearLayout::broadcastInRegisters(unsigned dim, int64_t size) const {
  assert(dim < rank() && sizes[dim] == 1 && llvm::isPowerOf2_64(size) && "size 1 grows to a core");
  LinearLayout copies;
  copies.sizes.assign(rank(), 1);
  copies.sizes[dim] = size;
  for (int64_t index = 1; index < size; index *= 2) {
    Coords vector(rank(), 0);
    vector[dim] = index;
    copies.columns[unsigned(Axis::Register)].push_back(copies.flat(vector));
  }
  return *this * copies;
}

LinearLayout LinearLayout::reshaped(llvm::ArrayRef<int64_t> shape) const {
  assert(shapeBits(shape) == shapeBits(sizes) && "a reshape keeps the number of elements");
  return fromFlat(shape, columns); // packed coordinates are the row-major index
}

LinearLayout LinearLayout::withoutRedundantRegisters() const {
  uint32_t redundant = freeBits(Axis::Register);
  LinearLayout result = *this;
  Columns &registers = result.columns[unsigned(Axis::Register)];
  registers.clear();
  for (auto [bit, column] : llvm::enumerate(flatBases(Axis::Register)))
    if (!(redundant >> bit & 1))
      registers.push_back(column);
  return result;
}

bool LinearLayout::operator==(const LinearLayout &other) const {
  return sizes == other.sizes && columns == other.columns;
}

llvm::hash_code hash_value(const LinearLayout &layout) {
  llvm::hash_code hash = llvm::hash_combine_range(layout.sizes);
  for (const LinearLayout::Columns &axis : layout.columns)
    hash = llvm::hash_combine(hash, axis.size(), llvm::hash_combine_range(axis));
  return hash;
}

void LinearLayout::print(llvm::raw_ostream &os) const {
  auto vector = [&](const auto &numbers) {
    os << '[';
    llvm::interleaveComma(numbers, os);
    os << ']';
  };
  for (Axis axis : kAllAxes) {
    if (bits(axis) == 0)
      continue;
    os << axisName(axis) << " = [";
    llvm::interleaveComma(bases(axis), os, vector);
    os << "], ";
  }
  os << "shape = ";
  vector(sizes);
}

std::string LinearLayout::str() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  print(os);
  return text;
}

PlaceMap::PlaceMap(std::array<uint8_t, kAxes> fromBits, std::array<uint8_t, kAxes> toBits,
                   BitMatrix matrix)
    : from(fromBits), to(toBits), map(std::move(matrix)) {
  assert(llvm::sum_of(from) == int(map.columns()) && llvm::sum_of(to) == int(map.rows()) &&
         "the matrix must fit the places");
}

/// The first bit of an axis when all axes stand side by side.
static unsigned axisStart(const std::array<uint8_t, kAxes> &bits, Axis axis) {
  unsigned start = 0;
  for (unsigned before = 0; before < unsigned(axis); ++before)
    start += bits[before];
  return start;
}

static uint64_t lowMask(unsigned bits) {
  return (uint64_t(1) << bits) - 1;
}

int64_t PlaceMap::apply(Axis source, int64_t index, Axis axis) const {
  assert(uint64_t(index) <= lowMask(fromBits(source)) && "an index exceeds its axis");
  uint64_t place = map.apply(uint64_t(index) << axisStart(from, source));
  return place >> axisStart(to, axis) & lowMask(toBits(axis));
}

bool PlaceMap::dependsOn(Axis axis, Axis source) const {
  for (unsigned bit = 0; bit < fromBits(source); ++bit)
    if (column(source, bit, axis) != 0)
      return true;
  return false;
}

bool PlaceMap::isIdentityOn(Axis axis) const {
  if (fromBits(axis) != toBits(axis))
    return false;
  for (Axis source : kAllAxes)
    for (unsigned bit = 0; bit < fromBits(source); ++bit)
      if (column(source, bit, axis) != (source == axis ? int64_t(1) << bit : 0))
        return false;
  return true;
}

static std::array<uint8_t, kAxes> placeBits(const LinearLayout &layout) {
  std::array<uint8_t, kAxes> bits;
  for (Axis axis : kAllAxes)
    bits[unsigned(axis)] = layout.bits(axis);
  return bits;
}

PlaceMap locate(const LinearLayout &of, const LinearLayout &at) {
  std::optional<PlaceMap> map = locateKeeping(of, at, {});
  assert(map && "the source must hold every element");
  return *map;
}

std::optional<PlaceMap> locateKeeping(const LinearLayout &of, const LinearLayout &at,
                                      llvm::ArrayRef<Axis> kept) {
  assert(of.shape() == at.shape() && "layouts of one shape");
  std::array<uint8_t, kAxes> fromBits = placeBits(at), toBits = placeBits(of);
  BitMatrix source = of.matrix(), target = at.matrix();
  // Solve of(y) = at(x) together with y = x on the kept axes.
  for (Axis axis : kept) {
    if (fromBits[unsigned(axis)] != toBits[unsigned(axis)])
      return std::nullopt;
    auto selection = [&](const BitMatrix &matrix, unsigned start) {
      llvm::SmallVector<uint64_t, 32> columns(matrix.columns(), 0);
      for (unsigned bit = 0; bit < of.bits(axis); ++bit)
        columns[start + bit] = uint64_t(1) << bit;
      return matrix.stacked(BitMatrix(of.bits(axis), columns));
    };
    source = selection(source, axisStart(toBits, axis));
    target = selection(target, axisStart(fromBits, axis));
  }
  std::optional<BitMatrix> solution = source.solve(target);
  if (!solution)
    return std::nullopt;
  return PlaceMap(fromBits, toBits, std::move(*solution));
}

} // namespace nereid::layout
