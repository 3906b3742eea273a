"""Tensors without memory, with which Triton compiles for a GPU without torch.

Importing torch takes seconds, and a process that only compiles does not need it for anything else.
Fake tensors provide the attributes that Triton reads before it compiles.
"""

from __future__ import annotations

import importlib.abc
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ttools.core.spec import TensorSpec

#: Start address of fake memory, aligned like GPU memory.
_START = 1 << 32


@dataclass(frozen=True)
class ElementType:
    """Mirrors a torch dtype.

    Attributes:
        name: Name of the dtype without the prefix `torch.`.
        itemsize: Size of an element in bytes.
    """

    name: str
    itemsize: int

    def __str__(self) -> str:
        return f"torch.{self.name}"


@dataclass(frozen=True)
class FakeTensor:
    """A GPU tensor without memory; writes to it have no effect.

    Attributes that Triton does not need raise an `AttributeError`.
    """

    spec: TensorSpec
    is_cuda = True

    @property
    def dtype(self) -> ElementType:
        return ElementType(self.spec.dtype, self.spec.itemsize)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def data_ptr(self) -> int:
        """Return an address with the same alignment as the original tensor's address."""
        return _START + self.spec.offset

    def ptr_range(self) -> int | None:
        """Return the size in bytes of the memory behind the tensor; Triton uses it on AMD GPUs."""
        return self.spec.storage_bytes

    def dim(self) -> int:
        return self.ndim

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        return self.spec.strides if dim is None else self.spec.strides[dim]

    def numel(self) -> int:
        return math.prod(self.shape)

    def element_size(self) -> int:
        """Return the number of bytes per element."""
        return self.spec.itemsize

    def storage_offset(self) -> int:
        """Return the offset of the first element in the storage, in elements."""
        return self.spec.element_offset

    def zero_(self) -> FakeTensor:
        """Do nothing, because there is no memory; provided for hooks that reset outputs."""
        return self

    def fill_(self, value: Any) -> FakeTensor:
        """Do nothing, see `zero_`."""
        return self

    def __len__(self) -> int:
        return self.shape[0]


class _NoTorch(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> None:
        """Raise an error if torch is imported; leave all other modules to the next finders."""
        if fullname == "torch":
            raise ModuleNotFoundError("torch is not imported where tensors are fake")


@contextmanager
def without_torch() -> Iterator[None]:
    """Prevent imports of torch, which Triton 3.6 would import unnecessarily for its tensor type."""
    finder = _NoTorch()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
