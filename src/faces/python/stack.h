// Launches through decorators: `kernel[grid](...)` of an Autotuner or Heuristics, stacked in any
// order over a JITFunction, without running any Python of ours.
//
// The *addition* of the decorators to a launch (constants and options of the chosen configuration,
// values of heuristics) depends on few inputs: for a tuner on the values of its key and on the
// classes of elements, for a heuristic on what it reads. A Stack remembers the additions by exactly
// these inputs, so that a warm launch is one more look-up before that of the kernel.
// docs/dispatch.md explains what makes an addition reusable and what is checked at every launch.
#pragma once

#include "faces/python/function.h"

namespace nereid::python {

/// Launches when the stack of decorators allows it: `done` is then set, and the result is the
/// compiled kernel or null with an exception. Otherwise nothing has happened yet, no exception is
/// set, and the decorators' `run` must be called.
PyObject *launchStacked(PyObject *kernel, PyObject *grid, const Call &call, bool &done);

/// The positional arguments of this thread's innermost launch through the decorator, borrowed;
/// None when there is none.
PyObject *argumentsInFlight(PyObject *decorator);

/// Called when a tuner's state has changed without an attribute being set: every stack reads it
/// again.
void choicesChanged();

int traverse(const Stack &stack, visitproc visit, void *arg);
/// Gives up one hold; null is nothing.
void drop(Stack *stack);

} // namespace nereid::python
