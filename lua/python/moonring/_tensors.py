"""Tensors between Python and Moonring, by DLPack (without copying)."""

from __future__ import annotations

import array
import ctypes
import operator
import struct
from collections.abc import Iterable
from ctypes import (
    POINTER,
    c_char_p,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

_CPU, _CUDA = 1, 2


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, c_void_p)


class _DLManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", _DLTensor), ("context", c_void_p), ("deleter", c_void_p)]


class _DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _DLTensor),
    ]


_python = ctypes.pythonapi
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = [c_void_p, c_char_p, c_void_p]
_python.PyCapsule_GetPointer.restype = c_void_p
_python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, c_char_p]
_python.PyCapsule_SetName.argtypes = [ctypes.py_object, c_char_p]

# The same function, by the capsule's address: a destructor must not take a reference to its
# capsule.
_names = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, c_char_p)(
    ctypes.cast(_python.PyCapsule_IsValid, c_void_p).value
)
_pointer = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(
    ctypes.cast(_python.PyCapsule_GetPointer, c_void_p).value
)
# Capsules store these pointers, so the objects live as long as the module.
_NEW, _USED, _VERSIONED = b"dltensor", b"used_dltensor", b"dltensor_versioned"


def _delete(address: int, kind: type = _DLManagedTensor) -> None:
    deleter = kind.from_address(address).deleter
    if deleter:
        _Deleter(deleter)(address)


# What was handed to others and not given back: keeps the struct and what it points to.
_exports: dict[int, tuple] = {}


@_Deleter
def _drop_export(address: int, exports: dict[int, tuple] = _exports) -> None:
    exports.pop(address, None)


@ctypes.PYFUNCTYPE(None, c_void_p)
def _drop_capsule(
    capsule: int,
    names=_names,
    pointer=_pointer,
    delete=_delete,
    kinds=((_NEW, _DLManagedTensor), (_VERSIONED, _DLManagedTensorVersioned)),
) -> None:
    """Destructor of a capsule: deletes the tensor unless a consumer took it over."""
    for name, kind in kinds:
        if names(capsule, name):
            delete(pointer(capsule, name), kind)


# Others may call these after the module's end, so they are never freed.
for _callback in (_drop_export, _drop_capsule):
    _python.Py_IncRef(ctypes.py_object(_callback))


def _export(tensor: _DLTensor, owner: Any, kind: type = _DLManagedTensor) -> int:
    """Makes a struct of DLPack with the same data; `owner` is kept until its deleter is called."""
    shape = (c_int64 * tensor.ndim)(*tensor.shape[: tensor.ndim])
    managed = kind(tensor=tensor, deleter=ctypes.cast(_drop_export, c_void_p).value)
    if kind is _DLManagedTensorVersioned:
        managed.major = 1
    managed.tensor.shape = ctypes.cast(shape, POINTER(c_int64))
    strides = None
    if tensor.strides:
        strides = (c_int64 * tensor.ndim)(*tensor.strides[: tensor.ndim])
        managed.tensor.strides = ctypes.cast(strides, POINTER(c_int64))
    address = ctypes.addressof(managed)
    _exports[address] = (managed, shape, strides, owner)
    return address


_NAMES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_FORMATS = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
    "bool": "?",
}


