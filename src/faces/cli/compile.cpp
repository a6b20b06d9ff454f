// nereid compile: one kernel of a file, ahead of time.
#include "faces/cli/commands.h"
#include "faces/cli/emit.h"
#include "faces/cli/selection.h"
#include "nereid/settings.h"

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
  if (parsed.has("--time-passes"))
    setenv("NEREID_TIME_PASSES", "1", 1);
  if (parsed.has("--print-after-changed"))
    setenv("NEREID_PRINT_AFTER_CHANGED", "1", 1);
  if (nrd_error *error = nrd_check_settings()) // reads them again
    return failed(error);

  if (parsed.has("--list")) {
    ModuleHandle module;
    int status = loadFile(parsed, module);
    return status ? status : listFunctions(module.get());
  }
  Selection selection;
  OptionsHandle options;
  if (int status = select(parsed, DefaultTarget::Cpu, selection, options))
    return status;
  if (int status = keepLaunch(parsed, options.get()))
    return status;
  KernelHandle kernel;
  if (nrd_error *error =
          compileKernel(selection.function.get(), splitSignature(parsed.get("--signature")),
                        options.get(), kernel))
    return failed(error);
  return emitStage(parsed, kernel.get());
}
