#include "faces/python/function.h"

#include "faces/python/errors.h"
#include "faces/python/stack.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <structmember.h>

namespace nereid::python {

//===--- construction
//----------------------------------------------------------------------------===//

static PyObject *missingMarker() {
  static PyObject *marker = PyObject_CallNoArgs(reinterpret_cast<PyObject *>(&PyBaseObject_Type));
  return marker;
}

/// What decorators said, which stand before the text that the library gets.
static void readMarks(PyObject *owner, nrd_function *function) {
  if (Ref mark = attribute(owner, "noinline"))
    nrd_function_set_noinline(function, PyObject_IsTrue(mark.get()) == 1);
  if (Ref mark = attribute(owner, "_must_use_result"); mark && PyObject_IsTrue(mark.get()) == 1)
    nrd_function_set_must_use_result(function,
                                     PyUnicode_Check(mark.get()) ? textOf(mark.get()).c_str() : "");
  PyErr_Clear();
}

/// What a derivative has as further parameters: `_derivatives`, for each derivative its tangents,
/// (parameter, name, roles) each, whether they are gradients, and whether it writes the outputs,
/// too. False with an exception set.
static bool readDerivatives(PyObject *owner, nrd_function *function) {
  Ref derivatives = attribute(owner, "_derivatives");
  PyErr_Clear();
  if (!derivatives || !PyTuple_Check(derivatives.get()))
    return true;
  for (Py_ssize_t k = 0; k < PyTuple_Size(derivatives.get()); ++k) {
    PyObject *tangents = nullptr;
    int isReverse = 0, hasOutputs = 0;
    if (!PyArg_ParseTuple(PyTuple_GetItem(derivatives.get(), k), "O!pp", &PyTuple_Type, &tangents,
                          &isReverse, &hasOutputs))
      return false;
    std::vector<nrd_tangent> items;
    for (Py_ssize_t i = 0; i < PyTuple_Size(tangents); ++i) {
      nrd_tangent &item = items.emplace_back();
      if (!PyArg_ParseTuple(PyTuple_GetItem(tangents, i), "ssI", &item.parameter, &item.name,
                            &item.roles))
        return false;
    }
    auto set = hasOutputs  ? nrd_function_set_outputs_and_gradients
               : isReverse ? nrd_function_set_gradients
                           : nrd_function_set_tangents;
    nrd_error *error = set(function, items.data(), items.size());
    if (error) {
      raise(error);
      return false;
    }
  }
  return true;
}

Function *Function::create(PyObject *owner, PyObject *args) {
  const char *source = nullptr, *file = nullptr, *name = nullptr;
  Py_ssize_t size = 0;
  unsigned int firstLine = 0;
  PyObject *globals = nullptr, *closure = nullptr, *parameters = nullptr, *options = nullptr;
  int namesKernels = 0, isTile = 0;
  if (!PyArg_ParseTuple(args, "s#sIsO!O!O!O!p|p:_create", &source, &size, &file, &firstLine, &name,
                        &PyDict_Type, &globals, &PyDict_Type, &closure, &PyTuple_Type, &parameters,
                        &PyDict_Type, &options, &namesKernels, &isTile))
    return nullptr;
  std::unique_ptr<Function> self(new Function);
  self->namesKernels = namesKernels;
  self->ownerObject = owner;
  self->name = name;
  self->globals = Ref::share(globals);
  self->closure = Ref::share(closure);
  self->defaultOptions = Ref::share(options);

  nrd_module *module = nullptr;
  nrd_error *error = isTile ? nrd_module_parse_tile(source, size, file, &module)
                            : nrd_module_parse(source, size, file, firstLine, &module);
  if (!error)
    error = nrd_function_create(module, name, pythonHost(), self.get(), &self->function);
  nrd_module_free(module);
  if (error) {
    raise(error);
    return nullptr;
  }

  readMarks(owner, self->function);
  if (!readDerivatives(owner, self->function))
    return nullptr;
  size_t count = nrd_function_param_count(self->function);
  bool same = size_t(PyTuple_Size(parameters)) == count;
  for (size_t i = 0; i < count && same; ++i) {
    PyObject *parameterName = nullptr, *defaultValue = nullptr;
    unsigned int policy = 0;
    const char *type = nullptr;
    if (!PyArg_ParseTuple(PyTuple_GetItem(parameters, i), "UOIz", &parameterName, &defaultValue,
                          &policy, &type))
      return nullptr;
    same = textOf(parameterName) == nrd_function_param_name(self->function, i);
    Parameter parameter{};
    Py_INCREF(parameterName);
    PyUnicode_InternInPlace(&parameterName);
    parameter.name = parameterName;
    if (defaultValue != missingMarker())
      parameter.defaultValue = Ref::share(defaultValue);
    parameter.isConstexpr = nrd_function_param_is_constexpr(self->function, i);
    if (policy)
      nrd_function_set_param_policy(self->function, i, policy);
    if (type) {
      if (type[0] == '*')
        parameter.pointee = dtypeByName(type[1] == 'k' ? type + 2 : type + 1);
      if (nrd_error *wrong = nrd_function_set_param_type(self->function, i, type)) {
        raise(wrong);
        return nullptr;
      }
    }
    self->isUsual.push_back(parameter.isUsual());
    self->parameters.push_back(std::move(parameter));
  }
  if (!same) {
    PyErr_Format(PyExc_RuntimeError,
                 "the source of `%s` in %s does not match the function that was imported: the file "
                 "has changed since, "
                 "reload it",
                 name, file);
    return nullptr;
  }
  return self.release();
}

/// All functions there are; under the interpreter's lock.
static std::unordered_set<Function *> &allFunctions() {
  static auto *all = new std::unordered_set<Function *>();
  return *all;
}

Function::Function() {
  allFunctions().insert(this);
}

Function::~Function() {
  allFunctions().erase(this);
  nrd_function_free(function);
  for (const Parameter &parameter : parameters)
    Py_DECREF(parameter.name);
  for (PyObject *object : kept)
    Py_DECREF(object);
}

int Function::traverse(visitproc visit, void *arg) {
  Py_VISIT(globals.get());
  Py_VISIT(closure.get());
  for (const Parameter &parameter : parameters) {
    Py_VISIT(parameter.defaultValue.get());
    Py_VISIT(parameter.lastConstant.get());
  }
  for (const Capture &captured : captures)
    Py_VISIT(captured.value.get());
  if (int result = grids.traverse(visit, arg))
    return result;
  for (const auto &entry : kernels)
    Py_VISIT(entry.second.get());
  for (PyObject *object : kept)
    Py_VISIT(object);
  return 0;
}

void Function::keep(PyObject *object) {
  if (kept.insert(object).second)
    Py_INCREF(object);
}

void Function::clearCache() {
  latest = {};
  // Hooks run while the objects go: they may compile and launch.
  auto gone = std::exchange(kernels, {});
  captures.clear();
  nrd_function_clear_cache(function);
}

void Function::retire() {
  allFunctions().erase(this);
}

void Function::sourceChanged(PyObject *owner) {
  static PyObject *const hashName = interned("_hash");
  std::vector<Ref> dependents;
  for (Function *each : allFunctions()) {
    for (Parameter &parameter : each->parameters)
      if (isKernel(parameter.lastConstant ? parameter.lastConstant.get() : Py_None)) {
        parameter.lastConstant = Ref();
        parameter.lastValue.reset();
      }
    if (each->ownerObject != owner && each->kept.count(owner))
      dependents.push_back(Ref::share(each->ownerObject));
  }
  python::choicesChanged(); // decorators hold arguments that are ready
  for (const Ref &dependent : dependents) {
    if (Function *function = functionOf(dependent.get()))
      function->clearCache();
    if (PyObject_SetAttr(dependent.get(), hashName, Py_None) < 0)
      PyErr_Clear();
  }
}

//===--- names
//-----------------------------------------------------------------------------------===//

/// Whether every kernel may read the object as a global; other objects are checked in Python
/// (runtime.jit._check_capture).
static bool freelyCaptured(PyObject *value) {
  Registry &names = registry();
  return PyObject_TypeCheck(value, &PyModule_Type) || isKernel(value) ||
         PyObject_IsInstance(value, names.constexprClass) == 1 ||
         PyObject_IsInstance(value, names.dtypeClass) == 1 || isOfLanguage(value);
}

int Function::lookup(const char *variable, Ref &out, Function &root) {
  PyObject *container = nullptr;
  bool isCell = false;
  if (size_t length = std::strlen(variable); length && variable[length - 1] == '=') {
    std::string_view parameter(variable, length - 1);
    for (const Parameter &known : parameters)
      if (known.defaultValue && textOf(known.name) == parameter) {
        out = known.defaultValue;
        return 1;
      }
    return 0;
  }
  if (PyObject *cell = PyDict_GetItemString(closure.get(), variable)) {
    container = cell;
    isCell = true;
    out = attribute(cell, "cell_contents");
    if (!out) { // empty: ValueError
      PyErr_Clear();
      PyErr_Format(PyExc_NameError, "name '%s' is not defined yet", variable);
      return -1;
    }
  } else if (PyObject *value = PyDict_GetItemString(globals.get(), variable)) {
    container = globals.get();
    out = Ref::share(value);
  } else {
    return 0;
  }
  Ref key = Ref::take(PyUnicode_FromString(variable));
  if (!freelyCaptured(out.get())) {
    Ref jit = Ref::take(PyImport_ImportModule("nereid.runtime.jit"));
    Ref allowed = Ref::take(jit ? PyObject_CallMethod(jit.get(), "_check_capture", "OOO",
                                                      ownerObject, key.get(), out.get())
                                : nullptr);
    if (!allowed)
      return -1;
  }
  if (!PyObject_TypeCheck(out.get(), &PyModule_Type))
    root.capture(container, key.get(), out.get(), isCell);
  return 1;
}

void Function::capture(PyObject *container, PyObject *variable, PyObject *value, bool isCell) {
  if (CompilationPtr compilation = currentCompilation(); compilation && compilation->probing) {
    compilation->probed.emplace_back(Ref::share(container), Ref::share(variable), Ref::share(value),
                                     isCell);
    return;
  }
  for (const Capture &known : captures)
    if (known.container.get() == container && PyUnicode_Compare(known.name.get(), variable) == 0)
      return;
  captures.push_back({Ref::share(container), Ref::share(variable), Ref::share(value), isCell});
}

bool Function::capturesUnchanged() {
  for (Capture &captured : captures) {
    PyObject *current;
    Ref contents;
    if (captured.isCell) {
      contents = attribute(captured.container.get(), "cell_contents");
      PyErr_Clear();
      current = contents.get();
    } else {
      current = PyDict_GetItemWithError(captured.container.get(), captured.name.get());
    }
    if (current == captured.value.get())
      continue;
    if (current && PyObject_RichCompareBool(current, captured.value.get(), Py_EQ) == 1) {
      captured.value = Ref::share(current);
      continue;
    }
    PyErr_Clear();
    if (current)
      PyErr_Format(PyExc_RuntimeError,
                   "Global variable %U has changed since we compiled this kernel, from %R to %R",
                   captured.name.get(), captured.value.get(), current);
    else
      PyErr_Format(PyExc_RuntimeError,
                   "Global variable %U has been deleted since we compiled this kernel",
                   captured.name.get());
    return false;
  }
  return true;
}

//===--- binding
//---------------------------------------------------------------------------------===//

Ref Call::args() const {
  Ref tuple = Ref::take(PyTuple_New(Py_ssize_t(positional)));
  for (size_t i = 0; tuple && i < positional; ++i)
    PyTuple_SetItem(tuple.get(), Py_ssize_t(i), Py_NewRef(values[i]));
  return tuple;
}

Ref Call::kwargs() const {
  Ref dict = Ref::take(PyDict_New());
  for (size_t k = 0, count = keywords(); dict && k < count; ++k)
    if (PyDict_SetItem(dict.get(), PyTuple_GetItem(names, Py_ssize_t(k)), values[positional + k]) <
        0)
      return Ref();
  return dict;
}

CallOf::CallOf(PyObject *args, PyObject *kwargs)
    : values(size_t(PyTuple_Size(args)) + size_t(kwargs ? PyDict_Size(kwargs) : 0)),
      call{values.get(), size_t(PyTuple_Size(args))} {
  for (size_t i = 0; i < call.positional; ++i)
    values[i] = PyTuple_GetItem(args, Py_ssize_t(i));
  if (!kwargs || PyDict_Size(kwargs) == 0)
    return;
  names = Ref::take(PyTuple_New(PyDict_Size(kwargs)));
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t k = 0;
  for (Py_ssize_t position = 0; names && PyDict_Next(kwargs, &position, &key, &value); ++k) {
    PyTuple_SetItem(names.get(), k, Py_NewRef(key));
    values[call.positional + size_t(k)] = value;
  }
  call.names = names.get();
}

bool Function::missing(PyObject *const *bound) {
  std::vector<std::string> names;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (!bound[i])
      names.push_back("'" + textOf(parameters[i].name) + "'");
  std::string list;
  for (size_t i = 0; i < names.size(); ++i)
    list += (i == 0                 ? ""
             : i + 1 < names.size() ? ", "
             : names.size() == 2    ? " and "
                                    : ", and ") +
            names[i];
  PyErr_Format(PyExc_TypeError, "%s() missing %zu required positional argument%s: %s", name.c_str(),
               names.size(), names.size() == 1 ? "" : "s", list.c_str());
  return false;
}

bool Function::bindGiven(const Call &call, PyObject **bound, Keywords &options) {
  size_t count = parameters.size(), given = call.positional;
  if (given > count) {
    size_t required = std::count_if(parameters.begin(), parameters.end(),
                                    [](const Parameter &p) { return !p.defaultValue; });
    std::string counts = required == count
                             ? std::to_string(count)
                             : "from " + std::to_string(required) + " to " + std::to_string(count);
    PyErr_Format(PyExc_TypeError, "%s() takes %s positional argument%s but %zu %s given",
                 name.c_str(), counts.c_str(), count == 1 ? "" : "s", given,
                 given == 1 ? "was" : "were");
    return false;
  }
  std::copy_n(call.values, given, bound);
  std::fill(bound + given, bound + count, nullptr);
  if (!call.names)
    return true;
  if (call.names == lastKeywords.names.get() && given == lastKeywords.positional) [[likely]] {
    for (size_t k = 0; k < lastKeywords.parameters.size(); ++k) {
      PyObject *value = call.values[given + k];
      if (int index = lastKeywords.parameters[k]; index >= 0)
        bound[index] = value;
      else
        options.push_back({PyTuple_GetItem(call.names, Py_ssize_t(k)), value});
    }
    return true;
  }
  // From the second time on: names that are made for each launch do not come again.
  bool isKept = std::exchange(lastKeywords.missed, call.names) == call.names && count <= INT16_MAX;
  std::vector<int16_t> found;
  for (size_t k = 0, keywords = call.keywords(); k < keywords; ++k) {
    PyObject *key = PyTuple_GetItem(call.names, Py_ssize_t(k)), *value = call.values[given + k];
    size_t index = 0;
    while (index < count && parameters[index].name != key)
      ++index;
    for (size_t i = 0; index == count && i < count; ++i)
      if (PyUnicode_Compare(parameters[i].name, key) == 0)
        index = i;
    if (isKept)
      found.push_back(int16_t(index == count ? -1 : int(index)));
    if (index == count) {
      options.push_back({key, value});
    } else if (index < given) {
      PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", name.c_str(),
                   key);
      return false;
    } else {
      bound[index] = value;
    }
  }
  if (isKept) {
    lastKeywords.names = Ref::share(call.names);
    lastKeywords.positional = given;
    lastKeywords.parameters = std::move(found);
  }
  return true;
}

