#include "runtime/compiler/build.h"

#include "differentiate/Differentiate.h"
#include "explain/Report.h"
#include "frontend/sources.h"
#include "frontend/standalone_host.h"
#include "ir/tile/Dialect.h"
#include "runtime/c_host.h"
#include "runtime/compiler/tile_module.h"
#include "runtime/facts_only.h"
#include "runtime/function.h"
#include "runtime/request.h"
#include "support/settings.h"
#include "support/triton_version.h"
#include "targets/Common.h"
#include "targets/PassTimes.h"
#include "targets/Places.h"
#include "targets/generator.h"
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
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <chrono>

namespace nereid::runtime {
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

/// A place in a file; nowhere when the file does not have it.
SourceSpan spanAt(const explain::SourcePlace &place, const SourceFilePtr &file) {
  std::optional<uint32_t> index = file ? file->indexOfLine(place.line) : std::nullopt;
  if (!index)
    return {};
  SourceRange line = file->lineRange(*index);
  uint32_t shift = file->origin().columnShift + 1;
  uint32_t begin = line.begin;
  for (uint32_t i = shift; i < place.column && begin < line.end; ++i)
    do
      ++begin;
    while (begin < line.end && (static_cast<unsigned char>(file->text()[begin]) & 0xC0) == 0x80);
  return SourceSpan(*file, {begin, std::min(begin + 1, line.end)});
}

/// An error at the first of the places, which `report` reports; the others are those of calls that
/// led there.
ErrorPtr
errorAt(llvm::ArrayRef<explain::SourcePlace> places, const CompileRequest &request,
        llvm::function_ref<Diagnostic &(DiagnosticEngine &diagnostics, SourceSpan span)> report) {
  const syntax::ModulePtr &module = request.function->function.modulePtr();
  SourceFilePtr own = module ? module->source().shared_from_this() : nullptr;
  DiagnosticEngine diagnostics;
  Diagnostic *reported = nullptr;
  for (const explain::SourcePlace &place : places) {
    // The kernel's own text, which may be one function of its file alone; else the file.
    SourceFilePtr file = own && own->name() == place.file ? own : nullptr;
    SourceSpan span = spanAt(place, file);
    if (!span)
      span = spanAt(place, file = SourceFile::read(place.file));
    if (reported)
      reported->note(diag::CalledFromHere, span);
    else
      reported = &report(diagnostics, span);
  }
  if (!reported)
    report(diagnostics, SourceSpan());
  return errorFrom(diagnostics, NRD_ERROR_COMPILE, request.function->function.range());
}

ErrorPtr assemblyError(const targets::AssemblyRefused &refused, const CompileRequest &request) {
  return errorAt(refused.places, request,
                 [&](DiagnosticEngine &diagnostics, SourceSpan span) -> Diagnostic & {
                   return diagnostics.report(diag::AssemblyRefused, span, refused.text);
                 });
}

/// Replaces the kernel by its derivative, when one is asked for. `result` gets how each gradient is
/// summed.
ErrorPtr differentiateKernel(mlir::ModuleOp module, const CompileRequest &request,
                             const Complaints &complaints, nrd_kernel &result) {
  mlir::func::FuncOp kernel = kernelOf(module);
  if (!kernel || !differentiate::isWanted(kernel))
    return nullptr;
  mlir::PassManager passes(module.getContext());
  transforms::addInlining(passes, transforms::TilePipelineOptions::Functions::None);
  if (llvm::failed(passes.run(module)))
    return internalError("a pass over tile IR failed: " + complaints.text);
  const std::string &given = request.options.gradientConditions;
  if (!given.empty() && !differentiate::setKnownConditions(kernelOf(module), given))
    return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::BadOptionValue, "gradient_conditions",
                     "`id=0` or `id=1` for conditions of the gradient, between commas", given);
  if (request.target.backend == Backend::Cpu)
    kernelOf(module)->setAttr(differentiate::compactAttribute,
                              mlir::UnitAttr::get(module.getContext()));
  std::optional<differentiate::Refusal> refusal;
  while (!refusal && differentiate::isWanted(kernelOf(module)))
    refusal = differentiate::differentiate(kernelOf(module));
  if (refusal) {
    // In the author's own text, not in that of a library function.
    std::vector<explain::SourcePlace> places = targets::placesOf(refusal->where);
    llvm::erase_if(places, [](const explain::SourcePlace &place) {
      return llvm::StringRef(place.file).starts_with("<prelude>");
    });
    return errorAt(places, request, refusal->report);
  }
  if (llvm::failed(mlir::verify(module)))
    return internalError("the derivative of a kernel is not valid: " + complaints.text);
  result.gradients = differentiate::gradientNotes(kernelOf(module));
  result.gradientFacts = differentiate::gradientFacts(kernelOf(module));
  return nullptr;
}

