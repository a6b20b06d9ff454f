#include "support/settings.h"

#include "support/bad_settings.h"
#include "support/diagnostics.h"
#include "support/first_use.h"
#include "support/text.h"
#include "support/triton_version.h"

#include <atomic>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <type_traits>

extern char **environ;

namespace nereid {

namespace {

constexpr std::string_view defaultText(bool value) {
  return value ? "1" : "0";
}

constexpr SettingInfo table[] = {
#define SETTING_Int(Default) #Default
#define SETTING_Bool(Default) defaultText(Default)
#define SETTING_String(Default) Default
#define SETTING(Field, Kind, Variable, Default, Alias, Help)                                       \
  {#Field, SettingInfo::Type::Kind, Variable, SETTING_##Kind(Default), Alias, Help},
#include "support/settings.def"
#undef SETTING
};

constexpr std::string_view ourPrefix = "NEREID_";
constexpr std::string_view testPrefix = "NEREID_TEST_"; ///< what the tests alone read

bool parse(std::string_view text, bool &value) {
  std::string lower(text);
  for (char &c : lower)
    c = char(std::tolower(uint8_t(c)));
  for (std::string_view yes : {"1", "true", "on", "yes", "y", "t"})
    if (lower == yes)
      return value = true, true;
  for (std::string_view no : {"0", "false", "off", "no", "n", "f", ""})
    if (lower == no)
      return value = false, true;
  return false;
}

bool parse(std::string_view text, int64_t &value) {
  int64_t parsed = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc() || end != text.data() + text.size())
    return false;
  if (parsed < 0) // no setting counts below
    return false;
  value = parsed;
  return true;
}

bool parse(std::string_view text, std::string &value) {
  value = text;
  return true;
}

std::string_view expectation(SettingInfo::Type type) {
  switch (type) {
  case SettingInfo::Type::Bool:
    return "`0` or `1`";
  case SettingInfo::Type::Int:
    return "an integer of at least 0";
  case SettingInfo::Type::String:
    return "text";
  }
  return "";
}

/// The value of a variable; null when it is not set.
const std::string_view *find(Settings::Environment environment, std::string_view name,
                             std::string_view &storage) {
  if (name.empty())
    return nullptr;
  for (std::string_view entry : environment)
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name)) {
      storage = entry.substr(name.size() + 1);
      return &storage;
    }
  return nullptr;
}

void refuse(std::vector<BadSetting> &bad, DiagnosticEngine &diagnostics, std::string_view variable,
            std::string_view expected, std::string_view value) {
  diagnostics.report(diag::BadSettingValue, {}, variable, expected, value);
  bad.push_back({std::string(variable), std::string(expected), std::string(value)});
}

template <typename T>
void readOne(T &field, const SettingInfo &info, Settings::Environment environment,
             std::vector<BadSetting> &bad, DiagnosticEngine &diagnostics) {
  std::string_view storage;
  std::string_view variable = info.variable;
  const std::string_view *value = find(environment, variable, storage);
  bool opposite = false;
  if (!value) {
    variable = info.alias;
    opposite = variable.starts_with('!');
    variable.remove_prefix(opposite);
    value = find(environment, variable, storage);
  }
  bool understood = !value || parse(*value, field);
  // Triton takes what it does not know for no.
  if (!understood && std::is_same_v<T, bool> && variable == info.alias.substr(opposite))
    opposite = false;
  else if (!understood)
    refuse(bad, diagnostics, variable, expectation(info.type), *value);
  else if constexpr (std::is_same_v<T, bool>)
    field ^= value && opposite;
}

/// FNV-1a over the texts of settings, each ended by a zero.
class Identity {
public:
  void add(std::string_view text) {
    for (char c : text)
      step(uint8_t(c));
    step(0);
  }
  void add(bool value) { add(std::string_view(value ? "1" : "0")); }
  void add(int64_t value) { add(std::string_view(std::to_string(value))); }
  uint64_t value() const { return hash; }

private:
  void step(uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3; }
  uint64_t hash = 0xcbf29ce484222325;
};

uint64_t codeIdentity(const Settings &settings) {
  Identity identity;
#define SETTING(...)
#define CODE_SETTING(Field, Type, Variable, Default, Alias, Help) identity.add(settings.Field);
#include "support/settings.def"
#undef SETTING
  return identity.value();
}

