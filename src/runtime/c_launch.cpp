// The C ABI: the dispatcher and launches.
#include "runtime/c_api.h"
#include "runtime/compile.h"
#include "runtime/devices/arguments.h"
#include "runtime/devices/cuda.h"
#include "runtime/fork.h"
#include "runtime/function.h"
#include "runtime/settings_problem.h"
#include "runtime/target_choice.h"
#include "support/settings.h"

#include <cstring>

using namespace nereid;
using namespace nereid::runtime;

namespace {

enum Flag : uint8_t { FlagChecked = 1, FlagDebug = 2, FlagStrict = 4 };

/// Constants stay alive as long as a compilation (and a later one for more stages) may need them.
/// `args`: without tuples.
void keepOwners(llvm::ArrayRef<nrd_arg> args, CompileRequest &request) {
  for (const nrd_arg &arg : args)
    if (arg.kind == NRD_ARG_VALUE && arg.v)
      request.owners.insert(request.owners.end(), arg.v->owners.begin(), arg.v->owners.end());
}

} // namespace

namespace {

/// A launch, or a compilation without one: which kernel it needs.
struct Wanted {
  FunctionRecord &record;
  llvm::ArrayRef<nrd_arg> args;
  const nrd_options *options;
  const nrd_launch *launch;

  llvm::SmallVector<nrd_arg, 0> storage = {};
  llvm::ArrayRef<nrd_arg> leaves = {}; ///< `args` without tuples
  TargetName target = {};
  int device = -1;
  bool checked = false;
  KeyBuffer key = {};
  uint64_t hash = 0;

  ErrorPtr makeKey();
  ErrorPtr compile(nrd_kernel *&kernel);
};

ErrorPtr Wanted::makeKey() {
  struct {
    uint64_t options;
    uint16_t target;
    uint8_t flags;
  } head;
  constexpr size_t headSize = sizeof head.options + sizeof head.target + sizeof head.flags;
  key.resize_for_overwrite(headSize);
  bool usual;
  if (ErrorPtr error = appendKey(key, record.rules, record.kinds, args, record.name, usual))
      [[unlikely]]
    return error;
  leaves = usual ? args : flatten(args, storage);
  if (ErrorPtr error = settingsProblem()) [[unlikely]]
    return error;
  const Settings &settings = Settings::current();
  if (ErrorPtr error = chooseTarget(options ? &options->values : nullptr, leaves, launch, target,
                                    device)) [[unlikely]]
    return error;
  checked = options && options->values.checkedSet ? options->values.checked : settings.checked;
  if (launch && launch->checked)
    checked = launch->checked == 2;
  if (checked && target.backend != Backend::Cpu) [[unlikely]]
    return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::CheckedOnGpu, target.backendText());
  bool debug = options && options->values.debugSet ? options->values.debug : settings.debug;
  bool strict = options && options->values.strictSet ? options->values.strict : settings.strict;

  head = {
      (options ? options->values.id(target.backend) : 0) + settings.codeIdentity, target.code(),
      uint8_t((checked ? FlagChecked : 0) | (debug ? FlagDebug : 0) | (strict ? FlagStrict : 0))};
  std::memcpy(key.data(), &head.options, sizeof head.options);
  std::memcpy(key.data() + 8, &head.target, sizeof head.target);
  key[10] = head.flags;
  hash = Dispatcher::hash(key);
  return nullptr;
}

ErrorPtr Wanted::compile(nrd_kernel *&kernel) {
  auto make = [&](std::unique_ptr<nrd_kernel> &compiled) {
    CompileRequest request;
    request.function = &record;
    request.specs = specialise(record.rules, args);
    request.options = (options ? options->values : Options()).resolved();
    request.options.checked = checked;
    request.target = target;
    request.load = launch || canLaunch(request);
    request.options.numThreads = request.options.numCpuThreads = 0; // each launch says
    keepOwners(leaves, request);
    try { // otherwise threads that wait for this compilation would never wake
      return compileKernel(std::move(request), compiled);
    } catch (const abi::__forced_unwind &) { // the thread ends, and with it the process
      throw;
    } catch (...) {
      return taken(caught("nrd_dispatch"));
    }
  };
  return record.dispatcher.findOrCompile(key, hash, make, kernel);
}

} // namespace

