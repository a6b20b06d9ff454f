// LLVM ends the process when one of its containers finds no memory; a compilation ends with an
// error instead (c_guard.cpp). Compiled with exceptions.
#include "runtime/compiler/out_of_memory.h"

#include "llvm/Support/ErrorHandling.h"

#include <mutex>
#include <new>

void nereid::runtime::throwWithoutMemory() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::install_bad_alloc_error_handler(
        [](void *, const char *, bool) { throw std::bad_alloc(); });
  });
}

bool nereid::runtime::withinMemory(void (*work)(void *data), void *data) {
  try {
    work(data);
    return true;
  } catch (const std::bad_alloc &) {
    return false;
  }
}
