#include "runtime/compile.h"

#include "explain/Report.h"
#include "frontend/frontend.h"
#include "frontend/standalone_host.h"
#include "ir/tile/Dialect.h"
#include "runtime/c_host.h"
#include "runtime/cache/kernels.h"
#include "runtime/function.h"
#include "support/settings.h"
#include "targets/PassTimes.h"
#include "transforms/Explain.h"
#include "transforms/Passes.h"
#include "transforms/Pipeline.h"
#include "transforms/Provenance.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"

#include <chrono>

using namespace nereid;
using namespace nereid::runtime;

namespace {

class Clock {
public:
  explicit Clock(std::vector<targets::StageTime> &times) : times(times) {}
  /// Ends a stage that began where the last one ended.
  void lap(const char *name) {
    auto now = std::chrono::steady_clock::now();
    times.push_back({name, std::chrono::duration<double, std::milli>(now - last).count()});
    last = now;
  }
  void skip() { last = std::chrono::steady_clock::now(); }

private:
  std::vector<targets::StageTime> &times;
  std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
};

/// MLIR's own complaints: never shown as such, but part of the report of an internal error.
class Complaints {
public:
  explicit Complaints(mlir::MLIRContext &context)
      : handler(&context, [this](mlir::Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error && text.size() < 2000)
            text += (text.empty() ? "" : "; ") + diagnostic.str();
          return mlir::success();
        }) {}
  std::string text;

private:
  mlir::ScopedDiagnosticHandler handler;
};

mlir::func::FuncOp kernelOf(mlir::ModuleOp module) {
  for (auto function : module.getOps<mlir::func::FuncOp>())
    if (function->hasAttr("tile.kernel"))
      return function;
  return {};
}

/// Identifies what a kernel is made of.
std::string hashOf(const CompileRequest &request) {
  const frontend::Function &function = request.function->function;
  std::string identity(function.module().source().text(function.range()));
  for (const frontend::ParamSpec &spec : request.specs)
    identity += "," + signatureText(spec);
  identity += request.options.text();
  return llvm::utohexstr(llvm::xxh3_64bits(identity), true, 16);
}

/// The files that take the place of stages: the one that the option `ir_override` names, and those
/// of the override folder.
class StageFiles {
public:
  explicit StageFiles(const CompileRequest &request) {
    const Settings &settings = Settings::current();
    if (settings.kernelOverride) {
      llvm::StringRef name = request.options.kernelName.empty()
                                 ? llvm::StringRef(request.function->name)
                                 : request.options.kernelName;
      for (const char *ending : {"tile", "ttir", "llir", "ptx"}) {
        llvm::SmallString<128> path(settings.overrideFolder(hashOf(request)));
        llvm::sys::path::append(path, name + "." + ending);
        if (llvm::sys::fs::exists(path))
          read(path, ending);
      }
    }
    if (const std::string &path = request.options.irOverride; !path.empty()) {
      llvm::StringRef ending = llvm::sys::path::extension(path);
      ending.consume_front(".");
      if (llvm::is_contained({"tile", "ttir", "llir", "ptx"}, ending))
        read(path, ending);
      else
        error = makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::BadOptionValue, "ir_override",
                          "a file that ends in `.tile`, `.llir` or `.ptx`", path);
    }
  }
  std::optional<std::string> text(llvm::StringRef stage) const {
    auto found = texts.find(stage);
    return found == texts.end() ? std::nullopt : std::optional(found->second);
  }
  ErrorPtr problem() { return std::move(error); }

private:
  void read(llvm::StringRef path, llvm::StringRef ending) {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (buffer)
      texts[ending == "ttir" ? "tile" : ending] = (*buffer)->getBuffer().str();
    else
      error = makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::CannotReadFile,
                        std::string_view(path), buffer.getError().message());
  }

  llvm::StringMap<std::string> texts;
  ErrorPtr error;
};

