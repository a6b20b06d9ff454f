// Which target a launch compiles for.
//
// The option `target`, else what the process prefers (nrd_set_default_target), else the setting
// NEREID_TARGET, else what the pointers say (nrd_memory): memory of a GPU means the GPU,
// arrays of the host mean the CPU, and where they say nothing a GPU is taken when there is one.
// "cuda" without an architecture means that of the device the launch is for.
#pragma once

#include "runtime/kernel.h"
#include "runtime/launch_state.h"

#include "llvm/ADT/ArrayRef.h"

namespace nereid::runtime {

/// `options` and `launch` may be null. `device` is the GPU's number when that had to be found out,
/// else -1.
ErrorPtr chooseTarget(const Options *options, llvm::ArrayRef<nrd_arg> args,
                      const nrd_launch *launch, TargetName &out, int &device);

/// What the process prefers (nrd_set_default_target), as a number that tells all apart; and as a
/// target, nothing where it goes by the arguments.
inline int preferredCode() {
  return launchState.preferred.load(std::memory_order_relaxed);
}
std::optional<TargetName> preferredTarget();

/// For a compilation from a signature: the CPU unless something says otherwise.
ErrorPtr targetWithoutArguments(const Options &options, TargetName &out);

/// Whether this machine can run what the request compiles; if not, only its texts are made.
bool canLaunch(const CompileRequest &request);

} // namespace nereid::runtime
