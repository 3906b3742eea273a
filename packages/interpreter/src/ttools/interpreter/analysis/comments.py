"""What is known only while Triton compiles a kernel, in comments behind its final module.

So it outlasts Triton's cache. Must not know what is kept.
"""

from __future__ import annotations

import json
import re
from typing import Any

_BEGINNING = "// ttools:"


def with_comment(ttir: str, name: str, data: list[Any]) -> str:
    """The module with a list in a comment behind it; as it is if the list is empty."""
    if not data:
        return ttir
    return f"{ttir.rstrip()}\n{_BEGINNING} {name} {json.dumps(data)}\n"


def comment(ttir: str, name: str) -> list[Any]:
    """The list in the comment of a name; empty if there is none."""
    found = re.findall(rf"^{_BEGINNING} {name} (\[.*)$", ttir, re.MULTILINE)
    data: list[Any] = json.loads(found[-1]) if found else []
    return data
