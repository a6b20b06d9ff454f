/* Nereid's C ABI: choosing among the configurations of a kernel by measuring.
 *
 * Conventions as in nereid.h.
 */
#ifndef NEREID_TUNER_H
#define NEREID_TUNER_H

#include "nereid/nereid.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the order of measurements
 * ---------------------------------------------------------------------------------------
 *
 * A search says which configuration to measure next and which one to choose; who asks it compiles
 * and measures. Configurations are numbers below `count`, the promising ones first. Each is looked
 * at for a moment, those that are not clearly slower are measured for longer, and the best few are
 * compared in turns. One thread at a time.
 */

typedef struct nrd_search nrd_search;

typedef enum nrd_search_step {
  NRD_SEARCH_LOOK,
  NRD_SEARCH_MEASURE,
  NRD_SEARCH_COMPARE,
  NRD_SEARCH_WAIT, /* nothing is ready to be measured */
  NRD_SEARCH_DONE
} nrd_search_step;

typedef struct nrd_search_task {
  uint32_t step; /* nrd_search_step */
  uint32_t min_runs, max_runs;
  uint32_t reserved;
  size_t config;
  double milliseconds; /* run it for so long */
  double give_up;      /* milliseconds of one run that say enough */
} nrd_search_task;

/* `budget`: seconds; 0 for no limit. `plain`: measure each configuration once, in the caller's own
 * way. */
NRD_API nrd_search *nrd_search_new(size_t count, double budget, int plain);
NRD_API void nrd_search_free(nrd_search *search);
/* The configuration can be measured from now on, or never. */
NRD_API void nrd_search_ready(nrd_search *search, size_t config);
NRD_API void nrd_search_fail(nrd_search *search, size_t config);
NRD_API void nrd_search_next(nrd_search *search, nrd_search_task *out);
/* The milliseconds of each run of the configuration that was asked for; at least one. */
NRD_API void nrd_search_report(nrd_search *search, size_t config, const double *times,
                               size_t count);
/* Seconds left of the budget; infinite without one. */
NRD_API double nrd_search_remaining(const nrd_search *search);
/* Whether the budget ended before every configuration was measured. */
NRD_API int nrd_search_cut_short(const nrd_search *search);
/* The number of the fastest; `count` when none was measured. */
NRD_API size_t nrd_search_best(const nrd_search *search);
/* Median, 20th and 80th percentile in milliseconds, infinite for one that failed; 0 for one that
 * was not measured. */
NRD_API int nrd_search_timing(const nrd_search *search, size_t config, double out[3]);
/* One line about where it stands. Free with nrd_string_free. */
NRD_API char *nrd_search_progress(const nrd_search *search, const char *kernel);

/* ---- results on disk
 * ----------------------------------------------------------------------------------------------
 *
 * `key`: a text of everything the caller knows to matter: source, configurations, values, types.
 * The compiler's build, the settings and the machine are added here. `device`: the number of a CUDA
 * device, -1 for the CPU. `times`: three numbers for each configuration, as nrd_search_timing gives
 * them; the first is NaN for one that was not measured. Kept in the folder of compiled kernels,
 * unless NEREID_TUNING_CACHE or NEREID_CACHE is off.
 */

/* 1 and *best and `times` of an earlier tuning, of this process or another one; else 0. A result
 * that was cut short by less than `budget` seconds (0: any number) does not count. */
NRD_API int nrd_tuning_find(const char *key, size_t size, int device, size_t configs, double budget,
                            size_t *best, double *times);
/* `kernel`: its name, for who looks at the folder. `cut_short_after`: the seconds that were not
 * enough to measure every configuration, else 0. */
NRD_API void nrd_tuning_keep(const char *key, size_t size, int device, const char *kernel,
                             size_t configs, size_t best, const double *times,
                             double cut_short_after);

/* How many threads compile configurations ahead: NEREID_TUNING_THREADS, or one for each core, less
 * where memory is short. */
NRD_API uint32_t nrd_tuning_threads(void);

#ifdef __cplusplus
}
#endif
#endif
