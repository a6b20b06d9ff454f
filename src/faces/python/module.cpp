// The extension module `nereid._native`.
#include "faces/python/arguments.h"
#include "faces/python/errors.h"
#include "faces/python/function.h"
#include "faces/python/source.h"
#include "faces/python/stack.h"
#include "faces/python/values.h"
#include "nereid/settings.h"

#include <algorithm>
#include <chrono>

namespace nereid::python {
namespace {

/// `register(name=object, ...)`: the Python part tells which of its classes the extension is to
/// make.
PyObject *registerObjects(PyObject *, PyObject *args, PyObject *kwargs) {
  Registry &names = registry();
  const std::pair<const char *, PyObject **> slots[] = {
      {"constexpr", &names.constexprClass},
      {"dtype", &names.dtypeClass},
      {"make_type", &names.makeType},
      {"takes_semantic", &names.takesSemantic},
      {"member_of", &names.memberOf},
      {"rebuilt", &names.rebuilt},
      {"library_value", &names.libraryValue},
      {"tuple", &names.tupleClass},
      {"tensor", &names.tensorClass},
      {"compiled_kernel", &names.compiledKernel},
      {"jit_run", &names.jitRun},
      {"tuner_run", &names.tunerRun},
      {"rules_run", &names.rulesRun},
      {"rule_reads", &names.ruleReads},
      {"launch_hooks", &names.launchHooks},
      {"CompilationError", &names.compilationError},
      {"CompileTimeAssertionFailure", &names.staticAssertError},
      {"UnsupportedLanguageConstruct", &names.unsupportedError},
      {"ResourcesExhausted", &names.resourcesError},
      {"OutOfResources", &names.outOfResources},
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

PyObject *choicesChanged(PyObject *, PyObject *) {
  python::choicesChanged();
  Py_RETURN_NONE;
}

PyObject *isCompiling(PyObject *, PyObject *) {
  return PyBool_FromLong(currentCompilation() != nullptr);
}

PyObject *library(PyObject *, PyObject *) {
  return Py_BuildValue("{s:s,s:I,s:s}", "version", nrd_version(), "abi", nrd_abi_version(), "build",
                       nrd_build_identity());
}

PyObject *ownedText(char *text) {
  PyObject *object = PyUnicode_FromString(text);
  nrd_string_free(text);
  return object;
}

PyObject *doctor(PyObject *, PyObject *) {
  return ownedText(nrd_doctor());
}
PyObject *cacheJson(PyObject *, PyObject *args) {
  const char *folder = nullptr;
  return PyArg_ParseTuple(args, "|z:cache_json", &folder) ? ownedText(nrd_cache_json(folder))
                                                          : nullptr;
}
PyObject *cacheClear(PyObject *, PyObject *args) {
  const char *folder = nullptr;
  return PyArg_ParseTuple(args, "|z:cache_clear", &folder)
             ? PyLong_FromSize_t(nrd_cache_clear(folder))
             : nullptr;
}
PyObject *cacheFlush(PyObject *, PyObject *args) {
  double seconds = 3600;
  if (!PyArg_ParseTuple(args, "|d:flush_cache", &seconds))
    return nullptr;
  bool isDone;
  {
    GilRelease released;
    isDone = nrd_cache_flush(uint64_t(std::clamp(seconds, 0.0, 1e6) * 1000));
  }
  return PyBool_FromLong(isDone);
}
PyObject *cacheWriteAtOnce(PyObject *, PyObject *) {
  nrd_cache_write_at_once();
  Py_RETURN_NONE;
}
PyObject *languageJson(PyObject *, PyObject *) {
  return ownedText(nrd_language_json());
}

PyObject *settings(PyObject *, PyObject *) {
  return ownedText(nrd_settings_json());
}

PyObject *setSettings(PyObject *, PyObject *list) {
  std::vector<std::string> texts;
  for (Py_ssize_t i = 0, count = PySequence_Size(list); i < count; ++i) {
    Ref item = Ref::take(PySequence_GetItem(list, i));
    if (!item)
      return nullptr;
    texts.push_back(textOf(item.get()));
  }
  if (PyErr_Occurred())
    return nullptr;
  std::vector<const char *> entries;
  for (const std::string &text : texts)
    entries.push_back(text.c_str());
  char *problems = nrd_set_settings(entries.data(), entries.size());
  if (problems)
    return ownedText(problems);
  Py_RETURN_NONE;
}

/// Before os.fork: other threads finish their compilations, for which they may need the lock that
/// this thread holds.
PyObject *beforeFork(PyObject *, PyObject *) {
  // Work that does not end within this time may wait for this thread itself.
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!nrd_close_for_fork() && std::chrono::steady_clock::now() < end) {
    GilRelease released;
    nrd_await_quiet();
  }
  Py_RETURN_NONE;
}

/// Python writes the environment with the interpreter's lock only.
void readEnvironment(void (*read)(void *), void *data) {
  // An interpreter that ends writes none; and this thread, with the locks it holds, would wait for
  // ever.
  if (!Py_IsInitialized())
    return read(data);
  GilGuard gil;
  read(data);
}

//===--- devices
//--------------------------------------------------------------------------------===//

PyObject *deviceCount(PyObject *, PyObject *) {
  return PyLong_FromLong(nrd_cuda_device_count());
}

PyObject *none(nrd_error *error) {
  if (error)
    return raise(error);
  Py_RETURN_NONE;
}

PyObject *checkSettings(PyObject *, PyObject *) {
  return none(nrd_check_settings());
}

PyObject *checkCuda(PyObject *, PyObject *) {
  return none(nrd_cuda_check());
}

PyObject *currentCudaDevice(PyObject *, PyObject *) {
  int device = 0;
  nrd_error *error = nrd_cuda_current_device(&device);
  return error ? raise(error) : PyLong_FromLong(device);
}

PyObject *streamOfDevice(PyObject *, PyObject *device) {
  long number = PyLong_AsLong(device);
  return PyErr_Occurred() ? nullptr : PyLong_FromVoidPtr(currentStream(int(number)));
}

PyObject *setCurrentDevice(PyObject *, PyObject *device) {
  long number = PyLong_AsLong(device);
  return PyErr_Occurred() ? nullptr : none(nrd_cuda_set_current_device(int(number)));
}

PyObject *deviceProperties(PyObject *, PyObject *device) {
  long number = PyLong_AsLong(device);
  if (PyErr_Occurred())
    return nullptr;
  char *json = nullptr;
  nrd_error *error = nrd_cuda_device_properties(int(number), &json);
  return error ? raise(error) : ownedText(json);
}

PyObject *synchronize(PyObject *, PyObject *device) {
  long number = PyLong_AsLong(device);
  if (PyErr_Occurred())
    return nullptr;
  nrd_error *error;
  {
    GilRelease released;
    error = nrd_cuda_synchronize(int(number));
  }
  return none(error);
}

PyObject *setFallbackTarget(PyObject *, PyObject *name) {
  python::choicesChanged();
  return none(nrd_set_fallback_target(textOf(name).c_str()));
}

PyObject *deviceOfArguments(PyObject *, PyObject *arguments) {
  PyObject *values = nullptr;
  const char *target = nullptr;
  if (!PyArg_ParseTuple(arguments, "O!|z:device_of_arguments", &PyList_Type, &values, &target))
    return nullptr;
  return python::deviceOfArguments(values, target);
}

PyObject *defaultTarget(PyObject *, PyObject *) {
  return ownedText(nrd_default_target());
}

/// Tells the library where Python's packages are: NVIDIA's may be among them.
void namePackageFolders() {
  PyObject *path = PySys_GetObject("path"); // borrowed
  if (!path || !PyList_Check(path))
    return;
  std::vector<std::string> texts;
  for (Py_ssize_t i = 0; i < PyList_Size(path); ++i)
    if (PyUnicode_Check(PyList_GetItem(path, i))) // it may hold anything
      texts.push_back(textOf(PyList_GetItem(path, i)));
  std::vector<const char *> pointers;
  for (const std::string &text : texts)
    pointers.push_back(text.c_str());
  nrd_set_package_folders(pointers.data(), pointers.size());
}

/// [(name, [(parameter, type)])] of the kernels of a text of tile IR.
PyObject *tileKernels(PyObject *, PyObject *args) {
  const char *text = nullptr, *file = nullptr;
  Py_ssize_t size = 0;
  if (!PyArg_ParseTuple(args, "s#s:tile_kernels", &text, &size, &file))
    return nullptr;
  nrd_module *module = nullptr;
  if (nrd_error *error = nrd_module_parse_tile(text, size_t(size), file, &module))
    return raise(error);
  Ref kernels = Ref::take(PyList_New(0));
  for (size_t i = 0; i < nrd_module_function_count(module); ++i) {
    nrd_function *function = nullptr;
    const char *name = nrd_module_function_name(module, i);
    if (nrd_error *error = nrd_function_create(module, name, nullptr, nullptr, &function)) {
      nrd_module_free(module);
      return raise(error);
    }
    Ref params = Ref::take(PyList_New(0));
    for (size_t j = 0; j < nrd_function_param_count(function); ++j) {
      char *type = nrd_function_param_type(function, j);
      Ref param = Ref::take(Py_BuildValue("(ss)", nrd_function_param_name(function, j), type));
      nrd_string_free(type);
      PyList_Append(params.get(), param.get());
    }
    Ref kernel = Ref::take(Py_BuildValue("(sO)", name, params.get()));
    PyList_Append(kernels.get(), kernel.get());
    nrd_function_free(function);
  }
  nrd_module_free(module);
  return kernels.release();
}

/// (lines of the function at a line, which of them has its `def`), or None.
PyObject *functionBlock(PyObject *, PyObject *args) {
  PyObject *lines = nullptr;
  Py_ssize_t first = 0;
  if (!PyArg_ParseTuple(args, "O!n:function_block", &PyList_Type, &lines, &first))
    return nullptr;
  BlockFinder finder;
  for (Py_ssize_t i = first; first >= 0 && i < PyList_Size(lines); ++i) {
    Py_ssize_t size = 0;
    const char *text = PyUnicode_AsUTF8AndSize(PyList_GetItem(lines, i), &size);
    if (!text) { // it may hold half characters
      PyErr_Clear();
      Py_RETURN_NONE;
    }
    if (!finder.take({text, size_t(size)}))
      break;
  }
  if (auto found = finder.found())
    return Py_BuildValue("(nn)", Py_ssize_t(found->lines), Py_ssize_t(found->defLine));
  Py_RETURN_NONE;
}

PyObject *pointer(PyObject *, PyObject *object) {
  return pointerOf(object);
}

PyMethodDef methods[] = {
    {"function_block", functionBlock, METH_VARARGS,
     "function_block(lines, first): how many lines the function has that begins at a line, and "
     "which of them has its `def`; None when that takes a real parser to tell"},
    {"pointer", pointer, METH_O,
     "pointer(object): (name of the elements' type, address) of an array or a tensor as launches "
     "take it; None for anything else"},
    {"tile_kernels", tileKernels, METH_VARARGS,
     "tile_kernels(text, file): name and parameters of each kernel of a text of tile IR"},
    {"register", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(registerObjects)),
     METH_VARARGS | METH_KEYWORDS,
     "register(**objects): classes of the Python part that the extension makes"},
    {"choices_changed", choicesChanged, METH_NOARGS,
     "choices_changed(): a configuration, or the one chosen for some key, is another now"},
    {"call_builtin", callBuiltin, METH_VARARGS,
     "call_builtin(semantic, name, args, kwargs): enters the builtin table during a compilation"},
    {"is_compiling", isCompiling, METH_NOARGS,
     "is_compiling(): whether this thread compiles a kernel, whose text called this code"},
    {"library", library, METH_NOARGS, "library(): version of libnereid and of its ABI"},
    {"cache_json", cacheJson, METH_VARARGS,
     "cache_json(folder=None): what is kept on disk, as JSON; every file is checked"},
    {"cache_clear", cacheClear, METH_VARARGS,
     "cache_clear(folder=None): removes what is kept on disk, gives the number of entries"},
    {"flush_cache", cacheFlush, METH_VARARGS,
     "flush_cache(seconds=3600): waits until compiled kernels that are to be kept are on the disk; "
     "False when that takes longer. For programs that end without exiting (os._exit)"},
    {"write_cache_at_once", cacheWriteAtOnce, METH_NOARGS,
     "write_cache_at_once(): from now on a compilation ends when its kernel is on the disk"},
    {"doctor", doctor, METH_NOARGS, "doctor(): what was found on this machine, as JSON"},
    {"language_json", languageJson, METH_NOARGS,
     "language_json(): all functions of the language, as JSON"},
    {"settings", settings, METH_NOARGS, "settings(): the settings and their values, as JSON"},
    {"before_fork", beforeFork, METH_NOARGS,
     "before_fork(): for os.register_at_fork: waits until no other thread compiles"},
    {"set_settings", setSettings, METH_O,
     "set_settings(entries): NAME=value texts that go before the environment; gives back what is "
     "wrong with them"},
    {"check_settings", checkSettings, METH_NOARGS,
     "check_settings(): raises ValueError when a setting has a value that it does not take"},
    {"device_count", deviceCount, METH_NOARGS, "device_count(): number of usable CUDA devices"},
    {"check_cuda", checkCuda, METH_NOARGS,
     "check_cuda(): raises, saying which part is missing, when there is no CUDA device"},
    {"current_device", currentCudaDevice, METH_NOARGS,
     "current_device(): the CUDA device of the current context"},
    {"current_stream", streamOfDevice, METH_O,
     "current_stream(device): the CUstream that launches on it take, as an integer"},
    {"set_current_device", setCurrentDevice, METH_O,
     "set_current_device(device): makes its primary context current"},
    {"device_properties", deviceProperties, METH_O,
     "device_properties(device): a JSON object: name, arch, multiprocessor_count, ..."},
    {"synchronize", synchronize, METH_O, "synchronize(device): waits for a CUDA device"},
    {"set_fallback_target", setFallbackTarget, METH_O,
     "set_fallback_target(name): what launches run on when nothing else says; '' for the GPU where "
     "there is one"},
    {"device_of_arguments", deviceOfArguments, METH_VARARGS,
     "device_of_arguments(values, target=None): the number of the GPU that a launch with these "
     "arrays goes to, None for the CPU; what is no array is left out"},
    {"default_target", defaultTarget, METH_NOARGS,
     "default_target(): the target of a launch without pointers"},
    {nullptr, nullptr, 0, nullptr}};

/// The one module of the process: its classes and the library's callbacks belong to the main
/// interpreter.
PyObject *theModule = nullptr;

PyObject *createModule(PyObject *spec, PyModuleDef *) {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    PyErr_SetString(PyExc_ImportError,
                    "nereid runs in the main interpreter only: it cannot be imported in another "
                    "interpreter of the same process");
    return nullptr;
  }
  if (theModule)
    return Py_NewRef(theModule);
  Ref name = Ref::take(PyObject_GetAttrString(spec, "name"));
  return name ? PyModule_NewObject(name.get()) : nullptr;
}

int initialise(PyObject *module) {
  if (theModule)
    return 0;
  if (nrd_abi_version() != NRD_ABI_VERSION) {
    PyErr_Format(PyExc_ImportError, "libnereid speaks ABI %u, this extension needs %u",
                 nrd_abi_version(), NRD_ABI_VERSION);
    return -1;
  }
  if (!addValueTypes(module) || !addFunctionTypes(module) || !addKernelType(module) ||
      !addPreparedType(module) || !addTuning(module))
    return -1;
  nrd_set_stream_provider(currentStream);
  nrd_set_environment_guard(readEnvironment);
  namePackageFolders();
  theModule = Py_NewRef(module);
  return 0;
}

PyModuleDef_Slot slots[] = {
    {Py_mod_create, reinterpret_cast<void *>(createModule)},
    {Py_mod_exec, reinterpret_cast<void *>(initialise)},
    {0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "nereid._native",
                          "The Python face of libnereid.",
                          0,
                          methods,
                          slots,
                          nullptr,
                          nullptr,
                          nullptr};

} // namespace
} // namespace nereid::python

PyMODINIT_FUNC PyInit__native() {
  return PyModuleDef_Init(&nereid::python::definition);
}
