// Known numbers as C++ knows them.
#pragma once

#include "llvm/ADT/APSInt.h"

namespace nereid::frontend {

/// Python's `float(value)`: rounded to nearest; beyond the range of a double infinite, where Python
/// raises. (LLVM's `roundToDouble` takes 2**63 for a negative number, and cuts longer ones off.)
double toDouble(const llvm::APSInt &value);

} // namespace nereid::frontend
