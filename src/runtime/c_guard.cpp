// The C ABI: what is wrong with a call, whatever the function; exceptions become errors.
#include "runtime/c_api.h"

#include "llvm/Support/ErrorHandling.h"

#include <algorithm>
#include <new>
#include <stdexcept>

using namespace nereid;
using namespace nereid::runtime;

/// For when there is no memory for an error either: short texts need none. Never freed.
static Error &emergency() {
  alignas(Error) static char storage[sizeof(Error)];
  static Error *const error = [] {
    auto *made = new (storage) Error();
    made->kind = NRD_ERROR_RESOURCES;
    made->name = "OutOfMemory";
    made->message = made->summary = made->tritonText = made->tritonSummary = "out of memory";
    return made;
  }();
  return *error;
}

/// LLVM's containers end the process when they find no memory; here that is an exception as well.
[[gnu::constructor]] static void prepare() {
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { throw std::bad_alloc(); });
  emergency(); // made before threads and forks
}

bool runtime::isEmergency(const Error *error) {
  return error == &emergency();
}

nrd_error *runtime::caught(const char *function) noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc &) {
      return wrap(makeError(NRD_ERROR_RESOURCES, "MemoryError", diag::OutOfMemory, function));
    } catch (const std::length_error &) {
      return wrap(makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::BadApiArgument, function,
                            "size", "what memory can hold", "more"));
    } catch (const std::exception &problem) {
      return wrap(internalError(std::string(function) + ": " + problem.what()));
    } catch (...) {
      return wrap(internalError(std::string(function) + ": an unknown exception"));
    }
  } catch (...) {
    return reinterpret_cast<nrd_error *>(&emergency());
  }
}

nrd_error *runtime::nullArgument(const char *function, const char *argument) {
  return wrap(makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::NullArgument, function, argument));
}

nrd_error *runtime::nullArray(const char *function, const char *argument, const char *count,
                              int64_t size) {
  return wrap(makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::NullArray, function, argument,
                        count, size));
}

bool runtime::hasNull(const void *const *items, size_t count) {
  constexpr size_t mostValues = size_t(1) << 28; // of a tuple
  return (!items && count) || count > mostValues ||
         std::find(items, items + count, nullptr) != items + count;
}

nrd_error *runtime::nullItem(const char *function, const char *argument, const char *count,
                             const void *const *items, size_t size) {
  if (!items && size)
    return nullArray(function, argument, count, int64_t(size));
  if (size > mostItems)
    return badArgument(function, count, "at most " + std::to_string(mostItems),
                       std::to_string(size));
  size_t at = size_t(std::find(items, items + size, nullptr) - items);
  if (at == size)
    return nullptr;
  return nullArgument(function, (std::string(argument) + "[" + std::to_string(at) + "]").c_str());
}

nrd_error *runtime::badArgument(const char *function, const char *argument,
                                std::string_view expected, std::string_view found) {
  return wrap(makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::BadApiArgument, function, argument,
                        expected, found));
}
