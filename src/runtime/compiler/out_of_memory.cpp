// LLVM ends the process when one of its containers finds no memory; a compilation ends with an
// error instead (c_guard.cpp). Compiled with exceptions.
#include "runtime/compiler/out_of_memory.h"

#include "llvm/Support/ErrorHandling.h"

#include <cstddef>
#include <mutex>
#include <new>

#include <sys/mman.h>

/// Whether a failed allocation of this thread is to throw. Not while an exception is on its way:
/// making it allocates, too, and has memory set aside for when that fails.
static thread_local bool throwing = false;

[[noreturn]] static void throwBadAlloc() {
  throwing = false;
  throw std::bad_alloc();
}

// MLIR does not look at what `malloc` gives. Where LLVM is linked into this library, all its calls
// come here (`--wrap=malloc`).
// NOLINTBEGIN(bugprone-reserved-identifier): the linker makes these names
extern "C" void *__real_malloc(size_t size);
extern "C" __attribute__((visibility("hidden"))) void *__wrap_malloc(size_t size);
#ifdef NEREID_STATIC_LLVM
void *__wrap_malloc(size_t size) {
  void *memory = __real_malloc(size);
  if (!memory && size && throwing) [[unlikely]]
    throwBadAlloc();
  return memory;
}
#endif
// NOLINTEND(bugprone-reserved-identifier)

void nereid::runtime::throwWithoutMemory() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { throwBadAlloc(); });
  });
}

bool nereid::runtime::withinMemory(void (*work)(void *data), void *data) {
  // Address space, not memory: for whoever tells the user.
  constexpr size_t enoughToReport = size_t(32) << 20;
  void *reserve =
      mmap(nullptr, enoughToReport, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserve == MAP_FAILED)
    return false;
  bool before = throwing;
  throwing = true;
  bool enough = true;
  try {
    work(data);
  } catch (const std::bad_alloc &) {
    enough = false;
  }
  throwing = before;
  munmap(reserve, enoughToReport);
  return enough;
}
