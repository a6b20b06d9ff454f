// A kernel under Python: the library's function, the parameters its arguments are bound to, and
// what its text captured from Python. `_native.KernelBase` is the Python class that carries one;
// `JITFunction` derives from it.
#pragma once

#include "faces/python/arguments.h"
#include "faces/python/grids.h"

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

/// One slot per parameter, on the stack for all but the largest kernels.
template <typename T> class Slots {
public:
  explicit Slots(size_t count) : data(small) {
    if (count > inlineSize) [[unlikely]]
      data = new T[count];
  }
  Slots(const Slots &) = delete;
  ~Slots() {
    if (data != small) [[unlikely]]
      delete[] data;
  }
  T *get() { return data; }
  T &operator[](size_t index) { return data[index]; }

private:
  static constexpr size_t inlineSize = 48;
  T *data;
  T small[inlineSize];
};

/// The arguments of a call as the interpreter hands them over, borrowed: positional ones, then the
/// values of the keywords.
struct Call {
  PyObject *const *values;
  size_t positional;
  PyObject *names = nullptr; ///< a tuple, or null without keywords

  size_t keywords() const { return names ? size_t(PyTuple_Size(names)) : 0; }
  /// The positional ones as a tuple, the others as a new dict; null with an exception set.
  Ref args() const;
  Ref kwargs() const;
};

/// The same of a tuple and a dict (or null), which must outlive it.
class CallOf {
public:
  CallOf(PyObject *args, PyObject *kwargs);
  operator const Call &() const { return call; }

private:
  Slots<PyObject *> values;
  Ref names;
  Call call;
};

/// Launch keywords that are not parameters: names and values, borrowed.
using Keywords = Few<std::pair<PyObject *, PyObject *>, 8>;

/// The same, as the library wants them.
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
  PyObject *launch(PyObject *grid, const Call &call, bool warmup);

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
  PyObject *launchCompiled(nrd_kernel *kernel, PyObject *grid, const Call &call, PyObject *stream);

  /// The value of a name in the function's text: 1 and `out`, 0 when it does not exist, -1 with an
  /// exception set.
  int lookup(const char *name, Ref &out, Function &root);

  // The steps of a launch, for launches through decorators (stack.h). Each returns false or null
  // with an exception set.

  const std::vector<Parameter> &parameterList() const { return parameters; }
  /// The parameters that the call gives, one slot each; null for those it does not give.
  bool bindGiven(const Call &call, PyObject **bound, Keywords &options);
  /// Defaults for the rest; an error when one has none.
  bool bindDefaults(PyObject **bound);
  bool toArgument(size_t index, PyObject *object, ArgumentScope &scope, nrd_arg &out) {
    return (isUsual[index] && toUsualArgument(object, out)) ||
           python::toArgument(parameters[index], object, scope, out);
  }
  OptionSet *optionsFor(const Keywords &given);
  bool resolveGrid(PyObject *grid, PyObject *const *bound, uint32_t out[3], bool &isHarmless) {
    return grids.resolve(grid, bound, out, isHarmless);
  }
  /// Finds or compiles the kernel and, with `launch`, runs it; returns its Python object. `bound`
  /// is what `arguments` were made of.
  PyObject *dispatch(LaunchFrame &frame, PyObject *const *bound, const nrd_arg *arguments,
                     const OptionSet &options, const nrd_launch *launch);

  /// Remembers that a kernel of this function depends on `value`.
  void capture(PyObject *container, PyObject *name, PyObject *value, bool isCell);
  /// Opaque objects whose address became a handle: they live as long as the function.
  void keep(PyObject *object);

  void clearCache();
  /// The text of a jit function has become another one: whatever was made of the old one is
  /// forgotten, kernels that call it or have it as a constant, and its value in arguments.
  static void sourceChanged(PyObject *owner);
  /// Marks it as replaced; it lives on while it is in use.
  void retire();
  int traverse(visitproc visit, void *arg);

