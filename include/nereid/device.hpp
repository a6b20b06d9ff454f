/** @file
 * @brief What kernels work on, in C++20: devices, streams, memory, arguments; and errors.
 *
 * Part of `nereid/nereid.hpp` (the compiler) and of `nereid/embedded.hpp` (kernels compiled when
 * the program was built). Every function that can fail comes twice: the plain name gives its result
 * or throws nereid::Error, the name with `try` gives a nereid::Result and never throws. In a
 * program built without exceptions the plain names print the error and abort.
 */
#ifndef NEREID_DEVICE_HPP
#define NEREID_DEVICE_HPP

#include "nereid/device.h"

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

/// Kernels of the Triton language for C++ programs.
namespace nereid {

//===--- errors -------------------------------------------------------------------------------===//

/// Whose mistake an error is.
enum class ErrorKind {
  Compile = 1,  ///< the kernel's text is wrong
  StaticAssert, ///< a `static_assert` of the kernel failed
  Unsupported,  ///< a construct outside of the language
  Argument,     ///< a wrong argument of a launch or of this interface
  Runtime,      ///< found while running: a failed assertion, no device, a refusal of the driver
  Resources,    ///< out of memory, threads, shared memory
  Internal      ///< a mistake of ours
};

/// What went wrong: a value, cheap to copy, that may be thrown.
///
/// @code
/// nereid::Result<nereid::Module> module = nereid::Module::tryLoad("kernels.py");
/// if (!module)
///   std::fprintf(stderr, "%s\n", module.error().what());
/// @endcode
class Error : public std::exception {
public:
  /// Without a place in a kernel's text.
  Error(ErrorKind kind, std::string name, std::string message)
      : Error(kind, std::move(name), message, message) {}
  /// `message` is the whole text, `summary` its first line without its place.
  Error(ErrorKind kind, std::string name, std::string message, std::string summary)
      : texts(std::make_shared<Texts>(
            Texts{kind, std::move(name), std::move(message), std::move(summary)})) {}
  /// The whole text: of an error in a kernel with file, line, source line and caret.
  const char *what() const noexcept override { return texts->message.c_str(); }
  /// Whose mistake it is.
  ErrorKind kind() const { return texts->kind; }
  /// The name of the diagnostic: "UnknownName", "AccessOutOfBounds"; of a failure of embedded
  /// kernels and devices "Argument", "NoVariant", "NoDevice", "Damaged", "Resources", "Failed".
  std::string_view name() const { return texts->name; }
  /// The first message alone, without its place.
  std::string_view summary() const { return texts->summary; }

private:
  struct Texts {
    ErrorKind kind;
    std::string name, message, summary;
  };
  std::shared_ptr<const Texts> texts;
};

/// @cond
namespace detail {
[[noreturn]] inline void raise(const Error &error) {
#if defined(__cpp_exceptions)
  throw error;
#else
  std::fprintf(stderr, "%s\n", error.what());
  std::abort();
#endif
}

/// The calling thread's last failure of the C functions of device.h and embedded.h.
inline Error errorOf(nrd_status status) {
  static constexpr struct {
    ErrorKind kind;
    const char *name;
  } rows[] = {{ErrorKind::Internal, "Ok"},        {ErrorKind::Argument, "Argument"},
              {ErrorKind::Argument, "NoVariant"}, {ErrorKind::Runtime, "NoDevice"},
              {ErrorKind::Runtime, "Damaged"},    {ErrorKind::Resources, "Resources"},
              {ErrorKind::Runtime, "Failed"}};
  auto [kind, name] = rows[status];
  return Error(kind, name, nrd_status_message());
}
} // namespace detail
/// @endcond

/// A value, or the error that took its place.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : content(std::move(value)) {}     ///< success
  Result(Error error) : failure(std::move(error)) {} ///< failure
  /// Whether there is a value.
  explicit operator bool() const { return content.has_value(); }
  /// Whether there is a value.
  bool ok() const { return content.has_value(); }
  /// The error; only when there is no value.
  const Error &error() const { return *failure; }
  /// The value; throws the error when there is none.
  T &value() & {
    if (!content) [[unlikely]]
      detail::raise(*failure);
    return *content;
  }
  /// The value, moved out; throws the error when there is none.
  T value() && { return std::move(value()); }
  /// The value; only when there is one.
  T &operator*() { return *content; }
  /// A member of the value; only when there is one.
  T *operator->() { return &*content; }

private:
  std::optional<T> content;
  std::optional<Error> failure;
};