bool Function::bindDefaults(PyObject **bound) {
  bool complete = true;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (!bound[i])
      complete &= (bound[i] = parameters[i].defaultValue.get()) != nullptr;
  return complete || missing(bound);
}

//===--- launching
//-------------------------------------------------------------------------------===//

PyObject *Function::otherCompiledObject(nrd_kernel *kernel) {
  if (!kernel)
    Py_RETURN_NONE;
  auto known = kernels.find(kernel);
  if (known != kernels.end()) {
    latest = {kernel, known->second.get()};
    return Py_NewRef(latest.second);
  }
  Ref handle = makeKernelHandle(kernel, ownerObject);
  Ref object = Ref::take(handle ? PyObject_CallFunctionObjArgs(registry().compiledKernel,
                                                               handle.get(), ownerObject, nullptr)
                                : nullptr);
  if (!object)
    return nullptr;
  // While Python ran, another thread may have made one: all get the first.
  return Py_NewRef(kernels.emplace(kernel, std::move(object)).first->second.get());
}

bool Function::toArguments(PyObject *const *bound, ArgumentScope &scope, nrd_arg *out) {
  const uint8_t *usual = isUsual.data();
  for (size_t i = 0, count = isUsual.size(); i < count; ++i)
    if (!(usual[i] && toUsualArgument(bound[i], out[i])) &&
        !python::toArgument(parameters[i], bound[i], scope, out[i]))
      return false;
  return true;
}