class Tensor:
    """A tensor that Moonring returned. It has no operators: `torch.from_dlpack(tensor)` and
    `numpy.from_dlpack(tensor)` make it a tensor or an array with the same memory, and `tolist()`
    nested lists.
    """

    def __init__(self, address: int) -> None:
        """Takes over a DLManagedTensor. For this package."""
        self._address = address
        self._tensor = _DLManagedTensor.from_address(address).tensor

    def __del__(self, delete=_delete) -> None:
        address, self._address = getattr(self, "_address", 0), 0
        if address:
            delete(address)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._tensor.shape[: self._tensor.ndim])

    @property
    def dtype(self) -> str:
        """Such as "float32", "int64", "bfloat16"."""
        name = _NAMES.get(self._tensor.code, "opaque")
        return name if name == "bool" else f"{name}{self._tensor.bits}"

    def __repr__(self) -> str:
        return f"moonring.Tensor(shape={self.shape}, dtype={self.dtype})"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without dims")
        return self.shape[0]

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._tensor.device_type, self._tensor.device_id

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None) -> Any:
        """A capsule: "dltensor_versioned" (DLPack 1) if max_version says that the caller knows it,
        otherwise "dltensor". Only for the tensor's own device, and without a copy. `stream` has
        no effect: the values of a result are ready on every stream when the call that made it
        returns."""
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"a copy to device {dl_device} is not supported")
        if copy:
            raise BufferError("a copy is not supported: copy the array that from_dlpack makes")
        name, kind = _NEW, _DLManagedTensor
        if max_version is not None and max_version[0] >= 1:
            name, kind = _VERSIONED, _DLManagedTensorVersioned
        address = _export(self._tensor, self, kind)
        return _python.PyCapsule_New(address, name, ctypes.cast(_drop_capsule, c_void_p).value)

    def tolist(self) -> Any:
        """The values as nested lists, one level for each dim; a number if there are no dims."""
        tensor, shape, kind = self._tensor, self.shape, self.dtype
        other = "use torch.from_dlpack(tensor).tolist()"
        if tensor.device_type != _CPU:
            raise TypeError(f"tolist: the tensor is on a GPU; {other}")
        if kind not in _FORMATS and kind != "bfloat16":
            raise TypeError(f"tolist: {kind} is not supported; {other}")
        strides, step = [0] * len(shape), 1
        for dim in reversed(range(len(shape))):
            strides[dim] = tensor.strides[dim] if tensor.strides else step
            step *= shape[dim]
        size = tensor.bits // 8
        base = (tensor.data or 0) + tensor.byte_offset

        def value(place: int) -> Any:
            data = ctypes.string_at(base + place * size, size)
            if kind == "bfloat16":
                return struct.unpack("<f", b"\0\0" + data)[0]
            return struct.unpack("<" + _FORMATS[kind], data)[0]

        def values(dim: int, place: int) -> Any:
            if dim == len(shape):
                return value(place)
            if dim == len(shape) - 1 and strides[dim] == 1 and kind != "bfloat16" and shape[dim]:
                data = ctypes.string_at(base + place * size, shape[dim] * size)
                return list(struct.unpack(f"<{shape[dim]}{_FORMATS[kind]}", data))
            return [values(dim + 1, place + i * strides[dim]) for i in range(shape[dim])]

        return values(0, 0)


def of_integers(numbers: list[int]) -> Tensor:
    """Makes an int64 tensor [len(numbers)]."""
    data = array.array("q", numbers)
    shape = (c_int64 * 1)(len(numbers))
    tensor = _DLTensor(
        data=data.buffer_info()[0],
        device_type=_CPU,
        ndim=1,
        code=0,
        bits=64,
        lanes=1,
        shape=ctypes.cast(shape, POINTER(c_int64)),
    )
    return Tensor(_export(tensor, (data, shape)))


def take(source: Any) -> int:
    """Takes over the DLManagedTensor of an object with __dlpack__ and returns its address; whoever
    gets it must call its deleter."""
    how: dict[str, Any] = {}
    if source.__dlpack_device__()[0] == _CUDA:
        how["stream"] = 1  # the legacy default stream, which Moonring uses
    try:
        capsule = source.__dlpack__(**how)
    except BufferError:  # an array that must not be written to
        if not hasattr(source, "copy"):
            raise
        capsule = source.copy().__dlpack__(**how)
    address = _python.PyCapsule_GetPointer(capsule, _NEW)
    _python.PyCapsule_SetName(capsule, _USED)
    return address


def shape_of(address: int) -> tuple[int, ...]:
    tensor = _DLManagedTensor.from_address(address).tensor
    return tuple(tensor.shape[: tensor.ndim])


def release(address: int) -> None:
    """Calls the deleter of a tensor that `take` returned, if it goes to nobody else."""
    _delete(address)


def is_tensor(value: Any) -> bool:
    return hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__")


def integers(values: Iterable[Any], name: str) -> list[int]:
    """Token ids as Python's integers; accepts numpy's and tensors without dims."""
    found = []
    for i, value in enumerate(values):
        try:
            found.append(operator.index(value))
        except TypeError:
            raise TypeError(f"{name}[{i}]: expected a token id, got {value!r}") from None
    for i, value in enumerate(found):
        if not 0 <= value < 2**31:
            raise ValueError(f"{name}[{i}]: expected a token id, got {value}")
    return found