namespace {

/// The launch as the device gets it.
nrd_launch withOptions(const nrd_launch &launch, const nrd_options *options) {
  nrd_launch how = launch;
  if (!how.num_threads && options)
    how.num_threads = options->values.threads();
  return how;
}

/// Launches when this is a launch like the last one of the function.
inline bool launchAgain(const LaunchPattern &pattern, llvm::ArrayRef<nrd_arg> args,
                        const nrd_options *options, const nrd_launch &launch, nrd_kernel **out,
                        ErrorPtr &error) {
  Slots slots;
  if (!pattern.matches(args, options ? &options->values : nullptr, launch, slots)) [[unlikely]]
    return false;
  nrd_kernel &kernel = *pattern.kernel;
  if (out)
    *out = &kernel;
  if (!pattern.ready)
    return cpuDevice().launchPacked(kernel, args, slots, nullptr, withOptions(launch, options),
                                    error);
  const cuda::Ready &ready = cuda::readyOf(*pattern.ready);
  if (!cuda::isReadyFor(ready, launch)) [[unlikely]]
    return false;
  error = cuda::startReady(kernel, ready, launch, slots);
  return true;
}

/// Tells the dispatcher of a launch that went well and that it did not know.
void rememberLaunch(const Wanted &wanted, nrd_kernel &kernel, uint64_t generation) {
  if (wanted.leaves.data() != wanted.args.data()) // there are tuples
    return;
  const Options *options = wanted.options ? &wanted.options->values : nullptr;
  const nrd_launch &launch = *wanted.launch;
  auto matches = [&](const LaunchPattern &pattern) {
    Slots slots;
    return pattern.matches(wanted.args, options, launch, slots);
  };
  auto make = [&] {
    bool isCpu = wanted.target.backend == Backend::Cpu;
    return LaunchPattern::of(kernel, wanted.record.kinds, wanted.args, options, launch,
                             isCpu ? nullptr : kernel.ready.load(std::memory_order_acquire));
  };
  wanted.record.dispatcher.missed(&kernel, generation, matches, make);
}

} // namespace

/// Out of line: what launches like the last one do not need should not be near.
[[gnu::noinline]] static nrd_error *lookUp(nrd_function *function, const nrd_arg *args,
                                           size_t count, const nrd_options *options,
                                           const nrd_launch *launch, nrd_kernel **out) {
  const FunctionRecord &record = *function->record;
  uint64_t generation = record.dispatcher.generation();
  Wanted wanted{*function->record, {args, count}, options, launch};
  if (ErrorPtr error = wanted.makeKey()) [[unlikely]]
    return wrap(std::move(error));
  nrd_kernel *kernel = wanted.record.dispatcher.find(wanted.key, wanted.hash);
  if (!kernel) [[unlikely]] {
    Working working;
    // The environment may have changed since it was read.
    const Settings *settings = &Settings::current();
    if (&Settings::refresh() != settings)
      return nrd_dispatch(function, args, count, options, launch, out);
    if (ErrorPtr error = wanted.compile(kernel))
      return wrap(std::move(error));
  }
  if (out)
    *out = kernel;
  if (!launch)
    return nullptr;
  nrd_launch how = withOptions(*launch, options);
  if (wanted.device >= 0)
    how.device = uint8_t(wanted.device + 1);
  if (ErrorPtr error = deviceOf(wanted.target.backend).launch(*kernel, wanted.leaves, how))
    return wrap(std::move(error));
  rememberLaunch(wanted, *kernel, generation);
  return nullptr;
}

nrd_error *nrd_dispatch(nrd_function *function, const nrd_arg *args, size_t count,
                        const nrd_options *options, const nrd_launch *launch,
                        nrd_kernel **out) try {
  NRD_NEEDS(function);
  NRD_NEEDS_ARRAY(args, count);
  const LaunchPattern *pattern = launch ? function->record->dispatcher.latest() : nullptr;
  if (ErrorPtr error; pattern && launchAgain(*pattern, {args, count}, options, *launch, out, error))
      [[likely]]
    return error ? wrap(std::move(error)) : nullptr;
  return lookUp(function, args, count, options, launch, out);
}
NRD_CATCH_ERROR

nrd_error *nrd_find(nrd_function *function, const nrd_arg *args, size_t count,
                    const nrd_options *options, const nrd_launch *launch, nrd_kernel **out) try {
  NRD_NEEDS(function);
  NRD_NEEDS_ARRAY(args, count);
  NRD_NEEDS(out);
  Wanted wanted{*function->record, {args, count}, options, launch};
  if (ErrorPtr error = wanted.makeKey())
    return wrap(std::move(error));
  *out = wanted.record.dispatcher.find(wanted.key, wanted.hash);
  return nullptr;
}
NRD_CATCH_ERROR

