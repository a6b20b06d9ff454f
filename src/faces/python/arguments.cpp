#include "faces/python/arguments.h"

#include "faces/python/dlpack.h"
#include "faces/python/errors.h"
#include "faces/python/function.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

namespace nereid::python {

/// torch's C functions, once a tensor of it has been seen.
static std::atomic<const dlpack::ExchangeApi *> exchangeApi = nullptr;

/// PyTorch's shorter way to ask for the current stream, once it has said the same as the other one.
static std::atomic<CurrentStream> trustedStream = nullptr;

/// How many GPUs torch knows: of others it must not be asked, it would read past its table.
static int torchDevices() {
  GilGuard gil;
  PyObject *torch = PyDict_GetItemString(PyImport_GetModuleDict(), "torch"); // borrowed
  Ref cuda = torch ? attribute(torch, "cuda") : Ref();
  Ref count = Ref::take(cuda ? PyObject_CallMethod(cuda.get(), "device_count", nullptr) : nullptr);
  long devices = count ? PyLong_AsLong(count.get()) : 0;
  PyErr_Clear();
  return devices > 0 ? int(devices) : 0;
}

void *currentStream(int device) {
  void *stream = nullptr;
  if (device > 0) {
    static std::atomic<int> known = -1; // no initialiser to wait for, with or without the GIL
    int devices = known.load(std::memory_order_relaxed);
    if (devices < 0)
      known.store(devices = torchDevices(), std::memory_order_relaxed);
    if (device >= devices)
      return nullptr;
  }
  if (CurrentStream ask = trustedStream.load(std::memory_order_relaxed);
      ask && ask(device, &stream) == 0) [[likely]]
    return stream;
  // The other ways may raise an exception, as PyTorch's does where it has no GPU although there is
  // one.
  GilGuard gil;
  if (const dlpack::ExchangeApi *api = exchangeApi.load(std::memory_order_acquire)) {
    if (api->currentStream(dlpack::Cuda, device, &stream) == 0) {
      static std::atomic<bool> isCompared = false;
      void *same = nullptr;
      if (!isCompared.exchange(true, std::memory_order_relaxed))
        if (CurrentStream ask = findCurrentStream();
            ask && ask(device, &same) == 0 && same == stream)
          trustedStream.store(ask, std::memory_order_relaxed);
      return stream;
    }
    PyErr_Clear();
    stream = nullptr;
  }
  PyObject *modules = PyImport_GetModuleDict(); // borrowed
  PyObject *torch = PyDict_GetItemString(modules, "torch");
  Ref module = torch ? attribute(torch, "_C") : Ref();
  Ref handle =
      Ref::take(module ? PyObject_CallMethod(module.get(), "_cuda_getCurrentRawStream", "i", device)
                       : nullptr);
  if (handle)
    stream = PyLong_AsVoidPtr(handle.get());
  PyErr_Clear(); // no torch, or one without CUDA: the default stream
  return stream;
}

ArgumentScope::Things::~Things() {
  buffers.each([](Py_buffer &buffer) { PyBuffer_Release(&buffer); });
}

std::optional<nrd_dtype> dtypeByName(const std::string &text) {
  static const std::unordered_map<std::string, nrd_dtype> names = {
      {"bool", NRD_INT1},
      {"int1", NRD_INT1},
      {"i1", NRD_INT1},
      {"u1", NRD_INT1},
      {"int8", NRD_INT8},
      {"i8", NRD_INT8},
      {"int16", NRD_INT16},
      {"i16", NRD_INT16},
      {"int32", NRD_INT32},
      {"i32", NRD_INT32},
      {"int64", NRD_INT64},
      {"i64", NRD_INT64},
      {"uint8", NRD_UINT8},
      {"u8", NRD_UINT8},
      {"uint16", NRD_UINT16},
      {"u16", NRD_UINT16},
      {"uint32", NRD_UINT32},
      {"u32", NRD_UINT32},
      {"uint64", NRD_UINT64},
      {"u64", NRD_UINT64},
      {"float8e5", NRD_FP8E5},
      {"fp8e5", NRD_FP8E5},
      {"float8_e5m2", NRD_FP8E5},
      {"float8e5b16", NRD_FP8E5B16},
      {"fp8e5b16", NRD_FP8E5B16},
      {"float8_e5m2fnuz", NRD_FP8E5B16},
      {"float8e4nv", NRD_FP8E4NV},
      {"fp8e4nv", NRD_FP8E4NV},
      {"float8_e4m3fn", NRD_FP8E4NV},
      {"float8e4b8", NRD_FP8E4B8},
      {"fp8e4b8", NRD_FP8E4B8},
      {"float8_e4m3fnuz", NRD_FP8E4B8},
      {"float8e4b15", NRD_FP8E4B15},
      {"fp8e4b15", NRD_FP8E4B15},
      {"float16", NRD_FP16},
      {"fp16", NRD_FP16},
      {"bfloat16", NRD_BF16},
      {"bf16", NRD_BF16},
      {"float32", NRD_FP32},
      {"fp32", NRD_FP32},
      {"float64", NRD_FP64},
      {"fp64", NRD_FP64}};
  size_t dot = text.rfind('.');
  auto found = names.find(dot == std::string::npos ? text : text.substr(dot + 1));
  return found == names.end() ? std::nullopt : std::optional(found->second);
}

namespace {

//===--- pointers
//--------------------------------------------------------------------------------===//

/// The bytes that a strided view can reach; strides in bytes.
void setExtent(nrd_arg &out, const void *data, int rank, const int64_t *shape,
               const int64_t *strides, int64_t itemSize) {
  const char *low = static_cast<const char *>(data), *high = low + itemSize;
  for (int i = 0; i < rank; ++i) {
    if (shape[i] == 0) { // nothing may be touched; an empty tensor's address may be null
      out.low = out.high = data ? data : reinterpret_cast<const void *>(16);
      return;
    }
    (strides[i] < 0 ? low : high) += (shape[i] - 1) * strides[i];
  }
  out.low = low;
  out.high = high;
}

bool pointerTo(nrd_arg &out, nrd_dtype dtype, void *data, int memory, bool readOnly = false) {
  out.kind = NRD_ARG_POINTER;
  out.memory = uint8_t(memory);
  out.dtype = dtype;
  out.read_only = readOnly;
  out.p = data;
  return true;
}

bool wrongDtype(const Parameter &parameter, const std::string &dtype) {
  PyErr_Format(PyExc_TypeError, "argument `%U`: elements of type %s are not supported in kernels",
               parameter.name, dtype.c_str());
  return false;
}

bool wrongDevice(const Parameter &parameter, const std::string &device) {
  PyErr_Format(PyExc_ValueError,
               "argument `%U` is on device %s: kernels run on the CPU or on an NVIDIA GPU",
               parameter.name, device.c_str());
  return false;
}

/// NRD_VOID for what kernels do not know.
nrd_dtype dtypeOf(const dlpack::Tensor &tensor) {
  if (tensor.lanes != 1)
    return NRD_VOID;
  auto type = [](int code, int bits) { return code << 8 | bits; };
  switch (tensor.typeCode << 8 | tensor.typeBits) {
  case type(dlpack::Float, 32):
    return NRD_FP32;
  case type(dlpack::Float, 16):
    return NRD_FP16;
  case type(dlpack::BFloat, 16):
    return NRD_BF16;
  case type(dlpack::Float, 64):
    return NRD_FP64;
  case type(dlpack::Int, 32):
    return NRD_INT32;
  case type(dlpack::Int, 64):
    return NRD_INT64;
  case type(dlpack::Int, 16):
    return NRD_INT16;
  case type(dlpack::Int, 8):
    return NRD_INT8;
  case type(dlpack::UInt, 8):
    return NRD_UINT8;
  case type(dlpack::UInt, 16):
    return NRD_UINT16;
  case type(dlpack::UInt, 32):
    return NRD_UINT32;
  case type(dlpack::UInt, 64):
    return NRD_UINT64;
  case type(dlpack::Bool, 8):
    return NRD_INT1;
  case type(dlpack::Float8E4M3FN, 8):
    return NRD_FP8E4NV;
  case type(dlpack::Float8E4M3FNUZ, 8):
    return NRD_FP8E4B8;
  case type(dlpack::Float8E5M2, 8):
    return NRD_FP8E5;
  case type(dlpack::Float8E5M2FNUZ, 8):
    return NRD_FP8E5B16;
  default:
    return NRD_VOID;
  }
}

bool hasAttribute(PyObject *object, const char *name) {
  return PyObject_HasAttrString(object, name);
}

std::string nameOr(PyObject *object, const char *name, const std::string &fallback) {
  Ref value = attribute(object, name);
  PyErr_Clear();
  return value ? strOf(value.get()) : fallback;
}

bool fromDlpack(const Parameter &parameter, PyObject *object, const dlpack::Tensor &tensor,
                nrd_arg &out, bool readOnly = false) {
  bool isCuda = tensor.deviceType == dlpack::Cuda || tensor.deviceType == dlpack::CudaManaged;
  if (!isCuda && tensor.deviceType != dlpack::Cpu && tensor.deviceType != dlpack::CudaHost)
    return wrongDevice(parameter,
                       nameOr(object, "device", "number " + std::to_string(tensor.deviceId)));
  nrd_dtype dtype = dtypeOf(tensor);
  if (dtype == NRD_VOID)
    return wrongDtype(parameter, nameOr(object, "dtype", "unknown"));
  // Addresses as numbers: a tensor without elements may lie at 0.
  uintptr_t data = reinterpret_cast<uintptr_t>(tensor.data) + tensor.byteOffset;
  int64_t itemSize = std::max(tensor.typeBits / 8, 1);
  uintptr_t low = data, high = data + itemSize;
  int64_t compact = itemSize;
  bool empty = false;
  for (int i = tensor.rank - 1; i >= 0; --i) {
    int64_t stride = tensor.strides ? tensor.strides[i] * itemSize : compact;
    compact *= tensor.shape[i];
    empty |= tensor.shape[i] == 0;
    (stride < 0 ? low : high) += uintptr_t((tensor.shape[i] - 1) * stride);
  }
  out.low = reinterpret_cast<char *>(empty ? (data ? data : 16) : low);
  out.high = empty ? out.low : reinterpret_cast<char *>(high);
  return pointerTo(out, dtype, reinterpret_cast<char *>(data),
                   isCuda ? NRD_MEMORY_CUDA + tensor.deviceId : NRD_MEMORY_HOST_TENSOR, readOnly);
}

/// Python's struct format of one native scalar.
std::optional<nrd_dtype> dtypeOfFormat(const char *format, Py_ssize_t size) {
  if (!format)
    return NRD_UINT8;
  if (*format == '<' || *format == '=' || *format == '@' || (*format == '>' && size == 1))
    ++format;
  if (!*format || format[1])
    return std::nullopt;
  bool isSigned = std::strchr("bhilqn", *format), isUnsigned = std::strchr("BHILQN", *format);
  switch (*format) {
  case '?':
    return NRD_INT1;
  case 'e':
    return NRD_FP16;
  case 'f':
    return NRD_FP32;
  case 'd':
    return NRD_FP64;
  default:
    break;
  }
  if (!isSigned && !isUnsigned)
    return std::nullopt;
  switch (size) {
  case 1:
    return isSigned ? NRD_INT8 : NRD_UINT8;
  case 2:
    return isSigned ? NRD_INT16 : NRD_UINT16;
  case 4:
    return isSigned ? NRD_INT32 : NRD_UINT32;
  case 8:
    return isSigned ? NRD_INT64 : NRD_UINT64;
  default:
    return std::nullopt;
  }
}

bool fromBuffer(const Parameter &parameter, PyObject *object, ArgumentScope &scope, nrd_arg &out) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(object, &buffer, PyBUF_RECORDS_RO) < 0)
    return false;
  scope->buffers.push_back(buffer);
  std::optional<nrd_dtype> dtype = dtypeOfFormat(buffer.format, buffer.itemsize);
  if (!dtype) {
    Ref name = attribute(object, "dtype");
    return wrongDtype(parameter, name ? strOf(name.get()) : std::string(buffer.format));
  }
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
  setExtent(out, buffer.buf, buffer.ndim, reinterpret_cast<const int64_t *>(buffer.shape),
            reinterpret_cast<const int64_t *>(buffer.strides), buffer.itemsize);
  return pointerTo(out, *dtype, buffer.buf, NRD_MEMORY_HOST, buffer.readonly);
}

