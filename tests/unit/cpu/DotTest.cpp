// Matrix products, alone and accumulated in a loop over K.
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

template <typename T, typename Acc>
void check(const char *el, const char *acc, int bm, int bn, int bk, int m, int n, int k) {
  std::string text = replaceAll(matmul, "BM_", std::to_string(bm));
  text = replaceAll(text, "BN_", std::to_string(bn));
  text = replaceAll(text, "BK_", std::to_string(bk));
  text = replaceAll(text, "ZERO", std::is_integral_v<Acc> ? "0" : "0.0");
  text = replaceAll(text, "EL", el);
  text = replaceAll(text, "ACC", acc);
  TestKernel kernel(text);
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

} // namespace
