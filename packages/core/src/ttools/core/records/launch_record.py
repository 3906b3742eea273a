"""What a record says of launches, as plain data: kernels, arguments, the memory they share.

Memory is recorded by storage, so that views and aliases survive. Owns no bytes of files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

#: Addresses of storages are made again up to a multiple of this.
PLACE_BYTES = 256


@dataclass(frozen=True, kw_only=True)
class Filling:
    """Numbers in the place of a storage's own contents.

    Attributes:
        kind: `normal` has mean `first` and standard deviation `second`; `uniform` are whole
            numbers from `first` to `second`; `constant` is `first`.
        dtype: of an element, as torch names it without the module.
        first, second: see `kind`.
    """

    kind: Literal["normal", "uniform", "constant"]
    dtype: str
    first: float
    second: float = 0.0
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Storage:
    """A piece of memory that tensors are views of.

    Attributes:
        size: in bytes.
        place: its address modulo `PLACE_BYTES`; kernels are specialised for such divisors.
        data: the contents before the launch; None if they are not recorded.
        filling: what to take instead.
    """

    size: int
    place: int
    data: Bytes | None = None
    filling: Filling | None = None


@dataclass(frozen=True, kw_only=True)
class TensorArgument:
    """A tensor as a view of a storage.

    Attributes:
        storage: which of the record's.
        offset: of its first element, in bytes.
        strides: in elements.
        dtype: of an element, as torch names it without the module.
        itemsize: bytes of an element.
    """

    storage: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    itemsize: int


#: A number, a tensor, or None for a null pointer.
Value = int | float | bool | TensorArgument | None


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of the compiled kernel with its argument.

    Attributes:
        name: as in the source; parts of tuples are `name[0]`.
        type: Triton's: `*fp32`, `i32`.
    """

    name: str
    type: str
    value: Value


@dataclass(frozen=True, kw_only=True)
class LaunchRecord:
    """A launch.

    Attributes:
        ttir: text of its module, as the interpreter's front end leaves it.
        parameters: in order, without constants.
        specialisation: for each parameter of the source how it was compiled, as text.
        fp_fusion: whether a product and a sum may be one operation.
        debug: whether `device_assert` does something.
        host_line: `file:line` of the launch.
        config: of the autotuner, if one made the launch.
    """

    kernel: str
    ttir: str
    grid: tuple[int, int, int]
    parameters: tuple[Parameter, ...]
    specialisation: Mapping[str, str] = field(default_factory=dict)
    fp_fusion: bool = True
    debug: bool = False
    host_line: str | None = None
    config: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Excerpt:
    """Lines of a file that launches' locations refer to.

    Attributes:
        file: its path where it was recorded.
        lines: text by 1-based number, without line ends.
    """

    file: str
    lines: Mapping[int, str]


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a file holds.

    Attributes:
        storages: the memory before each launch; a launch names its own.
        made_by: versions of the programs that made it, and the device.
    """

    launches: Sequence[LaunchRecord]
    storages: Sequence[Storage]
    excerpts: Sequence[Excerpt] = ()
    made_by: Mapping[str, str] = field(default_factory=dict)
