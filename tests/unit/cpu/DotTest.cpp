// Matrix products, alone and accumulated in a loop over K.
#include "Run.h"
#include "Tiles.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace nereid::test;

namespace {

std::string replaceAll(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// C[M, N] = A[M, K] * B[K, N] with a loop over K; BM x BN x BK blocks, one program a block of C.
const char *matmul = R"(
func.func @matmul(%a: !tile.ptr<EL> {tile.divisibility = 16 : i64}, %b: !tile.ptr<EL>, %c: !tile.ptr<ACC>, %M: i32, %N: i32, %K: i32,
                  %am: i32 {tile.divisibility = 16 : i64}, %bk: i32 {tile.divisibility = 16 : i64}, %cm: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %pm = tile.program_id 0
  %pn = tile.program_id 1
  %cBM = arith.constant BM_ : i32
  %cBN = arith.constant BN_ : i32
  %cBK = arith.constant BK_ : i32
  %c0 = arith.constant 0 : i32
  %r0 = arith.muli %pm, %cBM : i32
  %n0 = arith.muli %pn, %cBN : i32
  %rmr = tile.range 0 to BM_ : tensor<BM_xi32>
  %rnr = tile.range 0 to BN_ : tensor<BN_xi32>
  %rk = tile.range 0 to BK_ : tensor<BK_xi32>
  %r0s = tile.splat %r0 : i32 -> tensor<BM_xi32>
  %n0s = tile.splat %n0 : i32 -> tensor<BN_xi32>
  %rm = arith.addi %r0s, %rmr : tensor<BM_xi32>
  %rn = arith.addi %n0s, %rnr : tensor<BN_xi32>
  %Ms = tile.splat %M : i32 -> tensor<BM_xi32>
  %Ns = tile.splat %N : i32 -> tensor<BN_xi32>
  %rmw = arith.remsi %rm, %Ms : tensor<BM_xi32>
  %rnw = arith.remsi %rn, %Ns : tensor<BN_xi32>
  %rm1 = tile.expand_dims %rmw 1 : tensor<BM_xi32> -> tensor<BM_x1xi32>
  %ams = tile.splat %am : i32 -> tensor<BM_x1xi32>
  %ao0 = arith.muli %rm1, %ams : tensor<BM_x1xi32>
  %rk0 = tile.expand_dims %rk 0 : tensor<BK_xi32> -> tensor<1xBK_xi32>
  %ao1 = tile.broadcast %ao0 : tensor<BM_x1xi32> -> tensor<BM_xBK_xi32>
  %ao2 = tile.broadcast %rk0 : tensor<1xBK_xi32> -> tensor<BM_xBK_xi32>
  %ao = arith.addi %ao1, %ao2 : tensor<BM_xBK_xi32>
  %as = tile.splat %a : !tile.ptr<EL> -> tensor<BM_xBK_x!tile.ptr<EL>>
  %ap = tile.addptr %as, %ao : tensor<BM_xBK_x!tile.ptr<EL>>, tensor<BM_xBK_xi32>
  %rk1 = tile.expand_dims %rk 1 : tensor<BK_xi32> -> tensor<BK_x1xi32>
  %bks = tile.splat %bk : i32 -> tensor<BK_x1xi32>
  %bo0 = arith.muli %rk1, %bks : tensor<BK_x1xi32>
  %rn0 = tile.expand_dims %rnw 0 : tensor<BN_xi32> -> tensor<1xBN_xi32>
  %bo1 = tile.broadcast %bo0 : tensor<BK_x1xi32> -> tensor<BK_xBN_xi32>
  %bo2 = tile.broadcast %rn0 : tensor<1xBN_xi32> -> tensor<BK_xBN_xi32>
  %bo = arith.addi %bo1, %bo2 : tensor<BK_xBN_xi32>
  %bs = tile.splat %b : !tile.ptr<EL> -> tensor<BK_xBN_x!tile.ptr<EL>>
  %bp = tile.addptr %bs, %bo : tensor<BK_xBN_x!tile.ptr<EL>>, tensor<BK_xBN_xi32>
  %zero = arith.constant dense<ZERO> : tensor<BM_xBN_xACC>
  %kstep = tile.splat %cBK : i32 -> tensor<BM_xBK_xi32>
  %bstep0 = arith.muli %cBK, %bk : i32
  %bstep = tile.splat %bstep0 : i32 -> tensor<BK_xBN_xi32>
  %acc:3 = scf.for %k = %c0 to %K step %cBK iter_args(%sum = %zero, %pa = %ap, %pb = %bp) -> (tensor<BM_xBN_xACC>, tensor<BM_xBK_x!tile.ptr<EL>>, tensor<BK_xBN_x!tile.ptr<EL>>) : i32 {
    %left = arith.subi %K, %k : i32
    %lefts = tile.splat %left : i32 -> tensor<1xBK_xi32>
    %mk = arith.cmpi slt, %rk0, %lefts : tensor<1xBK_xi32>
    %mka = tile.broadcast %mk : tensor<1xBK_xi1> -> tensor<BM_xBK_xi1>
    %va = tile.load %pa mask %mka : tensor<BM_xBK_x!tile.ptr<EL>>, mask tensor<BM_xBK_xi1> -> tensor<BM_xBK_xEL>
    %left2 = tile.splat %left : i32 -> tensor<BK_x1xi32>
    %mk2 = arith.cmpi slt, %rk1, %left2 : tensor<BK_x1xi32>
    %mkb = tile.broadcast %mk2 : tensor<BK_x1xi1> -> tensor<BK_xBN_xi1>
    %vb = tile.load %pb mask %mkb : tensor<BK_xBN_x!tile.ptr<EL>>, mask tensor<BK_xBN_xi1> -> tensor<BK_xBN_xEL>
    %d = tile.dot %va, %vb, %sum : tensor<BM_xBK_xEL>, tensor<BK_xBN_xEL> -> tensor<BM_xBN_xACC>
    %na = tile.addptr %pa, %kstep : tensor<BM_xBK_x!tile.ptr<EL>>, tensor<BM_xBK_xi32>
    %nb = tile.addptr %pb, %bstep : tensor<BK_xBN_x!tile.ptr<EL>>, tensor<BK_xBN_xi32>
    scf.yield %d, %na, %nb : tensor<BM_xBN_xACC>, tensor<BM_xBK_x!tile.ptr<EL>>, tensor<BK_xBN_x!tile.ptr<EL>>
  }
  %rmc = tile.expand_dims %rm 1 : tensor<BM_xi32> -> tensor<BM_x1xi32>
  %cms = tile.splat %cm : i32 -> tensor<BM_x1xi32>
  %co0 = arith.muli %rmc, %cms : tensor<BM_x1xi32>
  %rnc = tile.expand_dims %rn 0 : tensor<BN_xi32> -> tensor<1xBN_xi32>
  %co1 = tile.broadcast %co0 : tensor<BM_x1xi32> -> tensor<BM_xBN_xi32>
  %co2 = tile.broadcast %rnc : tensor<1xBN_xi32> -> tensor<BM_xBN_xi32>
  %co = arith.addi %co1, %co2 : tensor<BM_xBN_xi32>
  %cs = tile.splat %c : !tile.ptr<ACC> -> tensor<BM_xBN_x!tile.ptr<ACC>>
  %cp = tile.addptr %cs, %co : tensor<BM_xBN_x!tile.ptr<ACC>>, tensor<BM_xBN_xi32>
  %Ms1 = tile.splat %M : i32 -> tensor<BM_x1xi32>
  %Ns1 = tile.splat %N : i32 -> tensor<1xBN_xi32>
  %m1 = arith.cmpi slt, %rmc, %Ms1 : tensor<BM_x1xi32>
  %m2 = arith.cmpi slt, %rnc, %Ns1 : tensor<1xBN_xi32>
  %m1b = tile.broadcast %m1 : tensor<BM_x1xi1> -> tensor<BM_xBN_xi1>
  %m2b = tile.broadcast %m2 : tensor<1xBN_xi1> -> tensor<BM_xBN_xi1>
  %cmask = arith.andi %m1b, %m2b : tensor<BM_xBN_xi1>
  tile.store %cp, %acc#0 mask %cmask : tensor<BM_xBN_x!tile.ptr<ACC>>, tensor<BM_xBN_xACC>, mask tensor<BM_xBN_xi1>
  return
}
)";

/// `tiles`: CPU features with tiles, whose instructions are emulated; null: those at hand.
template <typename T, typename Acc>
void check(const char *el, const char *acc, int bm, int bn, int bk, int m, int n, int k,
           const char *tiles = nullptr) {
  std::string text = replaceAll(matmul, "BM_", std::to_string(bm));
  text = replaceAll(text, "BN_", std::to_string(bn));
  text = replaceAll(text, "BK_", std::to_string(bk));
  text = replaceAll(text, "ZERO", std::is_integral_v<Acc> ? "0" : "0.0");
  text = replaceAll(text, "EL", el);
  text = replaceAll(text, "ACC", acc);
  TestKernel kernel = tiles ? TestKernel::withEmulatedTiles(text, tiles) : TestKernel(text);
  int lda = (k + 15) / 16 * 16, ldb = (n + 15) / 16 * 16, ldc = ldb;
  std::vector<T> a(m * lda), b(k * ldb);
  std::vector<Acc> c(m * ldc);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = T(int(i * 7 % 13) - 6);
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = T(int(i * 5 % 11) - 5);
  ASSERT_TRUE(kernel.run({a.data(), b.data(), c.data(), m, n, k, lda, ldb, ldc}, (m + bm - 1) / bm,
                         (n + bn - 1) / bn));
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int l = 0; l < k; ++l)
        sum += double(a[i * lda + l]) * double(b[l * ldb + j]);
      ASSERT_EQ(double(c[i * ldc + j]), sum) << i << " " << j;
    }
}

