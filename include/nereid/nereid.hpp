// Nereid from C++: a header over the C ABI (nereid.h), for C++20.
//
//   nereid::Module module = nereid::Module::load("kernels.py");
//   nereid::Function add = module.function("add_kernel");
//   add({(n + 1023) / 1024}, x, y, out, n, 1024);                 // specialises, compiles once,
//   launches
//
//   nereid::Kernel kernel = add.compile({"*fp32:16", "*fp32:16", "*fp32:16", "i32", "1024"});
//   kernel.launch({blocks}, x, y, out, n);                        // one compiled kernel, no
//   look-up
//
// Kernels run on the CPU, or on an NVIDIA GPU when the pointers are device memory (or
// Options().set("target", "cuda") says so): add(Launch({blocks}).withStream(stream), x, y, out, n,
// 1024) queues it on a CUstream (which is a cudaStream_t too).
//
// Arguments: pointers to arithmetic types, to nereid::half, bfloat16, float8e4m3, float8e5m2;
// std::span of those (the size is then known to checked mode); integers, bool, float, double;
// nullptr is None.
//
// Errors are exceptions of type nereid::Error. Where exceptions are switched off an error is
// printed and the program aborts; use the C ABI there. Objects are handles: cheap to move,
// thread-safe to share.
#ifndef NEREID_NEREID_HPP
#define NEREID_NEREID_HPP

#include "nereid/nereid.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace nereid {

/// Owns an object of the C ABI.
template <typename T, void (*Free)(T *)> class Handle {
public:
  Handle() = default;
  explicit Handle(T *object) : object(object) {}
  Handle(Handle &&other) noexcept : object(std::exchange(other.object, nullptr)) {}
  Handle &operator=(Handle &&other) noexcept {
    std::swap(object, other.object);
    return *this;
  }
  ~Handle() {
    if (object)
      Free(object);
  }
  T *get() const { return object; }
  /// For the `out` parameters of the C ABI; only on an empty handle.
  T **out() { return &object; }

private:
  T *object = nullptr;
};

using ModuleHandle = Handle<nrd_module, nrd_module_free>;
using FunctionHandle = Handle<nrd_function, nrd_function_free>;
using KernelHandle = Handle<nrd_kernel, nrd_kernel_free>;
using OptionsHandle = Handle<nrd_options, nrd_options_free>;
using ValueHandle = Handle<nrd_value, nrd_value_free>;
using ErrorHandle = Handle<nrd_error, nrd_error_free>;

/// What went wrong: `what()` is the whole text with the source line and a caret.
class Error : public std::exception {
public:
  explicit Error(nrd_error *error) : error(std::make_shared<ErrorHandle>(error)) {}
  const char *what() const noexcept override { return nrd_error_message(error->get()); }
  nrd_error_kind kind() const { return nrd_error_get_kind(error->get()); }
  /// The diagnostic's name in the registry: "UnknownName", "AccessOutOfBounds".
  std::string_view name() const { return nrd_error_name(error->get()); }
  /// The first message alone, without its place.
  std::string_view summary() const { return nrd_error_summary(error->get()); }

private:
  std::shared_ptr<ErrorHandle> error;
};

namespace detail {
inline void check(nrd_error *error) {
  if (!error) [[likely]]
    return;
#if defined(__cpp_exceptions)
  throw Error(error);
#else
  std::fprintf(stderr, "%s\n", nrd_error_message(error));
  std::abort();
#endif
}
} // namespace detail

/// Element types that C++ has no arithmetic for; the bits are as in memory.
struct half {
  uint16_t bits;
};
struct bfloat16 {
  uint16_t bits;
};
struct float8e4m3 {
  uint8_t bits;
};
struct float8e5m2 {
  uint8_t bits;
};

template <typename T> constexpr nrd_dtype dtypeOf() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, bool>)
    return NRD_INT1;
  else if constexpr (std::is_same_v<U, float>)
    return NRD_FP32;
  else if constexpr (std::is_same_v<U, double>)
    return NRD_FP64;
  else if constexpr (std::is_same_v<U, half>)
    return NRD_FP16;
  else if constexpr (std::is_same_v<U, bfloat16>)
    return NRD_BF16;
  else if constexpr (std::is_same_v<U, float8e4m3>)
    return NRD_FP8E4NV;
  else if constexpr (std::is_same_v<U, float8e5m2>)
    return NRD_FP8E5;
  else {
    static_assert(std::is_integral_v<U> && sizeof(U) <= 8,
                  "kernels take pointers to arithmetic types and nereid's small floats");
    constexpr int size = sizeof(U) == 1 ? 0 : sizeof(U) == 2 ? 1 : sizeof(U) == 4 ? 2 : 3;
    return nrd_dtype((std::is_signed_v<U> ? NRD_INT8 : NRD_UINT8) + size);
  }
}

