#include "faces/cli/selection.h"

#include <algorithm>

namespace nereid::cli {

int loadFile(const Command &command, const Arguments &parsed, ModuleHandle &out) {
  DiagnosticEngine diagnostics;
  if (parsed.positional.empty())
    diagnostics.report(diag::CliMissingArgument, {}, command.name, "FILE");
  else if (parsed.positional.size() > 1)
    diagnostics.report(diag::CliSurplusArgument, {}, command.name, parsed.positional[1]);
  if (diagnostics.hasErrors())
    return usageError(diagnostics);
  nrd_error *error = nrd_module_load(parsed.positional[0].c_str(), out.out());
  return error ? failed(error) : 0;
}

int select(const Command &command, const Arguments &parsed, Selection &out) {
  if (int status = loadFile(command, parsed, out.module))
    return status;
  if (int status = chooseKernel(out.module, parsed.get("--kernel"), out.function))
    return status;
  out.kernel = nrd_function_name(out.function.get());
  return 0;
}

nrd_error *setOption(nrd_options *options, const std::string &key, const std::string &text) {
  return nrd_options_set(options, key.c_str(), optionValue(text).get());
}

int readOptions(const Arguments &parsed, OptionsHandle &out) {
  OptionsHandle options(nrd_options_new());
  for (const char *flag : {"checked", "debug", "strict", "verify"})
    if (parsed.has(std::string("--") + flag))
      if (nrd_error *error = setOption(options.get(), flag, "True"))
        return failed(error);
  for (const char *name : {"features", "target", "num-warps", "num-stages", "maxnreg"}) {
    std::string option = std::string("--") + name, key = name;
    std::replace(key.begin(), key.end(), '-', '_');
    if (parsed.has(option))
      if (nrd_error *error = setOption(options.get(), key, parsed.get(option)))
        return failed(error);
  }
  for (const std::string &text : parsed.all("--option")) {
    size_t equals = text.find('=');
    if (equals == std::string::npos) {
      DiagnosticEngine diagnostics;
      diagnostics.report(diag::CliMissingValue, {}, "--option", "NAME=VALUE");
      return usageError(diagnostics);
    }
    if (nrd_error *error =
            setOption(options.get(), text.substr(0, equals), text.substr(equals + 1)))
      return failed(error);
  }
  out = std::move(options);
  return 0;
}

bool readStage(nrd_kernel *kernel, const char *stage, std::string &out, std::string *why) {
  const void *data = nullptr;
  size_t size = 0;
  if (nrd_error *error = nrd_kernel_read_stage(kernel, stage, &data, &size)) {
    if (why)
      *why = nrd_error_summary(error);
    nrd_error_free(error);
    return false;
  }
  if (data)
    out.assign(static_cast<const char *>(data), size);
  return data != nullptr;
}

} // namespace nereid::cli
