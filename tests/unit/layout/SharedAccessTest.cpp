#include "Random.h"
#include "layout/Constructors.h"
#include "layout/Conversion.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

using namespace nereid::layout;

namespace {

/// The offsets, in elements, of all places.
struct OffsetTable {
  OffsetTable(const LinearLayout &distributed, const LinearLayout &memory) {
    PlaceMap map = locate(memory, distributed);
    auto fill = [&](Axis axis, std::vector<uint64_t> &offsets) {
      for (int64_t index = 0; index < distributed.size(axis); ++index)
        offsets.push_back(map.apply(axis, index, Axis::Offset));
    };
    fill(Axis::Register, registers);
    fill(Axis::Lane, lanes);
    fill(Axis::Warp, warps);
  }
  uint64_t at(size_t reg, size_t lane, size_t warp) const {
    return registers[reg] ^ lanes[lane] ^ warps[warp];
  }
  std::vector<uint64_t> registers, lanes, warps;
};

uint32_t spread(uint32_t index, llvm::ArrayRef<unsigned> bits) {
  uint32_t result = 0;
  for (auto [i, bit] : llvm::enumerate(bits))
    result |= (index >> i & 1) << bit;
  return result;
}

/// Turns that one phase takes: the most different words that fall into one bank.
unsigned wavefronts(std::vector<uint64_t> words) {
  llvm::sort(words);
  words.erase(std::unique(words.begin(), words.end()), words.end());
  std::array<unsigned, 32> banks{};
  for (uint64_t word : words)
    ++banks[word % 32];
  return *std::max_element(banks.begin(), banks.end());
}

/// Walks through every access of every warp: vectors are what they claim to be, and the banks are
/// counted one by one. Returns the greatest degree of conflict of an access.
unsigned checkAccesses(const LinearLayout &distributed, const LinearLayout &memory,
                       unsigned elementBits) {
  OffsetTable offsets(distributed, memory);
  VectorAccess vector = vectorAccess(distributed, memory, elementBits);
  EXPECT_EQ(vector.elements, 1u << vector.registerBits.size());
  EXPECT_LE(vector.elements * elementBits, std::max(128u, elementBits));
  uint32_t inVector = spread(vector.elements - 1, vector.registerBits);
  unsigned bytes = vector.elements * elementBits / 8, worst = 1;
  int64_t phaseLanes = bytes <= 4 ? 32 : 128 / bytes;
  for (int64_t warp = 0; warp < distributed.size(Axis::Warp); ++warp)
    for (int64_t reg = 0; reg < distributed.size(Axis::Register); ++reg) {
      if (reg & inVector)
        continue;
      std::vector<uint64_t> words;
      for (int64_t lane = 0; lane < distributed.size(Axis::Lane); ++lane) {
        if (lane % phaseLanes == 0)
          words.clear();
        uint64_t first = offsets.at(reg, lane, warp);
        EXPECT_EQ(first % vector.elements, 0u) << "an access is aligned";
        for (uint32_t i = 0; i < vector.elements; ++i)
          EXPECT_EQ(offsets.at(reg | spread(i, vector.registerBits), lane, warp), first + i);
        uint64_t address = first * elementBits / 8;
        for (uint64_t word = address / 4; word * 4 < address + bytes; ++word)
          words.push_back(word);
        if (lane % phaseLanes != phaseLanes - 1 && lane + 1 != distributed.size(Axis::Lane))
          continue;
        worst = std::max(worst, wavefronts(words));
      }
    }
  return worst;
}

/// ldmatrix as the PTX manual has it: lane l gives the address of row l % 8 of matrix l / 8, and
/// receives elements of row l / 4 (transposed: of column l / 4). Every register gets its element.
void checkMatrices(const LinearLayout &distributed, const LinearLayout &memory,
                   unsigned elementBits, const MatrixAccess &access) {
  OffsetTable offsets(distributed, memory);
  unsigned perRow = 128 / elementBits, perWord = 32 / elementBits;
  ASSERT_EQ(access.laneOffsets.size(), 5u);
  ASSERT_EQ(1u << access.wordBits.size(), perWord);
  ASSERT_EQ(1u << access.matrixBits.size(), access.matrices);
  uint32_t moved =
      spread(perWord - 1, access.wordBits) | spread(access.matrices - 1, access.matrixBits);
  for (int64_t warp = 0; warp < distributed.size(Axis::Warp); ++warp)
    for (int64_t reg = 0; reg < distributed.size(Axis::Register); ++reg) {
      if (reg & moved)
        continue;
      std::vector<uint64_t> rows;
      for (uint32_t lane = 0; lane < 8 * access.matrices; ++lane) {
        uint64_t address = offsets.at(reg, 0, warp);
        for (unsigned bit = 0; bit < 5; ++bit)
          if (lane >> bit & 1)
            address ^= access.laneOffsets[bit];
        ASSERT_EQ(address % perRow, 0u) << "rows are aligned to 16 bytes";
        rows.push_back(address);
      }
      for (unsigned matrix = 0; matrix < access.matrices; ++matrix)
        for (uint32_t lane = 0; lane < 32; ++lane)
          for (uint32_t i = 0; i < perWord; ++i) {
            uint32_t row = lane / 4, column = lane % 4 * perWord + i;
            if (access.transposed)
              std::swap(row, column);
            int64_t into = reg | spread(i, access.wordBits) | spread(matrix, access.matrixBits);
            ASSERT_EQ(rows[8 * matrix + row] + column, offsets.at(into, lane, warp));
          }
    }
  std::vector<uint64_t> words; // of one matrix
  for (unsigned row = 0; row < 8; ++row) {
    uint64_t address = 0;
    for (unsigned bit = 0; bit < 3; ++bit)
      if (row >> bit & 1)
        address ^= access.laneOffsets[bit];
    for (unsigned word = 0; word < 4; ++word)
      words.push_back(address * elementBits / 32 + word);
  }
  EXPECT_EQ(bankConflicts(access, elementBits), wavefronts(words));
}

} // namespace

