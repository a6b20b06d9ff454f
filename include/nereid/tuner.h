/** @file
 * @brief Nereid's C ABI: choosing among the configurations of a kernel by measuring.
 *
 * Conventions as in nereid.h.
 */
#ifndef NEREID_TUNER_H
#define NEREID_TUNER_H

#include "nereid/nereid.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a tuner
 * --------------------------------------------------------------------------------------------------------
 *
 * A function with several configurations: values of some of its constexpr parameters, and options.
 * For each key (values of some parameters, types of all pointers, the device) the fastest is found
 * by measuring at the first launch, and kept on disk for the next process.
 *
 * Set it up on one thread; launches may come from several.
 */

/** A function with several configurations. */
typedef struct nrd_tuner nrd_tuner;

/** A tuner without configurations; the function must outlive it. */
NRD_API nrd_tuner *nrd_tuner_new(nrd_function *function);
/** Frees a tuner. */
NRD_API void nrd_tuner_free(nrd_tuner *NRD_OPTIONAL tuner);
/** Adds a configuration: a name is a parameter of the function, whose value it sets, or an option.
 * All configurations set the same parameters. */
NRD_API nrd_error *nrd_tuner_add(nrd_tuner *tuner, const char *const *names,
                                 const nrd_value *const *values, size_t count);
/** How many configurations there are. */
NRD_API size_t nrd_tuner_count(const nrd_tuner *tuner);
/** The parameters whose values make a key. */
NRD_API nrd_error *nrd_tuner_set_key(nrd_tuner *tuner, const char *const *names, size_t count);
/** Arrays that are zeroed before each measured run, or saved before and restored after it; they
 * must be given with their extents. */
NRD_API nrd_error *nrd_tuner_set_resets(nrd_tuner *tuner, const char *const *names, size_t count);
/** Arrays that are saved before each measured run and restored after it. */
NRD_API nrd_error *nrd_tuner_set_restores(nrd_tuner *tuner, const char *const *names, size_t count);
/** Seconds that the tuning of one key may take; 0 for the setting NEREID_TUNING_BUDGET. */
NRD_API void nrd_tuner_set_budget(nrd_tuner *tuner, double seconds);

/** What a configuration sets a parameter or an option to (borrowed); null for what it does not set.
 */
NRD_API const nrd_value *nrd_tuner_value(const nrd_tuner *tuner, size_t config, const char *name);
/** "BLOCK=128, num_warps=8" */
NRD_API const char *nrd_tuner_text(const nrd_tuner *tuner, size_t config);

/** Fills in the grid of a launch with a configuration. Anything but 0 ends the launch with an
 * error.
 */
typedef int (*nrd_tuner_grid)(void *data, const nrd_tuner *tuner, size_t config, uint32_t grid[3]);

/** Launches with the best configuration, which is found first when the key is new. `args`: one for
 * each parameter that the configurations do not set, in order. The grid of `launch` is used when
 * `grid` is null. A configuration that cannot be compiled or launched for want of resources is
 * skipped; when none works, the error of the first comes out, with all reasons. */
NRD_API nrd_error *nrd_tuner_launch(nrd_tuner *tuner, const nrd_arg *args, size_t count,
                                    nrd_tuner_grid NRD_OPTIONAL grid, void *NRD_OPTIONAL data,
                                    const nrd_launch *launch);

/** The configuration of the last launch; nrd_tuner_count before the first. */
NRD_API size_t nrd_tuner_best(const nrd_tuner *tuner);
/** Of the last tuning: median, 20th and 80th percentile of a configuration in milliseconds,
 * infinite for one that failed; 0 for one that was not measured. */
NRD_API int nrd_tuner_timing(const nrd_tuner *tuner, size_t config, double out[3]);
/** Its seconds; 0 when the result came from disk. */
NRD_API double nrd_tuner_seconds(const nrd_tuner *tuner);
/** A line for each configuration: its time, or why it failed. Free with nrd_string_free. */
NRD_API char *nrd_tuner_report(const nrd_tuner *tuner);

/* ---- the order of measurements
 * ---------------------------------------------------------------------------------------
 *
 * A search says which configuration to measure next and which one to choose; who asks it compiles
 * and measures. Configurations are numbers below `count`, the promising ones first. Each is looked
 * at for a moment, those that are not clearly slower are measured for longer, and the best few are
 * compared in turns. One thread at a time.
 */

/** A search, see above. */
typedef struct nrd_search nrd_search;

/** What to do next. */
typedef enum nrd_search_step {
  NRD_SEARCH_LOOK,
  NRD_SEARCH_MEASURE,
  NRD_SEARCH_COMPARE,
  NRD_SEARCH_WAKE, /**< run it until the device is awake: NRD_SEARCH_WAKES */
  NRD_SEARCH_WAIT, /**< nothing is ready to be measured */
  NRD_SEARCH_DONE
} nrd_search_step;

/** One measurement. */
typedef struct nrd_search_task {
  uint32_t step; /**< nrd_search_step */
  uint32_t runs; /**< run it so often */
  size_t config; /**< which configuration */
} nrd_search_task;

/** How a search goes, a sum of these. */
typedef enum nrd_search_flags {
  NRD_SEARCH_PLAIN = 1, /**< measure each configuration once, in the caller's own way */
  NRD_SEARCH_WAKES = 2  /**< the device sleeps when it is idle, and is woken up first */
} nrd_search_flags;

/** `budget`: seconds; 0 for no limit. `flags`: nrd_search_flags. */
NRD_API nrd_search *nrd_search_new(size_t count, double budget, uint32_t flags);
/** Frees a search. */
NRD_API void nrd_search_free(nrd_search *NRD_OPTIONAL search);
/** The configuration can be measured from now on, or never. */
NRD_API void nrd_search_ready(nrd_search *search, size_t config);
/** The configuration cannot run. */
NRD_API void nrd_search_fail(nrd_search *search, size_t config);
/** What to do next. */
NRD_API void nrd_search_next(nrd_search *search, nrd_search_task *out);
/** The milliseconds of each run that was asked for, in their order; at least one. */
NRD_API void nrd_search_report(nrd_search *search, size_t config, const double *times,
                               size_t count);
/** Seconds left of the budget; infinite without one. */
NRD_API double nrd_search_remaining(const nrd_search *search);
/** Whether the budget ended before every configuration was measured. */
NRD_API int nrd_search_cut_short(const nrd_search *search);
/** The number of the fastest; `count` when none was measured. */
NRD_API size_t nrd_search_best(const nrd_search *search);
/** Median, 20th and 80th percentile in milliseconds, infinite for one that failed; 0 for one that
 * was not measured. */
NRD_API int nrd_search_timing(const nrd_search *search, size_t config, double out[3]);
/** One line about where it stands. Free with nrd_string_free. */
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

/** 1 and *best and `times` of an earlier tuning, of this process or another one; else 0. A result
 * that was cut short by less than `budget` seconds (0: any number) does not count. */
NRD_API int nrd_tuning_find(const char *key, size_t size, int device, size_t configs, double budget,
                            size_t *best, double *times);
/** `kernel`: its name, for who looks at the folder. `cut_short_after`: the seconds that were not
 * enough to measure every configuration, else 0. */
NRD_API void nrd_tuning_keep(const char *key, size_t size, int device, const char *kernel,
                             size_t configs, size_t best, const double *times,
                             double cut_short_after);

/** How many threads compile configurations ahead: NEREID_TUNING_THREADS, or one for each core, less
 * where memory is short. */
NRD_API uint32_t nrd_tuning_threads(void);

#ifdef __cplusplus
}
#endif
#endif