TEST(Dot, f32) {
  check<float, float>("f32", "f32", 32, 64, 16, 96, 128, 64);
  check<float, float>("f32", "f32", 32, 32, 32, 50, 70, 45);
  check<float, float>("f32", "f32", 5, 7, 3, 11, 20, 10);
}
TEST(Dot, f64) {
  check<double, double>("f64", "f64", 16, 32, 16, 40, 50, 33);
}
TEST(Dot, i8) {
  check<int8_t, int32_t>("i8", "i32", 16, 32, 32, 40, 50, 70);
}

// Blocks of whole tiles, of K below a tile, with edges along each dimension, and of less than a
// tile; matrices that end within a block.
const int tileShapes[][6] = {{32, 32, 64, 70, 50, 200}, {64, 48, 128, 64, 48, 128},
                             {16, 16, 16, 33, 20, 40},  {40, 23, 48, 90, 50, 100},
                             {23, 40, 70, 23, 40, 70},  {5, 7, 33, 9, 8, 64},
                             {48, 80, 32, 48, 80, 96},  {17, 33, 64, 40, 70, 64}};

#if defined(__x86_64__)
TEST(Tiles, BF16) {
  for (auto [bm, bn, bk, m, n, k] : tileShapes)
    check<BFloat16, float>("bf16", "f32", bm, bn, bk, m, n, k, "sapphirerapids");
}
TEST(Tiles, I8) {
  for (auto [bm, bn, bk, m, n, k] : tileShapes)
    check<int8_t, int32_t>("i8", "i32", bm, bn, bk, m, n, k, "sapphirerapids");
}
TEST(Tiles, F16) {
  for (auto [bm, bn, bk, m, n, k] : tileShapes)
    check<_Float16, float>("f16", "f32", bm, bn, bk, m, n, k, "graniterapids");
}

