#include "runtime/devices/cpu.h"

#include "runtime/devices/arguments.h"
#include "runtime/devices/device.h"
#include "runtime/function.h"
#include "support/call_notes.h"
#include "support/first_use.h"
#include "support/text.h"
#include "targets/cpu/executor/Executor.h"
#include "targets/cpu/executor/Tiles.h"
#include "targets/cpu/support_library/SupportLibrary.h"

#include "llvm/ADT/StringExtras.h"

#include <cstring>

using namespace nereid;
using namespace nereid::runtime;
using targets::ScalarKind;

namespace {

/// No memory lies there.
constexpr uint64_t firstPageBytes = 4096;

/// Where `column` is, counted from 1 in the original file, in a line of `file`.
SourceRange columnIn(const SourceFile &file, uint32_t line, int column) {
  SourceRange range = file.lineRange(line);
  int skipped = int(file.origin().columnShift) + 1;
  for (; skipped < column && range.begin < range.end; ++skipped)
    range.begin += std::max(1u, decodeUtf8(file.text(), range.begin).length);
  return {range.begin, range.begin};
}

/// Places as spans of source texts: the kernel's own, and a text of its own for each line of the
/// functions that it calls.
class Spans {
public:
  explicit Spans(const SourceFile &kernel) : kernel(kernel) {}
  /// Of no text when the line is not known.
  SourceSpan of(const cpu::SitePlace &place) {
    if (place.line <= 0)
      return {};
    if (place.file == kernel.name())
      if (auto line = kernel.indexOfLine(uint32_t(place.line)))
        return {kernel, columnIn(kernel, *line, place.column)};
    if (place.source.empty())
      return {};
    lines.push_back(SourceFile::create(place.file, place.source,
                                       {uint32_t(place.line), uint32_t(place.indent)}));
    return {*lines.back(), columnIn(*lines.back(), 0, place.column)};
  }

private:
  const SourceFile &kernel;
  std::vector<SourceFilePtr> lines;
};

ErrorPtr failureError(const nrd_kernel &kernel, llvm::ArrayRef<nrd_arg> args,
                      const cpu::Failure &failure, const nrd_launch &launch) {
  static constinit FirstUse<const cpu::Site> nowhere;
  const auto *table = static_cast<const cpu::SiteTable *>(kernel.code->sites.get());
  const cpu::Site &site = table && failure.site >= 0 && size_t(failure.site) < table->sites.size()
                              ? table->sites[failure.site]
                              : nowhere.get();
  const frontend::Function &function = kernel.request.function->function;
  Spans spans(function.module().source());
  SourceSpan span = site.places.empty() ? SourceSpan() : spans.of(site.places.front());
  DiagnosticEngine engine;
  Diagnostic *diagnostic = nullptr;
  switch (failure.kind) {
  case cpu::FailureKind::Assert:
    diagnostic = &engine.report(diag::DeviceAssertFailed, span, site.text);
    break;
  case cpu::FailureKind::OutOfBounds: {
    int64_t offset = failure.details[1];
    int64_t number = failure.details[2];
    // The argument's number counts what is passed to the code.
    const nrd_arg *arg = nullptr;
    const ParamSlot *slot = nullptr;
    for (size_t i = 0, passed = 0; i < kernel.params.size();
         passed += kernel.params[i++].codeParams())
      if (kernel.params[i].passed && int64_t(passed) == number) {
        slot = &kernel.params[i];
        arg = &args[i];
      }
    if (!slot) {
      diagnostic = &engine.report(diag::AccessOutsideArguments, span,
                                  "0x" + llvm::utohexstr(uint64_t(offset)));
      break;
    }
    if (!pointsToMemory(*arg) || !arg->high) { // of those without an extent, only null is refused
      diagnostic = &engine.report(diag::AccessThroughNull, span, slot->name);
      break;
    }
    unsigned bits =
        arg->dtype < NRD_FP64 + 1 ? frontend::info(frontend::DType(arg->dtype)).bits : 8;
    int64_t size = std::max<int64_t>(1, bits / 8);
    auto low = reinterpret_cast<intptr_t>(arg->low), base = reinterpret_cast<intptr_t>(arg->p);
    auto high = reinterpret_cast<intptr_t>(arg->high);
    auto floorDiv = [](int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); };
    diagnostic = &engine.report(diag::AccessOutOfBounds, span, floorDiv(offset, size), slot->name,
                                floorDiv(low - base, size), floorDiv(high - base, size) - 1);
    break;
  }
  case cpu::FailureKind::Overflow:
    diagnostic = &engine.report(diag::OffsetOverflow, span);
    break;
  case cpu::FailureKind::PoisonUse: // poison shows in the results, nothing stops for it
  case cpu::FailureKind::None:
    return internalError("a program failed without a reason");
  }
  auto addPlace = [&](const cpu::SitePlace &place) {
    if (place.line > 0)
      diagnostic->note(diag::AtPlace, SourceSpan(), place.file, place.line);
  };
  if (!span && !site.places.empty())
    addPlace(site.places.front());
  std::vector<SourceSpan> calls;
  for (const cpu::SitePlace &place : llvm::drop_begin(site.places, !site.places.empty()))
    calls.push_back(spans.of(place));
  addCalls(*diagnostic, calls);
  int64_t x = launch.grid[0], y = launch.grid[1], program = failure.program;
  diagnostic->note(diag::InProgram, SourceSpan(), program % x, program / x % y, program / (x * y));
  bool inKernel = span.file == &function.module().source();
  return errorFrom(engine, NRD_ERROR_RUNTIME,
                   inKernel ? std::optional(function.range()) : std::nullopt);
}

