/** @file
 * @brief What the typed headers of embedded kernels are made of (C++20).
 *
 * A program includes the header that was generated for its kernels, which includes this one:
 *
 * @code
 * #include "add_kernel.h" // made by nereid_add_kernels(... FILE kernels.py KERNEL add_kernel ...)
 * kernels::add_kernel({blocks}, stream, x, y, out, n); // throws nereid::Error
 * nereid::Status status = kernels::add_kernel.tryLaunch({blocks}, x, y, out, n);
 * @endcode
 */
#ifndef NEREID_EMBEDDED_HPP
#define NEREID_EMBEDDED_HPP

#include "nereid/device.hpp"
#include "nereid/embedded.h"

/// Kernels compiled when the program was built.
namespace nereid::embedded {

/// @cond
namespace detail {
inline nrd_embedded_launch rawLaunch(const Launch &how) {
  nrd_embedded_launch raw{};
  raw.size = sizeof raw;
  raw.grid[0] = how.grid.x;
  raw.grid[1] = how.grid.y;
  raw.grid[2] = how.grid.z;
  raw.threads = how.threads;
  raw.has_stream = how.hasStream || how.hasNative || how.device >= 0;
  raw.stream = how.on;
  if (!how.hasStream) {
    raw.stream.device = how.device < 0 ? 0 : how.device;
    raw.stream.handle = how.native;
  }
  return raw;
}

/// Writes an argument to its slots; whether it fits.
template <typename T> bool put(uint64_t *&slot, const Pointer<T> &pointer) {
  *slot++ = pointer.slot();
  return true;
}
template <typename T> bool put(uint64_t *&slot, const Number<T> &number) {
  *slot++ = number.slot();
  return number.fits;
}
template <typename T, int Rank> bool put(uint64_t *&slot, const Descriptor<T, Rank> &tensor) {
  *slot++ = tensor.base.slot();
  for (int32_t size : tensor.shape)
    *slot++ = uint64_t(int64_t(size));
  for (int i = 0; i + 1 < Rank; ++i)
    *slot++ = uint64_t(tensor.strides[i]);
  return tensor.strides[Rank - 1] == 1;
}

template <typename T> constexpr int slotsOf = 1;
template <typename T, int Rank> constexpr int slotsOf<Descriptor<T, Rank>> = 2 * Rank;
} // namespace detail
/// @endcond

/// Starts (or only loads) the variant of a kernel that fits the arguments.
template <typename Run, typename... Args>
Status call(Run run, const nrd_embedded_kernel &kernel, const Launch &how, const Args &...args) {
  if (kernel.version != NRD_EMBEDDED_VERSION) [[unlikely]]
    return nereid::detail::errorOf(nrd_embedded_other_version(&kernel, NRD_EMBEDDED_VERSION));
  uint64_t slots[(detail::slotsOf<Args> + ... + 1)];
  [[maybe_unused]] uint64_t *next = slots;
  uint64_t number = 0, wrong = sizeof...(Args);
  ((detail::put(next, args) || wrong != sizeof...(Args) ? void() : void(wrong = number), ++number),
   ...);
  if (wrong != sizeof...(Args)) [[unlikely]]
    return nereid::detail::errorOf(nrd_embedded_does_not_fit(&kernel, wrong));
  nrd_embedded_launch raw = detail::rawLaunch(how);
  return nereid::detail::statusOf(run(&kernel, &raw, slots));
}

} // namespace nereid::embedded
#endif
