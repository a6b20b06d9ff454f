// The C ABI: tuning (nereid/tuner.h).
#include "nereid/tuner.h"
#include "runtime/c_api.h"
#include "runtime/devices/cpu.h"
#include "runtime/fork.h"
#include "runtime/specialise.h"
#include "runtime/tuner/tuner.h"
#include "support/settings.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unistd.h>

using namespace nereid;
using namespace nereid::runtime;

//===--- a tuner
//-----------------------------------------------------------------------------------===//

nrd_tuner *nrd_tuner_new(nrd_function *function) try {
  if (!function)
    return nullptr;
  return new nrd_tuner{Tuner(function->record)};
}
NRD_CATCH_AND(return nullptr)

void nrd_tuner_free(nrd_tuner *tuner) try {
  Working working;
  delete tuner;
}
NRD_CATCH

nrd_error *nrd_tuner_add(nrd_tuner *tuner, const char *const *names, const nrd_value *const *values,
                         size_t count) try {
  NRD_NEEDS(tuner);
  NRD_NEEDS_ALL(names, count);
  NRD_NEEDS_ALL(values, count);
  return wrap(tuner->tuner.add({names, count}, {values, count}));
}
NRD_CATCH_ERROR

size_t nrd_tuner_count(const nrd_tuner *tuner) try {
  if (!tuner)
    return 0;
  return tuner->tuner.configurations().size();
}
NRD_CATCH_AND(return 0)

nrd_error *nrd_tuner_set_key(nrd_tuner *tuner, const char *const *names, size_t count) try {
  NRD_NEEDS(tuner);
  NRD_NEEDS_ALL(names, count);
  return wrap(tuner->tuner.setKey({names, count}));
}
NRD_CATCH_ERROR

nrd_error *nrd_tuner_set_resets(nrd_tuner *tuner, const char *const *names, size_t count) try {
  NRD_NEEDS(tuner);
  NRD_NEEDS_ALL(names, count);
  return wrap(tuner->tuner.setResets({names, count}));
}
NRD_CATCH_ERROR

nrd_error *nrd_tuner_set_restores(nrd_tuner *tuner, const char *const *names, size_t count) try {
  NRD_NEEDS(tuner);
  NRD_NEEDS_ALL(names, count);
  return wrap(tuner->tuner.setRestores({names, count}));
}
NRD_CATCH_ERROR

void nrd_tuner_set_budget(nrd_tuner *tuner, double seconds) try {
  if (!tuner)
    return;
  tuner->tuner.setBudget(seconds);
}
NRD_CATCH

const nrd_value *nrd_tuner_value(const nrd_tuner *tuner, size_t config, const char *name) try {
  if (!tuner || !name || config >= nrd_tuner_count(tuner))
    return nullptr;
  return tuner->tuner.value(config, name);
}
NRD_CATCH_AND(return nullptr)

const char *nrd_tuner_text(const nrd_tuner *tuner, size_t config) try {
  if (!tuner || config >= nrd_tuner_count(tuner))
    return nullptr;
  return tuner->tuner.configurations()[config].text.c_str();
}
NRD_CATCH_AND(return nullptr)

nrd_error *nrd_tuner_launch(nrd_tuner *tuner, const nrd_arg *args, size_t count,
                            nrd_tuner_grid grid, void *data, const nrd_launch *launch) try {
  NRD_NEEDS(tuner);
  NRD_NEEDS_ARRAY(args, count);
  NRD_NEEDS(launch);
  if (count > mostItems)
    return badArgument(__func__, "count", "at most " + std::to_string(mostItems),
                       std::to_string(count));
  if (ErrorPtr error = checkTuples({args, count}, __func__))
    return wrap(std::move(error));
  auto fill = [&](size_t config, uint32_t sizes[3]) {
    return !grid || grid(data, tuner, config, sizes) == 0;
  };
  return wrap(tuner->tuner.launch({args, count}, fill, *launch));
}
NRD_CATCH_ERROR

size_t nrd_tuner_best(const nrd_tuner *tuner) try {
  if (!tuner)
    return 0;
  return tuner->tuner.lastChoice();
}
NRD_CATCH_AND(return 0)

static int timingOf(const std::optional<Timing> &timing, double out[3]) {
  if (!timing)
    return 0;
  out[0] = timing->median;
  out[1] = timing->low;
  out[2] = timing->high;
  return 1;
}