/// Success, or an error.
template <> class [[nodiscard]] Result<void> {
public:
  Result() = default;                                ///< success
  Result(Error error) : failure(std::move(error)) {} ///< failure
  /// Whether it succeeded.
  explicit operator bool() const { return !failure; }
  /// Whether it succeeded.
  bool ok() const { return !failure; }
  /// The error; only when it failed.
  const Error &error() const { return *failure; }
  /// Throws the error when it failed.
  void value() const {
    if (failure) [[unlikely]]
      detail::raise(*failure);
  }

private:
  std::optional<Error> failure;
};

/// What a function gives that has nothing to give but an error.
using Status = Result<void>;

/// @cond
namespace detail {
inline Status statusOf(nrd_status status) {
  return status == NRD_OK ? Status() : Status(errorOf(status));
}
} // namespace detail
/// @endcond

//===--- element types ------------------------------------------------------------------------===//

/// @cond
namespace detail {
/// The bits of a float with fewer bits of mantissa or exponent: rounded to nearest, ties to even.
template <int ExponentBits, int MantissaBits> constexpr uint16_t narrowed(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = uint16_t(bits >> 31 << (ExponentBits + MantissaBits));
  uint32_t magnitude = bits & 0x7fffffff;
  constexpr uint32_t infinity = ((1u << ExponentBits) - 1) << MantissaBits;
  if (magnitude > 0x7f800000)
    return uint16_t(sign | infinity | 1u << (MantissaBits - 1));
  int exponent = int(magnitude >> 23) - 127 + (1 << (ExponentBits - 1)) - 1;
  int dropped = 23 - MantissaBits;
  uint64_t mantissa = (magnitude & 0x7fffff) | (magnitude >> 23 ? 0x800000 : 0);
  if (magnitude < 0x800000)
    ++exponent;
  uint32_t result;
  if (exponent >= 1) {
    mantissa += uint64_t(exponent - 1) << 23; // the hidden bit adds the last one
    result = 0;
  } else {
    result = 0;
    dropped += 1 - exponent;
    if (dropped > 40)
      return sign;
  }
  uint64_t half = uint64_t(1) << (dropped - 1), rest = mantissa & (2 * half - 1);
  uint64_t kept = mantissa >> dropped;
  kept += rest > half || (rest == half && (kept & 1));
  result = kept > infinity ? infinity : uint32_t(kept);
  return uint16_t(sign | result);
}
} // namespace detail
/// @endcond

/// A 16-bit float (IEEE half precision), by its bits.
struct half {
  uint16_t bits; ///< as in memory
  /// Rounded to nearest.
  static constexpr half from(float value) { return {detail::narrowed<5, 10>(value)}; }
  /// The same number.
  constexpr float toFloat() const {
    uint32_t sign = uint32_t(bits >> 15) << 31, exponent = bits >> 10 & 31, mantissa = bits & 1023;
    if (exponent == 31)
      return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
    if (exponent)
      return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
    float small = float(mantissa) / 16777216.0f;
    return sign ? -small : small;
  }
};
/// A 16-bit float with the range of a float, by its bits.
struct bfloat16 {
  uint16_t bits; ///< as in memory
  /// Rounded to nearest.
  static constexpr bfloat16 from(float value) { return {detail::narrowed<8, 7>(value)}; }
  /// The same number.
  constexpr float toFloat() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};
/// An 8-bit float of 4 bits of exponent and 3 of mantissa, without infinities, by its bits.
struct float8e4m3 {
  uint8_t bits; ///< as in memory
};
/// An 8-bit float of 5 bits of exponent and 2 of mantissa, by its bits.
struct float8e5m2 {
  uint8_t bits; ///< as in memory
};

/// The element type of kernels that a type of another library is: specialise it, for instance
/// `template <> struct nereid::ElementOf<__half> { using type = nereid::half; };`
template <typename T> struct ElementOf {
  using type = T; ///< the type itself, when it needs no translation
};
// g++ has the type in C++ since 12 on x86-64, since 13 elsewhere; it says what it is like before.
#if defined(__FLT16_MANT_DIG__) && !defined(__CUDACC__) &&                                         \
    (defined(__clang__) || defined(__x86_64__) || __GNUC__ >= 13)