TEST(VectorAccess, Widths) {
  LinearLayout rows = blocked({16, 64}, {1, 8}, {4, 8}, {4, 1}, {1, 0});
  LinearLayout memory = sharedLinear({16, 64}, {1, 0});
  EXPECT_EQ(vectorAccess(rows, memory, 16).elements, 8u);
  EXPECT_EQ(vectorAccess(rows, memory, 32).elements, 4u);
  EXPECT_EQ(vectorAccess(rows, memory, 64).elements, 2u);
  EXPECT_EQ(vectorAccess(rows, memory, 8).elements, 8u) << "no more than the thread has";
  EXPECT_EQ(vectorAccess(rows, sharedLinear({16, 64}, {0, 1}), 16).elements, 1u);
  // Swizzles move chunks of 16 bytes.
  EXPECT_EQ(vectorAccess(rows, sharedSwizzled({16, 64}, {1, 0}, 16, 128), 16).elements, 8u);
  LinearLayout turned({4}, {{{{2}, {1}}, {}, {}, {}, {}}});
  VectorAccess access = vectorAccess(turned, sharedLinear({4}, {0}), 32);
  EXPECT_EQ(access.elements, 4u);
  EXPECT_EQ(access.registerBits, (llvm::SmallVector<unsigned, 4>{1, 0}));
  // A lane that begins in the middle: nothing is aligned.
  LinearLayout odd({4}, {{{{1}}, {{3}}, {}, {}, {}}});
  EXPECT_EQ(vectorAccess(odd, sharedLinear({4}, {0}), 32).elements, 1u);
}

TEST(BankConflicts, KnownCases) {
  // A column of a row-major buffer of 32 floats a row: all lanes in one bank.
  LinearLayout columns = blocked({32, 32}, {1, 1}, {32, 1}, {1, 32}, {0, 1});
  EXPECT_EQ(bankConflicts(columns, sharedLinear({32, 32}, {1, 0}), 32), 32u);
  EXPECT_EQ(bankConflicts(columns, sharedLinear({32, 32}, {0, 1}), 32), 1u);
  EXPECT_EQ(bankConflicts(columns, sharedLinear({32, 32}, {1, 0}), 16), 16u);
  // 16 bytes a lane, 8 lanes at once: rows of 64 halves (128 bytes) are free.
  LinearLayout rows = blocked({32, 64}, {1, 8}, {4, 8}, {1, 1}, {1, 0});
  EXPECT_EQ(bankConflicts(rows, sharedLinear({32, 64}, {1, 0}), 16), 1u);
  LinearLayout down = blocked({32, 64}, {1, 8}, {32, 1}, {1, 1}, {0, 1});
  EXPECT_EQ(bankConflicts(down, sharedLinear({32, 64}, {1, 0}), 16), 8u);
  EXPECT_EQ(bankConflicts(down, sharedSwizzled({32, 64}, {1, 0}, 16, 128), 16), 1u);
  // Everybody reads the same: no conflict.
  LinearLayout same = blocked({1, 32}, {1, 32}, {32, 1}, {1, 1}, {1, 0});
  EXPECT_EQ(bankConflicts(same, sharedLinear({1, 32}, {1, 0}), 32), 1u);
}

