// Errors of the library as Python exceptions.
#pragma once

#include "faces/python/values.h"

namespace nereid::python {

/// Raises what `error` says, with the Python exception behind it as `__cause__`, and frees it.
/// Always returns null.
PyObject *raise(nrd_error *error, const CompilationPtr &compilation = nullptr);

} // namespace nereid::python