OptionsPtr Function::optionsWithName(const OptionSet &options, PyObject *const *bound) {
  Ref values = Ref::take(PyTuple_New(Py_ssize_t(parameters.size())));
  for (size_t i = 0; values && i < parameters.size(); ++i)
    PyTuple_SetItem(values.get(), Py_ssize_t(i), Py_NewRef(bound[i]));
  Ref text = Ref::take(
      values ? PyObject_CallMethod(ownerObject, "_kernel_name", "(O)", values.get()) : nullptr);
  if (!text)
    return nullptr;
  OptionsPtr named(nrd_options_copy(options.options));
  nrd_options_set_kernel_name(named.get(), textOf(text.get()).c_str());
  return named;
}

PyObject *Function::launch(PyObject *grid, const Call &call, bool warmup) {
  size_t count = parameters.size();
  Slots<PyObject *> storage(count);
  Slots<nrd_arg> arguments(count);
  PyObject *const *bound = call.values; // as they are, when all are given by position
  OptionSet *options = call.names ? nullptr : noOptions;
  if (!options || call.positional != count) {
    Keywords given;
    if (!bind(call, storage.get(), given) || !(options = optionsFor(given)))
      return nullptr;
    bound = storage.get();
  }

  nrd_launch launch{};
  launch.num_threads = options->threads;
  launch.checked = options->checked;
  bool isHarmless; // arguments are read afterwards, whatever the grid's function has done
  if (!warmup && !grids.resolve(grid, bound, launch.grid, isHarmless))
    return nullptr;

  ArgumentScope scope;
  scope.warmup = warmup;
  LaunchFrame frame(*this);
  if (!toArguments(bound, scope, arguments.get()))
    return nullptr;
  return dispatch(frame, bound, arguments.get(), *options, warmup ? nullptr : &launch);
}