/// The extent of a tensor-like object, when it tells its shape and strides the way torch does.
void duckExtent(PyObject *object, nrd_arg &out) {
  Ref shape = attribute(object, "shape"), stride = attribute(object, "stride"),
      size = attribute(object, "element_size");
  Ref strides = Ref::take(shape && stride && size ? PyObject_CallNoArgs(stride.get()) : nullptr);
  Ref itemSize = Ref::take(strides ? PyObject_CallNoArgs(size.get()) : nullptr);
  Py_ssize_t rank = itemSize ? PySequence_Size(shape.get()) : -1;
  std::vector<int64_t> dims, steps;
  int64_t bytes = itemSize ? PyLong_AsLongLong(itemSize.get()) : 0;
  for (Py_ssize_t i = 0; i < rank; ++i) {
    Ref dim = Ref::take(PySequence_GetItem(shape.get(), i)),
        step = Ref::take(PySequence_GetItem(strides.get(), i));
    dims.push_back(dim ? PyLong_AsLongLong(dim.get()) : 0);
    steps.push_back(step ? PyLong_AsLongLong(step.get()) * bytes : 0);
  }
  if (rank >= 0 && !PyErr_Occurred())
    setExtent(out, out.p, int(rank), dims.data(), steps.data(), bytes);
  PyErr_Clear();
}

