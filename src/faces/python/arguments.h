// Arguments of a launch: a Python object as an nrd_arg.
//
// The common cases cost nanoseconds: the exact type decides. torch tensors are read by C functions
// (tensors.h), arrays through the buffer protocol, everything else
// by duck typing (`data_ptr()` and `dtype`) or by `__dlpack__`.
#pragma once

#include "faces/python/few.h"
#include "faces/python/tensors.h"
#include "faces/python/values.h"

#include <list>
#include <optional>
#include <vector>

namespace nereid::python {

/// A parameter of a kernel, as far as binding arguments needs it.
struct Parameter {
  PyObject *name = nullptr; ///< interned
  Ref defaultValue;         ///< null when there is none
  bool isConstexpr = false;
  std::optional<nrd_dtype> pointee; ///< annotated as a pointer: plain integers are addresses
  Ref lastConstant;                 ///< the object last given for a constexpr, and its value
  std::shared_ptr<nrd_value> lastValue;

  /// Whether it takes arguments for what they are.
  bool isUsual() const { return !isConstexpr && !pointee; }
};

/// Objects that must live until the launch is over. Ordinary arguments need none; each kind is made
/// at its first use.
class ArgumentScope {
public:
  struct Things {
    ~Things();

    Few<Py_buffer, 8> buffers;
    std::list<nrd_descriptor> descriptors; ///< pointed to
    std::list<std::pair<nrd_tuple, std::vector<nrd_arg>>> tuples;
    Few<std::shared_ptr<nrd_value>, 4> values;
    std::vector<Ref> objects;
  };

  ArgumentScope() {} // leaves `place` as it is
  ArgumentScope(const ArgumentScope &) = delete;
  ~ArgumentScope() {
    if (things) [[unlikely]]
      things->~Things();
  }
  Things *operator->() {
    if (!things)
      things = new (place) Things;
    return things;
  }

  bool warmup = false; ///< nothing is launched: a dtype may stand for a pointer

private:
  Things *things = nullptr;
  alignas(Things) std::byte place[sizeof(Things)];
};

/// What an argument's class says about its elements.
enum class Elements : uint8_t {
  None,    ///< a number, a text, None: no elements
  Plain,   ///< torch's or NumPy's own class: class and nrd_dtype tell all dtypes apart
  Unknown, ///< anything else; its `dtype`, if it has one, says
};
Elements classifyElements(PyObject *object);
/// The last class that was found plain; it is never freed.
inline PyTypeObject *plainClass = nullptr;
inline Elements elementsOf(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  if (type == plainClass)
    return Elements::Plain;
  return type == &PyLong_Type || type == &PyFloat_Type ? Elements::None : classifyElements(object);
}

/// The same as `toArgument` of a usual parameter, for tensors and numbers; false, without an
/// exception, for what needs more thought.
inline bool toUsualArgument(PyObject *object, nrd_arg &out) {
  PyTypeObject *type = Py_TYPE(object);
  if (const TensorClass *tensors = tensorClassOf(type))
    return tensors->read(object, out);
  out.low = out.high = nullptr;
  if (type == &PyLong_Type) {
    int overflow = 0;
    setHead(out, NRD_ARG_INT);
    out.i = PyLong_AsLongLongAndOverflow(object, &overflow);
    return !overflow;
  }
  setHead(out, NRD_ARG_FLOAT);
  if (type == &PyFloat_Type)
    out.f = PyFloat_AsDouble(object);
  return type == &PyFloat_Type;
}

/// Fills `out`; false with an exception set when `object` cannot be an argument.
bool toArgument(Parameter &parameter, PyObject *object, ArgumentScope &scope, nrd_arg &out);

/// An argument known by its type only, to compile for: a text ("*fp32:16", "i32", "fp16"), a tuple
/// of such items, or a list of one object, which is a constant.
bool toTypedArgument(Parameter &parameter, PyObject *item, ArgumentScope &scope, nrd_arg &out);

/// The arguments of a compiled kernel, without its constants, from one object per parameter of the
/// function; `layout`: nrd_kernel_layout. False with an exception set.
bool toLeaves(const char *layout, PyObject *args, Py_ssize_t first, ArgumentScope &scope,
              std::vector<nrd_arg> &leaves);

/// The CUDA stream that a launch takes: torch's current one when torch is loaded, else the default.
/// Called with or without the interpreter lock.
void *currentStream(int device);

/// What a launch takes the object for when it is an array or a tensor of any kind: a tuple of the
/// name of its elements' type and its address; None for anything else. Null with an exception set
/// for an array that kernels cannot take.
PyObject *pointerOf(PyObject *object);

/// The number of the GPU that a launch with the arrays of a list goes to, None for the CPU; what
/// cannot be a pointer is left out. `target`: the option, or null. Null with an exception set when
/// there is no such target.
PyObject *deviceOfArguments(PyObject *values, const char *target);

/// A dtype by the last component of its text: "float32", "fp32", "torch.float8_e5m2" ...
std::optional<nrd_dtype> dtypeByName(const std::string &name);

} // namespace nereid::python