/// The compiler's own 16-bit float.
template <> struct ElementOf<_Float16> {
  using type = half; ///< has the same bits
};
#endif

/// @cond
namespace detail {
/// Integers of one size and sign are one type (`long` and `long long`).
template <typename T> constexpr auto canonical() {
  using U = typename ElementOf<std::remove_cv_t<T>>::type;
  if constexpr (std::is_enum_v<U>)
    return canonical<std::underlying_type_t<U>>();
  else if constexpr (std::integral<U> && !std::same_as<U, bool>) {
    if constexpr (sizeof(U) == 1)
      return std::conditional_t<std::is_signed_v<U>, int8_t, uint8_t>();
    else if constexpr (sizeof(U) == 2)
      return std::conditional_t<std::is_signed_v<U>, int16_t, uint16_t>();
    else if constexpr (sizeof(U) == 4)
      return std::conditional_t<std::is_signed_v<U>, int32_t, uint32_t>();
    else
      return std::conditional_t<std::is_signed_v<U>, int64_t, uint64_t>();
  } else
    return U();
}
template <typename T> using Canonical = decltype(canonical<T>());

template <typename From, typename To>
concept SameElement =
    std::same_as<Canonical<From>, Canonical<To>> && (std::is_const_v<To> || !std::is_const_v<From>);

/// A number that can be given where a kernel takes a `To`: integers for integers, integers and
/// floats for floats, bool for bool.
template <typename From, typename To>
concept NumberFor =
    (std::same_as<To, bool> ? std::same_as<From, bool>
     : std::is_floating_point_v<To>
         ? std::is_arithmetic_v<From> && !std::same_as<From, bool>
         : (std::integral<From> && !std::same_as<From, bool>) || std::is_enum_v<From>);
} // namespace detail
/// @endcond

//===--- devices and streams ------------------------------------------------------------------===//

/// The CPU, or a GPU by its number.
class Device {
public:
  /// The CPU.
  constexpr Device() = default;
  /// The CPU.
  static constexpr Device cpu() { return Device(); }
  /// A GPU; that it exists shows when it is used.
  static constexpr Device cuda(int number = 0) { return Device(number); }
  /// How many GPUs can be used; 0 without a driver.
  static int cudaCount() { return nrd_gpu_count(); }
  /// Where an address points to: the GPU whose memory it is, else the CPU.
  static Device of(const void *address) { return Device(nrd_device_of(address)); }

  /// Whether it is the CPU.
  constexpr bool isCpu() const { return index == NRD_DEVICE_CPU; }
  /// Whether it is a GPU.
  constexpr bool isCuda() const { return !isCpu(); }
  /// The number of a GPU, -1 for the CPU.
  constexpr int number() const { return index; }
  /// Name, architecture, cores, memory in bytes.
  Result<nrd_device_info> tryInfo() const {
    nrd_device_info info{};
    info.size = sizeof info;
    if (nrd_status status = nrd_device_get_info(index, &info))
      return detail::errorOf(status);
    return info;
  }
  /// Name, architecture, cores, memory in bytes.
  nrd_device_info info() const { return tryInfo().value(); }
  /// Whether it is the same device.
  constexpr bool operator==(const Device &) const = default;

private:
  explicit constexpr Device(int32_t number) : index(number) {}
  int32_t index = NRD_DEVICE_CPU;
};

/// An order of work on a device. On the CPU all work is done when the call that asked for it
/// returns; on a GPU it is queued.
class Stream {
public:
  /// The default stream of a device.
  Stream(Device device = Device::cpu()) : raw_{device.number(), 0, nullptr} {}
  /// A stream made elsewhere: a CUstream, which a cudaStream_t is. It must outlive this object.
  static Stream borrow(Device device, void *native) {
    Stream stream(device);
    stream.raw_.handle = native;
    return stream;
  }
  /// A new stream.
  static Result<Stream> tryCreate(Device device) {
    Stream stream(device);
    if (nrd_status status = nrd_stream_create(device.number(), &stream.raw_))
      return detail::errorOf(status);
    stream.owned = true;
    return stream;
  }
  /// A new stream.
  static Stream create(Device device) { return tryCreate(device).value(); }

