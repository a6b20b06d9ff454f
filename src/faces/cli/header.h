// The C header that goes with an object file.
#pragma once

#include <string>

namespace nereid::cli {

/// From a kernel's metadata (JSON): a declaration of its entry, and a function that runs a grid.
std::string headerText(const std::string &metadata);

/// The target that a kernel was compiled for, from its metadata: "cpu", "cuda:90".
std::string targetOf(const std::string &metadata);

} // namespace nereid::cli
