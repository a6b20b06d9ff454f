// Machine code as text.
#pragma once
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace nereid::targets {

/// The instructions of an ELF image: a cubin, by nvdisasm or cuobjdump (an error says what to
/// install); an object file or program for x86-64, by LLVM. Where the image has lines of the
/// source, comments `//## File "kernels.py", line 12` stand in front of the instructions.
llvm::Expected<std::string> disassemble(llvm::StringRef image);

} // namespace nereid::targets
