// Machine code of x86-64 as text.
#pragma once
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace nereid::cpu {

/// The code of an ELF file for x86-64, function by function, with addresses and with the targets of
/// calls by name. Lines of the source stand in comments where the file has debug information.
llvm::Expected<std::string> disassemble(llvm::StringRef elf);

} // namespace nereid::cpu
