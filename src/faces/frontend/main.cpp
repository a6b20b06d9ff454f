// nereid-frontend FILE KERNEL [SIGNATURE] [options]: prints the tile IR of one kernel.
//
// KERNEL is a name, or a prefix followed by `*`: every function of the file whose name begins so,
// in order, with its name before what it gives; errors then go to the output too.
//
// SIGNATURE is a list "name:type" and "name=constant" separated by commas:
// "x:*fp32:16,n:i32,BLOCK=1024". A third part is the divisibility. Constants are Python literals
// (numbers, strings, True, False, None) or dtype names. Parameters that are not listed take their
// defaults where these are literals.
//
//   --strict --debug --checked   as in FrontendOptions
//   --inline             inlines the private functions and canonicalises, to show the kernel alone
//   --triton-errors      prints errors in Triton's form
//   --time N             builds the IR N times and prints the median in microseconds instead
//   --default-type TYPE  of parameters that are not listed
//   --target NAME
#include "frontend/semantic.h"
#include "frontend/standalone_host.h"
#include "ir/tile/Dialect.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InitLLVM.h"

#include <chrono>

using namespace nereid;
using namespace nereid::frontend;

static llvm::cl::opt<std::string> fileName(llvm::cl::Positional, llvm::cl::Required,
                                           llvm::cl::desc("FILE"));
static llvm::cl::opt<std::string> kernelName(llvm::cl::Positional, llvm::cl::Required,
                                             llvm::cl::desc("KERNEL"));
static llvm::cl::opt<std::string> signature(llvm::cl::Positional, llvm::cl::desc("SIGNATURE"));
static llvm::cl::opt<bool> strict("strict", llvm::cl::desc("reject programs that Triton rejects"));
static llvm::cl::opt<bool> debugAsserts("debug", llvm::cl::desc("compile asserts"));
static llvm::cl::opt<bool> checkedMode("checked",
                                       llvm::cl::desc("make undefined elements of loads show"));
static llvm::cl::opt<bool> inlineCalls("inline", llvm::cl::desc("inline calls and canonicalise"));
static llvm::cl::opt<bool> tritonErrors("triton-errors", llvm::cl::desc("errors in Triton's form"));
static llvm::cl::opt<bool> showLocations("locations", llvm::cl::desc("print locations"));
static llvm::cl::opt<unsigned> timeRuns("time", llvm::cl::desc("time N runs"));
static llvm::cl::opt<std::string>
    defaultType("default-type", llvm::cl::desc("type of parameters that are not listed"));
static llvm::cl::opt<std::string> target("target", llvm::cl::init("cpu"),
                                         llvm::cl::desc("target name"));

/// A constant of the signature.
static Value parseConstant(llvm::StringRef text) {
  if (text == "None")
    return Value();
  if (text == "True" || text == "False")
    return Value(text == "True");
  int64_t integer;
  if (!text.getAsInteger(10, integer))
    return Value::integer(integer);
  double real;
  if (!text.getAsDouble(real))
    return Value(real);
  if (auto type = dtypeByName(text))
    return Value(TypeValue{Type::of(*type)});
  text.consume_front("'");
  text.consume_back("'");
  return Value(text.str());
}

static std::optional<std::vector<ParamSpec>> parseSpecs(const Function &kernel,
                                                        StandaloneHost &host) {
  llvm::StringMap<ParamSpec> given;
  llvm::SmallVector<llvm::StringRef> items;
  // Commas inside of brackets belong to a descriptor's blocks.
  size_t begin = 0;
  int open = 0;
  for (size_t i = 0; i <= signature.size(); ++i) {
    char c = i < signature.size() ? signature[i] : ',';
    open += c == '[' || c == '<' ? 1 : c == ']' || c == '>' ? -1 : 0;
    if (c != ',' || open)
      continue;
    if (i > begin)
      items.push_back(llvm::StringRef(signature).slice(begin, i));
    begin = i + 1;
  }
  for (llvm::StringRef item : items) {
    ParamSpec spec;
    auto [name, constant] = item.split('=');
    if (name.size() != item.size()) {
      spec.kind = ParamSpec::Kind::Constant;
      spec.constant = parseConstant(constant);
      given[name] = spec;
      continue;
    }
    auto [named, rest] = item.split(':');
    auto [typeText, divisibility] = rest.split(':');
    auto type = parseSignatureType(typeText);
    if (!type) {
      llvm::errs() << "error: `" << typeText << "` is not a type\n";
      return std::nullopt;
    }
    spec.type = *type;
    if (!divisibility.empty() && divisibility.getAsInteger(10, spec.divisibility)) {
      llvm::errs() << "error: `" << divisibility << "` is not a number\n";
      return std::nullopt;
    }
    given[named] = spec;
  }
  std::vector<ParamSpec> specs;
  for (const FunctionParam &param : kernel.params()) {
    auto it = given.find(param.name);
    if (it != given.end()) {
      specs.push_back(it->second);
      continue;
    }
    ParamSpec spec;
    if (auto type = parseSignatureType(defaultType)) {
      spec.type = *type;
      specs.push_back(spec);
      continue;
    }
    spec.kind = ParamSpec::Kind::Constant;
    auto *literal =
        param.hasDefault() ? syntax::dynCast<syntax::Constant>(param.node->defaultValue) : nullptr;
    if (!literal) {
      if (auto value = host.lookup(kernel, param.name).value) { // passes a function of the file
        spec.constant = *value;
        specs.push_back(spec);
        continue;
      }
      llvm::errs() << "error: no type for the parameter `" << param.name << "`\n";
      return std::nullopt;
    }
    spec.constant = parseConstant(llvm::StringRef(kernel.module().source().text(literal->range)));
    specs.push_back(spec);
  }
  return specs;
}

