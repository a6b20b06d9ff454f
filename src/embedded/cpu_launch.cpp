// Embedded kernels on the CPU: the executor of the library, fed from the tables.
#include "embedded/launch.h"
#include "embedded/status.h"
#include "targets/cpu/executor/Executor.h"
#include "targets/cpu/support_library/SupportLibrary.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdlib>
#include <memory>

using namespace nereid;
using namespace nereid::embedded;

namespace {

/// What NEREID_CPU_THREADS says: 0 without it, below 0 where it is no integer of at least 0.
int64_t askedThreads() {
  const char *text = std::getenv("NEREID_CPU_THREADS");
  if (!text)
    return 0;
  char *end = nullptr;
  int64_t threads = std::strtoll(text, &end, 10);
  return end == text || *end ? -1 : threads;
}

} // namespace

int64_t cpu::configuredThreads() {
  return std::max<int64_t>(0, askedThreads());
}

namespace {

std::unique_ptr<cpu::SiteTable> makeSites(const nrd_embedded_cpu &code) {
  auto table = std::make_unique<cpu::SiteTable>();
  for (uint64_t i = 0; i < code.site_count; ++i) {
    const nrd_embedded_site &from = code.sites[i];
    cpu::Site &site = table->sites.emplace_back();
    site.places.push_back({from.file, from.line, from.column, {}, 0});
    site.text = from.text;
    site.hex = from.hex;
    for (uint32_t j = 0; j < from.operand_count; ++j) {
      const nrd_embedded_operand &operand = from.operands[j];
      site.operands.push_back(
          {cpu::ElementKind(operand.kind), {operand.shape, operand.shape + operand.rank}});
    }
  }
  return table;
}

/// The sites of the variant, made when they are first wanted and kept.
const cpu::SiteTable *sitesOf(const Chosen &chosen) {
  if (!chosen.variant.cpu->site_count)
    return nullptr;
  std::atomic_ref<void *> loaded(chosen.state.loaded);
  if (void *table = loaded.load(std::memory_order_acquire))
    return static_cast<cpu::SiteTable *>(table);
  auto made = makeSites(*chosen.variant.cpu);
  void *expected = nullptr;
  if (loaded.compare_exchange_strong(expected, made.get()))
    return made.release();
  return static_cast<cpu::SiteTable *>(expected);
}

nrd_status failed(const Chosen &chosen, const nrd_embedded_launch &how, const cpu::Failure &failure,
                  const cpu::SiteTable *sites) {
  const cpu::Site *site = sites && failure.site >= 0 && size_t(failure.site) < sites->sites.size()
                              ? &sites->sites[size_t(failure.site)]
                              : nullptr;
  const cpu::SitePlace place = site ? site->places.front() : cpu::SitePlace{"?", 0, 0, {}, 0};
  int64_t x = how.grid[0], y = how.grid[1], program = failure.program;
  return fail(NRD_STATUS_FAILED,
              "%s:%d:%d: run-time error: %s%s\nnote: in program (%" PRId64 ", %" PRId64 ", %" PRId64
              ") of kernel `%s`",
              place.file.c_str(), place.line, place.column,
              failure.kind == cpu::FailureKind::Assert ? "assertion failed: "
                                                       : "an offset overflowed",
              failure.kind == cpu::FailureKind::Assert && site ? site->text.c_str() : "",
              program % x, program / x % y, program / (x * y), chosen.kernel.name);
}

} // namespace

nrd_status embedded::launchCpu(const Chosen &chosen, const nrd_embedded_launch &how,
                               const uint64_t *slots, bool run) {
  const nrd_embedded_cpu &code = *chosen.variant.cpu;
  const cpu::SiteTable *sites = sitesOf(chosen);
  if (!run)
    return NRD_OK;
  static const bool isUnderstood = askedThreads() >= 0; // read once, as the pool does
  if (!isUnderstood)
    return fail(NRD_STATUS_ARGUMENT,
                "setting `NEREID_CPU_THREADS` expects an integer of at least 0");
  uint64_t passed[maxSlots];
  passedSlots(chosen, slots, passed);
  cpu::LaunchOptions options;
  options.threads = int(how.threads < 4096 ? how.threads : 4096);
  options.cooperative = code.order == NRD_PROGRAMS_TOGETHER;
  options.independent = code.order == NRD_PROGRAMS_INDEPENDENT;
  options.scratchBytes = code.scratch_bytes;
  options.sites = sites;
  int32_t grid[3] = {int32_t(how.grid[0]), int32_t(how.grid[1]), int32_t(how.grid[2])};
  auto entry = reinterpret_cast<cpu::KernelFn>(code.entry);
  cpu::LaunchResult result = cpu::run(entry, passed, grid, options);
  const char *name = chosen.kernel.name;
  switch (result.status) {
  case cpu::LaunchStatus::Ok:
    return NRD_OK;
  case cpu::LaunchStatus::ProgramFailed:
    return failed(chosen, how, result.failure, sites);
  case cpu::LaunchStatus::BadGrid:
    return fail(NRD_STATUS_ARGUMENT, "the grid of `%s` has too many programs", name);
  case cpu::LaunchStatus::TooManyPrograms:
    return fail(NRD_STATUS_RESOURCES,
                "the programs of `%s` run at the same time: at most %" PRId64 " of them can", name,
                cpu::cooperativeLimit);
  case cpu::LaunchStatus::NoThreads:
    return fail(NRD_STATUS_RESOURCES, "the system gives too few threads for `%s`", name);
  case cpu::LaunchStatus::NoMemory:
    return fail(NRD_STATUS_RESOURCES, "no %" PRIu64 " bytes of memory for each thread of `%s`",
                code.scratch_bytes, name);
  }
  return NRD_OK;
}
