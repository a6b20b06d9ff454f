// Reductions: one pass over rows, columns, several operands, ordered combiners.
#include "Run.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace nereid::test;

namespace {

std::string replaceAll(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

const char *softmaxKernel = R"(
func.func @softmax(%o: !tile.ptr<f32>, %x: !tile.ptr<f32>, %xs: i32, %os: i32, %n: i32) attributes {tile.kernel} {
  %row = tile.program_id 0
  %cols = tile.range 0 to B : tensor<Bxi32>
  %x0 = arith.muli %row, %xs : i32
  %xrow = tile.addptr %x, %x0 : !tile.ptr<f32>, i32
  %xb = tile.splat %xrow : !tile.ptr<f32> -> tensor<Bx!tile.ptr<f32>>
  %xp = tile.addptr %xb, %cols : tensor<Bx!tile.ptr<f32>>, tensor<Bxi32>
  %ns = tile.splat %n : i32 -> tensor<Bxi32>
  %mask = arith.cmpi slt, %cols, %ns : tensor<Bxi32>
  %inf = arith.constant dense<0xFF800000> : tensor<Bxf32>
  %v = tile.load %xp mask %mask other %inf : tensor<Bx!tile.ptr<f32>>, mask tensor<Bxi1>, other tensor<Bxf32> -> tensor<Bxf32>
  %max = tile.reduce (%v) axis 0 {
  ^bb0(%l: f32, %r: f32):
    %m = arith.maxnumf %l, %r : f32
    tile.yield %m : f32
  } : (tensor<Bxf32>) -> f32
  %maxs = tile.splat %max : f32 -> tensor<Bxf32>
  %d = arith.subf %v, %maxs : tensor<Bxf32>
  %num = math.exp %d : tensor<Bxf32>
  %sum = tile.reduce (%num) axis 0 {
  ^bb0(%l: f32, %r: f32):
    %m = arith.addf %l, %r : f32
    tile.yield %m : f32
  } : (tensor<Bxf32>) -> f32
  %sums = tile.splat %sum : f32 -> tensor<Bxf32>
  %y = arith.divf %num, %sums : tensor<Bxf32>
  %o0 = arith.muli %row, %os : i32
  %orow = tile.addptr %o, %o0 : !tile.ptr<f32>, i32
  %ob = tile.splat %orow : !tile.ptr<f32> -> tensor<Bx!tile.ptr<f32>>
  %op = tile.addptr %ob, %cols : tensor<Bx!tile.ptr<f32>>, tensor<Bxi32>
  tile.store %op, %y mask %mask : tensor<Bx!tile.ptr<f32>>, tensor<Bxf32>, mask tensor<Bxi1>
  return
}
)";

TEST(Reduce, softmax) {
  for (auto [block, n] : {std::pair(1024, 931), std::pair(64, 64), std::pair(100, 77),
                          std::pair(4, 3), std::pair(1, 1)}) {
    TestKernel kernel(replaceAll(softmaxKernel, "B", std::to_string(block)));
    int rows = 5;
    std::vector<float> x(rows * n), o(rows * n);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = std::sin(0.7 * i) * 4;
    ASSERT_TRUE(kernel.run({o.data(), x.data(), n, n, n}, rows));
    for (int r = 0; r < rows; ++r) {
      double max = -1e30, sum = 0;
      for (int c = 0; c < n; ++c)
        max = std::max<double>(max, x[r * n + c]);
      for (int c = 0; c < n; ++c)
        sum += std::exp(x[r * n + c] - max);
      for (int c = 0; c < n; ++c)
        ASSERT_NEAR(o[r * n + c], std::exp(x[r * n + c] - max) / sum, 1e-6)
            << r << " " << c << " of " << n;
    }
  }
}

// sum over each axis of a 2-D tile, and over both; left-to-right text order of a non-commutative
// combiner.
const char *reduce2d = R"(
func.func @sums(%x: !tile.ptr<i32>, %o: !tile.ptr<i32>) attributes {tile.kernel} {
  %rm = tile.range 0 to M : tensor<Mxi32>
  %rn = tile.range 0 to N : tensor<Nxi32>
  %r1 = tile.expand_dims %rm 1 : tensor<Mxi32> -> tensor<Mx1xi32>
  %c1 = tile.expand_dims %rn 0 : tensor<Nxi32> -> tensor<1xNxi32>
  %w = arith.constant dense<N> : tensor<Mx1xi32>
  %ro = arith.muli %r1, %w : tensor<Mx1xi32>
  %rb = tile.broadcast %ro : tensor<Mx1xi32> -> tensor<MxNxi32>
  %cb = tile.broadcast %c1 : tensor<1xNxi32> -> tensor<MxNxi32>
  %off = arith.addi %rb, %cb : tensor<MxNxi32>
  %p0 = tile.splat %x : !tile.ptr<i32> -> tensor<MxNx!tile.ptr<i32>>
  %p = tile.addptr %p0, %off : tensor<MxNx!tile.ptr<i32>>, tensor<MxNxi32>
  %v = tile.load %p : tensor<MxNx!tile.ptr<i32>> -> tensor<MxNxi32>
  // f(a, b) = b where b is not negative, else a: the last non-negative; associative, not commutative
  %last = tile.reduce (%v) axis 1 {
  ^bb0(%l: i32, %r: i32):
    %z = arith.constant 0 : i32
    %neg = arith.cmpi slt, %r, %z : i32
    %m = arith.select %neg, %l, %r : i32
    tile.yield %m : i32
  } : (tensor<MxNxi32>) -> tensor<Mxi32>
  %col = tile.reduce (%v) axis 0 {
  ^bb0(%l: i32, %r: i32):
    %m = arith.addi %l, %r : i32
    tile.yield %m : i32
  } : (tensor<MxNxi32>) -> tensor<Nxi32>
  %rowmax = tile.reduce (%v) axis 1 {
  ^bb0(%l: i32, %r: i32):
    %m = arith.maxsi %l, %r : i32
    tile.yield %m : i32
  } : (tensor<MxNxi32>) -> tensor<Mxi32>
  %flat = tile.reshape %v : tensor<MxNxi32> -> tensor<FLATxi32>
  %all = tile.reduce (%flat) axis 0 {
  ^bb0(%l: i32, %r: i32):
    %m = arith.addi %l, %r : i32
    tile.yield %m : i32
  } : (tensor<FLATxi32>) -> i32
  tile.store %o, %all : !tile.ptr<i32>, i32
  %one = arith.constant 1 : i32
  %o1 = tile.addptr %o, %one : !tile.ptr<i32>, i32
  %q0 = tile.splat %o1 : !tile.ptr<i32> -> tensor<Mx!tile.ptr<i32>>
  %q = tile.addptr %q0, %rm : tensor<Mx!tile.ptr<i32>>, tensor<Mxi32>
  tile.store %q, %last : tensor<Mx!tile.ptr<i32>>, tensor<Mxi32>
  %m_ = arith.constant M : i32
  %o2 = tile.addptr %o1, %m_ : !tile.ptr<i32>, i32
  %s0 = tile.splat %o2 : !tile.ptr<i32> -> tensor<Mx!tile.ptr<i32>>
  %s = tile.addptr %s0, %rm : tensor<Mx!tile.ptr<i32>>, tensor<Mxi32>
  tile.store %s, %rowmax : tensor<Mx!tile.ptr<i32>>, tensor<Mxi32>
  %o3 = tile.addptr %o2, %m_ : !tile.ptr<i32>, i32
  %t0 = tile.splat %o3 : !tile.ptr<i32> -> tensor<Nx!tile.ptr<i32>>
  %t = tile.addptr %t0, %rn : tensor<Nx!tile.ptr<i32>>, tensor<Nxi32>
  tile.store %t, %col : tensor<Nx!tile.ptr<i32>>, tensor<Nxi32>
  return
}
)";