std::string metadataOf(const nrd_kernel &kernel) {
  const CompileRequest &request = kernel.request;
  llvm::json::Array params;
  forEachLeaf(request.function->rules, request.specs,
              [&](const frontend::ParamSpec &spec, const std::string &name) {
                const ParamSlot &slot = kernel.params[params.size()];
                params.push_back(
                    llvm::json::Object{{"name", name},
                                       {"constant", !slot.passed},
                                       {"written", slot.written},
                                       {"signature", llvm::json::fixUTF8(signatureText(spec))}});
              });
  const Options &options = request.options;
  llvm::json::Object set;
#define OPTION(Field, Type, Name, Default, Help) set[Name] = options.Field;
#include "runtime/options.def"
#undef OPTION
  llvm::json::Object object{{"name", kernel.name},
                            {"target", request.target.text()},
                            {"features", options.features.empty() ? "native" : options.features},
                            {"params", std::move(params)},
                            {"scratch_bytes", int64_t(kernel.code->scratchBytes)},
                            {"checked", kernel.checked},
                            {"options", std::move(set)},
                            {"hash", hashOf(request)}};
  deviceOf(request.target.backend).describe(kernel, object);
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(object));
  return text;
}

/// See nrd_kernel_layout.
std::string layoutText(const frontend::ParamSpec &spec) {
  if (spec.kind != frontend::ParamSpec::Kind::Tuple)
    return spec.kind == frontend::ParamSpec::Kind::Constant ? "c" : "p";
  std::string text = "(";
  for (const frontend::ParamSpec &item : spec.items)
    text += layoutText(item);
  return text + ")";
}

ErrorPtr targetError(llvm::Error error, const CompileRequest &request) {
  ErrorPtr resources;
  error = llvm::handleErrors(std::move(error), [&](const targets::OutOfResources &out) {
    resources = resourceError(out.what, out.required, out.limit, request.function->name,
                              configurationText(request), out.biggest);
  });
  if (resources) {
    llvm::consumeError(std::move(error));
    return resources;
  }
  std::string text = llvm::toString(std::move(error));
  llvm::StringRef view = text;
  if (view.consume_front("internal error")) {
    view.consume_front(":");
    return internalError(view.trim());
  }
  return makeError(NRD_ERROR_COMPILE, "", diag::TargetRefuses, text);
}

ErrorPtr dumpStages(nrd_kernel &kernel, llvm::StringRef folder) {
  if (std::error_code failed = llvm::sys::fs::create_directories(folder))
    return makeError(NRD_ERROR_RESOURCES, "", diag::CannotWriteFile, std::string_view(folder),
                     failed.message());
  for (const std::string &stage : kernel.stageNames()) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, kernel.name + "." + (stage == "obj" ? "o" : stage));
    std::error_code failed;
    llvm::raw_fd_ostream out(path, failed);
    if (failed)
      return makeError(NRD_ERROR_RESOURCES, "", diag::CannotWriteFile, std::string_view(path.str()),
                       failed.message());
    if (const std::string *text = kernel.stage(stage))
      out << *text;
    out.close();
    if ((failed = out.error())) {
      out.clear_error(); // or its destructor ends the process
      return makeError(NRD_ERROR_RESOURCES, "", diag::CannotWriteFile, std::string_view(path.str()),
                       failed.message());
    }
  }
  return nullptr;
}

/// What the assembler advises, as warnings.
void printAdvice(const nrd_kernel &kernel) {
  DiagnosticEngine diagnostics;
  for (const std::string &advice : kernel.code->takeAdvice())
    diagnostics.report(diag::TargetAdvice, {}, kernel.name, advice);
  llvm::errs() << diagnostics.renderAll();
}

