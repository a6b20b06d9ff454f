#include "faces/python/errors.h"

#include <sstream>
#include <string>
#include <vector>

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

/// The exceptions that Triton would chain behind an error of a compilation: programs read their
/// texts.
static Ref reasonsOf(const nrd_error *error, PyObject *compilationError) {
  std::vector<std::string> classes;
  for (std::istringstream text(nrd_error_python_class(error)); text;) {
    std::string name;
    if (text >> name)
      classes.push_back(name);
  }
  Ref outer;
  for (auto name = classes.rbegin(); name != classes.rend(); ++name) {
    PyObject *ofCompilation =
        *name == "CompilationError"               ? compilationError
        : *name == "CompileTimeAssertionFailure"  ? registry().staticAssertError
        : *name == "UnsupportedLanguageConstruct" ? registry().unsupportedError
                                                  : nullptr;
    Ref reason =
        ofCompilation
            ? Ref::take(PyObject_CallMethod(ofCompilation, "_from_library", "ssss",
                                            nrd_error_message(error), nrd_error_name(error),
                                            nrd_error_summary(error), nrd_error_triton_text(error)))
            : Ref::take(PyObject_CallFunction(exceptionClass(name->c_str()), "s",
                                              nrd_error_triton_summary(error)));
    if (!reason) {
      PyErr_Clear();
      return {};
    }
    if (outer)
      PyException_SetCause(reason.get(), outer.release());
    outer = std::move(reason);
  }
  return outer;
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
    Ref cause = causeOf(error, compilation);
    if (!cause && ofCompilation)
      cause = reasonsOf(error, registry().compilationError);
    if (cause)
      PyException_SetCause(exception.get(), cause.release());
    Ref type = Ref::take(PyObject_Type(exception.get()));
    PyErr_SetObject(type.get(), exception.get());
  }
  nrd_error_free(error);
  return nullptr;
}

} // namespace nereid::python
