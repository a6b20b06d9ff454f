// nereid embed: one kernel, in all its variants, as files to compile into a program.
#include "faces/cli/commands.h"
#include "faces/cli/embed_tables.h"
#include "faces/cli/selection.h"

#include "nereid/embedded.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <cstdio>

using namespace nereid;
using namespace nereid::cli;

namespace {

/// A signature of the command line: "TYPES | NAME=VALUE, on=cuda".
struct Signature {
  std::vector<std::string> types;
  std::vector<std::pair<std::string, std::string>> options;
  std::string only; ///< "cpu", "cuda", or empty for all

  bool isFor(llvm::StringRef target) const {
    return only.empty() || (only == "cpu") == target.starts_with("cpu");
  }
};

/// "NAME=VALUE"; false when it is none.
bool splitOption(llvm::StringRef text, std::pair<std::string, std::string> &option) {
  auto [name, value] = text.split('=');
  option = {name.trim().str(), value.trim().str()};
  return text.contains('=') && !option.first.empty();
}

bool isName(llvm::StringRef text) {
  return !text.empty() && !llvm::isDigit(text[0]) &&
         llvm::all_of(text, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

bool isTarget(llvm::StringRef text) {
  auto [backend, rest] = text.split(':');
  if (backend == "cpu")
    return llvm::is_contained({"baseline", "avx2", "avx512", "avx512bf16", "sapphirerapids",
                               "graniterapids", "aarch64", "neoverse-n1", "neoverse-v1"},
                              rest);
  unsigned arch;
  return (backend == "cuda" || backend == "ptx") && !rest.getAsInteger(10, arch);
}

class Embedder {
public:
  explicit Embedder(const Arguments &parsed) : parsed(parsed) {}

  int run();

private:
  bool readSignatures();
  bool readTargets();
  bool readNames();
  std::string objectName(size_t signature, llvm::StringRef target) const {
    return base + "." + llvm::utostr(signature) + "." + target.split(':').second.str() + ".o";
  }
  nrd_error *compile(const Signature &signature, const std::string &target,
                     EmbeddedVariant &variant);

  const Arguments &parsed;
  DiagnosticEngine diagnostics;
  ModuleHandle module;
  FunctionHandle function;
  EmbeddedText about;
  std::string base; ///< what the files' names begin with
  std::vector<Signature> signatures;
  std::vector<std::string> targets;
};

bool Embedder::readSignatures() {
  for (const std::string &text : parsed.all("--signature")) {
    auto [types, options] = llvm::StringRef(text).split('|');
    Signature signature;
    signature.types = splitSignature(types.trim().str());
    for (std::string &type : signature.types)
      type = llvm::StringRef(type).trim().str();
    for (const std::string &each : splitSignature(options.trim().str())) {
      std::pair<std::string, std::string> option;
      if (!splitOption(each, option)) {
        diagnostics.report(diag::CliMissingValue, {}, each, "NAME=VALUE");
        return false;
      }
      if (option.first != "on")
        signature.options.push_back(option);
      else if (option.second == "cpu" || option.second == "cuda")
        signature.only = option.second;
      else
        diagnostics.report(diag::CliMissingValue, {}, "on", "on=cpu` or `on=cuda");
    }
    signatures.push_back(std::move(signature));
  }
  if (signatures.empty())
    diagnostics.report(diag::CliMissingSignature, {}, "embed");
  return !diagnostics.hasErrors();
}

bool Embedder::readTargets() {
  std::vector<std::string> given = parsed.all("--target");
  if (given.empty())
    given = {"cpu"};
  auto add = [&](const std::string &target) {
    if (!llvm::is_contained(targets, target))
      targets.push_back(target);
  };
  for (const std::string &target : given) {
    if (target == "cpu") {
#if defined(__aarch64__)
      for (const char *level : {"cpu:aarch64", "cpu:neoverse-v1"})
        add(level);
#else
      for (const char *level : {"cpu:baseline", "cpu:avx2", "cpu:avx512"})
        add(level);
#endif
    } else if (isTarget(target)) {
      add(target);
    } else {
      diagnostics.report(diag::EmbedBadTarget, {}, target);
    }
  }
  return !diagnostics.hasErrors();
}

bool Embedder::readNames() {
  about.source = llvm::StringRef(parsed.positional[0]).rsplit('/').second.str();
  if (about.source.empty())
    about.source = parsed.positional[0];
  about.kernel = nrd_function_name(function.get());
  about.name = parsed.get("--name", about.kernel);
  about.space = parsed.get("--namespace", "kernels");
  base = parsed.get("-o", about.name);
  llvm::StringRef file = base;
  about.fileName = (file.contains('/') ? file.rsplit('/').second : file).str() + ".h";
  if (!isName(about.name))
    diagnostics.report(diag::EmbedBadName, {}, about.name);
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(about.space).split(parts, "::");
  if (!about.space.empty() && !llvm::all_of(parts, isName))
    diagnostics.report(diag::EmbedBadName, {}, about.space);
  return !diagnostics.hasErrors();
}

nrd_error *Embedder::compile(const Signature &signature, const std::string &target,
                             EmbeddedVariant &variant) {
  OptionsHandle options(nrd_options_new());
  auto set = [&](const std::string &name, const std::string &value) {
    return setOption(options.get(), name, value);
  };
  for (const std::string &text : parsed.all("--option")) {
    std::pair<std::string, std::string> option;
    splitOption(text, option);
    if (nrd_error *error = set(option.first, option.second))
      return error;
  }
  for (const auto &[name, value] : signature.options)
    if (nrd_error *error = set(name, value))
      return error;
  auto [backend, rest] = llvm::StringRef(target).split(':');
  if (nrd_error *error = set("target", variant.isCpu() ? "cpu" : "cuda:" + rest.str()))
    return error;
  if (variant.isCpu()) {
    if (nrd_error *error = set("features", rest.str()))
      return error;
    nrd_options_set_kernel_name(options.get(), variant.symbol.c_str());
  }
  KernelHandle kernel;
  if (nrd_error *error = compileKernel(function.get(), signature.types, options.get(), kernel))
    return error;
  const void *data = nullptr;
  size_t size = 0;
  const char *stage = variant.isCpu() ? "obj" : variant.isPtx() ? "ptx" : "cubin";
  if (nrd_error *error = nrd_kernel_read_stage(kernel.get(), stage, &data, &size))
    return error;
  variant.image.assign(static_cast<const char *>(data), size);
  auto metadata = llvm::json::parse(nrd_kernel_metadata(kernel.get()));
  variant.metadata = std::move(*metadata->getAsObject());
  return nullptr;
}

int Embedder::run() {
  if (nrd_error *error = nrd_module_load(parsed.positional[0].c_str(), module.out()))
    return failed(error);
  if (int status = chooseKernel(module, parsed.get("--kernel"), function))
    return status;
  if (!readSignatures() || !readTargets() || !readNames())
    return usageError(diagnostics);
  std::vector<EmbeddedVariant> variants;
  for (size_t i = 0; i < signatures.size(); ++i)
    for (const std::string &target : targets)
      if (signatures[i].isFor(target)) {
        EmbeddedVariant &variant = variants.emplace_back();
        variant.target = target;
        variant.signature = signatures[i].types;
        if (variant.isCpu()) {
          variant.object = objectName(i, target);
          // With the form: a table links with code of its own form alone.
          variant.symbol = "nereid_" + cPrefix(about) + "_form" +
                           llvm::utostr(NRD_EMBEDDED_VERSION) + "_cpu_" + llvm::utostr(i) + "_" +
                           cLevel(target);
        }
      }
  if (variants.empty()) {
    diagnostics.report(diag::EmbedNothing, {});
    return usageError(diagnostics);
  }
  if (parsed.has("--list-outputs")) {
    std::printf("%s.c\n%s.h\n", base.c_str(), base.c_str());
    for (const EmbeddedVariant &variant : variants)
      if (variant.isCpu())
        std::printf("%s\n", variant.object.c_str());
    return 0;
  }
  for (const Signature &signature : signatures)
    for (size_t i = 0; i < signature.types.size(); ++i)
      if (signature.types[i].starts_with("(")) {
        const char *param = nrd_function_param_name(function.get(), i);
        diagnostics.report(diag::EmbedTuple, {}, param ? param : "");
        return usageError(diagnostics);
      }
  size_t next = 0;
  for (const Signature &signature : signatures)
    for (const std::string &target : targets)
      if (signature.isFor(target))
        if (nrd_error *error = compile(signature, target, variants[next++]))
          return failed(error);
  std::vector<LaunchGroup> groups = groupVariants(variants, diagnostics);
  if (diagnostics.hasErrors())
    return usageError(diagnostics);
  for (const EmbeddedVariant &variant : variants)
    if (variant.isCpu() && !writeFile(variant.object, variant.image.data(), variant.image.size()))
      return 1;
  std::string tables = tablesText(about, groups), header = typedHeaderText(about, groups);
  return writeFile(base + ".h", header.data(), header.size()) &&
                 writeFile(base + ".c", tables.data(), tables.size())
             ? 0
             : 1;
}

} // namespace

int cli::embedCommand(const Command &, const Arguments &parsed) {
  DiagnosticEngine diagnostics;
  for (const std::string &text : parsed.all("--option"))
    if (text.find('=') == std::string::npos)
      diagnostics.report(diag::CliMissingValue, {}, "--option", "NAME=VALUE");
  if (diagnostics.hasErrors())
    return usageError(diagnostics);
  return Embedder(parsed).run();
}
