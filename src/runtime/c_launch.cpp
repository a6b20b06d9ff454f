// The C ABI: the dispatcher and launches.
#include "runtime/c_api.h"
#include "runtime/compile.h"
#include "runtime/function.h"
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

nrd_error *nrd_dispatch(nrd_function *function, const nrd_arg *arguments, size_t count,
                        const nrd_options *options, const nrd_launch *launch, nrd_kernel **out) {
  FunctionRecord &record = *function->record;
  llvm::ArrayRef<nrd_arg> args(arguments, count);
  llvm::SmallVector<nrd_arg, 0> storage;
  llvm::ArrayRef<nrd_arg> leaves = flatten(args, storage);
  const Settings &settings = Settings::current();

  TargetName target;
  int device;
  if (ErrorPtr error = chooseTarget(options ? &options->values : nullptr, leaves, launch, target,
                                    device)) [[unlikely]]
    return wrap(std::move(error));

  bool checked = options && options->values.checkedSet ? options->values.checked : settings.checked;
  if (launch && launch->checked)
    checked = launch->checked == 2;
  if (checked && target.backend != Backend::Cpu) [[unlikely]]
    return wrap(
        makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::CheckedOnGpu, target.backendText()));
  bool debug = options && options->values.debugSet ? options->values.debug : settings.debug;
  bool strict = options && options->values.strictSet ? options->values.strict : settings.strict;

  KeyBuffer key;
  struct {
    uint64_t options;
    uint16_t target;
    uint8_t flags;
  } head = {
      (options ? options->values.id(target.backend) : 0) + settings.codeIdentity, target.code(),
      uint8_t((checked ? FlagChecked : 0) | (debug ? FlagDebug : 0) | (strict ? FlagStrict : 0))};
  key.resize(sizeof head.options + sizeof head.target + sizeof head.flags);
  std::memcpy(key.data(), &head.options, sizeof head.options);
  std::memcpy(key.data() + 8, &head.target, sizeof head.target);
  key[10] = head.flags;
  if (ErrorPtr error = appendKey(key, record.rules, args, record.name)) [[unlikely]]
    return wrap(std::move(error));

  uint64_t hash = Dispatcher::hash(key);
  nrd_kernel *kernel = record.dispatcher.find(key, hash);
  if (!kernel) [[unlikely]] {
    // The environment may have changed since it was read.
    if (&Settings::refresh() != &settings)
      return nrd_dispatch(function, arguments, count, options, launch, out);
    auto compile = [&](std::unique_ptr<nrd_kernel> &compiled) {
      CompileRequest request;
      request.function = &record;
      request.specs = specialise(record.rules, args);
      request.options = (options ? options->values : Options()).resolved();
      request.options.checked = checked;
      request.target = target;
      request.load = launch || canLaunch(request);
      request.options.numThreads = request.options.numCpuThreads = 0; // each launch says
      keepOwners(leaves, request);
      return compileKernel(std::move(request), compiled);
    };
    if (ErrorPtr error = record.dispatcher.findOrCompile(key, hash, compile, kernel))
      return wrap(std::move(error));
  }
  if (out)
    *out = kernel;
  if (!launch)
    return nullptr;
  nrd_launch how = *launch;
  if (device >= 0)
    how.device = uint8_t(device + 1);
  if (!how.num_threads && options)
    how.num_threads = options->values.threads();
  return wrap(deviceOf(target.backend).launch(*kernel, leaves, how));
}

nrd_error *nrd_kernel_launch(nrd_kernel *kernel, const nrd_arg *arguments, size_t argumentCount,
                             const nrd_launch *launch) {
  if (!kernel->entry && kernel->request.target.backend == Backend::Cpu)
    return wrap(makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::NotForThisMachine,
                          std::string_view(kernel->name),
                          std::string_view(kernel->request.options.features)));
  const Device &device = deviceOf(kernel->request.target.backend);
  llvm::SmallVector<nrd_arg, 0> storage;
  llvm::ArrayRef<nrd_arg> args = flatten({arguments, argumentCount}, storage);
  if (args.size() == kernel->params.size() || args.size() != kernel->passedCount)
    return wrap(device.launch(*kernel, args, *launch));
  // Without the constants.
  llvm::SmallVector<nrd_arg, 32> all;
  for (const ParamSlot &slot : kernel->params)
    all.push_back(slot.passed ? args.consume_front() : nrd_arg{});
  return wrap(device.launch(*kernel, all, *launch));
}

nrd_error *nrd_kernel_get_properties(nrd_kernel *kernel, int device, nrd_kernel_properties *out) {
  return wrap(deviceOf(kernel->request.target.backend).properties(*kernel, device, *out));
}
