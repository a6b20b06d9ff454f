// What names and objects of Python mean to the compiler: the callbacks behind nrd_host.
//
// They come while the library compiles, on the thread that launched and without the interpreter
// lock. An exception is kept until the launch is over, so that it can become the cause of the
// compilation's error.
#include "faces/python/errors.h"
#include "faces/python/function.h"

#include <cstring>

namespace nereid::python {
namespace {

/// Hands the pending exception to the library. Returns -1, what a failed callback answers.
int fail() {
  Ref exception = takeException();
  CompilationPtr compilation = currentCompilation();
  std::string text;
  if (exception) {
    std::string type = typeName(reinterpret_cast<PyObject *>(Py_TYPE(exception.get())));
    text = PyErr_GivenExceptionMatches(exception.get(), registry().compilationError)
               ? textOf(attribute(exception.get(), "error_message").get())
               : type + ": " + strOf(exception.get());
    PyErr_Clear();
  }
  nrd_host_error(text.c_str(), reinterpret_cast<uint64_t>(exception.get()));
  if (compilation && exception)
    compilation->exceptions.push_back(exception);
  return -1;
}

int answer(const Ref &object, nrd_value **out) {
  CompilationPtr compilation = currentCompilation();
  bool isProbing = compilation && compilation->probing;
  ValuePtr value = object ? toValue(object.get(), isProbing) : nullptr;
  if (!value)
    return fail();
  *out = value.release();
  return 1;
}

PyObject *objectOf(uint64_t handle) {
  return reinterpret_cast<PyObject *>(handle);
}

int lookup(void *, void *functionData, const char *name, nrd_value **out) {
  GilGuard gil;
  auto *function = static_cast<Function *>(functionData);
  CompilationPtr compilation = currentCompilation();
  Ref object;
  int found = function->lookup(name, object, compilation ? *compilation->root : *function);
  return found > 0 ? answer(object, out) : found < 0 ? fail() : 0;
}

int getAttribute(void *, uint64_t handle, const char *name, nrd_value **out) {
  GilGuard gil;
  PyObject *object = objectOf(handle);
  Ref value = attribute(object, name);
  if (!value)
    return PyErr_Occurred() ? fail() : 0;
  // A module's constant is as good as a global: the kernel depends on it.
  CompilationPtr compilation = currentCompilation();
  if (compilation && PyObject_TypeCheck(object, &PyModule_Type) &&
      !PyObject_TypeCheck(value.get(), &PyModule_Type))
    if (PyObject *members = PyModule_GetDict(object);
        members && PyDict_GetItemString(members, name)) {
      Ref key = Ref::take(PyUnicode_FromString(name));
      compilation->root->capture(members, key.get(), value.get(), /*isCell=*/false);
    }
  return answer(value, out);
}

int getItem(void *, uint64_t handle, const nrd_value *index, nrd_value **out) {
  GilGuard gil;
  Ref key = toPython(index, /*boxed=*/false);
  return answer(Ref::take(key ? PyObject_GetItem(objectOf(handle), key.get()) : nullptr), out);
}

/// Whether Python code wants to enter the compiler: builtins (`@tl.core.builtin`,
/// `@tl.core.extern`), classes of values, and whatever has a parameter `_semantic`. Such code sees
/// constants as `constexpr`. -1 with an exception set.
int takesSemantic(PyObject *callee) {
  PyObject *asked = registered(&Registry::takesSemantic);
  Ref answer = Ref::take(asked ? PyObject_CallFunctionObjArgs(asked, callee, nullptr) : nullptr);
  return answer ? PyObject_IsTrue(answer.get()) : -1;
}

int getMember(void *, uint64_t cls, const char *name, int *kind, nrd_value **out) {
  GilGuard gil;
  PyObject *asked = registered(&Registry::memberOf);
  Ref found = Ref::take(asked ? PyObject_CallFunction(asked, "Os", objectOf(cls), name) : nullptr);
  if (!found)
    return fail();
  if (found.get() == Py_None)
    return 0;
  *kind = int(PyLong_AsLong(PyTuple_GetItem(found.get(), 0)));
  return answer(Ref::share(PyTuple_GetItem(found.get(), 1)), out);
}

/// A function that does not enter the compiler can be called again; of others
/// `nereid.runtime._description.described` knows what they depend on.
int describe(void *, uint64_t handle, char **text) {
  GilGuard gil;
  PyObject *object = objectOf(handle);
  int builtin = PyCallable_Check(object) ? takesSemantic(object) : 1;
  if (builtin == 0)
    return NRD_DESCRIBED_BY_CALL;
  Ref module = Ref::take(PyImport_ImportModule("nereid.runtime._description"));
  Ref found =
      Ref::take(module ? PyObject_CallMethod(module.get(), "described", "O", object) : nullptr);
  if (found && PyUnicode_Check(found.get())) {
    *text = strdup(textOf(found.get()).c_str());
    return NRD_DESCRIBED_BY_TEXT;
  }
  PyErr_Clear();
  return NRD_DESCRIBED_NOT;
}

/// Captures that are made while a kernel on disk is checked count only if that kernel is used.
void probe(void *, int stage) {
  GilGuard gil;
  CompilationPtr compilation = currentCompilation();
  if (!compilation)
    return;
  compilation->probing = stage == NRD_PROBE_BEGIN;
  auto captures = std::exchange(compilation->probed, {});
  if (stage == NRD_PROBE_ACCEPT)
    for (const auto &[container, name, value, isCell] : captures)
      compilation->root->capture(container.get(), name.get(), value.get(), isCell);
}

int call(void *, uint64_t handle, const nrd_value *const *args, size_t count,
         const char *const *keywordNames, const nrd_value *const *keywordValues,
         size_t keywordCount, nrd_semantic *semantic, nrd_value **out) {
  GilGuard gil;
  PyObject *callee = objectOf(handle);
  int builtin = takesSemantic(callee);
  if (builtin < 0)
    return fail();
  Ref positional = Ref::take(PyTuple_New(count));
  Ref keywords = Ref::take(PyDict_New());
  CompilationPtr compilation = currentCompilation();
  if (!positional || !keywords || !compilation)
    return fail();
  nrd_semantic *outer = std::exchange(compilation->semantic, semantic);
  bool converted = true;
  for (size_t i = 0; converted && i < count; ++i) {
    Ref object = toPython(args[i], builtin);
    converted = bool(object) && PyTuple_SetItem(positional.get(), i, object.release()) == 0;
  }
  for (size_t i = 0; converted && i < keywordCount; ++i) {
    Ref object = toPython(keywordValues[i], builtin);
    converted =
        bool(object) && PyDict_SetItemString(keywords.get(), keywordNames[i], object.get()) == 0;
  }
  if (converted && builtin) {
    Ref lent = semanticObject(compilation);
    converted = lent && PyDict_SetItemString(keywords.get(), "_semantic", lent.get()) == 0;
  }
  int result = answer(
      Ref::take(converted ? PyObject_Call(callee, positional.get(), keywords.get()) : nullptr),
      out);
  compilation->semantic = outer;
  return result;
}

int truth(void *, uint64_t handle) {
  GilGuard gil;
  int result = PyObject_IsTrue(objectOf(handle));
  return result < 0 ? fail() : result;
}

int identical(void *, uint64_t a, uint64_t b) {
  return a == b;
}

void print(void *, const char *text) {
  GilGuard gil;
  Ref builtins = Ref::take(PyImport_ImportModule("builtins"));
  Ref function = Ref::take(builtins ? PyObject_GetAttrString(builtins.get(), "print") : nullptr);
  Ref keywords = Ref::take(Py_BuildValue("{s:s}", "end", ""));
  Ref arguments = Ref::take(Py_BuildValue("(s)", text));
  if (!function || !keywords || !arguments ||
      !Ref::take(PyObject_Call(function.get(), arguments.get(), keywords.get())))
    PyErr_WriteUnraisable(function.get());
}

} // namespace

const nrd_host *pythonHost() {
  static const nrd_host host = {nullptr,   lookup, getAttribute, getItem,  call, truth,
                                identical, print,  getMember,    describe, probe};
  return &host;
}

} // namespace nereid::python
