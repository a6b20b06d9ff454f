// Runs passes by name over IR in text form: `nereid opt`, a tool for compiler developers.
#pragma once

namespace nereid {

/// What mlir-opt does, with the dialects and passes of this compiler: `argv[0]` is the program's
/// name, the rest options and a file. Gives the exit status. Once a process: LLVM keeps its options
/// in variables.
int runOpt(int argc, char **argv);

} // namespace nereid
