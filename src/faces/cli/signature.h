// What the commands that compile share: signatures and option values as text, errors, files.
#pragma once

#include "nereid/nereid.hpp"

#include <string>
#include <vector>

namespace nereid::cli {

/// Splits at commas outside of quotes and brackets; without space around the parts.
std::vector<std::string> splitSignature(const std::string &text);

/// "8", "True", "tf32": the value of an option.
ValueHandle optionValue(const std::string &text);

/// The function of this name; without a name the only one of the module. Gives 0, or the exit
/// status when there is none, which has been said then.
int chooseKernel(const ModuleHandle &module, const std::string &name, FunctionHandle &function);

/// Prints the error to standard error and frees it; gives the exit status.
int failed(nrd_error *error);

/// Writes a file, "-" for standard output. False when it could not, which has been said then.
bool writeFile(const std::string &path, const void *data, size_t size);

} // namespace nereid::cli
