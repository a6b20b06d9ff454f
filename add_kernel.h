/* The kernel `add_kernel` of seed.py, compiled by Nereid: made by `nereid embed`. */
#ifndef NEREID_EMBEDDED_KERNELS_ADD_KERNEL_H
#define NEREID_EMBEDDED_KERNELS_ADD_KERNEL_H

#include <nereid/embedded.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

extern const nrd_embedded_kernel nereid_kernels_add_kernel_0;
/* Launches; `nereid_how` begins with its size, see nereid/embedded.h. */
static inline nrd_status kernels_add_kernel_launch(const nrd_embedded_launch *nereid_how,
                                                   const float *x_ptr, const float *y_ptr,
                                                   float *output_ptr, int32_t n_elements) {
  uint64_t nereid_slots[4] = {0};
  nereid_slots[0] = (uint64_t)(uintptr_t)x_ptr;
  nereid_slots[1] = (uint64_t)(uintptr_t)y_ptr;
  nereid_slots[2] = (uint64_t)(uintptr_t)output_ptr;
  nereid_slots[3] = (uint64_t)(int64_t)n_elements;
  return nrd_embedded_run(&nereid_kernels_add_kernel_0, nereid_how, nereid_slots);
}

#ifdef __cplusplus
}
#endif

#if __cplusplus >= 202002L && !defined(NEREID_EMBEDDED_TABLES)
#include <nereid/embedded.hpp>

namespace kernels {

/// The kernel `add_kernel`: call `add_kernel`, with the grid (and a stream) first.
struct add_kernel_kernel : nereid::embedded::Kernel<add_kernel_kernel> {
  static constexpr int64_t BLOCK_SIZE = 1024; ///< compiled in
  /// Variants:
  ///   (*fp32:16, *fp32:16, *fp32:16, i32, 1024): cpu:baseline, cpu:avx2, cpu:avx512
  nereid::Status tryLaunch(const nereid::Launch &nereid_how, nereid::Pointer<const float> x_ptr,
                           nereid::Pointer<const float> y_ptr, nereid::Pointer<float> output_ptr,
                           nereid::Number<int32_t> n_elements) const {
    return nereid::embedded::call(&nrd_embedded_run, nereid_kernels_add_kernel_0, nereid_how, x_ptr,
                                  y_ptr, output_ptr, n_elements);
  }
  nereid::Status tryPrepare(const nereid::Launch &nereid_how, nereid::Pointer<const float> x_ptr,
                            nereid::Pointer<const float> y_ptr, nereid::Pointer<float> output_ptr,
                            nereid::Number<int32_t> n_elements) const {
    return nereid::embedded::call(&nrd_embedded_prepare, nereid_kernels_add_kernel_0, nereid_how,
                                  x_ptr, y_ptr, output_ptr, n_elements);
  }
};
/// Launches; throws nereid::Error.
inline constexpr add_kernel_kernel add_kernel{};

} // namespace kernels
#endif
#endif