/// One argument of a launch.
struct Argument : nrd_arg {
  template <typename T>
    requires std::is_arithmetic_v<T>
  Argument(T value) : nrd_arg{} {
    if constexpr (std::is_same_v<T, bool>) {
      kind = NRD_ARG_BOOL;
      i = value;
    } else if constexpr (std::is_floating_point_v<T>) {
      kind = NRD_ARG_FLOAT;
      f = double(value);
    } else if constexpr (std::is_signed_v<T>) {
      kind = NRD_ARG_INT;
      i = value;
    } else {
      kind = NRD_ARG_UINT;
      u = value;
    }
  }
  template <typename T> Argument(T *pointer) : nrd_arg{} {
    kind = NRD_ARG_POINTER;
    dtype = dtypeOf<T>();
    read_only = std::is_const_v<T>;
    p = const_cast<std::remove_cv_t<T> *>(pointer);
  }
  /// A pointer whose extent checked mode knows.
  template <typename T, size_t N> Argument(std::span<T, N> data) : Argument(data.data()) {
    low = data.data();
    high = data.data() + data.size();
  }
  template <typename T> Argument(std::vector<T> &data) : Argument(std::span<T>(data)) {}
  template <typename T> Argument(const std::vector<T> &data) : Argument(std::span<const T>(data)) {}
  Argument(std::nullptr_t) : nrd_arg{} { kind = NRD_ARG_NONE; }
  /// A compile-time value (a string, a tuple) for a constexpr parameter; borrowed.
  Argument(const ValueHandle &value) : nrd_arg{} {
    kind = NRD_ARG_VALUE;
    v = value.get();
  }
};

/// The number of programs along each axis.
struct Grid {
  uint32_t x = 1, y = 1, z = 1;
};

/// How to run.
struct Launch {
  Grid grid;
  uint32_t threads = 0; ///< 0: the setting NEREID_CPU_THREADS, or all cores
  bool checked = false; ///< check every access; Function only, a Kernel is compiled for it or not
  std::optional<void *> stream; ///< GPU: a CUstream; the default stream when not set
  std::optional<int> device;    ///< GPU: by number; that of the current context when not set
  Launch(Grid grid) : grid(grid) {}
  Launch(std::initializer_list<uint32_t> sizes) {
    uint32_t *axes[] = {&grid.x, &grid.y, &grid.z};
    size_t axis = 0;
    for (uint32_t size : sizes)
      if (axis < 3)
        *axes[axis++] = size;
  }
  Launch withThreads(uint32_t count) const {
    Launch copy = *this;
    copy.threads = count;
    return copy;
  }
  Launch withChecks() const {
    Launch copy = *this;
    copy.checked = true;
    return copy;
  }
  /// On this CUstream (or cudaStream_t) of the GPU.
  Launch withStream(void *queue) const {
    Launch copy = *this;
    copy.stream = queue;
    return copy;
  }
  Launch onDevice(int number) const {
    Launch copy = *this;
    copy.device = number;
    return copy;
  }
  nrd_launch raw() const {
    nrd_launch launch{};
    launch.grid[0] = grid.x;
    launch.grid[1] = grid.y;
    launch.grid[2] = grid.z;
    launch.num_threads = threads;
    launch.checked = checked ? 2 : 0;
    launch.with_stream = stream.has_value();
    launch.stream = stream.value_or(nullptr);
    launch.device = device ? uint8_t(*device + 1) : 0;
    return launch;
  }
};

/// Compile options by name: `Options().set("features", "avx2").set("num_warps", 8)`.
class Options {
public:
  Options() : handle(nrd_options_new()) {}
  Options &set(const char *name, bool value) { return set(name, nrd_value_bool(value)); }
  Options &set(const char *name, int value) { return set(name, nrd_value_int(value)); }
  Options &set(const char *name, const char *value) {
    return set(name, nrd_value_str(value, std::string_view(value).size()));
  }
  const nrd_options *get() const { return handle.get(); }

private:
  Options &set(const char *name, nrd_value *value) {
    ValueHandle owner(value);
    detail::check(nrd_options_set(handle.get(), name, value));
    return *this;
  }
  OptionsHandle handle;
};