/// Packs the usual arguments of a kernel, with or without its constants, the items of tuples one by
/// one; false, for what needs more thought. `here`: the memory that pointers may be known to lie
/// in.
static inline bool packPlainly(const nrd_kernel &kernel, llvm::ArrayRef<nrd_arg> args,
                               uint32_t here, Slots &slots) {
  size_t known = kernel.packing.size();
  bool isAll = args.size() == known;
  if (!known || (!isAll && args.size() != kernel.passedCount)) [[unlikely]]
    return false;
  slots.resize_for_overwrite(args.size());
  uint64_t *end = slots.data();
  const nrd_arg *arg = args.data();
  for (const Packing &packing : kernel.packing) {
    bool isPassed = packing.kind > Packing::Constant;
    if (!isPassed && !isAll)
      continue;
    if (!packUsual(*arg, packing, *end, 0, here))
      return false;
    end += isPassed;
    ++arg;
  }
  slots.truncate(size_t(end - slots.data()));
  return true;
}

static ErrorPtr launchWithThought(nrd_kernel *kernel, llvm::ArrayRef<nrd_arg> args,
                                  const nrd_launch &launch) {
  if (kernel->request.options.gradientFacts)
    return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::BadOptionValue, "gradient_facts",
                     "False for a launch", "True");
  if (!kernel->entry && kernel->request.target.backend == Backend::Cpu)
    return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::NotForThisMachine,
                     std::string_view(kernel->name),
                     std::string_view(kernel->request.options.features));
  if (launch.checked == 2 && !kernel->checked)
    if (ErrorPtr error = kernel->withChecks(kernel))
      return error;
  const Device &device = deviceOf(kernel->request.target.backend);
  llvm::SmallVector<nrd_arg, 0> storage;
  if (kernel->takesTuples) {
    if (ErrorPtr error = checkTuples(args, kernel->name))
      return error;
    args = flatten(args, storage);
  }
  if (args.size() == kernel->params.size() || args.size() != kernel->passedCount)
    return device.launch(*kernel, args, launch);
  // With the constants.
  llvm::SmallVector<nrd_arg, 32> all;
  for (size_t i = 0; i < kernel->params.size(); ++i) {
    if (kernel->params[i].passed)
      all.push_back(args.consume_front());
    else
      all.push_back(constantArgument(i < kernel->packing.size() ? kernel->packing[i] : Packing()));
  }
  return device.launch(*kernel, all, launch);
}

nrd_error *nrd_kernel_launch(nrd_kernel *kernel, const nrd_arg *args, size_t count,
                             const nrd_launch *launch) try {
  NRD_NEEDS(kernel);
  NRD_NEEDS_ARRAY(args, count);
  NRD_NEEDS(launch);
  // On the CPU, or on a GPU where the kernel was launched before, with usual arguments: no more
  // than it takes.
  if (const ReadyKernel *ready = kernel->ready.load(std::memory_order_acquire)) {
    Slots slots;
    if (launch->checked != 2 &&
        packPlainly(*kernel, {args, count}, memoryOf(ready->number), slots) &&
        cuda::isReadyFor(cuda::readyOf(*ready), *launch)) [[likely]] {
      ErrorPtr error = cuda::startReady(*kernel, cuda::readyOf(*ready), *launch, slots);
      return error ? wrap(std::move(error)) : nullptr;
    }
  } else if (kernel->entry && !kernel->checked && launch->checked != 2 &&
             kernel->request.target.backend == Backend::Cpu) {
    Slots slots;
    ErrorPtr error;
    if (packPlainly(*kernel, {args, count}, /*here=*/0, slots) &&
        cpuDevice().launchPacked(*kernel, {args, count}, slots, nullptr, *launch, error)) [[likely]]
      return error ? wrap(std::move(error)) : nullptr;
  }
  return wrap(launchWithThought(kernel, {args, count}, *launch));
}
NRD_CATCH_ERROR

nrd_error *nrd_kernel_get_properties(nrd_kernel *kernel, int device,
                                     nrd_kernel_properties *out) try {
  NRD_NEEDS(kernel);
  NRD_NEEDS(out);
  Working working;
  return wrap(deviceOf(kernel->request.target.backend).properties(*kernel, device, *out));
}
NRD_CATCH_ERROR