TEST(Reduce, axes) {
  for (auto [m, n] : {std::pair(16, 64), std::pair(3, 7), std::pair(1, 50), std::pair(40, 1),
                      std::pair(2, 2), std::pair(5, 200)}) {
    std::string text = replaceAll(reduce2d, "FLAT", std::to_string(m * n));
    text = replaceAll(text, "Mx", std::to_string(m) + "x");
    text = replaceAll(text, "xM", "x" + std::to_string(m));
    text = replaceAll(text, "to M ", "to " + std::to_string(m) + " ");
    text = replaceAll(text, "constant M ", "constant " + std::to_string(m) + " ");
    text = replaceAll(text, "Nx", std::to_string(n) + "x");
    text = replaceAll(text, "xN", "x" + std::to_string(n));
    text = replaceAll(text, "<N>", "<" + std::to_string(n) + ">");
    text = replaceAll(text, "to N ", "to " + std::to_string(n) + " ");
    TestKernel kernel(text);
    std::vector<int32_t> x(m * n), o(1 + 2 * m + n);
    for (int i = 0; i < m * n; ++i)
      x[i] = (i * 7919) % 101 - 60;
    ASSERT_TRUE(kernel.run({x.data(), o.data()}));
    int all = 0;
    for (int v : x)
      all += v;
    ASSERT_EQ(o[0], all) << m << " " << n;
    for (int i = 0; i < m; ++i) {
      int last = x[i * n], max = x[i * n];
      for (int j = 1; j < n; ++j) {
        last = x[i * n + j] < 0 ? last : x[i * n + j];
        max = std::max(max, x[i * n + j]);
      }
      ASSERT_EQ(o[1 + i], last) << m << " " << n << " row " << i;
      ASSERT_EQ(o[1 + m + i], max);
    }
    for (int j = 0; j < n; ++j) {
      int sum = 0;
      for (int i = 0; i < m; ++i)
        sum += x[i * n + j];
      ASSERT_EQ(o[1 + 2 * m + j], sum) << m << " " << n << " column " << j;
    }
  }
}

