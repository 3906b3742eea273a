"""The content of a record: launches as data, and the memory that they share.

Memory is recorded by storage, so that views and aliases are preserved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ttools.core.spec import LaunchSpec

Bytes = NDArray[np.uint8]

#: A replay allocates each storage at an address that is congruent to the recorded address modulo
#: this number.
PLACE_BYTES = 256


@dataclass(frozen=True, kw_only=True)
class Filling:
    """Generated numbers that replace a storage's content.

    Attributes:
        kind: `normal` for a normal distribution with mean `first` and standard deviation `second`,
            `uniform` for random integers from `first` to `second`, `constant` for the value
            `first`.
        dtype: Element type, by its name in torch without the module.
        first, second: Parameters of the distribution.
    """

    kind: Literal["normal", "uniform", "constant"]
    dtype: str
    first: float
    second: float = 0.0
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Storage:
    """A block of memory of which tensors are views.

    Attributes:
        size: Size of the storage in bytes.
        place: Address modulo `PLACE_BYTES`, because kernels are specialised for the alignment of
            addresses.
        data: Content before the launch; None if it is not recorded.
        filling: If the content is not recorded, describes the generated numbers that replace it.
    """

    size: int
    place: int
    data: Bytes | None = None
    filling: Filling | None = None


@dataclass(frozen=True, kw_only=True)
class LaunchRecord:
    """A recorded launch: its `LaunchSpec`, and what is needed to repeat it without its program.

    Attributes:
        spec: The launch. The storage of each tensor is an index into `Record.storages`.
        ttir: Text of the module after the interpreter's front end.
        specialisation: Description of each source parameter's specialisation.
        has_options: True if the numbers of warps, blocks and stages are recorded; earlier versions
            of ttools recorded only `fp_fusion` and `debug`.
    """

    spec: LaunchSpec
    ttir: str
    specialisation: Mapping[str, str] = field(default_factory=dict)
    has_options: bool = True


@dataclass(frozen=True, kw_only=True)
class Excerpt:
    """The recorded lines of a source file.

    Attributes:
        file: Path on the recording machine.
        lines: Text by 1-based line number, without line ends.
    """

    file: str
    lines: Mapping[int, str]


@dataclass(frozen=True, kw_only=True)
class Record:
    """The content of a record file.

    Attributes:
        storages: The memory before each launch; every launch has its own storages in this list.
        made_by: Versions of the recording programs, and the device.
    """

    launches: Sequence[LaunchRecord]
    storages: Sequence[Storage]
    excerpts: Sequence[Excerpt] = ()
    made_by: Mapping[str, str] = field(default_factory=dict)
