// Loads kernels written for Triton from a Python file and runs them, without Python:
//
//   seed_kernels examples/kernels/seed.py
#include <nereid/nereid.hpp>

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

namespace {

std::vector<float> randomNumbers(size_t count) {
  static std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float &number : numbers)
    number = normal(generator);
  return numbers;
}

bool report(const char *what, double largestError, double allowed) {
  bool good = largestError <= allowed; // also false for NaN
  std::printf("%-20s largest error %.2g: %s\n", what, largestError, good ? "correct" : "WRONG");
  return good;
}

/// Vector addition: specialised on its arguments at the first launch.
bool add(const nereid::Module &module) {
  const int n = 1'000'003;
  auto x = randomNumbers(n), y = randomNumbers(n);
  std::vector<float> sum(n);

  auto kernel = module.kernel<const float *, const float *, float *, int, nereid::constexpr_<1024>>(
      "add_kernel");
  kernel({(n + 1023) / 1024}, x, y, sum, n);

  double error = 0;
  for (int i = 0; i < n; ++i)
    error = std::fmax(error, std::fabs(double(sum[i]) - (x[i] + y[i])));
  return report("vector addition", error, 0);
}

/// Row softmax: compiled ahead for a signature, then launched.
bool softmax(const nereid::Module &module) {
  const int rows = 583, columns = 931;
  auto x = randomNumbers(size_t(rows) * columns);
  std::vector<float> y(x.size());

  nereid::Kernel kernel = module.function("softmax_kernel")
                              .compile({"*fp32", "*fp32", "i32", "i32", "i32", "1024"},
                                       nereid::Options().set("num_warps", 4));
  kernel.launch({rows}, y, x, columns, columns, columns);

  double error = 0;
  for (int row = 0; row < rows; ++row) {
    const float *in = &x[size_t(row) * columns];
    double sum = 0;
    for (int i = 0; i < columns; ++i)
      sum += std::exp(double(in[i]));
    for (int i = 0; i < columns; ++i)
      error =
          std::fmax(error, std::fabs(y[size_t(row) * columns + i] - std::exp(double(in[i])) / sum));
  }
  return report("softmax", error, 1e-6);
}

} // namespace

int main(int argc, char **argv) {
  try {
    auto module = nereid::Module::load(argc > 1 ? argv[1] : "examples/kernels/seed.py");
    bool good = add(module);
    good &= softmax(module);
    return good ? 0 : 1;
  } catch (const nereid::Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