  Stream(Stream &&other) noexcept
      : raw_(other.raw_), owned(std::exchange(other.owned, false)) {} ///< takes it over
  /// Takes it over.
  Stream &operator=(Stream &&other) noexcept {
    std::swap(raw_, other.raw_);
    std::swap(owned, other.owned);
    return *this;
  }
  ~Stream() {
    if (owned)
      nrd_stream_destroy(raw_);
  }

  /// Waits for everything queued here, and says what failed.
  Status trySynchronize() const { return detail::statusOf(nrd_stream_synchronize(raw_)); }
  /// Waits for everything queued here.
  void synchronize() const { trySynchronize().value(); }
  /// Whose stream it is.
  Device device() const {
    return raw_.device == NRD_DEVICE_CPU ? Device::cpu() : Device::cuda(raw_.device);
  }
  /// The CUstream; null for a default stream.
  void *native() const { return raw_.handle; }
  /// As the C functions take it.
  nrd_stream raw() const { return raw_; }

private:
  nrd_stream raw_;
  bool owned = false;
};

//===--- memory -------------------------------------------------------------------------------===//

/// Elements in the memory of a device, which somebody else owns: a pointer and a count.
template <typename T> class View {
public:
  View() = default;
  /// `size` elements at `data`.
  View(T *data, size_t size, Device device = Device::cpu())
      : data_(data), size_(size), device_(device) {}
  /// Memory of the host.
  template <size_t N> View(std::span<T, N> data) : View(data.data(), data.size()) {}
  /// As a view that cannot be written through.
  operator View<const T>() const
    requires(!std::is_const_v<T>)
  {
    return {data_, size_, device_};
  }

  /// The elements of a DLPack tensor (`DLTensor`, of whichever dlpack.h): its type must be that of
  /// the view, and its elements must lie next to each other in row-major order.
  template <typename Tensor> static Result<View> tryFromDLPack(const Tensor &tensor);
  /// The elements of a DLPack tensor.
  template <typename Tensor> static View fromDLPack(const Tensor &tensor) {
    return tryFromDLPack(tensor).value();
  }

  /// The first element; an address of the device.
  T *data() const { return data_; }
  /// How many elements there are.
  size_t size() const { return size_; }
  /// How many bytes there are.
  size_t bytes() const { return size_ * sizeof(T); }
  /// Where they are.
  Device device() const { return device_; }
  /// From element `begin` on `count` elements, fewer where the view ends.
  View part(size_t begin, size_t count = std::numeric_limits<size_t>::max()) const {
    begin = begin < size_ ? begin : size_;
    return {data_ + begin, count < size_ - begin ? count : size_ - begin, device_};
  }

private:
  T *data_ = nullptr;
  size_t size_ = 0;
  Device device_;
};

