#include "runtime/devices/arguments.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringExtras.h"

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
    if (kind == ScalarKind::Pointer)
      return false;
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

ErrorPtr readOnly(const nrd_kernel &kernel, const ParamSlot &slot) {
  return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::ReadOnlyArgument,
                   std::string_view(slot.name), std::string_view(kernel.name));
}

ErrorPtr badArgument(const nrd_kernel &kernel, const ParamSlot &slot, std::string_view expected,
                     std::string_view found) {
  return makeError(NRD_ERROR_ARGUMENT, "TypeError", diag::LaunchBadArgument,
                   std::string_view(slot.name), std::string_view(kernel.name), expected, found);
}

/// Base, sizes, strides but the last.
ErrorPtr packDescriptor(const nrd_kernel &kernel, const ParamSlot &slot, const nrd_arg &arg,
                        Slots &slots) {
  if (arg.kind != NRD_ARG_DESCRIPTOR || !arg.descriptor ||
      arg.descriptor->rank != slot.descriptorRank)
    return badArgument(kernel, slot,
                       slot.descriptorRank
                           ? "a tensor descriptor of rank " + std::to_string(slot.descriptorRank)
                           : "no tensor descriptor",
                       kindText(arg));
  if (slot.spec)
    if (ErrorPtr error = checkDescriptor(arg, *slot.spec, slot.name, kernel.name))
      return error;
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

/// The wrong number of arguments, with what the compiled kernel takes.
ErrorPtr wrongCount(const nrd_kernel &kernel, size_t given) {
  std::string passed, constants;
  size_t passedCount = 0;
  const ParamSlot *missing = nullptr; ///< the first that is not given
  for (const ParamSlot &slot : kernel.params) {
    std::string &list = slot.passed ? passed : constants;
    list += (list.empty() ? "`" : ", `") + slot.name + "`";
    if (slot.passed && passedCount++ == given)
      missing = &slot;
  }
  DiagnosticEngine engine;
  Diagnostic &report =
      missing ? engine.report(diag::LaunchMissingArgument, {}, kernel.name, missing->name)
              : engine.report(
                    diag::LaunchTooManyArguments, {}, kernel.name,
                    int64_t(given > kernel.params.size() ? kernel.params.size() : passedCount),
                    int64_t(given));
  if (passed.empty())
    passed = "nothing";
  if (constants.empty())
    report.note(diag::CompiledTakes, {}, passed);
  else
    report.note(diag::CompiledTakesConstants, {}, passed, constants);
  ErrorPtr error = errorFrom(engine, NRD_ERROR_ARGUMENT);
  error->pythonClass = "TypeError";
  return error;
}

std::string integerText(const nrd_arg &arg) {
  return arg.kind == NRD_ARG_UINT ? llvm::utostr(arg.u) : llvm::itostr(arg.i);
}

/// Why the argument cannot be passed for a parameter that was compiled for something else; null
/// when it can. Their kinds fit.
ErrorPtr brokenPromise(const nrd_kernel &kernel, const ParamSlot &slot, const nrd_arg &arg) {
  const frontend::ParamSpec &spec = *slot.spec;
  bool isMultiple = spec.divisibility % 16 == 0;
  if (arg.kind == NRD_ARG_POINTER) {
    if (arg.dtype != NRD_VOID && arg.dtype != uint8_t(slot.type))
      return badArgument(kernel, slot, pointerText(uint8_t(slot.type)), pointerText(arg.dtype));
    if (isMultiple && uintptr_t(arg.p) % 16)
      return badArgument(kernel, slot,
                         "an address that is a multiple of 16, as `" + signatureText(spec) +
                             "` promises",
                         "0x" + llvm::utohexstr(uintptr_t(arg.p), /*LowerCase=*/true));
    return nullptr;
  }
  if (arg.kind != NRD_ARG_INT && arg.kind != NRD_ARG_UINT)
    return nullptr;
  if (isMultiple && arg.u % 16)
    return badArgument(kernel, slot, "a multiple of 16, as `" + signatureText(spec) + "` promises",
                       integerText(arg));
  return nullptr;
}

/// A constant that is not the one in the code.
ErrorPtr checkConstant(const nrd_kernel &kernel, const ParamSlot &slot, const nrd_arg &arg) {
  if (!slot.spec || arg.kind == notGiven || isConstant(arg, slot.spec->constant))
    return nullptr;
  std::string found;
  if (arg.kind == NRD_ARG_INT || arg.kind == NRD_ARG_UINT)
    found = "`" + integerText(arg) + "`";
  else if (arg.kind == NRD_ARG_VALUE && arg.v)
    found = "`" + arg.v->value.repr() + "`";
  else
    found = kindText(arg);
  return badArgument(kernel, slot,
                     "`" + slot.spec->constant.repr() + "`, which it was compiled for", found);
}

/// An integer that the parameter's type cannot hold.
ErrorPtr checkRange(const ParamSlot &slot, const nrd_arg &arg) {
  if (slot.kind == ScalarKind::I1 ? !slot.spec || arg.u <= 1 : fits(arg, slot.type))
    return nullptr;
  return makeError(NRD_ERROR_ARGUMENT, "OverflowError", diag::ArgumentOutOfRange, integerText(arg),
                   std::string_view(slot.name), signatureText(frontend::Type::of(slot.type)));
}

} // namespace