PyObject *Function::dispatch(LaunchFrame &frame, PyObject *const *bound, const nrd_arg *arguments,
                             const OptionSet &options, const nrd_launch *launch) {
  if (!captures.empty() && !capturesUnchanged())
    return nullptr;
  nrd_kernel *kernel = nullptr;
  nrd_error *error;
  OptionsPtr named;
  if (namesKernels) [[unlikely]] {
    error = nrd_find(function, arguments, parameters.size(), options.options, launch, &kernel);
    if (error)
      return raise(error);
    if (!kernel && !(named = optionsWithName(options, bound)))
      return nullptr;
  }
  {
    GilRelease released;
    error = nrd_dispatch(function, arguments, parameters.size(),
                         named ? named.get() : options.options, launch, &kernel);
  }
  if (error)
    return raise(error, frame.compilation);
  return compiledObject(kernel);
}

PyObject *Function::find(PyObject *args, PyObject *kwargs, bool warmup) {
  size_t count = parameters.size();
  Slots<PyObject *> bound(count);
  Slots<nrd_arg> arguments(count);
  Keywords given;
  OptionSet *options = bind(CallOf(args, kwargs), bound.get(), given) ? optionsFor(given) : nullptr;
  ArgumentScope scope;
  scope.warmup = warmup;
  if (!options || !toArguments(bound.get(), scope, arguments.get()))
    return nullptr;
  nrd_launch launch{};
  launch.checked = options->checked;
  nrd_kernel *kernel = nullptr;
  if (nrd_error *error = nrd_find(function, arguments.get(), count, options->options,
                                  warmup ? nullptr : &launch, &kernel))
    return raise(error);
  return compiledObject(kernel);
}

PyObject *Function::compile(PyObject *items, PyObject *given, const char *kernelName) {
  size_t count = parameters.size();
  if (size_t(PyTuple_Size(items)) != count)
    return PyErr_Format(PyExc_TypeError, "%s() has %zu parameters, found the types of %zd",
                        name.c_str(), count, PyTuple_Size(items));
  Keywords pairs;
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t position = 0; PyDict_Next(given, &position, &key, &value);)
    pairs.push_back({key, value});
  OptionSet *options = optionsFor(pairs);
  if (!options)
    return nullptr;
  ArgumentScope scope;
  scope.warmup = true;
  LaunchFrame frame(*this);
  Slots<nrd_arg> arguments(count);
  for (size_t i = 0; i < count; ++i)
    if (!toTypedArgument(parameters[i], PyTuple_GetItem(items, Py_ssize_t(i)), scope,
                         arguments.get()[i]))
      return nullptr;
  OptionsPtr named(nrd_options_copy(options->options));
  if (kernelName)
    nrd_options_set_kernel_name(named.get(), kernelName);
  nrd_kernel *kernel = nullptr;
  nrd_error *error;
  {
    GilRelease released;
    error = nrd_dispatch(function, arguments.get(), count, named.get(), nullptr, &kernel);
  }
  return error ? raise(error, frame.compilation) : compiledObject(kernel);
}

