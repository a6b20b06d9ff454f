#include "faces/cli/selection.h"

#include <algorithm>

namespace nereid::cli {

namespace {

/// Prints what is wrong with the command line.
template <typename... Params>
int wrong(diag::Def<Params...> def, const std::type_identity_t<Params> &...facts) {
  DiagnosticEngine diagnostics;
  diagnostics.report(def, {}, facts...);
  return usageError(diagnostics);
}

std::string targetOfLaunches() {
  char *text = nrd_default_target();
  std::string target = text;
  nrd_string_free(text);
  return target;
}

} // namespace

int loadFile(const Arguments &parsed, ModuleHandle &out) {
  nrd_error *error = nrd_module_load(parsed.positional[0].c_str(), out.out());
  return error ? failed(error) : 0;
}

int select(const Arguments &parsed, Selection &out) {
  if (int status = loadFile(parsed, out.module))
    return status;
  if (int status = chooseKernel(out.module, parsed.get("--kernel"), out.function))
    return status;
  out.kernel = nrd_function_name(out.function.get());
  return 0;
}

int select(const Arguments &parsed, DefaultTarget target, Selection &out, OptionsHandle &options) {
  int status = select(parsed, out);
  return status ? status : readOptions(parsed, target, options);
}

nrd_error *setOption(nrd_options *options, const std::string &key, const std::string &text) {
  return nrd_options_set(options, key.c_str(), optionValue(text).get());
}

int keepLaunch(const Arguments &parsed, nrd_options *options) {
  for (const std::string &text : parsed.all("--option"))
    if (text.starts_with("clusters="))
      return 0;
  nrd_error *error = setOption(options, "clusters", "False");
  return error ? failed(error) : 0;
}

int readOptions(const Arguments &parsed, DefaultTarget target, OptionsHandle &out) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const char *flag : {"checked", "debug", "strict", "verify"})
    if (parsed.has(std::string("--") + flag))
      all.emplace_back(flag, "True");
  for (const char *name : {"features", "num-warps", "num-stages", "maxnreg"}) {
    std::string option = std::string("--") + name, key = name;
    std::replace(key.begin(), key.end(), '-', '_');
    if (parsed.has(option))
      all.emplace_back(key, parsed.get(option));
  }
  std::string wanted = parsed.get("--target");
  if (wanted.starts_with("cpu:")) {
    std::string features = wanted.substr(4);
    if (parsed.has("--features") && parsed.get("--features") != features)
      return wrong(diag::BadOptionValue, "--features", "`" + features + "`, as in `--target`",
                   parsed.get("--features"));
    all.emplace_back("features", features);
    wanted = "cpu";
  }
  bool chosen = parsed.has("--target");
  if (chosen)
    all.emplace_back("target", wanted);
  for (const std::string &text : parsed.all("--option")) {
    size_t equals = text.find('=');
    if (equals == std::string::npos)
      return wrong(diag::CliMissingValue, "--option", "NAME=VALUE");
    all.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    chosen |= all.back().first == "target";
  }
  if (!chosen && target == DefaultTarget::OfLaunches)
    all.emplace_back("target", targetOfLaunches());
  OptionsHandle options(nrd_options_new());
  for (const auto &[key, text] : all)
    if (nrd_error *error = setOption(options.get(), key, text))
      return failed(error);
  out = std::move(options);
  return 0;
}

bool targetsGpu(const Arguments &parsed) {
  return parsed.get("--target", parsed.has("--target") ? "" : targetOfLaunches())
      .starts_with("cuda");
}

nrd_error *compileKernel(nrd_function *function, const std::vector<std::string> &signature,
                         nrd_options *options, KernelHandle &out) {
  std::vector<const char *> texts;
  texts.reserve(signature.size());
  for (const std::string &text : signature)
    texts.push_back(text.c_str());
  return nrd_compile(function, texts.data(), texts.size(), options, out.out());
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
