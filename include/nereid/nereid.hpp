/** @file
 * @brief The compiler, from C++20: a header over the C functions of nereid.h.
 *
 * @code
 * auto module = nereid::Module::load("kernels.py");
 *
 * // A typed kernel: the kinds of its arguments are checked when the program is compiled.
 * auto add = module.kernel<const float *, const float *, float *, int, nereid::constexpr_<1024>>(
 *     "add_kernel");
 * add({(n + 1023) / 1024}, stream, x, y, out, n); // specialises, compiles once, launches
 *
 * // A function takes anything that its Python text takes.
 * nereid::Function function = module.function("add_kernel");
 * function.launch({blocks}, x, y, out, n, 1024);
 *
 * // One compiled kernel, for a signature; constants are left out.
 * nereid::Kernel kernel = function.compile({"*fp32:16", "*fp32:16", "*fp32:16", "i32", "1024"});
 * kernel.launch({blocks}, x, y, out, n);
 * @endcode
 *
 * Kernels run on the CPU, or on an NVIDIA GPU when the pointers are device memory, the stream is
 * one of a GPU, or `Options().set("target", "cuda")` says so.
 *
 * Errors: see device.hpp. Objects are handles: cheap to move, safe to share between threads.
 */
#ifndef NEREID_NEREID_HPP
#define NEREID_NEREID_HPP

#include "nereid/device.hpp"
#include "nereid/nereid.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace nereid {

/// Owns an object of the C functions.
template <typename T, void (*Free)(T *)> class Handle {
public:
  Handle() = default;
  /// Takes over what a C function gave.
  explicit Handle(T *object) : object(object) {}
  Handle(Handle &&other) noexcept
      : object(std::exchange(other.object, nullptr)) {} ///< takes it over
  /// Takes it over.
  Handle &operator=(Handle &&other) noexcept {
    std::swap(object, other.object);
    return *this;
  }
  ~Handle() {
    if (object)
      Free(object);
  }
  /// The object, which stays this handle's.
  T *get() const { return object; }
  /// For the `out` parameters of the C functions; only on an empty handle.
  T **out() { return &object; }

private:
  T *object = nullptr;
};

using ModuleHandle = Handle<nrd_module, nrd_module_free>;       ///< owns a nrd_module
using FunctionHandle = Handle<nrd_function, nrd_function_free>; ///< owns a nrd_function
using KernelHandle = Handle<nrd_kernel, nrd_kernel_free>;       ///< owns a nrd_kernel
using OptionsHandle = Handle<nrd_options, nrd_options_free>;    ///< owns a nrd_options
using ValueHandle = Handle<nrd_value, nrd_value_free>;          ///< owns a nrd_value
using ErrorHandle = Handle<nrd_error, nrd_error_free>;          ///< owns a nrd_error

/// @cond
namespace detail {
inline Error take(nrd_error *error) {
  ErrorHandle owner(error);
  return Error(ErrorKind(nrd_error_get_kind(error)), nrd_error_name(error),
               nrd_error_message(error), nrd_error_summary(error));
}
inline Status statusOf(nrd_error *error) {
  return error ? Status(take(error)) : Status();
}
inline void check(nrd_error *error) {
  if (error) [[unlikely]]
    raise(take(error));
}
static_assert(int(ErrorKind::Compile) == NRD_ERROR_COMPILE &&
              int(ErrorKind::Argument) == NRD_ERROR_ARGUMENT &&
              int(ErrorKind::Internal) == NRD_ERROR_INTERNAL);
} // namespace detail
/// @endcond

