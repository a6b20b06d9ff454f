// How wide an access to shared memory is, how its lanes meet in banks, and whether ldmatrix and
// stmatrix fit.
#include "layout/Conversion.h"
#include "layout/Echelon.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace nereid::layout {
namespace {

/// The offsets, in elements, that the bits of a distributed place contribute.
struct Offsets {
  llvm::SmallVector<uint64_t, 8> registers, lanes, others; // others: warps and blocks

  Offsets(const LinearLayout &distributed, const LinearLayout &memory) {
    PlaceMap map = locate(memory, distributed);
    auto take = [&](Axis axis, llvm::SmallVector<uint64_t, 8> &columns) {
      for (unsigned bit = 0; bit < map.fromBits(axis); ++bit)
        columns.push_back(map.column(axis, bit, Axis::Offset));
    };
    take(Axis::Register, registers);
    take(Axis::Lane, lanes);
    take(Axis::Warp, others);
    take(Axis::Block, others);
  }

  /// Are bits 0..count-1 of the offset 0 in every column but those of the registers `except` (and
  /// the first lanes)?
  bool alignedBut(unsigned count, llvm::ArrayRef<unsigned> except, uint32_t exceptLanes = 0) const {
    uint64_t low = (uint64_t(1) << count) - 1;
    for (auto [bit, column] : llvm::enumerate(registers))
      if ((column & low) && !llvm::is_contained(except, bit))
        return false;
    for (auto [bit, column] : llvm::enumerate(lanes))
      if ((column & low) && !(exceptLanes >> bit & 1))
        return false;
    return llvm::all_of(others, [&](uint64_t column) { return (column & low) == 0; });
  }
};

/// Register bits whose offsets are 1, 2, 4, ...: at most `limit`.
llvm::SmallVector<unsigned, 4> consecutive(const Offsets &offsets, unsigned limit) {
  llvm::SmallVector<unsigned, 4> bits;
  while (bits.size() < limit) {
    auto *found = llvm::find(offsets.registers, uint64_t(1) << bits.size());
    if (found == offsets.registers.end())
      break;
    bits.push_back(found - offsets.registers.begin());
  }
  return bits;
}

VectorAccess vectorOf(const Offsets &offsets, unsigned elementBits, unsigned most) {
  VectorAccess access;
  unsigned limit = llvm::Log2_32(std::min(std::max(128 / std::max(elementBits, 8u), 1u), most));
  access.registerBits = consecutive(offsets, limit);
  while (!offsets.alignedBut(access.registerBits.size(), access.registerBits))
    access.registerBits.pop_back();
  access.elements = 1u << access.registerBits.size();
  return access;
}

} // namespace

VectorAccess vectorAccess(const LinearLayout &distributed, const LinearLayout &memory,
                          unsigned elementBits, unsigned most) {
  return vectorOf(Offsets(distributed, memory), elementBits, most);
}

unsigned bankConflicts(const LinearLayout &distributed, const LinearLayout &memory,
                       unsigned elementBits, unsigned most) {
  Offsets offsets(distributed, memory);
  elementBits = std::max(elementBits, 8u);
  unsigned bytes = vectorOf(offsets, elementBits, most).elements * elementBits / 8;
  unsigned lanes = bytes <= 4 ? 32 : 128 / bytes;
  // Lanes whose words differ, and how many of those share a bank: the words that a phase touches
  // are all sums of the lanes' columns (a vector of several words fills neighbouring banks, so that
  // its own low bits count for nothing).
  unsigned vectorBytes = llvm::Log2_32(std::max(bytes, 4u)),
           elementBytes = llvm::Log2_32(elementBits) - 3;
  Echelon words, banks;
  unsigned degree = 1;
  for (unsigned bit = 0; bit < offsets.lanes.size() && 1u << bit < lanes; ++bit) {
    uint64_t address = offsets.lanes[bit] << elementBytes >> vectorBytes;
    uint64_t bankMask = (128u >> vectorBytes) - 1;
    bool newWord = words.insert(address, bit), newBank = banks.insert(address & bankMask, bit);
    if (newWord && !newBank)
      degree *= 2;
  }
  return degree;
}

