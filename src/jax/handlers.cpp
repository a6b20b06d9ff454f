// The handlers of XLA's foreign function interface that launch kernels: one for the CPU, one for
// CUDA. A custom call names an entry of the table of calls by its id, a hash of its contents, so
// that a compiled program which JAX takes from its cache on disk finds the same call in another
// process once that has traced it. No Python runs here, and no lock is taken but one for reading.
//
// The library is compiled against the headers that jaxlib ships, and libnereid is found at run
// time: it depends on neither at load time.
#include "interface.h"

#include "nereid/nereid.h"

#include "xla/ffi/api/ffi.h"

#include <dlfcn.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace ffi = xla::ffi;

namespace {

/// What is used of libnereid.
struct Library {
  decltype(&nrd_kernel_launch) launch;
  decltype(&nrd_error_message) message;
  decltype(&nrd_error_get_kind) kind;
  decltype(&nrd_error_free) free;
} library;

/// A `JaxCall` with memory of its own.
struct Call {
  explicit Call(const JaxCall &from)
      : name(from.name), kernel(static_cast<nrd_kernel *>(from.kernel)), operands(from.operands),
        results(from.results), arguments(from.argument, from.argument + from.arguments) {
    launch.num_threads = from.threads;
    std::memcpy(launch.grid, from.grid, sizeof launch.grid);
    for (JaxArgument &argument : arguments) {
      names.emplace_back(argument.name);
      argument.name = nullptr;
    }
  }

  std::string name;
  nrd_kernel *kernel;
  nrd_launch launch = {};
  uint32_t operands, results;
  std::vector<JaxArgument> arguments;
  std::vector<std::string> names; ///< of `arguments`
};

std::shared_mutex mutex;
/// Entries are never removed: a compiled program may ask for them at any time.
std::unordered_map<uint64_t, std::unique_ptr<const Call>> calls;

const Call *find(uint64_t id) {
  std::shared_lock lock(mutex);
  auto found = calls.find(uint64_t(id));
  return found == calls.end() ? nullptr : found->second.get();
}

ffi::Error invalid(std::string text) {
  return ffi::Error(ffi::ErrorCode::kInvalidArgument, std::move(text));
}

/// An error of libnereid, which is freed.
ffi::Error toError(nrd_error *error) {
  auto code = ffi::ErrorCode::kInternal;
  switch (library.kind(error)) {
  case NRD_ERROR_ARGUMENT:
    code = ffi::ErrorCode::kInvalidArgument;
    break;
  case NRD_ERROR_RUNTIME: // an assertion of the kernel, an access in checked mode
    code = ffi::ErrorCode::kAborted;
    break;
  case NRD_ERROR_RESOURCES:
    code = ffi::ErrorCode::kResourceExhausted;
    break;
  default:
    break;
  }
  ffi::Error result(code, library.message(error));
  library.free(error);
  return result;
}

/// Fills an argument that points to a buffer; false where the kernel expects another alignment.
bool pointTo(const ffi::AnyBuffer &buffer, const JaxArgument &argument, uint8_t memory,
             nrd_arg &out) {
  out.kind = NRD_ARG_POINTER;
  out.dtype = argument.dtype;
  out.memory = memory;
  out.p = buffer.untyped_data();
  // An array without elements may lie at 0; checked mode takes a null for an unknown reach.
  out.low = out.p ? out.p : reinterpret_cast<void *>(16);
  out.high = static_cast<const char *>(out.low) + buffer.size_bytes();
  return !argument.aligned || reinterpret_cast<uintptr_t>(out.p) % 16 == 0;
}

/// `how`: the launch without what the call says about it. `memory`: an nrd_memory of all buffers.
ffi::Error run(int64_t id, std::string_view kernel, const ffi::RemainingArgs &operands,
               const ffi::RemainingRets &results, nrd_launch how, uint8_t memory) {
  const Call *call = find(uint64_t(id));
  if (!call)
    return ffi::Error(ffi::ErrorCode::kNotFound,
                      "nereid.jax: the kernel `" + std::string(kernel) +
                          "` is not loaded in this process: trace the function that calls it here; "
                          "exported programs do not carry kernels");
  if (operands.size() != call->operands || results.size() != call->results)
    return invalid("nereid.jax: `" + call->name + "` has " + std::to_string(call->operands) +
                   " operands and " + std::to_string(call->results) + " results, found " +
                   std::to_string(operands.size()) + " and " + std::to_string(results.size()));
  constexpr size_t few = 32;
  nrd_arg storage[few];
  std::unique_ptr<nrd_arg[]> more;
  size_t count = call->arguments.size();
  nrd_arg *args = storage;
  if (count > few) {
    more = std::make_unique<nrd_arg[]>(count);
    args = more.get();
  }
  for (size_t i = 0; i < count; ++i) {
    const JaxArgument &argument = call->arguments[i];
    nrd_arg &arg = args[i];
    arg = {};
    bool isAligned = true;
    if (argument.source == JAX_NUMBER) {
      arg.kind = argument.kind;
      arg.u = argument.bits;
    } else if (argument.source == JAX_OPERAND) {
      auto buffer = operands.get<ffi::AnyBuffer>(argument.index);
      if (!buffer)
        return buffer.error();
      isAligned = pointTo(*buffer, argument, memory, arg);
    } else {
      auto buffer = results.get<ffi::AnyBuffer>(argument.index);
      if (!buffer)
        return buffer.error();
      isAligned = pointTo(**buffer, argument, memory, arg);
    }
    if (!isAligned)
      return invalid("nereid.jax: XLA placed `" + call->names[i] + "` of `" + call->name +
                     "` at an address that is no multiple of 16, for which it was compiled: name "
                     "the parameter in `do_not_specialize_on_alignment` of its `@jit`");
  }
  std::memcpy(how.grid, call->launch.grid, sizeof how.grid);
  how.num_threads = call->launch.num_threads;
  if (nrd_error *error = library.launch(call->kernel, args, count, &how))
    return toError(error);
  return ffi::Error::Success();
}

ffi::Error runOnCpu(int64_t id, std::string_view kernel, ffi::RemainingArgs operands,
                    ffi::RemainingRets results) {
  return run(id, kernel, operands, results, {}, NRD_MEMORY_HOST);
}

ffi::Error runOnCuda(void *stream, int32_t device, int64_t id, std::string_view kernel,
                     ffi::RemainingArgs operands, ffi::RemainingRets results) {
  nrd_launch how = {};
  how.with_stream = 1;
  how.stream = stream;
  how.device = uint8_t(device + 1);
  return run(id, kernel, operands, results, how, uint8_t(NRD_MEMORY_CUDA + device));
}

} // namespace

