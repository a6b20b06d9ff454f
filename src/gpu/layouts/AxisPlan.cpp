#include "gpu/layouts/AxisPlan.h"

#include "ir/ngpu/Dialect.h"
#include "layout/Constructors.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::gpu {
namespace {

uint64_t sum(ArrayRef<uint64_t> columns, uint64_t index) {
  uint64_t result = 0;
  for (; index; index &= index - 1)
    result ^= columns[llvm::countr_zero(index)];
  return result;
}

uint32_t sum(ArrayRef<uint32_t> columns, uint64_t index) {
  uint32_t result = 0;
  for (; index; index &= index - 1)
    result ^= columns[llvm::countr_zero(index)];
  return result;
}

/// A subspace of axis indices: vectors by their highest bit.
struct Subspace {
  std::array<uint32_t, 32> byHighest{};

  uint32_t reduce(uint32_t vector) const {
    for (int bit = 31; bit >= 0; --bit)
      if ((vector >> bit & 1) && byHighest[bit])
        vector ^= byHighest[bit];
    return vector;
  }
  bool add(uint32_t vector) {
    vector = reduce(vector);
    if (!vector)
      return false;
    byHighest[llvm::Log2_32(vector)] = vector;
    return true;
  }
  /// The coordinates of a vector modulo this space, packed in order.
  uint32_t quotient(uint32_t vector, unsigned bits) const {
    vector = reduce(vector);
    uint32_t result = 0;
    for (unsigned bit = 0, out = 0; bit < bits; ++bit)
      if (!byHighest[bit])
        result |= (vector >> bit & 1) << out++;
    return result;
  }
};

} // namespace

AxisPlan::AxisPlan(const LinearLayout &layout, unsigned axis, bool ordered) {
  ArrayRef<int64_t> shape = layout.shape();
  axisBits = llvm::Log2_64(shape[axis]);
  SmallVector<int64_t> others(shape);
  others.erase(others.begin() + axis);
  unsigned below = 0, otherBits = 0;
  for (unsigned dim = axis + 1; dim < shape.size(); ++dim)
    below += llvm::Log2_64(shape[dim]);
  for (int64_t size : others)
    otherBits += llvm::Log2_64(size);

  // The columns of n and a of all places side by side: registers, lanes, warps.
  SmallVector<uint64_t> other, along;
  std::array<unsigned, 3> bits;
  for (unsigned part = 0; part < 3; ++part) {
    bits[part] = layout.bits(Axis(part));
    for (uint64_t column : layout.flatBases(Axis(part))) {
      uint64_t a = column >> below & (shape[axis] - 1);
      along.push_back(a);
      other.push_back(column >> (below + axisBits) << below |
                      (column & ((uint64_t(1) << below) - 1)));
      (part == 0 ? axisOfRegister : part == 1 ? axisOfLane : axisOfWarp).push_back(a);
    }
  }
  otherOfRegister.assign(other.begin(), other.begin() + bits[0]);
  auto registerPart = [&](uint64_t place) { return uint32_t(place & ((1ull << bits[0]) - 1)); };
  auto lanePart = [&](uint64_t place) {
    return uint32_t(place >> bits[0] & ((1ull << bits[1]) - 1));
  };
  auto warpPart = [&](uint64_t place) { return place >> (bits[0] + bits[1]); };

  Subspace done;
  if (ordered) {
    for (unsigned bit = 0; bit < axisBits; ++bit) {
      SmallVector<uint64_t> columns;
      for (auto [n, a] : llvm::zip_equal(other, along))
        columns.push_back(n | (a >> bit) << otherBits);
      auto place = BitMatrix(otherBits + axisBits, columns).solve(uint64_t(1) << otherBits);
      assert(place && "a layout covers its tensor");
      if (warpPart(*place))
        break;
      done.add(1u << bit);
      steps.push_back({registerPart(*place), lanePart(*place), bit});
    }
  } else {
    for (unsigned places : {bits[0], bits[0] + bits[1]})
      for (uint64_t place : BitMatrix(otherBits, ArrayRef(other).take_front(places)).kernel())
        if (done.add(sum(ArrayRef(along), place)))
          steps.push_back({registerPart(place), lanePart(place), 0});
  }
  partialBits = axisBits - steps.size();
  if (!partialBits)
    return;

  auto quotients = [&](ArrayRef<uint32_t> columns, SmallVectorImpl<uint32_t> &result) {
    for (uint32_t column : columns)
      result.push_back(done.quotient(column, axisBits));
  };
  quotients(axisOfRegister, partialOfRegister);
  quotients(axisOfLane, partialOfLane);
  quotients(axisOfWarp, partialOfWarp);

  SmallVector<int64_t> whole{int64_t(1) << partialBits};
  whole.append(others.begin(), others.end());
  std::array<LinearLayout::Columns, kAxes> from, to;
  // Lanes that would read the same share the partial results, but for four, which are one access.
  heldBits = partialBits;
  if (!ordered)
    for (unsigned bit = 0; bit < bits[1] && heldBits > 2; ++bit)
      if (!other[bits[0] + bit]) {
        --heldBits;
        spread.push_back(1u << bit);
      }
  for (unsigned bit = 0; bit < heldBits; ++bit)
    to[0].push_back(uint64_t(1) << (bit + otherBits));
  for (unsigned part = 0, place = 0; part < 3; ++part)
    for (unsigned bit = 0; bit < bits[part]; ++bit, ++place) {
      ArrayRef<uint32_t> partial = part == 0   ? partialOfRegister
                                   : part == 1 ? partialOfLane
                                               : partialOfWarp;
      from[part].push_back(uint64_t(partial[bit]) << otherBits | other[place]);
      if (part == 0) {
        if (other[place]) {
          to[0].push_back(other[place]);
          rows *= 2;
        }
      } else {
        auto *shared = part == 1 ? llvm::find(spread, 1u << bit) : spread.end();
        to[part].push_back(shared == spread.end()
                               ? other[place]
                               : uint64_t(1) << (heldBits + (shared - spread.begin()) + otherBits));
      }
    }
  stored = LinearLayout::fromFlat(whole, std::move(from));
  loaded = LinearLayout::fromFlat(whole, std::move(to));
  SmallVector<unsigned> order;
  for (unsigned dim = whole.size(); dim-- > 0;)
    order.push_back(dim);
  memory = sharedLinear(whole, order);
}

