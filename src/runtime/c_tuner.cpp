// The C ABI: tuning (nereid/tuner.h).
#include "nereid/tuner.h"
#include "runtime/c_api.h"
#include "runtime/tuner/results.h"
#include "support/settings.h"
#include "targets/cpu/executor/Executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unistd.h>

using namespace nereid;
using namespace nereid::runtime;

struct nrd_search {
  Search search;
  size_t count;
};

nrd_search *nrd_search_new(size_t count, double budget, int plain) {
  Search::Plan plan;
  plan.count = count;
  if (budget > 0)
    plan.budget = budget;
  plan.plain = plain;
  return new nrd_search{Search(std::move(plan)), count};
}

void nrd_search_free(nrd_search *search) {
  delete search;
}

void nrd_search_ready(nrd_search *search, size_t config) {
  search->search.ready(config);
}

void nrd_search_fail(nrd_search *search, size_t config) {
  search->search.fail(config);
}

void nrd_search_next(nrd_search *search, nrd_search_task *out) {
  Search::Task task = search->search.next();
  *out = {uint32_t(task.step), task.minRuns,      task.maxRuns, 0,
          task.config,         task.milliseconds, task.giveUp};
}

void nrd_search_report(nrd_search *search, size_t config, const double *times, size_t count) {
  search->search.report(config, times, count);
}

double nrd_search_remaining(const nrd_search *search) {
  return search->search.remaining();
}

int nrd_search_cut_short(const nrd_search *search) {
  return search->search.cutShort();
}

size_t nrd_search_best(const nrd_search *search) {
  return search->search.best().value_or(search->count);
}

int nrd_search_timing(const nrd_search *search, size_t config, double out[3]) {
  std::optional<Timing> timing = search->search.timing(config);
  if (!timing)
    return 0;
  out[0] = timing->median;
  out[1] = timing->low;
  out[2] = timing->high;
  return 1;
}

char *nrd_search_progress(const nrd_search *search, const char *kernel) {
  return strdup(search->search.progress(kernel).c_str());
}

int nrd_tuning_find(const char *key, size_t size, int device, size_t configs, double budget,
                    size_t *best, double *times) {
  std::optional<TuningResult> result = findTuningResult({key, size}, device, configs, budget);
  if (!result)
    return 0;
  *best = result->best;
  for (const std::optional<Timing> &timing : result->times) {
    *times++ = timing ? timing->median : std::nan("");
    *times++ = timing ? timing->low : 0;
    *times++ = timing ? timing->high : 0;
  }
  return 1;
}

void nrd_tuning_keep(const char *key, size_t size, int device, const char *kernel, size_t configs,
                     size_t best, const double *times, double cutShortAfter) {
  TuningResult result;
  result.kernel = kernel;
  result.best = best;
  result.cutShortAfter = cutShortAfter;
  for (size_t i = 0; i < configs; ++i, times += 3)
    result.times.push_back(
        std::isnan(times[0]) ? std::nullopt : std::optional(Timing{times[0], times[1], times[2]}));
  keepTuningResult({key, size}, device, result);
}

uint32_t nrd_tuning_threads(void) {
  if (int64_t asked = Settings::refresh().tuningThreads; asked > 0)
    return uint32_t(std::min<int64_t>(asked, 1024));
  // A compilation takes up to about 200 MB.
  long pages = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  int64_t fitting = pages > 0 && size > 0 ? int64_t(pages) * size / (200 << 20) : 1;
  return uint32_t(std::clamp<int64_t>(cpu::visibleCores(), 1, std::max<int64_t>(fitting, 1)));
}
