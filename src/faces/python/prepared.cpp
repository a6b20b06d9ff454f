// `_native.Prepared`: a compilation whose arguments are bound already, so that it can run on
// another thread while the caller goes on, even changing what the arguments were made from.
#include "faces/python/errors.h"
#include "faces/python/function.h"

#include <memory>

namespace nereid::python {
namespace {

struct Preparation {
  Ref owner, args, kwargs; ///< what is bound lives in these
  ArgumentScope scope;
  std::vector<nrd_arg> arguments;
  OptionsPtr options;
};

struct PreparedObject {
  PyObject_HEAD Preparation *preparation;
};

PyTypeObject *preparedType = nullptr;

void preparedDealloc(PyObject *self) {
  delete reinterpret_cast<PreparedObject *>(self)->preparation;
  PyTypeObject *type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyObject *preparedCompile(PyObject *self, PyObject *) {
  Preparation &preparation = *reinterpret_cast<PreparedObject *>(self)->preparation;
  Function *function = functionOf(preparation.owner.get());
  return function ? function->compilePrepared(preparation.arguments, preparation.options.get())
                  : nullptr;
}

} // namespace

PyObject *Function::prepare(PyObject *args, PyObject *kwargs) {
  auto preparation = std::make_unique<Preparation>();
  preparation->owner = Ref::share(ownerObject);
  preparation->args = Ref::share(args);
  preparation->kwargs = Ref::share(kwargs);
  preparation->scope.warmup = true;
  preparation->arguments.resize(parameters.size());
  std::vector<PyObject *> bound(parameters.size());
  Keywords given;
  LaunchFrame frame(*this); // constants that it depends on are kept
  OptionSet *options =
      bind(CallOf(args, kwargs), bound.data(), given) ? optionsFor(given) : nullptr;
  if (!options || !toArguments(bound.data(), preparation->scope, preparation->arguments.data()))
    return nullptr;
  preparation->options = namesKernels ? optionsWithName(*options, bound.data())
                                      : OptionsPtr(nrd_options_copy(options->options));
  if (!preparation->options)
    return nullptr;
  PyObject *object =
      reinterpret_cast<allocfunc>(PyType_GetSlot(preparedType, Py_tp_alloc))(preparedType, 0);
  if (object)
    reinterpret_cast<PreparedObject *>(object)->preparation = preparation.release();
  return object;
}

PyObject *Function::compilePrepared(const std::vector<nrd_arg> &arguments,
                                    const nrd_options *options) {
  LaunchFrame frame(*this);
  nrd_kernel *kernel = nullptr;
  nrd_error *error;
  {
    GilRelease released;
    error = nrd_dispatch(function, arguments.data(), arguments.size(), options, nullptr, &kernel);
  }
  return error ? raise(error, frame.compilation) : compiledObject(kernel);
}

bool addPreparedType(PyObject *module) {
  static PyMethodDef methods[] = {
      {"compile", preparedCompile, METH_NOARGS, "compile(): the compiled kernel; on any thread"},
      {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(preparedDealloc)},
                                {Py_tp_methods, methods},
                                {0, nullptr}};
  static PyType_Spec spec = {"nereid._native.Prepared", sizeof(PreparedObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  preparedType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&spec));
  return preparedType && PyModule_AddType(module, preparedType) == 0;
}

} // namespace nereid::python
