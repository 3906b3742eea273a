"""Reads a record from a file that nobody vouches for.

Every field is looked at before it is used: its type, its range, and whether what it says fits the
rest. What does not is told by its place in the document. `writing` is the counterpart.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from ttools.core.errors import UsageError
from ttools.core.records import container
from ttools.core.records.container import Parts, damaged, printable
from ttools.core.records.launch_record import (
    PLACE_BYTES,
    Excerpt,
    Filling,
    LaunchRecord,
    Parameter,
    Record,
    Storage,
    TensorArgument,
    Value,
)
from ttools.core.records.writing import FORMAT, VERSION

T = TypeVar("T")

_LONGEST_NAME = 1000
_LONGEST_LINE = 10_000
_LAST_LINE = 1_000_000
_MOST_LINES = 2_000_000
_MOST_DIMENSIONS = 64
_LAST_PROGRAM = 2**31 - 1
_INT64 = 2**63
#: What a terminal would obey, as such or as MLIR writes it in strings; a kernel may print.
_UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f]|\\(?:0[0-8B-F]|1[0-9A-F]|7F|C2\\[89][0-9A-F])", re.IGNORECASE
)
_FILLINGS = ("normal", "uniform", "constant")
_ITEMSIZES = (1, 2, 4, 8)


class Fields:
    """An object of the document, and where it stands.

    Args:
        value: what was found there.
        path: the file.
        place: of the object, as `launches[0].parameters[2]`.
    """

    def __init__(self, value: object, path: str, place: str) -> None:
        self.path, self.place = path, place
        if not isinstance(value, dict):
            raise self.wrong("", "must be an object")
        self._values: dict[str, Any] = value

    def wrong(self, name: str, what: str) -> UsageError:
        """The error about a field."""
        place = ".".join(filter(None, (self.place, name))) or "the document"
        return damaged(self.path, f"{printable(place)} {what}")

    def get(self, name: str) -> Any:
        """A field, whatever it is."""
        if name not in self._values:
            raise self.wrong(name, "is missing")
        return self._values[name]

    def text(self, name: str, most: int = _LONGEST_NAME) -> str:
        """A text that can be shown."""
        value = self.get(name)
        if not isinstance(value, str) or len(value) > most or not value.isprintable():
            raise self.wrong(name, "must be a line of text")
        return value

    def one_of(self, name: str, choices: tuple[str, ...]) -> str:
        """One of some words."""
        value = self.get(name)
        if not isinstance(value, str) or value not in choices:
            raise self.wrong(name, f"must be one of {', '.join(choices)}")
        return value

    def number(self, name: str, least: int, most: int) -> int:
        """A whole number of a range, both ends included."""
        return self.checked(name, self.get(name), least, most)

    def checked(self, name: str, value: object, least: int, most: int) -> int:
        """The same of a value that was found in a field."""
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.wrong(name, f"must be a whole number from {least:,} to {most:,}")
        return value

    def numbers(self, name: str, most: int, least: int, largest: int) -> tuple[int, ...]:
        """Up to `most` whole numbers."""
        values = self.list(name, most)
        return tuple(self.checked(name, value, least, largest) for value in values)

    def real(self, name: str) -> float:
        """A floating-point number, written in hexadecimal."""
        value = self.get(name)
        try:
            return float.fromhex(value)
        except (TypeError, ValueError, OverflowError):
            raise self.wrong(name, "must be a number in hexadecimal") from None

    def flag(self, name: str) -> bool:
        """A truth value."""
        value = self.get(name)
        if not isinstance(value, bool):
            raise self.wrong(name, "must be true or false")
        return value

    def list(self, name: str, most: int = container.MOST_PARTS) -> list[Any]:
        """A list of limited length."""
        value = self.get(name)
        if not isinstance(value, list) or len(value) > most:
            raise self.wrong(name, f"must be a list of up to {most:,}")
        return value

    def objects(self, name: str, read: Callable[[Fields], T]) -> tuple[T, ...]:
        """A list of objects."""
        found = self.list(name)
        place = ".".join(filter(None, (self.place, name)))
        return tuple(
            read(Fields(value, self.path, f"{place}[{n}]")) for n, value in enumerate(found)
        )

    def object(self, name: str) -> Fields:
        """An object."""
        return Fields(self.get(name), self.path, ".".join(filter(None, (self.place, name))))

    def texts(self, name: str) -> dict[str, str]:
        """An object whose values are texts."""
        inner = self.object(name)
        return {printable(key): inner.text(key) for key in inner._values}


def read_record(path: Path) -> Record:
    """Reads a record.

    Raises:
        UsageError: there is no such file, or it is no record, damaged, too large, or newer than
            this version of ttools.
    """
    with container.opened(path) as parts:
        document = Fields(parts.document(), str(path), "")
        _check_format(document)
        storages = document.objects("storages", lambda fields: _storage(fields, parts))
        if sum(each.size for each in storages) > container.LARGEST_RECORD:
            raise document.wrong("storages", "are too large together")
        texts: dict[str, str] = {}
        launches = document.objects(
            "launches", lambda fields: _launch(fields, parts, texts, storages)
        )
        excerpts = document.objects("excerpts", _excerpt)
        if sum(max(each.lines, default=0) for each in excerpts) > _MOST_LINES:
            raise document.wrong("excerpts", "are too long")
        return Record(
            launches=launches,
            storages=storages,
            excerpts=excerpts,
            made_by=document.texts("made_by"),
        )


def _check_format(document: Fields) -> None:
    if document._values.get("format") != FORMAT:
        raise UsageError(f"{document.path}: it is no record of launches")
    version = document.number("version", 1, 1 << 31)
    if version > VERSION:
        raise UsageError(
            f"{document.path}: the record has version {version}, and this ttools reads up to "
            f"{VERSION}; update ttools"
        )


def _storage(fields: Fields, parts: Parts) -> Storage:
    size = fields.number("size", 0, container.LARGEST_RECORD)
    data = None if fields.get("data") is None else parts.array(fields.text("data"), size)
    filling = None
    if fields.get("filling") is not None:
        filling = _filling(fields.object("filling"))
    if (data is None) == (filling is None):
        raise fields.wrong("", "must have either data or a filling")
    place = fields.number("place", 0, PLACE_BYTES - 1)
    return Storage(size=size, place=place, data=data, filling=filling)


def _filling(fields: Fields) -> Filling:
    first, second = fields.real("first"), fields.real("second")
    if not (math.isfinite(first) and math.isfinite(second)):
        raise fields.wrong("first", "and second must be finite")
    return Filling(
        kind=cast("Any", fields.one_of("kind", _FILLINGS)),
        dtype=fields.text("dtype"),
        first=first,
        second=second,
        seed=fields.number("seed", 0, _INT64 - 1),
    )


def _launch(
    fields: Fields, parts: Parts, texts: dict[str, str], storages: tuple[Storage, ...]
) -> LaunchRecord:
    part = fields.text("ttir")
    if part not in texts:
        texts[part] = parts.text(part)
        if _UNSAFE.search(texts[part]):
            raise fields.wrong("ttir", "holds characters that Triton does not write")
    grid = fields.numbers("grid", 3, 0, _LAST_PROGRAM)
    if len(grid) != 3 or math.prod(grid) >= _INT64:
        raise fields.wrong("grid", "must be three numbers")
    return LaunchRecord(
        kernel=fields.text("kernel"),
        ttir=texts[part],
        grid=grid,
        parameters=fields.objects("parameters", lambda each: _parameter(each, storages)),
        specialisation=fields.texts("specialisation"),
        fp_fusion=fields.flag("fp_fusion"),
        debug=fields.flag("debug"),
        host_line=None if fields.get("host_line") is None else fields.text("host_line"),
        config=None if fields.get("config") is None else _config(fields.object("config")),
    )


def _config(fields: Fields) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for name, value in fields._values.items():
        if not isinstance(value, (bool, int, str)):
            raise fields.wrong(name, "must be a number, a truth value or a text")
        found[printable(name)] = printable(value) if isinstance(value, str) else value
    return found


def _parameter(fields: Fields, storages: tuple[Storage, ...]) -> Parameter:
    kind = fields.text("type")
    value = _value(fields.object("value"), storages)
    is_memory = value is None or isinstance(value, TensorArgument)
    if is_memory != kind.startswith("*"):
        raise fields.wrong("value", f"does not fit the type {kind}")
    return Parameter(name=fields.text("name"), type=kind, value=value)


def _value(fields: Fields, storages: tuple[Storage, ...]) -> Value:
    kind = fields.one_of("kind", ("null", "bool", "int", "float", "tensor"))
    if kind == "null":
        return None
    if kind == "bool":
        return fields.flag("number")
    if kind == "int":
        return fields.number("number", -_INT64, 2 * _INT64 - 1)
    if kind == "float":
        return fields.real("number")
    return _tensor(fields, storages)


def _tensor(fields: Fields, storages: tuple[Storage, ...]) -> TensorArgument:
    storage = fields.number("storage", 0, len(storages) - 1)
    itemsize = fields.number("itemsize", 1, max(_ITEMSIZES))
    shape = fields.numbers("shape", _MOST_DIMENSIONS, 0, _INT64 - 1)
    strides = fields.numbers("strides", _MOST_DIMENSIONS, -_INT64, _INT64 - 1)
    offset = fields.number("offset", 0, storages[storage].size)
    if itemsize not in _ITEMSIZES or len(shape) != len(strides):
        raise fields.wrong("", "is no tensor")
    if 0 not in shape:
        steps = [(n - 1) * step * itemsize for n, step in zip(shape, strides, strict=True)]
        first = offset + sum(step for step in steps if step < 0)
        last = offset + sum(step for step in steps if step > 0) + itemsize
        if first < 0 or last > storages[storage].size:
            raise fields.wrong("", "reaches out of its storage")
    return TensorArgument(
        storage=storage,
        offset=offset,
        shape=shape,
        strides=strides,
        dtype=fields.text("dtype"),
        itemsize=itemsize,
    )


def _excerpt(fields: Fields) -> Excerpt:
    lines: dict[int, str] = {}
    for entry in fields.list("lines", _LAST_LINE):
        if not isinstance(entry, list) or len(entry) != 2:
            raise fields.wrong("lines", "must be pairs of a number and a text")
        number = fields.checked("lines", entry[0], 1, _LAST_LINE)
        text = entry[1]
        if not isinstance(text, str) or len(text) > _LONGEST_LINE:
            raise fields.wrong("lines", "must be lines of text")
        lines[number] = "\t".join(printable(part, _LONGEST_LINE) for part in text.split("\t"))
    return Excerpt(file=fields.text("file"), lines=lines)