TEST(BankConflicts, AgreeWithCounting) {
  Random random;
  for (int round = 0; round < 500; ++round) {
    auto shape = random.shape(2, 11);
    LinearLayout distributed =
        random.distributed(shape, 5, random.below(2), random.below(2), random.below(3));
    LinearLayout memory = random.layout(shape, {Axis::Offset}, random.below(2));
    unsigned bits = 8u << random.below(4);
    ASSERT_EQ(checkAccesses(distributed, memory, bits), bankConflicts(distributed, memory, bits))
        << distributed.str() << "\n"
        << memory.str() << "\n"
        << bits;
  }
}

TEST(MatrixAccess, OperandsOfMma) {
  // A row-major: plain; A column-major: transposed. B the other way round.
  auto check = [](const LinearLayout &operand, const LinearLayout &memory, unsigned bits,
                  bool transposed, unsigned matrices) {
    std::optional<MatrixAccess> access = matrixAccess(operand, memory, bits);
    ASSERT_TRUE(access) << operand.str() << "\n" << memory.str();
    EXPECT_EQ(access->transposed, transposed);
    EXPECT_EQ(access->matrices, matrices);
    checkMatrices(operand, memory, bits, *access);
    EXPECT_EQ(bankConflicts(*access, bits), 1u);
  };
  LinearLayout a = mmaOperand({64, 64}, Operand::A, {2, 2}, 16);
  LinearLayout b = mmaOperand({64, 64}, Operand::B, {2, 2}, 16);
  LinearLayout rows = sharedSwizzled({64, 64}, {1, 0}, 16, 128);
  LinearLayout columns = sharedSwizzled({64, 64}, {0, 1}, 16, 128);
  check(a, rows, 16, false, 4);
  check(a, columns, 16, true, 4);
  check(b, rows, 16, true, 4);
  check(b, columns, 16, false, 4);
  check(mmaOperand({16, 8}, Operand::B, {1, 1}, 16), sharedLinear({16, 8}, {1, 0}), 16, true, 2);
  check(mmaOperand({8, 8}, Operand::B, {1, 1}, 16), sharedLinear({8, 8}, {1, 0}), 16, true, 1);
  check(mmaOperand({32, 64}, Operand::A, {1, 1}, 8), sharedSwizzled({32, 64}, {1, 0}, 8, 64), 8,
        false, 4);
  check(mmaOperand({32, 32}, Operand::A, {1, 1}, 32), sharedSwizzled({32, 32}, {1, 0}, 32, 128), 32,
        false, 4);
  check(wgmmaOperandA({64, 64}, {4, 1}, 16), rows, 16, false, 4);
  check(wgmmaAccumulator({64, 64}, {4, 1}, 64), rows, 16, false, 4);
  EXPECT_FALSE(matrixAccess(mmaOperand({64, 64}, Operand::B, {2, 2}, 8),
                            sharedSwizzled({64, 64}, {1, 0}, 8, 64), 8));
  EXPECT_FALSE(matrixAccess(mmaAccumulator({64, 64}, {2, 2}, 32), rows, 64));
  EXPECT_FALSE(matrixAccess(striped({64, 64}, 8, 32, 4, {1, 0}), rows, 16));
}

TEST(SharedAccess, ChoosesAndCounts) {
  // 32 registers of halves a thread: 16 words, as 4 times 4 matrices or 4 vectors of 16 bytes.
  LinearLayout a = mmaOperand({64, 64}, Operand::A, {4, 1}, 16);
  LinearLayout rows = sharedSwizzled({64, 64}, {1, 0}, 16, 128);
  SharedAccess access = sharedAccess(a, rows, 16, true);
  EXPECT_TRUE(access.matrix);
  EXPECT_EQ(access.cost.instructions, 4u);
  EXPECT_EQ(access.cost.turns, 16u);
  access = sharedAccess(a, rows, 16, false);
  EXPECT_FALSE(access.matrix);
  EXPECT_EQ(access.cost.instructions, 16u);
  EXPECT_EQ(access.cost.turns, 16u);
  access = sharedAccess(striped({64, 64}, 8, 32, 4, {1, 0}), rows, 16, true);
  EXPECT_FALSE(access.matrix);
  EXPECT_EQ(access.cost.instructions, 4u);
  EXPECT_EQ(access.cost.turns, 16u);
  // Two bytes a lane: half of each turn is lost; all in one bank: a turn for every lane.
  EXPECT_EQ(sharedAccess(striped({64, 64}, 1, 32, 4, {1, 0}), rows, 16, true).cost.turns, 32u);
  LinearLayout columns = blocked({32, 32}, {1, 1}, {32, 1}, {1, 32}, {0, 1});
  EXPECT_EQ(sharedAccess(columns, sharedLinear({32, 32}, {1, 0}), 32, true).cost.turns, 32u);
}

