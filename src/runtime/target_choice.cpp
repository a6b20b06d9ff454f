#include "runtime/target_choice.h"

#include "embedded/cpu_features.h"
#include "nereid/embedded.h"
#include "runtime/c_api.h"
#include "runtime/devices/arguments.h"
#include "runtime/devices/cuda.h"
#include "runtime/launch_state.h"
#include "support/settings.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <cstring>

using namespace nereid;
using namespace nereid::runtime;

namespace {

auto &preferred = launchState.preferred;

Backend byArguments(llvm::ArrayRef<nrd_arg> args) {
  bool array = false, tensor = false;
  for (const nrd_arg &arg : args) {
    if (!pointsToMemory(arg) || (!arg.p && arg.memory < NRD_MEMORY_CUDA))
      continue;
    if (arg.memory >= NRD_MEMORY_CUDA)
      return Backend::Cuda;
    bool isUnknown = arg.memory == NRD_MEMORY_UNKNOWN || arg.memory == NRD_MEMORY_UNPROVEN;
    if (isUnknown && cuda::isDeviceMemory(arg.p))
      return Backend::Cuda;
    (arg.memory == NRD_MEMORY_HOST_TENSOR ? tensor : array) = true;
  }
  // A tensor of the CPU where there is a GPU is a mistake that launching will report, as Triton
  // does; an array can only be meant for the CPU.
  return (array && !tensor) || cuda::deviceCount() == 0 ? Backend::Cpu : Backend::Cuda;
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

} // namespace

std::optional<TargetName> runtime::preferredTarget() {
  int code = preferredCode();
  if (code < 0)
    return std::nullopt;
  return TargetName{Backend(code >> 12), uint16_t(code & 0xfff)};
}

ErrorPtr runtime::chooseTarget(const Options *options, llvm::ArrayRef<nrd_arg> args,
                               const nrd_launch *launch, TargetName &out, int &device) {
  static const Options none;
  if (!options)
    options = &none;
  std::optional<TargetName> chosen;
  if (ErrorPtr error = options->chosenTarget(preferredTarget(), chosen))
    return error;
  out = chosen ? *chosen : TargetName{byArguments(args), 0};
  return fillArchitecture(*options, args, launch, out, device);
}

ErrorPtr runtime::targetWithoutArguments(const Options &options, TargetName &out) {
  std::optional<TargetName> chosen;
  if (ErrorPtr error = options.chosenTarget(preferredTarget(), chosen))
    return error;
  out = chosen.value_or(TargetName{});
  int device;
  return fillArchitecture(options, {}, nullptr, out, device);
}

bool runtime::canLaunch(const CompileRequest &request) {
  if (request.target.backend != Backend::Cpu)
    return cuda::deviceCount() > 0;
  // Code for another processor is made on any.
  uint32_t needed = llvm::StringSwitch<uint32_t>(request.options.features)
                        .Case("baseline", NRD_CPU_BASELINE)
                        .Case("avx2", NRD_CPU_AVX2)
                        .Case("avx512", NRD_CPU_AVX512)
                        .Case("aarch64", NRD_CPU_AARCH64)
                        .Default(0);
  return (embedded::cpuFeatures() & needed) == needed;
}

//===--- the C ABI
//------------------------------------------------------------------------------===//

nrd_error *nrd_set_default_target(const char *target) {
  if (!target || !*target) {
    preferred.store(-1);
    return nullptr;
  }
  auto name = TargetName::parse(target);
  if (!name)
    return wrap(makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::UnknownTarget, target));
  preferred.store(name->code());
  return nullptr;
}

char *nrd_default_target(void) {
  TargetName target;
  int device;
  // Without a driver the name stays as it was chosen; a launch will say what is missing.
  if (ErrorPtr missing = chooseTarget(nullptr, {}, nullptr, target, device))
    target.arch = 0;
  return strdup(target.text().c_str());
}
