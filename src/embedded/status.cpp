#include "embedded/status.h"

#include "embedded/guard.h"

#include <cstdarg>
#include <cstdio>
#include <exception>
#include <new>

static thread_local char message[2048];

nrd_status nereid::embedded::fail(nrd_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return status;
}

nrd_status nereid::embedded::caught(const char *function) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc &) {
    return fail(NRD_STATUS_RESOURCES, "`%s`: out of memory", function);
  } catch (const std::exception &problem) {
    return fail(NRD_STATUS_FAILED, "`%s`: %s", function, problem.what());
  } catch (...) {
    return fail(NRD_STATUS_FAILED, "`%s`: an unknown exception", function);
  }
}

const char *nrd_status_message(void) {
  return message;
}