static void printErrors(llvm::raw_ostream &out, const DiagnosticEngine &diagnostics,
                        const Function *kernel) {
  if (!tritonErrors) {
    for (const Diagnostic &diagnostic : diagnostics.diagnostics())
      out << render(diagnostic) << "[" << diagnostic.name() << "]\n";
    return;
  }
  for (const Diagnostic &diagnostic : diagnostics.diagnostics())
    if (diagnostic.isError())
      out << renderTriton(diagnostic, kernel ? std::optional(kernel->range()) : std::nullopt)
          << "\n";
}

/// Builds, and prints when that is wanted. The exit status.
static int compile(const SourceFilePtr &source, llvm::StringRef name,
                   const FrontendOptions &options, bool print, llvm::raw_ostream &errors,
                   double &microseconds) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  tile::loadDialects(context);
  DiagnosticEngine diagnostics;
  auto begin = std::chrono::steady_clock::now();
  auto parsed = syntax::parseModule(source, diagnostics);
  if (!parsed) {
    printErrors(errors, diagnostics, nullptr);
    return 1;
  }
  StandaloneHost host(parsed.module);
  const Function *kernel = host.function(name);
  if (!kernel) {
    errors << "error: no function `" << name << "`\n";
    return 2;
  }
  auto specs = parseSpecs(*kernel, host);
  if (!specs)
    return 2;
  auto module = buildTileModule(context, *kernel, *specs, options, host, diagnostics);
  std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  microseconds = took.count();
  printErrors(errors, diagnostics, kernel);
  if (failed(module))
    return 1;
  if (inlineCalls) {
    mlir::PassManager passes(&context);
    passes.addPass(mlir::createInlinerPass());
    passes.addPass(mlir::createCanonicalizerPass());
    passes.addPass(mlir::createCSEPass());
    if (failed(passes.run(**module)))
      return 3;
  }
  if (!print)
    return 0;
  mlir::OpPrintingFlags flags;
  if (showLocations)
    flags.enableDebugInfo(true, false);
  (*module)->print(llvm::outs(), flags);
  llvm::outs() << "\n";
  return 0;
}

/// Every function of the file whose name begins with `prefix`.
static int compileAll(const SourceFilePtr &source, llvm::StringRef prefix,
                      const FrontendOptions &options) {
  DiagnosticEngine diagnostics;
  auto parsed = syntax::parseModule(source, diagnostics);
  printErrors(llvm::outs(), diagnostics, nullptr);
  int status = parsed ? 0 : 1;
  for (const syntax::Stmt *statement : parsed.module->body()) {
    auto *function = syntax::dynCast<syntax::FunctionDef>(statement);
    if (!function || !llvm::StringRef(function->name).starts_with(prefix))
      continue;
    llvm::outs() << "== " << function->name << "\n";
    double unused;
    int result = compile(source, function->name, options, /*print=*/true, llvm::outs(), unused);
    status = std::max(status, result);
  }
  return status;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  llvm::cl::ParseCommandLineOptions(argc, argv, "kernel source to tile IR\n");
  auto source = SourceFile::read(fileName);
  if (!source) {
    llvm::errs() << "error: cannot read `" << fileName << "`\n";
    return 2;
  }
  FrontendOptions options;
  options.strict = strict;
  options.debug = debugAsserts;
  options.checked = checkedMode;
  options.targetName = target;
  llvm::StringRef name = kernelName;
  if (name.consume_back("*"))
    return compileAll(source, name, options);
  std::vector<double> times(std::max(1u, unsigned(timeRuns)));
  for (double &time : times)
    if (int status = compile(source, name, options, timeRuns == 0, llvm::errs(), time))
      return status;
  if (timeRuns) {
    llvm::sort(times);
    llvm::outs() << llvm::format("median %.0f us, first %.0f us\n", times[times.size() / 2],
                                 times.back());
  }
  return 0;
}