TEST(MatrixAccess, ConflictsAreCounted) {
  LinearLayout a = mmaOperand({64, 64}, Operand::A, {2, 2}, 16);
  std::optional<MatrixAccess> access = matrixAccess(a, sharedLinear({64, 64}, {1, 0}), 16);
  ASSERT_TRUE(access);
  checkMatrices(a, sharedLinear({64, 64}, {1, 0}), 16, *access);
  EXPECT_EQ(bankConflicts(*access, 16), 8u);
}

namespace {

/// The most wavefronts that an access of this side needs more than its bytes do.
unsigned degree(const LinearLayout &side, const LinearLayout &buffer, unsigned bits) {
  if (vectorAccess(side, buffer, bits).elements * bits < 128)
    if (std::optional<MatrixAccess> access = matrixAccess(side, buffer, bits)) {
      checkMatrices(side, buffer, bits, *access);
      return bankConflicts(*access, bits);
    }
  EXPECT_EQ(checkAccesses(side, buffer, bits), bankConflicts(side, buffer, bits));
  return bankConflicts(side, buffer, bits);
}

} // namespace

TEST(Buffer, TransposesAreFreeOfConflicts) {
  for (unsigned bits : {8u, 16u, 32u, 64u})
    for (unsigned vector : {1u, 2u, 4u, 8u, 16u}) {
      LinearLayout from = striped({64, 64}, vector, 32, 4, {1, 0});
      LinearLayout to = striped({64, 64}, vector, 32, 4, {0, 1});
      LinearLayout buffer = conflictFreeBuffer(from, to, bits);
      EXPECT_TRUE(buffer.isBijective());
      EXPECT_EQ(degree(from, buffer, bits), 1u) << bits << " " << vector << "\n" << buffer.str();
      EXPECT_EQ(degree(to, buffer, bits), 1u) << bits << " " << vector << "\n" << buffer.str();
    }
}

TEST(Buffer, OperandsAreReadAsMatrices) {
  for (unsigned bits : {8u, 16u, 32u})
    for (bool rowMajor : {true, false})
      for (Operand which : {Operand::A, Operand::B}) {
        unsigned order[2] = {rowMajor, !rowMajor};
        LinearLayout from = striped({128, 128}, 128 / bits, 32, 4, order);
        LinearLayout to = mmaOperand({128, 128}, which, {2, 2}, bits);
        llvm::SmallVector<unsigned> leading; // 16 bytes
        for (unsigned elements = 1; elements < 128 / bits; elements *= 2)
          leading.push_back(leading.size());
        LinearLayout buffer = conflictFreeBuffer(from, to, bits, leading);
        bool alongK = rowMajor == (which == Operand::A);
        EXPECT_EQ(vectorAccess(from, buffer, bits).elements * bits, 128u);
        if (alongK || bits == 16) {
          std::optional<MatrixAccess> access = matrixAccess(to, buffer, bits);
          ASSERT_TRUE(access) << bits << " " << to.str() << "\n" << buffer.str();
          EXPECT_EQ(access->transposed, !alongK);
        }
        EXPECT_EQ(degree(from, buffer, bits), 1u);
        if (alongK || bits == 16)
          EXPECT_EQ(degree(to, buffer, bits), 1u);
      }
}

TEST(Buffer, NeighboursOfGlobalMemoryStayNeighbours) {
  // Left to itself, the buffer begins with rows, which the reader holds too.
  LinearLayout from = blocked({64, 64}, {4, 4}, {4, 8}, {2, 2}, {1, 0});
  LinearLayout to = blocked({64, 64}, {8, 1}, {8, 4}, {1, 4}, {0, 1});
  EXPECT_EQ(conflictFreeBuffer(from, to, 16).basis(Axis::Offset, 0)[1], 0);
  LinearLayout buffer = conflictFreeBuffer(from, to, 16, {0, 1});
  EXPECT_EQ(buffer.basis(Axis::Offset, 0), (Coords{0, 1}));
  EXPECT_EQ(buffer.basis(Axis::Offset, 1), (Coords{0, 2}));
  EXPECT_GE(vectorAccess(from, buffer, 16).elements, 4u);
}

