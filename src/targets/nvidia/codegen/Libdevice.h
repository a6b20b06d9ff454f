// NVIDIA's library of device functions (libdevice): linked into a kernel that calls `__nv_*`.
#pragma once
#include "targets/nvidia/codegen/Architecture.h"

#include "llvm/Support/Error.h"

namespace llvm {
class Module;
} // namespace llvm

namespace nereid::nvidia {

/// Whether the module calls functions of libdevice that it does not define.
bool needsLibdevice(const llvm::Module &module);

/// Links the functions of libdevice that the module calls, and those they call, as internal
/// functions to be inlined. `file`: not the installation's, but this one. `flushSubnormals` picks
/// their variants for flushed fp32 subnormals. An error says what is missing: the library, or the
/// function in it.
llvm::Error linkLibdevice(llvm::Module &module, const Architecture &arch, bool flushSubnormals,
                          llvm::StringRef file = "");

} // namespace nereid::nvidia