uint32_t AxisPlan::axisIndex(unsigned reg) const {
  return sum(ArrayRef(axisOfRegister), reg);
}
uint32_t AxisPlan::partialIndex(unsigned reg) const {
  return sum(ArrayRef(partialOfRegister), reg);
}
uint64_t AxisPlan::otherIndex(unsigned reg) const {
  return sum(ArrayRef(otherOfRegister), reg);
}

unsigned AxisPlan::rowOf(unsigned reg) const {
  unsigned row = 0;
  for (unsigned bit = 0, out = 0; bit < otherOfRegister.size(); ++bit)
    if (otherOfRegister[bit])
      row |= (reg >> bit & 1) << out++;
  return row;
}

AxisScratch axisScratch(const AxisPlan &plan, TypeRange tensors, unsigned copies) {
  AxisScratch scratch;
  if (!plan.partialBits)
    return scratch;
  scratch.copies = copies;
  for (Type type : tensors) {
    uint32_t bytes = plan.memory.size(Axis::Offset) *
                     tile::sizeInBytes(cast<RankedTensorType>(type).getElementType());
    bytes = llvm::alignTo(bytes, 16);
    scratch.offsets.push_back(scratch.bytes);
    scratch.copyBytes.push_back(bytes);
    scratch.bytes += bytes * copies;
  }
  return scratch;
}

unsigned axisCopies(RankedTensorType type, unsigned axis, bool foldsRepeats) {
  unsigned copies = 1;
  for (auto [dim, size] : llvm::enumerate(type.getShape()))
    if (dim != axis || !foldsRepeats)
      copies *= repeatCount(size);
  return copies;
}

} // namespace nereid::gpu
