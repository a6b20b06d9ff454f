#include "runtime/compile.h"

#include "explain/Report.h"
#include "runtime/c_host.h"
#include "runtime/cache/kernels.h"
#include "runtime/compiler.h"
#include "runtime/devices/arguments.h"
#include "runtime/facts_only.h"
#include "runtime/function.h"
#include "runtime/request.h"
#include "runtime/settings_problem.h"
#include "support/gradient_facts.h"
#include "support/settings.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"

#include <chrono>
#include <mutex>

using namespace nereid;
using namespace nereid::runtime;

namespace {

void addFacts(uint8_t facts, llvm::json::Object &param) {
  if (unsigned axes = facts & SharedAxes)
    param["shared_axes"] = axes;
  if (facts & FixedPlaces)
    param["fixed_places"] = true;
  if (facts & OneStore)
    param["one_store"] = true;
  if (facts & DecidesPlaces)
    param["decides_places"] = true;
}

std::string metadataOf(const nrd_kernel &kernel) {
  const CompileRequest &request = kernel.request;
  llvm::json::Array params;
  size_t argument = 0;
  llvm::ArrayRef<GradientCondition> conditions;
  if (request.options.gradientFacts)
    conditions = static_cast<const FactsOnly &>(*kernel.code).conditions;
  forEachLeaf(request.function->rules, request.specs,
              [&](const frontend::ParamSpec &spec, const std::string &name) {
                const ParamSlot &slot = kernel.params[params.size()];
                llvm::json::Object param{{"name", name},
                                         {"constant", !slot.passed},
                                         {"written", slot.written},
                                         {"signature", llvm::json::fixUTF8(signatureText(spec))}};
                if (slot.passed && argument < kernel.gradientFacts.size())
                  addFacts(kernel.gradientFacts[argument], param);
                if (slot.passed && !conditions.empty())
                  param["argument"] = int64_t(argument);
                if (slot.passed)
                  argument += slot.codeParams();
                params.push_back(std::move(param));
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
  if (!conditions.empty()) {
    llvm::json::Array texts;
    for (const GradientCondition &each : conditions)
      texts.push_back(llvm::json::Object{{"id", each.id}, {"steps", each.steps}});
    object["gradient_conditions"] = std::move(texts);
  }
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

/// Advice as warnings, each once for a kernel: not for every configuration of it.
void printAdvice(const nrd_kernel &kernel) {
  std::vector<explain::Hint> hints = kernel.code->takeAdvice();
  if (hints.empty() || !Settings::current().advice)
    return;
  static std::mutex mutex;
  static llvm::StringSet<> &given = *new llvm::StringSet<>;
  DiagnosticEngine diagnostics;
  for (const explain::Hint &hint : hints) {
    std::string line = hint.place.line ? "line " + std::to_string(hint.place.line) + ": " : "";
    std::lock_guard lock(mutex);
    if (given.insert(kernel.name + ' ' + std::string(hint.name()) + ' ' + hint.place.file + line)
            .second)
      diagnostics.report(diag::TargetAdvice, {}, kernel.name,
                         line + hint.what + "; what helps: " + hint.remedy + " (found with " +
                             configurationText(kernel.request) + ")");
  }
  llvm::errs() << diagnostics.renderAll();
}

/// The target's options, except for callable functions and replaced stages.
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
  targetOptions.choosesCtas = options.clusters;
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

/// How the parameters of the function reach the code. `written`: those of the code that it may
/// store through.
ErrorPtr bind(const llvm::BitVector &written, nrd_kernel &kernel) {
  const CompileRequest &request = kernel.request;
  for (const frontend::ParamSpec &spec : request.specs)
    kernel.layout += layoutText(spec);
  unsigned next = 0;
  forEachLeaf(request.function->rules, request.specs,
              [&](const frontend::ParamSpec &spec, const std::string &name) {
                ParamSlot &slot = kernel.params.emplace_back();
                slot.name = name;
                if (!request.function->host)
                  slot.spec = &spec;
                if (spec.kind == frontend::ParamSpec::Kind::Constant)
                  return;
                slot.passed = true;
                slot.type = spec.type.scalar;
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

/// Makes compiled code callable, if it is to be.
ErrorPtr load(const targets::Target &target, const targets::CompileOptions &options,
              nrd_kernel &kernel) {
  std::string why;
  size_t stages = kernel.code->times.size();
  if (options.load && !target.load(*kernel.code, why)) {
    llvm::StringRef text(why);
    return text.consume_front("internal error")
               ? internalError(text.ltrim(": "))
               : makeError(NRD_ERROR_COMPILE, "", diag::TargetRefuses, text);
  }
  for (; stages < kernel.code->times.size(); ++stages)
    kernel.times.push_back(kernel.code->times[stages]);
  return nullptr;
}

/// Whether machine code of every target can have this name.
bool isIdentifier(llvm::StringRef name) {
  return !name.empty() && !llvm::isDigit(name.front()) &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

} // namespace

ErrorPtr runtime::compileKernel(CompileRequest request, std::unique_ptr<nrd_kernel> &kernel) {
  if (ErrorPtr error = settingsProblem())
    return error;
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
  bool onlyFacts = request.options.gradientFacts;
  const auto &derivatives = request.function->function.derivatives;
  const bool hasConditions = !request.options.gradientConditions.empty();
  if ((onlyFacts || hasConditions) && (derivatives.empty() || !derivatives.back().isReverse))
    return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::BadOptionValue,
                     onlyFacts ? "gradient_facts" : "gradient_conditions", "a gradient",
                     result->name);
  std::optional<CHost> host;
  if (request.function->host)
    host.emplace(*request.function->host);
  CHost *hostOrNull = host ? &*host : nullptr;
  targets::CompileOptions targetOptions = targetOptionsOf(request);
  llvm::BitVector written;
  {
    auto begin = std::chrono::steady_clock::now();
    cache::Keeper keeper(request, *target, targetOptions, hostOrNull);
    result->code = keeper.find(written, result->gradientFacts);
    if (result->code) {
      std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begin;
      result->times.push_back({"kernel cache", spent.count()});
    } else {
      const Compiler *compiler = Compiler::find();
      if (!compiler)
        return Compiler::problem();
      if (host)
        keeper.listen();
      if (ErrorPtr error = compiler->compile(request, targetOptions, hostOrNull, written, *result))
        return error;
      if (!onlyFacts)
        if (ErrorPtr error = load(*target, targetOptions, *result))
          return error;
      keeper.keep(*result->code, *result, written);
    }
  }
  if (host)
    request.owners.insert(request.owners.end(), host->owners().begin(), host->owners().end());
  result->request = std::move(request);
  if (ErrorPtr error = bind(written, *result))
    return error;
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

ErrorPtr nrd_kernel::withChecks(nrd_kernel *&kernel) {
  kernel = this;
  if (checked)
    return nullptr;
  if (request.target.backend != Backend::Cpu)
    return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::CheckedOnGpu,
                     request.target.backendText());
  std::lock_guard lock(checkedMutex);
  if (!checkedKernel) {
    CompileRequest again = request;
    again.options.checked = true;
    if (ErrorPtr error = compileKernel(std::move(again), checkedKernel))
      return error;
  }
  kernel = checkedKernel.get();
  return nullptr;
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

std::string runtime::explanationOf(const nrd_kernel &kernel, std::string *why) {
  explain::Report report;
  CompileRequest again = kernel.request;
  again.keepStages = true;
  again.load = false;
  again.explanation = &report;
  std::unique_ptr<nrd_kernel> made;
  if (ErrorPtr error = compileKernel(std::move(again), made)) {
    if (why)
      *why = error->message;
    return "";
  }
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
  llvm::json::Array gradients;
  for (const std::string &text : made->gradients)
    gradients.push_back(llvm::json::Object{{"text", llvm::json::fixUTF8(text)}});
  object["gradients"] = std::move(gradients);
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
    std::string text = explanationOf(*this, why);
    if (text.empty())
      return nullptr;
    slot = std::make_unique<std::string>(std::move(text));
    return slot.get();
  }
  auto get = [&](const nereid::targets::CompiledKernel &from) {
    std::string problem;
    std::optional<std::string> text =
        wanted == objectName() ? from.object(problem) : from.text(wanted, problem);
    if (text)
      slot = std::make_unique<std::string>(std::move(*text));
    else if (why && !problem.empty())
      *why = problem;
    return slot != nullptr;
  };
  bool there = get(*code);
  printAdvice(*this); // machine code may have been made only now
  if (there)
    return slot.get();
  if (!withStages && !request.keepStages) {
    // Stages that were not kept are compiled again.
    CompileRequest again = request;
    again.keepStages = true;
    again.load = false;
    std::unique_ptr<nrd_kernel> kernel;
    ErrorPtr error = compileKernel(std::move(again), kernel);
    if (!error)
      withStages = std::move(kernel->code);
    else if (why)
      *why = error->message;
  }
  if (withStages && get(*withStages))
    return slot.get();
  stages.erase(wanted);
  return nullptr;
}