class CpuDevice final : public Device {
public:
  ErrorPtr launch(const nrd_kernel &kernel, llvm::ArrayRef<nrd_arg> args,
                  const nrd_launch &launch) const override;
  bool launchPacked(const nrd_kernel &kernel, llvm::ArrayRef<nrd_arg> args, Slots &slots,
                    const ReadyKernel *, const nrd_launch &launch, ErrorPtr &error) const override {
    error = run(kernel, args, slots, launch);
    return true;
  }
  void describe(const nrd_kernel &kernel, llvm::json::Object &out) const override;

private:
  static ErrorPtr run(const nrd_kernel &kernel, llvm::ArrayRef<nrd_arg> args, Slots &slots,
                      const nrd_launch &launch);
};

} // namespace

/// Whether programs may start in any order, and the places that assertions and prints refer to, for
/// who embeds the code.
void CpuDevice::describe(const nrd_kernel &kernel, llvm::json::Object &out) const {
  out["independent_programs"] = kernel.code->independent;
  out["uses_tiles"] = kernel.code->usesTiles;
  const auto *table = static_cast<const cpu::SiteTable *>(kernel.code->sites.get());
  if (!table || kernel.checked)
    return;
  llvm::json::Array sites;
  for (const cpu::Site &site : table->sites) {
    llvm::json::Array operands;
    for (const cpu::PrintOperand &operand : site.operands)
      operands.push_back(llvm::json::Object{{"kind", int(operand.kind)},
                                            {"shape", llvm::json::Array(operand.shape)}});
    const cpu::SitePlace place = site.places.empty() ? cpu::SitePlace() : site.places.front();
    sites.push_back(llvm::json::Object{{"file", llvm::json::fixUTF8(place.file)},
                                       {"line", place.line},
                                       {"column", place.column},
                                       {"text", llvm::json::fixUTF8(site.text)},
                                       {"hex", site.hex},
                                       {"operands", std::move(operands)}});
  }
  out["sites"] = std::move(sites);
}

