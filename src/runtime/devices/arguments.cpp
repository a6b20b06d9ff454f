#include "runtime/devices/arguments.h"

#include "llvm/ADT/APFloat.h"

#include <cstring>

using namespace nereid;
using namespace nereid::runtime;
using targets::ScalarKind;

namespace {

uint64_t halfBits(double value, const llvm::fltSemantics &semantics) {
  llvm::APFloat number(value);
  bool inexact;
  number.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &inexact);
  return number.bitcastToAPInt().getZExtValue();
}

bool isFloatKind(ScalarKind kind) {
  return kind == ScalarKind::F16 || kind == ScalarKind::BF16 || kind == ScalarKind::F32 ||
         kind == ScalarKind::F64;
}

/// The slot of one argument; false when its kind cannot be passed for the parameter's.
inline bool pack(const nrd_arg &arg, ScalarKind kind, uint64_t &slot) {
  switch (arg.kind) {
  case NRD_ARG_POINTER:
    slot = uint64_t(uintptr_t(arg.p));
    return kind == ScalarKind::Pointer;
  case NRD_ARG_INT:
  case NRD_ARG_UINT:
  case NRD_ARG_BOOL:
    if (!isFloatKind(kind)) {
      slot = kind == ScalarKind::I1 ? arg.u != 0 : arg.u;
      return true;
    }
    break;
  case NRD_ARG_FLOAT:
    if (!isFloatKind(kind))
      return false;
    break;
  default:
    return false;
  }
  double value = arg.kind == NRD_ARG_FLOAT  ? arg.f
                 : arg.kind == NRD_ARG_UINT ? double(arg.u)
                                            : double(arg.i);
  switch (kind) {
  case ScalarKind::F32: {
    float narrow = float(value);
    slot = 0;
    std::memcpy(&slot, &narrow, sizeof narrow);
    return true;
  }
  case ScalarKind::F64:
    std::memcpy(&slot, &value, sizeof value);
    return true;
  case ScalarKind::F16:
    slot = halfBits(value, llvm::APFloat::IEEEhalf());
    return true;
  default:
    slot = halfBits(value, llvm::APFloat::BFloat());
    return true;
  }
}

/// The same for what most launches pass; false also for what needs more thought.
inline bool packUsual(const nrd_arg &arg, Packing packing, uint64_t &slot) {
  slot = arg.u;
  if (packing == Packing::Pointer)
    return arg.kind == NRD_ARG_POINTER && !arg.read_only;
  if (packing == Packing::Integer)
    return arg.kind == NRD_ARG_INT;
  if (packing == Packing::Skipped)
    return true;
  float narrow = float(arg.f);
  slot = 0;
  std::memcpy(&slot, &narrow, sizeof narrow);
  return packing == Packing::Float && arg.kind == NRD_ARG_FLOAT;
}

ErrorPtr readOnly(const nrd_kernel &kernel, const ParamSlot &slot) {
  return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::ReadOnlyArgument,
                   std::string_view(slot.name), std::string_view(kernel.name));
}

/// Base, sizes, strides but the last.
ErrorPtr packDescriptor(const nrd_kernel &kernel, const ParamSlot &slot, const nrd_arg &arg,
                        Slots &slots) {
  if (arg.kind != NRD_ARG_DESCRIPTOR || arg.descriptor->rank != slot.descriptorRank)
    return makeError(NRD_ERROR_ARGUMENT, "TypeError", diag::LaunchBadArgument,
                     std::string_view(slot.name), std::string_view(kernel.name),
                     slot.descriptorRank
                         ? "a tensor descriptor of rank " + std::to_string(slot.descriptorRank)
                         : "no tensor descriptor",
                     kindText(arg));
  if (slot.written && arg.read_only)
    return readOnly(kernel, slot);
  unsigned rank = slot.descriptorRank;
  slots.push_back(uint64_t(uintptr_t(arg.p)));
  for (unsigned i = 0; i < rank; ++i)
    slots.push_back(uint64_t(arg.descriptor->shape[i]));
  for (unsigned i = 0; i + 1 < rank; ++i)
    slots.push_back(uint64_t(arg.descriptor->strides[i]));
  return nullptr;
}

} // namespace

ErrorPtr runtime::checkGrid(const nrd_launch &launch, bool &empty) {
  empty = false;
  for (int axis = 0; axis < 3; ++axis) {
    if (launch.grid[axis] > uint32_t(INT32_MAX))
      return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::BadGrid, axis,
                       int64_t(int32_t(launch.grid[axis])));
    empty |= launch.grid[axis] == 0;
  }
  return nullptr;
}

ErrorPtr runtime::packArguments(const nrd_kernel &kernel, llvm::ArrayRef<nrd_arg> args,
                                Slots &slots) {
  if (args.size() != kernel.params.size())
    return args.size() < kernel.params.size()
               ? makeError(NRD_ERROR_ARGUMENT, "TypeError", diag::LaunchMissingArgument,
                           std::string_view(kernel.name),
                           std::string_view(kernel.params[args.size()].name))
               : makeError(NRD_ERROR_ARGUMENT, "TypeError", diag::LaunchTooManyArguments,
                           std::string_view(kernel.name), int64_t(kernel.params.size()),
                           int64_t(args.size()));
  // As long as the arguments are usual ones, each takes a slot and no call.
  slots.resize_for_overwrite(args.size());
  uint64_t *end = slots.data();
  size_t first = 0;
  for (size_t known = kernel.packing.size(); first < known; ++first) {
    Packing packing = kernel.packing[first];
    if (!packUsual(args[first], packing, *end)) [[unlikely]]
      break;
    end += packing != Packing::Skipped;
  }
  slots.truncate(size_t(end - slots.data()));
  for (size_t i = first; i < args.size(); ++i) {
    const ParamSlot &slot = kernel.params[i];
    if (!slot.passed)
      continue;
    uint64_t value;
    if (slot.descriptorRank || args[i].kind == NRD_ARG_DESCRIPTOR) [[unlikely]] {
      if (ErrorPtr error = packDescriptor(kernel, slot, args[i], slots))
        return error;
      continue;
    }
    if (!pack(args[i], slot.kind, value)) [[unlikely]] {
      // None for a pointer whose type is forced is a null pointer.
      if (!(slot.kind == ScalarKind::Pointer &&
            (args[i].kind == NRD_ARG_INT || args[i].kind == NRD_ARG_UINT)))
        return makeError(NRD_ERROR_ARGUMENT, "TypeError", diag::LaunchBadArgument,
                         std::string_view(slot.name), std::string_view(kernel.name),
                         slot.kind == ScalarKind::Pointer ? "a pointer"
                         : isFloatKind(slot.kind)         ? "a number"
                                                          : "an integer",
                         kindText(args[i]));
      value = args[i].u;
    }
    if (slot.written && args[i].read_only) [[unlikely]]
      return readOnly(kernel, slot);
    slots.push_back(value);
  }
  return nullptr;
}
