#include "faces/python/tensors.h"

#include <dlfcn.h>

namespace nereid::python {

namespace {

/// A library of PyTorch's: it is loaded, but mostly not for all to see.
class Loaded {
public:
  explicit Loaded(const char *name) : library(dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) {}
  Loaded(const Loaded &) = delete;
  ~Loaded() {
    if (library)
      dlclose(library);
  }
  template <typename Function> bool find(Function &function, const char *name) const {
    void *address = dlsym(RTLD_DEFAULT, name);
    if (!address && library)
      address = dlsym(library, name);
    function = reinterpret_cast<Function>(address);
    return address != nullptr;
  }

private:
  void *library;
};

/// False where PyTorch has no such interface.
bool findFunctions(TensorFunctions &out) {
  Loaded library("libtorch_cpu.so");
  auto find = [&](auto &function, const char *name) { return library.find(function, name); };
  return find(out.scalarType, "aoti_torch_get_dtype") &&
         find(out.deviceType, "aoti_torch_get_device_type") &&
         find(out.deviceIndex, "aoti_torch_get_device_index") &&
         find(out.data, "aoti_torch_get_data_ptr") && find(out.rank, "aoti_torch_get_dim") &&
         find(out.sizes, "aoti_torch_get_sizes") && find(out.strides, "aoti_torch_get_strides");
}

/// An attribute that is an integer; 0 where it is not.
size_t numberOf(PyObject *object, const char *name) {
  Ref value = attribute(object, name);
  size_t number = value ? PyLong_AsSize_t(value.get()) : 0;
  bool wrong = PyErr_Occurred();
  PyErr_Clear();
  return wrong ? 0 : number;
}

} // namespace

bool TensorClass::findPlace(PyObject *object) {
  size_t size = numberOf(reinterpret_cast<PyObject *>(type), "__basicsize__"),
         tensor = numberOf(object, "_cdata");
  if (!tensor || size > 4096)
    return false;
  for (size_t at = sizeof(PyObject); at + sizeof tensor <= size; at += sizeof tensor) {
    size_t word;
    std::memcpy(&word, reinterpret_cast<char *>(object) + at, sizeof word);
    if (word != tensor)
      continue;
    place = at;
    return true;
  }
  return false;
}

void TensorClass::learn(PyObject *object, const nrd_arg &known, uint8_t typeBits) {
  if (isHopeless)
    return;
  static const bool hasFunctions = findFunctions(functions);
  isHopeless = !hasFunctions || (!place && !findPlace(object));
  int32_t number;
  if (isHopeless || functions.scalarType(reinterpret_cast<char *>(object) + place, &number) ||
      unsigned(number) >= 64)
    return;
  ScalarType scalar{known.dtype, uint8_t(typeBits / 8)};
  nrd_arg found{};
  if (scalar.size == 0 || !describe(object, scalar, found))
    return;
  ScalarType &before = scalars[number];
  bool same = found.p == known.p && found.memory == known.memory && found.low == known.low &&
              found.high == known.high &&
              (!before.size || (before.dtype == scalar.dtype && before.size == scalar.size));
  if (same) {
    before = scalar;
    trusted |= uint64_t(1) << number;
  } else {
    isHopeless = true;
    trusted = 0;
  }
}

CurrentStream findCurrentStream() {
  CurrentStream found;
  Loaded("libtorch_cuda.so").find(found, "aoti_torch_get_current_cuda_stream");
  return found;
}

TensorClass *addTensorClass(PyTypeObject *type) {
  for (TensorClass &known : tensorClasses) {
    if (!known.type)
      known.type = type;
    if (known.type == type)
      return &known;
  }
  return nullptr;
}

} // namespace nereid::python