#pragma GCC visibility push(default)

XLA_FFI_DEFINE_HANDLER_SYMBOL(nereid_jax_cpu, runOnCpu,
                              ffi::Ffi::Bind()
                                  .Attr<int64_t>("id")
                                  .Attr<std::string_view>("kernel")
                                  .RemainingArgs()
                                  .RemainingRets());

// The launch only puts work into the stream, so that XLA may record it into a graph.
XLA_FFI_DEFINE_HANDLER_SYMBOL(nereid_jax_cuda, runOnCuda,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<void *>>()
                                  .Ctx<ffi::DeviceOrdinal>()
                                  .Attr<int64_t>("id")
                                  .Attr<std::string_view>("kernel")
                                  .RemainingArgs()
                                  .RemainingRets(),
                              {ffi::Traits::kCmdBufferCompatible});

extern "C" const char *nereid_jax_start(uint32_t version, const char *path) {
  if (version != NEREID_JAX_INTERFACE)
    return "the library of handlers was built from another state of the package";
  void *handle = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (!handle)
    return "libnereid is not loaded";
  auto get = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(handle, name));
    return function != nullptr;
  };
  bool found = get(library.launch, "nrd_kernel_launch") &&
               get(library.message, "nrd_error_message") &&
               get(library.kind, "nrd_error_get_kind") && get(library.free, "nrd_error_free");
  return found ? nullptr : "libnereid lacks a function";
}

extern "C" const char *nereid_jax_add(const JaxCall *call) try {
  auto made = std::make_unique<const Call>(*call);
  std::unique_lock lock(mutex);
  auto &entry = calls[call->id];
  // A program that runs may hold the former entry: calls of one id are the same.
  if (!entry)
    entry = std::move(made);
  return nullptr;
} catch (const std::exception &) {
  return "out of memory";
}

#pragma GCC visibility pop
