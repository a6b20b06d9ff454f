#include "runtime/target_choice.h"

#include "embedded/cpu_features.h"
#include "nereid/embedded.h"
#include "runtime/c_api.h"
#include "runtime/devices/arguments.h"
#include "runtime/devices/cuda.h"
#include "runtime/launch_state.h"
#include "support/first_use.h"
#include "support/settings.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <cstring>

using namespace nereid;
using namespace nereid::runtime;

namespace {

auto &preferred = launchState.preferred;

/// Where the arguments do not say.
TargetName fallback() {
  if (std::optional<TargetName> chosen = fallbackTarget())
    return *chosen;
  return {cuda::deviceCount() == 0 ? Backend::Cpu : Backend::Cuda, 0};
}

/// Of a pointer that is not null. An array counts as pageable, whatever it lies in.
cuda::MemoryKind placeOf(const nrd_arg &arg) {
  return arg.memory == NRD_MEMORY_HOST ? cuda::MemoryKind::Pageable : cuda::memoryKindOf(arg.p);
}

/// The table of the header.
TargetName byArguments(llvm::ArrayRef<nrd_arg> args, bool strict) {
  constexpr TargetName cpu{Backend::Cpu, 0}, gpu{Backend::Cuda, 0};
  bool array = false, tensor = false, pinned = false, empty = false;
  for (const nrd_arg &arg : args) {
    if (!pointsToMemory(arg))
      continue;
    if (arg.memory >= NRD_MEMORY_CUDA)
      return gpu;
    bool isTensor = arg.memory == NRD_MEMORY_HOST_TENSOR;
    if (!arg.p) {
      empty |= isTensor || arg.memory == NRD_MEMORY_HOST;
      continue;
    }
    switch (placeOf(arg)) {
    case cuda::MemoryKind::Device:
      return gpu;
    case cuda::MemoryKind::Pinned:
      pinned = true;
      break;
    case cuda::MemoryKind::Pageable:
      (isTensor ? tensor : array) = true;
      break;
    }
  }
  bool isOfHost = tensor ? !strict : array || (empty && !pinned && !strict);
  return isOfHost ? cpu : fallback();
}

/// "sm80", "sm_90a", "86".
std::optional<uint16_t> architectureNumber(llvm::StringRef text) {
  text.consume_front("sm");
  text.consume_front("_");
  text.consume_back("a");
  unsigned number = 0;
  if (text.getAsInteger(10, number) || number == 0 || number > 0xfff)
    return std::nullopt;
  return uint16_t(number);
}

ErrorPtr fillArchitecture(const Options &options, llvm::ArrayRef<nrd_arg> args,
                          const nrd_launch *launch, TargetName &target, int &device) {
  device = -1;
  if (target.backend != Backend::Cuda || target.arch)
    return nullptr;
  const std::string &setting = Settings::current().overrideArch;
  if (const std::string &wanted = options.arch.empty() ? setting : options.arch; !wanted.empty()) {
    constexpr const char *expected = "an architecture like `sm80`";
    if (std::optional<uint16_t> number = architectureNumber(wanted)) {
      target.arch = *number;
      return nullptr;
    }
    return options.arch.empty() ? makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::BadSettingValue,
                                            "NEREID_OVERRIDE_ARCH", expected, wanted)
                                : makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::BadOptionValue,
                                            "arch", expected, wanted);
  }
  int arch;
  if (ErrorPtr error = cuda::deviceOfLaunch(args, launch, device))
    return error;
  if (ErrorPtr error = cuda::architecture(device, arch))
    return error;
  target.arch = uint16_t(arch);
  return nullptr;
}

TargetName named(int code) {
  code &= ~LaunchState::onlyFallback;
  return {Backend(code >> 12), uint16_t(code & 0xfff)};
}

/// Sets what the process prefers; null or "" for nothing.
nrd_error *prefer(const char *target, int flags) {
  if (!target || !*target) {
    preferred.store(-1);
    return nullptr;
  }
  auto name = TargetName::parse(target);
  if (!name)
    return wrap(makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::UnknownTarget, target));
  preferred.store(name->code() | flags);
  return nullptr;
}

} // namespace

std::optional<TargetName> runtime::preferredTarget() {
  int code = preferredCode();
  return code < 0 || code & LaunchState::onlyFallback ? std::nullopt : std::optional(named(code));
}