/// The files of bitcode that the kernel's foreign functions come from: those of the launch
/// ("name=path;..."), else what the call named. `libdevice` is NVIDIA's library.
void chooseLibraries(mlir::ModuleOp module, llvm::StringRef given,
                     targets::CompileOptions &options) {
  std::vector<std::pair<std::string, std::string>> files;
  auto add = [&](llvm::StringRef name, llvm::StringRef path) {
    bool isKnown = llvm::any_of(files, [&](const auto &file) { return file.first == name; });
    if (!isKnown && !path.empty())
      files.push_back({name.str(), path.str()});
  };
  llvm::SmallVector<llvm::StringRef> items;
  given.split(items, ';', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef item : items) {
    auto [name, path] = item.split('=');
    add(name, path);
  }
  module.walk([&](tile::ExternOp op) { add(op.getLibrary(), op.getPath().value_or("")); });
  for (auto &[name, path] : files)
    if (name == "libdevice")
      options.libdevice = path;
    else
      options.libraries.push_back(path);
}

/// What the target is told, but for what it may call and what replaces stages.
targets::CompileOptions targetOptionsOf(const CompileRequest &request) {
  const Options &options = request.options;
  targets::CompileOptions targetOptions;
  targetOptions.features = options.features;
  targetOptions.fpFusion = options.fpFusion;
  targetOptions.checked = options.checked;
  targetOptions.debug = options.debug;
  targetOptions.keepStages = request.keepStages;
  targetOptions.load = request.load;
  targetOptions.verify = options.verify;
  targetOptions.explanation = request.explanation;
  targetOptions.arch = request.target.arch;
  targetOptions.numWarps = int(options.numWarps);
  targetOptions.numStages = int(options.numStages);
  targetOptions.numCtas = int(options.numCtas);
  targetOptions.maxRegisters = int(options.maxRegisters);
  targetOptions.ptxVersion = int(options.ptxVersion);
  targetOptions.assemblerOptions = options.ptxOptions;
  if (request.target.backend == Backend::Cuda)
    if (std::optional<cache::Store> store = cache::Store::current())
      targetOptions.assemblyNotes = store->assemblyNotes();
  targetOptions.reflectFtz = options.reflectFtz;
  targetOptions.cooperative = options.cooperative;
  targetOptions.programmaticLaunch = options.pdl;
  return targetOptions;
}

Packing packingOf(const ParamSlot &slot) {
  if (!slot.passed)
    return Packing::Skipped;
  if (slot.descriptorRank)
    return Packing::Other;
  switch (slot.kind) {
  case targets::ScalarKind::Pointer:
    return Packing::Pointer;
  case targets::ScalarKind::I32:
  case targets::ScalarKind::I64:
    return Packing::Integer;
  case targets::ScalarKind::F32:
    return Packing::Float;
  default:
    return Packing::Other;
  }
}

/// How the parameters of the function reach the code. `written`: those of the code that it may
/// store through.
ErrorPtr bind(const CompileRequest &request, const llvm::BitVector &written, nrd_kernel &kernel) {
  for (const frontend::ParamSpec &spec : request.specs)
    kernel.layout += layoutText(spec);
  unsigned next = 0;
  forEachLeaf(request.function->rules, request.specs,
              [&](const frontend::ParamSpec &spec, const std::string &name) {
                ParamSlot &slot = kernel.params.emplace_back();
                slot.name = name;
                if (spec.kind == frontend::ParamSpec::Kind::Constant)
                  return;
                slot.passed = true;
                slot.descriptorRank = uint8_t(spec.type.block.size());
                ++kernel.passedCount;
                if (next < kernel.code->params.size()) {
                  slot.kind = kernel.code->params[next].kind;
                  slot.written = slot.kind == targets::ScalarKind::Pointer && written.test(next);
                  kernel.hasWrites |= slot.written;
                }
                next += slot.codeParams();
              });
  if (next > kernel.code->params.size())
    return internalError("the target's code has fewer parameters than the kernel");
  for (const ParamSlot &slot : kernel.params)
    kernel.packing.push_back(packingOf(slot));
  kernel.takesTuples = kernel.layout.find('(') != std::string::npos;
  kernel.entry = kernel.code->entry();
  return nullptr;
}