/// `data_ptr()` and `dtype`: subclasses and wrappers of torch's tensors, TensorWrapper, MockTensor,
/// users' own classes, which may be mistaken about where their address is if they do not say it.
bool fromDuck(const Parameter &parameter, PyObject *object, nrd_arg &out) {
  int memory = NRD_MEMORY_UNPROVEN;
  if (Ref device = attribute(object, "device")) { // torch.device, or its text
    std::string name = strOf(device.get());
    bool known = PyUnicode_Check(device.get()) || hasAttribute(device.get(), "type");
    if (known && name == "cpu")
      memory = NRD_MEMORY_HOST_TENSOR;
    else if (known && name.rfind("cuda", 0) == 0)
      memory =
          NRD_MEMORY_CUDA + (name.size() > 5 ? int(std::strtol(name.c_str() + 5, nullptr, 10)) : 0);
    else if (known)
      return wrongDevice(parameter, name);
  }
  PyErr_Clear();
  Ref dtypeObject = Ref::take(PyObject_GetAttrString(object, "dtype"));
  if (!dtypeObject)
    return false;
  std::string dtypeText = strOf(dtypeObject.get());
  std::optional<nrd_dtype> dtype = dtypeByName(dtypeText);
  if (!dtype)
    return wrongDtype(parameter, dtypeText);
  Ref address = Ref::take(PyObject_CallMethod(object, "data_ptr", nullptr));
  if (!address)
    return false;
  if (!PyLong_Check(address.get())) {
    PyErr_Format(PyExc_TypeError,
                 "data_ptr method of Pointer object must return 64-bit int, found %s (argument "
                 "`%U`)",
                 typeName(reinterpret_cast<PyObject *>(Py_TYPE(address.get()))).c_str(),
                 parameter.name);
    return false;
  }
  unsigned long long pointer = PyLong_AsUnsignedLongLong(address.get());
  if (PyErr_Occurred())
    return false;
  pointerTo(out, *dtype, reinterpret_cast<void *>(pointer), memory);
  duckExtent(object, out);
  return true;
}

/// The entry `data` of an array interface: address, and whether nothing may be written there. It is
/// made by whoever wrote the array's class. False with an exception set when it is something else.
bool readData(PyObject *data, void *&address, bool &readOnly) {
  Ref first = Ref::take(PySequence_GetItem(data, 0));
  Ref second = Ref::take(first ? PySequence_GetItem(data, 1) : nullptr);
  if (!second)
    return false;
  address = PyLong_AsVoidPtr(first.get());
  readOnly = PyObject_IsTrue(second.get()) == 1;
  return !PyErr_Occurred();
}

