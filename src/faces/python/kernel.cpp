// `_native.Kernel`: a compiled kernel. The library owns it, in the cache of its function; the
// object keeps the function alive.
#include "faces/python/function.h"

#include "faces/python/errors.h"

namespace nereid::python {
namespace {

struct KernelObject {
  PyObject_HEAD nrd_kernel *kernel;
  PyObject *owner;
};

PyTypeObject *kernelType = nullptr;

nrd_kernel *kernelOf(PyObject *self) {
  return reinterpret_cast<KernelObject *>(self)->kernel;
}

int kernelTraverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<KernelObject *>(self)->owner);
  return 0;
}

int kernelClear(PyObject *self) {
  Py_CLEAR(reinterpret_cast<KernelObject *>(self)->owner);
  return 0;
}

void kernelDealloc(PyObject *self) {
  PyObject_GC_UnTrack(self);
  kernelClear(self);
  PyTypeObject *type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyObject *kernelStage(PyObject *self, PyObject *name) {
  size_t size = 0;
  const void *data = nullptr;
  // Stages that were not kept are compiled again, which may call functions of Python.
  Function *root = functionOf(reinterpret_cast<KernelObject *>(self)->owner);
  if (!root) {
    if (!PyErr_Occurred())
      PyErr_SetObject(PyExc_KeyError, name);
    return nullptr;
  }
  LaunchFrame frame(*root);
  if (nrd_error *error = nrd_kernel_read_stage(kernelOf(self), textOf(name).c_str(), &data, &size))
    return raise(error);
  if (!data) {
    PyErr_SetObject(PyExc_KeyError, name);
    return nullptr;
  }
  return PyBytes_FromStringAndSize(static_cast<const char *>(data), size);
}

PyObject *kernelStages(PyObject *self, PyObject *) {
  size_t count = nrd_kernel_stage_count(kernelOf(self));
  PyObject *names = PyTuple_New(count);
  for (size_t i = 0; names && i < count; ++i)
    PyTuple_SetItem(names, i, PyUnicode_FromString(nrd_kernel_stage_name(kernelOf(self), i)));
  return names;
}

PyObject *kernelTimes(PyObject *self, PyObject *) {
  Ref times = Ref::take(PyDict_New());
  for (size_t i = 0, count = nrd_kernel_time_count(kernelOf(self)); i < count; ++i) {
    double milliseconds = 0;
    const char *stage = nrd_kernel_time(kernelOf(self), i, &milliseconds);
    Ref value = Ref::take(PyFloat_FromDouble(milliseconds));
    if (!value || PyDict_SetItemString(times.get(), stage, value.get()) < 0)
      return nullptr;
  }
  return times.release();
}

PyObject *kernelMetadata(PyObject *self, PyObject *) {
  return PyUnicode_FromString(nrd_kernel_metadata(kernelOf(self)));
}

PyObject *kernelProperties(PyObject *self, PyObject *device) {
  long number = PyLong_AsLong(device);
  if (PyErr_Occurred())
    return nullptr;
  nrd_kernel_properties found;
  if (nrd_error *error = nrd_kernel_get_properties(kernelOf(self), int(number), &found))
    return raise(error);
  return Py_BuildValue(
      "{s:i,s:i,s:i,s:L,s:N,s:N}", "n_regs", int(found.registers), "n_spills", int(found.spills),
      "n_max_threads", int(found.max_threads), "shared", static_cast<long long>(found.shared_bytes),
      "function", PyLong_FromVoidPtr(found.function), "module", PyLong_FromVoidPtr(found.module));
}

PyObject *kernelAddress(PyObject *self, PyObject *) {
  return PyLong_FromVoidPtr(kernelOf(self));
}

PyObject *kernelLayout(PyObject *self, PyObject *) {
  return PyUnicode_FromString(nrd_kernel_layout(kernelOf(self)));
}

PyObject *kernelConstant(PyObject *self, PyObject *index) {
  size_t number = PyLong_AsSize_t(index);
  if (PyErr_Occurred())
    return nullptr;
  ValuePtr value(nrd_kernel_constant(kernelOf(self), number));
  if (!value)
    return PyErr_Format(PyExc_IndexError, "no constant %zu", number);
  return toPython(value.get(), /*boxed=*/false).release();
}

bool launchWith(nrd_kernel *kernel, nrd_launch &launch, PyObject *args, Py_ssize_t first) {
  ArgumentScope scope;
  std::vector<nrd_arg> leaves;
  if (!toLeaves(nrd_kernel_layout(kernel), args, first, scope, leaves))
    return false;
  nrd_error *error;
  {
    GilRelease released;
    error = nrd_kernel_launch(kernel, leaves.data(), leaves.size(), &launch);
  }
  return !error || raise(error);
}

/// The stream of a launch: an integer, or None for the current one.
bool setStream(nrd_launch &launch, PyObject *stream) {
  if (stream == Py_None)
    return true;
  launch.with_stream = 1;
  launch.stream = PyLong_AsVoidPtr(stream);
  return !PyErr_Occurred();
}

bool callHook(PyObject *hook, PyObject *metadata) {
  return hook == Py_None || Ref::take(PyObject_CallFunctionObjArgs(hook, metadata, nullptr));
}

PyObject *kernelRun(PyObject *self, PyObject *args) {
  constexpr Py_ssize_t leading = 9;
  if (PyTuple_Size(args) < leading)
    return PyErr_Format(PyExc_TypeError,
                        "run() takes the grid's three sizes, stream, function, packed metadata, "
                        "launch metadata, enter hook, exit hook, and the kernel's arguments");
  nrd_launch launch{};
  for (int axis = 0; axis < 3; ++axis) {
    long long size = PyLong_AsLongLong(PyTuple_GetItem(args, axis));
    if (PyErr_Occurred())
      return nullptr;
    if (size < 0 || size > INT32_MAX)
      return PyErr_Format(PyExc_ValueError, "the grid must be 0 to 2147483647, found %lld", size);
    launch.grid[axis] = uint32_t(size);
  }
  PyObject *metadata = PyTuple_GetItem(args, 6);
  if (!setStream(launch, PyTuple_GetItem(args, 3)) ||
      !callHook(PyTuple_GetItem(args, 7), metadata) ||
      !launchWith(kernelOf(self), launch, args, leading) ||
      !callHook(PyTuple_GetItem(args, 8), metadata))
    return nullptr;
  Py_RETURN_NONE;
}

PyObject *kernelName(PyObject *self, PyObject *) {
  return PyUnicode_FromString(nrd_kernel_name(kernelOf(self)));
}

} // namespace

