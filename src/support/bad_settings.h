// Values of settings that were not understood.
#pragma once

#include <string>
#include <vector>

namespace nereid {

/// A value that a setting does not take: the variable that gave it, what that takes, what it is.
struct BadSetting {
  std::string variable, expected, value;
  bool operator==(const BadSetting &) const = default;
};

/// Those among `Settings::current()`, which has defaults in their place. Whoever compiles or
/// launches must not go on with these (runtime/settings_problem.h). The reference stays valid for
/// ever. Where `Settings::follow` was called, the other library knows them, and none are here.
const std::vector<BadSetting> &badSettings();

} // namespace nereid
