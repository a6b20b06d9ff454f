// nereid grad: the derivative of a kernel, ahead of time.
#include "faces/cli/commands.h"
#include "faces/cli/emit.h"

#include "llvm/Support/JSON.h"

#include <algorithm>

using namespace nereid;
using namespace nereid::cli;
namespace json = llvm::json;

namespace {

/// The parameters that are differentiated, those of `--wrt` first.
std::vector<nrd_tangent> tangentsOf(const std::vector<std::string> &wrt,
                                    const std::vector<std::string> &out,
                                    const std::vector<std::string> &partial) {
  std::vector<nrd_tangent> tangents;
  auto add = [&](const std::vector<std::string> &names, uint32_t role) {
    for (const std::string &name : names) {
      auto known = std::ranges::find(tangents, name, &nrd_tangent::parameter);
      if (known == tangents.end())
        tangents.push_back({name.c_str(), nullptr, role});
      else
        known->roles |= role;
    }
  };
  add(wrt, NRD_TANGENT_INPUT);
  add(out, NRD_TANGENT_OUTPUT);
  add(partial, NRD_TANGENT_PARTIAL);
  return tangents;
}

/// The type of a parameter's tangent or gradient, as signatures write it: of a gradient of an input
/// what a launch from Python passes, a pointer for a number, fp32 for narrower floats.
std::string tangentType(std::string type, bool isGradientOfInput) {
  if (type.starts_with("*k"))
    type.erase(1, 1);
  if (!isGradientOfInput)
    return type;
  if (type.starts_with("fp") || type.starts_with("bf"))
    type.insert(0, "*");
  for (std::string_view narrow : {"*fp16", "*bf16"})
    if (type == narrow || type.starts_with(std::string(narrow) + ":"))
      type.replace(0, narrow.size(), "*fp32");
  return type;
}

/// Prints how each gradient is summed, from the stage "explain".
int printGradients(nrd_kernel *kernel, const Arguments &parsed) {
  std::string text;
  const void *data = nullptr;
  size_t size = 0;
  if (nrd_error *error = nrd_kernel_read_stage(kernel, "explain", &data, &size))
    return failed(error);
  text.assign(static_cast<const char *>(data), size);
  llvm::Expected<json::Value> report = json::parse(text);
  if (!report) {
    llvm::consumeError(report.takeError());
    return 1;
  }
  std::string lines;
  if (const json::Array *gradients = report->getAsObject()->getArray("gradients"))
    for (const json::Value &gradient : *gradients)
      lines += gradient.getAsObject()->getString("text").value_or("").str() + "\n";
  return writeFile(parsed.get("-o", "-"), lines.data(), lines.size()) ? 0 : 1;
}

} // namespace

int cli::gradCommand(const Command &command, const Arguments &parsed) {
  DiagnosticEngine diagnostics;
  std::string mode = parsed.get("--mode", "reverse");
  if (mode != "reverse" && mode != "forward")
    diagnostics.report(diag::BadOptionValue, {}, "--mode", "`reverse` or `forward`", mode);
  for (const char *name : {"--wrt", "--out"})
    if (!parsed.has(name))
      diagnostics.report(diag::CliMissingArgument, {}, command.name, name);
  if (!parsed.has("--signature"))
    diagnostics.report(diag::CliMissingSignature, {}, command.name);
  bool isReverse = mode == "reverse";
  if (!isReverse && parsed.has("--outputs")) // which a forward derivative always writes
    diagnostics.report(diag::BadOptionValue, {}, "--mode", "`reverse` beside --outputs", mode);
  if (diagnostics.hasErrors())
    return usageError(diagnostics);
  Selection selection;
  OptionsHandle options;
  if (int status = select(parsed, DefaultTarget::OfLaunches, selection, options))
    return status;
  if (int status = keepLaunch(parsed, options.get()))
    return status;
  nrd_function *function = selection.function.get();
  size_t own = nrd_function_param_count(function);
  std::vector<std::string> wrt = splitSignature(parsed.get("--wrt")),
                           out = splitSignature(parsed.get("--out")),
                           partial = splitSignature(parsed.get("--partial", ""));
  std::vector<nrd_tangent> tangents = tangentsOf(wrt, out, partial);
  auto set = !isReverse                ? nrd_function_set_tangents
             : parsed.has("--outputs") ? nrd_function_set_outputs_and_gradients
                                       : nrd_function_set_gradients;
  if (nrd_error *error = set(function, tangents.data(), tangents.size()))
    return failed(error);
  std::vector<std::string> signature = splitSignature(parsed.get("--signature"));
  if (signature.size() == own)
    for (const nrd_tangent &tangent : tangents)
      for (size_t i = 0; i < own; ++i)
        if (std::string_view(nrd_function_param_name(function, i)) == tangent.parameter)
          signature.push_back(
              tangentType(signature[i], isReverse && tangent.roles & NRD_TANGENT_INPUT));
  if (signature.size() == own + tangents.size() && !partial.empty()) {
    signature.insert(signature.end(), partial.size(), "i64"); // lengths of rows
    signature.insert(signature.end(), 3, "i32");              // programs along the axes
  }
  KernelHandle kernel;
  if (nrd_error *error = compileKernel(function, signature, options.get(), kernel))
    return failed(error);
  if (isReverse && !parsed.has("--emit"))
    return printGradients(kernel.get(), parsed);
  return emitStage(parsed, kernel.get());
}
