// The extension module `nereid._native`.
#include "faces/python/errors.h"
#include "faces/python/function.h"

namespace nereid::python {
namespace {

/// `register(name=object, ...)`: the Python part tells which of its classes the extension is to
/// make.
PyObject *registerObjects(PyObject *, PyObject *args, PyObject *kwargs) {
  Registry &names = registry();
  const std::pair<const char *, PyObject **> slots[] = {
      {"constexpr", &names.constexprClass},
      {"constexpr_function", &names.constexprFunction},
      {"dtype", &names.dtypeClass},
      {"make_type", &names.makeType},
      {"tuple", &names.tupleClass},
      {"tensor", &names.tensorClass},
      {"compiled_kernel", &names.compiledKernel},
      {"jit_run", &names.jitRun},
      {"CompilationError", &names.compilationError},
      {"CompileTimeAssertionFailure", &names.staticAssertError},
      {"UnsupportedLanguageConstruct", &names.unsupportedError},
      {"ResourcesExhausted", &names.resourcesError},
      {"InternalError", &names.internalError},
  };
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t position = 0; kwargs && PyDict_Next(kwargs, &position, &key, &value);) {
    bool known = false;
    for (auto [name, slot] : slots)
      if (PyUnicode_CompareWithASCIIString(key, name) == 0) {
        PyObject *before = std::exchange(*slot, Py_NewRef(value));
        Py_XDECREF(before);
        known = true;
      }
    if (!known)
      return PyErr_Format(PyExc_TypeError, "register() got an unexpected keyword argument '%U'",
                          key);
  }
  Py_RETURN_NONE;
}

PyObject *library(PyObject *, PyObject *) {
  return Py_BuildValue("{s:s,s:I}", "version", nrd_version(), "abi", nrd_abi_version());
}

PyObject *ownedText(char *text) {
  PyObject *object = PyUnicode_FromString(text);
  nrd_string_free(text);
  return object;
}

PyObject *doctor(PyObject *, PyObject *) {
  return ownedText(nrd_doctor());
}
PyObject *languageJson(PyObject *, PyObject *) {
  return ownedText(nrd_language_json());
}

PyMethodDef methods[] = {
    {"register", reinterpret_cast<PyCFunction>(reinterpret_cast<void *>(registerObjects)),
     METH_VARARGS | METH_KEYWORDS,
     "register(**objects): classes of the Python part that the extension makes"},
    {"call_builtin", callBuiltin, METH_VARARGS,
     "call_builtin(semantic, name, args, kwargs): enters the builtin table during a compilation"},
    {"library", library, METH_NOARGS, "library(): version of libnereid and of its ABI"},
    {"doctor", doctor, METH_NOARGS, "doctor(): what was found on this machine, as JSON"},
    {"language_json", languageJson, METH_NOARGS,
     "language_json(): all functions of the language, as JSON"},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "nereid._native",
                          "The Python face of libnereid.",
                          -1,
                          methods,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

} // namespace
} // namespace nereid::python

PyMODINIT_FUNC PyInit__native() {
  using namespace nereid::python;
  if (nrd_abi_version() != NRD_ABI_VERSION)
    return PyErr_Format(PyExc_ImportError, "libnereid speaks ABI %u, this extension needs %u",
                        nrd_abi_version(), NRD_ABI_VERSION);
  Ref module = Ref::take(PyModule_Create(&definition));
  if (!module || !addValueTypes(module.get()) || !addFunctionTypes(module.get()) ||
      !addKernelType(module.get()))
    return nullptr;
  return module.release();
}