int nrd_tuner_timing(const nrd_tuner *tuner, size_t config, double out[3]) try {
  if (!tuner || !out)
    return 0;
  Tuner::Report report = tuner->tuner.report();
  return config < report.times.size() && timingOf(report.times[config], out);
}
NRD_CATCH_AND(return 0)

double nrd_tuner_seconds(const nrd_tuner *tuner) try {
  if (!tuner)
    return 0;
  return tuner->tuner.report().seconds;
}
NRD_CATCH_AND(return 0)

char *nrd_tuner_report(const nrd_tuner *tuner) try {
  if (!tuner)
    return nullptr;
  return strdup(tuner->tuner.reportText().c_str());
}
NRD_CATCH_AND(return nullptr)

//===--- the order of measurements
//-----------------------------------------------------------------===//

struct nrd_search {
  Search search;
  size_t count;
};

nrd_search *nrd_search_new(size_t count, double budget, uint32_t flags) try {
  Search::Plan plan;
  plan.count = count;
  if (budget > 0)
    plan.budget = budget;
  plan.plain = flags & NRD_SEARCH_PLAIN;
  plan.wakes = flags & NRD_SEARCH_WAKES;
  return new nrd_search{Search(std::move(plan)), count};
}
NRD_CATCH_AND(return nullptr)

void nrd_search_free(nrd_search *search) try { delete search; }
NRD_CATCH

void nrd_search_ready(nrd_search *search, size_t config) try {
  if (!search || config >= search->count)
    return;
  search->search.ready(config);
}
NRD_CATCH

void nrd_search_fail(nrd_search *search, size_t config) try {
  if (!search || config >= search->count)
    return;
  search->search.fail(config);
}
NRD_CATCH

void nrd_search_next(nrd_search *search, nrd_search_task *out) try {
  if (!search || !out)
    return;
  Search::Task task = search->search.next();
  *out = {uint32_t(task.step), task.runs, task.config};
}
NRD_CATCH

void nrd_search_report(nrd_search *search, size_t config, const double *times, size_t count) try {
  if (!search || config >= search->count || !times || !count)
    return;
  search->search.report(config, times, count);
}
NRD_CATCH

double nrd_search_remaining(const nrd_search *search) try {
  if (!search)
    return 0;
  return search->search.remaining();
}
NRD_CATCH_AND(return 0)

int nrd_search_cut_short(const nrd_search *search) try {
  if (!search)
    return 0;
  return search->search.cutShort();
}
NRD_CATCH_AND(return 0)

size_t nrd_search_best(const nrd_search *search) try {
  if (!search)
    return 0;
  return search->search.best().value_or(search->count);
}
NRD_CATCH_AND(return 0)

int nrd_search_timing(const nrd_search *search, size_t config, double out[3]) try {
  if (!search || config >= search->count || !out)
    return 0;
  return timingOf(search->search.timing(config), out);
}
NRD_CATCH_AND(return 0)

char *nrd_search_progress(const nrd_search *search, const char *kernel) try {
  if (!search || !kernel)
    return nullptr;
  return strdup(search->search.progress(kernel).c_str());
}
NRD_CATCH_AND(return nullptr)

//===--- results on disk
//---------------------------------------------------------------------------===//

int nrd_tuning_find(const char *key, size_t size, int device, size_t configs, double budget,
                    size_t *best, double *times) try {
  if ((!key && size) || !best || (!times && configs))
    return 0;
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
NRD_CATCH_AND(return 0)

void nrd_tuning_keep(const char *key, size_t size, int device, const char *kernel, size_t configs,
                     size_t best, const double *times, double cutShortAfter) try {
  if ((!key && size) || !kernel || (!times && configs))
    return;
  TuningResult result;
  result.kernel = kernel;
  result.best = best;
  result.cutShortAfter = cutShortAfter;
  for (size_t i = 0; i < configs; ++i, times += 3)
    result.times.push_back(
        std::isnan(times[0]) ? std::nullopt : std::optional(Timing{times[0], times[1], times[2]}));
  keepTuningResult({key, size}, device, result);
}
NRD_CATCH

uint32_t nrd_tuning_threads(void) try {
  if (int64_t asked = Settings::refresh().tuningThreads; asked > 0)
    return uint32_t(std::min<int64_t>(asked, 1024));
  // A compilation takes up to about 200 MB.
  long pages = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  int64_t fitting = pages > 0 && size > 0 ? int64_t(pages) * size / (200 << 20) : 1;
  return uint32_t(std::clamp<int64_t>(cpuCores(), 1, std::max<int64_t>(fitting, 1)));
}
NRD_CATCH_AND(return 0)