/// An array whose buffer cannot say its type (bfloat16 and fp8 of the ml_dtypes package): NumPy's
/// own interface.
bool fromArrayInterface(const Parameter &parameter, PyObject *object, nrd_arg &out) {
  Ref dtypeObject = attribute(object, "dtype");
  std::optional<nrd_dtype> dtype =
      dtypeObject ? dtypeByName(strOf(dtypeObject.get())) : std::nullopt;
  if (!dtype)
    return wrongDtype(parameter, dtypeObject ? strOf(dtypeObject.get()) : "unknown");
  Ref interface = Ref::take(PyObject_GetAttrString(object, "__array_interface__"));
  Ref data = Ref::take(interface ? PyMapping_GetItemString(interface.get(), "data") : nullptr);
  Ref shape = Ref::take(PyObject_GetAttrString(object, "shape"));
  Ref strides = Ref::take(PyObject_GetAttrString(object, "strides"));
  Ref itemSize = Ref::take(PyObject_GetAttrString(object, "itemsize"));
  if (!data || !shape || !strides || !itemSize)
    return false;
  void *address;
  bool readOnly;
  if (!readData(data.get(), address, readOnly))
    return false;
  std::vector<int64_t> dims, steps;
  for (Py_ssize_t i = 0, n = PyTuple_Size(shape.get()); i < n; ++i) {
    dims.push_back(PyLong_AsLongLong(PyTuple_GetItem(shape.get(), i)));
    steps.push_back(PyLong_AsLongLong(PyTuple_GetItem(strides.get(), i)));
  }
  if (PyErr_Occurred())
    return false;
  setExtent(out, address, int(dims.size()), dims.data(), steps.data(),
            PyLong_AsLongLong(itemSize.get()));
  return pointerTo(out, *dtype, address, NRD_MEMORY_HOST, readOnly);
}

/// The capsule of `__dlpack__`, of version 1 where the object has learned of it.
Ref capsuleOf(PyObject *object) {
  Ref method = Ref::take(PyObject_GetAttrString(object, "__dlpack__"));
  Ref none = Ref::take(method ? PyTuple_New(0) : nullptr);
  Ref version = Ref::take(none ? Py_BuildValue("{s(ii)}", "max_version", 1, 3) : nullptr);
  if (!version)
    return {};
  if (Ref capsule = Ref::take(PyObject_Call(method.get(), none.get(), version.get())))
    return capsule;
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) // what an unknown keyword raises
    return {};
  PyErr_Clear();
  return Ref::take(PyObject_CallNoArgs(method.get()));
}

/// `isImmutable`: whether the library's arrays never change, which a capsule before version 1
/// cannot say.
bool fromDlpackMethod(const Parameter &parameter, PyObject *object, ArgumentScope &scope,
                      nrd_arg &out, bool isImmutable = false) {
  Ref capsule = capsuleOf(object);
  if (!capsule)
    return false;
  scope->objects.push_back(capsule); // not consumed: its own destructor gives the tensor back
  if (PyCapsule_IsValid(capsule.get(), "dltensor_versioned")) {
    auto *managed = static_cast<dlpack::VersionedTensor *>(
        PyCapsule_GetPointer(capsule.get(), "dltensor_versioned"));
    if (managed->major == 1)
      return fromDlpack(parameter, object, managed->tensor, out,
                        isImmutable || managed->flags & dlpack::ReadOnly);
    PyErr_Format(PyExc_BufferError,
                 "argument `%U`: its `__dlpack__` gives version %u of DLPack, expected version 1",
                 parameter.name, unsigned(managed->major));
    return false;
  }
  if (!PyCapsule_IsValid(capsule.get(), "dltensor")) {
    const char *name = PyCapsule_CheckExact(capsule.get()) ? PyCapsule_GetName(capsule.get()) : "";
    bool isUsed = name && std::string_view(name).starts_with("used_dltensor");
    PyErr_Format(PyExc_BufferError,
                 isUsed ? "argument `%U`: its `__dlpack__` gives a capsule whose array another "
                          "library has taken; a new capsule is needed for each use"
                        : "argument `%U`: its `__dlpack__` gives no capsule of DLPack",
                 parameter.name);
    return false;
  }
  auto *managed =
      static_cast<dlpack::ManagedTensor *>(PyCapsule_GetPointer(capsule.get(), "dltensor"));
  return fromDlpack(parameter, object, managed->tensor, out, isImmutable);
}

/// CuPy, Numba and others: numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html. A type
/// whose arrays may be elsewhere has the attribute only where the array is on a GPU.
bool fromCudaArrayInterface(const Parameter &parameter, PyObject *object, ArgumentScope &scope,
                            nrd_arg &out, bool isImmutable = false) {
  Ref interface = attribute(object, "__cuda_array_interface__");
  PyErr_Clear();
  if (!interface)
    return fromDlpackMethod(parameter, object, scope, out, isImmutable);
  Ref data = Ref::take(PyMapping_GetItemString(interface.get(), "data"));
  Ref typeText = Ref::take(data ? PyMapping_GetItemString(interface.get(), "typestr") : nullptr);
  Ref shape = Ref::take(typeText ? PyMapping_GetItemString(interface.get(), "shape") : nullptr);
  if (!shape)
    return false;
  // "<f4", "|b1": byte order, kind, bytes. The kind of an extension type says nothing; its name
  // does.
  static const std::unordered_map<std::string, nrd_dtype> kinds = {
      {"b1", NRD_INT1},   {"i1", NRD_INT8},  {"i2", NRD_INT16},  {"i4", NRD_INT32},
      {"i8", NRD_INT64},  {"u1", NRD_UINT8}, {"u2", NRD_UINT16}, {"u4", NRD_UINT32},
      {"u8", NRD_UINT64}, {"f2", NRD_FP16},  {"f4", NRD_FP32},   {"f8", NRD_FP64}};
  std::string text = textOf(typeText.get());
  auto found = kinds.find(text.empty() ? text : text.substr(1));
  std::optional<nrd_dtype> dtype = found != kinds.end() ? std::optional(found->second)
                                                        : dtypeByName(nameOr(object, "dtype", ""));
  if (!dtype)
    return wrongDtype(parameter, nameOr(object, "dtype", text));
  void *address;
  bool readOnly;
  if (!readData(data.get(), address, readOnly))
    return false;
  int device = nrd_cuda_device_of(address);
  return pointerTo(out, *dtype, address, NRD_MEMORY_CUDA + (device < 0 ? 0 : device),
                   readOnly || isImmutable);
}

