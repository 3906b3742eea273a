"""Reads a record from an untrusted file.

msgspec checks each field against the types in `schema`. This module checks whether the fields are
consistent with each other and with the other parts of the file. Error messages name the field of
the document.
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
#: Matches control characters, plain or escaped in MLIR strings. They are rejected, because a kernel
#: may print its strings to the terminal.
_UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f]|\\(?:0[0-8B-F]|1[0-9A-F]|7F|C2\\[89][0-9A-F])", re.IGNORECASE
)


def read_record(path: Path) -> Record:
    """Read a record.

    Raises:
        UsageError: The file does not exist, is not a record, is damaged, is too large, or is newer
            than this version of ttools.
    """
    with container.opened(path) as parts:
        data = parts.document()
        if not isinstance(data, dict) or data.get("format") != schema.FORMAT:
            raise UsageError(f"{path}: not a record of launches")
        version = data.get("version")
        if isinstance(version, int) and version > schema.VERSION:
            raise UsageError(
                f"{path}: the record has version {printable(str(version))}, but this ttools "
                f"reads only versions up to {schema.VERSION}; update ttools"
            )
        try:
            return _record(convert(data, schema.Document), parts)
        except UsageError:
            raise  # a part is damaged, and the message names it
        except ValueError as error:
            raise damaged(str(path), printable(str(error))) from None


def _record(document: schema.Document, parts: Parts) -> Record:
    """Convert a document to a record."""
    sizes = [entry.size for entry in document.storages]
    if sum(sizes) > container.LARGEST_RECORD:
        raise ValueError("Expected smaller `storages`")
    excerpts = tuple(_excerpt(entry) for entry in document.excerpts)
    if sum(max(entry.lines, default=0) for entry in excerpts) > _MOST_LINES:
        raise ValueError("Expected shorter `excerpts`")
    storages = tuple(_storage(entry, parts) for entry in document.storages)
    texts = {part: parts.text(part) for part in {entry.ttir for entry in document.launches}}
    for part, text in texts.items():
        if _UNSAFE.search(text):
            raise ValueError(f"`{part}` holds characters that Triton does not write")
    return Record(
        launches=tuple(
            _launch(entry, texts[entry.ttir], sizes, f"$.launches[{n}]")
            for n, entry in enumerate(document.launches)
        ),
        storages=storages,
        excerpts=excerpts,
        made_by=document.made_by,
    )


def _storage(stored: schema.Storage, parts: Parts) -> Storage:
    data = None if stored.data is None else parts.array(stored.data, stored.size)
    filling = None
    if (numbers := stored.filling) is not None:
        ends = {"first": schema.real(numbers.first), "second": schema.real(numbers.second)}
        filling = Filling(**{**asdict(numbers), **ends})
    return Storage(size=stored.size, place=stored.place, data=data, filling=filling)


def _launch(entry: schema.Entry, ttir: str, sizes: list[int], where: str) -> LaunchRecord:
    arguments = tuple(
        ArgumentSpec(
            name=parameter.name,
            type=parameter.type,
            value=_value(parameter.value, sizes, f"{where}.parameters[{n}].value"),
        )
        for n, parameter in enumerate(entry.parameters)
    )
    spec = LaunchSpec(
        kernel=entry.kernel,
        grid=entry.grid,
        arguments=arguments,
        options=_options(entry),
        site=CallSite(line=entry.host_line, config=entry.config),
    )
    return LaunchRecord(
        spec=spec,
        ttir=ttir,
        specialisation=entry.specialisation,
        has_options=entry.num_warps is not None,
    )


def _options(entry: schema.Entry) -> CompileOptions:
    options = CompileOptions(fp_fusion=entry.fp_fusion, debug=entry.debug)
    if entry.num_warps is None or entry.num_ctas is None or entry.num_stages is None:
        return options
    return replace(options, warps=entry.num_warps, blocks=entry.num_ctas, stages=entry.num_stages)


def _value(value: schema.Value, sizes: list[int], where: str) -> Value:
    if isinstance(value, TensorSpec):
        return _tensor(value, sizes, where)
    if isinstance(value, schema.Float):
        return schema.real(value.number)
    return None if isinstance(value, schema.Null) else value.number


def _tensor(tensor: TensorSpec, sizes: list[int], where: str) -> TensorSpec:
    size = sizes[tensor.storage] if tensor.storage < len(sizes) else -1
    first, last = tensor.span
    if first < 0 or last > size:
        raise ValueError(f"Expected a tensor in one of the storages - at `{where}`")
    if tensor.itemsize not in (1, 2, 4, 8):
        raise ValueError(f"Expected elements of 1, 2, 4 or 8 bytes - at `{where}`")
    if not schema.is_line(tensor.dtype):
        raise ValueError(f"Expected a line of text in `dtype` - at `{where}`")
    return replace(tensor, storage_bytes=None)


def _excerpt(excerpt: schema.Excerpt) -> Excerpt:
    lines = {
        number: "\t".join(printable(part, len(part)) for part in text.split("\t"))
        for number, text in excerpt.lines
    }
    return Excerpt(file=excerpt.file, lines=lines)
