// Options of LLVM that exist only on its command line; Nereid sets them for the whole process.
#pragma once

namespace nereid::targets {

/// Sets these options of LLVM, once a process. To be called before LLVM IR is made: the form of
/// vector constants is among them.
void setLlvmOptions();

} // namespace nereid::targets