/// An object with a buffer. Arrays of JAX and TensorFlow have none on a GPU, and none for element
/// types that Python does not know, such as bfloat16: these are read by the other interfaces. Such
/// arrays never change (their buffers are read-only, too).
bool fromBufferOrArray(const Parameter &parameter, PyObject *object, ArgumentScope &scope,
                       nrd_arg &out) {
  if (fromBuffer(parameter, object, scope, out))
    return true;
  bool isRefused =
      PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_BufferError);
  auto *type = reinterpret_cast<PyObject *>(Py_TYPE(object));
  if (!isRefused || !hasAttribute(type, "__dlpack__"))
    return false;
  PyErr_Clear();
  return fromCudaArrayInterface(parameter, object, scope, out, /*isImmutable=*/true);
}

//===--- what a type is
//--------------------------------------------------------------------------===//

enum class Kind : uint8_t {
  Exchange,
  Duck,
  Buffer,
  Array,
  CudaArray,
  Dlpack,
  Int,
  Float,
  Tuple,
  Aggregate,
  Value,
  TorchDtype,
  Descriptor,
  Unknown
};

struct TypeEntry {
  PyTypeObject *type;
  Kind kind;
  const dlpack::ExchangeApi *api;
};

/// torch.Tensor and torch.nn.Parameter themselves, not their subclasses, which may hide where the
/// data is.
bool isTorchTensor(PyTypeObject *type) {
  std::string name = typeName(reinterpret_cast<PyObject *>(type));
  return name == "torch.Tensor" || name == "torch.nn.parameter.Parameter";
}

