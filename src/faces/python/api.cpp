#include "faces/python/api.h"

namespace nereid::python {

PyObject *interned(const char *text) {
  return PyUnicode_InternFromString(text);
}

std::string textOf(PyObject *object) {
  Py_ssize_t size = 0;
  const char *text = object ? PyUnicode_AsUTF8AndSize(object, &size) : nullptr;
  if (text)
    return std::string(text, size);
  PyErr_Clear();
  return "";
}

static std::string printed(const Ref &text) {
  if (!text) {
    PyErr_Clear();
    return "<unprintable>";
  }
  return textOf(text.get());
}

std::string strOf(PyObject *object) {
  return printed(Ref::take(PyObject_Str(object)));
}
std::string reprOf(PyObject *object) {
  return printed(Ref::take(PyObject_Repr(object)));
}

std::string typeName(PyObject *type) {
  std::string module = textOf(attribute(type, "__module__").get());
  std::string name = textOf(attribute(type, "__qualname__").get());
  PyErr_Clear();
  return module.empty() || module == "builtins" ? name : module + "." + name;
}

Ref attribute(PyObject *object, const char *name) {
  Ref value = Ref::take(PyObject_GetAttrString(object, name));
  if (!value && PyErr_ExceptionMatches(PyExc_AttributeError))
    PyErr_Clear();
  return value;
}

PyObject *exceptionClass(const char *name) {
  static const struct {
    const char *name;
    PyObject **object;
  } classes[] = {
      {"TypeError", &PyExc_TypeError},
      {"ValueError", &PyExc_ValueError},
      {"KeyError", &PyExc_KeyError},
      {"OverflowError", &PyExc_OverflowError},
      {"AssertionError", &PyExc_AssertionError},
      {"NameError", &PyExc_NameError},
      {"AttributeError", &PyExc_AttributeError},
      {"IndexError", &PyExc_IndexError},
      {"OSError", &PyExc_OSError},
      {"MemoryError", &PyExc_MemoryError},
  };
  for (const auto &entry : classes)
    if (std::string(name) == entry.name)
      return *entry.object;
  return PyExc_RuntimeError;
}

Ref takeException() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  if (!type)
    return {};
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback && value)
    PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return Ref::take(value);
}

PyObject *registered(PyObject *Registry::*slot) {
  for (const char *module : {"nereid.language._values", "nereid.language._classes"})
    if (!(registry().*slot) && !Ref::take(PyImport_ImportModule(module)))
      return nullptr;
  return registry().*slot;
}

} // namespace nereid::python
