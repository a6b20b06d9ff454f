// Finds the fastest configuration of a kernel by measuring, without Python; the second run takes
// the result from disk:
//
//   tune examples/kernels/seed.py
#include <nereid/autotuner.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

uint32_t blocks(uint32_t size, uint32_t block) {
  return (size + block - 1) / block;
}

int run(const char *path) {
  const uint32_t size = 200;
  std::vector<float> a(size * size), b(size * size), c(size * size);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = float(i % 7) - 3;
    b[i] = float(i % 5) - 2;
  }

  nereid::Module module = nereid::Module::load(path);
  nereid::Function matmul = module.function("matmul_full_kernel");
  std::vector<nereid::Choice> choices;
  for (int m : {16, 32, 64})
    for (int n : {32, 64})
      choices.push_back(
          {{"BLOCK_SIZE_M", m}, {"BLOCK_SIZE_N", n}, {"BLOCK_SIZE_K", 32}, {"GROUP_SIZE_M", 8}});
  nereid::Autotuner tuner(matmul, choices, {.key = {"M", "N", "K"}});

  auto grid = [&](const nereid::Config &config) {
    return nereid::Grid{blocks(size, config["BLOCK_SIZE_M"]) *
                        blocks(size, config["BLOCK_SIZE_N"])};
  };
  nereid::ValueHandle none(nrd_value_str("", 0)); // the constant ACTIVATION
  tuner.launch(grid, a, b, c, size, size, size, size, 1, size, 1, size, 1, none);
  std::printf("%s", tuner.report().c_str());

  double largest = 0;
  for (uint32_t row = 0; row < size; ++row)
    for (uint32_t column = 0; column < size; ++column) {
      double sum = 0;
      for (uint32_t k = 0; k < size; ++k)
        sum += double(a[row * size + k]) * b[k * size + column];
      largest = std::fmax(largest, std::fabs(c[row * size + column] - sum));
    }
  bool good = largest <= 1e-3;
  std::printf("largest error %.2g: %s\n", largest, good ? "correct" : "WRONG");
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: tune KERNELS.py\n");
    return EXIT_FAILURE;
  }
  try {
    return run(argv[1]);
  } catch (const nereid::Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
