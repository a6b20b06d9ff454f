// The compiler and embedded kernels in one program do not get into each other's way.
#include "add.h"
#include "check.h"

#include <nereid/nereid.hpp>

int main(int argc, char **argv) {
  if (argc < 2)
    return 2;
  std::vector<float> x(3000, 1.0f), out(3000);
  kernels::add({3}, x, x, out, 3000);
  CHECK(out[2999] == 2);
  auto module = nereid::Module::load(argv[1]);
  module.function("add").launch({3}, out, x, out, 3000, 1024);
  CHECK(out[2999] == 3);
  kernels::add({3}, out, x, out, 3000);
  CHECK(out[2999] == 4);
  return failures();
}
