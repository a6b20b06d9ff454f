// Values known at compile time, from Python to the library and back; and the proxies of values that
// only exist in the IR.
//
// A tensor of a running compilation is shown to Python as `tl.tensor(handle, type)`. The handle is
// opaque and belongs to one compilation: using it afterwards is an error, because the IR it points
// to is gone.
#pragma once

#include "faces/python/api.h"

#include "nereid/nereid.h"

#include <memory>
#include <tuple>
#include <unordered_set>
#include <vector>

namespace nereid::python {

class Function;

/// One running compilation on this thread. Compilations nest when a Python function called during
/// one launches another kernel.
struct Compilation {
  Function *root = nullptr;         ///< the kernel being compiled
  nrd_semantic *semantic = nullptr; ///< lent while foreign Python code runs
  bool alive = true;                ///< handles check it
  std::vector<Ref> exceptions;      ///< raised by Python code; causes of the compilation's error
  bool probing = false;             ///< see nrd_host.probe
  std::vector<std::tuple<Ref, Ref, Ref, bool>> probed; ///< what Function::capture got meanwhile
};
using CompilationPtr = std::shared_ptr<Compilation>;

/// One launch on this thread, from the call into the library to its return; whether it compiles is
/// not known before.
struct LaunchFrame {
  explicit LaunchFrame(Function &root) : root(root), outer(innermost) { innermost = this; }
  LaunchFrame(const LaunchFrame &) = delete;
  ~LaunchFrame() {
    innermost = outer;
    if (compilation) [[unlikely]]
      compilation->alive = false;
  }

  static inline constinit thread_local LaunchFrame *innermost = nullptr;

  Function &root;
  CompilationPtr compilation; ///< made by the first callback
  LaunchFrame *outer;
};

/// The innermost compilation of this thread; null outside of one.
CompilationPtr currentCompilation();

/// An owned nrd_value.
struct ValueDeleter {
  void operator()(nrd_value *value) const { nrd_value_free(value); }
};
using ValuePtr = std::unique_ptr<nrd_value, ValueDeleter>;

/// A Python object as a value. Boxes (constexpr) are opened; what has no meaning of its own to the
/// compiler stays an opaque object. Null with an exception set when it cannot be one. With
/// `nameSuffices` what stands for a name of the language may be that name alone (nrd_value_named).
ValuePtr toValue(PyObject *object, bool nameSuffices = false);
/// Whether it stands for a name of the language, as its functions and classes do.
bool isOfLanguage(PyObject *object);
/// An argument of a builtin or an option that Python code gives: a list is taken for a tuple, a
/// dictionary for a tuple of pairs.
ValuePtr toArgument(PyObject *object);

/// A value as a Python object. `boxed`: known scalars come as `tl.constexpr`, as builtins expect
/// them. Null with an exception set on failure.
Ref toPython(const nrd_value *value, bool boxed);

/// What identifies an opaque object across processes: it becomes part of cache keys.
std::string objectKey(PyObject *object);

/// A class of named tuples, or an aggregate: it outlives every cache that its values can be in.
struct TupleClass {
  PyObject *type;
  std::string title; ///< of an aggregate
  std::vector<std::string> names;
  std::vector<const char *> fields; ///< the texts of `names`
};

/// The class of a tuple with named fields; null for a plain one.
const TupleClass *tupleClassOf(PyObject *tuple);
/// The class of a value of an aggregate; null for everything else.
const TupleClass *fieldsOf(PyObject *object);

/// Adds the types `Handle` and `Semantic` to the module. False with an exception set on failure.
bool addValueTypes(PyObject *module);

/// A `Semantic` object for the running compilation.
Ref semanticObject(const CompilationPtr &compilation);

/// `_native.call_builtin(semantic, name, args, kwargs)`: enters the builtin table from Python code
/// that runs during a compilation. `semantic` may be None inside such code.
PyObject *callBuiltin(PyObject *module, PyObject *args);

} // namespace nereid::python
