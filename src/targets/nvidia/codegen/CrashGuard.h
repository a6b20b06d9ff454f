// Calls of a foreign library whose crash is to be an error, not the end of the process.
//
// While a guard is there, signals of crashes have a handler of ours. Where the instruction that
// failed is one of the library's own, in a call that `call` made on the same thread, the call is
// left and comes back as crashed. All other signals go to the previous handler: faults of other
// threads, faults in libc (whose locks would stay held, as in `malloc` after a heap was damaged),
// signals sent by a process.
//
// After a crash the library's memory and locks are what they were at that moment: its memory leaks,
// and another call may block forever.
//
// (llvm::CrashRecoveryContext has one pair of handlers for the process, which takes every crash of
// the thread, in libc as well.)
#pragma once
#include <csetjmp>
#include <cstdint>
#include <utility>

namespace nereid::nvidia {

/// Where the code of a loaded library lies, both 0 when it is not known.
struct CodeRange {
  uintptr_t begin = 0, end = 0;
};
/// Of the library that holds this function.
CodeRange codeOfLibraryWith(const void *function);

class CrashGuard {
public:
  explicit CrashGuard(CodeRange code);
  CrashGuard(const CrashGuard &) = delete;
  CrashGuard &operator=(const CrashGuard &) = delete;
  ~CrashGuard();

  /// Calls a function of the library; false when it crashed. Nothing further may be called with
  /// what it was at.
  template <typename... Params, typename... Args>
  bool call(int &result, int (*function)(Params...), Args... args) {
    // Nothing with a destructor lives here, across which the handler would jump.
    if (sigsetjmp(place, 1) != 0) {
      inside = false;
      crashed = true;
      return false;
    }
    inside = true;
    result = function(args...);
    inside = false;
    return true;
  }

  bool hasCrashed() const { return crashed; }

  /// For the handler: whether a fault of this instruction, on this thread, is the call's, and where
  /// it goes on then.
  bool takes(uintptr_t instruction) const {
    return inside && instruction >= code.begin && instruction < code.end;
  }
  sigjmp_buf place;

private:
  const CodeRange code;
  int number = -1; ///< of its place among the guards
  volatile bool inside = false;
  bool crashed = false;
};

} // namespace nereid::nvidia