/// The stages up to the finished code. `host` is null for a function that stands alone.
ErrorPtr build(CompileRequest &request, const targets::Target &target,
               targets::CompileOptions targetOptions, CHost *host, frontend::Host *asked,
               llvm::BitVector &written, nrd_kernel &kernel) {
  const FunctionRecord &function = *request.function;
  const Options &options = request.options;
  Clock clock(kernel.times);

  mlir::MLIRContext context(tileDialects(), mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  Complaints complaints(context);
  clock.lap("context");

  frontend::FrontendOptions frontendOptions;
  frontendOptions.strict = options.strict;
  frontendOptions.debug = options.debug;
  frontendOptions.sanitizeOverflow = options.sanitizeOverflow;
  frontendOptions.targetName = request.target.text();
  frontendOptions.hasTensorCopies =
      request.target.backend == Backend::Cuda && request.target.arch >= 90 && options.tensorCopies;
  frontendOptions.defaultDotPrecision = options.dotPrecision;
  if (request.target.backend == Backend::Cuda) // one kernel of the CPU serves all numbers
    frontendOptions.numWarps = unsigned(options.numWarps);

  DiagnosticEngine diagnostics;
  llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> module = llvm::failure();
  if (function.tile) {
    module = parseTileKernel(*function.tile, function.name, context);
  } else if (asked) {
    module = frontend::buildTileModule(context, function.function, request.specs, frontendOptions,
                                       *asked, diagnostics);
  } else {
    frontend::StandaloneHost alone(function.function.modulePtr());
    module = frontend::buildTileModule(context, function.function, request.specs, frontendOptions,
                                       alone, diagnostics);
  }
  if (llvm::failed(module)) {
    if (!diagnostics.hasErrors())
      return internalError(complaints.text.empty() ? "the front end failed silently"
                                                   : complaints.text);
    ErrorPtr error =
        errorFrom(diagnostics, compileErrorKind(diagnostics), function.function.range());
    error->cause = host ? host->exception() : 0;
    return error;
  }
  if (!diagnostics.diagnostics().empty())
    llvm::errs() << diagnostics.renderAll(); // warnings
  clock.lap("front end");

  std::vector<targets::StageTime> *passTimes =
      Settings::current().timePasses ? &kernel.passTimes : nullptr;
  mlir::PassManager passes(&context);
  passes.enableVerifier(options.verify);
  if (passTimes)
    passes.addInstrumentation(targets::timeMlirPasses(*passTimes));
  if (Settings::concerns(Settings::current().printBefore, function.name))
    passes.enableIRPrinting([](mlir::Pass *, mlir::Operation *) { return true; },
                            [](mlir::Pass *, mlir::Operation *) { return false; },
                            /*printModuleScope=*/true, /*printAfterOnlyOnChange=*/false);
  else if (Settings::current().printAfterChanged)
    passes.enableIRPrinting([](mlir::Pass *, mlir::Operation *) { return false; },
                            [](mlir::Pass *, mlir::Operation *) { return true; },
                            /*printModuleScope=*/true, /*printAfterOnlyOnChange=*/true);
  transforms::TilePipelineOptions tileOptions;
  tileOptions.tensorCopies = frontendOptions.hasTensorCopies;
  tileOptions.inlineBlocks = request.target.backend == Backend::Cuda;
  transforms::buildTilePipeline(passes, tileOptions);
  if (options.checked)
    passes.addPass(transforms::createCheckAccesses());
  if (llvm::failed(passes.run(**module)))
    return internalError("a pass over tile IR failed: " + complaints.text);
  StageFiles files(request);
  if (ErrorPtr error = files.problem())
    return error;
  if (std::optional<std::string> text = files.text("tile")) {
    complaints.text.clear();
    module = mlir::parseSourceString<mlir::ModuleOp>(*text, &context);
    if (!**module)
      return makeError(NRD_ERROR_COMPILE, "", diag::TargetRefuses,
                       "the text that replaces the stage `tile` is no tile IR: " + complaints.text);
  }
  mlir::func::FuncOp entry = kernelOf(**module);
  if (!entry)
    return internalError("no kernel is left after the tile passes");
  entry.setSymName(kernel.name);
  written = transforms::Provenance(entry).writtenArguments(entry);
  if (request.explanation)
    transforms::countWork(entry, *request.explanation);
  clock.lap("tile passes");

  targetOptions.passTimes = passTimes;
  targetOptions.replacement = [&files](llvm::StringRef stage) { return files.text(stage); };
  chooseLibraries(**module, options.externLibs, targetOptions);
  auto code = target.compile(**module, targetOptions);
  clock.skip();
  if (!code)
    return targetError(code.takeError(), request);
  kernel.code = std::move(*code);
  kernel.times.insert(kernel.times.end(), kernel.code->times.begin(), kernel.code->times.end());

  if (ErrorPtr error = bind(request, written, kernel))
    return error;
  clock.lap("binding");
  return nullptr;
}

/// Whether machine code of every target can have this name.
bool isIdentifier(llvm::StringRef name) {
  return !name.empty() && !llvm::isDigit(name.front()) &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

} // namespace

ErrorPtr runtime::compileKernel(CompileRequest request, std::unique_ptr<nrd_kernel> &kernel) {
  const Settings &settings = Settings::current();
  const targets::Target *target = targets::findTarget(request.target.backendText());
  if (!target)
    return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::TargetNotBuilt, request.target.text());
  request.options.target = request.target.text();
  auto result = std::make_unique<nrd_kernel>();
  result->name =
      request.options.kernelName.empty() ? request.function->name : request.options.kernelName;
  if (!isIdentifier(result->name))
    return makeError(NRD_ERROR_COMPILE, "", diag::KernelName, result->name);
  result->checked = request.options.checked;
  std::optional<CHost> host;
  if (request.function->host)
    host.emplace(*request.function->host);
  CHost *hostOrNull = host ? &*host : nullptr;
  targets::CompileOptions targetOptions = targetOptionsOf(request);
  llvm::BitVector written;
  {
    auto begin = std::chrono::steady_clock::now();
    cache::Keeper keeper(request, *target, targetOptions, hostOrNull);
    result->code = keeper.find(written);
    if (result->code) {
      if (ErrorPtr error = bind(request, written, *result))
        return error;
      std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begin;
      result->times.push_back({"kernel cache", spent.count()});
    } else {
      if (ErrorPtr error = build(request, *target, targetOptions, hostOrNull,
                                 host ? &keeper.host() : nullptr, written, *result))
        return error;
      keeper.keep(*result->code, *result, written);
    }
  }
  if (host)
    request.owners.insert(request.owners.end(), host->owners().begin(), host->owners().end());
  result->request = std::move(request);
  printAdvice(*result);
  if (result->entry && result->request.load)
    result->onDevice = deviceOf(result->request.target.backend).attach(*result);
  result->metadata = metadataOf(*result);
  if ((settings.time || settings.timePasses) && !result->request.keepStages)
    llvm::errs() << timeTable(*result);
  if (!settings.dumpDir.empty() && !result->request.keepStages)
    if (ErrorPtr error = dumpStages(*result, settings.dumpDir))
      return error;
  if (settings.kernelDump && !result->request.keepStages)
    if (ErrorPtr error = dumpStages(*result, settings.dumpFolder(hashOf(result->request))))
      return error;
  kernel = std::move(result);
  return nullptr;
}

