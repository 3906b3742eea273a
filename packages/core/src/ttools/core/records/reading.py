"""Reads a record from a file that nobody vouches for.

`schema` has msgspec check each field; here is what has to fit the rest of the file. An error names
its place in the document. `writing` is the counterpart.
"""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import convert
from msgspec.structs import asdict, replace

from ttools.core.errors import UsageError
from ttools.core.records import container, schema
from ttools.core.records.container import Parts, damaged, printable
from ttools.core.records.launch_record import (
    Excerpt,
    Filling,
    LaunchRecord,
    Record,
    Storage,
)
from ttools.core.spec import (
    ArgumentSpec,
    CallSite,
    CompileOptions,
    LaunchSpec,
    TensorSpec,
    Value,
)

_MOST_LINES = 2_000_000
#: What a terminal would obey, as such or as MLIR writes it in strings; a kernel may print.
_UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f]|\\(?:0[0-8B-F]|1[0-9A-F]|7F|C2\\[89][0-9A-F])", re.IGNORECASE
)


def read_record(path: Path) -> Record:
    """Reads a record.

    Raises:
        UsageError: there is no such file, or it is no record, damaged, too large, or newer than
            this version of ttools.
    """
    with container.opened(path) as parts:
        data = parts.document()
        if not isinstance(data, dict) or data.get("format") != schema.FORMAT:
            raise UsageError(f"{path}: it is no record of launches")
        version = data.get("version")
        if isinstance(version, int) and version > schema.VERSION:
            raise UsageError(
                f"{path}: the record has version {printable(str(version))}, and this ttools "
                f"reads up to {schema.VERSION}; update ttools"
            )
        try:
            return _record(convert(data, schema.Document), parts)
        except ValueError as error:
            raise damaged(str(path), printable(str(error))) from None


def _record(document: schema.Document, parts: Parts) -> Record:
    """The record of a document.

    Raises:
        UsageError: a part of the file is missing or damaged.
        ValueError: the document contradicts itself.
    """
    sizes = [each.size for each in document.storages]
    if sum(sizes) > container.LARGEST_RECORD:
        raise ValueError("Expected smaller `storages`")
    excerpts = tuple(_excerpt(each) for each in document.excerpts)
    if sum(max(each.lines, default=0) for each in excerpts) > _MOST_LINES:
        raise ValueError("Expected shorter `excerpts`")
    storages = tuple(_storage(each, parts) for each in document.storages)
    texts = {part: parts.text(part) for part in {each.ttir for each in document.launches}}
    for part, text in texts.items():
        if _UNSAFE.search(text):
            raise ValueError(f"`{part}` holds characters that Triton does not write")
    return Record(
        launches=tuple(
            _launch(each, texts[each.ttir], sizes, f"$.launches[{n}]")
            for n, each in enumerate(document.launches)
        ),
        storages=storages,
        excerpts=excerpts,
        made_by=document.made_by,
    )


def _storage(found: schema.Storage, parts: Parts) -> Storage:
    data = None if found.data is None else parts.array(found.data, found.size)
    filling = None
    if (numbers := found.filling) is not None:
        ends = {"first": schema.real(numbers.first), "second": schema.real(numbers.second)}
        filling = Filling(**{**asdict(numbers), **ends})
    return Storage(size=found.size, place=found.place, data=data, filling=filling)


def _launch(found: schema.Entry, ttir: str, sizes: list[int], where: str) -> LaunchRecord:
    arguments = tuple(
        ArgumentSpec(
            name=each.name,
            type=each.type,
            value=_value(each.value, sizes, f"{where}.parameters[{n}].value"),
        )
        for n, each in enumerate(found.parameters)
    )
    spec = LaunchSpec(
        kernel=found.kernel,
        grid=found.grid,
        arguments=arguments,
        options=CompileOptions(fp_fusion=found.fp_fusion, debug=found.debug),
        site=CallSite(line=found.host_line, config=found.config),
    )
    return LaunchRecord(spec=spec, ttir=ttir, specialisation=found.specialisation)


def _value(found: schema.Value, sizes: list[int], where: str) -> Value:
    if isinstance(found, TensorSpec):
        return _tensor(found, sizes, where)
    if isinstance(found, schema.Float):
        return schema.real(found.number)
    return None if isinstance(found, schema.Null) else found.number


def _tensor(found: TensorSpec, sizes: list[int], where: str) -> TensorSpec:
    size = sizes[found.storage] if found.storage < len(sizes) else -1
    first, last = found.span
    if first < 0 or last > size:
        raise ValueError(f"Expected a tensor in one of the storages - at `{where}`")
    if found.itemsize not in (1, 2, 4, 8):
        raise ValueError(f"Expected elements of 1, 2, 4 or 8 bytes - at `{where}`")
    if not schema.is_line(found.dtype):
        raise ValueError(f"Expected a line of text in `dtype` - at `{where}`")
    return replace(found, storage_bytes=None)


def _excerpt(found: schema.Excerpt) -> Excerpt:
    lines = {
        number: "\t".join(printable(part, len(part)) for part in text.split("\t"))
        for number, text in found.lines
    }
    return Excerpt(file=found.file, lines=lines)
