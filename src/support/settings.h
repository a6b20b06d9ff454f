// Settings: the environment variables, declared once in settings.def, read once, typed.
//
// `Settings::current().strict` is a plain field access, cheap enough for a launch. A variable that
// starts with NEREID_ and is not in the table is reported, with the nearest known name.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nereid {

class DiagnosticEngine;

/// One row of the table, for `--help`, `doctor` and the reference page.
struct SettingInfo {
  enum class Type : uint8_t { Bool, Int, String };
  std::string_view field;
  Type type;
  std::string_view variable;
  std::string_view defaultText;
  std::string_view alias; ///< Triton's variable honoured as well, or empty
  std::string_view help;
};

std::span<const SettingInfo> allSettings();

namespace detail {
using SettingBool = bool;
using SettingInt = int64_t;
using SettingString = std::string;
} // namespace detail

struct Settings {
#define SETTING(Field, Type, Variable, Default, Alias, Help) detail::Setting##Type Field = Default;
#include "support/settings.def"
#undef SETTING

  /// An environment as `NAME=value` strings, so that tests need not touch the real one.
  using Environment = std::span<const std::string_view>;

  /// Reads an environment; bad values and unknown NEREID_ names are reported, and a bad value
  /// leaves the default in place.
  static Settings read(Environment environment, DiagnosticEngine &diagnostics);
  /// The same from the environment of the process.
  static Settings readProcess(DiagnosticEngine &diagnostics);

  /// The settings of this process, read at first use (problems are printed to stderr then). The
  /// reference stays valid for ever, also after `reload`.
  static const Settings &current();
  /// Reads the environment again, for a process that changed it.
  static const Settings &reload(DiagnosticEngine &diagnostics);
};

} // namespace nereid
