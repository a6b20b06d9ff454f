// The options of a compilation (options.def), by name, and what identifies a set of them.
#pragma once

#include "nereid/nereid.h"
#include "runtime/error.h"
#include "runtime/target_name.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace nereid::runtime {

namespace detail {
using OptionBool = bool;
using OptionInt = int64_t;
using OptionString = std::string;
} // namespace detail

/// One row of the table, for help texts.
struct OptionInfo {
  std::string_view name;
  std::string_view type; ///< "Bool", "Int" or "String"
  std::string_view defaultText;
  std::string_view help;
};
std::span<const OptionInfo> allOptions();

struct Options {
#define OPTION(Field, Type, Name, Default, Help) detail::Option##Type Field = Default;
#include "runtime/options.def"
#undef OPTION
  /// Which ones were set; the others may follow a setting.
#define OPTION(Field, Type, Name, Default, Help) bool Field##Set = false;
#include "runtime/options.def"
#undef OPTION

  /// Of the kernel, in place of its function's name; no part of what identifies the options.
  std::string kernelName;

  /// Sets one by name; an error names the nearest option, or the type that was expected.
  ErrorPtr set(std::string_view name, const nrd_value &value);

  /// These options with the process's settings filled in where nothing was set.
  Options resolved() const;

  /// A number that is equal for equal sets of options in this process; 0 for none set. On the CPU
  /// what concerns GPUs makes no difference.
  uint64_t id(Backend backend = Backend::Cuda) const {
    return backend == Backend::Cpu ? cpuIdentity : identity;
  }

  /// The target that was asked for here, else by the process (`preferred`), else by NEREID_TARGET;
  /// nothing when none says. A setting that names no target is an error.
  ErrorPtr chosenTarget(std::optional<TargetName> preferred, std::optional<TargetName> &out) const;

  /// How many threads a launch may use; 0 leaves it to the setting.
  uint32_t threads() const { return uint32_t(numThreadsSet ? numThreads : numCpuThreads); }

  /// "debug=1;features=avx2;": what was set, in the order of the table, without what concerns only
  /// a launch, and on the CPU without what concerns only GPUs.
  std::string text(Backend backend = Backend::Cuda) const;

private:
  uint64_t identity = 0, cpuIdentity = 0;
};

} // namespace nereid::runtime
