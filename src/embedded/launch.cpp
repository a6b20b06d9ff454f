// Choosing the variant of a launch: nereid/embedded.h.
#include "embedded/launch.h"

#include "embedded/cpu_features.h"
#include "embedded/driver.h"
#include "embedded/guard.h"
#include "embedded/status.h"

#include <bit>
#include <cinttypes>
#include <cstdio>
#include <string>

using namespace nereid;
using namespace nereid::embedded;

namespace {

bool isMultipleOf16(const nrd_embedded_param &param, const uint64_t *slots) {
  if (slots[0] % 16 != 0)
    return false;
  unsigned rank = param.slots / 2; // of a descriptor
  return param.slots == 1 || slots[rank] % 16 == 0;
}

bool holds(const nrd_embedded_param &param, const nrd_embedded_fact &fact, const uint64_t *slots) {
  auto number = int64_t(slots[0]);
  if (fact.kinds & NRD_FACT_EQUALS)
    return number == fact.value;
  if (fact.kinds & NRD_FACT_MULTIPLE_OF_16 && !isMultipleOf16(param, slots))
    return false;
  if (fact.kinds & NRD_FACT_SIGNED && number != number << (64 - fact.value) >> (64 - fact.value))
    return false;
  if (fact.kinds & NRD_FACT_NOT_NULL && !slots[0])
    return false;
  return !(fact.kinds & NRD_FACT_UNSIGNED && slots[0] >> fact.value);
}

/// The first parameter whose argument is not what the variant assumes; the number of parameters
/// when there is none. Counts what the facts are worth: a folded number promises the most.
uint64_t firstMismatch(const nrd_embedded_kernel &kernel, const nrd_embedded_variant &variant,
                       const uint64_t *slots, unsigned &worth) {
  worth = 0;
  for (uint64_t i = 0; i < kernel.param_count; slots += kernel.params[i++].slots) {
    const nrd_embedded_fact &fact = variant.facts[i];
    if (!fact.kinds)
      continue;
    if (!holds(kernel.params[i], fact, slots))
      return i;
    worth += fact.kinds & NRD_FACT_EQUALS ? 4 : unsigned(std::popcount(fact.kinds));
  }
  return kernel.param_count;
}

/// How well the code fits a GPU: 0 when it does not run there.
unsigned fitOf(const nrd_embedded_cuda &code, int arch) {
  if (code.arch_specific)
    return code.arch != arch ? 0 : code.is_ptx ? 2000 : 3000;
  if (code.is_ptx)
    return code.arch <= arch ? unsigned(code.arch) : 0;
  // Machine code runs on later minor versions of its generation.
  return code.arch / 10 == arch / 10 && code.arch <= arch ? unsigned(1000 + code.arch) : 0;
}

unsigned fitOf(const nrd_embedded_cpu &code) {
  return code.features & cpuFeatures() ? code.features : 0;
}

std::string textOf(const nrd_embedded_cuda &code) {
  return (code.is_ptx ? "PTX of sm_" : "sm_") + std::to_string(code.arch) +
         (code.arch_specific ? "a" : "");
}

const char *textOf(const nrd_embedded_cpu &code) {
  switch (code.features) {
  case NRD_CPU_BASELINE:
    return "cpu:baseline";
  case NRD_CPU_AVX2:
    return "cpu:avx2";
  case NRD_CPU_AVX512:
    return "cpu:avx512";
  case NRD_CPU_AVX512BF16:
    return "cpu:avx512bf16";
  case NRD_CPU_SAPPHIRERAPIDS:
    return "cpu:sapphirerapids";
  case NRD_CPU_GRANITERAPIDS:
    return "cpu:graniterapids";
  case NRD_CPU_NEOVERSE_N1:
    return "cpu:neoverse-n1";
  case NRD_CPU_NEOVERSE_V1:
    return "cpu:neoverse-v1";
  }
  return "cpu:aarch64";
}

/// No variant runs on the device, or none fits the arguments: which there are, and why not.
nrd_status noVariant(const nrd_embedded_kernel &kernel, const char *deviceText, bool isGpu,
                     int arch, const uint64_t *slots) {
  std::string targets, reasons;
  for (uint64_t i = 0; i < kernel.variant_count; ++i) {
    const nrd_embedded_variant &variant = kernel.variants[i];
    std::string target = variant.cuda ? textOf(*variant.cuda) : textOf(*variant.cpu);
    if (targets.find(target) == std::string::npos)
      targets += (targets.empty() ? "" : ", ") + target;
    bool fits =
        isGpu ? variant.cuda && fitOf(*variant.cuda, arch) : variant.cpu && fitOf(*variant.cpu);
    if (!fits)
      continue;
    unsigned worth;
    uint64_t param = firstMismatch(kernel, variant, slots, worth);
    if (param == kernel.param_count)
      continue;
    const nrd_embedded_fact &fact = variant.facts[param];
    uint64_t slot = 0;
    for (uint64_t j = 0; j < param; ++j)
      slot += kernel.params[j].slots;
    char text[160];
    if (kernel.params[param].is_pointer && fact.kinds & (NRD_FACT_EQUALS | NRD_FACT_NOT_NULL) &&
        !(fact.kinds & NRD_FACT_NOT_NULL && slots[slot]))
      std::snprintf(text, sizeof text, "`%s` must %sbe null", kernel.params[param].name,
                    fact.kinds & NRD_FACT_EQUALS ? "" : "not ");
    else if (fact.kinds & NRD_FACT_EQUALS)
      std::snprintf(text, sizeof text, "`%s` must be %" PRId64 ", is %" PRId64,
                    kernel.params[param].name, fact.value, int64_t(slots[slot]));
    else if (kernel.params[param].is_pointer)
      std::snprintf(text, sizeof text, "`%s` must be aligned to 16 bytes",
                    kernel.params[param].name);
    else if (fact.kinds & NRD_FACT_MULTIPLE_OF_16 && slots[slot] % 16 != 0)
      std::snprintf(text, sizeof text, "`%s` must be a multiple of 16, is %" PRId64,
                    kernel.params[param].name, int64_t(slots[slot]));
    else
      std::snprintf(text, sizeof text, "`%s` must fit %" PRId64 " bits, is %" PRId64,
                    kernel.params[param].name, fact.value, int64_t(slots[slot]));
    if (reasons.find(text) == std::string::npos)
      reasons += (reasons.empty() ? "" : ", or ") + std::string(text);
  }
  if (reasons.empty())
    return fail(NRD_STATUS_NO_VARIANT, "kernel `%s` was not compiled for %s: it has code for %s",
                kernel.name, deviceText, targets.empty() ? "nothing" : targets.c_str());
  return fail(NRD_STATUS_NO_VARIANT, "no variant of kernel `%s` for %s fits the arguments: %s",
              kernel.name, deviceText, reasons.c_str());
}

/// The GPU that a launch without a stream is for; NRD_DEVICE_CPU for the CPU.
int deviceOf(const nrd_embedded_kernel &kernel, const uint64_t *slots) {
  bool hasCuda = false, hasCpu = false;
  for (uint64_t i = 0; i < kernel.variant_count; ++i)
    (kernel.variants[i].cuda ? hasCuda : hasCpu) = true;
  if (!hasCuda)
    return NRD_DEVICE_CPU;
  const CudaApi *driver = CudaApi::tryGet();
  if (driver)
    for (uint64_t i = 0; i < kernel.param_count; slots += kernel.params[i++].slots)
      if (kernel.params[i].is_pointer && slots[0]) {
        int device = nrd_device_of(reinterpret_cast<void *>(uintptr_t(slots[0])));
        if (device >= 0)
          return device;
        break;
      }
  if (hasCpu)
    return NRD_DEVICE_CPU;
  Device current = 0;
  if (driver && driver->cuCtxGetDevice(&current) != Success)
    current = 0;
  return current;
}

/// The tables of a kernel come from `nereid embed`, or from a program that was changed since.
nrd_status damaged(const nrd_embedded_kernel &kernel, const char *what) {
  return fail(NRD_STATUS_DAMAGED,
              "the table of kernel `%s` is damaged: its `%s` is null; embed it again", kernel.name,
              what);
}

/// A variant without anything that a launch reads.
const char *missingPart(const nrd_embedded_kernel &kernel, const nrd_embedded_variant &variant) {
  if (!variant.facts && kernel.param_count)
    return "facts";
  if (const nrd_embedded_cuda *code = variant.cuda)
    return !code->image                     ? "image"
           : !code->entry                   ? "entry"
           : !code->maps && code->map_count ? "maps"
                                            : nullptr;
  const nrd_embedded_cpu *code = variant.cpu;
  return !code                              ? "code"
         : !code->entry                     ? "entry"
         : !code->sites && code->site_count ? "sites"
                                            : nullptr;
}

nrd_status checkTables(const nrd_embedded_kernel *kernel, const nrd_embedded_launch *how,
                       const uint64_t *slots) {
  if (!kernel || !kernel->name)
    return fail(NRD_STATUS_DAMAGED, "the table of an embedded kernel is damaged");
  if (kernel->version != NRD_EMBEDDED_VERSION || kernel->size != sizeof(nrd_embedded_kernel))
    return fail(NRD_STATUS_DAMAGED,
                "kernel `%s` was embedded in form %u, and this program is linked with a run time "
                "for form %u: embed it again",
                kernel->name, kernel->version, unsigned(NRD_EMBEDDED_VERSION));
  if (!kernel->params && kernel->param_count)
    return damaged(*kernel, "params");
  if (kernel->variant_count && (!kernel->variants || !kernel->states))
    return damaged(*kernel, kernel->variants ? "states" : "variants");
  for (uint64_t i = 0; i < kernel->variant_count; ++i)
    if (const char *part = missingPart(*kernel, kernel->variants[i])) [[unlikely]]
      return damaged(*kernel, part);
  if (!how || (!slots && kernel->param_count))
    return fail(NRD_STATUS_ARGUMENT, "the launch of `%s` needs its argument `%s`, which is null",
                kernel->name, how ? "slots" : "how");
  if (how->size < sizeof(nrd_embedded_launch))
    return fail(NRD_STATUS_ARGUMENT, "`size` of the launch is %zu, expected %zu", how->size,
                sizeof(nrd_embedded_launch));
  for (int axis = 0; axis < 3; ++axis)
    if (how->grid[axis] > uint32_t(INT32_MAX))
      return fail(NRD_STATUS_ARGUMENT,
                  "axis %d of the grid of `%s` is %" PRId64 ", expected 0 to 2147483647", axis,
                  kernel->name,
                  how->grid[axis] == UINT32_MAX ? int64_t(-1) : int64_t(how->grid[axis]));
  return NRD_OK;
}

nrd_status start(const nrd_embedded_kernel *kernel, const nrd_embedded_launch *how,
                 const uint64_t *slots, bool run) {
  if (nrd_status status = checkTables(kernel, how, slots)) [[unlikely]]
    return status;
  int device = how->has_stream ? how->stream.device : deviceOf(*kernel, slots);
  bool isGpu = device != NRD_DEVICE_CPU;
  int arch = 0;
  const char *deviceText = "this processor";
  if (isGpu) {
    nrd_status status;
    const CudaApi *driver = CudaApi::get(status);
    const Gpu *gpu = driver ? driver->gpu(device, status) : nullptr;
    if (!gpu) [[unlikely]]
      return status;
    arch = gpu->arch;
    deviceText = gpu->name;
  }
  // The best code for the device first, then the most facts.
  const nrd_embedded_variant *best = nullptr;
  unsigned bestFit = 0, bestWorth = 0;
  for (uint64_t i = 0; i < kernel->variant_count; ++i) {
    const nrd_embedded_variant &variant = kernel->variants[i];
    unsigned fit = isGpu         ? variant.cuda ? fitOf(*variant.cuda, arch) : 0
                   : variant.cpu ? fitOf(*variant.cpu)
                                 : 0;
    if (!fit || fit < bestFit)
      continue;
    unsigned worth;
    if (firstMismatch(*kernel, variant, slots, worth) != kernel->param_count)
      continue;
    if (!best || fit > bestFit || worth > bestWorth) {
      best = &variant;
      bestFit = fit;
      bestWorth = worth;
    }
  }
  if (!best) [[unlikely]] {
    char text[160];
    std::snprintf(text, sizeof text, isGpu ? "%s (sm_%d)" : "%s", deviceText, arch);
    return noVariant(*kernel, text, isGpu, arch, slots);
  }
  Chosen chosen{*kernel, *best, kernel->states[best - kernel->variants]};
  return isGpu ? launchCuda(chosen, *how, device, slots, run) : launchCpu(chosen, *how, slots, run);
}

} // namespace

