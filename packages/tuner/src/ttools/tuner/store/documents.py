"""JSON files of ours as objects; an error names the path to it in the file.

Must not know what any of them holds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ttools.core.errors import UsageError
from ttools.core.json_document import read_json_document

Content = TypeVar("Content")


def read_document(
    path: Path,
    schema: str,
    kind: str,
    content: type[Content],
    hook: Callable[[type, Any], Any] | None = None,
) -> Content:
    """Reads a file.

    Args:
        path: the file.
        schema: what it must say that it is, such as `ttools.tuned/1`.
        kind: what to call such files, such as `lock file`.
        content: the type of what it holds.
        hook: makes objects of types that `msgspec` does not know.

    Raises:
        UsageError: it is not there, is of another schema, or is damaged.
    """
    data = read_json_document(path, schema, kind)
    try:
        return msgspec.convert(data, content, dec_hook=hook)
    except ValueError as error:
        raise UsageError(f"`{path}` is a damaged {kind}: {error}") from error
