// CHECK(condition): counts and reports what does not hold; failures() is main's result.
#pragma once

#include <cstdio>
#include <cstring>

inline int &failureCount() {
  static int count = 0;
  return count;
}

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);          \
      ++failureCount();                                                                            \
    }                                                                                              \
  } while (false)

/// Checks that a text is the one that is expected.
#define CHECK_TEXT(text, expected)                                                                 \
  do {                                                                                             \
    if (std::strcmp(text, expected) != 0) {                                                        \
      std::fprintf(stderr, "%s:%d: expected: %s\n   found: %s\n", __FILE__, __LINE__, expected,    \
                   static_cast<const char *>(text));                                               \
      ++failureCount();                                                                            \
    }                                                                                              \
  } while (false)

inline int failures() {
  std::printf("%d failures\n", failureCount());
  return failureCount() ? 1 : 0;
}
