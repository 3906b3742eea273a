"""Files that users hand in, as JSON or TOML: ours say in `schema` what they are, in which version.

Owns what a user reads of such a file: that it does not read, nests too deeply, or
lacks something or has it of another type. Must not know what any of them hold.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from ttools.core.errors import UsageError, file_errors

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Lists and objects within each other; who walks a document may do so by recursion.
DEEPEST = 100
#: A time or size of a document, which NaN and infinity are not, though Python's JSON has them.
Amount = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]

Content = TypeVar("Content")


def parse_json(text: str | bytes) -> Any:
    """The value that a text in JSON is.

    Raises:
        ValueError: it is none, or nests deeper than `DEEPEST`.
    """
    try:
        return _bounded(json.loads(text))
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def parse_toml(text: str) -> dict[str, Any]:
    """The table that a text in TOML is.

    Raises:
        ValueError: it is none, or nests deeper than `DEEPEST`.
    """
    try:
        return dict(_bounded(tomllib.loads(text)))
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


_TOO_DEEP = f"it nests deeper than {DEEPEST} levels"


def _bounded(value: Any) -> Any:
    """The value, if it nests no deeper than `DEEPEST`."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [
            inner
            for each in level
            if isinstance(each, (dict, list))
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return value
    raise ValueError(_TOO_DEEP)


def read_json_document(
    path: Path,
    schema: str,
    kind: str,
    content: type[Content],
    *,
    hook: Callable[[type, Any], Any] | None = None,
    advice: str = "another ttools wrote it",
) -> Content:
    """Reads a file of a schema as an object.

    Args:
        schema: what its `schema` must be, such as `ttools.profile/1`.
        kind: what to call such files, such as `lock file`.
        content: the type of what it holds; other fields are ignored.
        hook: makes objects of types that msgspec does not know.
        advice: what to say of another schema.

    Raises:
        UsageError: it is not there, is no JSON object, is of another schema, or is damaged; in
            that case the sentence names the field.
    """
    try:
        with file_errors(f"read the {kind} `{path}`"):
            data = parse_json(path.read_text("utf-8"))
    except ValueError as error:
        raise UsageError(f"`{path}` is no {kind}: {error}") from error
    found = data.get("schema") if isinstance(data, dict) else None
    if found != schema:
        raise UsageError(f"`{path}` has schema {repr(found)[:DEEPEST]}, not {schema!r}; {advice}")
    try:
        return msgspec.convert(data, content, dec_hook=hook)
    except ValueError as error:
        raise UsageError(f"`{path}` is a damaged {kind}: {error}") from error
