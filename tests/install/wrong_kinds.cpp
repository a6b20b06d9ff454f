// Calls of typed kernels with arguments of wrong kinds: case 0 is right and compiles, no other one
// does. tests/install/install.cmake compiles them one by one.
#include "add.h"

#include <nereid/nereid.hpp>

using nereid::constexpr_;

void call(const nereid::Module &module, const nereid::Stream &stream, float *x, const float *y,
          double *d, int n) {
  auto add = module.kernel<const float *, const float *, float *, int, constexpr_<1024>>("add");
  nereid::Buffer<float> buffer;
  const nereid::Buffer<float> fixed;
#if CASE == 0
  add({1}, stream, x, y, x, n);
  add({1}, fixed, buffer, buffer, 1u);
  kernels::add({1}, stream, x, y, x, n);
  kernels::add({1}, fixed, buffer, buffer, 'n');
#elif CASE == 1 // an element type that is another
  add({1}, stream, d, y, x, n);
#elif CASE == 2 // the kernel writes there
  kernels::add({1}, stream, x, x, y, n);
#elif CASE == 3
  kernels::add({1}, x, x, fixed, n);
#elif CASE == 4 // no integer
  add({1}, stream, x, y, x, 1.5);
#elif CASE == 5
  kernels::add({1}, stream, x, y, x, 1.5f);
#elif CASE == 6 // too few
  add({1}, stream, x, y, x);
#elif CASE == 7
  kernels::add({1}, stream, x, y, x);
#elif CASE == 8 // too many: constants are left out
  add({1}, stream, x, y, x, n, 1024);
#elif CASE == 9
  kernels::add({1}, stream, x, y, x, n, 1024);
#elif CASE == 10 // a pointer for a number, and the other way round
  add({1}, stream, x, y, x, x);
#elif CASE == 11
  kernels::add({1}, stream, x, n, x, n);
#elif CASE == 12 // integers of the size of the element are not the element
  kernels::add({1}, stream, reinterpret_cast<int *>(x), y, x, n);
#elif CASE == 13 // a type that no kernel has
  module.kernel<float *, std::string>("add");
#elif CASE == 14 // a result that nobody looks at is an error with -Werror
  kernels::add.tryLaunch({1}, x, y, x, n);
#elif CASE == 15 // a bool is no number
  add({1}, stream, x, y, x, true);
#else
#error "there is no such case"
#endif
}
