// What identifies the content of a file of code: for keys of what is kept on disk.
#pragma once

#include <string>

namespace nereid {

/// Of a library or program: the build's number that its linker left in it, equal on every machine
/// that has the same one; without one its path, size and time. Empty when there is no such file.
std::string buildIdentity(const std::string &path);

/// This compiler: the library that holds this code, with the libraries of LLVM where those are
/// shared.
const std::string &compilerIdentity();

} // namespace nereid
