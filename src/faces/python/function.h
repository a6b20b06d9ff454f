// A kernel under Python: the library's function, the parameters its arguments are bound to, and
// what its text captured from Python. `_native.KernelBase` is the Python class that carries one;
// `JITFunction` derives from it.
#pragma once

#include "faces/python/arguments.h"

#include <unordered_map>
#include <unordered_set>

namespace nereid::python {

/// A global or closure variable that a compiled kernel has read. Changing it afterwards is an error
/// at the next launch.
struct Capture {
  Ref container; ///< the dict of globals, or the closure's cell
  Ref name;
  Ref value;
  bool isCell;
};

/// Launch keywords that are not parameters, as the library wants them.
struct OptionSet {
  std::vector<std::pair<Ref, Ref>> given; ///< what the launch said, for look-up
  nrd_options *options = nullptr;
  uint32_t threads = 0;
  uint8_t checked = 0;

  OptionSet() = default;
  OptionSet(const OptionSet &) = delete;
  ~OptionSet() { nrd_options_free(options); }
};

struct OptionsDeleter {
  void operator()(nrd_options *options) const { nrd_options_free(options); }
};
using OptionsPtr = std::unique_ptr<nrd_options, OptionsDeleter>;

class Function {
public:
  /// `owner`: the JITFunction, which owns this. The rest as `KernelBase._create` takes it; null
  /// with an exception set.
  static Function *create(PyObject *owner, PyObject *args);
  ~Function();

  PyObject *owner() const { return ownerObject; }
  nrd_function *handle() const { return function; }

  /// `kernel[grid](*args, **kwargs)`; with `warmup` it only compiles. Returns the compiled kernel's
  /// Python object.
  PyObject *launch(PyObject *grid, PyObject *args, PyObject *kwargs, bool warmup);

  /// The compiled kernel's Python object that this launch would use; None when it is not compiled
  /// yet.
  PyObject *find(PyObject *args, PyObject *kwargs, bool warmup);

  /// Binds the arguments of a compilation, which `Prepared.compile()` then runs, on any thread.
  PyObject *prepare(PyObject *args, PyObject *kwargs);
  PyObject *compilePrepared(const std::vector<nrd_arg> &arguments, const nrd_options *options);

  /// Compiles without arguments: `items` has one for each parameter (toTypedArgument), `options` is
  /// a dict, `kernelName` the kernel's name or null. Returns the compiled kernel's Python object.
  PyObject *compile(PyObject *items, PyObject *options, const char *kernelName);

  /// Python's objects of the kernels compiled so far, as a list.
  PyObject *compiledKernels();

  /// Launches a kernel that is compiled already; `args` has one argument per parameter.
  /// `stream`: an integer, or None for the current one.
  PyObject *launchCompiled(nrd_kernel *kernel, PyObject *grid, PyObject *args, PyObject *stream);

  /// What the name means in the function's text: 1 and `out`, 0 when it does not exist, -1 with an
  /// exception set.
  int lookup(const char *name, Ref &out, Function &root);

  /// Remembers that a kernel of this function depends on `value`.
  void capture(PyObject *container, PyObject *name, PyObject *value, bool isCell);
  /// Opaque objects whose address became a handle: they live as long as the function.
  void keep(PyObject *object);

  void clearCache();
  int traverse(visitproc visit, void *arg);

private:
  Function() = default;
  bool bind(PyObject *args, PyObject *kwargs, PyObject **bound,
            std::vector<std::pair<PyObject *, PyObject *>> &options);
  bool missing(PyObject *const *bound);
  OptionSet *optionsFor(const std::vector<std::pair<PyObject *, PyObject *>> &given);
  /// The options with the name that `@jit(repr=...)` gives to a new kernel; null with an exception
  /// set.
  OptionsPtr optionsWithName(const OptionSet &options, PyObject *const *bound);
  bool resolveGrid(PyObject *grid, PyObject *const *bound, uint32_t out[3]);
  bool toArguments(PyObject *const *bound, ArgumentScope &scope, nrd_arg *out);
  bool capturesUnchanged();
  PyObject *compiledObject(nrd_kernel *kernel);

  PyObject *ownerObject = nullptr;
  nrd_function *function = nullptr;
  std::string name;
  bool namesKernels = false; ///< `@jit(repr=...)`: asked for the name of each new kernel
  Ref globals, closure, defaultOptions;
  std::vector<Parameter> parameters;
  std::vector<Capture> captures;
  std::vector<std::unique_ptr<OptionSet>> optionSets;
  std::unordered_map<nrd_kernel *, Ref> kernels;
  std::unordered_set<PyObject *> kept;
};

/// Whether the object is a kernel (an instance of KernelBase with a text of its own).
bool isKernel(PyObject *object);
/// Its function, made on first use. Null without an exception when it is no kernel.
Function *functionOf(PyObject *object);

/// Keeps an object alive as long as the kernel that is being launched on this thread.
void keepAlive(PyObject *object);

/// Adds `KernelBase`, `Launcher` and `Kernel` to the module. False with an exception set on
/// failure.
bool addFunctionTypes(PyObject *module);

/// The callbacks that answer for Python's names and objects: host.cpp.
const nrd_host *pythonHost();

/// `_native.Prepared`: prepared.cpp. `_native.Search` and what is kept on disk: tuning.cpp.
bool addPreparedType(PyObject *module);
bool addTuning(PyObject *module);

/// The compiled kernel's type, `_native.Kernel`: kernel.cpp.
bool addKernelType(PyObject *module);
Ref makeKernelHandle(nrd_kernel *kernel, PyObject *owner);
/// The kernel behind a `_native.Kernel`; null with an exception set for anything else.
nrd_kernel *kernelOfHandle(PyObject *object);

} // namespace nereid::python
