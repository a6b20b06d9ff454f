#include "layout/Constructors.h"
#include "Random.h"

#include <gtest/gtest.h>

using namespace nereid::layout;

namespace {

using Formula = llvm::function_ref<Coords(int64_t reg, int64_t lane, int64_t warp)>;

/// Every register of every lane of `warps` warps is where the formula puts it.
void expectFormula(const LinearLayout &layout, int64_t registers, int64_t warps, Formula formula) {
  ASSERT_EQ(layout.size(Axis::Register), registers);
  ASSERT_EQ(layout.size(Axis::Lane), 32);
  ASSERT_EQ(layout.size(Axis::Warp), warps);
  for (int64_t reg = 0; reg < registers; ++reg)
    for (int64_t lane = 0; lane < 32; ++lane)
      for (int64_t warp = 0; warp < warps; ++warp)
        EXPECT_EQ(layout.apply(reg, lane, warp), formula(reg, lane, warp))
            << "register " << reg << " lane " << lane << " warp " << warp;
}

Coords at(int64_t row, int64_t column) {
  return {int32_t(row), int32_t(column)};
}

} // namespace

TEST(Blocked, CountsFastestAlongTheOrder) {
  LinearLayout layout = blocked({32, 64}, {2, 4}, {4, 8}, {2, 2}, {1, 0});
  EXPECT_TRUE(layout.isBijective());
  expectFormula(layout, 16, 4, [](int64_t r, int64_t l, int64_t w) {
    return at(r / 4 % 2 + 2 * (l / 8) + 8 * (w / 2) + 16 * (r / 8),
              r % 4 + 4 * (l % 8) + 32 * (w % 2));
  });
  LinearLayout turned = blocked({64, 32}, {4, 2}, {8, 4}, {2, 2}, {0, 1});
  EXPECT_EQ(turned, layout.transposed({1, 0}));
}

TEST(Blocked, SmallShapesAreHeldManyTimes) {
  LinearLayout layout = blocked({16}, {4}, {32}, {2}, {0});
  EXPECT_EQ(layout.str(), "register = [[1], [2]], lane = [[4], [8], [0], [0], [0]], warp = [[0]], "
                          "shape = [16]");
  EXPECT_EQ(layout.freeBits(Axis::Lane), 0b11100u);
  EXPECT_EQ(layout.freeBits(Axis::Warp), 1u);
  LinearLayout scalar = blocked({1, 1}, {1, 4}, {1, 32}, {4, 1}, {1, 0});
  EXPECT_EQ(scalar.size(Axis::Register), 1);
  EXPECT_EQ(scalar.size(Axis::Lane), 32);
}

TEST(Striped, LanesThenWarpsThenRegisters) {
  LinearLayout layout = striped({4096}, 4, 32, 4, {0});
  expectFormula(layout, 32, 4, [](int64_t r, int64_t l, int64_t w) {
    return Coords{int32_t(r % 4 + 4 * l + 128 * w + 512 * (r / 4))};
  });
  LinearLayout rows = striped({16, 64}, 8, 32, 4, {1, 0});
  EXPECT_TRUE(rows.isBijective());
  expectFormula(rows, 8, 4,
                [](int64_t r, int64_t l, int64_t w) { return at(l / 8 + 4 * w, r + 8 * (l % 8)); });
  EXPECT_EQ(striped({2}, 4, 32, 2, {0}).str(),
            "register = [[1]], lane = [[0], [0], [0], [0], [0]], warp = [[0]], shape = [2]");
  EXPECT_EQ(striped({}, 4, 32, 2, {}).size(Axis::Lane), 32);
  EXPECT_EQ(striped({4096}, 4, 64, 2, {0}).size(Axis::Lane), 64);
}

// The fragments, by the formulas of the PTX manual: g = lane / 4, q = lane % 4.

TEST(Mma, Accumulator) {
  expectFormula(mmaAccumulator({16, 8}, {1, 1}, 32), 4, 1, [](int64_t r, int64_t l, int64_t) {
    return at(l / 4 + 8 * (r / 2), 2 * (l % 4) + r % 2);
  });
  // Warps next to the tile, M first; then registers along N, then M.
  expectFormula(mmaAccumulator({64, 32}, {2, 2}, 32), 16, 4, [](int64_t r, int64_t l, int64_t w) {
    return at(l / 4 + 8 * (r / 2 % 2) + 16 * (w % 2) + 32 * (r / 8),
              2 * (l % 4) + r % 2 + 8 * (w / 2) + 16 * (r / 4 % 2));
  });
  expectFormula(mmaAccumulator({8, 8}, {1, 1}, 64), 2, 1,
                [](int64_t r, int64_t l, int64_t) { return at(l / 4, 2 * (l % 4) + r); });
  LinearLayout batches = mmaAccumulator({4, 16, 8}, {1, 1}, 32);
  EXPECT_EQ(batches.apply(4 * 3, 0), (Coords{3, 0, 0}));
  EXPECT_TRUE(batches.isBijective());
}