/// Elements in the memory of a device, owned: given back with the object.
///
/// @code
/// auto x = nereid::Buffer<float>::allocate(nereid::Device::cuda(), 1 << 20);
/// x.copyFrom(hostVector, stream);
/// @endcode
template <typename T> class Buffer {
  static_assert(!std::is_const_v<T>, "what is allocated can be written");

public:
  Buffer() = default;
  /// Memory for `size` elements, of undefined content; aligned to 64 bytes at least.
  static Result<Buffer> tryAllocate(Device device, size_t size) {
    void *memory = nullptr;
    if (size > std::numeric_limits<size_t>::max() / sizeof(T))
      return Error(ErrorKind::Resources, "Resources", "a buffer of so many elements cannot be");
    if (nrd_status status = nrd_memory_allocate(device.number(), size * sizeof(T), &memory))
      return detail::errorOf(status);
    Buffer buffer;
    buffer.view_ = View<T>(static_cast<T *>(memory), size, device);
    return buffer;
  }
  /// Memory for `size` elements, of undefined content.
  static Buffer allocate(Device device, size_t size) { return tryAllocate(device, size).value(); }

  Buffer(Buffer &&other) noexcept
      : view_(std::exchange(other.view_, View<T>())) {} ///< takes it over
  /// Takes it over.
  Buffer &operator=(Buffer &&other) noexcept {
    std::swap(view_, other.view_);
    return *this;
  }
  ~Buffer() {
    if (view_.data())
      nrd_memory_free(view_.device().number(), view_.data());
  }

  /// The elements, which stay this object's.
  View<T> view() { return view_; }
  /// The elements, which stay this object's.
  View<const T> view() const { return view_; }
  /// The first element; an address of the device.
  T *data() { return view_.data(); }
  /// The first element; an address of the device.
  const T *data() const { return view_.data(); }
  /// How many elements there are.
  size_t size() const { return view_.size(); }
  /// How many bytes there are.
  size_t bytes() const { return view_.bytes(); }
  /// Where they are.
  Device device() const { return view_.device(); }

  /// Copies elements of the host (or of this device) to the front; queued on a GPU's stream, and
  /// `from` must stay until it is done.
  Status tryCopyFrom(std::span<const T> from, const Stream &stream) {
    if (from.size() > size())
      return Error(ErrorKind::Argument, "Argument",
                   "cannot copy " + std::to_string(from.size()) + " elements into a buffer of " +
                       std::to_string(size()));
    return detail::statusOf(nrd_memory_copy(stream.raw(), data(), from.data(), from.size_bytes()));
  }
  /// Copies elements of the host (or of this device) to the front.
  void copyFrom(std::span<const T> from, const Stream &stream) {
    tryCopyFrom(from, stream).value();
  }
  /// Copies elements of the host to the front, and waits.
  void copyFrom(std::span<const T> from) {
    Stream stream(device());
    copyFrom(from, stream);
    stream.synchronize();
  }
  /// Copies the first elements to the host (or to this device); queued on a GPU's stream.
  Status tryCopyTo(std::span<T> to, const Stream &stream) const {
    if (to.size() > size())
      return Error(ErrorKind::Argument, "Argument",
                   "cannot copy " + std::to_string(to.size()) + " elements out of a buffer of " +
                       std::to_string(size()));
    return detail::statusOf(nrd_memory_copy(stream.raw(), to.data(), data(), to.size_bytes()));
  }
  /// Copies the first elements to the host (or to this device); queued on a GPU's stream.
  void copyTo(std::span<T> to, const Stream &stream) const { tryCopyTo(to, stream).value(); }
  /// Copies the first elements to the host, and waits.
  void copyTo(std::span<T> to) const {
    Stream stream(device());
    copyTo(to, stream);
    stream.synchronize();
  }
  /// Sets every byte to 0.
  Status tryClear(const Stream &stream) {
    return detail::statusOf(nrd_memory_fill(stream.raw(), data(), 0, bytes()));
  }
  /// Sets every byte to 0.
  void clear(const Stream &stream) { tryClear(stream).value(); }

private:
  View<T> view_;
};

/// @cond
template <typename T>
template <typename Tensor>
Result<View<T>> View<T>::tryFromDLPack(const Tensor &tensor) {
  auto wrong = [](const char *what) {
    return Error(ErrorKind::Argument, "Argument", std::string("a DLPack tensor ") + what);
  };
  using Element = detail::Canonical<T>;
  constexpr int code = std::is_same_v<Element, bool>         ? 6
                       : std::is_same_v<Element, bfloat16>   ? 4
                       : std::is_same_v<Element, float8e4m3> ? 10
                       : std::is_same_v<Element, float8e5m2> ? 12
                       : std::is_integral_v<Element>         ? std::is_unsigned_v<Element>
                                                             : 2;
  if (int(tensor.dtype.code) != code || tensor.dtype.bits != 8 * sizeof(T) ||
      tensor.dtype.lanes != 1)
    return wrong("has another element type than the view");
  // kDLCPU, kDLCUDA, kDLCUDAHost, kDLCUDAManaged
  int type = int(tensor.device.device_type);
  if (type != 1 && type != 2 && type != 3 && type != 13)
    return wrong("lies on a device that is neither a CPU nor a CUDA device");
  size_t size = 1;
  for (int i = int(tensor.ndim) - 1; i >= 0; --i) {
    if (tensor.strides && tensor.shape[i] != 1 && tensor.strides[i] != int64_t(size))
      return wrong("has elements that do not lie next to each other");
    size *= size_t(tensor.shape[i]);
  }
  bool isGpu = type == 2 || type == 13;
  auto *first = reinterpret_cast<T *>(static_cast<char *>(tensor.data) + tensor.byte_offset);
  return View(first, size, isGpu ? Device::cuda(int(tensor.device.device_id)) : Device::cpu());
}