TypeEntry classify(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  auto *typeObject = reinterpret_cast<PyObject *>(type);
  if (isTorchTensor(type)) {
    Ref capsule = attribute(typeObject, "__dlpack_c_exchange_api__");
    auto *api = capsule ? static_cast<const dlpack::ExchangeApi *>(
                              PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api"))
                        : nullptr;
    PyErr_Clear();
    while (api && api->major > 1)
      api = api->previous;
    if (api && api->currentStream)
      exchangeApi.store(api);
    if (api && api->tensorFromObject)
      return {type, Kind::Exchange, api};
    return {type, Kind::Duck, nullptr};
  }
  if (PyLong_Check(object))
    return {type, Kind::Int, nullptr};
  if (PyFloat_Check(object))
    return {type, Kind::Float, nullptr};
  std::string name = typeName(typeObject);
  if (name == "numpy.ndarray" || name == "numpy.memmap")
    return {type, Kind::Array, nullptr};
  if (name.rfind("numpy.", 0) == 0) // scalars have a buffer too, but no address worth writing to
    return {type, Kind::Unknown, nullptr};
  if (name == "torch.dtype")
    return {type, Kind::TorchDtype, nullptr};
  if (hasAttribute(object, "block_shape") && hasAttribute(object, "strides") &&
      hasAttribute(object, "base"))
    return {type, Kind::Descriptor, nullptr};
  if (hasAttribute(typeObject, "data_ptr"))
    return {type, Kind::Duck, nullptr};
  Registry &names = registry();
  if (PyTuple_Check(object) ||
      (names.tupleClass && PyObject_IsInstance(object, names.tupleClass) == 1))
    return {type, Kind::Tuple, nullptr};
  if (fieldsOf(object))
    return {type, Kind::Aggregate, nullptr};
  for (PyObject *cls : {names.constexprClass, names.dtypeClass})
    if (cls && PyObject_IsInstance(object, cls) == 1)
      return {type, Kind::Value, nullptr};
  if (isKernel(object))
    return {type, Kind::Value, nullptr};
  if (PyObject_CheckBuffer(object) && !PyBytes_Check(object))
    return {type, Kind::Buffer, nullptr};
  if (hasAttribute(typeObject, "__cuda_array_interface__"))
    return {type, Kind::CudaArray, nullptr};
  if (hasAttribute(typeObject, "__dlpack__"))
    return {type, Kind::Dlpack, nullptr};
  return {type, Kind::Unknown, nullptr};
}

/// What `entryOf` gives for types that are not kept.
TypeEntry unkept;

const TypeEntry &entryOf(PyObject *object) {
  static TypeEntry known[64];
  static size_t count = 0;
  PyTypeObject *type = Py_TYPE(object);
  for (size_t i = 0; i < count; ++i)
    if (known[i].type == type)
      return known[i];
  TypeEntry entry = classify(object);
  if (count == std::size(known)) // types are few; the ones kept must not be freed
    return unkept = entry;
  Py_INCREF(reinterpret_cast<PyObject *>(type));
  known[count] = entry;
  return known[count++];
}

bool fromInt(PyObject *object, nrd_arg &out) {
  int overflow = 0;
  long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (!overflow) {
    out.kind = NRD_ARG_INT;
    out.i = value;
    return value != -1 || !PyErr_Occurred();
  }
  unsigned long long large = overflow > 0 ? PyLong_AsUnsignedLongLong(object) : ~0ull;
  if (overflow < 0 || PyErr_Occurred()) {
    PyErr_Clear();
    PyErr_Format(PyExc_OverflowError, "integer to be specialized too large to represent: %S",
                 object);
    return false;
  }
  out.kind = NRD_ARG_UINT;
  out.u = large;
  return true;
}

bool fromValue(PyObject *object, ArgumentScope &scope, nrd_arg &out) {
  ValuePtr value = toValue(object);
  if (!value)
    return false;
  scope->values.push_back(std::shared_ptr<nrd_value>(value.release(), nrd_value_free));
  out.kind = NRD_ARG_VALUE;
  out.v = scope->values.back().get();
  return true;
}

/// The integers of a sequence, at most as many as `out` takes; -1 with an exception set.
int integersOf(PyObject *object, const char *name, int64_t (&out)[NRD_DESCRIPTOR_MAX_RANK]) {
  Ref sequence = Ref::take(PyObject_GetAttrString(object, name));
  Py_ssize_t count = sequence ? PySequence_Size(sequence.get()) : -1;
  if (count > NRD_DESCRIPTOR_MAX_RANK) {
    PyErr_SetString(PyExc_ValueError, "rank cannot be more than 5");
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    Ref item = Ref::take(PySequence_GetItem(sequence.get(), i));
    out[i] = item ? PyLong_AsLongLong(item.get()) : 0;
  }
  return PyErr_Occurred() ? -1 : int(count);
}

/// A TensorDescriptor, ours or one with the same attributes.
bool fromDescriptor(Parameter &parameter, PyObject *object, ArgumentScope &scope, nrd_arg &out) {
  Ref base = Ref::take(PyObject_GetAttrString(object, "base"));
  if (!base || !toArgument(parameter, base.get(), scope, out))
    return false;
  nrd_descriptor desc{};
  int rank = integersOf(object, "shape", desc.shape);
  int strides = rank < 0 ? -1 : integersOf(object, "strides", desc.strides);
  int block = strides < 0 ? -1 : integersOf(object, "block_shape", desc.block);
  if (block < 0)
    return false;
  if (out.kind != NRD_ARG_POINTER || strides != rank || block != rank) {
    PyErr_Format(PyExc_TypeError,
                 "argument `%U`: a descriptor needs a tensor, and one size, stride and block size "
                 "for each dimension, found %R",
                 parameter.name, object);
    return false;
  }
  desc.rank = uint8_t(rank);
  Ref padding = attribute(object, "padding");
  PyErr_Clear();
  desc.pads_nan = padding && textOf(padding.get()) == "nan";
  Ref rounding = attribute(object, "round_f32_to_tf32");
  PyErr_Clear();
  if (int isTrue = rounding ? PyObject_IsTrue(rounding.get()) : 0; isTrue >= 0)
    desc.rounds_tf32 = uint8_t(isTrue);
  else
    return false;
  scope->descriptors.push_back(desc);
  scope->objects.push_back(base);
  out.kind = NRD_ARG_DESCRIPTOR;
  out.descriptor = &scope->descriptors.back();
  return true;
}

bool unsupported(const Parameter &parameter, PyObject *object) {
  std::string type = typeName(reinterpret_cast<PyObject *>(Py_TYPE(object)));
  if (PyType_GetFlags(Py_TYPE(object)) &
      Py_TPFLAGS_HEAPTYPE) // Python's own classes go by their name alone, as in Triton
    type = type.substr(type.rfind('.') + 1);
  if (parameter.pointee) {
    PyErr_Format(PyExc_TypeError,
                 "Pointer argument must be either uint64 or have data_ptr method, found %s "
                 "(argument `%U`)",
                 type.c_str(), parameter.name);
    return false;
  }
  const char *hint = "";
  if (type.rfind("numpy.", 0) == 0)
    hint = "; pass a Python number, `x.item()`";
  else if (PyList_Check(object))
    hint = "; pass a tuple";
  PyErr_Format(PyExc_TypeError, "failed to specialize argument of type: %s (argument `%U`)%s",
               type.c_str(), parameter.name, hint);
  return false;
}

/// Each item is an argument of its own.
bool fromTuple(const Parameter &parameter, PyObject *tuple, ArgumentScope &scope, nrd_arg &out) {
  Py_ssize_t count = PySequence_Size(tuple);
  if (count < 0)
    return false;
  auto &[header, items] = scope->tuples.emplace_back();
  items.resize(size_t(count));
  Parameter item;
  item.name = parameter.name;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Ref object = Ref::take(PySequence_GetItem(tuple, i));
    if (!object)
      return false;
    bool isText = PyUnicode_Check(object.get());
    if (isText ? !fromValue(object.get(), scope, items[i])
               : !toArgument(item, object.get(), scope, items[i]))
      return false;
    scope->objects.push_back(std::move(object)); // a sequence may make its items on demand
  }
  const TupleClass *named = tupleClassOf(tuple);
  header = {items.data(), items.size(), named ? named->fields.data() : nullptr,
            named ? reinterpret_cast<uint64_t>(named->type) : 0, nullptr};
  out.kind = NRD_ARG_TUPLE;
  out.tuple = &header;
  return true;
}

/// Each field is an argument of its own.
bool fromAggregate(const Parameter &parameter, PyObject *object, ArgumentScope &scope,
                   nrd_arg &out) {
  const TupleClass &cls = *fieldsOf(object);
  auto &[header, items] = scope->tuples.emplace_back();
  items.resize(cls.names.size());
  Parameter field;
  field.name = parameter.name;
  for (size_t i = 0; i < items.size(); ++i) {
    Ref value = Ref::take(PyObject_GetAttrString(object, cls.fields[i]));
    if (!value || !toArgument(field, value.get(), scope, items[i]))
      return false;
    scope->objects.push_back(std::move(value));
  }
  header = {items.data(), items.size(), cls.fields.data(), reinterpret_cast<uint64_t>(cls.type),
            cls.title.c_str()};
  out.kind = NRD_ARG_AGGREGATE;
  out.tuple = &header;
  return true;
}

