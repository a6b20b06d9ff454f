// Derivatives behind the C++ header and the C ABI: gradients, tangents, and what is refused.
#include "common.h"

#include <cmath>

using namespace nereid;
using nereid::test::CApi;

namespace {

const char *const text = R"(
import triton
import triton.language as tl

@triton.jit
def scaled(x, y, factor, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, tl.exp(v.to(tl.float32)) * factor, mask=i < n)

@triton.jit
def weighted(x, w, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    tl.store(y + row * n + i, tl.load(x + row * n + i, mask=i < n) * tl.load(w + i, mask=i < n), mask=i < n)

@triton.jit
def squared_product(a, b, c, K, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    N = tl.num_programs(1) * BLOCK
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        at = k + tl.arange(0, BLOCK)
        acc = tl.dot(tl.load(a + rows[:, None] * K + at[None, :], mask=at[None, :] < K, other=0), tl.load(b + at[:, None] * N + columns[None, :]), acc)
    tl.store(c + rows[:, None] * N + columns[None, :], acc * acc)

@triton.jit
def add_to(y, x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(y + i, mask=i < n) + tl.load(x + i, mask=i < n), mask=i < n)
)";

class DerivativeTest : public CApi {
protected:
  DerivativeTest() : derivatives(Module::parse(text, "derivatives.py")) {
    for (int i = 0; i < count; ++i) {
      x[i] = 0.01f * float(i);
      dy[i] = 1.0f + float(i % 3);
    }
  }
  std::string textOf(const Result<Function> &function) {
    return function ? "" : std::string(function.error().what());
  }

  static constexpr int count = 100;
  Module derivatives;
  std::vector<float> x = std::vector<float>(count), dy = std::vector<float>(count);
  std::vector<float> y = std::vector<float>(count, -1), dx = std::vector<float>(count);
};

TEST_F(DerivativeTest, Gradient) {
  Function gradient = derivatives.gradient("scaled", {"x", "factor"}, {"y"});
  ASSERT_EQ(gradient.paramCount(), 8u);
  EXPECT_EQ(gradient.paramName(5), "dx");
  EXPECT_EQ(gradient.paramName(6), "dfactor");
  EXPECT_EQ(gradient.paramName(7), "dy");
  std::vector<float> ofFactor(1);
  gradient.launch({4}, x, y, 2.0f, count, 32, dx, ofFactor, dy);
  double sum = 0;
  for (int i = 0; i < count; ++i) {
    EXPECT_NEAR(dx[i], 2 * std::exp(x[i]) * dy[i], 1e-4);
    sum += std::exp(x[i]) * dy[i];
    EXPECT_EQ(y[i], -1); // the kernel's own output is not written
  }
  EXPECT_NEAR(ofFactor[0], sum, 1e-2);
}

TEST_F(DerivativeTest, OutputsAndGradient) {
  Function both = derivatives.outputsAndGradient("scaled", {"x"}, {"y"});
  both.launch({4}, x, y, 2.0f, count, 32, dx, dy);
  for (int i = 0; i < count; ++i) {
    EXPECT_NEAR(y[i], 2 * std::exp(x[i]), 1e-4);
    EXPECT_NEAR(dx[i], 2 * std::exp(x[i]) * dy[i], 1e-4);
  }
  EXPECT_EQ(textOf(derivatives.tryOutputsAndGradient("weighted", {"x", "w"}, {"y"}, {"y"})),
            "error: argument `gradients->roles` of `nrd_function_set_outputs_and_gradients`: "
            "expected partial sums only of gradients of inputs, found NRD_TANGENT_PARTIAL of `y`");
}

TEST_F(DerivativeTest, PartialSums) {
  Function gradient = derivatives.gradient("weighted", {"x", "w"}, {"y"}, {"w"});
  ASSERT_EQ(gradient.paramCount(), 12u);
  EXPECT_EQ(gradient.paramName(8), "dw_row");
  EXPECT_EQ(gradient.paramName(9), "programs_0");
  const int n = 10, programs = count / n, rows = 3;
  std::vector<float> w(n, 2), sums(rows * 16);
  gradient.launch({rows}, x, w, y, n, 16, dx, sums, dy, int64_t(16), programs, 1, 1);
  for (int i = 0; i < n; ++i) {
    float expected = 0;
    for (int row = 0; row < programs; ++row) {
      expected += x[row * n + i] * dy[row * n + i];
      EXPECT_FLOAT_EQ(dx[row * n + i], 2 * dy[row * n + i]);
    }
    EXPECT_NEAR(sums[i] + sums[16 + i] + sums[32 + i], expected, 1e-4);
  }
}

TEST_F(DerivativeTest, PartialSumsOfAnOutput) {
  EXPECT_EQ(
      textOf(derivatives.tryGradient("weighted", {"x", "w"}, {"y"}, {"y"})),
      "error: argument `gradients->roles` of `nrd_function_set_gradients`: expected partial sums "
      "only of gradients of inputs, found NRD_TANGENT_PARTIAL of `y`");
}

TEST_F(DerivativeTest, PartialSumsAreNotDifferentiatedAgain) {
  Function gradient = derivatives.gradient("weighted", {"x", "w"}, {"y"}, {"w"});
  nrd_tangent tangents[] = {{"x", "ddx", NRD_TANGENT_INPUT}, {"dw", "ddw", NRD_TANGENT_OUTPUT}};
  nrd_error *error = nrd_function_set_gradients(gradient.get(), tangents, 2);
  ASSERT_NE(error, nullptr);
  EXPECT_NE(std::string_view(nrd_error_message(error))
                .find("expected a function without partial sums, which are not differentiated"),
            std::string_view::npos);
  nrd_error_free(error);
}

TEST_F(DerivativeTest, TwoSteps) {
  Function gradient = derivatives.function("squared_product");
  nrd_tangent tangents[] = {{"a", nullptr, NRD_TANGENT_INPUT},
                            {"b", nullptr, NRD_TANGENT_INPUT},
                            {"c", nullptr, NRD_TANGENT_OUTPUT},
                            {nullptr, nullptr, NRD_TANGENT_SAVED},
                            {nullptr, nullptr, NRD_TANGENT_STEP}};
  ASSERT_EQ(take(nrd_function_set_gradients(gradient.get(), tangents, 5)), "");
  EXPECT_EQ(gradient.paramName(8), "saved");
  EXPECT_EQ(gradient.paramName(9), "step");
  const int M = 32, N = 48, K = 32, block = 16, programs = 6;
  std::vector<float> a(M * K), b(K * N), c(M * N), dc(M * N);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = 0.25f * float(int(i % 7) - 3);
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = 0.5f * float(int(i % 5) - 2);
  for (size_t i = 0; i < dc.size(); ++i)
    dc[i] = float(int(i % 3) - 1);
  // NaN stays where a gradient is added to and not stored.
  const float nan = std::nanf("");
  std::vector<float> da(a.size(), nan), db(b.size(), nan);
  std::vector<int64_t> memory(2);
  auto launch = [&](int step) {
    gradient.launch({2, 3}, a, b, c, K, block, da, db, dc, memory, step);
  };
  launch(-1);
  const int64_t savedBytes = memory[0];
  ASSERT_EQ(savedBytes, block * block * 4);
  memory.assign(size_t(programs * savedBytes / 8), 0);
  launch(0);
  EXPECT_TRUE(std::isnan(da[0]) && std::isnan(db[0]));
  launch(1);
  std::vector<float> slope(M * N); // of the square, times dc
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      float sum = 0;
      for (int k = 0; k < K; ++k)
        sum += a[i * K + k] * b[k * N + j];
      slope[i * N + j] = 2 * sum * dc[i * N + j];
    }
  for (int k = 0; k < K; ++k) {
    for (int i = 0; i < M; ++i) {
      float sum = 0;
      for (int j = 0; j < N; ++j)
        sum += slope[i * N + j] * b[k * N + j];
      EXPECT_NEAR(da[i * K + k], sum, 1e-3);
    }
    for (int j = 0; j < N; ++j) {
      float sum = 0;
      for (int i = 0; i < M; ++i)
        sum += slope[i * N + j] * a[i * K + k];
      EXPECT_NEAR(db[k * N + j], sum, 1e-3);
    }
  }
}

TEST_F(DerivativeTest, RolesOfSteps) {
  auto refusal = [&](uint32_t roles, uint32_t roleOfW, auto *set) {
    Function function = derivatives.function("weighted");
    nrd_tangent tangents[] = {
        {"w", nullptr, roleOfW}, {"y", nullptr, NRD_TANGENT_OUTPUT}, {nullptr, nullptr, roles}};
    return take(set(function.get(), tangents, 3));
  };
  const std::string start = "error: argument `gradients->roles` of `nrd_function_set_gradients`: ";
  EXPECT_EQ(
      refusal(NRD_TANGENT_SAVED | NRD_TANGENT_STEP, NRD_TANGENT_INPUT, nrd_function_set_gradients),
      start + "expected no further role beside this one, found NRD_TANGENT_STEP");
  EXPECT_EQ(refusal(NRD_TANGENT_SAVED, NRD_TANGENT_INPUT | NRD_TANGENT_PARTIAL,
                    nrd_function_set_gradients),
            start + "expected no steps of a gradient with partial sums, found both");
  EXPECT_EQ(refusal(NRD_TANGENT_STEP, NRD_TANGENT_INPUT, nrd_function_set_tangents),
            "error: argument `tangents->roles` of `nrd_function_set_tangents`: expected no steps "
            "of a forward derivative, found NRD_TANGENT_STEP");
}

TEST_F(DerivativeTest, GradientsThatAreNotWanted) {
  Function gradient = derivatives.gradient("scaled", {"x", "factor"}, {"y"});
  std::vector<float> ofFactor(1);
  gradient.launch({4}, x, y, 2.0f, count, 32, nullptr, ofFactor, dy);
  EXPECT_GT(ofFactor[0], 0);
  EXPECT_EQ(dx, std::vector<float>(count));
}

TEST_F(DerivativeTest, GradientOfHalfPrecisionIsSummedInSingle) {
  Kernel kernel = derivatives.gradient("scaled", {"x"}, {"y"})
                      .compile({"*fp16", "*fp16", "fp32", "i32", "32", "*fp32", "*fp16"},
                               Options().set("target", "cpu"));
  EXPECT_NE(kernel.stage("explain").find("the gradient of `x` is stored by the program"),
            std::string_view::npos);
}

TEST_F(DerivativeTest, Jvp) {
  Function derivative = derivatives.jvp("scaled", {"x"}, {"y"});
  std::vector<float> tangent(count, 0.5f), found(count);
  derivative.launch({4}, x, y, 2.0f, count, 32, tangent, found);
  for (int i = 0; i < count; ++i) {
    EXPECT_NEAR(y[i], 2 * std::exp(x[i]), 1e-4);
    EXPECT_NEAR(found[i], std::exp(x[i]), 1e-4);
  }
}

TEST_F(DerivativeTest, JvpOfWhatIsReadAndWritten) {
  Function derivative = derivatives.jvp("add_to", {"y", "x"}, {"y"});
  ASSERT_EQ(derivative.paramCount(), 6u); // one tangent of `y`
  std::vector<float> ofY(count, 1.0f), ofX(count, 0.5f);
  derivative.launch({1}, y, x, count, 128, ofY, ofX);
  EXPECT_EQ(ofY, std::vector<float>(count, 1.5f));
}

TEST_F(DerivativeTest, TheFunctionItselfStaysAsItIs) {
  Function gradient = derivatives.gradient("scaled", {"x"}, {"y"});
  derivatives.function("scaled").launch({4}, x, y, 2.0f, count, 32);
  EXPECT_NEAR(y[7], 2 * std::exp(x[7]), 1e-4);
}

TEST_F(DerivativeTest, WrongNames) {
  EXPECT_EQ(textOf(derivatives.tryGradient("scaled", {"z"}, {"y"})),
            "error: `scaled` has no parameter `z` to differentiate: it has `x`, `y`, `factor`, "
            "`n`, `BLOCK`");
  EXPECT_NE(
      textOf(derivatives.tryGradient("scaled", {"y"}, {"y"})).find("`y` is read and also written"),
      std::string::npos);
  EXPECT_NE(textOf(derivatives.tryJvp("scaled", {}, {"y"}))
                .find("cannot be differentiated without inputs and outputs"),
            std::string::npos);
  EXPECT_NE(textOf(derivatives.tryJvp("missing", {"x"}, {"y"})).find("missing"), std::string::npos);
}

TEST_F(DerivativeTest, RefusedKernels) {
  Function gradient = derivatives.gradient("add_to", {"x"}, {"y"});
  Status status = gradient.tryLaunch({1}, y, x, count, 128, dx, dy);
  ASSERT_FALSE(status);
  EXPECT_NE(std::string(status.error().what()).find("is read"), std::string::npos);
}

TEST_F(DerivativeTest, FromC) {
  Function function = derivatives.function("scaled");
  nrd_tangent tangents[] = {{"x", "slope", NRD_TANGENT_INPUT}, {"y", nullptr, NRD_TANGENT_OUTPUT}};
  EXPECT_EQ(take(nrd_function_set_gradients(function.get(), tangents, 2)), "");
  EXPECT_EQ(function.paramName(5), "slope");
  EXPECT_NE(take(nrd_function_set_gradients(function.get(), tangents, 2))
                .find("`scaled` has a parameter of this name"),
            std::string::npos);
  nrd_tangent second[] = {{"dy", "second", NRD_TANGENT_INPUT},
                          {"slope", nullptr, NRD_TANGENT_OUTPUT}};
  EXPECT_EQ(take(nrd_function_set_gradients(function.get(), second, 2)), "");
  EXPECT_EQ(function.paramName(7), "second");
  nrd_tangent nameless[] = {{nullptr, nullptr, NRD_TANGENT_INPUT}};
  EXPECT_NE(take(nrd_function_set_tangents(derivatives.function("scaled").get(), nameless, 1))
                .find("tangents->parameter"),
            std::string::npos);
}

} // namespace
