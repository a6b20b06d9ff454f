// run_package PACKAGE INPUT COLUMNS OUTPUT: runs a package of AOTInductor on a matrix of fp32.
//
// INPUT holds the rows of the matrix, COLUMNS numbers each; what the model gives is written to
// OUTPUT in the same form.
#include <ATen/ATen.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

int main(int argc, char **argv) {
  if (argc != 5) {
    std::fprintf(stderr, "expected PACKAGE INPUT COLUMNS OUTPUT\n");
    return 2;
  }
  std::ifstream file(argv[2], std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  int64_t columns = std::atoll(argv[3]), rows = int64_t(bytes.size()) / 4 / columns;
  at::Tensor input = at::from_blob(bytes.data(), {rows, columns}, at::kFloat);

  torch::inductor::AOTIModelPackageLoader package(argv[1]);
  at::Tensor result = package.run({input})[0].contiguous();
  std::ofstream(argv[4], std::ios::binary)
      .write(static_cast<const char *>(result.const_data_ptr()), std::streamsize(result.nbytes()));
  std::printf("%lld rows\n", static_cast<long long>(rows));
}