bool constantArgument(Parameter &parameter, PyObject *object, ArgumentScope &scope, nrd_arg &out) {
  if (object == parameter.lastConstant.get()) {
    scope->values.push_back(parameter.lastValue);
    out.kind = NRD_ARG_VALUE;
    out.v = parameter.lastValue.get();
    return true;
  }
  if (!fromValue(object, scope, out))
    return false;
  bool immutable =
      PyUnicode_CheckExact(object) || isKernel(object) ||
      (registry().dtypeClass && PyObject_IsInstance(object, registry().dtypeClass) == 1);
  if (immutable) {
    parameter.lastConstant = Ref::share(object);
    parameter.lastValue = scope->values.back();
  }
  return true;
}

} // namespace

Elements classifyElements(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  if (object == Py_None || type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type ||
      type == &PyUnicode_Type)
    return Elements::None;
  Kind kind = entryOf(object).kind;
  if (kind != Kind::Exchange && kind != Kind::Array)
    return Elements::Unknown;
  plainClass = type;
  return Elements::Plain;
}

/// `tensors`: the object's class, null where it is not kept.
static bool fromExchange(const Parameter &parameter, PyObject *object,
                         const dlpack::ExchangeApi *api, TensorClass *tensors, nrd_arg &out) {
  dlpack::Tensor tensor;
  if (api->tensorFromObject(object, &tensor) == 0) [[likely]] {
    bool ok = fromDlpack(parameter, object, tensor, out);
    if (ok && tensors)
      tensors->learn(object, out, tensor.typeBits);
    return ok;
  }
  PyErr_Clear(); // fake and conjugated tensors have no plain view; data_ptr() says what is wrong
  out.low = out.high = nullptr;
  return fromDuck(parameter, object, out);
}

bool toArgument(Parameter &parameter, PyObject *object, ArgumentScope &scope, nrd_arg &out) {
  PyTypeObject *type = Py_TYPE(object);
  if (const TensorClass *tensors = tensorClassOf(type);
      tensors && !parameter.isConstexpr && tensors->read(object, out))
    return true;
  static_assert(NRD_MEMORY_UNKNOWN == 0 && NRD_VOID == 0 && offsetof(nrd_arg, i) == 8);
  std::memset(&out, 0, 8); // kind, dtype, memory...
  out.low = out.high = nullptr;
  if (object == Py_None) {
    out.kind = NRD_ARG_NONE;
    out.p = nullptr;
    return true;
  }
  if (type == &PyLong_Type && !parameter.pointee) {
    int overflow = 0;
    out.i = PyLong_AsLongLongAndOverflow(object, &overflow);
    out.kind = NRD_ARG_INT;
    if (!overflow || fromInt(object, out)) [[likely]]
      return true;
    if (!parameter.isConstexpr)
      return false;
    PyErr_Clear();
    return fromValue(object, scope, out);
  }
  if (type == &PyFloat_Type) {
    out.kind = NRD_ARG_FLOAT;
    out.f = PyFloat_AsDouble(object);
    return true;
  }
  if (type == &PyBool_Type) {
    out.kind = NRD_ARG_BOOL;
    out.i = object == Py_True;
    return true;
  }
  if (parameter.isConstexpr)
    return constantArgument(parameter, object, scope, out);

  const TypeEntry &entry = entryOf(object);
  switch (entry.kind) {
  case Kind::Exchange:
    return fromExchange(parameter, object, entry.api,
                        &entry == &unkept ? nullptr : addTensorClass(type), out);
  case Kind::Duck:
    return fromDuck(parameter, object, out);
  case Kind::Array: {
    if (fromBuffer(parameter, object, scope, out))
      return true;
    if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_BufferError))
      return false;
    PyErr_Clear();
    return fromArrayInterface(parameter, object, out);
  }
  case Kind::Buffer:
    return fromBufferOrArray(parameter, object, scope, out);
  case Kind::CudaArray:
    return fromCudaArrayInterface(parameter, object, scope, out);
  case Kind::Dlpack:
    return fromDlpackMethod(parameter, object, scope, out);
  case Kind::Int:
    if (parameter.pointee) {
      auto address = PyLong_AsUnsignedLongLong(object);
      return !PyErr_Occurred() && pointerTo(out, *parameter.pointee,
                                            reinterpret_cast<void *>(address), NRD_MEMORY_UNKNOWN);
    }
    return fromInt(object, out);
  case Kind::Float:
    out.kind = NRD_ARG_FLOAT;
    out.f = PyFloat_AsDouble(object);
    return true;
  case Kind::Tuple:
    return fromTuple(parameter, object, scope, out);
  case Kind::Aggregate:
    return fromAggregate(parameter, object, scope, out);
  case Kind::Value:
    return fromValue(object, scope, out);
  case Kind::TorchDtype:
    if (std::optional<nrd_dtype> dtype = dtypeByName(strOf(object)); dtype && scope.warmup)
      return pointerTo(out, *dtype, nullptr, NRD_MEMORY_UNKNOWN);
    return unsupported(parameter, object);
  case Kind::Descriptor:
    return fromDescriptor(parameter, object, scope, out);
  case Kind::Unknown:
    return unsupported(parameter, object);
  }
  return unsupported(parameter, object);
}

PyObject *pointerOf(PyObject *object) {
  // In the order of nrd_dtype.
  static const char *const names[] = {
      "",      "i1",       "i8",      "i16",     "i32",      "i64",  "u8",   "u16",  "u32", "u64",
      "fp8e5", "fp8e5b16", "fp8e4nv", "fp8e4b8", "fp8e4b15", "fp16", "bf16", "fp32", "fp64"};
  static_assert(std::size(names) == NRD_FP64 + 1);
  switch (entryOf(object).kind) {
  case Kind::Exchange:
  case Kind::Duck:
  case Kind::Buffer:
  case Kind::Array:
  case Kind::CudaArray:
  case Kind::Dlpack:
    break;
  default:
    Py_RETURN_NONE;
  }
  Parameter parameter;
  static PyObject *const name = interned("argument");
  parameter.name = name;
  ArgumentScope scope;
  nrd_arg found{};
  return toArgument(parameter, object, scope, found)
             ? Py_BuildValue("(sN)", names[found.dtype], PyLong_FromVoidPtr(found.p))
             : nullptr;
}

