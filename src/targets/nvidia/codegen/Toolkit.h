// Where the parts of a CUDA installation are: libraries, programs and libdevice, of a toolkit or of
// the pip packages that come with torch and Triton.
//
// Looked for in this order: the setting NEREID_CUDA_PATH (alias CUDA_HOME; folders separated by
// `:`), the Python packages of this process (support/packages.h) and those beside this library,
// /usr/local/cuda and its numbered neighbours, newest first.
#pragma once
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace nereid::nvidia {

/// Existing files of that name among the libraries ("libnvJitLink.so.13"), best first; at most
/// `most` of them, after which nothing more is looked for.
std::vector<std::string> findLibraries(llvm::StringRef name, size_t most = SIZE_MAX);
/// The program "ptxas", "nvdisasm"...: in the places above, then in PATH. Empty when there is none.
std::string findProgram(llvm::StringRef name);
/// libdevice.10.bc; the setting NEREID_LIBDEVICE (alias TRITON_LIBDEVICE_PATH) comes first. Empty
/// when there is none.
std::string findLibdevice();

} // namespace nereid::nvidia
