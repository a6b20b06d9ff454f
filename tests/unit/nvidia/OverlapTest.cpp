// Loops of two products in divided kernels: the second product of an iteration runs under the work
// between the products of the next one, and groups of warps issue their products in turn.
#include "DividedKernel.h"

#include "ir/ngpu/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;

namespace nereid::test {
namespace {

/// For blocks of `columns` rows of k and v, in one loop up to `split` and a second one from there:
///
///     s = q k[j]^T;  sign = the largest s so far has grown in this block ? -1 : 1
///     out = out sign + (s - the largest so far) v[j]
///
/// All of it in small whole numbers. With `Scaling::Powers` out is multiplied by
/// exp2(the largest before - the largest now) instead, with `Skipped` where that is not 1.
enum class Scaling { Signs, Powers, Skipped };
struct Problem {
  int blockM = 128, columns = 64, head = 64, length = 256, split = 0, warps = 8, stages = 2;
  Scaling scaling = Scaling::Signs;
  gpu::Specialise specialise = gpu::Specialise::Always;
};

std::string textOf(const Problem &p) {
  std::string loop = R"(
    %accN, %topN = scf.for %j = LOW to HIGH step %columns iter_args(%acc = ACC, %top = TOP) -> (tensor<O>, tensor<R>) : i32 {
      %kb = tile.desc_load %kd [%j, %c0] : !tile.desc<B> -> tensor<B>
      %kt = tile.trans %kb [1, 0] : tensor<B> -> tensor<T>
      %s = tile.dot %qb, %kt, %zeroS : tensor<Q>, tensor<T> -> tensor<S>
      %most = tile.reduce(%s) axis 1 {
      ^bb0(%x: f32, %y: f32):
        %m = arith.maxnumf %x, %y : f32
        tile.yield %m : f32
      } : (tensor<S>) -> tensor<R>
      %now = arith.maxnumf %top, %most : tensor<R>
FACTOR      %e = tile.expand_dims %now 1 : tensor<R> -> tensor<Mx1xf32>
      %w = tile.broadcast %e : tensor<Mx1xf32> -> tensor<S>
      %p = arith.subf %s, %w : tensor<S>
      %ph = arith.truncf %p : tensor<S> to tensor<P>
      %se = tile.expand_dims %sign 1 : tensor<R> -> tensor<Mx1xf32>
      %sw = tile.broadcast %se : tensor<Mx1xf32> -> tensor<O>
      %scaled = arith.mulf %acc, %sw : tensor<O>
      %vb = tile.desc_load %vd [%j, %c0] : !tile.desc<B> -> tensor<B>
      %sum = tile.dot %ph, %vb, %scaled : tensor<P>, tensor<B> -> tensor<O>
      scf.yield %sum, %now : tensor<O>, tensor<R>
    }
)";
  std::string text = R"(
func.func @k(%q: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "q"},
             %k: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "k"},
             %v: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "v"},
             %out: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "out"},
             %length: i32, %split: i32)
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %columns = arith.constant NN : i32
  %rows = arith.constant MM : i32
  %head = arith.constant HH : i32
  %stride = arith.constant HH : i64
  %zeroS = arith.constant dense<0.0> : tensor<S>
  %zeroO = arith.constant dense<0.0> : tensor<O>
  %least = arith.constant dense<-1000.0> : tensor<R>
  %plus = arith.constant dense<1.0> : tensor<R>
  %minus = arith.constant dense<-1.0> : tensor<R>
  %qd = tile.make_descriptor %q [%rows, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<Q>
  %kd = tile.make_descriptor %k [%length, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<B>
  %vd = tile.make_descriptor %v [%length, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<B>
  %od = tile.make_descriptor %out [%rows, %head] strides [%stride] copy_engine : !tile.ptr<f32> -> !tile.desc<O>
  %qb = tile.desc_load %qd [%c0, %c0] : !tile.desc<Q> -> tensor<Q>
)";
  auto replaceIn = [](std::string &where, const std::string &from, const std::string &to) {
    for (size_t at = 0; (at = where.find(from, at)) != std::string::npos; at += to.size())
      where.replace(at, from.size(), to);
  };
  replaceIn(loop, "FACTOR",
            p.scaling == Scaling::Signs
                ? "%grows = arith.cmpf ogt, %now, %top : tensor<R>\n"
                  "%sign = arith.select %grows, %minus, %plus : tensor<Mxi1>, tensor<R>\n"
                : "%less = arith.subf %top, %now : tensor<R>\n"
                  "%sign = math.exp2 %less : tensor<R>\n");
  std::string second = loop;
  replaceIn(loop, "accN", "acc0");
  replaceIn(loop, "topN", "top0");
  replaceIn(loop, "LOW", "%c0");
  replaceIn(loop, "HIGH", p.split ? "%split" : "%length");
  replaceIn(loop, "ACC", "%zeroO");
  replaceIn(loop, "TOP", "%least");
  replaceIn(second, "accN", "acc1");
  replaceIn(second, "topN", "top1");
  replaceIn(second, "LOW", "%split");
  replaceIn(second, "HIGH", "%length");
  replaceIn(second, "ACC", "%acc0");
  replaceIn(second, "TOP", "%top0");
  text += loop + (p.split ? second : "") + "  tile.desc_store %od [%c0, %c0], " +
          (p.split ? "%acc1" : "%acc0") + " : !tile.desc<O>, tensor<O>\n  return\n}\n";
  auto n = [](int value) { return std::to_string(value); };
  std::string m = n(p.blockM), c = n(p.columns), h = n(p.head);
  replaceIn(text, "<Q>", "<" + m + "x" + h + "xf16>");
  replaceIn(text, "<B>", "<" + c + "x" + h + "xf16>");
  replaceIn(text, "<T>", "<" + h + "x" + c + "xf16>");
  replaceIn(text, "<S>", "<" + m + "x" + c + "xf32>");
  replaceIn(text, "<P>", "<" + m + "x" + c + "xf16>");
  replaceIn(text, "<O>", "<" + m + "x" + h + "xf32>");
  replaceIn(text, "<R>", "<" + m + "xf32>");
  replaceIn(text, "<Mx", "<" + m + "x");
  replaceIn(text, "NN", c);
  replaceIn(text, "MM", m);
  replaceIn(text, "HH", h);
  return text;
}

struct Outcome : DividedOutcome {
  unsigned wrong = 0;
};

Outcome run(const Problem &p, llvm::function_ref<void(func::FuncOp)> change = nullptr) {
  gpu::GpuOptions options;
  options.numWarps = p.warps;
  options.numStages = p.stages;
  options.specialise = p.specialise;
  options.skipScaling =
      p.scaling == Scaling::Skipped ? gpu::SkipScaling::Always : gpu::SkipScaling::Never;
  options.verify = true;
  auto small = [](size_t i, int by) { return float(int(i * by % 5) - 2); };
  size_t blocks = std::max(1, p.length) * p.head;
  std::vector<uint16_t> q(p.blockM * p.head), k(blocks), v(blocks);
  for (size_t i = 0; i < q.size(); ++i)
    q[i] = halfOf(small(i, 7) * (i % 3 == 0));
  for (size_t i = 0; i < blocks; ++i) {
    k[i] = halfOf(small(i + i / 977, 3) * (i % 4 == 0));
    v[i] = halfOf(small(i + i / 311, 11));
  }
  auto number = [&](std::vector<uint16_t> &of, size_t i) {
    return &of == &q   ? small(i, 7) * (i % 3 == 0)
           : &of == &k ? small(i + i / 977, 3) * (i % 4 == 0)
                       : small(i + i / 311, 11);
  };
  std::vector<float> out(p.blockM * p.head, -1), expected(out.size(), 0);
  for (int row = 0; row < p.blockM; ++row) {
    float top = -1000;
    for (int j = 0; j < p.length; j += p.columns) {
      std::vector<float> s(p.columns);
      float now = top;
      for (int c = 0; c < p.columns; ++c) {
        for (int d = 0; d < p.head; ++d)
          s[c] += number(q, row * p.head + d) * number(k, (j + c) * p.head + d);
        now = std::max(now, s[c]);
      }
      for (int d = 0; d < p.head; ++d) {
        float factor = p.scaling != Scaling::Signs ? std::exp2(top - now) : now > top ? -1 : 1;
        float sum = expected[row * p.head + d] * factor;
        for (int c = 0; c < p.columns; ++c)
          sum += (s[c] - now) * number(v, (j + c) * p.head + d);
        expected[row * p.head + d] = sum;
      }
      top = now;
    }
  }
  auto word = [](auto &values) { return reinterpret_cast<uint64_t>(values.data()); };
  Outcome outcome{runDivided(
      textOf(p), options,
      {word(q), word(k), word(v), word(out), uint64_t(p.length), uint64_t(p.split)}, change)};
  for (size_t i = 0; i < out.size(); ++i)
    outcome.wrong += !(out[i] == expected[i]);
  return outcome;
}

template <typename Op> SmallVector<Op> opsIn(func::FuncOp kernel, unsigned part) {
  SmallVector<Op> found;
  ngpu::warpSpecializeOf(kernel).getParts()[part].walk([&](Op op) { found.push_back(op); });
  return found;
}

void expectRight(const Problem &p) {
  SCOPED_TRACE("length " + std::to_string(p.length) + " split " + std::to_string(p.split) +
               " warps " + std::to_string(p.warps) + " stages " + std::to_string(p.stages));
  unsigned turns = 0, flying = 0, branches = 0, waited = 0;
  Outcome outcome = run(p, [&](func::FuncOp kernel) {
    turns = opsIn<ngpu::TurnTakeOp>(kernel, 0).size();
    branches = opsIn<ngpu::AnyInWarpOp>(kernel, 0).size();
    for (ngpu::WgmmaOp product : opsIn<ngpu::WgmmaOp>(kernel, 0))
      ++(product.getAsync() ? flying : waited);
  });
  EXPECT_EQ(outcome.error, "");
  EXPECT_TRUE(outcome.divided);
  EXPECT_EQ(outcome.wrong, 0u);
  unsigned loops = p.split ? 2 : 1;
  EXPECT_EQ(flying, 2 * loops);
  EXPECT_EQ(waited, 1u); // the last of all loops
  EXPECT_EQ(turns, p.warps > 4 ? loops : 0);
  EXPECT_EQ(branches, p.scaling == Scaling::Skipped ? loops : 0);
}

TEST(OverlapProducts, AnyNumberOfTrips) {
  for (int length : {0, 64, 128, 192, 448})
    expectRight({64, 64, 64, length, 0, 4, 2});
}

TEST(OverlapProducts, AnyNumberOfStages) {
  for (int stages : {3, 4})
    expectRight({64, 64, 64, 320, 0, 4, stages});
}

TEST(OverlapProducts, GroupsTakeTurns) {
  for (int length : {0, 64, 128, 320})
    expectRight({128, 64, 64, length, 0, 8, 2});
}

TEST(OverlapProducts, LoopsBehindOneAnotherShareSlots) {
  for (int split : {64, 128, 256})
    expectRight({128, 64, 64, 256, split, 8, 2});
  expectRight({64, 64, 64, 320, 192, 4, 3});
}

TEST(OverlapProducts, ScalingIsSkippedWhereNoMaximumGrows) {
  for (auto scaling : {Scaling::Powers, Scaling::Skipped}) {
    expectRight({128, 64, 64, 320, 0, 8, 3, scaling});
    expectRight({128, 64, 64, 320, 128, 8, 2, scaling});
    expectRight({64, 64, 64, 0, 0, 4, 2, scaling});
  }
}

TEST(OverlapProducts, ScalingIsSkippedInOtherLoops) {
  Problem whole = {128, 64, 64, 320, 0, 8, 3, Scaling::Skipped, gpu::Specialise::Never};
  unsigned branches = 0;
  Outcome outcome =
      run(whole, [&](func::FuncOp kernel) { kernel.walk([&](ngpu::AnyInWarpOp) { ++branches; }); });
  EXPECT_EQ(outcome.error, "");
  EXPECT_FALSE(outcome.divided);
  EXPECT_EQ(outcome.wrong, 0u);
  EXPECT_EQ(branches, 1u);
}

TEST(OverlapProducts, SixteenWarpsTakeTurns) {
  expectRight({256, 64, 64, 192, 0, 16, 3});
}

//===--- faults ------------------------------------------------------------------------------===//

const Problem kFive = {128, 64, 64, 320, 0, 8, 2};

TEST(OverlapProducts, MissingPassIsADeadlock) {
  Outcome outcome = run(kFive, [](func::FuncOp kernel) {
    for (ngpu::TurnPassOp pass : opsIn<ngpu::TurnPassOp>(kernel, 0))
      pass.erase();
  });
  EXPECT_NE(outcome.error.find("deadlock"), std::string::npos) << outcome.error;
}

TEST(OverlapProducts, MissingStartIsADeadlock) {
  Outcome outcome =
      run(kFive, [](func::FuncOp kernel) { opsIn<ngpu::TurnStartOp>(kernel, 0)[0].erase(); });
  EXPECT_NE(outcome.error.find("deadlock"), std::string::npos) << outcome.error;
}

TEST(OverlapProducts, MissingTakeIsFound) {
  Outcome outcome =
      run(kFive, [](func::FuncOp kernel) { opsIn<ngpu::TurnTakeOp>(kernel, 0)[0].erase(); });
  EXPECT_NE(outcome.error.find("more arrivals than it expects"), std::string::npos)
      << outcome.error;
}

TEST(OverlapProducts, MissingReleaseIsADeadlock) {
  Outcome none = run(kFive);
  EXPECT_EQ(none.error, "");
  for (unsigned number : {0, 1}) {
    Outcome outcome = run(kFive, [&](func::FuncOp kernel) {
      opsIn<ngpu::MBarrierArriveOp>(kernel, 0)[number].erase();
    });
    EXPECT_NE(outcome.error.find("deadlock"), std::string::npos) << number << outcome.error;
  }
}

TEST(OverlapProducts, ReleaseBeforeTheSecondProductHasEndedIsFound) {
  Outcome outcome = run(kFive, [](func::FuncOp kernel) {
    for (ngpu::WgmmaWaitOp wait : opsIn<ngpu::WgmmaWaitOp>(kernel, 0))
      if (wait.getValues().size() > 1)
        wait.setPending(1);
  });
  EXPECT_NE(outcome.error.find("which a product in flight reads"), std::string::npos)
      << outcome.error;
}

TEST(OverlapProducts, ReleaseBeforeTheFirstProductHasEndedIsFound) {
  Outcome outcome = run(kFive, [](func::FuncOp kernel) {
    for (ngpu::WgmmaWaitOp wait : opsIn<ngpu::WgmmaWaitOp>(kernel, 0))
      if (wait.getValues().size() == 1)
        wait.setPending(2);
  });
  EXPECT_NE(outcome.error.find("which a product in flight reads"), std::string::npos)
      << outcome.error;
}

TEST(OverlapProducts, LosingAProductThatWasPassedOnIsFound) {
  // In the second loop's first iteration; behind that loop, when it has none.
  for (auto [number, split] : {std::pair(0, 128), {1, 320}}) {
    Problem two = kFive;
    two.split = split;
    EXPECT_EQ(run(two).wrong, 0u);
    Outcome outcome = run(two, [number = number](func::FuncOp kernel) {
      auto either = opsIn<arith::OrIOp>(kernel, 0)[number];
      either.getResult().replaceAllUsesWith(either.getLhs());
    });
    EXPECT_TRUE(!outcome.error.empty() || outcome.wrong) << number;
  }
}

/// The maxima of some warps grow in some blocks: that all or no warps scale is not the same.
TEST(OverlapProducts, SkippingWhereAMaximumGrowsIsWrong) {
  Problem skipped = kFive;
  skipped.scaling = Scaling::Skipped;
  auto decideFor = [](bool value) {
    return [value](func::FuncOp kernel) {
      for (ngpu::AnyInWarpOp any : opsIn<ngpu::AnyInWarpOp>(kernel, 0)) {
        OpBuilder b(any);
        any.getResult().replaceAllUsesWith(
            arith::ConstantOp::create(b, any.getLoc(), b.getBoolAttr(value)));
        any.erase();
      }
    };
  };
  EXPECT_EQ(run(skipped, decideFor(true)).wrong, 0u);
  EXPECT_GT(run(skipped, decideFor(false)).wrong, 0u);
}

/// Some warps do leave the multiplication out: another result of that branch is seen.
TEST(OverlapProducts, SomeWarpsSkip) {
  Problem skipped = kFive;
  skipped.scaling = Scaling::Skipped;
  Outcome outcome = run(skipped, [](func::FuncOp kernel) {
    for (ngpu::AnyInWarpOp any : opsIn<ngpu::AnyInWarpOp>(kernel, 0)) {
      auto branch = cast<scf::IfOp>(*any.getResult().user_begin());
      Value taken = branch.elseYield().getOperand(0);
      OpBuilder b(branch.elseYield());
      branch.elseYield().setOperand(
          0, arith::AddFOp::create(b, any.getLoc(), taken, taken).getResult());
    }
  });
  EXPECT_EQ(outcome.error, "");
  EXPECT_GT(outcome.wrong, 0u);
}

} // namespace
} // namespace nereid::test