std::optional<MatrixAccess> matrixAccess(const LinearLayout &distributed,
                                         const LinearLayout &memory, unsigned elementBits) {
  if (distributed.bits(Axis::Lane) != 5 ||
      (elementBits != 8 && elementBits != 16 && elementBits != 32))
    return std::nullopt;
  Offsets offsets(distributed, memory);
  llvm::ArrayRef<uint64_t> lanes = offsets.lanes;
  unsigned wordBits = 5 - llvm::Log2_32(elementBits), rowBits = wordBits + 2;
  MatrixAccess access;
  std::array<uint64_t, 3> rows;

  // A row of a matrix is 16 bytes, from 4 lanes with a word each: lane bits 0 and 1 go along it,
  // the others count rows.
  access.wordBits = consecutive(offsets, wordBits);
  if (access.wordBits.size() == wordBits && lanes[0] == uint64_t(1) << wordBits &&
      lanes[1] == uint64_t(2) << wordBits && offsets.alignedBut(rowBits, access.wordBits, 0b11)) {
    rows = {lanes[2], lanes[3], lanes[4]};
  } else if (elementBits == 16 && lanes[2] == 1 && lanes[3] == 2 && lanes[4] == 4 &&
             offsets.alignedBut(rowBits, {}, 0b11100)) {
    // Transposed, a lane's word comes from two rows: lane bits 2 to 4 go along the row.
    access.transposed = true;
    auto *other = llvm::find_if(offsets.registers, [](uint64_t column) { return column != 0; });
    if (other == offsets.registers.end())
      return std::nullopt;
    access.wordBits = {unsigned(other - offsets.registers.begin())};
    rows = {*other, lanes[0], lanes[1]};
  } else {
    return std::nullopt;
  }

  access.laneOffsets.assign(rows.begin(), rows.end());
  uint32_t copies = distributed.freeBits(Axis::Register);
  for (auto [bit, column] : llvm::enumerate(offsets.registers))
    if (access.matrixBits.size() < 2 && !(copies >> bit & 1) &&
        !llvm::is_contained(access.wordBits, bit)) {
      access.matrixBits.push_back(bit);
      access.laneOffsets.push_back(column);
    }
  access.matrices = 1u << access.matrixBits.size();
  access.laneOffsets.resize(5, 0);
  return access;
}

unsigned bankConflicts(const MatrixAccess &access, unsigned elementBits) {
  unsigned degree = 1;
  Echelon rows, banks;
  for (unsigned bit = 0; bit < 3; ++bit) {
    uint64_t row = access.laneOffsets[bit] * (elementBits / 8) / 16;
    bool newRow = rows.insert(row, bit), newBank = banks.insert(row & 7, bit);
    if (newRow && !newBank)
      degree *= 2;
  }
  return degree;
}

SharedAccess sharedAccess(const LinearLayout &distributed, const LinearLayout &memory,
                          unsigned elementBits, bool matrices, unsigned most) {
  SharedAccess access;
  access.vector = vectorAccess(distributed, memory, elementBits, most);
  if (matrices && access.vector.elements * elementBits < 128)
    access.matrix = matrixAccess(distributed, memory, elementBits);
  access.conflicts = access.matrix ? bankConflicts(*access.matrix, elementBits)
                                   : bankConflicts(distributed, memory, elementBits, most);
  unsigned registers = 1u << (distributed.bits(Axis::Register) -
                              llvm::popcount(distributed.freeBits(Axis::Register)));
  unsigned elements = access.vector.elements, words = elements * std::max(elementBits, 8u) / 32;
  if (access.matrix) {
    words = access.matrix->matrices;
    elements = words << access.matrix->wordBits.size();
  }
  access.cost.instructions = std::max(registers / elements, 1u);
  access.cost.turns = access.cost.instructions * std::max(words, 1u) * access.conflicts;
  return access;
}

} // namespace nereid::layout