// Two products of one size, of which the first starts from zero: 2 A B. Each operand as it is, or
// as the transpose of what is loaded.
std::string twoProducts(int m, int n, int k, bool leftTransposed, bool rightTransposed,
                        const char *el, const char *acc) {
  auto operand = [&](const std::string &name, int rows, int columns, bool transposed) {
    std::string text = R"(
  %r_X = tile.range 0 to ROWS_ : tensor<ROWS_xi32>
  %c_X = tile.range 0 to COLS_ : tensor<COLS_xi32>
  %r1_X = tile.expand_dims %r_X 1 : tensor<ROWS_xi32> -> tensor<ROWS_x1xi32>
  %width_X = arith.constant dense<COLS_> : tensor<ROWS_x1xi32>
  %r2_X = arith.muli %r1_X, %width_X : tensor<ROWS_x1xi32>
  %c1_X = tile.expand_dims %c_X 0 : tensor<COLS_xi32> -> tensor<1xCOLS_xi32>
  %r3_X = tile.broadcast %r2_X : tensor<ROWS_x1xi32> -> tensor<ROWS_xCOLS_xi32>
  %c3_X = tile.broadcast %c1_X : tensor<1xCOLS_xi32> -> tensor<ROWS_xCOLS_xi32>
  %offset_X = arith.addi %r3_X, %c3_X : tensor<ROWS_xCOLS_xi32>
  %s_X = tile.splat %X : !tile.ptr<EL> -> tensor<ROWS_xCOLS_x!tile.ptr<EL>>
  %p_X = tile.addptr %s_X, %offset_X : tensor<ROWS_xCOLS_x!tile.ptr<EL>>, tensor<ROWS_xCOLS_xi32>
)";
    if (name != "c")
      text +=
          "  %v_X = tile.load %p_X : tensor<ROWS_xCOLS_x!tile.ptr<EL>> -> tensor<ROWS_xCOLS_xEL>\n";
    if (transposed)
      text +=
          "  %t_X = tile.trans %v_X [1, 0] : tensor<ROWS_xCOLS_xEL> -> tensor<COLS_xROWS_xEL>\n";
    text = replaceAll(text, "ROWS_", std::to_string(rows));
    text = replaceAll(text, "COLS_", std::to_string(columns));
    text = replaceAll(text, "EL", name == "c" ? acc : el);
    text = replaceAll(text, "_X", "_" + name);
    return replaceAll(text, "%X", "%" + name);
  };
  std::string text = "func.func @twice(%a: !tile.ptr<EL>, %b: !tile.ptr<EL>, %c: !tile.ptr<ACC>) "
                     "attributes {tile.kernel} {";
  text += operand("a", leftTransposed ? k : m, leftTransposed ? m : k, leftTransposed);
  text += operand("b", rightTransposed ? n : k, rightTransposed ? k : n, rightTransposed);
  text += operand("c", m, n, false);
  text += R"(
  %zero = arith.constant dense<ZERO> : tensor<M_xN_xACC>
  %once = tile.dot %LEFT, %RIGHT, %zero : tensor<M_xK_xEL>, tensor<K_xN_xEL> -> tensor<M_xN_xACC>
  %twice = tile.dot %LEFT, %RIGHT, %once : tensor<M_xK_xEL>, tensor<K_xN_xEL> -> tensor<M_xN_xACC>
  tile.store %p_c, %twice : tensor<M_xN_x!tile.ptr<ACC>>, tensor<M_xN_xACC>
  return
}
)";
  text = replaceAll(text, "LEFT", leftTransposed ? "t_a" : "v_a");
  text = replaceAll(text, "RIGHT", rightTransposed ? "t_b" : "v_b");
  text = replaceAll(text, "ZERO", acc[0] == 'i' ? "0" : "0.0");
  text = replaceAll(text, "ACC", acc);
  text = replaceAll(text, "EL", el);
  text = replaceAll(text, "M_", std::to_string(m));
  text = replaceAll(text, "N_", std::to_string(n));
  return replaceAll(text, "K_", std::to_string(k));
}

