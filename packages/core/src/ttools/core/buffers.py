"""NumPy arrays as kernel arguments.

Triton's launcher treats an argument as a pointer if it has `data_ptr()` and a `dtype` whose name
Triton knows. A bare array has neither, so it is passed in a wrapper.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ttools.core.errors import UsageError

# NumPy and ml_dtypes types whose names are in Triton's `type_canonicalisation_dict` (in
# `_utils.py`; identical in Triton 3.6 to 3.9).
_NAMES = frozenset(
    (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "bfloat16"),
        *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    )
)


class ArrayBuffer:
    """A NumPy array that Triton accepts as a pointer; the kernel reads and writes the array itself.

    Args:
        array: A writable array or view in this machine's byte order. Triton must support its
            element type, and its strides must be multiples of its item size.

    Raises:
        UsageError: The array does not meet these conditions.
    """

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        problem = _problem(array)
        if problem is not None:
            raise UsageError(f"cannot pass this array to a kernel: {problem}")
        self.array = array

    @property
    def dtype(self) -> Any:
        """Return the torch dtype; Triton confuses NumPy dtypes that have equal hashes."""
        import torch

        return getattr(torch, self.array.dtype.name)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Return the strides in elements, as torch does."""
        return tuple(stride // self.array.itemsize for stride in self.array.strides)

    def stride(self, dimension: int | None = None) -> int | tuple[int, ...]:
        return self.strides if dimension is None else self.strides[dimension]

    def numel(self) -> int:
        return self.array.size

    def element_size(self) -> int:
        return self.array.itemsize

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def storage_extent(self) -> tuple[int, int]:
        """Return the addresses at which the memory of the array begins and ends (exclusive)."""
        whole = self.array
        while isinstance(whole.base, np.ndarray):
            whole = whole.base
        # Where strides are negative, the data pointer is not the lowest address.
        begin = end = int(whole.ctypes.data)
        for size, stride in zip(whole.shape, whole.strides, strict=True):
            if stride < 0:
                begin += (size - 1) * stride
            else:
                end += (size - 1) * stride
        return begin, end + whole.itemsize if whole.size else begin

    def __repr__(self) -> str:
        return f"ArrayBuffer({self.array.dtype}{list(self.array.shape)})"


def as_argument(value: Any) -> Any:
    """Wrap a NumPy array so that a kernel accepts it; return any other value unchanged.

    Arrays in tuples are wrapped, too. `interpret()` and the commands call this function for all
    arguments. Triton without ttools rejects arrays.

    Raises:
        UsageError: Kernels cannot use one of the arrays, for example because it is read-only.

    Examples:
        `kernel[grid](as_argument(x), as_argument(out), x.size, BLOCK=64)` with NumPy arrays.
    """
    if isinstance(value, np.ndarray):
        return ArrayBuffer(value)
    if type(value) is tuple:
        return tuple(map(as_argument, value))
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return type(value)(*map(as_argument, value))
    return value


def _problem(array: np.ndarray[Any, Any]) -> str | None:
    if str(array.dtype) not in _NAMES:
        native = array.dtype.newbyteorder("=")
        if str(native) in _NAMES:
            return (
                f"its byte order differs from this machine's; convert it with .astype('{native}')"
            )
        return f"Triton has no type for {array.dtype}"
    if not array.flags.writeable:
        return "it is read-only, but kernels can write through pointers; pass a writable copy"
    if any(stride % array.itemsize for stride in array.strides):
        return "its strides are not multiples of its item size; pass a copy"
    return None
