// Texts that identify what is compiled.
#pragma once

#include "runtime/kernel.h"

#include <string>

namespace nereid::runtime {

/// "num_warps=8, num_stages=3, BLOCK=128": what the kernel's author chose.
std::string configurationText(const CompileRequest &request);

/// Identifies what a kernel is made of, in names of files and metadata.
std::string hashOf(const CompileRequest &request);

} // namespace nereid::runtime
