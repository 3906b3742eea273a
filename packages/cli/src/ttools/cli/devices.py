"""The options `--device` and `--device-file`: a GPU by name, or described by a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ttools.core.errors import UsageError

if TYPE_CHECKING:
    from ttools.core.gpus.devices import Device


def given_device(name: str | None, file: Path | None) -> str | Device | None:
    """Return the GPU that the options select, or None without options.

    Raises:
        UsageError: Both options are given, or the file is invalid.
    """
    if file is None:
        return name
    if name is not None:
        raise UsageError("give either --device or --device-file")
    from ttools.core.gpus.devices import read_device_file

    return read_device_file(file)
