// The C ABI: about the library and this machine.
#include "frontend/inventory.h"
#include "nereid/settings.h"
#include "runtime/c_api.h"
#include "runtime/cache/store.h"
#include "runtime/compiler.h"
#include "runtime/devices/cpu.h"
#include "runtime/devices/cuda.h"
#include "runtime/settings_problem.h"
#include "support/file_identity.h"
#include "support/packages.h"
#include "support/settings.h"
#include "targets/target.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"

#include <cstdlib>
#include <cstring>
#include <unistd.h>

extern char **environ;

using namespace nereid;
using namespace nereid::runtime;
namespace json = llvm::json;

namespace {

char *give(const json::Value &value) {
  std::string text;
  llvm::raw_string_ostream(text) << value;
  return strdup(text.c_str());
}

/// The NEREID_ variables of the environment and what became of them.
json::Object settingsReport() {
  json::Object report;
  json::Array inForce, problems;
  for (const SettingInfo &setting : allSettings()) {
    const char *value = std::getenv(std::string(setting.variable).c_str());
    std::string name(setting.variable);
    if (!value && !setting.alias.empty()) {
      name = setting.alias;
      value = std::getenv(name.c_str());
    }
    if (value)
      inForce.push_back(json::Object{
          {"name", name}, {"value", json::fixUTF8(value)}, {"help", std::string(setting.help)}});
  }
  DiagnosticEngine diagnostics;
  Settings::readProcess(diagnostics);
  for (const Diagnostic &diagnostic : diagnostics.diagnostics())
    problems.push_back(json::fixUTF8(diagnostic.message()));
  report["in_force"] = std::move(inForce);
  report["problems"] = std::move(problems);
  return report;
}

/// The CUDA driver and devices, found as launches find them.
json::Object cudaReport() {
  json::Object report;
  report["devices"] = cuda::deviceCount();
  ErrorPtr missing = cuda::check();
  report["driver"] = !missing || missing->name != "NoCudaDriver";
  if (missing) {
    report["problem"] = missing->summary;
    return report;
  }
  report["version"] = cuda::driverVersion();
  json::Array devices;
  for (int device = 0; device < cuda::deviceCount(); ++device) {
    json::Object properties;
    if (!cuda::properties(device, properties))
      devices.push_back(std::move(properties));
  }
  report["properties"] = std::move(devices);
  return report;
}

/// The folder of compiled kernels and whether it is used.
json::Object cacheReport() {
  const Settings &settings = Settings::current();
  std::string folder = cache::Store::defaultFolder();
  const char *state = "no place";
  if (!settings.cache)
    state = "off";
  else if (!folder.empty())
    switch (cache::Store(folder).state()) {
    case cache::FolderState::Usable:
      state = "usable";
      break;
    case cache::FolderState::Missing:
      state = "missing";
      break;
    case cache::FolderState::NotOurs:
      state = "not ours";
      break;
    case cache::FolderState::NoFolder:
      state = "no folder";
      break;
    }
  return json::Object{{"folder", json::fixUTF8(folder)},
                      {"state", state},
                      {"writable", !folder.empty() && cache::Store(folder).isWritable()},
                      {"limit", settings.cacheSize << 20}};
}

/// Tools that the code generators found: {"assembler": {"found": "..."}}, with "problem" if a tool
/// is missing or unsuitable.
json::Object toolReport() {
  json::Object report;
  for (const char *backend : {"cpu", "cuda"})
    if (const targets::Target *target = targets::findTarget(backend))
      for (const targets::Tool &tool : target->tools()) {
        json::Object row;
        if (!tool.found.empty())
          row["found"] = json::fixUTF8(tool.found);
        if (!tool.problem.empty())
          row["problem"] = json::fixUTF8(tool.problem);
        report[tool.name] = std::move(row);
      }
  return report;
}

} // namespace

void nrd_set_package_folders(const char *const *folders, size_t count) try {
  if (hasNull(folders, count))
    return;
  setPackageFolders(std::vector<std::string>(folders, folders + count));
}
NRD_CATCH