TEST(Buffer, SectorsOfAsynchronousCopiesStayTogether) {
  // 32 bytes of global memory, which two lanes bring, are 32 bytes of a buffer, also where a row is
  // half of 128 bytes and matrices are read across rows.
  for (int64_t k : {16, 32, 64, 128})
    for (Operand which : {Operand::A, Operand::B})
      for (unsigned contiguous : {0u, 1u}) {
        llvm::SmallVector<int64_t, 2> shape(2, 64);
        shape[which == Operand::A ? 1 : 0] = k;
        LinearLayout from = striped(shape, 8, 32, 2, {contiguous, 1 - contiguous});
        LinearLayout to = mmaOperand(shape, which, {2, 1}, 16);
        LinearLayout buffer = conflictFreeBuffer(from, to, 16, {0, 1, 2});
        if (shape[contiguous] < 16)
          continue;
        llvm::ArrayRef<uint64_t> offsets = buffer.flatBases(Axis::Offset);
        EXPECT_EQ(offsets[3], from.flatBases(Axis::Lane)[0]) << buffer.str();
        // Neither lies across two such pieces elsewhere: swizzles swap the halves.
        EXPECT_TRUE(matrixAccess(to, buffer, 16));
        EXPECT_EQ(degree(from, buffer, 16), 1u);
        EXPECT_EQ(degree(to, buffer, 16), 1u);
      }
}

TEST(Buffer, AsynchronousCopiesMoveTheirNeighboursAlone) {
  // Bytes of B with 8 neighbours a thread: rows that both sides hold could fill 16 bytes of a plain
  // store, but a copy moves 8.
  LinearLayout from = blocked({64, 64}, {1, 8}, {4, 8}, {4, 1}, {1, 0});
  LinearLayout to = mmaOperand({64, 64}, Operand::B, {2, 2}, 8);
  LinearLayout buffer = conflictFreeBuffer(from, to, 8, {0, 1, 2});
  EXPECT_EQ(bankConflicts(from, buffer, 8, 8), 1u);
  EXPECT_EQ(bankConflicts(to, buffer, 8), 1u);
}

TEST(Buffer, AccumulatorsAreStoredAsMatrices) {
  LinearLayout from = wgmmaAccumulator({128, 128}, {4, 1}, 128);
  LinearLayout to = striped({128, 128}, 8, 32, 4, {1, 0});
  LinearLayout buffer = conflictFreeBuffer(from, to, 16);
  EXPECT_TRUE(matrixAccess(from, buffer, 16));
  EXPECT_EQ(vectorAccess(to, buffer, 16).elements, 8u);
  EXPECT_EQ(degree(from, buffer, 16), 1u);
  EXPECT_EQ(degree(to, buffer, 16), 1u);
}

TEST(Buffer, RandomPairs) {
  Random random;
  unsigned free[2] = {0, 0}, all[2] = {0, 0};
  for (int round = 0; round < 300; ++round) {
    auto shape = random.shape(2, 12);
    bool mixed = round % 2;
    LinearLayout from = random.distributed(shape, 5, 1, mixed, random.below(3));
    LinearLayout to = random.distributed(shape, 5, 1, mixed, random.below(3));
    unsigned bits = 8u << random.below(4);
    LinearLayout buffer = conflictFreeBuffer(from, to, bits);
    ASSERT_TRUE(buffer.isBijective());
    ++all[mixed];
    free[mixed] += degree(from, buffer, bits) == 1 && degree(to, buffer, bits) == 1;
  }
  EXPECT_GE(free[0], all[0] * 99 / 100); // a wide vector may be worth a conflict
  EXPECT_GE(free[1], all[1] * 3 / 4);
}

TEST(Buffer, SmallTensors) {
  for (int64_t size : {1, 2, 8, 32}) {
    LinearLayout layout = striped({size}, 4, 32, 4, {0});
    LinearLayout other = blocked({size}, {1}, {32}, {4}, {0});
    for (unsigned bits : {1u, 8u, 16u, 32u, 64u})
      EXPECT_TRUE(conflictFreeBuffer(layout, other, bits).isBijective());
  }
  EXPECT_EQ(conflictFreeBuffer(striped({}, 1, 32, 4, {}), striped({}, 1, 32, 4, {}), 32),
            LinearLayout());
}
