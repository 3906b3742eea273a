"""`--device` and `--device-file`: a GPU of the table, or one that a file describes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ttools.core.errors import UsageError

if TYPE_CHECKING:
    from ttools.core.gpus.devices import Device


def given_device(name: str | None, file: Path | None) -> str | Device | None:
    """What the options say; None where they say nothing.

    Raises:
        UsageError: both are given, or the file describes no device.
    """
    if file is None:
        return name
    if name is not None:
        raise UsageError("give either --device or --device-file")
    from ttools.core.gpus.devices import read_device_file

    return read_device_file(file)