void reportUnknown(Settings::Environment environment, DiagnosticEngine &diagnostics) {
  std::vector<std::string_view> known;
  known.reserve(std::size(table));
  for (const SettingInfo &info : table)
    known.push_back(info.variable);
  for (std::string_view entry : environment) {
    if (!entry.starts_with(ourPrefix) || entry.starts_with(testPrefix))
      continue;
    std::string_view name = entry.substr(0, entry.find('='));
    bool found = false;
    for (std::string_view candidate : known)
      found |= candidate == name;
    if (found)
      continue;
    // Compare without the common prefix, which would make everything look alike.
    std::vector<std::string_view> tails;
    tails.reserve(known.size());
    for (std::string_view candidate : known)
      tails.push_back(candidate.substr(ourPrefix.size()));
    std::string_view near = nearestName(name.substr(ourPrefix.size()), tails);
    if (near.empty())
      diagnostics.report(diag::UnknownSetting, {}, name);
    else
      diagnostics.report(diag::UnknownSettingNear, {}, name, std::string(ourPrefix).append(near));
  }
}

/// The settings of the process. Former ones stay alive behind them: other threads may be reading.
struct Kept : Settings {
  std::vector<BadSetting> bad;
  const Kept *former = nullptr;
};

std::atomic<const Kept *> currentSettings{nullptr};
std::atomic<const Settings &(*)()> followed{nullptr};

std::atomic<Settings::Guard> environmentGuard{nullptr};

/// What `Settings::setOverrides` has set, as NAME=value. Former ones stay alive as well.
///
/// Reading takes no lock and initialises nothing that others wait for: a fork may leave it half
/// done in the child, whose threads must be able to read.
struct Overrides {
  std::vector<std::string> entries;
  const Overrides *former = nullptr;
};

std::atomic<const Overrides *> overrides{nullptr};

Settings readAll(Settings::Environment environment, std::vector<BadSetting> &bad,
                 DiagnosticEngine &diagnostics);

/// The overrides in front of what the environment says.
Settings readWithOverrides(std::vector<BadSetting> &bad, DiagnosticEngine &diagnostics) {
  std::vector<std::string_view> entries;
  if (const Overrides *set = overrides.load(std::memory_order_acquire))
    entries.assign(set->entries.begin(), set->entries.end());
  for (char **entry = environ; entry && *entry; ++entry)
    entries.push_back(*entry);
  return readAll(entries, bad, diagnostics);
}

} // namespace

std::span<const SettingInfo> allSettings() {
  return table;
}

Settings Settings::read(Environment environment, DiagnosticEngine &diagnostics) {
  std::vector<BadSetting> bad;
  return readAll(environment, bad, diagnostics);
}

namespace {

Settings readAll(Settings::Environment environment, std::vector<BadSetting> &bad,
                 DiagnosticEngine &diagnostics) {
  Settings settings;
  const SettingInfo *info = table;
#define SETTING(Field, Kind, Variable, Default, Alias, Help)                                       \
  readOne(settings.Field, *info++, environment, bad, diagnostics);
#include "support/settings.def"
#undef SETTING
  if (!parseTritonVersion(settings.tritonVersion)) {
    refuse(bad, diagnostics, "NEREID_TRITON_VERSION", "a release of Triton such as `3.8`",
           settings.tritonVersion);
    settings.tritonVersion.clear();
  }
  // Settings that are one of several words; nothing means the default.
  struct Words {
    std::string Settings::*field;
    std::string_view name, expected;
    std::initializer_list<std::string_view> words;
  };
  const Words words[] = {
      {&Settings::warpSpecialise,
       "NEREID_WARP_SPECIALIZE",
       "`always` or `never`",
       {"always", "never"}},
      {&Settings::overlapStores,
       "NEREID_OVERLAP_STORES",
       "`groups` or `never`",
       {"groups", "never"}},
      {&Settings::splitProducts,
       "NEREID_SPLIT_PRODUCTS",
       "`idle`, `full` or `never`",
       {"idle", "full", "never"}},
      {&Settings::persistentRows,
       "NEREID_PERSISTENT_ROWS",
       "`wide`, `always` or `never`",
       {"wide", "always", "never"}},
      {&Settings::persistentProducts,
       "NEREID_PERSISTENT_PRODUCTS",
       "`asked`, `always` or `never`",
       {"asked", "always", "never"}},
      {&Settings::persistentAttention,
       "NEREID_PERSISTENT_ATTENTION",
       "`measured`, `always` or `never`",
       {"measured", "always", "never"}},
      {&Settings::skipScaling,
       "NEREID_SKIP_SCALING",
       "`divided`, `always` or `never`",
       {"divided", "always", "never"}},
      {&Settings::skipMaxima,
       "NEREID_SKIP_MAXIMA",
       "`divided`, `always` or `never`",
       {"divided", "always", "never"}},
      {&Settings::tensorCopies,
       "NEREID_TENSOR_COPIES",
       "`always`, `never` or `auto`",
       {"always", "never", "auto"}},
      {&Settings::assembler,
       "NEREID_ASSEMBLER",
       "`nvjitlink`, `ptxas` or `driver`",
       {"nvjitlink", "ptxas", "driver"}},
      {&Settings::f32Default,
       "NEREID_F32_DEFAULT",
       "`ieee`, `tf32`, `tf32x3`, `bf16x3` or `bf16x6`",
       {"ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"}},
  };
  for (const Words &each : words) {
    std::string &value = settings.*each.field;
    if (value.empty() || std::ranges::find(each.words, value) != each.words.end())
      continue;
    const SettingInfo &row = *std::ranges::find(table, each.name, &SettingInfo::variable);
    std::string_view storage;
    refuse(bad, diagnostics, find(environment, each.name, storage) ? each.name : row.alias,
           each.expected, value);
    value.clear();
  }
  static constinit FirstUse<uint64_t> plain;
  uint64_t identity = nereid::codeIdentity(settings);
  bool isPlain = identity == plain.get([] { return nereid::codeIdentity(Settings()); });
  settings.codeIdentity = isPlain ? 0 : identity;
  reportUnknown(environment, diagnostics);
  return settings;
}

} // namespace

