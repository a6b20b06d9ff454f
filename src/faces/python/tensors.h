// The fast path for PyTorch's tensors as arguments.
//
// DLPack's table of C functions describes any tensor, in 65 to 100 ns: PyTorch makes a second owner
// of the tensor, for which it takes the interpreter's lock, twice. Its C interface for code
// compiled ahead of time (torch/csrc/inductor/aoti_torch/c/shim.h, kept stable from version to
// version) says the same by a few functions that only read, together 16 ns. They want the address
// of the C++ tensor. That lies in the Python object, and where is found by `tensor._cdata`, which
// is its value.
//
// The first tensor of each class and dtype is read both ways, and the results must be equal. If
// they are not, or a function is missing, DLPack is used from then on, as it is for each tensor
// that this way does not cover (of another device, without memory).
#pragma once

#include "faces/python/api.h"
#include "faces/python/dlpack.h"

#include "nereid/nereid.h"

#include <cstddef>
#include <cstring>

namespace nereid::python {

/// The functions of PyTorch's C interface that launches read tensors by. Each returns 0, or
/// something else after an exception of C++.
struct TensorFunctions {
  int (*scalarType)(void *tensor, int32_t *out);
  int (*deviceType)(void *tensor, int32_t *out);
  int (*deviceIndex)(void *tensor, int32_t *out);
  int (*data)(void *tensor, void **out);
  int (*rank)(void *tensor, int64_t *out);
  int (*sizes)(void *tensor, int64_t **out);
  int (*strides)(void *tensor, int64_t **out);
};

/// What a launch gets for elements of one of PyTorch's scalar types.
struct ScalarType {
  uint8_t dtype; ///< nrd_dtype
  uint8_t size;  ///< in bytes
};

/// A class of tensors: `torch.Tensor` or `torch.nn.Parameter`, not their subclasses, which may hide
/// where the data is.
class TensorClass {
public:
  PyTypeObject *type = nullptr; ///< never freed

  /// Fills `out` for an object of this class; false where DLPack must be asked.
  bool read(PyObject *object, nrd_arg &out) const;
  /// Tells what DLPack said of an object of this class.
  void learn(PyObject *object, const nrd_arg &known, uint8_t typeBits);

private:
  bool describe(PyObject *object, ScalarType scalar, nrd_arg &out) const;
  bool findPlace(PyObject *object);

  uint64_t trusted = 0;    ///< a bit for each scalar type that came out the same both ways
  size_t place = 0;        ///< of the C++ tensor in the object
  bool isHopeless = false; ///< this way does not work here

  static inline TensorFunctions functions = {};
  static inline ScalarType scalars[64] = {};
};

/// PyTorch's current stream on a GPU, as its C interface gives it; null where it has no such
/// function.
using CurrentStream = int (*)(int32_t device, void **out);
CurrentStream findCurrentStream();

inline TensorClass tensorClasses[2];

/// The class, once one of its tensors was seen; null for everything else.
inline TensorClass *tensorClassOf(PyTypeObject *type) {
  if (type == tensorClasses[0].type) [[likely]]
    return &tensorClasses[0];
  return type == tensorClasses[1].type ? &tensorClasses[1] : nullptr;
}
/// Makes room for the class, which must never be freed; null when there is none.
TensorClass *addTensorClass(PyTypeObject *type);

/// The first 8 bytes of an argument: all but what it points to.
inline void setHead(nrd_arg &out, nrd_arg_kind kind, uint8_t dtype = NRD_VOID,
                    int memory = NRD_MEMORY_UNKNOWN) {
  static_assert(offsetof(nrd_arg, i) == 8);
  uint64_t head = 0;
  std::memcpy(&out, &head, sizeof head);
  out.kind = uint8_t(kind);
  out.dtype = dtype;
  out.memory = uint8_t(memory);
}

inline bool TensorClass::describe(PyObject *object, ScalarType scalar, nrd_arg &out) const {
  void *tensor = reinterpret_cast<char *>(object) + place;
  int32_t device, index = 0;
  int64_t rank, *sizes, *strides;
  void *data;
  if (functions.deviceType(tensor, &device) || unsigned(device) > 1 ||
      (device == 1 && functions.deviceIndex(tensor, &index)) || functions.data(tensor, &data) ||
      functions.rank(tensor, &rank) || functions.sizes(tensor, &sizes) ||
      functions.strides(tensor, &strides)) [[unlikely]]
    return false;
  // Addresses as numbers: a tensor without elements may lie at 0.
  uintptr_t low = reinterpret_cast<uintptr_t>(data), high = low + scalar.size;
  bool empty = false;
  for (int64_t i = 0; i < rank; ++i) {
    int64_t reach = (sizes[i] - 1) * strides[i] * scalar.size;
    empty |= sizes[i] == 0;
    (reach < 0 ? low : high) += uintptr_t(reach);
  }
  if (empty) [[unlikely]]
    low = high = data ? reinterpret_cast<uintptr_t>(data) : 16;
  setHead(out, NRD_ARG_POINTER, scalar.dtype,
          device == 1 ? NRD_MEMORY_CUDA + index : int(NRD_MEMORY_HOST_TENSOR));
  out.p = data;
  out.low = reinterpret_cast<void *>(low);
  out.high = reinterpret_cast<void *>(high);
  return true;
}

inline bool TensorClass::read(PyObject *object, nrd_arg &out) const {
  int32_t scalar;
  return trusted && functions.scalarType(reinterpret_cast<char *>(object) + place, &scalar) == 0 &&
         unsigned(scalar) < 64 && (trusted >> scalar & 1) && describe(object, scalars[scalar], out);
}

} // namespace nereid::python
