// The router: operators of this package in PyTorch's dispatcher, one functor for each overload. A
// call that the package does not serve goes to the kernel that was there before, which was saved
// when nothing of the package was registered, so that a functor never reaches itself.
#include "fork.h"
#include "pointwise.h"
#include "replay.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>

#include <dlfcn.h>

#include <deque>
#include <mutex>

namespace nereid::ops {
namespace {

/// How often calls went which way, by OpsReason.
struct Counts {
  void add(uint8_t reason) { numbers[reason].fetch_add(1, std::memory_order_relaxed); }
  std::atomic<uint64_t> numbers[OPS_REASON_COUNT] = {};
};

/// One overload at one key. It lives as long as the process: a call may still run in its functor
/// when another thread takes it out of the dispatcher.
struct Entry {
  Entry(const c10::OperatorHandle &handle, c10::DispatchKey key)
      : handle(handle), key(key), native(handle.getComputedKernelForDispatchKey(key)) {}

  c10::OperatorHandle handle;
  c10::DispatchKey key;
  c10::SafeKernelFunction native;
  Counts counts;
  c10::KernelFunction functor; ///< owns one of the next two
  Pointwise *pointwise = nullptr;
  Replay *replay = nullptr;
  std::shared_ptr<const c10::SafeKernelFunction>
      python; ///< of one that records, while it is entered
  std::optional<c10::RegistrationHandleRAII> registration;
};

ForkMutex<std::mutex> mutex;
std::deque<Entry> entries;

class PointwiseFunctor : public c10::OperatorKernel {
public:
  PointwiseFunctor(Entry &entry, const OpsOverload &overload) : entry(entry), operation(overload) {
    entry.pointwise = &operation;
  }

  void operator()(const c10::OperatorHandle &handle, c10::DispatchKeySet keys,
                  torch::jit::Stack *stack) {
    OpsReason reason = operation.call(*stack);
    entry.counts.add(reason);
    if (reason != OPS_OURS)
      entry.native.callBoxed(handle, keys, stack);
  }

private:
  Entry &entry;
  Pointwise operation;
};

/// The call that this thread runs in Python and that may be recorded.
struct Pending {
  const Entry *entry = nullptr;
  Replay *replay = nullptr;
  const Signature *signature = nullptr;
};
thread_local Pending pending;

class RecordedFunctor : public c10::OperatorKernel {
public:
  explicit RecordedFunctor(Entry &entry)
      : entry(entry), replay(entry.handle.schema(), entry.key == c10::DispatchKey::CUDA,
                             entry.handle.hasTag(at::Tag::nondeterministic_seeded)) {
    entry.replay = &replay;
  }

  void operator()(const c10::OperatorHandle &handle, c10::DispatchKeySet keys,
                  torch::jit::Stack *stack) {
    const c10::IValue *arguments =
        stack->data() + stack->size() - handle.schema().arguments().size();
    Signature signature;
    bool isSigned = replay.sign(arguments, signature);
    std::shared_ptr<const Recorded> recorded = isSigned ? replay.find(signature) : nullptr;
    if (recorded && recorded->route == OPS_ROUTE_RECORDED &&
        replay.run(*recorded, signature, *stack)) {
      entry.counts.add(OPS_OURS);
      return;
    }
    bool isNative = recorded ? recorded->route == OPS_ROUTE_NATIVE : signature.isNumberOnDevice;
    if (!isNative && isSigned && !pending.entry && replay.isUnsteady(signature, arguments)) {
      entry.counts.add(OPS_UNSTEADY);
      entry.native.callBoxed(handle, keys, stack);
      return;
    }
    std::shared_ptr<const c10::SafeKernelFunction> python;
    if (!isNative) {
      std::lock_guard lock(mutex);
      python = entry.python;
    }
    if (!python) { // or it was taken out just now
      entry.counts.add(recorded ? recorded->reason : OPS_NUMBER);
      entry.native.callBoxed(handle, keys, stack);
      return;
    }
    // Python's kernel counts for itself. Calls that it makes have their own turn.
    struct Turn {
      Pending before = pending;
      ~Turn() { pending = before; }
    } turn;
    pending = isSigned && !recorded ? Pending{&entry, &replay, &signature} : Pending{};
    python->callBoxed(handle, keys, stack);
  }

private:
  Entry &entry;
  Replay replay;
};

/// PyTorch warns of kernels that take the place of others.
class Silent : public c10::WarningHandler {
  void process(const c10::Warning &) override {}
};

void tell(char *error, uint64_t size, const char *text) {
  if (size) {
    std::strncpy(error, text, size - 1);
    error[size - 1] = 0;
  }
}

c10::DispatchKey keyOf(bool isCuda) {
  TORCH_CHECK(!isCuda || library.currentStream, "this PyTorch has no CUDA");
  return isCuda ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
}

Entry &entryOf(int64_t number) {
  std::lock_guard lock(mutex);
  return entries.at(size_t(number));
}

} // namespace
} // namespace nereid::ops

