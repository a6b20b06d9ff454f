// What generated headers of C and C++ call parameters and types.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace nereid::cli {

/// A parameter's name, which may be a keyword of C or C++ without being one of Python.
std::string cName(const std::string &name);

/// The type of an element ("fp16", "i1"): in C, or in C++ with `nereid/device.hpp`.
std::string elementType(llvm::StringRef element, bool isCpp);

} // namespace nereid::cli
