// NVIDIA's driver library, opened at run time: one binary serves machines with and without a GPU.
// What it offers is declared in embedded/cuda_interface.h.
#pragma once

#include "embedded/cuda_interface.h"
#include "runtime/error.h"

namespace nereid::runtime::cuda {

using namespace cuda_driver;
using cuda_driver::Device; // not the class of this name

struct Driver {
#define NEREID_DECLARE(Name, Params) Result(*Name) Params = nullptr;
  NEREID_CUDA_FUNCTIONS(NEREID_DECLARE)
#undef NEREID_DECLARE

  int version = 0;     ///< 12040 for CUDA 12.4
  int deviceCount = 0; ///< at least 1

  /// The driver, opened and initialised once; an error says which part is missing.
  static ErrorPtr get(const Driver *&out);
  /// The same without words: null when no GPU can be used.
  static const Driver *tryGet();
  /// The driver for questions about devices that `remember` holds the answers to. They can be asked
  /// in a process, too, that was forked from one in which CUDA was in use (by anyone), where the
  /// driver itself refuses every call; PyTorch compiles kernels in such processes. `get` is an
  /// error there, and `tryGet` null.
  static ErrorPtr known(const Driver *&out);
  static const Driver *tryKnown();
  /// The driver for questions about addresses, which need no device: opened, but not initialised,
  /// so that a program which stays on the CPU does not wait for its GPUs, and may fork. Until
  /// somebody initialises the driver its functions fail, and no memory belongs to it. Null without
  /// a driver.
  static const Driver *tryOpen();

  /// "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered".
  std::string describe(Result result) const;
};

/// Asks the driver all that is ever asked about the devices; before a process forks.
void remember(const Driver &driver);

} // namespace nereid::runtime::cuda
