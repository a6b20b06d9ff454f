// The compiler of a program that links its archives.
#include "runtime/compiler.h"

namespace nereid::runtime {

const Compiler *Compiler::find() {
  return &linkedCompiler();
}

ErrorPtr Compiler::problem() {
  return nullptr;
}

} // namespace nereid::runtime