std::string runtime::configurationText(const CompileRequest &request) {
  const Options &options = request.options;
  std::string text = "num_warps=" + std::to_string(options.numWarps) +
                     ", num_stages=" + std::to_string(options.numStages);
  for (auto [spec, rule] : llvm::zip(request.specs, request.function->rules))
    if (rule.isConstexpr)
      text += ", " + rule.name + "=" + signatureText(spec);
  return text;
}

std::string runtime::timeTable(const nrd_kernel &kernel) {
  std::string text = "compilation of " + kernel.name + " for " + kernel.request.target.text() +
                     " (" + configurationText(kernel.request) + "):\n";
  auto line = [&](llvm::StringRef name, double ms) {
    text += llvm::formatv("  {0,-44} {1,9:F2} ms\n", name, ms).str();
  };
  double sum = 0;
  for (const targets::StageTime &stage : kernel.times) {
    line(stage.name, stage.ms);
    sum += stage.ms;
  }
  line("total", sum);
  if (kernel.passTimes.empty())
    return text;
  text += "single passes, those of 10 us and more, longest first:\n";
  std::vector<targets::StageTime> passes = kernel.passTimes;
  llvm::stable_sort(passes, [](const auto &a, const auto &b) { return a.ms > b.ms; });
  for (const targets::StageTime &pass : passes)
    if (pass.ms >= 0.01)
      line(pass.name, pass.ms);
  return text;
}

