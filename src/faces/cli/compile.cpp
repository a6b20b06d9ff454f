// nereid compile: one kernel of a file, ahead of time.
#include "faces/cli/commands.h"
#include "faces/cli/header.h"
#include "faces/cli/selection.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>

using namespace nereid;
using namespace nereid::cli;

namespace {

int listFunctions(nrd_module *module) {
  for (size_t i = 0; i < nrd_module_function_count(module); ++i) {
    FunctionHandle function;
    if (nrd_error *error = nrd_function_create(module, nrd_module_function_name(module, i), nullptr,
                                               nullptr, function.out()))
      return failed(error);
    std::printf("%s(", nrd_function_name(function.get()));
    for (size_t j = 0; j < nrd_function_param_count(function.get()); ++j)
      std::printf("%s%s%s", j ? ", " : "", nrd_function_param_name(function.get(), j),
                  nrd_function_param_is_constexpr(function.get(), j) ? ": constexpr" : "");
    std::printf(")\n");
  }
  return 0;
}

} // namespace

int cli::compileCommand(const Command &, const Arguments &parsed) {
  DiagnosticEngine diagnostics;
  // The library reads its settings at the first use.
  if (parsed.has("--time-passes"))
    setenv("NEREID_TIME_PASSES", "1", 1);
  if (parsed.has("--print-after-changed"))
    setenv("NEREID_PRINT_AFTER_CHANGED", "1", 1);

  if (parsed.has("--list")) {
    ModuleHandle module;
    int status = loadFile(parsed, module);
    return status ? status : listFunctions(module.get());
  }
  Selection selection;
  OptionsHandle options;
  if (int status = select(parsed, DefaultTarget::Cpu, selection, options))
    return status;
  KernelHandle kernel;
  if (nrd_error *error =
          compileKernel(selection.function.get(), splitSignature(parsed.get("--signature")),
                        options.get(), kernel))
    return failed(error);
  auto compiled = std::chrono::steady_clock::now();

  std::string metadata = nrd_kernel_metadata(kernel.get());
  std::string target = targetOf(metadata);
  std::string kind = parsed.get("--emit", target == "cpu" ? "asm" : "ptx");
  std::string kernelName = nrd_kernel_name(kernel.get());
  std::string binary = kind == "obj" ? ".o" : kind == "cubin" ? ".cubin" : "";
  std::string output = parsed.get("-o", binary.empty() ? "-" : kernelName + binary);
  std::string text;
  if (kind == "header" && target != "cpu") {
    diagnostics.report(diag::CliNoHeader, {}, target);
    return usageError(diagnostics);
  }
  if (kind == "meta" || kind == "header") {
    text = kind == "meta" ? metadata + "\n" : headerText(metadata);
  } else {
    const void *data = nullptr;
    size_t size = 0;
    if (nrd_error *error = nrd_kernel_read_stage(kernel.get(), kind.c_str(), &data, &size))
      return failed(error);
    if (!data) {
      std::string known;
      for (size_t i = 0; i < nrd_kernel_stage_count(kernel.get()); ++i)
        known += std::string("`") + nrd_kernel_stage_name(kernel.get(), i) + "`, ";
      if (target != "cpu") // made from the others when they are asked for
        known += "`layouts`, `sass`, ";
      diagnostics.report(
          diag::CliUnknownStage, {}, kind,
          known + (target == "cpu" ? "`explain`, `header` or `meta`" : "`explain` or `meta`") +
              " of the target `" + target + "`");
      return usageError(diagnostics);
    }
    text.assign(static_cast<const char *>(data), size);
    // Machine code of a GPU that is not here is made only now.
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - compiled;
    if (parsed.has("--time-passes") && kind == "cubin")
      std::fprintf(stderr, "  %-44s %9.2f ms\n", "assemble", took.count());
  }
  return writeFile(output, text.data(), text.size()) ? 0 : 1;
}
