"""Objects that give their memory away by DLPack, made by its C layout (dmlc.github.io/dlpack), so that a test can say anything in them."""

import ctypes

CPU, CUDA = 1, 2
FLOAT = 2


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32), ("rank", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64)]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64),
                ("tensor", _Tensor)]


# Not `ctypes.pythonapi.PyCapsule_New`, whose types are those that any other module gave it last.
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", ctypes.pythonapi))


class Vector:
    """`count` fp32 elements at an address.

    version: (major, minor) of DLPack that the object knows; None: of before version 1, whose `__dlpack__` takes no `max_version`.
    """

    def __init__(self, address, count, device=(CPU, 0), version=None, read_only=False):
        self._shape = (ctypes.c_int64 * 1)(count)
        tensor = _Tensor(address, *device, 1, FLOAT, 32, 1, self._shape, None, 0)
        self._version = version
        self._managed = _Managed(tensor, None, None) if version is None else _Versioned(*version, None, None, int(read_only), tensor)
        self.asked = []

    def __dlpack__(self, **keywords):
        self.asked.append(keywords)
        if self._version is None:
            if keywords:
                raise TypeError("__dlpack__() got an unexpected keyword argument")
            return _new(ctypes.addressof(self._managed), b"dltensor", None)
        return _new(ctypes.addressof(self._managed), b"dltensor_versioned", None)

    def __dlpack_device__(self):
        return self._managed.tensor.device_type, self._managed.tensor.device
