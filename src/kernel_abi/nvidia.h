// What generated NVIDIA code and the code that launches it agree on.
//
// A kernel is one entry of a loadable image (`CompiledKernel::object`, a cubin). Its parameters are
// those of the tile function in order, each with the size and alignment of its type (a pointer 8
// bytes, fp16 and bf16 2, i1 and i8 1), then two pointers: the launch's global scratch and profile
// scratch memory, null when there is none; last the tensor maps that `tensorMaps` describes, 128
// bytes each, aligned to 64. This is the order of Triton's kernels, so that
// PyTorch's launcher can start them.
//
// A launch has numWarps * 32 threads a block along x, `numCtas` blocks a cluster, `sharedBytes`
// bytes of dynamic shared memory; the grid is that of the launch, its x multiplied by numCtas.
// Where `mostSplits` is more than 1, numCtas is 1 and a launch may choose clusters of 2, 4, ... up
// to mostSplits blocks instead; `splitRule` says which are worth it. Where `pairs` is set, numCtas
// is 1, the grid is that of the launch in any case, and if its x is even a launch may have clusters
// of two blocks, each of which runs a program.
// Where `isPersistent`, the launch starts as many blocks or clusters along x as the device runs at
// the same time, or as there are programs if these are fewer, and the second pointer, of profile
// scratch memory, is the number of programs along x; null where every program has a block of its
// own. The axes y and z are those of the grid.
#pragma once

#include "kernel_abi/SplitRule.h"
#include "kernel_abi/TensorMapPlan.h"

#include <cstdint>
#include <string>

namespace nereid::nvidia {

struct LaunchInfo {
  std::string entry;         ///< symbol of the kernel in the image
  int arch = 0;              ///< 90 for sm_90
  bool archSpecific = false; ///< compiled for sm_90a: runs on no other architecture
  int numWarps = 4;
  int numCtas = 1;
  int mostSplits = 1;
  gpu::SplitRule splitRule; ///< where mostSplits is more than 1
  bool pairs = false;
  bool isPersistent = false;      ///< blocks run several programs
  int64_t sharedBytes = 0;        ///< dynamic shared memory of a block
  int64_t globalScratchBytes = 0; ///< global memory of a program
  int64_t globalScratchAlign = 128;
  std::vector<gpu::TensorMapPlan> tensorMaps; ///< the launcher makes them of the arguments
  int registers = 0; ///< of a thread, as the assembler says; 0 when it is not known
  int spills = 0;    ///< bytes of a thread
};

} // namespace nereid::nvidia
