// Machine code as text, of any target.
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

// The targets' parts of it, each in its own slice.
namespace nereid::cpu {

/// The code of an ELF file for x86-64, function by function, with addresses and with the targets of
/// calls by name. Lines of the source stand in comments where the file has debug information.
llvm::Expected<std::string> disassemble(llvm::StringRef elf);

} // namespace nereid::cpu
namespace nereid::nvidia {

/// A cubin, through nvdisasm or cuobjdump; an error says what is missing.
llvm::Expected<std::string> disassemble(llvm::StringRef cubin);

} // namespace nereid::nvidia