Settings Settings::readProcess(DiagnosticEngine &diagnostics) {
  std::vector<BadSetting> bad;
  return readWithOverrides(bad, diagnostics);
}

static std::string kernelFolder(const Settings &settings, const std::string &given,
                                const char *name, std::string_view hash) {
  std::string base = given;
  if (base.empty()) {
    const char *home = std::getenv("HOME");
    base = (!settings.home.empty() ? settings.home : home ? home : ".") + "/.triton/" + name;
  }
  return base + "/" + std::string(hash);
}

std::string Settings::dumpFolder(std::string_view hash) const {
  return kernelFolder(*this, kernelDumpDir, "dump", hash);
}

std::string Settings::overrideFolder(std::string_view hash) const {
  return kernelFolder(*this, overrideDir, "override", hash);
}

bool Settings::concerns(std::string_view setting, std::string_view kernel) {
  bool all = false;
  return parse(setting, all) ? all : setting == kernel;
}

std::string Settings::cudaLibrary() const {
  if (libcuda.empty())
    return "libcuda.so.1";
  std::error_code unknown;
  bool folder = std::filesystem::is_directory(libcuda, unknown);
  return folder ? libcuda + "/libcuda.so.1" : libcuda;
}

const Settings &Settings::current() {
  if (const Kept *settings = currentSettings.load(std::memory_order_acquire))
    return *settings;
  if (auto *source = followed.load(std::memory_order_acquire))
    return source();
  DiagnosticEngine diagnostics;
  auto *fresh = new Kept;
  static_cast<Settings &>(*fresh) = readWithOverrides(fresh->bad, diagnostics);
  const Kept *expected = nullptr;
  if (!currentSettings.compare_exchange_strong(expected, fresh, std::memory_order_acq_rel)) {
    delete fresh; // another thread was first
    return *expected;
  }
  for (const Diagnostic &diagnostic : diagnostics.diagnostics())
    if (!diagnostic.isError()) // what is wrong ends the first use
      std::fprintf(stderr, "warning: %s\n", diagnostic.message().c_str());
  return *fresh;
}

const std::vector<BadSetting> &badSettings() {
  static constinit FirstUse<const std::vector<BadSetting>> none;
  const Kept *settings = currentSettings.load(std::memory_order_acquire);
  return settings ? settings->bad : none.get([] { return std::vector<BadSetting>(); });
}

void Settings::follow(const Settings &(*source)()) {
  followed.store(source, std::memory_order_release);
}

const Settings &Settings::reload(DiagnosticEngine &diagnostics) {
  std::vector<BadSetting> bad;
  Settings read = readWithOverrides(bad, diagnostics);
  const Settings &before = current();
  if (read == before && bad == badSettings())
    return before;
  auto *fresh = new Kept{{std::move(read)}, std::move(bad)};
  fresh->former = currentSettings.load(std::memory_order_acquire);
  while (!currentSettings.compare_exchange_weak(fresh->former, fresh, std::memory_order_acq_rel))
    ;
  return *fresh;
}

const Settings &Settings::refresh() {
  auto read = [](void *) {
    DiagnosticEngine ignored; // `bad` says what is wrong
    reload(ignored);
  };
  if (Guard guard = environmentGuard.load(std::memory_order_acquire))
    guard(read, nullptr);
  else
    read(nullptr);
  return current();
}

void Settings::setEnvironmentGuard(Guard guard) {
  environmentGuard.store(guard, std::memory_order_release);
}

const Settings &Settings::setOverrides(std::vector<std::string> entries,
                                       DiagnosticEngine &diagnostics) {
  std::vector<std::string_view> views(entries.begin(), entries.end());
  read(views, diagnostics);
  auto *fresh = new Overrides{std::move(entries), overrides.load(std::memory_order_acquire)};
  while (!overrides.compare_exchange_weak(fresh->former, fresh, std::memory_order_acq_rel))
    ;
  return refresh();
}

} // namespace nereid
