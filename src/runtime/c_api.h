// What the files that implement the C ABI share.
#pragma once

#include "nereid/nereid.h"
#include "runtime/error.h"
#include "runtime/options.h"

#include "llvm/ADT/ArrayRef.h"

#include <cxxabi.h>

// Every function of the ABI is guarded: its body is the `try` of one of the following, and its
// pointers are looked at first. The files that define such functions are compiled with exceptions
// (CMakeLists.txt), the rest of the library is not: it throws nothing itself, but memory can run
// out anywhere below.
// A thread that pthread_exit() ends, as Python ends threads that ask for its lock when it shuts
// down, unwinds too: that is no exception and goes on.
#define NRD_LET_THREADS_END                                                                        \
  catch (const abi::__forced_unwind &) {                                                           \
    throw;                                                                                         \
  }
#define NRD_CATCH_ERROR                                                                            \
  NRD_LET_THREADS_END                                                                              \
  catch (...) {                                                                                    \
    return nereid::runtime::caught(__func__);                                                      \
  }
#define NRD_CATCH_AND(...)                                                                         \
  NRD_LET_THREADS_END                                                                              \
  catch (...) {                                                                                    \
    __VA_ARGS__;                                                                                   \
  }
#define NRD_CATCH                                                                                  \
  NRD_LET_THREADS_END                                                                              \
  catch (...) {                                                                                    \
  }
#define NRD_NEEDS(argument)                                                                        \
  if (!(argument)) [[unlikely]]                                                                    \
  return nereid::runtime::nullArgument(__func__, #argument)
#define NRD_NEEDS_ALL(argument, count)                                                             \
  if (nrd_error *error = nereid::runtime::nullItem(__func__, #argument, #count, argument, count))  \
      [[unlikely]]                                                                                 \
  return error
#define NRD_NEEDS_ARRAY(argument, count)                                                           \
  if (!(argument) && (count)) [[unlikely]]                                                         \
  return nereid::runtime::nullArray(__func__, #argument, #count, int64_t(count))

struct nrd_options {
  nereid::runtime::Options values;
};

namespace nereid::runtime {

/// Hands an error over to the caller of the ABI; null stays null.
nrd_error *wrap(ErrorPtr error);
/// The other way.
ErrorPtr taken(nrd_error *error);

/// The exception that is being handled, as an error of the ABI's function; works without memory.
nrd_error *caught(const char *function) noexcept;
/// A pointer that must not be null is; `count`: of an array, the name of its size.
nrd_error *nullArgument(const char *function, const char *argument);
nrd_error *nullArray(const char *function, const char *argument, const char *count, int64_t size);
/// The most elements that an array of pointers or arguments may have.
constexpr size_t mostItems = 1 << 16;
bool hasNull(const void *const *items, size_t count);
/// Of an array of pointers, none of which may be null; null when none is.
nrd_error *nullItem(const char *function, const char *argument, const char *count,
                    const void *const *items, size_t size);
template <typename T>
nrd_error *nullItem(const char *function, const char *argument, const char *count, T *const *items,
                    size_t size) {
  return nullItem(function, argument, count, reinterpret_cast<const void *const *>(items), size);
}
template <typename T> bool hasNull(T *const *items, size_t count) {
  return hasNull(reinterpret_cast<const void *const *>(items), count);
}
/// Whether it is the error that stands for all when memory has run out; it is not to be freed.
bool isEmergency(const Error *error);
/// Another argument that the function cannot use.
nrd_error *badArgument(const char *function, const char *argument, std::string_view expected,
                       std::string_view found);

} // namespace nereid::runtime
