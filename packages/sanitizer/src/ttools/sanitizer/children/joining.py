"""A process that begins anew, and takes part in the run of the one that started it.

Owns what such a process learns of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ttools.sanitizer.api import sanitize

#: For as long as the process lives.
_joined: list[object] = []


def begin(given: Mapping[str, Any]) -> None:
    """Checks the kernels of this process from now on, for the run that asks for it."""
    sanitization = sanitize(**given["options"])
    sanitization.session.join(Path(given["folder"]))
    sanitization.__enter__()
    _joined.append(sanitization)
