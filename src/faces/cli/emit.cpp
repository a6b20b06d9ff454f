#include "faces/cli/emit.h"

#include "faces/cli/header.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

using namespace nereid;
using namespace nereid::cli;

namespace {

/// What gives a stage that only the other kind of target has; "" where none has it.
std::string remedyFor(const std::string &stage, const std::string &target) {
  auto isOneOf = [&](std::initializer_list<const char *> names) {
    return std::find(names.begin(), names.end(), stage) != names.end();
  };
  if (target == "cpu" && isOneOf({"ptx", "cubin", "sass", "gpu", "layouts"}))
    return "; for the stages of a GPU add `--target cuda:90` (or another architecture)";
  if (target != "cpu" && isOneOf({"asm", "obj", "loops"}))
    return "; for the stages of the CPU add `--target cpu`";
  return "";
}

} // namespace

int cli::emitStage(const Arguments &parsed, nrd_kernel *kernel) {
  DiagnosticEngine diagnostics;
  auto compiled = std::chrono::steady_clock::now();
  std::string metadata = nrd_kernel_metadata(kernel);
  std::string target = targetOf(metadata);
  std::string kind = parsed.get("--emit", target == "cpu" ? "asm" : "ptx");
  std::string binary = kind == "obj" ? ".o" : kind == "cubin" ? ".cubin" : "";
  std::string output =
      parsed.get("-o", binary.empty() ? "-" : std::string(nrd_kernel_name(kernel)) + binary);
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
    if (nrd_error *error = nrd_kernel_read_stage(kernel, kind.c_str(), &data, &size))
      return failed(error);
    if (!data) {
      std::string known;
      for (size_t i = 0; i < nrd_kernel_stage_count(kernel); ++i)
        known += std::string("`") + nrd_kernel_stage_name(kernel, i) + "`, ";
      if (target != "cpu") // made from the others when they are asked for
        known += "`layouts`, `sass`, ";
      diagnostics.report(
          diag::CliUnknownStage, {}, kind,
          known + (target == "cpu" ? "`explain`, `header` or `meta`" : "`explain` or `meta`") +
              " of the target `" + target + "`" + remedyFor(kind, target));
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
