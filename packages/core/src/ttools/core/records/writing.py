"""Writes a record to a file; the counterpart of `reading`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from ttools.core.errors import UsageError
from ttools.core.records import container, schema
from ttools.core.records.container import printable
from ttools.core.records.launch_record import LaunchRecord, Record, Storage
from ttools.core.spec import ArgumentSpec, ObjectSpec, TensorSpec, Value


def write_record(record: Record, path: Path) -> None:
    """Write a record.

    Raises:
        UsageError: The file cannot be written.
    """
    modules = dict.fromkeys(launch.ttir for launch in record.launches)
    parts = {text: f"ttir/{n}.ttir" for n, text in enumerate(modules)}
    arrays = {
        _part(n): item.data for n, item in enumerate(record.storages) if item.data is not None
    }
    try:
        document = schema.Document(
            made_by=dict(record.made_by),
            launches=tuple(_launch(item, parts[item.ttir]) for item in record.launches),
            storages=tuple(_storage(item, n) for n, item in enumerate(record.storages)),
            excerpts=tuple(
                schema.Excerpt(item.file, tuple(item.lines.items())) for item in record.excerpts
            ),
        )
    except ValueError as error:
        raise UsageError(f"cannot write `{path}`: {error}") from error
    texts = {part: text for text, part in parts.items()}
    container.write(path, to_builtins(document), texts, arrays)


def _part(number: int) -> str:
    return f"storages/{number}.npy"


def _launch(launch: LaunchRecord, part: str) -> schema.Entry:
    spec, config = launch.spec, launch.spec.site.config
    return schema.Entry(
        kernel=spec.kernel,
        ttir=part,
        grid=spec.grid,
        parameters=tuple(map(_parameter, spec.arguments)),
        specialisation=dict(launch.specialisation),
        fp_fusion=spec.options.fp_fusion,
        debug=spec.options.debug,
        host_line=spec.site.line,
        config=None if config is None else {name: _plain(v) for name, v in config.items()},
        num_warps=spec.options.warps if launch.has_options else None,
        num_ctas=spec.options.blocks if launch.has_options else None,
        num_stages=spec.options.stages if launch.has_options else None,
    )


def _parameter(argument: ArgumentSpec) -> schema.Parameter:
    return schema.Parameter(argument.name, argument.type, _value(argument.value))


def _plain(value: Any) -> bool | int | str:
    return value if isinstance(value, (bool, int)) else printable(str(value))


def _value(value: Value) -> schema.Value:
    if value is None:
        return schema.Null()
    if isinstance(value, TensorSpec):
        return replace(value, storage_bytes=None)  # the size is recorded with the storage
    if isinstance(value, bool):
        return schema.Bool(value)
    if isinstance(value, int):
        return schema.Int(value)
    if isinstance(value, ObjectSpec):
        raise ValueError(f"an argument of type {value.type} cannot be recorded")
    return schema.Float(float(value).hex())


def _storage(storage: Storage, number: int) -> schema.Storage:
    data = None if storage.data is None else _part(number)
    filling = None
    if (numbers := storage.filling) is not None:
        ends = {"first": float(numbers.first).hex(), "second": float(numbers.second).hex()}
        filling = schema.Filling(**{**asdict(numbers), **ends})
    return schema.Storage(storage.size, storage.place, data, filling)
