// CPython's limited API, and the few helpers that make it pleasant: an owning reference, type
// creation, errors.
//
// The extension is compiled once for every Python from 3.11 on (Py_LIMITED_API), so macros that
// look into objects do not exist here; everything goes through functions.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string>
#include <utility>

namespace nereid::python {

/// An owned reference, or null.
class Ref {
public:
  Ref() = default;
  Ref(const Ref &other) : object(other.object) { Py_XINCREF(object); }
  Ref(Ref &&other) noexcept : object(std::exchange(other.object, nullptr)) {}
  Ref &operator=(Ref other) noexcept {
    std::swap(object, other.object);
    return *this;
  }
  ~Ref() { Py_XDECREF(object); }

  /// Takes over a new reference, as most API functions return it.
  static Ref take(PyObject *object) {
    Ref ref;
    ref.object = object;
    return ref;
  }
  /// Shares a borrowed reference.
  static Ref share(PyObject *object) {
    Py_XINCREF(object);
    return take(object);
  }

  PyObject *get() const { return object; }
  PyObject *release() { return std::exchange(object, nullptr); }
  explicit operator bool() const { return object != nullptr; }

private:
  PyObject *object = nullptr;
};

/// `text` as an interned string that lives as long as the process.
PyObject *interned(const char *text);

/// The text of a str object; empty (with the error cleared) for anything else.
std::string textOf(PyObject *object);
/// `str(object)`; "<unprintable>" when that raises.
std::string strOf(PyObject *object);
/// `repr(object)`; "<unprintable>" when that raises.
std::string reprOf(PyObject *object);
/// "module.Name" of a type, without the module for builtins.
std::string typeName(PyObject *type);

/// `object.name`, or null without an exception when there is no such attribute; other exceptions
/// stay set.
Ref attribute(PyObject *object, const char *name);

/// `ValueError`, `TypeError`... by name; RuntimeError when unknown.
PyObject *exceptionClass(const char *name);

/// Takes the pending exception, normalised and with its traceback; null when there is none.
Ref takeException();

// An interpreter that ends gives its lock to no other thread. Until Python 3.14, which lets a
// thread that asks wait for ever, it ends the thread: the stack is unwound, and a function of the
// program on it that lets nothing out ends the process (so do PyTorch's bindings around a backward
// pass). So whoever asks for the lock here waits for ever as well. Locks of the library that such a
// thread holds stay taken, which the end of the process must not wait for.

/// PyGILState_Ensure, which does not come back in an interpreter that ends.
PyGILState_STATE ensureInterpreter();
/// PyEval_RestoreThread, the same.
void restoreThread(PyThreadState *state);

/// Holds the interpreter lock in a callback that comes from a thread of the library.
class GilGuard {
public:
  GilGuard() : state(ensureInterpreter()) {}
  ~GilGuard() { PyGILState_Release(state); }

private:
  PyGILState_STATE state;
};

/// Gives the interpreter lock back while the library works.
class GilRelease {
public:
  GilRelease() : state(PyEval_SaveThread()) {}
  ~GilRelease() { restoreThread(state); }

private:
  PyThreadState *state;
};

/// The classes and functions of the Python part that the extension needs;
/// `_native.register(name=object)` fills them. Those for values of a running compilation are null
/// until their modules are imported: use `registered` to get one.
struct Registry {
  PyObject *constexprClass = nullptr; ///< language.core.constexpr
  PyObject *dtypeClass = nullptr;     ///< language.core.dtype
  PyObject *makeType = nullptr; ///< (signature, shape or None) -> dtype, pointer_type or block_type
  PyObject *tupleClass = nullptr;    ///< language.core.tuple
  PyObject *tensorClass = nullptr;   ///< language.core.tensor
  PyObject *takesSemantic = nullptr; ///< callable -> whether it enters the compiler
  PyObject *memberOf = nullptr;      ///< (class, name) -> (kind, member) or None
  PyObject *rebuilt = nullptr; ///< (class, values of the fields) -> value of an aggregate's class
  PyObject *libraryValue = nullptr; ///< language._classes.library_value
  PyObject *compiledKernel =
      nullptr;                ///< compiler.CompiledKernel, called with (native kernel, JITFunction)
  PyObject *jitRun = nullptr; ///< JITFunction.run: a class with another one leaves the fast path
  PyObject *tunerRun = nullptr;    ///< Autotuner.run, and
  PyObject *rulesRun = nullptr;    ///< Heuristics.run: the same for decorators
  PyObject *ruleReads = nullptr;   ///< runtime._rules.reads: what a heuristic's result depends on
  PyObject *launchHooks = nullptr; ///< (kernel, grid, args, kwargs, warmup): launches while hooks
                                   ///< are installed; or None
  PyObject *compilationError = nullptr;  ///< errors.CompilationError
  PyObject *staticAssertError = nullptr; ///< errors.CompileTimeAssertionFailure
  PyObject *unsupportedError = nullptr;  ///< errors.UnsupportedLanguageConstruct
  PyObject *resourcesError = nullptr;    ///< errors.ResourcesExhausted
  PyObject *outOfResources = nullptr;    ///< errors.OutOfResources
  PyObject *internalError = nullptr;     ///< errors.InternalError
};
inline Registry theRegistry;
inline Registry &registry() {
  return theRegistry;
}

/// What `slot` of the registry holds, for which its module is imported; borrowed. Null with an
/// exception.
PyObject *registered(PyObject *Registry::*slot);

} // namespace nereid::python
