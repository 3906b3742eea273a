"""The contents of a record of launches: launches as data, and the memory that they share.

Memory is recorded by storage, so that views and aliases survive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ttools.core.spec import LaunchSpec

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
class LaunchRecord:
    """A launch that was recorded: its `LaunchSpec`, and what makes it again without its program.

    Attributes:
        spec: The launch. Storages of its tensors are indices into `Record.storages`; of its
            options, only `fp_fusion` and `debug` are recorded.
        ttir: Text of its module, as the interpreter's front end leaves it.
        specialisation: How each parameter of the source was compiled, as text.
    """

    spec: LaunchSpec
    ttir: str
    specialisation: Mapping[str, str] = field(default_factory=dict)


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
