"""The JSON document of a record, as msgspec types that check the values."""

from __future__ import annotations

import math
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from ttools.core.records import container
from ttools.core.records.launch_record import PLACE_BYTES
from ttools.core.spec import TensorSpec

FORMAT: Literal["ttools.record"] = "ttools.record"
VERSION: Literal[1] = 1

_INT64 = 2**63
_LONGEST_NAME = 1000
_LAST_LINE = 1_000_000
_PARTS = Meta(max_length=container.MOST_PARTS)

_Natural = Annotated[int, Meta(ge=0, le=_INT64 - 1)]
_Extent = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Line = tuple[Annotated[int, Meta(ge=1, le=_LAST_LINE)], Annotated[str, Meta(max_length=10_000)]]


def real(text: str) -> float:
    """Parse a hexadecimal floating-point number, which is exact and allows infinities.

    Raises:
        ValueError: The text is not such a number.
    """
    try:
        return float.fromhex(text)
    except (ValueError, OverflowError):
        raise ValueError("Expected a number in hexadecimal") from None


def is_line(text: str) -> bool:
    """Return whether a string is short and printable, so that a terminal shows it on one line."""
    return len(text) <= _LONGEST_NAME and text.isprintable()


class Shown(Struct, frozen=True):
    """Base class of objects whose strings are shown in a terminal and must be printable lines."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            for text in (*value, *value.values()) if isinstance(value, dict) else (value,):
                if isinstance(text, str) and not is_line(text):
                    raise ValueError(f"Expected a line of text in `{name}`")


class Filling(Shown, frozen=True):
    """A `launch_record.Filling` as stored in the file."""

    kind: Literal["normal", "uniform", "constant"]
    dtype: str
    first: str
    second: str
    seed: _Natural

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(real(self.first)) and math.isfinite(real(self.second))):
            raise ValueError("Expected `first` and `second` to be finite")


class Storage(Shown, frozen=True):
    """A `launch_record.Storage` as stored in the file; `data` names the part with the content."""

    size: Annotated[int, Meta(ge=0, le=container.LARGEST_RECORD)]
    place: Annotated[int, Meta(ge=0, le=PLACE_BYTES - 1)]
    data: str | None
    filling: Filling | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.data is None) == (self.filling is None):
            raise ValueError("Expected either `data` or a `filling`")


class Null(Struct, tag_field="kind", tag="null", frozen=True):
    """A null pointer."""


class Bool(Struct, tag_field="kind", tag="bool", frozen=True):
    """A Boolean value."""

    number: bool


class Int(Struct, tag_field="kind", tag="int", frozen=True):
    """A 64-bit integer, signed or unsigned."""

    number: int

    def __post_init__(self) -> None:
        if not -_INT64 <= self.number < 2 * _INT64:
            raise ValueError("Expected an integer of 64 bits")


class Float(Struct, tag_field="kind", tag="float", frozen=True):
    """A floating-point number, see `real`."""

    number: str

    def __post_init__(self) -> None:
        real(self.number)


Value: TypeAlias = Null | Bool | Int | Float | TensorSpec


class Parameter(Shown, frozen=True):
    """An `ArgumentSpec` as stored; numbers are typed, because JSON cannot represent infinities."""

    name: str
    type: str
    value: Value

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.value, (Null, TensorSpec)) != self.type.startswith("*"):
            raise ValueError(f"Expected a value of type {self.type}")


class Entry(Shown, frozen=True, omit_defaults=True):
    """A `LaunchRecord` as stored in the file, with the fields of its spec inlined.

    Attributes:
        ttir: Name of the part that contains the module.
        num_warps: Warps per program. This and the following options are None in records that were
            written by versions of ttools which did not save them.
        num_ctas: Thread blocks per program.
        num_stages: Stages of pipelined loops.
    """

    kernel: str
    ttir: str
    grid: tuple[_Extent, _Extent, _Extent]
    parameters: Annotated[tuple[Parameter, ...], _PARTS]
    specialisation: dict[str, str]
    fp_fusion: bool
    debug: bool
    host_line: str | None
    config: dict[str, bool | int | str] | None
    num_warps: Annotated[int, Meta(ge=1, le=1024)] | None = None
    num_ctas: Annotated[int, Meta(ge=1, le=1024)] | None = None
    num_stages: Annotated[int, Meta(ge=0, le=1024)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if math.prod(self.grid) >= _INT64:
            raise ValueError("Expected fewer programs in `grid`")


class Excerpt(Shown, frozen=True):
    """A `launch_record.Excerpt` as stored; its lines are made printable when they are read."""

    file: str
    lines: Annotated[tuple[_Line, ...], Meta(max_length=_LAST_LINE)]


class Document(Shown, frozen=True, kw_only=True):
    """A `launch_record.Record` as stored in the file."""

    format: Literal["ttools.record"] = FORMAT
    version: Literal[1] = VERSION
    made_by: dict[str, str]
    launches: Annotated[tuple[Entry, ...], _PARTS]
    storages: Annotated[tuple[Storage, ...], _PARTS]
    excerpts: Annotated[tuple[Excerpt, ...], _PARTS]
