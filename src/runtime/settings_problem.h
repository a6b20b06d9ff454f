// Settings with values that they do not take end what would go on with their defaults.
#pragma once

#include "runtime/error.h"

namespace nereid::runtime {

/// A ValueError about values that settings do not take, null when there are none. The environment
/// is read again before one is given back.
ErrorPtr settingsProblem();

} // namespace nereid::runtime