/// A compiled kernel.
class Kernel {
public:
  /// Launches with the run-time arguments, constants left out (or all parameters, constants
  /// ignored).
  template <typename... Args> void launch(const Launch &how, Args &&...args) const {
    const std::array<Argument, sizeof...(Args)> list{Argument(std::forward<Args>(args))...};
    nrd_launch raw = how.raw();
    detail::check(nrd_kernel_launch(handle.get(), list.data(), list.size(), &raw));
  }
  std::string_view name() const { return nrd_kernel_name(handle.get()); }
  /// A stage's text or bytes: "tile", "loops", "llir", "asm", "obj" on the CPU, "tile", "gpu",
  /// "llir", "ptx", "cubin" on NVIDIA GPUs; empty when there is none.
  std::string_view stage(const char *stage) const {
    size_t size = 0;
    auto *data = static_cast<const char *>(nrd_kernel_stage(handle.get(), stage, &size));
    return data ? std::string_view(data, size) : std::string_view();
  }
  /// JSON: name, target, features, parameters, options, hash.
  std::string_view metadata() const { return nrd_kernel_metadata(handle.get()); }
  nrd_kernel *get() const { return handle.get(); }

private:
  friend class Function;
  KernelHandle handle;
};

/// A kernel's source: compiles to as many kernels as there are specialisations.
class Function {
public:
  std::string_view name() const { return nrd_function_name(handle.get()); }

  /// Compiles for a signature: "*fp32:16", "i32", and a literal for a constexpr parameter.
  Kernel compile(const std::vector<std::string> &signature, const Options &options = {}) const {
    std::vector<const char *> texts;
    for (const std::string &text : signature)
      texts.push_back(text.c_str());
    Kernel kernel;
    detail::check(
        nrd_compile(handle.get(), texts.data(), texts.size(), options.get(), kernel.handle.out()));
    return kernel;
  }

  /// Launches with one argument per parameter: specialises, finds or compiles the kernel, runs it.
  template <typename... Args> void launch(const Launch &how, Args &&...args) const {
    dispatch(nullptr, &how, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void launch(const Options &options, const Launch &how, Args &&...args) const {
    dispatch(options.get(), &how, std::forward<Args>(args)...);
  }
  /// Compiles without launching.
  template <typename... Args> void warmup(Args &&...args) const {
    dispatch(nullptr, nullptr, std::forward<Args>(args)...);
  }
  nrd_function *get() const { return handle.get(); }

private:
  friend class Module;
  template <typename... Args>
  void dispatch(const nrd_options *options, const Launch *how, Args &&...args) const {
    const std::array<Argument, sizeof...(Args)> list{Argument(std::forward<Args>(args))...};
    nrd_launch raw = how ? how->raw() : nrd_launch{};
    detail::check(nrd_dispatch(handle.get(), list.data(), list.size(), options,
                               how ? &raw : nullptr, nullptr));
  }
  FunctionHandle handle;
};

/// Waits for everything on a GPU; throws what failed there.
inline void synchronize(int device = 0) {
  detail::check(nrd_cuda_synchronize(device));
}

/// A file of kernels.
class Module {
public:
  static Module load(const std::string &path) {
    Module module;
    detail::check(nrd_module_load(path.c_str(), module.handle.out()));
    return module;
  }
  static Module parse(std::string_view text, const std::string &name = "<text>") {
    Module module;
    detail::check(nrd_module_parse(text.data(), text.size(), name.c_str(), 1, module.handle.out()));
    return module;
  }
  /// The function of this name; the first one without a name.
  Function function(const char *name = nullptr) const {
    Function function;
    detail::check(nrd_function_create(handle.get(), name, nullptr, nullptr, function.handle.out()));
    return function;
  }
  std::vector<std::string> functions() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < nrd_module_function_count(handle.get()); ++i)
      names.emplace_back(nrd_module_function_name(handle.get(), i));
    return names;
  }

private:
  ModuleHandle handle;
};

} // namespace nereid
#endif
