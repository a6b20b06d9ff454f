// Waiting for the interpreter's lock. Compiled with exceptions, for what glibc does to a thread
// that ends is caught as if it were one.
#include "faces/python/api.h"

#include <unistd.h>

namespace nereid::python {

[[noreturn]] static void waitForTheEnd() {
  while (true)
    pause();
}

PyGILState_STATE ensureInterpreter() {
  // The thread that ends the interpreter has a state. Others without one must not ask: what makes
  // their states may be gone.
  if (!Py_IsInitialized() && !PyGILState_GetThisThreadState())
    waitForTheEnd();
  try {
    return PyGILState_Ensure();
  } catch (...) {
    waitForTheEnd(); // nothing may leave this block
  }
}

void restoreThread(PyThreadState *state) {
  try {
    PyEval_RestoreThread(state);
  } catch (...) {
    waitForTheEnd();
  }
}

} // namespace nereid::python