PyObject *Function::compiledKernels() {
  Ref list = Ref::take(PyList_New(0));
  for (const auto &entry : kernels)
    if (!list || PyList_Append(list.get(), entry.second.get()) < 0)
      return nullptr;
  return list.release();
}

PyObject *Function::launchCompiled(nrd_kernel *kernel, PyObject *grid, const Call &call,
                                   PyObject *stream) {
  Slots<PyObject *> storage(parameters.size());
  Slots<nrd_arg> arguments(parameters.size());
  PyObject *const *bound = call.values; // as they are, when all are given
  if (call.positional != parameters.size()) {
    Keywords none;
    if (!bind({call.values, call.positional}, storage.get(), none))
      return nullptr;
    bound = storage.get();
  }
  nrd_launch launch{};
  if (stream != Py_None) {
    launch.with_stream = 1;
    launch.stream = PyLong_AsVoidPtr(stream);
    if (PyErr_Occurred())
      return nullptr;
  }
  ArgumentScope scope;
  bool isHarmless;
  if (!grids.resolve(grid, bound, launch.grid, isHarmless) ||
      !toArguments(bound, scope, arguments.get()))
    return nullptr;
  nrd_error *error;
  {
    GilRelease released;
    error = nrd_kernel_launch(kernel, arguments.get(), parameters.size(), &launch);
  }
  if (error)
    return raise(error);
  Py_RETURN_NONE;
}

//===--- the Python classes
//----------------------------------------------------------------------===//