std::optional<TargetName> runtime::fallbackTarget() {
  int code = preferredCode();
  return code >= 0 && code & LaunchState::onlyFallback ? std::optional(named(code)) : std::nullopt;
}

ErrorPtr runtime::chooseTarget(const Options *options, llvm::ArrayRef<nrd_arg> args,
                               const nrd_launch *launch, TargetName &out, int &device) {
  static constinit FirstUse<const Options> none;
  if (!options)
    options = &none.get();
  std::optional<TargetName> chosen;
  if (ErrorPtr error = options->chosenTarget(preferredTarget(), chosen))
    return error;
  bool strict = options->strictSet ? options->strict : Settings::current().strict;
  out = chosen ? *chosen : byArguments(args, strict);
  return fillArchitecture(*options, args, launch, out, device);
}

ErrorPtr runtime::targetWithoutArguments(const Options &options, TargetName &out) {
  std::optional<TargetName> chosen;
  if (ErrorPtr error = options.chosenTarget(preferredTarget(), chosen))
    return error;
  if (!chosen)
    chosen = fallbackTarget();
  out = chosen.value_or(TargetName{});
  int device;
  return fillArchitecture(options, {}, nullptr, out, device);
}

bool runtime::isPageable(const nrd_arg &arg) {
  return arg.p && arg.memory < NRD_MEMORY_CUDA && placeOf(arg) == cuda::MemoryKind::Pageable;
}

bool runtime::canLaunch(const CompileRequest &request) {
  if (request.target.backend != Backend::Cpu)
    return cuda::deviceCount() > 0;
  // Code for another processor is made on any.
  uint32_t needed = llvm::StringSwitch<uint32_t>(request.options.features)
                        .Case("baseline", NRD_CPU_BASELINE)
                        .Case("avx2", NRD_CPU_AVX2)
                        .Case("avx512", NRD_CPU_AVX512)
                        .Case("avx512bf16", NRD_CPU_AVX512BF16)
                        .Case("sapphirerapids", NRD_CPU_SAPPHIRERAPIDS)
                        .Case("graniterapids", NRD_CPU_GRANITERAPIDS)
                        .Case("aarch64", NRD_CPU_AARCH64)
                        .Case("neoverse-n1", NRD_CPU_NEOVERSE_N1)
                        .Case("neoverse-v1", NRD_CPU_NEOVERSE_V1)
                        .Default(0);
  return (embedded::cpuFeatures() & needed) == needed;
}

//===--- the C ABI
//------------------------------------------------------------------------------===//

nrd_error *nrd_set_default_target(const char *target) try { return prefer(target, 0); }
NRD_CATCH_ERROR

nrd_error *nrd_set_fallback_target(const char *target) try {
  return prefer(target, LaunchState::onlyFallback);
}
NRD_CATCH_ERROR

nrd_error *nrd_target_of_arguments(const nrd_arg *arguments, size_t count,
                                   const nrd_options *options, char **target, int *device) try {
  NRD_NEEDS_ARRAY(arguments, count);
  NRD_NEEDS(target);
  NRD_NEEDS(device);
  if (ErrorPtr error = checkTuples({arguments, count}, __func__))
    return wrap(std::move(error));
  llvm::SmallVector<nrd_arg, 0> storage;
  llvm::ArrayRef<nrd_arg> leaves = flatten({arguments, count}, storage);
  TargetName found;
  ErrorPtr error =
      chooseTarget(options ? &options->values : nullptr, leaves, nullptr, found, *device);
  if (!error && found.backend == Backend::Cuda && *device < 0)
    error = cuda::deviceOfLaunch(leaves, nullptr, *device);
  if (error)
    return wrap(std::move(error));
  *target = strdup(found.text().c_str());
  return nullptr;
}
NRD_CATCH_ERROR

int nrd_cuda_is_pinned(const void *address) try {
  return cuda::hasDriver() ? cuda::memoryKindOf(address) == cuda::MemoryKind::Pinned : -1;
}
NRD_CATCH_AND(return -1)

char *nrd_default_target(void) try {
  TargetName target;
  int device;
  // Without a driver the name stays as it was chosen; a launch will say what is missing.
  if (ErrorPtr missing = chooseTarget(nullptr, {}, nullptr, target, device))
    target.arch = 0;
  return strdup(target.text().c_str());
}
NRD_CATCH_AND(return nullptr)
