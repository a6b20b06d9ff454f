#include "embedded/status.h"

#include <cstdarg>
#include <cstdio>

static thread_local char message[2048];

nrd_status nereid::embedded::fail(nrd_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return status;
}

const char *nrd_status_message(void) {
  return message;
}