char *nrd_settings_json(void) try {
  const Settings &settings = Settings::current();
  json::Array values;
#define SETTING(Field, Type, Variable, Default, Alias, Help) values.push_back(settings.Field);
#include "support/settings.def"
#undef SETTING
  json::Array rows;
  static constexpr const char *types[] = {"Bool", "Int", "String"};
  for (const SettingInfo &info : allSettings())
    rows.push_back(json::Object{{"field", std::string(info.field)},
                                {"type", types[size_t(info.type)]},
                                {"variable", std::string(info.variable)},
                                {"alias", std::string(info.alias)},
                                {"default", std::string(info.defaultText)},
                                {"value", std::move(values[rows.size()])},
                                {"help", std::string(info.help)}});
  return give(std::move(rows));
}
NRD_CATCH_AND(return nullptr)

char *nrd_set_settings(const char *const *entries, size_t count) try {
  if (hasNull(entries, count))
    return nullptr;
  DiagnosticEngine diagnostics;
  Settings::setOverrides(std::vector<std::string>(entries, entries + count), diagnostics);
  return diagnostics.hasErrors() ? strdup(diagnostics.renderAll().c_str()) : nullptr;
}
NRD_CATCH_AND(return nullptr)

nrd_error *nrd_check_settings(void) try {
  Settings::refresh();
  return wrap(settingsProblem());
}
NRD_CATCH_ERROR

void nrd_set_environment_guard(void (*guard)(void (*read)(void *), void *)) try {
  Settings::setEnvironmentGuard(guard);
}
NRD_CATCH

nrd_error *nrd_disassemble(const void *image, size_t size, const char *name, char **text) try {
  NRD_NEEDS_ARRAY(image, size);
  NRD_NEEDS(name);
  NRD_NEEDS(text);
  const Compiler *compiler = Compiler::find();
  if (!compiler)
    return wrap(Compiler::problem());
  std::string why;
  auto result = compiler->disassemble(llvm::StringRef(static_cast<const char *>(image), size), why);
  if (!result)
    return wrap(makeError(NRD_ERROR_RUNTIME, "", diag::CliCannotDisassemble, name, why));
  *text = strdup(result->c_str());
  return nullptr;
}
NRD_CATCH_ERROR

nrd_error *nrd_opt(int argc, char **argv, int *status) try {
  if (argc < 1)
    return badArgument(__func__, "argc", "1 or more", std::to_string(argc));
  NRD_NEEDS_ALL(argv, size_t(argc));
  NRD_NEEDS(status);
  const Compiler *compiler = Compiler::find();
  if (!compiler)
    return wrap(Compiler::problem());
  *status = compiler->opt(argc, argv);
  return nullptr;
}
NRD_CATCH_ERROR

static json::Object tileReport() {
  TileReport tiles = tileRegisters();
  json::Object report{{"state", tiles.state}};
  if (tiles.refusal)
    report["reason"] = tiles.refusal;
  return report;
}

char *nrd_doctor(void) try {
  json::Array features;
  llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
  for (const char *name : {"sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw",
                           "avx512vl", "avx512bf16", "avx512fp16", "amx-tile", "neon", "sve"})
    if (host.lookup(name))
      features.push_back(name);
  json::Object report{{"version", NEREID_VERSION},
                      {"llvm", LLVM_VERSION_STRING},
                      {"cpu", json::Object{{"name", llvm::sys::getHostCPUName().str()},
                                           {"triple", llvm::sys::getDefaultTargetTriple()},
                                           {"features", std::move(features)},
                                           {"tiles", tileReport()},
                                           {"cores", cpuCores()},
                                           {"threads", cpuThreads()}}},
                      {"cuda", cudaReport()},
                      {"tools", toolReport()},
                      {"cache", cacheReport()},
                      {"settings", settingsReport()}};
  return give(std::move(report));
}
NRD_CATCH_AND(return nullptr)

const char *nrd_build_identity(void) try { return compilerIdentity().c_str(); }
NRD_CATCH_AND(return nullptr)

char *nrd_language_json(void) try {
  const Compiler *compiler = Compiler::find();
  return strdup(compiler ? compiler->inventory().c_str() : "[]");
}
NRD_CATCH_AND(return nullptr)

void nrd_string_free(char *text) try { std::free(text); }
NRD_CATCH
