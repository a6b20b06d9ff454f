// No exception leaves a function of the small run time. It throws nothing itself, but memory can
// run out, and the system can refuse a lock. The files that define such functions, and those that
// hold locks below them, are compiled with exceptions (sources.cmake).
//
// A thread that pthread_exit() ends unwinds too: that is no exception and goes on.
#pragma once

#include "nereid/device.h"

#include <cxxabi.h>

#define NRD_CATCH_STATUS                                                                           \
  catch (const abi::__forced_unwind &) {                                                           \
    throw;                                                                                         \
  }                                                                                                \
  catch (...) {                                                                                    \
    return nereid::embedded::caught(__func__);                                                     \
  }
#define NRD_CATCH_GIVE(...)                                                                        \
  catch (const abi::__forced_unwind &) {                                                           \
    throw;                                                                                         \
  }                                                                                                \
  catch (...) {                                                                                    \
    return __VA_ARGS__;                                                                            \
  }

namespace nereid::embedded {

/// The exception that is being handled, as what `function` answers.
nrd_status caught(const char *function) noexcept;

} // namespace nereid::embedded