ErrorPtr CpuDevice::launch(const nrd_kernel &kernel, llvm::ArrayRef<nrd_arg> args,
                           const nrd_launch &launch) const {
  Slots slots;
  if (ErrorPtr error = packArguments(kernel, args, slots))
    return error;
  for (size_t i = 0; i < args.size(); ++i)
    if (pointsToMemory(args[i]) && args[i].memory >= NRD_MEMORY_CUDA) [[unlikely]]
      return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::PointerNotOnCpu,
                       kernel.params[i].name,
                       "cuda:" + std::to_string(args[i].memory - NRD_MEMORY_CUDA));
  return run(kernel, args, slots, launch);
}

ErrorPtr CpuDevice::run(const nrd_kernel &kernel, llvm::ArrayRef<nrd_arg> args, Slots &slots,
                        const nrd_launch &launch) {
  bool empty;
  if (ErrorPtr error = checkGrid(launch, empty))
    return error;
  if (empty)
    return nullptr;
  if (kernel.checked)
    // The extents of the pointers, in order; where they are not known, nothing for a null pointer,
    // else all of memory but its first page.
    for (size_t i = 0; i < args.size(); ++i)
      if (kernel.params[i].passed && kernel.params[i].kind == ScalarKind::Pointer) {
        bool known = pointsToMemory(args[i]) && args[i].high;
        bool null = !(pointsToMemory(args[i]) ? uint64_t(uintptr_t(args[i].p)) : args[i].u);
        slots.push_back(known ? uint64_t(uintptr_t(args[i].low)) : null ? 0 : firstPageBytes);
        slots.push_back(known ? uint64_t(uintptr_t(args[i].high)) : null ? 0 : uint64_t(INT64_MAX));
      }

  cpu::LaunchOptions options;
  options.threads = int(launch.num_threads ? launch.num_threads : kernel.request.options.threads());
  options.cooperative = kernel.request.options.cooperative;
  options.independent = kernel.code->independent;
  options.scratchBytes = kernel.code->scratchBytes;
  options.sites = static_cast<const cpu::SiteTable *>(kernel.code->sites.get());
  int32_t grid[3] = {int32_t(launch.grid[0]), int32_t(launch.grid[1]), int32_t(launch.grid[2])};
  cpu::LaunchResult result =
      cpu::run(reinterpret_cast<cpu::KernelFn>(kernel.entry), slots.data(), grid, options);
  switch (result.status) {
  case cpu::LaunchStatus::Ok:
    return nullptr;
  case cpu::LaunchStatus::ProgramFailed:
    return failureError(kernel, args, result.failure, launch);
  case cpu::LaunchStatus::BadGrid:
    return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::TooManyPrograms);
  case cpu::LaunchStatus::TooManyPrograms:
    return makeError(NRD_ERROR_RESOURCES, "ValueError", diag::TooManyCooperative,
                     cpu::cooperativeLimit);
  case cpu::LaunchStatus::NoThreads:
    return makeError(NRD_ERROR_RESOURCES, "", diag::NoThreads);
  case cpu::LaunchStatus::NoMemory:
    return makeError(NRD_ERROR_RESOURCES, "", diag::NoScratchMemory,
                     int64_t(kernel.code->scratchBytes));
  }
  return internalError("unknown status of a launch");
}

ErrorPtr Device::properties(const nrd_kernel &, int, nrd_kernel_properties &out) const {
  out = {};
  return nullptr;
}

TileReport runtime::tileRegisters() {
  cpu::TileAccess access = cpu::requestTiles();
  switch (access.state) {
  case cpu::TileState::Absent:
    break;
  case cpu::TileState::Granted:
    return {"granted", nullptr};
  case cpu::TileState::Refused:
    return {"refused", std::strerror(access.error)};
  }
  return {"absent", nullptr};
}

int runtime::cpuCores() {
  return cpu::visibleCores();
}

int runtime::cpuThreads() {
  return cpu::threadCount();
}

const Device &runtime::cpuDevice() {
  static const CpuDevice device;
  return device;
}
