// A loop of five products, as in the backward pass of attention: they run under one another's
// arithmetic, on simulated threads (src/gpu/schedule/ProductsInFlight.h).
#include "DividedKernel.h"

#include "ir/ngpu/Dialect.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace nereid;
using namespace nereid::test;

namespace {

constexpr int keys = 64, head = 64; // of a block

/// s = k q^T;  w = s / 2;  dp = v g^T;  dv += w g;  ds = w + dp;  dk += ds q;  dq = ds^T k
std::string textOf() {
  return R"(
func.func @backward(%q: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "q"},
                    %g: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "g"},
                    %k: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "k"},
                    %v: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "v"},
                    %dk: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "dk"},
                    %dv: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "dv"},
                    %dq: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "dq"}, %length: i32)
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %head = arith.constant 64 : i32
  %stride = arith.constant 64 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %half = arith.constant dense<0.5> : tensor<64x64xf32>
  %qd = tile.make_descriptor %q [%length, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %gd = tile.make_descriptor %g [%length, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %kd = tile.make_descriptor %k [%c64, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %vd = tile.make_descriptor %v [%c64, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %dkd = tile.make_descriptor %dk [%c64, %head] strides [%stride] copy_engine : !tile.ptr<f32> -> !tile.desc<64x64xf32>
  %dvd = tile.make_descriptor %dv [%c64, %head] strides [%stride] copy_engine : !tile.ptr<f32> -> !tile.desc<64x64xf32>
  %dqd = tile.make_descriptor %dq [%length, %head] strides [%stride] copy_engine : !tile.ptr<f32> -> !tile.desc<64x64xf32>
  %kb = tile.desc_load %kd [%c0, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
  %vb = tile.desc_load %vd [%c0, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
  %r:2 = scf.for %m = %c0 to %length step %c64 iter_args(%dka = %zero, %dva = %zero) -> (tensor<64x64xf32>, tensor<64x64xf32>) : i32 {
    %qb = tile.desc_load %qd [%m, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %gb = tile.desc_load %gd [%m, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %qt = tile.trans %qb [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
    %gt = tile.trans %gb [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
    %s = tile.dot %kb, %qt, %zero : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    %w = arith.mulf %s, %half : tensor<64x64xf32>
    %wh = arith.truncf %w : tensor<64x64xf32> to tensor<64x64xf16>
    %dvn = tile.dot %wh, %gb, %dva : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    %dp = tile.dot %vb, %gt, %zero : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    %ds = arith.addf %w, %dp : tensor<64x64xf32>
    %dsh = arith.truncf %ds : tensor<64x64xf32> to tensor<64x64xf16>
    %dkn = tile.dot %dsh, %qb, %dka : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    %dst = tile.trans %dsh [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
    %dqn = tile.dot %dst, %kb, %zero : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    tile.desc_store %dqd [%m, %c0], %dqn : !tile.desc<64x64xf32>, tensor<64x64xf32>
    scf.yield %dkn, %dvn : tensor<64x64xf32>, tensor<64x64xf32>
  }
  tile.desc_store %dkd [%c0, %c0], %r#0 : !tile.desc<64x64xf32>, tensor<64x64xf32>
  tile.desc_store %dvd [%c0, %c0], %r#1 : !tile.desc<64x64xf32>, tensor<64x64xf32>
  return
}
)";
}

struct Outcome : DividedOutcome {
  unsigned wrong = 0;
};

Outcome run(int length, int warps, llvm::function_ref<void(func::FuncOp)> change = nullptr) {
  gpu::GpuOptions options;
  options.numWarps = warps;
  options.numStages = 2;
  options.specialise = gpu::Specialise::Always;
  options.verify = true;
  auto number = [](size_t i, int by) { return float(int(i * by % 7) - 3) * (i * by % 11 < 3); };
  std::vector<float> q(length * head), g(q.size()), k(keys * head), v(k.size());
  for (size_t i = 0; i < q.size(); ++i) {
    q[i] = number(i + i / 97, 3);
    g[i] = number(i + i / 61, 5);
  }
  for (size_t i = 0; i < k.size(); ++i) {
    k[i] = number(i + i / 83, 2);
    v[i] = number(i + i / 71, 13);
  }
  auto halves = [](const std::vector<float> &values) {
    std::vector<uint16_t> result;
    for (float value : values)
      result.push_back(halfOf(value));
    return result;
  };
  std::vector<float> dk(k.size(), -1), dv(k.size(), -1), dq(q.size() + 1, -1);
  std::vector<float> wantK(k.size(), 0), wantV(k.size(), 0), wantQ(q.size(), 0);
  for (int m = 0; m < length; ++m)
    for (int n = 0; n < keys; ++n) {
      float w = 0, dp = 0;
      for (int d = 0; d < head; ++d) {
        w += k[n * head + d] * q[m * head + d] / 2;
        dp += v[n * head + d] * g[m * head + d];
      }
      for (int d = 0; d < head; ++d) {
        wantV[n * head + d] += w * g[m * head + d];
        wantK[n * head + d] += (w + dp) * q[m * head + d];
        wantQ[m * head + d] += (w + dp) * k[n * head + d];
      }
    }
  auto qh = halves(q), gh = halves(g), kh = halves(k), vh = halves(v);
  qh.push_back(0); // no empty memory
  gh.push_back(0);
  auto word = [](auto &values) { return reinterpret_cast<uint64_t>(values.data()); };
  Outcome outcome{runDivided(
      textOf(), options,
      {word(qh), word(gh), word(kh), word(vh), word(dk), word(dv), word(dq), uint64_t(length)},
      change)};
  auto compare = [&](const std::vector<float> &got, const std::vector<float> &want) {
    for (size_t i = 0; i < want.size(); ++i)
      outcome.wrong += !(got[i] == want[i]);
  };
  compare(dk, wantK);
  compare(dv, wantV);
  compare(dq, wantQ);
  return outcome;
}

TEST(ProductsInFlight, GiveTheSameNumbers) {
  for (int warps : {4, 8})
    for (int length : {0, 64, 128, 320}) {
      SCOPED_TRACE(std::to_string(warps) + " warps, length " + std::to_string(length));
      SmallVector<int> pending;
      unsigned products = 0, inTurn = 0;
      Outcome outcome = run(length, warps, [&](func::FuncOp kernel) {
        kernel.walk([&](Operation *op) {
          if (auto wait = dyn_cast<ngpu::WgmmaWaitOp>(op))
            pending.push_back(int(wait.getPending()));
          if (auto product = dyn_cast<ngpu::WgmmaOp>(op))
            ++(product.getAsync() ? products : inTurn);
        });
      });
      EXPECT_EQ(outcome.error, "");
      EXPECT_TRUE(outcome.divided);
      EXPECT_EQ(outcome.wrong, 0u);
      EXPECT_EQ(products, 5u);
      EXPECT_EQ(inTurn, 0u);
      // s, while dp runs; dp, while dv runs; dq, and with it all others. One group of four warps
      // has the first operands of dv and dk in its registers.
      if (warps == 4)
        EXPECT_EQ(pending, (SmallVector<int>{1, 1, 0}));
    }
}

//===--- one product an iteration behind
//-------------------------------------------------------------------------------------===//

constexpr int wide = 128; // elements of a head, and keys

/// The same with `w = s / 2 - c`, where c has a number for each query, in blocks of 128 keys x 64
/// queries. The product dq^T = k^T ds of an iteration stands at the beginning of the next one and
/// is added by the copy engine.
std::string textBehind() {
  return R"(
func.func @backward(%q: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "q"},
                    %g: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "g"},
                    %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
                    %k: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "k"},
                    %v: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "v"},
                    %dk: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "dk"},
                    %dv: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "dv"},
                    %dq: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "dq"}, %length: i32)
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %head = arith.constant 128 : i32
  %stride = arith.constant 128 : i64
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %zeros = arith.constant dense<0.0> : tensor<128x64xf32>
  %none = arith.constant dense<0.0> : tensor<128x64xf16>
  %half = arith.constant dense<0.5> : tensor<128x64xf32>
  %qd = tile.make_descriptor %q [%length, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x128xf16>
  %gd = tile.make_descriptor %g [%length, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x128xf16>
  %cd = tile.make_descriptor %c [%length] strides [] copy_engine : !tile.ptr<f32> -> !tile.desc<64xf32>
  %kd = tile.make_descriptor %k [%head, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<128x128xf16>
  %vd = tile.make_descriptor %v [%head, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<128x128xf16>
  %dkd = tile.make_descriptor %dk [%head, %head] strides [%stride] copy_engine : !tile.ptr<f32> -> !tile.desc<128x128xf32>
  %dvd = tile.make_descriptor %dv [%head, %head] strides [%stride] copy_engine : !tile.ptr<f32> -> !tile.desc<128x128xf32>
  %dqd = tile.make_descriptor %dq [%length, %head] strides [%stride] copy_engine : !tile.ptr<f32> -> !tile.desc<64x128xf32>
  %kb = tile.desc_load %kd [%c0, %c0] : !tile.desc<128x128xf16> -> tensor<128x128xf16>
  %vb = tile.desc_load %vd [%c0, %c0] : !tile.desc<128x128xf16> -> tensor<128x128xf16>
  %kt = tile.trans %kb [1, 0] : tensor<128x128xf16> -> tensor<128x128xf16>
  %r:4 = scf.for %m = %c0 to %length step %c64 iter_args(%dka = %zero, %dva = %zero, %before = %none, %last = %length)
      -> (tensor<128x128xf32>, tensor<128x128xf32>, tensor<128x64xf16>, i32) : i32 {
    %qb = tile.desc_load %qd [%m, %c0] : !tile.desc<64x128xf16> -> tensor<64x128xf16>
    %gb = tile.desc_load %gd [%m, %c0] : !tile.desc<64x128xf16> -> tensor<64x128xf16>
    %cb = tile.desc_load %cd [%m] : !tile.desc<64xf32> -> tensor<64xf32>
    %dqt = tile.dot %kt, %before, %zeros : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
    %dqb = tile.trans %dqt [1, 0] : tensor<128x64xf32> -> tensor<64x128xf32>
    tile.desc_reduce fadd %dqd [%last, %c0], %dqb : !tile.desc<64x128xf32>, tensor<64x128xf32>
    %qt = tile.trans %qb [1, 0] : tensor<64x128xf16> -> tensor<128x64xf16>
    %gt = tile.trans %gb [1, 0] : tensor<64x128xf16> -> tensor<128x64xf16>
    %s = tile.dot %kb, %qt, %zeros : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
    %scaled = arith.mulf %s, %half : tensor<128x64xf32>
    %row = tile.expand_dims %cb 0 : tensor<64xf32> -> tensor<1x64xf32>
    %rows = tile.broadcast %row : tensor<1x64xf32> -> tensor<128x64xf32>
    %w = arith.subf %scaled, %rows : tensor<128x64xf32>
    %dp = tile.dot %vb, %gt, %zeros : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
    %ds = arith.addf %w, %dp : tensor<128x64xf32>
    %wh = arith.truncf %w : tensor<128x64xf32> to tensor<128x64xf16>
    %dvn = tile.dot %wh, %gb, %dva : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
    %dsh = arith.truncf %ds : tensor<128x64xf32> to tensor<128x64xf16>
    %dkn = tile.dot %dsh, %qb, %dka : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
    scf.yield %dkn, %dvn, %dsh, %m : tensor<128x128xf32>, tensor<128x128xf32>, tensor<128x64xf16>, i32
  }
  %dqt = tile.dot %kt, %r#2, %zeros : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
  %dqb = tile.trans %dqt [1, 0] : tensor<128x64xf32> -> tensor<64x128xf32>
  tile.desc_reduce fadd %dqd [%r#3, %c0], %dqb : !tile.desc<64x128xf32>, tensor<64x128xf32>
  tile.desc_store %dkd [%c0, %c0], %r#0 : !tile.desc<128x128xf32>, tensor<128x128xf32>
  tile.desc_store %dvd [%c0, %c0], %r#1 : !tile.desc<128x128xf32>, tensor<128x128xf32>
  return
}
)";
}

Outcome runBehind(int length, llvm::function_ref<void(func::FuncOp)> change = nullptr) {
  gpu::GpuOptions options;
  options.numWarps = 8;
  options.numStages = 2;
  options.specialise = gpu::Specialise::Always;
  options.verify = true;
  // Few are not 0, so that sums stay numbers of halves.
  auto number = [](size_t i, int by) { return float(int(i * by % 7) - 3) * (i * by % 11 < 2); };
  std::vector<float> q(length * wide), g(q.size()), c(length + 1), k(wide * wide), v(k.size());
  for (size_t i = 0; i < q.size(); ++i) {
    q[i] = number(i + i / 97, 3);
    g[i] = number(i + i / 61, 5);
  }
  for (size_t i = 0; i < k.size(); ++i) {
    k[i] = number(i + i / 83, 2);
    v[i] = number(i + i / 71, 13);
  }
  for (size_t i = 0; i < c.size(); ++i)
    c[i] = number(i, 4);
  auto halves = [](const std::vector<float> &values) {
    std::vector<uint16_t> result(values.size() + 1);
    std::transform(values.begin(), values.end(), result.begin(), halfOf);
    return result;
  };
  std::vector<float> dk(k.size(), -1), dv(k.size(), -1), dq(q.size() + 1, 5);
  std::vector<float> wantK(k.size(), 0), wantV(k.size(), 0), wantQ(q.size(), 5);
  for (int m = 0; m < length; ++m)
    for (int n = 0; n < wide; ++n) {
      float w = -c[m], dp = 0;
      for (int d = 0; d < wide; ++d) {
        w += k[n * wide + d] * q[m * wide + d] / 2;
        dp += v[n * wide + d] * g[m * wide + d];
      }
      for (int d = 0; d < wide; ++d) {
        wantV[n * wide + d] += w * g[m * wide + d];
        wantK[n * wide + d] += (w + dp) * q[m * wide + d];
        wantQ[m * wide + d] += (w + dp) * k[n * wide + d];
      }
    }
  auto qh = halves(q), gh = halves(g), kh = halves(k), vh = halves(v);
  auto word = [](auto &values) { return reinterpret_cast<uint64_t>(values.data()); };
  Outcome outcome{runDivided(textBehind(), options,
                             {word(qh), word(gh), word(c), word(kh), word(vh), word(dk), word(dv),
                              word(dq), uint64_t(length)},
                             change)};
  auto compare = [&](const std::vector<float> &got, const std::vector<float> &want) {
    for (size_t i = 0; i < want.size(); ++i)
      outcome.wrong += !(got[i] == want[i]);
  };
  compare(dk, wantK);
  compare(dv, wantV);
  compare(dq, wantQ);
  return outcome;
}

TEST(ProductsInFlight, OneEndsInTheNextIteration) {
  for (int length : {0, 64, 192, 320}) {
    SCOPED_TRACE(length);
    SmallVector<int> pending;
    bool byGroups = false;
    Outcome outcome = runBehind(length, [&](func::FuncOp kernel) {
      kernel.walk([&](ngpu::WgmmaWaitOp wait) { pending.push_back(int(wait.getPending())); });
      kernel.walk([&](ngpu::TmaStoreOp store) { byGroups |= store.getColumns() == 64u; });
    });
    EXPECT_EQ(outcome.error, "");
    EXPECT_TRUE(outcome.divided);
    EXPECT_TRUE(byGroups);
    EXPECT_EQ(outcome.wrong, 0u);
    // dq, under s; dp is issued behind the last use of dq, for the sake of registers; s, under dp;
    // dp, under dv; dv, under dk. Behind the loop: dk.
    EXPECT_EQ(pending, (SmallVector<int>{1, 1, 1, 1, 0}));
  }
}

TEST(ProductsInFlight, ReadingTheLastSlotTooEarlyIsFound) {
  Outcome outcome = runBehind(320, [](func::FuncOp kernel) {
    bool first = true;
    kernel.walk([&](ngpu::WgmmaWaitOp wait) {
      if (std::exchange(first, false))
        wait.setPending(
            5); // the product of the iteration before is in flight when its slot is released
    });
  });
  EXPECT_NE(outcome.error.find("product in flight reads"), std::string::npos) << outcome.error;
}

TEST(ProductsInFlight, AReductionsBufferWrittenTooEarlyIsFound) {
  Outcome outcome = runBehind(320, [](func::FuncOp kernel) {
    SmallVector<Operation *> waits;
    kernel.walk([&](ngpu::TmaStoreWaitOp wait) { waits.push_back(wait); });
    waits[0]->erase();
  });
  EXPECT_NE(outcome.error.find("which a store of thread"), std::string::npos) << outcome.error;
}

TEST(ProductsInFlight, ReleaseBeforeAProductHasEndedIsFound) {
  Outcome outcome = run(320, 4, [](func::FuncOp kernel) {
    kernel.walk([](ngpu::WgmmaWaitOp wait) {
      if (!wait.getPending())
        wait.setPending(5);
    });
  });
  EXPECT_NE(outcome.error.find("product in flight reads"), std::string::npos) << outcome.error;
}

} // namespace