Ref makeKernelHandle(nrd_kernel *kernel, PyObject *owner) {
  auto *alloc = reinterpret_cast<allocfunc>(PyType_GetSlot(kernelType, Py_tp_alloc));
  Ref object = Ref::take(alloc(kernelType, 0));
  if (object) {
    reinterpret_cast<KernelObject *>(object.get())->kernel = kernel;
    reinterpret_cast<KernelObject *>(object.get())->owner = Py_NewRef(owner);
  }
  return object;
}

nrd_kernel *kernelOfHandle(PyObject *object) {
  if (Py_TYPE(object) == kernelType)
    return kernelOf(object);
  PyErr_SetString(PyExc_TypeError, "expected a compiled kernel");
  return nullptr;
}

bool addKernelType(PyObject *module) {
  static PyMethodDef methods[] = {
      {"stage", kernelStage, METH_O, "stage(name): the bytes of a stage of its compilation"},
      {"stages", kernelStages, METH_NOARGS, "stages(): names of the stages"},
      {"times", kernelTimes, METH_NOARGS, "times(): milliseconds of each step of its compilation"},
      {"metadata", kernelMetadata, METH_NOARGS, "metadata(): a JSON object"},
      {"properties", kernelProperties, METH_O,
       "properties(device): what it needs on a GPU: registers, spills, shared memory"},
      {"name", kernelName, METH_NOARGS, "name(): of its entry point"},
      {"address", kernelAddress, METH_NOARGS,
       "address(): the nrd_kernel of the C ABI; it lives as long as the function"},
      {"layout", kernelLayout, METH_NOARGS,
       "layout(): how the parameters reach the code: 'p' passed, 'c' constant, tuples in brackets"},
      {"constant", kernelConstant, METH_O, "constant(index): the value of a 'c' of the layout"},
      {"run", kernelRun, METH_VARARGS,
       "run(grid_0, grid_1, grid_2, stream, function, packed_metadata, launch_metadata, "
       "enter_hook, "
       "exit_hook, *args): launches with an argument for each parameter of the function"},
      {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(kernelDealloc)},
                                {Py_tp_traverse, reinterpret_cast<void *>(kernelTraverse)},
                                {Py_tp_clear, reinterpret_cast<void *>(kernelClear)},
                                {Py_tp_methods, methods},
                                {0, nullptr}};
  static PyType_Spec spec = {
      "nereid._native.Kernel", sizeof(KernelObject), 0,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  kernelType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&spec));
  return kernelType && PyModule_AddType(module, kernelType) == 0;
}

} // namespace nereid::python