/// @endcond

//===--- arguments ----------------------------------------------------------------------------===//

/// A pointer argument of a typed kernel: made of pointers, buffers, views, spans and vectors of
/// that element type, and of nullptr. A pointer to const can be given only where the kernel does
/// not write.
template <typename T> struct Pointer {
  T *address = nullptr;         ///< of the first element
  const void *low = nullptr;    ///< the bytes that may be touched, where they are known
  const void *high = nullptr;   ///< behind the last of them
  std::optional<Device> device; ///< whose memory it is, where that is known

  constexpr Pointer(std::nullptr_t) {} ///< null
  /// A raw pointer, of the host or of a device.
  template <detail::SameElement<T> U>
  Pointer(U *pointer) : address(reinterpret_cast<T *>(pointer)) {}
  /// A view.
  template <detail::SameElement<T> U>
  Pointer(const View<U> &view) : Pointer(view.data(), view.size(), view.device()) {}
  /// A buffer.
  template <detail::SameElement<T> U> Pointer(Buffer<U> &buffer) : Pointer(buffer.view()) {}
  /// A buffer that is only read.
  template <typename U>
    requires detail::SameElement<const U, T>
  Pointer(const Buffer<U> &buffer) : Pointer(buffer.view()) {}
  /// Memory of the host.
  template <detail::SameElement<T> U, size_t N>
  Pointer(std::span<U, N> span) : Pointer(span.data(), span.size()) {}
  /// Memory of the host.
  template <detail::SameElement<T> U>
  Pointer(std::vector<U> &vector) : Pointer(vector.data(), vector.size()) {}
  /// Memory of the host that is only read.
  template <typename U>
    requires detail::SameElement<const U, T>
  Pointer(const std::vector<U> &vector) : Pointer(vector.data(), vector.size()) {}

  /// As a kernel takes it.
  uint64_t slot() const { return uint64_t(reinterpret_cast<uintptr_t>(address)); }

private:
  template <typename U>
  Pointer(U *data, size_t size, Device place = Device::cpu())
      : address(reinterpret_cast<T *>(data)), low(data), high(data + size), device(place) {}
};

/// A number argument of a typed kernel: integers for integers, numbers for floats, bool for bool.
/// Whether an integer fits the kernel's type is seen when it is launched.
template <typename T> struct Number {
  T value{};        ///< as the kernel takes it
  bool fits = true; ///< whether it is the number that was given

  /// A number of a suitable kind.
  template <detail::NumberFor<T> U> constexpr Number(U given) : value(T(given)) {
    if constexpr (std::integral<U> && std::integral<T> && !std::same_as<T, bool>)
      fits = std::in_range<T>(detail::Canonical<U>(given));
  }

  /// As a kernel takes it.
  uint64_t slot() const {
    if constexpr (std::is_same_v<T, float>)
      return std::bit_cast<uint32_t>(value);
    else if constexpr (std::is_same_v<T, double>)
      return std::bit_cast<uint64_t>(value);
    else
      return uint64_t(int64_t(value));
  }
};

/// A 16-bit float argument, given as a float.
template <typename Narrow> struct NarrowFloat {
  float value; ///< before rounding
  /// A number.
  template <detail::NumberFor<float> U> constexpr NarrowFloat(U given) : value(float(given)) {}
  /// As a kernel takes it.
  uint64_t slot() const { return Narrow::from(value).bits; }
};
/// A `half` argument of a typed kernel, given as a number.
template <> struct Number<half> : NarrowFloat<half> {
  using NarrowFloat::NarrowFloat;
  static constexpr bool fits = true; ///< floats are rounded
};
/// A `bfloat16` argument of a typed kernel, given as a number.
template <> struct Number<bfloat16> : NarrowFloat<bfloat16> {
  using NarrowFloat::NarrowFloat;
  static constexpr bool fits = true; ///< floats are rounded
};