private:
  Function();
  bool bind(const Call &call, PyObject **bound, Keywords &options) {
    return bindGiven(call, bound, options) && bindDefaults(bound);
  }
  bool missing(PyObject *const *bound);
  /// The options with the name that `@jit(repr=...)` gives to a new kernel; null with an exception
  /// set.
  OptionsPtr optionsWithName(const OptionSet &options, PyObject *const *bound);
  bool toArguments(PyObject *const *bound, ArgumentScope &scope, nrd_arg *out);
  bool capturesUnchanged();
  PyObject *compiledObject(nrd_kernel *kernel) {
    if (kernel && kernel == latest.first) [[likely]]
      return Py_NewRef(latest.second);
    return otherCompiledObject(kernel);
  }
  PyObject *otherCompiledObject(nrd_kernel *kernel);

  // What every launch reads comes first, side by side.
  nrd_function *function = nullptr;
  std::vector<Parameter> parameters;
  std::vector<uint8_t> isUsual;   ///< of each parameter, close together
  OptionSet *noOptions = nullptr; ///< the one of launches without keywords, once there was one
  std::pair<nrd_kernel *, PyObject *> latest = {}; ///< the one of `kernels` that was launched last
  std::vector<Capture> captures;
  bool namesKernels = false; ///< `@jit(repr=...)`: asked for the name of each new kernel
  Grids grids{parameters};
  /// The resolved keywords of the last launch that had some: the tuple of names is mostly the same
  /// object in each call.
  struct {
    Ref names;
    size_t positional = 0;
    std::vector<int16_t> parameters; ///< of each keyword; -1 for an option
    const PyObject *missed =
        nullptr; ///< the names of the last launch with others; never looked into
  } lastKeywords;

  PyObject *ownerObject = nullptr;
  std::string name;
  Ref globals, closure, defaultOptions;
  std::vector<std::unique_ptr<OptionSet>> optionSets;
  std::unordered_map<nrd_kernel *, Ref> kernels;
  std::unordered_set<PyObject *> kept;
};

class Stack;

/// `_native.KernelBase`: what can be launched as `kernel[grid](...)`.
struct KernelBaseObject {
  PyObject_HEAD Function *function; ///< of a JITFunction, once it was needed
  bool indirect;                    ///< launches go through `run`: it was set on the object
  uint64_t version;                 ///< counts changes of attributes that decide a launch
  Stack *stack;                     ///< of a decorator: what its launches know (stack.h)
  PyObject *best;                   ///< what `best_config` was last set to
};

inline KernelBaseObject *asKernel(PyObject *object) {
  return reinterpret_cast<KernelBaseObject *>(object);
}

/// Whether the object is an instance of KernelBase.
bool isKernelBase(PyObject *object);
/// What the interpreter itself asks for an attribute of a class, with its cache of what classes
/// hold, where it can be called; set when the module is made.
struct RunLookUp {
  PyObject *(*ask)(PyTypeObject *type, PyObject *name) = nullptr;
  PyObject *name = nullptr;
};
extern RunLookUp runLookUp;
PyObject *runByAttribute(PyObject *kernel);
/// `run` of the object's class, borrowed; null without an exception where there is none.
inline PyObject *runOf(PyObject *kernel) {
  return runLookUp.ask ? runLookUp.ask(Py_TYPE(kernel), runLookUp.name) : runByAttribute(kernel);
}

/// Whether the object is a kernel (an instance of KernelBase with a text of its own).
bool isKernel(PyObject *object);
/// Its function, made on first use. Null without an exception when it is no kernel.
Function *functionOf(PyObject *object);

/// Keeps an object alive as long as the kernel that is being launched on this thread.
void keepAlive(PyObject *object);

/// `_native.CompiledBase`: what makes a compiled kernel's `kernel[grid](...)`. The Python class on
/// top of it has the attributes `_native`, the kernel's handle, and `fn`, its function.
struct CompiledObject {
  PyObject_HEAD PyObject *handle; ///< these two, once there was a launch; else null
  PyObject *function;
};

/// Adds `KernelBase`, `CompiledBase`, `Launcher` and `Kernel` to the module. False with an
/// exception set on failure.
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