using namespace nereid::ops;

extern "C" const char *ops_start(uint32_t version, const char *path, OpsPrepare prepare) {
  if (version != NEREID_OPS_INTERFACE)
    return "the router was built from another state of the package";
  void *handle = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (!handle)
    return "libnereid is not loaded";
  library.launch = reinterpret_cast<decltype(library.launch)>(dlsym(handle, "nrd_kernel_launch"));
  library.message = reinterpret_cast<decltype(library.message)>(dlsym(handle, "nrd_error_message"));
  library.free = reinterpret_cast<decltype(library.free)>(dlsym(handle, "nrd_error_free"));
  library.prepare = prepare;
  if (void *cuda = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD))
    library.currentStream = reinterpret_cast<decltype(library.currentStream)>(
        dlsym(cuda, "aoti_torch_get_current_cuda_stream"));
  return library.launch && library.message && library.free ? nullptr : "libnereid lacks a function";
}

extern "C" int64_t ops_save(const char *name, const char *overload, uint8_t isCuda, char *error,
                            uint64_t size) try {
  c10::DispatchKey key = keyOf(isCuda);
  c10::OperatorHandle handle = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  std::lock_guard lock(mutex);
  entries.emplace_back(handle, key);
  return int64_t(entries.size()) - 1;
} catch (const std::exception &exception) {
  tell(error, size, exception.what());
  return -1;
}

extern "C" int32_t ops_make(int64_t number, const OpsOverload *overload, char *error,
                            uint64_t size) try {
  Entry &entry = entryOf(number);
  if (!overload) {
    entry.functor =
        c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<RecordedFunctor>(entry));
  } else {
    TORCH_CHECK(entry.handle.schema().arguments().size() == overload->argument_count,
                "the overload has another number of arguments");
    entry.functor = c10::KernelFunction::makeFromBoxedFunctor(
        std::make_unique<PointwiseFunctor>(entry, *overload));
  }
  return 0;
} catch (const std::exception &exception) {
  tell(error, size, exception.what());
  return -1;
}

extern "C" int32_t ops_enter(int64_t number, char *error, uint64_t size) try {
  Entry &entry = entryOf(number);
  if (entry.replay) {
    auto python = std::make_shared<const c10::SafeKernelFunction>(
        entry.handle.getComputedKernelForDispatchKey(entry.key));
    std::lock_guard lock(mutex);
    entry.python.swap(python); // the former one goes, in Python, without the lock
  }
  Silent silent;
  c10::WarningUtils::WarningHandlerGuard guard(&silent);
  entry.registration.emplace(c10::Dispatcher::singleton().registerImpl(
      entry.handle.operator_name(), entry.key, entry.functor, std::nullopt, nullptr, "nereid.ops"));
  return 0;
} catch (const std::exception &exception) {
  tell(error, size, exception.what());
  return -1;
}

extern "C" void ops_leave(int64_t number) {
  Entry &entry = entryOf(number);
  Silent silent;
  c10::WarningUtils::WarningHandlerGuard guard(&silent);
  entry.registration.reset();
  std::shared_ptr<const c10::SafeKernelFunction> python; // goes without the lock
  std::lock_guard lock(mutex);
  entry.python.swap(python);
}

extern "C" int32_t ops_wants_record(int64_t number) {
  return pending.entry && pending.entry == &entryOf(number);
}

extern "C" void ops_record(int64_t number, const OpsRecord *record) {
  if (ops_wants_record(number))
    pending.replay->add(*pending.signature, *record);
}

extern "C" void ops_route(int64_t number, const uint64_t *sizes, int32_t routed) {
  Entry &entry = entryOf(number);
  if (entry.pointwise)
    entry.pointwise->route(sizes);
  else
    entry.replay->route(routed);
}

extern "C" void ops_counts(int64_t number, uint64_t *counts, int32_t clear) {
  Entry &entry = entryOf(number);
  for (int i = 0; i < OPS_REASON_COUNT; ++i)
    counts[i] = clear ? entry.counts.numbers[i].exchange(0) : entry.counts.numbers[i].load();
}
