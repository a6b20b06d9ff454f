// Elementwise chains between loads and stores: addresses, masks, aliasing.
#include "Run.h"

#include "gtest/gtest.h"

#include <chrono>
#include <cmath>

using namespace nereid::test;

namespace {

const char *addKernel = R"(
func.func @add(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f32>, %o: !tile.ptr<f32>, %n: i32)
    attributes {tile.kernel} {
  %pid = tile.program_id 0
  %block = arith.constant 1024 : i32
  %start = arith.muli %pid, %block : i32
  %range = tile.range 0 to 1024 : tensor<1024xi32>
  %s = tile.splat %start : i32 -> tensor<1024xi32>
  %offs = arith.addi %s, %range : tensor<1024xi32>
  %ns = tile.splat %n : i32 -> tensor<1024xi32>
  %mask = arith.cmpi slt, %offs, %ns : tensor<1024xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %xp = tile.addptr %xs, %offs : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  %a = tile.load %xp mask %mask : tensor<1024x!tile.ptr<f32>>, mask tensor<1024xi1> -> tensor<1024xf32>
  %ys = tile.splat %y : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %yp = tile.addptr %ys, %offs : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  %b = tile.load %yp mask %mask : tensor<1024x!tile.ptr<f32>>, mask tensor<1024xi1> -> tensor<1024xf32>
  %sum = arith.addf %a, %b : tensor<1024xf32>
  %os = tile.splat %o : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %op = tile.addptr %os, %offs : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  tile.store %op, %sum mask %mask : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>, mask tensor<1024xi1>
  return
}
)";

TEST(Elementwise, vectorAdd) {
  TestKernel kernel(addKernel);
  for (int n : {1, 100, 1024, 5000}) {
    std::vector<float> x(n), y(n), o(n + 16, -1.0f);
    for (int i = 0; i < n; ++i) {
      x[i] = 0.5f * i;
      y[i] = 3.0f - i;
    }
    ASSERT_TRUE(kernel.run({x.data(), y.data(), o.data(), n}, (n + 1023) / 1024));
    for (int i = 0; i < n; ++i)
      ASSERT_EQ(o[i], x[i] + y[i]) << i;
    for (int i = n; i < n + 16; ++i)
      ASSERT_EQ(o[i], -1.0f) << "past the end";
  }
}

TEST(Elementwise, inPlaceAndOverlapping) {
  TestKernel kernel(addKernel);
  int n = 1024;
  for (int shift : {0, 1, 7, 300}) {
    std::vector<float> x(n + 400), expected, y(n, 1.0f);
    for (int i = 0; i < n + 400; ++i)
      x[i] = i;
    expected = x;
    for (int i = 0; i < n; ++i)
      expected[i + shift] = i + 1.0f;
    // Output and first input are parts of one array: all of the block is read before any is
    // written.
    ASSERT_TRUE(kernel.run({x.data(), y.data(), x.data() + shift, n}));
    ASSERT_EQ(x, expected) << "shift " << shift;
  }
}

// A short block reaches only what its mask leaves on: what lies behind it may be the output. The
// shifts are those around the end of the elements that are on, and of the block.
TEST(Elementwise, neighboursOfShortBlocks) {
  TestKernel kernel(addKernel);
  for (int n : {1, 15, 16, 100, 640, 1023})
    for (int shift : {n - 1, n, n + 1, 1023, 1024}) {
      std::vector<float> x(n + shift + 1), expected, y(n, 1.0f);
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = float(i);
      expected = x;
      for (int i = 0; i < n; ++i)
        expected[i + shift] = float(i) + 1;
      ASSERT_TRUE(kernel.run({x.data(), y.data(), x.data() + shift, n}));
      ASSERT_EQ(x, expected) << n << " elements, shift " << shift;
      if (shift < n) { // the output below the input
        for (size_t i = 0; i < x.size(); ++i)
          x[i] = float(i);
        expected = x;
        for (int i = 0; i < n; ++i)
          expected[i] = float(i + shift) + 1;
        ASSERT_TRUE(kernel.run({x.data() + shift, y.data(), x.data(), n}));
        ASSERT_EQ(x, expected) << n << " elements, shift -" << shift;
      }
    }
  // A mask that is off everywhere writes nothing.
  std::vector<float> x(16, 2.0f), expected = x;
  ASSERT_TRUE(kernel.run({x.data(), x.data(), x.data(), 0}));
  ASSERT_TRUE(kernel.run({x.data(), x.data(), x.data() + 1, -5}));
  ASSERT_EQ(x, expected);
}