TEST(Mma, Operands16) { // m16n8k16
  expectFormula(mmaOperand({16, 16}, Operand::A, {1, 1}, 16), 8, 1,
                [](int64_t i, int64_t l, int64_t) {
                  return at(l / 4 + 8 * (i / 2 % 2), 2 * (l % 4) + i % 2 + 8 * (i / 4));
                });
  expectFormula(
      mmaOperand({16, 8}, Operand::B, {1, 1}, 16), 4, 1,
      [](int64_t i, int64_t l, int64_t) { return at(2 * (l % 4) + i % 2 + 8 * (i / 2), l / 4); });
  // K of one m16n8k8.
  expectFormula(
      mmaOperand({16, 8}, Operand::A, {1, 1}, 16), 4, 1,
      [](int64_t i, int64_t l, int64_t) { return at(l / 4 + 8 * (i / 2), 2 * (l % 4) + i % 2); });
  expectFormula(mmaOperand({8, 8}, Operand::B, {1, 1}, 16), 2, 1,
                [](int64_t i, int64_t l, int64_t) { return at(2 * (l % 4) + i, l / 4); });
}

TEST(Mma, Operands8) { // m16n8k32
  expectFormula(mmaOperand({16, 32}, Operand::A, {1, 1}, 8), 16, 1,
                [](int64_t i, int64_t l, int64_t) {
                  return at(l / 4 + 8 * (i / 4 % 2), 4 * (l % 4) + i % 4 + 16 * (i / 8));
                });
  expectFormula(
      mmaOperand({32, 8}, Operand::B, {1, 1}, 8), 8, 1,
      [](int64_t i, int64_t l, int64_t) { return at(4 * (l % 4) + i % 4 + 16 * (i / 4), l / 4); });
}

TEST(Mma, Operands32) { // m16n8k8 tf32
  expectFormula(
      mmaOperand({16, 8}, Operand::A, {1, 1}, 32), 4, 1,
      [](int64_t i, int64_t l, int64_t) { return at(l / 4 + 8 * (i % 2), l % 4 + 4 * (i / 2)); });
  expectFormula(mmaOperand({8, 8}, Operand::B, {1, 1}, 32), 2, 1,
                [](int64_t i, int64_t l, int64_t) { return at(l % 4 + 4 * i, l / 4); });
}

TEST(Mma, OperandsOfSmallK) { // m16n8k4 tf32, m16n8k16 8-bit
  expectFormula(mmaOperand({16, 4}, Operand::A, {1, 1}, 32), 2, 1,
                [](int64_t i, int64_t l, int64_t) { return at(l / 4 + 8 * i, l % 4); });
  expectFormula(mmaOperand({4, 8}, Operand::B, {1, 1}, 32), 1, 1,
                [](int64_t, int64_t l, int64_t) { return at(l % 4, l / 4); });
  expectFormula(
      mmaOperand({16, 16}, Operand::A, {1, 1}, 8), 8, 1,
      [](int64_t i, int64_t l, int64_t) { return at(l / 4 + 8 * (i / 4), 4 * (l % 4) + i % 4); });
}

TEST(Mma, Operands64) { // m8n8k4
  expectFormula(mmaOperand({8, 4}, Operand::A, {1, 1}, 64), 1, 1,
                [](int64_t, int64_t l, int64_t) { return at(l / 4, l % 4); });
  expectFormula(mmaOperand({4, 8}, Operand::B, {1, 1}, 64), 1, 1,
                [](int64_t, int64_t l, int64_t) { return at(l % 4, l / 4); });
}

TEST(Mma, OperandsGoWithTheAccumulator) {
  // A warp's rows of A are those of its accumulator, its columns of B likewise; K comes first.
  for (unsigned bits : {8u, 16u, 32u, 64u}) {
    LinearLayout c = mmaAccumulator({128, 64}, {4, 2}, bits == 64 ? 64 : 32);
    LinearLayout a = mmaOperand({128, 64}, Operand::A, {4, 2}, bits);
    LinearLayout b = mmaOperand({64, 64}, Operand::B, {4, 2}, bits);
    for (int64_t warp = 0; warp < 8; ++warp)
      for (int64_t lane = 0; lane < 32; lane += 4) {
        Coords inC = c.apply(0, lane, warp), inA = a.apply(0, lane, warp);
        EXPECT_EQ(inA[0], inC[0]) << bits;
        EXPECT_EQ(b.apply(0, 0, warp)[1], c.apply(0, 0, warp)[1]) << bits;
      }
    EXPECT_EQ(a.size(Axis::Register), 128 * 64 / 32 / 4);
    EXPECT_EQ(b.size(Axis::Register), 64 * 64 / 32 / 2);
    EXPECT_EQ(a.freeBits(Axis::Warp), 0b100u);
    EXPECT_EQ(b.freeBits(Axis::Warp), 0b011u);
    EXPECT_TRUE(a.isSurjective());
    EXPECT_TRUE(b.isSurjective());
  }
}