namespace {

using VectorCall = PyObject *(*)(PyObject *, PyObject *const *, size_t, PyObject *);

struct LauncherObject {
  PyObject_HEAD VectorCall call;
  PyObject *kernel;
  PyObject *grid;
};

/// Memory of a launcher that is gone, for the next one: there is hardly ever more than one.
LauncherObject *spareLauncher = nullptr;

PyTypeObject *kernelBaseType = nullptr;
PyTypeObject *launcherType = nullptr;

void freeInstance(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

int kernelTraverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(asKernel(self)->best);
  if (const Stack *stack = asKernel(self)->stack)
    if (int result = traverse(*stack, visit, arg))
      return result;
  return asKernel(self)->function ? asKernel(self)->function->traverse(visit, arg) : 0;
}

int kernelClear(PyObject *self) {
  drop(std::exchange(asKernel(self)->stack, nullptr));
  Py_CLEAR(asKernel(self)->best);
  delete std::exchange(asKernel(self)->function, nullptr);
  return 0;
}

void kernelDealloc(PyObject *self) {
  PyObject_GC_UnTrack(self);
  kernelClear(self);
  freeInstance(self);
}

/// `self[grid]`, which is called by `call`.
inline PyObject *makeLauncher(PyObject *self, PyObject *grid, VectorCall call) {
  PyObject *object;
  if (spareLauncher) [[likely]]
    object = PyObject_Init(reinterpret_cast<PyObject *>(std::exchange(spareLauncher, nullptr)),
                           launcherType);
  else
    object =
        reinterpret_cast<allocfunc>(PyType_GetSlot(launcherType, Py_tp_alloc))(launcherType, 0);
  auto *launcher = reinterpret_cast<LauncherObject *>(object);
  if (launcher) {
    launcher->call = call;
    launcher->kernel = Py_NewRef(self);
    launcher->grid = Py_NewRef(grid);
  }
  return object;
}

/// Attributes that tell of launches and tunings and decide none.
bool isReport(PyObject *name) {
  static PyObject *const reports[] = {interned("best_config"),     interned("nargs"),
                                      interned("configs_timings"), interned("bench_time"),
                                      interned("failures"),        interned("_left_out")};
  return std::find(std::begin(reports), std::end(reports), name) != std::end(reports);
}

int kernelSetattr(PyObject *self, PyObject *name, PyObject *value) {
  if (PyUnicode_CompareWithASCIIString(name, "run") == 0)
    asKernel(self)->indirect = true;
  if (!isReport(name))
    ++asKernel(self)->version;
  else if (PyUnicode_CompareWithASCIIString(name, "best_config") == 0) {
    PyObject *before = std::exchange(asKernel(self)->best, Py_XNewRef(value));
    Py_XDECREF(before);
  }
  return PyObject_GenericSetAttr(self, name, value);
}

PyObject *kernelCreate(PyObject *self, PyObject *args) {
  Function *function = Function::create(self, args);
  if (!function)
    return nullptr;
  // Another thread may be compiling with the one before: it is kept, as few are replaced.
  Function *before = std::exchange(asKernel(self)->function, nullptr);
  kernelClear(self);
  asKernel(self)->function = function;
  if (before) {
    before->retire();
    Function::sourceChanged(self);
  }
  Py_RETURN_NONE;
}

inline bool hasLaunchHooks() {
  PyObject *hooks = registry().launchHooks;
  return hooks && hooks != Py_None;
}

/// Launches, by way of the hooks where there are any.
PyObject *launchHooked(PyObject *kernel, PyObject *grid, const Call &call, bool warmup) {
  PyObject *hooks = registry().launchHooks;
  if (hasLaunchHooks()) [[unlikely]] {
    Ref args = call.args(), kwargs = call.kwargs();
    return args && kwargs
               ? PyObject_CallFunctionObjArgs(hooks, kernel, grid, args.get(), kwargs.get(),
                                              warmup ? Py_True : Py_False, nullptr)
               : nullptr;
  }
  Function *function = asKernel(kernel)->function;
  if (!function) [[unlikely]]
    function = functionOf(kernel);
  return function ? function->launch(grid, call, warmup) : nullptr;
}

PyObject *kernelLaunch(PyObject *self, PyObject *arguments) {
  PyObject *grid = nullptr, *args = nullptr, *kwargs = nullptr;
  int warmup = 0;
  if (!PyArg_ParseTuple(arguments, "OO!O!p:_launch", &grid, &PyTuple_Type, &args, &PyDict_Type,
                        &kwargs, &warmup))
    return nullptr;
  return launchHooked(self, grid, CallOf(args, kwargs), warmup);
}

PyObject *kernelLaunchPlain(PyObject *self, PyObject *arguments) {
  PyObject *grid = nullptr, *args = nullptr, *kwargs = nullptr;
  int warmup = 0;
  if (!PyArg_ParseTuple(arguments, "OO!O!p:_launch_plain", &grid, &PyTuple_Type, &args,
                        &PyDict_Type, &kwargs, &warmup))
    return nullptr;
  Function *function = functionOf(self);
  return function ? function->launch(grid, CallOf(args, kwargs), warmup) : nullptr;
}

PyObject *kernelFind(PyObject *self, PyObject *arguments) {
  PyObject *args = nullptr, *kwargs = nullptr;
  int warmup = 0;
  if (!PyArg_ParseTuple(arguments, "O!O!p:_find", &PyTuple_Type, &args, &PyDict_Type, &kwargs,
                        &warmup))
    return nullptr;
  Function *function = functionOf(self);
  return function ? function->find(args, kwargs, warmup) : nullptr;
}

PyObject *kernelPrepare(PyObject *self, PyObject *arguments) {
  PyObject *args = nullptr, *kwargs = nullptr;
  if (!PyArg_ParseTuple(arguments, "O!O!:_prepare", &PyTuple_Type, &args, &PyDict_Type, &kwargs))
    return nullptr;
  if (hasLaunchHooks())
    Py_RETURN_NONE;
  Function *function = functionOf(self);
  return function ? function->prepare(args, kwargs) : nullptr;
}

PyObject *kernelCompile(PyObject *self, PyObject *arguments) {
  PyObject *items = nullptr, *options = nullptr;
  const char *kernelName = nullptr;
  if (!PyArg_ParseTuple(arguments, "O!O!|z:_compile", &PyTuple_Type, &items, &PyDict_Type, &options,
                        &kernelName))
    return nullptr;
  Function *function = functionOf(self);
  return function ? function->compile(items, options, kernelName) : nullptr;
}

PyObject *kernelKernels(PyObject *self, PyObject *) {
  Function *function = asKernel(self)->function;
  return function ? function->compiledKernels() : PyList_New(0);
}

PyObject *kernelLaunchCompiled(PyObject *self, PyObject *arguments) {
  PyObject *handle = nullptr, *grid = nullptr, *args = nullptr, *stream = Py_None;
  if (!PyArg_ParseTuple(arguments, "OOO!|O:_launch_compiled", &handle, &grid, &PyTuple_Type, &args,
                        &stream))
    return nullptr;
  nrd_kernel *kernel = kernelOfHandle(handle);
  Function *function = kernel ? functionOf(self) : nullptr;
  return function ? function->launchCompiled(kernel, grid, CallOf(args, nullptr), stream) : nullptr;
}

PyObject *kernelSetIndirect(PyObject *self, PyObject *value) {
  asKernel(self)->indirect = PyObject_IsTrue(value) == 1;
  ++asKernel(self)->version;
  Py_RETURN_NONE;
}

PyObject *kernelGiven(PyObject *self, PyObject *) {
  return Py_NewRef(argumentsInFlight(self));
}

PyObject *kernelClearCache(PyObject *self, PyObject *) {
  if (asKernel(self)->function)
    asKernel(self)->function->clearCache();
  Py_RETURN_NONE;
}

void launcherDealloc(PyObject *self) {
  auto *launcher = reinterpret_cast<LauncherObject *>(self);
  Py_DECREF(launcher->kernel);
  Py_DECREF(launcher->grid);
  if (spareLauncher)
    reinterpret_cast<freefunc>(PyType_GetSlot(launcherType, Py_tp_free))(self);
  else
    spareLauncher = launcher;
  Py_DECREF(reinterpret_cast<PyObject *>(launcherType));
}

/// A launch that does not go straight to the library: of a decorator, or of a kernel whose `run`
/// someone has taken over.
[[gnu::noinline]] PyObject *launchByRun(LauncherObject *launcher, PyObject *known,
                                        const Call &call) {
  static PyObject *const runName = interned("run");
  static PyObject *const gridName = interned("grid");
  static PyObject *const warmupName = interned("warmup");
  if (known && (known == registry().tunerRun || known == registry().rulesRun)) {
    bool done = false;
    PyObject *result = launchStacked(launcher->kernel, launcher->grid, call, done);
    if (done)
      return result;
  }
  Ref run = Ref::take(PyObject_GetAttr(launcher->kernel, runName));
  Ref args = call.args(), keywords = call.kwargs();
  if (!run || !args || !keywords || PyDict_SetItem(keywords.get(), gridName, launcher->grid) < 0 ||
      PyDict_SetItem(keywords.get(), warmupName, Py_False) < 0)
    return nullptr;
  return PyObject_Call(run.get(), args.get(), keywords.get());
}

/// The highest bit only says that the caller would lend the place before the first value.
Call callFrom(PyObject *const *values, size_t count, PyObject *names) {
  return {values, count & (SIZE_MAX >> 1), names};
}

/// `kernel[grid](*args, **kwargs)`: straight to the library, unless someone has taken over `run`.
PyObject *launcherVectorcall(PyObject *self, PyObject *const *values, size_t count,
                             PyObject *names) {
  Call call = callFrom(values, count, names);
  auto *launcher = reinterpret_cast<LauncherObject *>(self);
  KernelBaseObject *kernel = asKernel(launcher->kernel);
  PyObject *run = kernel->indirect ? nullptr : runOf(launcher->kernel);
  if (!run || run != registry().jitRun)
    return launchByRun(launcher, run, call);
  return launchHooked(launcher->kernel, launcher->grid, call, /*warmup=*/false);
}

/// The same by a tuple and a dict.
PyObject *launcherCall(PyObject *self, PyObject *args, PyObject *kwargs) {
  CallOf of(args, kwargs);
  const Call &call = of;
  return reinterpret_cast<LauncherObject *>(self)->call(self, call.values, call.positional,
                                                        call.names);
}

PyObject *kernelSubscript(PyObject *self, PyObject *grid) {
  return makeLauncher(self, grid, launcherVectorcall);
}

//===--- compiled kernels
//------------------------------------------------------------------------===//

CompiledObject *asCompiled(PyObject *object) {
  return reinterpret_cast<CompiledObject *>(object);
}

int compiledTraverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(asCompiled(self)->handle);
  Py_VISIT(asCompiled(self)->function);
  return 0;
}

