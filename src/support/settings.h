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
  std::string_view
      alias; ///< Triton's variable honoured as well (`!`: of opposite meaning), or empty
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
  /// Equal for equal values of the rows that decide what code comes out; 0 when all are defaults.
  uint64_t codeIdentity = 0;

  bool operator==(const Settings &) const = default;

  /// The library of the NVIDIA driver: `libcuda` or `libcuda.so.1` in the folder that it names.
  std::string cudaLibrary() const;

  /// Where the stages of a kernel with this hash are written (`kernelDump`) or taken from
  /// (`kernelOverride`).
  std::string dumpFolder(std::string_view hash) const;
  std::string overrideFolder(std::string_view hash) const;

  /// Whether a setting like `printLlvm` (`1`, or the name of a kernel) means this kernel.
  static bool concerns(std::string_view setting, std::string_view kernel);

  /// An environment as `NAME=value` strings, so that tests need not touch the real one.
  using Environment = std::span<const std::string_view>;

  /// Reads an environment; bad values and unknown NEREID_ names are reported, and a bad value
  /// leaves the default in place.
  static Settings read(Environment environment, DiagnosticEngine &diagnostics);
  /// The same from `setOverrides` and the environment of the process.
  static Settings readProcess(DiagnosticEngine &diagnostics);

  /// The settings of this process, read at first use (problems are printed to stderr then). The
  /// reference stays valid for ever, also after `reload`.
  static const Settings &current();
  /// From now on `current` is what `source` says: another library's settings, which loaded this
  /// one.
  static void follow(const Settings &(*source)());
  /// Reads the environment again, for a process that changed it.
  static const Settings &reload(DiagnosticEngine &diagnostics);
  /// The same without a report: before something that takes long and should see the present
  /// environment. The same object comes back when nothing has changed.
  static const Settings &refresh();
  /// `guard(read)` must call `read()` while no thread writes the environment; under Python, with
  /// the interpreter's lock.
  using Guard = void (*)(void (*read)(void *data), void *data);
  static void setEnvironmentGuard(Guard guard);
  /// Settings of the program, as `NAME=value`. They take precedence over the environment and
  /// replace those of an earlier call. Invalid entries are reported.
  static const Settings &setOverrides(std::vector<std::string> entries,
                                      DiagnosticEngine &diagnostics);
};

} // namespace nereid