/// The element type of a pointer, as the C functions name it.
template <typename T> constexpr nrd_dtype dtypeOf() {
  using U = detail::Canonical<T>;
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

/// A tensor as blocks of one size, for a parameter that is a tensor descriptor: made on the host.
/// Its address and all strides but the last are multiples of 16 bytes, the last stride is 1.
class TensorDescriptor {
public:
  /// Sizes, strides and block sizes from the outermost dimension on, in elements; at most 5.
  template <typename T>
  TensorDescriptor(Pointer<T> memory, std::initializer_list<int64_t> shape,
                   std::initializer_list<int64_t> strides, std::initializer_list<int64_t> block)
      : raw{}, first(const_cast<std::remove_cv_t<T> *>(memory.address)), dtype(dtypeOf<T>()),
        isConst(std::is_const_v<T>), device(memory.device) {
    raw.rank = uint8_t(shape.size());
    auto copy = [](std::initializer_list<int64_t> from, int64_t *to) {
      for (size_t i = 0; i < from.size() && i < NRD_DESCRIPTOR_MAX_RANK; ++i)
        to[i] = from.begin()[i];
    };
    copy(shape, raw.shape);
    copy(strides, raw.strides);
    copy(block, raw.block);
  }

private:
  friend struct Argument;
  nrd_descriptor raw;
  void *first;
  nrd_dtype dtype;
  bool isConst;
  std::optional<Device> device;
};

/// One argument of a launch that is not typed.
struct Argument : nrd_arg {
  /// A number.
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
  /// A pointer, with its extent and device where they are known.
  template <typename T> Argument(const Pointer<T> &pointer) : nrd_arg{} {
    kind = NRD_ARG_POINTER;
    dtype = dtypeOf<T>();
    read_only = std::is_const_v<T>;
    memory = memoryOf(pointer.device);
    p = const_cast<std::remove_cv_t<T> *>(pointer.address);
    low = pointer.low;
    high = pointer.high;
  }
  /// A raw pointer.
  template <typename T> Argument(T *pointer) : Argument(Pointer<T>(pointer)) {}
  /// A pointer whose extent checked mode knows.
  template <typename T, size_t N> Argument(std::span<T, N> data) : Argument(Pointer<T>(data)) {}
  /// Memory of the host.
  template <typename T> Argument(std::vector<T> &data) : Argument(Pointer<T>(data)) {}
  /// Memory of the host that is only read.
  template <typename T> Argument(const std::vector<T> &data) : Argument(Pointer<const T>(data)) {}
  /// Elements of a device.
  template <typename T> Argument(const View<T> &view) : Argument(Pointer<T>(view)) {}
  /// Elements of a device.
  template <typename T> Argument(Buffer<T> &buffer) : Argument(Pointer<T>(buffer)) {}
  /// Elements of a device that are only read.
  template <typename T> Argument(const Buffer<T> &buffer) : Argument(Pointer<const T>(buffer)) {}
  /// None.
  Argument(std::nullptr_t) : nrd_arg{} { kind = NRD_ARG_NONE; }
  /// A compile-time value (a string, a tuple) for a constexpr parameter; borrowed.
  Argument(const ValueHandle &value) : nrd_arg{} {
    kind = NRD_ARG_VALUE;
    v = value.get();
  }
  /// A tensor descriptor; borrowed.
  Argument(const TensorDescriptor &tensor) : nrd_arg{} {
    kind = NRD_ARG_DESCRIPTOR;
    dtype = tensor.dtype;
    read_only = tensor.isConst;
    memory = memoryOf(tensor.device);
    p = tensor.first;
    descriptor = &tensor.raw;
  }

private:
  static uint8_t memoryOf(const std::optional<Device> &device) {
    return uint8_t(!device           ? NRD_MEMORY_UNKNOWN
                   : device->isCpu() ? NRD_MEMORY_HOST
                                     : NRD_MEMORY_CUDA + device->number());
  }
};

/// @cond
namespace detail {
inline nrd_launch rawLaunch(const Launch &how) {
  nrd_launch launch{};
  launch.grid[0] = how.grid.x;
  launch.grid[1] = how.grid.y;
  launch.grid[2] = how.grid.z;
  launch.num_threads = how.threads;
  launch.checked = how.checked ? 2 : 0;
  launch.device = uint8_t(how.device + 1);
  if (how.hasNative) {
    launch.with_stream = 1;
    launch.stream = how.native;
  } else if (how.hasStream && how.on.device != NRD_DEVICE_CPU) {
    launch.with_stream = 1;
    launch.stream = how.on.handle;
    launch.device = uint8_t(how.on.device + 1);
  }
  return launch;
}
} // namespace detail
/// @endcond

/// Compile options by name: `Options().set("features", "avx2").set("num_warps", 8)`.
class Options {
public:
  Options() : handle(nrd_options_new()) {}
  /// An option that is a bool.
  Options &set(const char *name, bool value) { return set(name, nrd_value_bool(value)); }
  /// An option that is an integer.
  Options &set(const char *name, int value) { return set(name, nrd_value_int(value)); }
  /// An option that is a text.
  Options &set(const char *name, const char *value) {
    return set(name, nrd_value_str(value, std::string_view(value).size()));
  }
  /// Sets an option to a value, or says why there is no such option or value.
  Status trySet(const char *name, const ValueHandle &value) {
    return detail::statusOf(nrd_options_set(handle.get(), name, value.get()));
  }
  /// As the C functions take it.
  const nrd_options *get() const { return handle.get(); }

private:
  Options &set(const char *name, nrd_value *value) {
    trySet(name, ValueHandle(value)).value();
    return *this;
  }
  OptionsHandle handle;
};

/// A compiled kernel.
class Kernel {
public:
  /// Launches with the run-time arguments, constants left out (or all parameters, with the same
  /// constants). An error for arguments that are not what the signature says: another element type,
  /// a number that does not fit, an address or number that is no multiple of 16 (`:16`). With
  /// checks (Launch::withChecks) it is compiled once more.
  template <typename... Args> Status tryLaunch(const Launch &how, Args &&...args) const {
    const std::array<Argument, sizeof...(Args)> list{Argument(std::forward<Args>(args))...};
    nrd_launch raw = detail::rawLaunch(how);
    return detail::statusOf(nrd_kernel_launch(handle.get(), list.data(), list.size(), &raw));
  }
  /// Launches with the run-time arguments.
  template <typename... Args> void launch(const Launch &how, Args &&...args) const {
    tryLaunch(how, std::forward<Args>(args)...).value();
  }
  /// The kernel's name.
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
  /// What it needs on a GPU, where it is loaded for that; zeros on the CPU.
  Result<nrd_kernel_properties> tryProperties(Device device) const {
    nrd_kernel_properties properties{};
    if (nrd_error *error = nrd_kernel_get_properties(handle.get(), device.number(), &properties))
      return detail::take(error);
    return properties;
  }
  /// As the C functions take it.
  nrd_kernel *get() const { return handle.get(); }

private:
  friend class Function;
  KernelHandle handle;
};

/// A kernel's source: compiles to as many kernels as there are specialisations.
class Function {
public:
  /// The function's name.
  std::string_view name() const { return nrd_function_name(handle.get()); }
  /// The number of its parameters.
  size_t paramCount() const { return nrd_function_param_count(handle.get()); }
  /// The name of a parameter.
  std::string_view paramName(size_t index) const {
    return nrd_function_param_name(handle.get(), index);
  }
  /// Whether a parameter is a constexpr.
  bool paramIsConstexpr(size_t index) const {
    return nrd_function_param_is_constexpr(handle.get(), index);
  }

  /// Compiles for a signature: "*fp32:16", "i32", and a literal for a constexpr parameter.
  Result<Kernel> tryCompile(const std::vector<std::string> &signature,
                            const Options &options = {}) const {
    std::vector<const char *> texts;
    for (const std::string &text : signature)
      texts.push_back(text.c_str());
    Kernel kernel;
    if (nrd_error *error = nrd_compile(handle.get(), texts.data(), texts.size(), options.get(),
                                       kernel.handle.out()))
      return detail::take(error);
    return kernel;
  }
  /// Compiles for a signature.
  Kernel compile(const std::vector<std::string> &signature, const Options &options = {}) const {
    return tryCompile(signature, options).value();
  }

  /// Launches with one argument per parameter: specialises, finds or compiles the kernel, runs it.
  template <typename... Args> Status tryLaunch(const Launch &how, Args &&...args) const {
    return dispatch(nullptr, &how, std::forward<Args>(args)...);
  }
  /// Launches with one argument per parameter.
  template <typename... Args> void launch(const Launch &how, Args &&...args) const {
    dispatch(nullptr, &how, std::forward<Args>(args)...).value();
  }
  /// Launches a kernel that is compiled with these options.
  template <typename... Args>
  Status tryLaunch(const Options &options, const Launch &how, Args &&...args) const {
    return dispatch(options.get(), &how, std::forward<Args>(args)...);
  }
  /// Launches a kernel that is compiled with these options.
  template <typename... Args>
  void launch(const Options &options, const Launch &how, Args &&...args) const {
    dispatch(options.get(), &how, std::forward<Args>(args)...).value();
  }
  /// Compiles without launching.
  template <typename... Args> Status tryWarmup(Args &&...args) const {
    return dispatch(nullptr, nullptr, std::forward<Args>(args)...);
  }
  /// Compiles without launching.
  template <typename... Args> void warmup(Args &&...args) const {
    dispatch(nullptr, nullptr, std::forward<Args>(args)...).value();
  }
  /// As the C functions take it.
  nrd_function *get() const { return handle.get(); }

private:
  friend class Module;
  template <typename... Args>
  Status dispatch(const nrd_options *options, const Launch *how, Args &&...args) const {
    const std::array<Argument, sizeof...(Args)> list{Argument(std::forward<Args>(args))...};
    nrd_launch raw = how ? detail::rawLaunch(*how) : nrd_launch{};
    return detail::statusOf(nrd_dispatch(handle.get(), list.data(), list.size(), options,
                                         how ? &raw : nullptr, nullptr));
  }
  FunctionHandle handle;
};

//===--- typed kernels ------------------------------------------------------------------------===//

/// A text as a template argument: `constexpr_<nereid::text("tf32")>`.
template <size_t N> struct text {
  char characters[N]; ///< with the zero at the end
  /// From a literal.
  constexpr text(const char (&literal)[N]) {
    for (size_t i = 0; i < N; ++i)
      characters[i] = literal[i];
  }
};

/// A constexpr parameter of a typed kernel, with its value: an integer, a bool, a double or a
/// nereid::text. It is left out of the call.
template <auto Value> struct constexpr_ {};

/// @cond
namespace detail {
template <typename... T> struct Types {};

/// The type that a call takes for a parameter; void for one that it leaves out.
template <typename Param> struct ParamOf {
  static_assert(std::is_arithmetic_v<Param> || std::is_same_v<Param, half> ||
                    std::is_same_v<Param, bfloat16>,
                "a typed kernel's parameters are pointers, numbers, nereid::constexpr_<value>, and "
                "std::nullptr_t for None");
  using type = Number<Param>;
};
template <typename T> struct ParamOf<T *> {
  using type = Pointer<T>;
};
template <auto Value> struct ParamOf<constexpr_<Value>> {
  using type = void;
};
template <> struct ParamOf<std::nullptr_t> {
  using type = void;
};

template <typename Done, typename... Params> struct Given;
template <typename... Done> struct Given<Types<Done...>> {
  using type = Types<Done...>;
};
template <typename... Done, typename First, typename... Rest>
struct Given<Types<Done...>, First, Rest...> {
  using Param = typename ParamOf<First>::type;
  using type = typename std::conditional_t<std::is_void_v<Param>, Given<Types<Done...>, Rest...>,
                                           Given<Types<Done..., Param>, Rest...>>::type;
};

template <typename T> bool toArgument(const Pointer<T> &pointer, nrd_arg &arg) {
  arg = Argument(pointer);
  return true;
}
template <typename T> bool toArgument(const Number<T> &number, nrd_arg &arg) {
  if constexpr (std::is_arithmetic_v<T>)
    arg = Argument(number.value);
  else
    arg = Argument(number.value); // a float, which the parameter's annotation narrows
  return number.fits;
}

template <typename Param> struct Constant {
  static constexpr bool isConstexpr = false;
  static constexpr bool isNone = false;
};
template <> struct Constant<std::nullptr_t> {
  static constexpr bool isConstexpr = false;
  static constexpr bool isNone = true;
};
template <auto Value> struct Constant<constexpr_<Value>> {
  static constexpr bool isConstexpr = true;
  static constexpr bool isNone = false;
  static ValueHandle make() {
    using T = std::remove_cv_t<decltype(Value)>;
    if constexpr (std::is_same_v<T, bool>)
      return ValueHandle(nrd_value_bool(Value));
    else if constexpr (std::is_integral_v<T>)
      return ValueHandle(nrd_value_int(int64_t(Value)));
    else if constexpr (std::is_floating_point_v<T>)
      return ValueHandle(nrd_value_float(Value));
    else
      return ValueHandle(nrd_value_str(Value.characters, sizeof Value.characters - 1));
  }
};

/// The call of a typed kernel, with the types of its arguments spelled out, so that a wrong one is
/// an error of the call.
template <typename Derived, typename Arguments> class TypedCall;
template <typename Derived, typename... Args> class TypedCall<Derived, Types<Args...>> {
public:
  /// Launches with the arguments that are not constants.
  Status tryLaunch(const Launch &how, Args... args) const {
    return static_cast<const Derived &>(*this).run(&how, args...);
  }
  /// Launches; throws what went wrong.
  void operator()(const Launch &how, Args... args) const { tryLaunch(how, args...).value(); }
  /// Launches on a stream; throws what went wrong.
  void operator()(Grid grid, const Stream &stream, Args... args) const {
    tryLaunch(Launch(grid, stream), args...).value();
  }
  /// Compiles what such a launch needs.
  Status tryWarmup(Args... args) const {
    return static_cast<const Derived &>(*this).run(nullptr, args...);
  }
  /// Compiles what such a launch needs; throws what went wrong.
  void warmup(Args... args) const { tryWarmup(args...).value(); }
};
} // namespace detail
/// @endcond

/// A kernel whose parameters have types of C++: `T *` for pointers, numbers, `constexpr_<value>`
/// for constants and `std::nullptr_t` for None. Made by Module::kernel.
///
/// `kernel(launch, args...)`, `kernel(grid, stream, args...)` and `kernel.tryLaunch(launch,
/// args...)` take what is no constant; a pointer may be a raw one, a Buffer, a View, a std::span or
/// a std::vector. An argument of a wrong kind does not compile.
template <typename... Params>
class TypedKernel
    : public detail::TypedCall<TypedKernel<Params...>,
                               typename detail::Given<detail::Types<>, Params...>::type> {
public:
  /// The function behind it.
  const Function &function() const { return source; }

private:
  friend class Module;
  template <typename Derived, typename Arguments> friend class detail::TypedCall;

  TypedKernel(Function function, Options options)
      : source(std::move(function)), options(std::move(options)) {
    (addConstant<Params>(), ...);
  }

  /// Why the function cannot have these parameters.
  static std::optional<Error> mismatch(const Function &function) {
    auto wrong = [&](const std::string &what) {
      return Error(ErrorKind::Argument, "Argument",
                   "kernel `" + std::string(function.name()) + "` " + what);
    };
    if (function.paramCount() != sizeof...(Params))
      return wrong("has " + std::to_string(function.paramCount()) + " parameters, " +
                   std::to_string(sizeof...(Params)) + " are typed");
    constexpr bool isConstant[] = {detail::Constant<Params>::isConstexpr..., false};
    constexpr bool isNone[] = {detail::Constant<Params>::isNone..., false};
    for (size_t i = 0; i < sizeof...(Params); ++i)
      if (function.paramIsConstexpr(i) != isConstant[i] && !isNone[i])
        return wrong("parameter `" + std::string(function.paramName(i)) +
                     (isConstant[i] ? "` is no constexpr"
                                    : "` is a constexpr: give its value as "
                                      "nereid::constexpr_<value>"));
    return std::nullopt;
  }

  template <typename Param> void addConstant() {
    if constexpr (detail::Constant<Param>::isConstexpr)
      constants.push_back(detail::Constant<Param>::make());
  }

  /// With a null `how` it only compiles.
  template <typename... Args> Status run(const Launch *how, const Args &...args) const {
    std::array<nrd_arg, sizeof...(Params)> list{};
    std::tuple<const Args &...> given(args...);
    size_t wrong = sizeof...(Params);
    fill<0, 0, 0, Params...>(list, given, wrong);
    if (wrong != sizeof...(Params)) [[unlikely]]
      return Error(ErrorKind::Argument, "Argument",
                   "the number given for `" + std::string(source.paramName(wrong)) +
                       "` of kernel `" + std::string(source.name()) + "` does not fit its type");
    nrd_launch raw = how ? detail::rawLaunch(*how) : nrd_launch{};
    return detail::statusOf(nrd_dispatch(source.get(), list.data(), list.size(), options.get(),
                                         how ? &raw : nullptr, nullptr));
  }

  /// Fills the arguments from parameter `Index` on, with the next given argument and constant.
  template <size_t Index, size_t Next, size_t NextConstant, typename First, typename... Rest,
            typename Given>
  void fill(std::array<nrd_arg, sizeof...(Params)> &list, const Given &given, size_t &wrong) const {
    constexpr bool isConstant = detail::Constant<First>::isConstexpr;
    constexpr bool isNone = detail::Constant<First>::isNone;
    if constexpr (isConstant)
      list[Index] = Argument(constants[NextConstant]);
    else if constexpr (isNone)
      list[Index] = Argument(nullptr);
    else if (!detail::toArgument(std::get<Next>(given), list[Index]))
      wrong = Index;
    if constexpr (sizeof...(Rest) > 0)
      fill<Index + 1, Next + !(isConstant || isNone), NextConstant + isConstant, Rest...>(
          list, given, wrong);
  }
  template <size_t, size_t, size_t, typename Given>
  void fill(std::array<nrd_arg, 0> &, const Given &, size_t &) const {}

  Function source;
  Options options;
  std::vector<ValueHandle> constants;
};

/// Waits for everything on a GPU; an error is what failed there.
inline Status trySynchronize(int device = 0) {
  return detail::statusOf(nrd_cuda_synchronize(device));
}
/// Waits for everything on a GPU; throws what failed there.
inline void synchronize(int device = 0) {
  trySynchronize(device).value();
}

/// A file of kernels.
class Module {
public:
  /// Reads a file.
  static Result<Module> tryLoad(const std::string &path) {
    Module module;
    if (nrd_error *error = nrd_module_load(path.c_str(), module.handle.out()))
      return detail::take(error);
    return module;
  }
  /// Reads a file.
  static Module load(const std::string &path) { return tryLoad(path).value(); }
  /// Takes a text; `name` stands for the file in messages.
  static Result<Module> tryParse(std::string_view text, const std::string &name = "<text>") {
    Module module;
    if (nrd_error *error =
            nrd_module_parse(text.data(), text.size(), name.c_str(), 1, module.handle.out()))
      return detail::take(error);
    return module;
  }
  /// Takes a text; `name` stands for the file in messages.
  static Module parse(std::string_view text, const std::string &name = "<text>") {
    return tryParse(text, name).value();
  }
  /// The function of this name; the first one without a name.
  Result<Function> tryFunction(const char *name = nullptr) const {
    Function function;
    if (nrd_error *error =
            nrd_function_create(handle.get(), name, nullptr, nullptr, function.handle.out()))
      return detail::take(error);
    return function;
  }
  /// The function of this name; the first one without a name.
  Function function(const char *name = nullptr) const { return tryFunction(name).value(); }
  /// The gradient of the function of this name (docs/differentiation.md): a function that reads the
  /// gradients of the outputs `out` and adds to those of the inputs `wrt`, both names of
  /// parameters. Its arguments are those of the function, then the gradients, inputs first, each
  /// `d` and the name of its parameter: of a tensor a pointer to as many elements of its type (of
  /// an input of 16-bit floats to fp32), of a number a pointer to one float; `nullptr` is zero (an
  /// output) or not computed (an input). The gradients of inputs are zero before the launch. What
  /// the function itself stores is not stored. Errors: names that are no parameters, a name in both
  /// lists; what has no gradient is an error when it is compiled.
  ///
  /// `partial`: inputs that many programs read, whose gradients are given as partial sums in place
  /// of atomic additions: a matrix of zeros, with a row for each launched program, whose rows the
  /// caller adds. The function is launched with at most as many programs as the kernel has, along
  /// axis 0. Further arguments follow the gradients: the number of elements of a row of each of
  /// these (`int64_t`), then how many programs the kernel has along axes 0, 1 and 2 (`int32_t`).
  Result<Function> tryGradient(const char *name, const std::vector<std::string> &wrt,
                               const std::vector<std::string> &out,
                               const std::vector<std::string> &partial = {}) const {
    return derivative(nrd_function_set_gradients, name, wrt, out, partial);
  }
  /// The gradient of the function of this name.
  Function gradient(const char *name, const std::vector<std::string> &wrt,
                    const std::vector<std::string> &out,
                    const std::vector<std::string> &partial = {}) const {
    return tryGradient(name, wrt, out, partial).value();
  }
  /// The same, but the function also writes everything that it writes without a gradient.
  Result<Function> tryOutputsAndGradient(const char *name, const std::vector<std::string> &wrt,
                                         const std::vector<std::string> &out,
                                         const std::vector<std::string> &partial = {}) const {
    return derivative(nrd_function_set_outputs_and_gradients, name, wrt, out, partial);
  }
  /// The outputs of the function of this name and its gradient, in one launch.
  Function outputsAndGradient(const char *name, const std::vector<std::string> &wrt,
                              const std::vector<std::string> &out,
                              const std::vector<std::string> &partial = {}) const {
    return tryOutputsAndGradient(name, wrt, out, partial).value();
  }
  /// The derivative of the function of this name in a direction: a function that also reads the
  /// tangents of `wrt` and writes those of `out`. Its arguments are those of the function, then the
  /// tangents, those of `wrt` first, each `d` and the name of its parameter, of its type and size;
  /// `nullptr` is zero (of `wrt`) or not stored (of `out`). A tensor that is read and written is
  /// named in both, and has one tangent.
  Result<Function> tryJvp(const char *name, const std::vector<std::string> &wrt,
                          const std::vector<std::string> &out) const {
    return derivative(nrd_function_set_tangents, name, wrt, out);
  }
  /// The derivative of the function of this name in a direction.
  Function jvp(const char *name, const std::vector<std::string> &wrt,
               const std::vector<std::string> &out) const {
    return tryJvp(name, wrt, out).value();
  }
  /// The function of this name with typed parameters, compiled with these options.
  template <typename... Params>
  Result<TypedKernel<Params...>> tryKernel(const char *name, Options options = {}) const {
    Result<Function> function = tryFunction(name);
    if (!function)
      return function.error();
    if (std::optional<Error> error = TypedKernel<Params...>::mismatch(*function))
      return *error;
    return TypedKernel<Params...>(std::move(*function), std::move(options));
  }
  /// The function of this name with typed parameters, compiled with these options.
  template <typename... Params>
  TypedKernel<Params...> kernel(const char *name, Options options = {}) const {
    return tryKernel<Params...>(name, std::move(options)).value();
  }
  /// The names of the file's functions.
  std::vector<std::string> functions() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < nrd_module_function_count(handle.get()); ++i)
      names.emplace_back(nrd_module_function_name(handle.get(), i));
    return names;
  }

private:
  using SetDerivative = nrd_error *(*)(nrd_function *, const nrd_tangent *, size_t);
  Result<Function> derivative(SetDerivative set, const char *name,
                              const std::vector<std::string> &wrt,
                              const std::vector<std::string> &out,
                              const std::vector<std::string> &partial = {}) const {
    Result<Function> function = tryFunction(name);
    if (!function)
      return function;
    std::vector<nrd_tangent> tangents;
    auto add = [&](const std::vector<std::string> &names, uint32_t role) {
      for (const std::string &parameter : names) {
        auto same = [&](const nrd_tangent &tangent) { return tangent.parameter == parameter; };
        auto known = std::find_if(tangents.begin(), tangents.end(), same);
        if (known == tangents.end())
          tangents.push_back({parameter.c_str(), nullptr, role});
        else
          known->roles |= role;
      }
    };
    add(wrt, NRD_TANGENT_INPUT);
    add(out, NRD_TANGENT_OUTPUT);
    add(partial, NRD_TANGENT_PARTIAL);
    if (nrd_error *error = set(function->get(), tangents.data(), tangents.size()))
      return detail::take(error);
    return function;
  }
  ModuleHandle handle;
};

} // namespace nereid
#endif