int compiledClear(PyObject *self) {
  Py_CLEAR(asCompiled(self)->handle);
  Py_CLEAR(asCompiled(self)->function);
  return 0;
}

void compiledDealloc(PyObject *self) {
  PyObject_GC_UnTrack(self);
  compiledClear(self);
  freeInstance(self);
}

/// The kernel and the function behind it; the copy of a pickled one is compiled first.
bool resolveCompiled(CompiledObject *compiled) {
  auto *self = reinterpret_cast<PyObject *>(compiled);
  Ref handle = Ref::take(PyObject_GetAttrString(self, "_handle"));
  if (handle && handle.get() == Py_None)
    handle = Ref::take(PyObject_GetAttrString(self, "_native"));
  Ref function = Ref::take(handle ? PyObject_GetAttrString(self, "fn") : nullptr);
  if (!function || !kernelOfHandle(handle.get()))
    return false;
  if (!functionOf(function.get())) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_TypeError, "`fn` of a compiled kernel must be its function");
    return false;
  }
  Py_XDECREF(std::exchange(compiled->handle, handle.release()));
  Py_XDECREF(std::exchange(compiled->function, function.release()));
  return true;
}

/// `compiled[grid](*args, stream=None)`.
PyObject *compiledVectorcall(PyObject *self, PyObject *const *values, size_t count,
                             PyObject *names) {
  static PyObject *const streamName = interned("stream");
  Call call = callFrom(values, count, names);
  auto *launcher = reinterpret_cast<LauncherObject *>(self);
  CompiledObject *compiled = asCompiled(launcher->kernel);
  PyObject *stream = Py_None;
  for (size_t k = 0, keywords = call.keywords(); k < keywords; ++k) {
    PyObject *key = PyTuple_GetItem(call.names, Py_ssize_t(k));
    if (key != streamName && PyUnicode_Compare(key, streamName) != 0)
      return PyErr_Format(PyExc_TypeError, "launch() got an unexpected keyword argument '%U'", key);
    stream = values[call.positional + k];
  }
  if (hasLaunchHooks()) [[unlikely]] {
    Ref args = call.args();
    return args ? PyObject_CallMethod(launcher->kernel, "_launch_hooked", "OOO", launcher->grid,
                                      args.get(), stream)
                : nullptr;
  }
  if (!compiled->handle && !resolveCompiled(compiled)) [[unlikely]]
    return nullptr;
  Function *function = functionOf(compiled->function);
  return function ? function->launchCompiled(kernelOfHandle(compiled->handle), launcher->grid, call,
                                             stream)
                  : nullptr;
}

PyObject *compiledSubscript(PyObject *self, PyObject *grid) {
  return makeLauncher(self, grid, compiledVectorcall);
}

PyObject *launcherRepr(PyObject *self) {
  auto *launcher = reinterpret_cast<LauncherObject *>(self);
  return PyUnicode_FromFormat("%R[%R]", launcher->kernel, launcher->grid);
}

} // namespace

RunLookUp runLookUp;

PyObject *runByAttribute(PyObject *kernel) {
  PyObject *run = PyObject_GetAttr(reinterpret_cast<PyObject *>(Py_TYPE(kernel)), runLookUp.name);
  if (!run)
    PyErr_Clear();
  Py_XDECREF(run); // the class keeps it
  return run;
}

