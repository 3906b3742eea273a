"""A process that begins anew, and takes part in the run of the one that started it.

Owns what such a process learns of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from ttools.core.process.joining import children_call

_BEGIN = f"{__name__}:begin"
#: For as long as the process lives.
_joined: list[object] = []


def children_join(folder: Path, options: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Has processes that begin meanwhile check their kernels, too.

    Args:
        folder: where they write.
        options: of `sanitize`, as JSON has them.
    """
    return children_call(_BEGIN, {"folder": str(folder), "options": options})


def begin(given: Mapping[str, Any]) -> None:
    """Checks the kernels of this process from now on, for the run that asks for it."""
    from ttools.sanitizer.api import sanitize

    sanitization = sanitize(**given["options"])
    sanitization.session.join(Path(given["folder"]))
    sanitization.__enter__()
    _joined.append(sanitization)
