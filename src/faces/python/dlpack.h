// The part of DLPack's binary interface (version 1.3) that is read here: dmlc.github.io/dlpack.
#pragma once

#include <cstdint>

namespace nereid::python::dlpack {

enum DeviceType : int32_t { Cpu = 1, Cuda = 2, CudaHost = 3, CudaManaged = 13 };

enum TypeCode : uint8_t {
  Int = 0,
  UInt = 1,
  Float = 2,
  BFloat = 4,
  Bool = 6,
  Float8E4M3FN = 10,
  Float8E4M3FNUZ = 11,
  Float8E5M2 = 12,
  Float8E5M2FNUZ = 13
};

struct Tensor {
  void *data;
  int32_t deviceType, deviceId;
  int32_t rank;
  uint8_t typeCode, typeBits;
  uint16_t lanes;
  int64_t *shape;
  int64_t *strides; ///< in elements; null for a compact tensor
  uint64_t byteOffset;
};

struct ManagedTensor {
  Tensor tensor;
  void *managerContext;
  void (*deleter)(ManagedTensor *);
};

/// Since version 1.0, where it is asked for.
struct VersionedTensor {
  uint32_t major, minor;
  void *managerContext;
  void (*deleter)(VersionedTensor *);
  uint64_t flags;
  Tensor tensor;
};

enum Flag : uint64_t { ReadOnly = 1 };

/// What the capsule `__dlpack_c_exchange_api__` of a tensor type points to.
struct ExchangeApi {
  uint32_t major, minor;
  ExchangeApi *previous;
  void *allocate, *managedFromObject, *managedToObject;
  int (*tensorFromObject)(void *object, Tensor *out); ///< may be null; borrows the object's data
  int (*currentStream)(int32_t deviceType, int32_t deviceId, void **out);
};

} // namespace nereid::python::dlpack
