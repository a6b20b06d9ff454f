// Arguments of a launch as the slots that compiled code takes, whatever the device.
#pragma once

#include "runtime/kernel.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstddef>
#include <cstring>

namespace nereid::runtime {

/// Packs one argument per parameter of the function. An error for a wrong number of arguments, for
/// one whose kind cannot be passed for the parameter's, for a read-only one that is written, and
/// for one that is not what the parameter was compiled for (ParamSlot::spec).
ErrorPtr packArguments(const nrd_kernel &kernel, llvm::ArrayRef<nrd_arg> args, Slots &slots);

/// How usual arguments are packed for the parameter.
Packing packingOf(const ParamSlot &slot);

/// Stands for a constant that is not given.
constexpr uint8_t notGiven = 0xff;
/// An argument that the constant of a kernel accepts.
inline nrd_arg constantArgument(const Packing &packing) {
  nrd_arg arg{};
  arg.kind = packing.kind == Packing::Constant ? uint8_t(packing.head) : notGiven;
  arg.u = packing.constant;
  return arg;
}

/// Of the first 4 bytes of an argument: where it lies, for `packUsual`.
constexpr uint32_t anyMemory = 0xff000000;
inline uint32_t memoryOf(int device) {
  return uint32_t(NRD_MEMORY_CUDA + device) << 24;
}

/// Packs one argument of the usual kind for a parameter that is passed, or compares one that is
/// not; false for what needs more thought. A pointer must be of unknown memory or of that in
/// `here`, unless `ignored` is `anyMemory`.
inline bool packUsual(const nrd_arg &arg, const Packing &packing, uint64_t &slot, uint32_t ignored,
                      uint32_t here) {
  static_assert(offsetof(nrd_arg, kind) == 0 && offsetof(nrd_arg, memory) == 3);
  uint32_t head;
  std::memcpy(&head, &arg, sizeof head);
  uint64_t bits = slot = arg.u;
  if (packing.kind == Packing::Pointer) {
    uint32_t found = head & packing.mask & ~ignored;
    return (found == packing.head || found == packing.head + here) && !(bits & packing.zeroBits);
  }
  if (packing.kind == Packing::Skipped)
    return true;
  if (uint8_t(head) != uint8_t(packing.head))
    return false;
  if (packing.kind == Packing::Int32)
    return int64_t(bits) == int32_t(bits) && !(bits & packing.zeroBits);
  if (packing.kind == Packing::Float) {
    float narrow = float(arg.f);
    slot = 0;
    std::memcpy(&slot, &narrow, sizeof narrow);
    return true;
  }
  if (packing.kind == Packing::Double)
    return true;
  return packing.kind == Packing::Constant
             ? bits == packing.constant
             : packing.kind == Packing::Int64 && !(bits & packing.zeroBits);
}

/// Whether `p` and `memory` of the argument mean a place in memory.
inline bool pointsToMemory(const nrd_arg &arg) {
  return arg.kind == NRD_ARG_POINTER || arg.kind == NRD_ARG_DESCRIPTOR;
}

/// Whether some axis of the grid is 0; an error when one is negative (as a 32-bit number).
ErrorPtr checkGrid(const nrd_launch &launch, bool &empty);

} // namespace nereid::runtime