/// The finished kernel of the option `gradient_facts`: what is known of a gradient before any pass.
void finishFacts(mlir::ModuleOp module, const CompileRequest &request, llvm::BitVector &written,
                 nrd_kernel &result) {
  mlir::func::FuncOp entry = kernelOf(module);
  written = transforms::Provenance(entry).writtenArguments(entry);
  auto code = std::make_unique<FactsOnly>();
  code->conditions = differentiate::gradientConditions(entry);
  code->name = result.name;
  code->params = targets::paramsOf(entry);
  if (request.keepStages)
    llvm::raw_string_ostream(code->tile) << module;
  result.code = std::move(code);
}

/// Several texts may be parts of one file.
std::optional<targets::SourceLine> lineOf(llvm::ArrayRef<SourceFilePtr> sources,
                                          llvm::StringRef file, unsigned line) {
  for (const SourceFilePtr &source : sources)
    if (file == llvm::StringRef(source->name()))
      if (auto index = source->indexOfLine(line))
        return targets::SourceLine{std::string(source->text(source->lineRange(*index))),
                                   source->origin().columnShift};
  return std::nullopt;
}

ErrorPtr targetError(llvm::Error error, const CompileRequest &request) {
  ErrorPtr resources;
  error = llvm::handleErrors(std::move(error), [&](const targets::AssemblyRefused &refused) {
    resources = assemblyError(refused, request);
  });
  if (resources) {
    llvm::consumeError(std::move(error));
    return resources;
  }
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

} // namespace

ErrorPtr build(const CompileRequest &request, targets::CompileOptions targetOptions, CHost *host,
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
  frontendOptions.tritonVersion = parseTritonVersion(options.tritonVersion).value_or(oldestTriton);
  frontendOptions.debug = options.debug;
  frontendOptions.sanitizeOverflow = options.sanitizeOverflow;
  frontendOptions.checked = options.checked;
  frontendOptions.targetName = request.target.text();
  frontendOptions.hasTensorCopies =
      request.target.backend == Backend::Cuda && request.target.arch >= 90 && options.tensorCopies;
  frontendOptions.budget = frontend::BudgetLimits::times(
      uint64_t(std::max<int64_t>(0, Settings::current().compileBudget)));
  frontendOptions.defaultDotPrecision = options.dotPrecision;
  if (request.target.backend == Backend::Cuda) // one kernel of the CPU serves all numbers
    frontendOptions.numWarps = unsigned(options.numWarps);

  DiagnosticEngine diagnostics;
  llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> module = llvm::failure();
  std::vector<SourceFilePtr> sources;
  if (function.tile) {
    module = parseTileKernel(*function.tile, function.name, context);
    sources = {SourceFile::create(function.tile->file, function.tile->text)};
  } else if (host) {
    module = frontend::buildTileModule(context, function.function, request.specs, frontendOptions,
                                       *host, diagnostics, sources);
  } else {
    frontend::StandaloneHost alone(function.function.modulePtr());
    module = frontend::buildTileModule(context, function.function, request.specs, frontendOptions,
                                       alone, diagnostics, sources);
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

  if (ErrorPtr error = differentiateKernel(**module, request, complaints, kernel))
    return error;
  differentiate::dropTangentMarks(**module);
  if (!function.function.derivatives.empty())
    clock.lap("differentiate");
  if (options.gradientFacts) {
    finishFacts(**module, request, written, kernel);
    return nullptr;
  }

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
  // Checked accesses are those of pointers.
  // `auto` is what was measured: on Hopper.
  const std::string &copies = Settings::current().tensorCopies;
  tileOptions.onlyFasterCopies = copies == "auto" && request.target.arch < 100;
  tileOptions.warps = unsigned(options.numWarps);
  tileOptions.copiesFromPointers = (copies == "always" || tileOptions.onlyFasterCopies) &&
                                   options.pointerCopies && !options.checked;
  tileOptions.explanation = request.explanation;
  tileOptions.functions = request.target.backend == Backend::Cpu
                              ? transforms::TilePipelineOptions::Functions::None
                              : transforms::TilePipelineOptions::Functions::Scalars;
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
    mlir::PassManager again(&context);
    transforms::addInlining(again, tileOptions.functions);
    if (llvm::failed(again.run(**module)))
      return internalError("a pass over tile IR failed: " + complaints.text);
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
  const targets::Generator *generator = targets::findGenerator(request.target.backendText());
  if (!generator)
    return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::TargetNotBuilt, request.target.text());
  auto code = generator->compile(**module, targetOptions, [&](llvm::StringRef file, unsigned line) {
    return lineOf(sources, file, line);
  });
  if (!code)
    return targetError(code.takeError(), request);
  kernel.code = std::move(*code);
  kernel.times.insert(kernel.times.end(), kernel.code->times.begin(), kernel.code->times.end());
  return nullptr;
}

} // namespace nereid::runtime
