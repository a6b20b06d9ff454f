#include "Random.h"

#include <gtest/gtest.h>

using namespace nereid::layout;

TEST(BitMatrix, ProductIsCompositionOfMaps) {
  Random random;
  for (int round = 0; round < 200; ++round) {
    unsigned a = 1 + random.below(20), b = 1 + random.below(20), c = 1 + random.below(20);
    BitMatrix left = random.matrix(a, b), right = random.matrix(b, c);
    BitMatrix product = left * right;
    EXPECT_EQ(product.rows(), a);
    EXPECT_EQ(product.columns(), c);
    for (int i = 0; i < 10; ++i) {
      uint64_t x = random.bits(c);
      EXPECT_EQ(product.apply(x), left.apply(right.apply(x)));
      uint64_t y = random.bits(c);
      EXPECT_EQ(product.apply(x ^ y), product.apply(x) ^ product.apply(y));
    }
    EXPECT_EQ(left * BitMatrix::identity(b), left);
    EXPECT_EQ(BitMatrix::identity(a) * left, left);
    BitMatrix third = random.matrix(c, 5);
    EXPECT_EQ((left * right) * third, left * (right * third));
  }
}

TEST(BitMatrix, RankAndKernelAddUpToTheColumns) {
  Random random;
  for (int round = 0; round < 300; ++round) {
    unsigned rows = random.below(12), columns = random.below(16);
    BitMatrix matrix = random.matrix(rows, columns);
    llvm::SmallVector<uint64_t> kernel = matrix.kernel();
    EXPECT_EQ(matrix.rank() + kernel.size(), columns);
    for (uint64_t x : kernel)
      EXPECT_EQ(matrix.apply(x), 0u);
    EXPECT_EQ(BitMatrix(columns, kernel).rank(), kernel.size()) << "a basis is independent";
    EXPECT_EQ(llvm::popcount(matrix.redundantColumns()), int(kernel.size()));
    if (columns <= 10) { // against counting
      uint64_t zeros = 0;
      for (uint64_t x = 0; x < uint64_t(1) << columns; ++x)
        zeros += matrix.apply(x) == 0;
      EXPECT_EQ(zeros, uint64_t(1) << kernel.size());
    }
  }
}

TEST(BitMatrix, SolvesWithZerosInRedundantColumns) {
  Random random;
  for (int round = 0; round < 300; ++round) {
    BitMatrix matrix = random.matrix(1 + random.below(8), random.below(10));
    uint64_t y = random.bits(matrix.rows());
    bool reachable = false;
    for (uint64_t x = 0; x < uint64_t(1) << matrix.columns(); ++x)
      reachable |= matrix.apply(x) == y;
    std::optional<uint64_t> x = matrix.solve(y);
    ASSERT_EQ(x.has_value(), reachable);
    if (x) {
      EXPECT_EQ(matrix.apply(*x), y);
      EXPECT_EQ(*x & matrix.redundantColumns(), 0u);
    }
  }
}

TEST(BitMatrix, PseudoInverse) {
  Random random;
  for (int round = 0; round < 300; ++round) {
    BitMatrix a = random.matrix(random.below(14), random.below(14));
    BitMatrix x = a.pseudoInverse();
    EXPECT_EQ(x.rows(), a.columns());
    EXPECT_EQ(x.columns(), a.rows());
    EXPECT_EQ(a * x * a, a);
    EXPECT_EQ(x * a * x, x);
  }
}

TEST(BitMatrix, InverseExistsForFullRankOnly) {
  Random random;
  unsigned found = 0;
  for (int round = 0; round < 200; ++round) {
    unsigned n = random.below(12);
    BitMatrix matrix = random.matrix(n, n);
    std::optional<BitMatrix> inverse = matrix.inverse();
    ASSERT_EQ(inverse.has_value(), matrix.rank() == n);
    if (!inverse)
      continue;
    ++found;
    EXPECT_EQ(matrix * *inverse, BitMatrix::identity(n));
    EXPECT_EQ(*inverse * matrix, BitMatrix::identity(n));
  }
  EXPECT_GT(found, 20u);
  EXPECT_FALSE(BitMatrix(2, {1, 2, 3}).inverse());
}

TEST(BitMatrix, StackedGivesBothResults) {
  Random random;
  for (int round = 0; round < 50; ++round) {
    unsigned columns = random.below(10);
    BitMatrix above = random.matrix(random.below(10), columns);
    BitMatrix below = random.matrix(random.below(10), columns);
    BitMatrix both = above.stacked(below);
    uint64_t x = random.bits(columns);
    EXPECT_EQ(both.apply(x), above.apply(x) | below.apply(x) << above.rows());
  }
}
