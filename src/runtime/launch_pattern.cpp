#include "runtime/launch_pattern.h"

#include "runtime/devices/cuda.h"
#include "runtime/target_choice.h"
#include "support/first_use.h"

using namespace nereid;
using namespace nereid::runtime;
using targets::ScalarKind;

bool LaunchPattern::expect(RuleKind rule, const nrd_arg &arg, bool isPassed, ScalarKind kind) {
  Expected &out = expected.emplace_back();
  out.head = uint32_t(headOf(arg));
  out.isPassed = isPassed;
  if (out.head != headOf(arg))
    return false;
  if (arg.kind == NRD_ARG_NONE)
    return !isPassed;
  if (rule == RuleKind::Constant) {
    out.check = arg.kind == NRD_ARG_VALUE ? Check::Constant : Check::Bits;
    constants.push_back({arg.u, arg.kind == NRD_ARG_VALUE ? arg.v->key : std::string()});
    return !isPassed && (arg.kind == NRD_ARG_VALUE || arg.kind == NRD_ARG_INT ||
                         arg.kind == NRD_ARG_FLOAT || arg.kind == NRD_ARG_BOOL);
  }
  if (rule != RuleKind::Usual)
    return false;
  switch (arg.kind) {
  case NRD_ARG_POINTER:
    out.check = Check::Pointer;
    out.facts = arg.u % 16 == 0;
    return !isLarge(arg) && (!isPassed || kind == ScalarKind::Pointer);
  case NRD_ARG_INT:
    out.check = Check::Integer;
    out.facts = integerFacts(arg.i);
    return !isPassed || kind == ScalarKind::I32 || kind == ScalarKind::I64;
  case NRD_ARG_BOOL:
    out.check = Check::Bool;
    return !isPassed || kind == ScalarKind::I1;
  case NRD_ARG_FLOAT:
    out.check = Check::Float;
    return !isPassed || kind == ScalarKind::F32;
  default:
    return false;
  }
}

/// Whether what was compared, and what the driver is asked, decides the target (chooseTarget), and
/// where the kernel runs.
bool LaunchPattern::fixTarget(llvm::ArrayRef<nrd_arg> args, const Options *options) {
  static constinit FirstUse<const Options> none;
  std::optional<TargetName> chosen;
  if (ErrorPtr error = (options ? *options : none.get()).chosenTarget(preferredTarget(), chosen))
    return false;
  return kernel->request.target.backend == Backend::Cpu ? fixCpu(args, chosen.has_value())
                                                        : fixGpu(args, chosen.has_value());
}

bool LaunchPattern::fixGpu(llvm::ArrayRef<nrd_arg> args, bool isDecided) {
  bool hasPointers = false;
  std::optional<size_t> onDevice;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].kind != NRD_ARG_POINTER)
      continue;
    hasPointers = true;
    // Memory of other devices may have another address for the GPU, or be inaccessible.
    bool isHere = ready && args[i].memory == NRD_MEMORY_CUDA + ready->number;
    if (!isHere && args[i].memory != NRD_MEMORY_UNKNOWN)
      return false;
    isDecided |= isHere;
    if (!isDecided && !onDevice && cuda::memoryKindOf(args[i].p) == cuda::MemoryKind::Device)
      onDevice = i;
  }
  if (!isDecided && onDevice)
    asked.push_back({uint16_t(*onDevice), Answer::Device});
  return ready && (isDecided || onDevice || !hasPointers);
}

/// Some pointer must still mean the CPU, and none a GPU.
bool LaunchPattern::fixCpu(llvm::ArrayRef<nrd_arg> args, bool isChosen) {
  bool asks = !isChosen && cuda::hasDriver();
  std::optional<TargetName> otherwise = fallbackTarget();
  bool isDecided = !asks || (otherwise && otherwise->backend == Backend::Cpu);
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].kind != NRD_ARG_POINTER)
      continue;
    if (args[i].memory >= NRD_MEMORY_CUDA)
      return false;
    bool isOfHost = args[i].memory == NRD_MEMORY_HOST || args[i].memory == NRD_MEMORY_HOST_TENSOR;
    if (!isDecided && isPageable(args[i])) {
      asked.push_back({uint16_t(i), Answer::Pageable});
      isDecided = true;
    } else if (asks && !isOfHost) {
      asked.push_back({uint16_t(i), Answer::NotDevice});
    }
  }
  return isDecided || cuda::deviceCount() == 0;
}

bool LaunchPattern::isAsAsked(llvm::ArrayRef<nrd_arg> args) const {
  for (auto [index, answer] : asked) {
    const nrd_arg &arg = args[index];
    if (answer == Answer::Pageable
            ? !isPageable(arg)
            : (cuda::memoryKindOf(arg.p) == cuda::MemoryKind::Device) != (answer == Answer::Device))
      return false;
  }
  return true;
}

std::unique_ptr<const LaunchPattern>
LaunchPattern::of(nrd_kernel &kernel, llvm::ArrayRef<RuleKind> kinds, llvm::ArrayRef<nrd_arg> args,
                  const Options *options, const nrd_launch &launch, const ReadyKernel *ready) {
  if (kernel.checked || !kernel.entry || kernel.params.size() != args.size() ||
      kinds.size() != args.size())
    return nullptr;
  auto pattern = std::make_unique<LaunchPattern>();
  pattern->kernel = &kernel;
  pattern->ready = ready;
  pattern->settings = &Settings::current();
  pattern->options = options ? options->id() : 0;
  pattern->preferred = preferredCode();
  pattern->checked = launch.checked;
  for (size_t i = 0; i < args.size(); ++i) {
    const ParamSlot &slot = kernel.params[i];
    if (slot.descriptorRank || (slot.written && args[i].read_only) ||
        !pattern->expect(kinds[i], args[i], slot.passed, slot.kind))
      return nullptr;
  }
  return pattern->fixTarget(args, options) ? std::move(pattern) : nullptr;
}

bool LaunchPattern::matchesRest(const Expected &each, const nrd_arg &arg, uint64_t &slot,
                                const Constant *&constant) {
  switch (each.check) {
  case Check::Float: {
    float narrow = float(arg.f);
    slot = 0;
    std::memcpy(&slot, &narrow, sizeof narrow);
    return true;
  }
  case Check::Bool:
    slot = arg.u != 0;
    return true;
  case Check::Bits:
    return arg.u == constant++->bits;
  case Check::Constant:
    return arg.v && arg.v->key == constant++->key;
  default:
    return true;
  }
}