ErrorPtr runtime::checkGrid(const nrd_launch &launch, bool &empty) {
  empty = false;
  for (int axis = 0; axis < 3; ++axis) {
    if (launch.grid[axis] > uint32_t(INT32_MAX))
      return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::BadGrid, axis,
                       launch.grid[axis] == UINT32_MAX ? -1 : int64_t(launch.grid[axis]));
    empty |= launch.grid[axis] == 0;
  }
  return nullptr;
}

Packing runtime::packingOf(const ParamSlot &slot) {
  Packing packing;
  nrd_arg expected{}, mask{};
  mask.kind = mask.memory = 0xff;
  const frontend::ParamSpec *spec = slot.spec;
  auto finish = [&](Packing::Kind kind) {
    packing.kind = kind;
    std::memcpy(&packing.head, &expected, sizeof packing.head);
    std::memcpy(&packing.mask, &mask, sizeof packing.mask);
    if (slot.passed && spec && spec->divisibility % 16 == 0)
      packing.zeroBits = 15;
    return packing;
  };
  if (!slot.passed) {
    if (!spec)
      return packing;
    const frontend::Value &value = spec->constant;
    if (value.isNone()) {
      expected.kind = NRD_ARG_NONE;
    } else if (auto *flag = value.getIf<bool>()) {
      expected.kind = NRD_ARG_BOOL;
      packing.constant = *flag;
    } else if (auto *integer = value.getIf<llvm::APSInt>();
               integer && integer->isSigned() && integer->getSignificantBits() <= 64) {
      expected.kind = NRD_ARG_INT;
      packing.constant = uint64_t(integer->getExtValue());
    } else {
      expected.kind = notGiven; // what is given is compared in `checkConstant`
    }
    return finish(Packing::Constant);
  }
  if (slot.descriptorRank)
    return finish(Packing::Other);
  bool isUnsigned = frontend::info(slot.type).kind == frontend::DTypeClass::UnsignedInt;
  switch (slot.kind) {
  case ScalarKind::Pointer:
    expected.kind = NRD_ARG_POINTER;
    mask.read_only = slot.written || !spec ? 0xff : 0;
    if (spec) {
      expected.dtype = uint8_t(slot.type);
      mask.dtype = 0xff;
    }
    return finish(Packing::Pointer);
  case ScalarKind::I32:
  case ScalarKind::I64:
    expected.kind = NRD_ARG_INT;
    return finish(isUnsigned                     ? Packing::Other
                  : slot.kind == ScalarKind::I32 ? Packing::Int32
                                                 : Packing::Int64);
  case ScalarKind::F32:
    expected.kind = NRD_ARG_FLOAT;
    return finish(Packing::Float);
  case ScalarKind::F64:
    expected.kind = NRD_ARG_FLOAT;
    return finish(Packing::Double);
  default:
    return finish(Packing::Other);
  }
}

ErrorPtr runtime::packArguments(const nrd_kernel &kernel, llvm::ArrayRef<nrd_arg> args,
                                Slots &slots) {
  if (args.size() != kernel.params.size())
    return wrongCount(kernel, args.size());
  // As long as the arguments are usual ones, each takes a slot and no call.
  slots.resize_for_overwrite(args.size());
  uint64_t *end = slots.data();
  size_t first = 0;
  for (size_t known = kernel.packing.size(); first < known; ++first) {
    const Packing &packing = kernel.packing[first];
    if (!packUsual(args[first], packing, *end, anyMemory, 0)) [[unlikely]]
      break;
    end += packing.kind > Packing::Constant;
  }
  slots.truncate(size_t(end - slots.data()));
  for (size_t i = first; i < args.size(); ++i) {
    const ParamSlot &slot = kernel.params[i];
    const nrd_arg &arg = args[i];
    if (!slot.passed) {
      if (ErrorPtr error = checkConstant(kernel, slot, arg)) [[unlikely]]
        return error;
      continue;
    }
    uint64_t value;
    if (slot.descriptorRank || arg.kind == NRD_ARG_DESCRIPTOR) [[unlikely]] {
      if (ErrorPtr error = packDescriptor(kernel, slot, arg, slots))
        return error;
      continue;
    }
    bool isInteger = arg.kind == NRD_ARG_INT || arg.kind == NRD_ARG_UINT;
    if (!pack(arg, slot.kind, value)) [[unlikely]] {
      // By the rules of a host an integer is an address.
      if (slot.kind != ScalarKind::Pointer || !isInteger || slot.spec)
        return badArgument(kernel, slot,
                           slot.kind == ScalarKind::Pointer ? "a pointer"
                           : isFloatKind(slot.kind)         ? "a number"
                                                            : "an integer",
                           kindText(arg));
      value = arg.u;
    }
    if (slot.written && arg.read_only) [[unlikely]]
      return readOnly(kernel, slot);
    if (isInteger && slot.kind != ScalarKind::Pointer && !isFloatKind(slot.kind))
      if (ErrorPtr error = checkRange(slot, arg)) [[unlikely]]
        return error;
    if (slot.spec)
      if (ErrorPtr error = brokenPromise(kernel, slot, arg)) [[unlikely]]
        return error;
    slots.push_back(value);
  }
  return nullptr;
}