template <typename T, typename Acc>
void checkTwoProducts(int m, int n, int k, const char *el, const char *acc) {
  for (bool left : {false, true})
    for (bool right : {false, true}) {
      TestKernel kernel = TestKernel::withEmulatedTiles(twoProducts(m, n, k, left, right, el, acc),
                                                        "sapphirerapids");
      std::vector<T> a(m * k), b(k * n);
      std::vector<Acc> c(m * n);
      for (size_t i = 0; i < a.size(); ++i)
        a[i] = T(int(i * 7 % 13) - 6);
      for (size_t i = 0; i < b.size(); ++i)
        b[i] = T(int(i * 5 % 11) - 5);
      ASSERT_TRUE(kernel.run({a.data(), b.data(), c.data()}));
      EXPECT_FALSE(tilesInUse());
      for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
          double sum = 0;
          for (int l = 0; l < k; ++l)
            sum += 2 * double(a[left ? l * m + i : i * k + l]) *
                   double(b[right ? j * k + l : l * n + j]);
          ASSERT_EQ(double(c[i * n + j]), sum)
              << m << "x" << n << "x" << k << " " << el << left << right << " " << i << " " << j;
        }
    }
}

TEST(Tiles, TransposedOperandsAndSharedFunctions) {
  const int sizes[][3] = {{32, 32, 64}, {16, 48, 32}, {20, 37, 50}, {50, 16, 131}};
  for (auto [m, n, k] : sizes) {
    checkTwoProducts<BFloat16, float>(m, n, k, "bf16", "f32");
    checkTwoProducts<int8_t, int32_t>(m, n, k, "i8", "i32");
  }
}

// The instructions of a kernel: one setup and one release for all products, none where a product is
// too small for tiles.
TEST(Tiles, AreSetUpOnceAndReleased) {
  auto assembly = [](int m, int k, const char *features) {
    nereid::targets::CompileOptions options;
    options.features = features;
    options.load = false;
    options.keepStages = true;
    auto kernel = compileText(twoProducts(m, 32, k, false, false, "bf16", "f32"), options);
    std::string why;
    return (*kernel)->text("asm", why).value_or(why);
  };
  auto count = [](const std::string &text, const char *word) {
    int found = 0;
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at)
      ++found;
    return found;
  };
  std::string text = assembly(32, 64, "sapphirerapids");
  EXPECT_EQ(count(text, "ldtilecfg"), 1);
  EXPECT_EQ(count(text, "tilerelease"), 1);
  EXPECT_EQ(count(text, "tdpbf16ps"), 4); // a block of 2 x 2 tiles, in a function of both products
  for (const std::string &other :
       {assembly(2, 64, "sapphirerapids"), assembly(32, 64, "avx512bf16")})
    EXPECT_EQ(count(other, "tile"), 0) << other;
}
#endif

} // namespace