TEST(Reduce, argmax) {
  for (int n : {8, 100, 512}) {
    TestKernel kernel(replaceAll(R"(
func.func @argmax(%x: !tile.ptr<f32>, %o: !tile.ptr<i32>) attributes {tile.kernel} {
  %r = tile.range 0 to B : tensor<Bxi32>
  %p0 = tile.splat %x : !tile.ptr<f32> -> tensor<Bx!tile.ptr<f32>>
  %p = tile.addptr %p0, %r : tensor<Bx!tile.ptr<f32>>, tensor<Bxi32>
  %v = tile.load %p : tensor<Bx!tile.ptr<f32>> -> tensor<Bxf32>
  %m:2 = tile.reduce (%v, %r) axis 0 {
  ^bb0(%v1: f32, %i1: i32, %v2: f32, %i2: i32):
    %eq = arith.cmpf oeq, %v1, %v2 : f32
    %lt = arith.cmpi slt, %i1, %i2 : i32
    %tie = arith.andi %eq, %lt : i1
    %gt = arith.cmpf ogt, %v1, %v2 : f32
    %take = arith.ori %gt, %tie : i1
    %v3 = arith.select %take, %v1, %v2 : f32
    %i3 = arith.select %take, %i1, %i2 : i32
    tile.yield %v3, %i3 : f32, i32
  } : (tensor<Bxf32>, tensor<Bxi32>) -> (f32, i32)
  tile.store %o, %m#1 : !tile.ptr<i32>, i32
  return
}
)",
                                 "B", std::to_string(n)));
    for (int seed = 0; seed < 20; ++seed) {
      std::vector<float> x(n);
      for (int i = 0; i < n; ++i)
        x[i] = (i * 31 + seed * 77) % 17;
      int32_t out = -1;
      ASSERT_TRUE(kernel.run({x.data(), &out}));
      ASSERT_EQ(out, std::max_element(x.begin(), x.end()) - x.begin());
    }
  }
}

TEST(Reduce, maximumIgnoresNan) {
  TestKernel kernel(R"(
func.func @m(%x: !tile.ptr<f32>, %o: !tile.ptr<f32>) attributes {tile.kernel} {
  %r = tile.range 0 to 256 : tensor<256xi32>
  %p0 = tile.splat %x : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>>
  %p = tile.addptr %p0, %r : tensor<256x!tile.ptr<f32>>, tensor<256xi32>
  %v = tile.load %p : tensor<256x!tile.ptr<f32>> -> tensor<256xf32>
  %m = tile.reduce (%v) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maxnumf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<256xf32>) -> f32
  tile.store %o, %m : !tile.ptr<f32>, f32
  return
}
)");
  std::vector<float> x(256, NAN);
  float out = 0;
  ASSERT_TRUE(kernel.run({x.data(), &out}));
  EXPECT_TRUE(std::isnan(out)) << "nothing but NaN gives NaN, not " << out;
  x[37] = -3;
  x[200] = -7;
  ASSERT_TRUE(kernel.run({x.data(), &out}));
  EXPECT_EQ(out, -3.0f);
}

} // namespace