unsigned embedded::passedSlots(const Chosen &chosen, const uint64_t *slots, uint64_t *passed) {
  unsigned count = 0;
  for (uint64_t i = 0; i < chosen.kernel.param_count; ++i) {
    unsigned width = chosen.kernel.params[i].slots;
    if (!(chosen.variant.facts[i].kinds & NRD_FACT_EQUALS))
      for (unsigned j = 0; j < width && count < maxSlots; ++j)
        passed[count++] = slots[j];
    slots += width;
  }
  return count;
}

nrd_status nrd_embedded_run(const nrd_embedded_kernel *kernel, const nrd_embedded_launch *how,
                            const uint64_t *slots) try {
  return start(kernel, how, slots, true);
}
NRD_CATCH_STATUS

nrd_status nrd_embedded_prepare(const nrd_embedded_kernel *kernel, const nrd_embedded_launch *how,
                                const uint64_t *slots) try {
  return start(kernel, how, slots, false);
}
NRD_CATCH_STATUS

nrd_status nrd_embedded_other_version(const nrd_embedded_kernel *kernel, uint32_t version) {
  if (!kernel || !kernel->name)
    return fail(NRD_STATUS_DAMAGED, "the table of an embedded kernel is damaged");
  // What this run time can do is said first, as by a launch: one of the three is of another form.
  return fail(NRD_STATUS_DAMAGED,
              "a call of kernel `%s` was compiled with headers for form %u, its table was embedded "
              "in form %u, and the run time is for form %u: build all of them with one version",
              kernel->name, version, kernel->version, unsigned(NRD_EMBEDDED_VERSION));
}

nrd_status nrd_embedded_does_not_fit(const nrd_embedded_kernel *kernel, uint64_t param) {
  if (!kernel || !kernel->name || !kernel->params || param >= kernel->param_count)
    return fail(NRD_STATUS_DAMAGED, "the table of an embedded kernel is damaged");
  return fail(NRD_STATUS_ARGUMENT, "the number given for `%s` of kernel `%s` does not fit its type",
              kernel->params[param].name, kernel->name);
}