PyObject *deviceOfArguments(PyObject *values, const char *target) {
  Parameter parameter;
  static PyObject *const name = interned("argument");
  parameter.name = name;
  ArgumentScope scope;
  std::vector<nrd_arg> found;
  for (Py_ssize_t i = 0; i < PyList_Size(values); ++i) {
    nrd_arg &arg = found.emplace_back();
    if (!toArgument(parameter, PyList_GetItem(values, i), scope, arg)) {
      PyErr_Clear();
      found.pop_back();
    }
  }
  OptionsPtr options(nrd_options_new());
  char *text = nullptr;
  int device = -1;
  nrd_error *error = nullptr;
  if (target) {
    ValuePtr wanted(nrd_value_str(target, std::strlen(target)));
    error = nrd_options_set(options.get(), "target", wanted.get());
  }
  if (!error)
    error = nrd_target_of_arguments(found.data(), found.size(), options.get(), &text, &device);
  if (error)
    return raise(error);
  nrd_string_free(text);
  if (device < 0)
    Py_RETURN_NONE;
  return PyLong_FromLong(device);
}

bool toTypedArgument(Parameter &parameter, PyObject *item, ArgumentScope &scope, nrd_arg &out) {
  out = {};
  if (PyTuple_Check(item)) {
    auto &[header, items] = scope->tuples.emplace_back();
    items.resize(size_t(PyTuple_Size(item)));
    Parameter inner;
    inner.name = parameter.name;
    for (size_t i = 0; i < items.size(); ++i)
      if (!toTypedArgument(inner, PyTuple_GetItem(item, Py_ssize_t(i)), scope, items[i]))
        return false;
    const TupleClass *named = tupleClassOf(item);
    header = {items.data(), items.size(), named ? named->fields.data() : nullptr,
              named ? reinterpret_cast<uint64_t>(named->type) : 0, nullptr};
    out.kind = NRD_ARG_TUPLE;
    out.tuple = &header;
    return true;
  }
  if (PyList_Check(item)) {
    PyObject *constant = PyList_Size(item) == 1 ? PyList_GetItem(item, 0) : Py_None;
    bool isOne = PyLong_CheckExact(constant) && PyLong_AsLong(constant) == 1;
    PyErr_Clear(); // a large integer is not 1
    if (parameter.isConstexpr || constant == Py_None || isOne)
      return toArgument(parameter, constant, scope, out);
    return fromValue(constant, scope, out);
  }
  std::string text = textOf(item);
  size_t colon = text.find(':');
  if (colon != std::string::npos)
    out.divisibility = uint32_t(std::strtoul(text.c_str() + colon + 1, nullptr, 10));
  nrd_value *type = nrd_value_type(text.substr(0, colon).c_str(), nullptr, 0);
  if (!type) {
    PyErr_Format(PyExc_ValueError, "the signature of `%U` expects a type such as `*fp32`, found %R",
                 parameter.name, item);
    return false;
  }
  scope->values.push_back(std::shared_ptr<nrd_value>(type, nrd_value_free));
  out.kind = NRD_ARG_TYPE;
  out.v = type;
  return true;
}

namespace {

bool leavesOf(const char *&layout, PyObject *object, Parameter &parameter, ArgumentScope &scope,
              std::vector<nrd_arg> &leaves) {
  char kind = *layout++;
  if (kind == 'c') {
    leaves.push_back({});
    leaves.back().kind = NRD_ARG_NONE;
    return true;
  }
  if (kind == 'p') {
    leaves.push_back({});
    if (object == Py_None) { // a null pointer
      leaves.back().kind = NRD_ARG_POINTER;
      return true;
    }
    return toArgument(parameter, object, scope, leaves.back());
  }
  const TupleClass *cls = fieldsOf(object);
  Py_ssize_t count = cls ? Py_ssize_t(cls->names.size()) : PySequence_Size(object);
  for (Py_ssize_t i = 0; *layout != ')'; ++i) {
    Ref item = i >= count ? Ref()
               : cls      ? Ref::take(PyObject_GetAttrString(object, cls->fields[size_t(i)]))
                          : Ref::take(PySequence_GetItem(object, i));
    if (!item) {
      if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "a tuple of %zd items was given where the kernel needs more",
                     count);
      return false;
    }
    scope->objects.push_back(item);
    if (!leavesOf(layout, item.get(), parameter, scope, leaves))
      return false;
  }
  ++layout;
  return count >= 0;
}

} // namespace

bool toLeaves(const char *layout, PyObject *args, Py_ssize_t first, ArgumentScope &scope,
              std::vector<nrd_arg> &leaves) {
  static PyObject *name = interned("argument");
  Parameter parameter;
  parameter.name = name;
  Py_ssize_t count = PyTuple_Size(args);
  Py_ssize_t given = count - first;
  for (; *layout; ++first) {
    if (first >= count) {
      PyErr_Format(PyExc_TypeError,
                   "the compiled kernel needs one argument for each parameter of the function, "
                   "constants included: found %zd",
                   given);
      return false;
    }
    if (!leavesOf(layout, PyTuple_GetItem(args, first), parameter, scope, leaves))
      return false;
  }
  if (first == count)
    return true;
  PyErr_Format(PyExc_TypeError,
               "the compiled kernel was given %zd arguments, more than the function has parameters",
               given);
  return false;
}

} // namespace nereid::python
