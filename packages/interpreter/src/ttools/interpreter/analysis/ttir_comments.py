"""Comments after a kernel's final module, with facts that only its compilation can determine.

They are part of the module's text, so Triton's cache stores them with the module.
"""

from __future__ import annotations

import json
import re
from typing import Any

_BEGINNING = "// ttools:"


def with_comment(ttir: str, name: str, data: list[Any]) -> str:
    """Return the module followed by a comment with a list; unchanged if the list is empty."""
    if not data:
        return ttir
    return f"{ttir.rstrip()}\n{_BEGINNING} {name} {json.dumps(data)}\n"


def comment(ttir: str, name: str) -> list[Any]:
    """Return the list in the comment of the given name; empty if there is no such comment."""
    matches = re.findall(rf"^{_BEGINNING} {name} (\[.*)$", ttir, re.MULTILINE)
    data: list[Any] = json.loads(matches[-1]) if matches else []
    return data
