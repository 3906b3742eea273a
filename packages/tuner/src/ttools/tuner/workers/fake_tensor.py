"""Tensors without memory: what Triton asks of a tensor before it compiles for a GPU, without torch.

Importing torch takes seconds, and a process that only compiles has no other use for it. Owns what
fake tensors say of themselves, and how torch is kept away meanwhile. Must not know what is
compiled.
"""

from __future__ import annotations

import importlib.abc
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

#: Where fake memory begins: aligned as that of GPUs is.
_START = 1 << 32


@dataclass(frozen=True)
class ElementType:
    """A dtype of torch's by name.

    Attributes:
        name: without `torch.`.
        itemsize: bytes of an element.
    """

    name: str
    itemsize: int

    def __str__(self) -> str:
        return f"torch.{self.name}"


@dataclass(frozen=True)
class FakeStorage:
    """A storage of so many bytes, which are nowhere."""

    size: int


@dataclass(frozen=True, kw_only=True)
class FakeTensor:
    """A tensor of a GPU; what is written to it is not kept.

    Whoever asks for more than Triton does meets an `AttributeError`.

    Attributes:
        strides: in elements.
        offset: of its first element in the storage.
    """

    storage: FakeStorage
    dtype: ElementType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    is_cuda = True

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def data_ptr(self) -> int:
        """An address with the alignment of the original."""
        return _START + self.offset * self.dtype.itemsize

    def ptr_range(self) -> int:
        """Bytes that pointers into it may reach, as Triton asks for AMD's GPUs."""
        return self.storage.size

    def dim(self) -> int:
        return self.ndim

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        return self.strides if dim is None else self.strides[dim]

    def numel(self) -> int:
        return math.prod(self.shape)

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def storage_offset(self) -> int:
        """The offset of its first element, in elements."""
        return self.offset

    def zero_(self) -> FakeTensor:
        """Does nothing, as there is nothing to write to; hooks do this."""
        return self

    def fill_(self, value: Any) -> FakeTensor:
        """Does nothing."""
        return self

    def __len__(self) -> int:
        return self.shape[0]


class _NoTorch(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> None:
        """Refuses torch, and leaves all else to other finders."""
        if fullname == "torch":
            raise ModuleNotFoundError("torch is not imported where tensors are fake")


@contextmanager
def without_torch() -> Iterator[None]:
    """Keeps torch from being imported; Triton 3.6 would for its type of tensors, and need not."""
    finder = _NoTorch()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
