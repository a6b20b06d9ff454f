#include "faces/python/errors.h"

namespace nereid::python {

static PyObject *classOf(const nrd_error *error) {
  Registry &names = registry();
  PyObject *cls = nullptr;
  switch (nrd_error_get_kind(error)) {
  case NRD_ERROR_COMPILE:
    cls = names.compilationError;
    break;
  case NRD_ERROR_STATIC_ASSERT:
    cls = names.staticAssertError;
    break;
  case NRD_ERROR_UNSUPPORTED:
    cls = names.unsupportedError;
    break;
  case NRD_ERROR_RESOURCES:
    cls = names.resourcesError;
    break;
  case NRD_ERROR_INTERNAL:
    cls = names.internalError;
    break;
  case NRD_ERROR_ARGUMENT:
    cls = exceptionClass(nrd_error_python_class(error));
    break;
  case NRD_ERROR_RUNTIME:
    break;
  }
  return cls ? cls : PyExc_RuntimeError;
}

static Ref causeOf(const nrd_error *error, const CompilationPtr &compilation) {
  uint64_t handle = nrd_error_cause(error);
  if (!handle || !compilation)
    return {};
  for (const Ref &exception : compilation->exceptions)
    if (reinterpret_cast<uint64_t>(exception.get()) == handle)
      return exception;
  return {};
}

PyObject *raise(nrd_error *error, const CompilationPtr &compilation) {
  // The classes are loaded when something goes wrong.
  if (!registry().compilationError && !Ref::take(PyImport_ImportModule("nereid.errors"))) {
    nrd_error_free(error);
    return nullptr;
  }
  PyObject *cls = classOf(error);
  bool ofCompilation = cls == registry().compilationError || cls == registry().staticAssertError ||
                       cls == registry().unsupportedError;
  Ref exception;
  int64_t required = 0, limit = 0;
  if (ofCompilation)
    exception = Ref::take(PyObject_CallMethod(
        cls, "_from_library", "ssss", nrd_error_message(error), nrd_error_name(error),
        nrd_error_summary(error), nrd_error_triton_text(error)));
  else if (const char *resource = nrd_error_resource(error, &required, &limit))
    exception = Ref::take(
        PyObject_CallFunction(registry().outOfResources, "LLss", static_cast<long long>(required),
                              static_cast<long long>(limit), resource, nrd_error_message(error)));
  else
    exception = Ref::take(PyObject_CallFunction(cls, "s", nrd_error_message(error)));
  if (exception) {
    if (Ref cause = causeOf(error, compilation))
      PyException_SetCause(exception.get(), cause.release());
    Ref type = Ref::take(PyObject_Type(exception.get()));
    PyErr_SetObject(type.get(), exception.get());
  }
  nrd_error_free(error);
  return nullptr;
}

} // namespace nereid::python
