// Which target a launch compiles for.
//
// The option `target`, else what the process demands (nrd_set_default_target), else the setting
// NEREID_TARGET, else where the pointers point to (nrd_memory):
//
//   memory of a GPU among them         that GPU; a launch refuses what it cannot reach
//   pageable memory of the host        the CPU, for pinned memory beside it, too
//   pinned memory alone                a GPU when there is one
//   arrays of the host alone           the CPU, whatever memory they lie in
//   tensors without elements, on the   the CPU when nothing else says
//   host
//   nothing, null                      a GPU when there is one
//
// "A GPU when there is one" is what the process may have chosen otherwise
// (nrd_set_fallback_target). Strict mode sends tensors of the host there, too; a GPU's launch then
// refuses them. "cuda" without an architecture means that of the device the launch is for.
#pragma once

#include "runtime/kernel.h"
#include "runtime/launch_state.h"

#include "llvm/ADT/ArrayRef.h"

namespace nereid::runtime {

/// `options` and `launch` may be null. `device` is the GPU's number when that had to be found out,
/// else -1.
ErrorPtr chooseTarget(const Options *options, llvm::ArrayRef<nrd_arg> args,
                      const nrd_launch *launch, TargetName &out, int &device);

/// The target that the process has set, as a unique number; and as a target: the required one
/// (nrd_set_default_target), and the one for launches whose arguments do not decide
/// (nrd_set_fallback_target).
inline int preferredCode() {
  return launchState.preferred.load(std::memory_order_relaxed);
}
std::optional<TargetName> preferredTarget();
std::optional<TargetName> fallbackTarget();

/// Whether a pointer means the CPU: it is not null, and to pageable memory of the host, which the
/// driver is queried for, or to an array of the host.
bool isPageable(const nrd_arg &arg);

/// For a compilation from a signature: the CPU unless something says otherwise.
ErrorPtr targetWithoutArguments(const Options &options, TargetName &out);

/// Whether this machine can run what the request compiles; if not, only its texts are made.
bool canLaunch(const CompileRequest &request);

} // namespace nereid::runtime
