"""Writes a record to a file; `reading` is its counterpart, and says what each field may be."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from ttools.core.records import container
from ttools.core.records.launch_record import (
    LaunchRecord,
    Parameter,
    Record,
    Storage,
    TensorArgument,
)

FORMAT = "ttools.record"
VERSION = 1


def write_record(record: Record, path: Path) -> None:
    """Writes a record.

    Raises:
        UsageError: it cannot be written.
    """
    texts: dict[str, str] = {}
    parts = {text: f"ttir/{n}.ttir" for n, text in enumerate(dict.fromkeys(_modules(record)))}
    texts.update({part: text for text, part in parts.items()})
    arrays = {
        _part(n): each.data for n, each in enumerate(record.storages) if each.data is not None
    }
    document = {
        "format": FORMAT,
        "version": VERSION,
        "made_by": dict(record.made_by),
        "launches": [_launch(each, parts[each.ttir]) for each in record.launches],
        "storages": [_storage(each, n) for n, each in enumerate(record.storages)],
        "excerpts": [
            {"file": each.file, "lines": [[n, text] for n, text in each.lines.items()]}
            for each in record.excerpts
        ],
    }
    container.write(path, document, texts, arrays)


def _modules(record: Record) -> list[str]:
    return [launch.ttir for launch in record.launches]


def _part(number: int) -> str:
    return f"storages/{number}.npy"


def _launch(launch: LaunchRecord, part: str) -> dict[str, Any]:
    return {
        "kernel": launch.kernel,
        "ttir": part,
        "grid": list(launch.grid),
        "parameters": [_parameter(each) for each in launch.parameters],
        "specialisation": dict(launch.specialisation),
        "fp_fusion": launch.fp_fusion,
        "debug": launch.debug,
        "host_line": launch.host_line,
        "config": None
        if launch.config is None
        else {name: _plain(value) for name, value in launch.config.items()},
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, str)) else repr(value)


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "type": parameter.type,
        "value": _value(parameter.value),
    }


def _value(value: Any) -> dict[str, Any]:
    if value is None:
        return {"kind": "null"}
    if isinstance(value, TensorArgument):
        fields = asdict(value)
        return {"kind": "tensor", **fields, "shape": list(value.shape), "strides": [*value.strides]}
    if isinstance(value, bool):
        return {"kind": "bool", "number": value}
    if isinstance(value, int):
        return {"kind": "int", "number": value}
    # Every bit of it, infinities and NaNs too, which JSON has not.
    return {"kind": "float", "number": float(value).hex()}


def _storage(storage: Storage, number: int) -> dict[str, Any]:
    filling = None
    if storage.filling is not None:
        filling = asdict(storage.filling)
        for name in ("first", "second"):
            filling[name] = float(filling[name]).hex()
    return {
        "size": storage.size,
        "place": storage.place,
        "data": None if storage.data is None else _part(number),
        "filling": filling,
    }