TEST(Wgmma, Accumulator) {
  for (int64_t n : {8, 16, 64, 128, 256})
    expectFormula(wgmmaAccumulator({64, n}, {4, 1}, n), n / 2, 4,
                  [](int64_t i, int64_t l, int64_t w) {
                    return at(16 * w + l / 4 + 8 * (i / 2 % 2), 8 * (i / 4) + 2 * (l % 4) + i % 2);
                  });
  // Two groups along M and two along N, then registers.
  expectFormula(
      wgmmaAccumulator({256, 128}, {8, 2}, 32), 64, 16, [](int64_t i, int64_t l, int64_t w) {
        return at(16 * (w % 8) + l / 4 + 8 * (i / 2 % 2) + 128 * (i / 32),
                  8 * (i / 4 % 4) + 2 * (l % 4) + i % 2 + 32 * (w / 8) + 64 * (i / 16 % 2));
      });
  // 176 columns are 11 repeats of the core's 16.
  EXPECT_EQ(wgmmaAccumulator({64, 16}, {4, 1}, 176), wgmmaAccumulator({64, 16}, {4, 1}, 16));
}

TEST(Wgmma, OperandA) {
  expectFormula(wgmmaOperandA({64, 16}, {4, 1}, 16), 8, 4, [](int64_t i, int64_t l, int64_t w) {
    return at(16 * w + l / 4 + 8 * (i / 2 % 2), 8 * (i / 4) + 2 * (l % 4) + i % 2);
  });
  expectFormula(wgmmaOperandA({64, 32}, {4, 1}, 8), 16, 4, [](int64_t i, int64_t l, int64_t w) {
    return at(16 * w + l / 4 + 8 * (i / 4 % 2), 16 * (i / 8) + 4 * (l % 4) + i % 4);
  });
  expectFormula(wgmmaOperandA({64, 8}, {4, 1}, 32), 4, 4, [](int64_t i, int64_t l, int64_t w) {
    return at(16 * w + l / 4 + 8 * (i % 2), l % 4 + 4 * (i / 2));
  });
  // The accumulator of one product is the A operand of the next where both are 16 bits wide.
  EXPECT_EQ(wgmmaOperandA({128, 64}, {8, 1}, 16), wgmmaAccumulator({128, 64}, {8, 1}, 64));
}

TEST(Shared, LinearIsRowMajor) {
  LinearLayout layout = sharedLinear({8, 16}, {1, 0});
  for (int64_t i = 0; i < 128; ++i)
    EXPECT_EQ(layout.apply(Axis::Offset, i), at(i / 16, i % 16));
  EXPECT_EQ(sharedLinear({16, 8}, {0, 1}), layout.transposed({1, 0}));
}

TEST(Shared, SwizzleXorsAddressBits) {
  for (unsigned swizzle : {32u, 64u, 128u})
    for (unsigned bits : {8u, 16u, 32u, 64u})
      for (int64_t blocks : {1, 2}) {
        int64_t row = swizzle * 8 / bits, rows = 32, bytes = bits / 8;
        LinearLayout layout = sharedSwizzled({rows, row * blocks}, {1, 0}, bits, swizzle);
        ASSERT_TRUE(layout.isBijective());
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < row * blocks; ++c) {
            int64_t address = (c / row * rows * row + r * row + c % row) * bytes;
            int64_t mask = swizzle / 16 - 1;
            address ^= (address >> 7 & mask) << 4; // Swizzle<log2(swizzle / 16), 4, 3>
            EXPECT_EQ(layout.apply(Axis::Offset, address / bytes), at(r, c));
          }
      }
}

TEST(Shared, WithoutSwizzleChunksOf16Bytes) {
  LinearLayout layout = sharedSwizzled({16, 32}, {1, 0}, 16, 0);
  for (int64_t i = 0; i < 512; ++i)
    EXPECT_EQ(layout.apply(Axis::Offset, i), at(i / 8 % 16, i % 8 + i / 128 * 8));
}

TEST(Shared, SwizzleOfARow) {
  EXPECT_EQ(swizzleFor(256), 128u);
  EXPECT_EQ(swizzleFor(64), 64u);
  EXPECT_EQ(swizzleFor(32), 32u);
  EXPECT_EQ(swizzleFor(96), 32u);
  EXPECT_EQ(swizzleFor(16), 0u);
}