/// A tensor descriptor argument: an address, the sizes in elements and the strides in elements,
/// from the outermost dimension on; the last stride is 1. The address and all other strides are
/// multiples of 16 bytes.
template <typename T, int Rank> struct Descriptor {
  Pointer<T> base;            ///< the first element
  int32_t shape[Rank] = {};   ///< in elements
  int64_t strides[Rank] = {}; ///< in elements

  /// A tensor whose rows lie next to each other.
  template <typename Memory>
  Descriptor(Memory &&memory, const int64_t (&sizes)[Rank]) : base(std::forward<Memory>(memory)) {
    int64_t stride = 1;
    for (int i = Rank - 1; i >= 0; --i) {
      shape[i] = int32_t(sizes[i]);
      strides[i] = stride;
      stride *= sizes[i];
    }
  }
  /// A tensor with other strides.
  template <typename Memory>
  Descriptor(Memory &&memory, const int64_t (&sizes)[Rank], const int64_t (&steps)[Rank])
      : Descriptor(std::forward<Memory>(memory), sizes) {
    for (int i = 0; i < Rank; ++i)
      strides[i] = steps[i];
  }
};

/// The number of programs along each axis.
struct Grid {
  uint32_t x = 1; ///< along the first axis
  uint32_t y = 1; ///< along the second axis
  uint32_t z = 1; ///< along the third axis

  constexpr Grid() = default;
  /// Of any integer type; a number that is negative or beyond 2^31-1 is an error of the launch.
  template <std::integral X, std::integral Y = int, std::integral Z = int>
  constexpr Grid(X x, Y y = 1, Z z = 1) : x(axis(x)), y(axis(y)), z(axis(z)) {}

private:
  template <typename T> static constexpr uint32_t axis(T count) {
    // What does not fit keeps its side: the error shows -1, or the number as far as 32 bits go.
    constexpr uint32_t most = std::numeric_limits<uint32_t>::max();
    return std::cmp_less(count, 0) ? most : std::cmp_less(count, most) ? uint32_t(count) : most - 1;
  }
};

/// How to run a kernel: the grid, and where.
struct Launch {
  Grid grid;              ///< programs along each axis
  uint32_t threads = 0;   ///< CPU: at most; 0: the setting NEREID_CPU_THREADS, or all cores
  bool checked = false;   ///< check every access; of functions compiled at run time only
  bool hasStream = false; ///< `on` says where
  bool hasNative = false; ///< `native` says where
  nrd_stream on{};        ///< the stream; else the default one of the pointers' device
  void *native = nullptr; ///< GPU: a CUstream of whichever device the launch is for
  int device = -1;        ///< GPU: by number; -1: that of the pointers or the context

  /// `{blocks}`, `{columns, rows}`: the grid.
  template <std::integral X, std::integral Y = int, std::integral Z = int>
  Launch(X x, Y y = 1, Z z = 1) : grid(x, y, z) {}
  /// `Launch({columns, rows})`: the grid; further sizes than three are ignored.
  template <std::integral T> Launch(std::initializer_list<T> sizes) {
    T axes[3] = {1, 1, 1};
    for (size_t i = 0; i < sizes.size() && i < 3; ++i)
      axes[i] = sizes.begin()[i];
    grid = Grid(axes[0], axes[1], axes[2]);
  }
  /// On the device of the pointers.
  Launch(Grid grid) : grid(grid) {}
  /// On a stream.
  Launch(Grid grid, const Stream &stream) : grid(grid), hasStream(true), on(stream.raw()) {}
  /// On at most so many threads of the CPU.
  Launch withThreads(uint32_t count) const {
    Launch copy = *this;
    copy.threads = count;
    return copy;
  }
  /// Every access is checked against the extent of its argument.
  Launch withChecks() const {
    Launch copy = *this;
    copy.checked = true;
    return copy;
  }
  /// On a stream.
  Launch withStream(const Stream &stream) const {
    Launch copy = *this;
    copy.hasStream = true;
    copy.on = stream.raw();
    return copy;
  }
  /// On this CUstream (or cudaStream_t) of the GPU.
  Launch withStream(void *queue) const {
    Launch copy = *this;
    copy.hasNative = true;
    copy.native = queue;
    return copy;
  }
  /// On the GPU of this number.
  Launch onDevice(int number) const {
    Launch copy = *this;
    copy.device = number;
    return copy;
  }
};

} // namespace nereid
#endif
