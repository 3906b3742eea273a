"""NumPy arrays as kernel arguments.

Triton's launcher takes an argument for a pointer if it has `data_ptr()` and a `dtype` whose name it
knows, which a bare array has not. Owns that wrapper; must not know how kernels are launched.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ttools.core.errors import UsageError

# The names of NumPy and ml_dtypes types that Triton's `type_canonicalisation_dict` (_utils.py, the
# same from 3.6 to 3.9) has too.
_NAMES = frozenset(
    (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "bfloat16"),
        *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    )
)


class ArrayBuffer:
    """An array that Triton takes for a pointer; the kernel reads and writes the array itself.

    Args:
        array: Of a type that Triton has, in this machine's byte order, writable, with strides that
            are multiples of its item size; views are as good as whole arrays.

    Attributes:
        array: The array.

    Raises:
        UsageError: The array is none of that.
    """

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        problem = _problem(array)
        if problem is not None:
            raise UsageError(f"cannot pass this array to a kernel: {problem}")
        self.array = array

    @property
    def dtype(self) -> Any:
        """The type of an element, as torch's: Triton confuses NumPy's of the same hash."""
        import torch

        return getattr(torch, self.array.dtype.name)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """The distance of neighbours along each dimension, in elements as in torch."""
        return tuple(stride // self.array.itemsize for stride in self.array.strides)

    def stride(self, dimension: int | None = None) -> int | tuple[int, ...]:
        return self.strides if dimension is None else self.strides[dimension]

    def numel(self) -> int:
        return self.array.size

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.array.itemsize

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self.array.ctypes.data)

    def storage_extent(self) -> tuple[int, int]:
        """The addresses, begin and end, of the whole memory that the array is a view of."""
        whole = self.array
        while isinstance(whole.base, np.ndarray):
            whole = whole.base
        # Of a base with negative strides, too, this is its lowest byte and one past its highest.
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
    """What to pass to a kernel for `value`: an array in a wrapper, anything else as it is.

    Arrays in tuples are wrapped, too. Under `interpret()` and the commands this is done for you;
    Triton by itself refuses arrays.

    Raises:
        UsageError: An array that no kernel can take.

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
            return f"its byte order is not this machine's; convert it with .astype('{native}')"
        return f"Triton has no type for {array.dtype}"
    if not array.flags.writeable:
        return "it is read-only, and a kernel's pointers can be written through; pass a copy"
    if any(stride % array.itemsize for stride in array.strides):
        return "its strides are not multiples of its item size; pass a copy"
    return None
