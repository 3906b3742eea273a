"""Eager values, and their element types: the MLIR type, NumPy's dtype, the pointee of pointers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from ttools.core import triton_versions
from ttools.core.lazy_values import once
from ttools.ir.numpy_types import numpy_type

_POINTER = re.compile(r"!tt\.ptr<(.*?)(?:, \d+)?>")
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(.+)>")


@dataclass(frozen=True)
class Element:
    """The type of an element.

    Attributes:
        text: MLIR text of the type.
        dtype: NumPy type of the elements; integers are signed, pointers are addresses.
    """

    text: str
    dtype: np.dtype[Any]
    pointee: Element | None = None

    @property
    def is_pointer(self) -> bool:
        return self.pointee is not None

    @property
    def is_integer(self) -> bool:
        """True for integers, including i1."""
        return self.text[0] == "i"

    @property
    def size(self) -> int:
        """The size of an element in bytes."""
        return self.dtype.itemsize


@once
def context() -> Any:
    """Return the MLIR context of all types of eager values."""
    return triton_versions.mlir_context()


@lru_cache(maxsize=256)
def element(text: str) -> Element:
    """Return the element type that MLIR writes as `text`.

    Raises:
        KeyError: Eager values cannot have this type.
    """
    match = _POINTER.fullmatch(text)
    if match is not None:
        return Element(text, np.dtype(np.int64), element(match[1]))
    kind = numpy_type(text)
    if kind is None:
        raise KeyError(text)
    return Element(text, kind)


@lru_cache(maxsize=1024)
def split_type(text: str) -> tuple[Element, tuple[int, ...] | None]:
    """Return the element type and the shape of an MLIR type; the shape is None for scalars."""
    match = _TENSOR.fullmatch(text)
    if match is None:
        return element(text), None
    return element(match[2]), tuple(int(n) for n in match[1].split("x")[:-1])


class Shadow(Protocol):
    """A value that an observer of operations associates with the value of a handle."""

    def at(self, index: Any) -> Shadow:
        """Return the part of the shadow for the elements that a NumPy index selects."""


class Handle:
    """The value of a `tl.tensor`, which in the compiler is an MLIR value.

    Attributes:
        data: Elements of the value; an array without dimensions for a scalar.
        origin: Name of the kernel's argument that a pointer was computed from, if known.
        factors: Operands of the product that computed the value, and the iteration in which it was
            computed. A sum in the same iteration may use them for a fused multiply-add.
        shadow: What an `OperationObserver` has recorded about the value; None without an observer.
        is_grouped: True if the first axis of `data` numbers the programs of a group; see `groups`.
    """

    __slots__ = ("data", "element", "factors", "is_grouped", "origin", "shadow")

    def __init__(
        self, data: np.ndarray[Any, Any], element: Element, origin: str | None = None
    ) -> None:
        self.data = data
        self.element = element
        self.origin = origin
        self.factors: tuple[Handle, Handle, object] | None = None
        self.shadow: Shadow | None = None
        self.is_grouped = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value in one program."""
        shape: tuple[int, ...] = self.data.shape
        return shape[1:] if self.is_grouped else shape

    def with_data(self, data: Any) -> Handle:
        """Return a handle with the same element type and origin, but other data."""
        return Handle(np.asarray(data), self.element, self.origin)

    def at(self, index: Any) -> Handle:
        """Return the elements that a NumPy index selects, with their part of the shadow."""
        selected = self.with_data(self.data[index])
        if self.shadow is not None:
            selected.shadow = self.shadow.at(index)
        return selected

    # Methods of an MLIR value that the semantic layer calls. Hints and locations have no effect.

    def set_attr(self, name: str, value: object) -> None:
        """Ignore a hint (`tl.multiple_of` and the like)."""

    def get_context(self) -> Any:
        """Return the MLIR context in which hints are created."""
        return context()

    def set_loc(self, location: object) -> None:
        """Ignore a location, because the Python frame has the location."""

    def get_loc(self) -> None:
        """Return None, because values have no location."""
