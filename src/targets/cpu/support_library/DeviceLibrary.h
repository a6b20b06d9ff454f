// NVIDIA's device library for the CPU: a function for every symbol that `tl.extra.libdevice` names,
// so that a kernel means the same on both targets. Where the C library has the function it is that
// one; the rest is computed here, in double precision. Their accuracy is tested by
// tests/language/test_libdevice.py.
#pragma once
#include "targets/cpu/support_library/SupportLibrary.h"

namespace nereid::cpu {

/// The functions by their symbols: `__nv_tanhf` takes and gives a float, `__nv_clzll` takes an
/// int64_t and gives an int32_t...
std::span<const Symbol> deviceLibrary();

} // namespace nereid::cpu
