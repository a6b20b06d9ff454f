#include "support/settings.h"

#include "support/diagnostics.h"
#include "support/text.h"

#include <atomic>
#include <charconv>
#include <cstdio>

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
  for (std::string_view yes : {"1", "true", "on", "yes", "TRUE", "True", "ON", "YES", "y", "t"})
    if (text == yes)
      return value = true, true;
  for (std::string_view no :
       {"0", "false", "off", "no", "FALSE", "False", "OFF", "NO", "n", "f", ""})
    if (text == no)
      return value = false, true;
  return false;
}

bool parse(std::string_view text, int64_t &value) {
  int64_t parsed = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc() || end != text.data() + text.size())
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
    return "an integer";
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

template <typename T>
void readOne(T &field, const SettingInfo &info, Settings::Environment environment,
             DiagnosticEngine &diagnostics) {
  std::string_view storage;
  std::string_view variable = info.variable;
  const std::string_view *value = find(environment, variable, storage);
  if (!value) {
    variable = info.alias;
    value = find(environment, variable, storage);
  }
  if (value && !parse(*value, field))
    diagnostics.report(diag::BadSettingValue, {}, variable, expectation(info.type), *value);
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
  const Kept *former = nullptr;
};

std::atomic<const Kept *> currentSettings{nullptr};

} // namespace

std::span<const SettingInfo> allSettings() {
  return table;
}

Settings Settings::read(Environment environment, DiagnosticEngine &diagnostics) {
  Settings settings;
  const SettingInfo *info = table;
#define SETTING(Field, Kind, Variable, Default, Alias, Help)                                       \
  readOne(settings.Field, *info++, environment, diagnostics);
#include "support/settings.def"
#undef SETTING
  reportUnknown(environment, diagnostics);
  return settings;
}

Settings Settings::readProcess(DiagnosticEngine &diagnostics) {
  std::vector<std::string_view> entries;
  for (char **entry = environ; entry && *entry; ++entry)
    entries.push_back(*entry);
  return read(entries, diagnostics);
}

const Settings &Settings::current() {
  if (const Kept *settings = currentSettings.load(std::memory_order_acquire))
    return *settings;
  DiagnosticEngine diagnostics;
  auto *fresh = new Kept{readProcess(diagnostics)};
  const Kept *expected = nullptr;
  if (!currentSettings.compare_exchange_strong(expected, fresh, std::memory_order_acq_rel)) {
    delete fresh; // another thread was first
    return *expected;
  }
  std::fputs(diagnostics.renderAll().c_str(), stderr);
  return *fresh;
}

const Settings &Settings::reload(DiagnosticEngine &diagnostics) {
  auto *fresh = new Kept{readProcess(diagnostics)};
  fresh->former = currentSettings.load(std::memory_order_acquire);
  while (!currentSettings.compare_exchange_weak(fresh->former, fresh, std::memory_order_acq_rel))
    ;
  return *fresh;
}

} // namespace nereid