const char *nrd_kernel::objectName() const {
  return request.target.backend == Backend::Cpu ? "obj" : "cubin";
}

const std::vector<std::string> &nrd_kernel::stageNames() {
  std::lock_guard lock(stageMutex);
  if (names.empty()) {
    names = {"tile"};
    for (const std::string &name : code->stages())
      if (name != "tile")
        names.push_back(name);
    if (!llvm::is_contained(names, objectName()))
      names.push_back(objectName());
  }
  return names;
}

std::string runtime::explanationOf(const nrd_kernel &kernel) {
  explain::Report report;
  CompileRequest again = kernel.request;
  again.keepStages = true;
  again.load = false;
  again.explanation = &report;
  std::unique_ptr<nrd_kernel> made;
  if (compileKernel(std::move(again), made))
    return "";
  report.resources.scratchBytes = int64_t(made->code->scratchBytes);
  llvm::json::Object object = report.json();
  object["kernel"] = llvm::json::fixUTF8(made->name);
  object["target"] = kernel.request.target.text();
  const FunctionRecord &function = *kernel.request.function;
  const SourceFile &source = function.function.module().source();
  object["source"] =
      llvm::json::Object{{"file", llvm::json::fixUTF8(llvm::StringRef(source.name()))},
                         {"first_line", source.position(0).line},
                         {"text", llvm::json::fixUTF8(llvm::StringRef(source.text()))}};
  llvm::json::Array times;
  for (const targets::StageTime &stage : made->times)
    times.push_back(llvm::json::Object{{"stage", stage.name}, {"ms", stage.ms}});
  object["times"] = std::move(times);
  auto metadata = llvm::json::parse(made->metadata);
  if (metadata)
    object["metadata"] = std::move(*metadata);
  else
    llvm::consumeError(metadata.takeError());
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(object));
  return text;
}

const std::string *nrd_kernel::stage(llvm::StringRef wanted, std::string *why) {
  std::lock_guard lock(stageMutex);
  auto &slot = stages[wanted];
  if (slot)
    return slot.get();
  if (wanted == "explain") {
    std::string text = explanationOf(*this);
    if (text.empty())
      return nullptr;
    slot = std::make_unique<std::string>(std::move(text));
    return slot.get();
  }
  auto get = [&](const nereid::targets::CompiledKernel &from) {
    auto text = wanted == objectName() ? from.object() : from.text(wanted);
    if (text)
      slot = std::make_unique<std::string>(std::move(*text));
    else
      llvm::handleAllErrors(
          text.takeError(), [](const targets::StageMissing &) {},
          [&](const llvm::ErrorInfoBase &error) {
            if (why)
              *why = error.message();
          });
    return slot != nullptr;
  };
  bool there = get(*code);
  printAdvice(*this); // machine code may have been made only now
  if (there)
    return slot.get();
  if (!withStages && !request.keepStages) {
    // What was not kept is made again.
    CompileRequest again = request;
    again.keepStages = true;
    again.load = false;
    std::unique_ptr<nrd_kernel> kernel;
    if (!compileKernel(std::move(again), kernel))
      withStages = std::move(kernel->code);
  }
  if (withStages && get(*withStages))
    return slot.get();
  stages.erase(wanted);
  return nullptr;
}