bool isKernelBase(PyObject *object) {
  return PyObject_TypeCheck(object, kernelBaseType);
}

bool isKernel(PyObject *object) {
  return PyObject_TypeCheck(object, kernelBaseType) && PyObject_HasAttrString(object, "_build");
}

Function *functionOf(PyObject *object) {
  if (!PyObject_TypeCheck(object, kernelBaseType))
    return nullptr;
  if (Function *function = asKernel(object)->function)
    return function;
  if (!PyObject_HasAttrString(object, "_build"))
    return nullptr;
  Ref built = Ref::take(PyObject_CallMethod(object, "_build", nullptr));
  return built ? asKernel(object)->function : nullptr;
}

void keepAlive(PyObject *object) {
  if (CompilationPtr compilation = currentCompilation())
    compilation->root->keep(object);
}

bool addFunctionTypes(PyObject *module) {
  static PyMethodDef kernelMethods[] = {
      {"_create", kernelCreate, METH_VARARGS,
       "_create(source, file, first_line, name, globals, closure, parameters, options, names, "
       "tile=False): the function's text to the library; with `tile` it is tile IR"},
      {"_launch", kernelLaunch, METH_VARARGS,
       "_launch(grid, args, kwargs, warmup): launches or only compiles"},
      {"_launch_plain", kernelLaunchPlain, METH_VARARGS,
       "_launch_plain(grid, args, kwargs, warmup): the same without hooks"},
      {"_find", kernelFind, METH_VARARGS,
       "_find(args, kwargs, warmup): the kernel that a launch would use, None before it is "
       "compiled"},
      {"_prepare", kernelPrepare, METH_VARARGS,
       "_prepare(args, kwargs): the compilation of this launch with its arguments bound; None "
       "while "
       "hooks are installed, which want to see it begin"},
      {"_compile", kernelCompile, METH_VARARGS,
       "_compile(items, options, name=None): compiles; an item for each parameter: the text of a "
       "type, a "
       "tuple of items, a list of a constant"},
      {"_kernels", kernelKernels, METH_NOARGS, "_kernels(): the compiled kernels"},
      {"_launch_compiled", kernelLaunchCompiled, METH_VARARGS,
       "_launch_compiled(kernel, grid, args, stream=None): launches a compiled kernel"},
      {"_given", kernelGiven, METH_NOARGS,
       "_given(): the positional arguments of the launch that this thread is in, where it goes "
       "through this decorator; else None"},
      {"_set_indirect", kernelSetIndirect, METH_O,
       "_set_indirect(flag): let launches go through `run`"},
      {"_clear_cache", kernelClearCache, METH_NOARGS,
       "_clear_cache(): forgets every compiled kernel"},
      {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot kernelSlots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(kernelDealloc)},
                                      {Py_tp_traverse, reinterpret_cast<void *>(kernelTraverse)},
                                      {Py_tp_clear, reinterpret_cast<void *>(kernelClear)},
                                      {Py_mp_subscript, reinterpret_cast<void *>(kernelSubscript)},
                                      {Py_tp_setattro, reinterpret_cast<void *>(kernelSetattr)},
                                      {Py_tp_methods, kernelMethods},
                                      {0, nullptr}};
  static PyType_Spec kernelSpec = {"nereid._native.KernelBase", sizeof(KernelBaseObject), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                                   kernelSlots};
  // The stable interface of Python 3.11 has the calling convention, but no name for its flag.
  constexpr unsigned long haveVectorcall = 1ul << 11;
  static PyMemberDef launcherMembers[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(LauncherObject, call), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  static PyType_Slot launcherSlots[] = {{Py_tp_members, launcherMembers},
                                        {Py_tp_dealloc, reinterpret_cast<void *>(launcherDealloc)},
                                        {Py_tp_call, reinterpret_cast<void *>(launcherCall)},
                                        {Py_tp_repr, reinterpret_cast<void *>(launcherRepr)},
                                        {0, nullptr}};
  static PyType_Spec launcherSpec = {
      "nereid._native.Launcher", sizeof(LauncherObject), 0,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | haveVectorcall, launcherSlots};
  static PyType_Slot compiledSlots[] = {
      {Py_tp_dealloc, reinterpret_cast<void *>(compiledDealloc)},
      {Py_tp_traverse, reinterpret_cast<void *>(compiledTraverse)},
      {Py_tp_clear, reinterpret_cast<void *>(compiledClear)},
      {Py_mp_subscript, reinterpret_cast<void *>(compiledSubscript)},
      {0, nullptr}};
  static PyType_Spec compiledSpec = {"nereid._native.CompiledBase", sizeof(CompiledObject), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                                     compiledSlots};
  runLookUp.name = interned("run");
  runLookUp.ask = reinterpret_cast<decltype(runLookUp.ask)>(dlsym(RTLD_DEFAULT, "_PyType_Lookup"));
  auto *compiledType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&compiledSpec));
  kernelBaseType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&kernelSpec));
  launcherType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&launcherSpec));
  return kernelBaseType && launcherType && compiledType &&
         PyModule_AddType(module, kernelBaseType) == 0 &&
         PyModule_AddType(module, compiledType) == 0 &&
         PyModule_AddType(module, launcherType) == 0 &&
         PyModule_AddObjectRef(module, "MISSING", missingMarker()) == 0;
}

} // namespace nereid::python