// Element by element the block takes ten times as long.
TEST(Elementwise, neighboursOfShortBlocksRunInVectors) {
  TestKernel kernel(addKernel);
  int n = 900;
  std::vector<float> near(3 * n, 1.0f), x(2 * 1024, 1.0f), o(2 * 1024);
  auto timeOf = [&](const float *a, const float *b, float *to) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 20; ++i)
      EXPECT_TRUE(kernel.run({a, b, to, n}));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  // One of several attempts has to find both alike: the machine may be busy.
  double adjacent = 1, apart = 0;
  for (int attempt = 0; attempt < 20 && adjacent >= 2.5 * apart; ++attempt) {
    adjacent = apart = 1;
    for (int round = 0; round < 100; ++round) {
      adjacent = std::min(adjacent, timeOf(near.data(), near.data() + n, near.data() + 2 * n));
      apart = std::min(apart, timeOf(x.data(), x.data() + 1024, o.data()));
    }
  }
  EXPECT_LT(adjacent, 2.5 * apart);
}

// 2-D tile with run-time strides.
TEST(Elementwise, strided2d) {
  TestKernel kernel(R"(
func.func @copy(%x: !tile.ptr<f32>, %o: !tile.ptr<f32>, %xs: i32, %xt: i32, %os: i32, %m: i32, %n: i32)
    attributes {tile.kernel} {
  %rm = tile.range 0 to 8 : tensor<8xi32>
  %rn = tile.range 0 to 32 : tensor<32xi32>
  %r1 = tile.expand_dims %rm 1 : tensor<8xi32> -> tensor<8x1xi32>
  %c1 = tile.expand_dims %rn 0 : tensor<32xi32> -> tensor<1x32xi32>
  %xss = tile.splat %xs : i32 -> tensor<8x1xi32>
  %ro = arith.muli %r1, %xss : tensor<8x1xi32>
  %xts = tile.splat %xt : i32 -> tensor<1x32xi32>
  %co = arith.muli %c1, %xts : tensor<1x32xi32>
  %rb = tile.broadcast %ro : tensor<8x1xi32> -> tensor<8x32xi32>
  %cb = tile.broadcast %co : tensor<1x32xi32> -> tensor<8x32xi32>
  %off = arith.addi %rb, %cb : tensor<8x32xi32>
  %xp0 = tile.splat %x : !tile.ptr<f32> -> tensor<8x32x!tile.ptr<f32>>
  %xp = tile.addptr %xp0, %off : tensor<8x32x!tile.ptr<f32>>, tensor<8x32xi32>
  %ms = tile.splat %m : i32 -> tensor<8x1xi32>
  %mm = arith.cmpi slt, %r1, %ms : tensor<8x1xi32>
  %nsp = tile.splat %n : i32 -> tensor<1x32xi32>
  %nm = arith.cmpi slt, %c1, %nsp : tensor<1x32xi32>
  %mb = tile.broadcast %mm : tensor<8x1xi1> -> tensor<8x32xi1>
  %nb = tile.broadcast %nm : tensor<1x32xi1> -> tensor<8x32xi1>
  %mask = arith.andi %mb, %nb : tensor<8x32xi1>
  %cst = arith.constant dense<-5.0> : tensor<8x32xf32>
  %v = tile.load %xp mask %mask other %cst : tensor<8x32x!tile.ptr<f32>>, mask tensor<8x32xi1>, other tensor<8x32xf32> -> tensor<8x32xf32>
  %oss = tile.splat %os : i32 -> tensor<8x1xi32>
  %oo = arith.muli %r1, %oss : tensor<8x1xi32>
  %ob = tile.broadcast %oo : tensor<8x1xi32> -> tensor<8x32xi32>
  %cb1 = tile.broadcast %c1 : tensor<1x32xi32> -> tensor<8x32xi32>
  %ooff = arith.addi %ob, %cb1 : tensor<8x32xi32>
  %op0 = tile.splat %o : !tile.ptr<f32> -> tensor<8x32x!tile.ptr<f32>>
  %op = tile.addptr %op0, %ooff : tensor<8x32x!tile.ptr<f32>>, tensor<8x32xi32>
  tile.store %op, %v : tensor<8x32x!tile.ptr<f32>>, tensor<8x32xf32>
  return
}
)");
  for (auto [s, t] : {std::pair(40, 1), std::pair(70, 2), std::pair(1, 9), std::pair(0, 1)}) {
    std::vector<float> x(1000), o(8 * 33, 0.0f);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = i;
    ASSERT_TRUE(kernel.run({x.data(), o.data(), s, t, 33, 7, 30}));
    for (int i = 0; i < 8; ++i)
      for (int j = 0; j < 32; ++j)
        ASSERT_EQ(o[i * 33 + j], i < 7 && j < 30 ? i * s + j * t : -5.0f)
            << i << " " << j << " " << s << " " << t;
  }
}

} // namespace
