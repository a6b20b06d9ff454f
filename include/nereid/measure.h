/** @file
 * @brief Nereid's C ABI: timing a kernel.
 *
 * Conventions as in nereid.h.
 */
#ifndef NEREID_MEASURE_H
#define NEREID_MEASURE_H

#include "nereid/nereid.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How to measure. Times are in milliseconds. */
typedef struct nrd_measure_plan {
  size_t size;         /**< sizeof(nrd_measure_plan) */
  double warmup;       /**< run it for so long before */
  double duration;     /**< then measure for about so long */
  uint32_t min_runs;   /**< but at least so often, and */
  uint32_t max_runs;   /**< at most so often; 0: no limit */
  uint8_t cold;        /**< caches are emptied before every run */
  uint8_t reserved[7]; /**< 0 */
} nrd_measure_plan;

/** Launches a compiled kernel again and again, and measures each run: on a GPU the device's time
 * between events on the launch's stream (with warm caches the mean of a few launches in a row, so
 * that launching is hidden), on the CPU the time of the call. Pointers into host memory whose
 * extent is known (low, high) are copied to the GPU first, and what the kernel writes there is
 * lost. times[0..*runs) are filled, at most `capacity` of them. */
NRD_API nrd_error *nrd_kernel_measure(nrd_kernel *kernel, const nrd_arg *args, size_t count,
                                      const nrd_launch *launch, const nrd_measure_plan *plan,
                                      double *times, size_t capacity, size_t *runs);

#ifdef __cplusplus
}
#endif
#endif
