"""Readers of JSON and TOML files from users, with checks of schema, nesting and types.

Files of ttools state their kind and version in the field `schema`. Error messages say what is wrong
with the file: it cannot be read, nests too deeply, or has a missing or mistyped field.
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

#: The maximum nesting of lists and objects, which allows code to walk documents recursively.
DEEPEST = 100
#: A time or size in a document; excludes NaN and infinity, which Python's JSON parser accepts.
Amount = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]

Content = TypeVar("Content")


def parse_json(
    text: str | bytes, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None
) -> Any:
    """Parse a JSON text.

    Args:
        text: Text of a JSON document.
        pairs: Function that makes an object from its pairs of name and value; the same name may
            occur twice. By default, an object becomes a dictionary with the last value of each
            name.

    Raises:
        ValueError: The text is not JSON or nests deeper than `DEEPEST`.
    """
    try:
        return _bounded(json.loads(text, object_pairs_hook=pairs))
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a TOML text.

    Raises:
        ValueError: The text is not TOML or nests deeper than `DEEPEST`.
    """
    try:
        return dict(_bounded(tomllib.loads(text)))
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def json_text(data: Any) -> str:
    """Return a report as indented JSON with a final newline; unsupported values become strings."""
    return json.dumps(data, indent=2, default=str) + "\n"


_TOO_DEEP = f"it nests deeper than {DEEPEST} levels"


def _bounded(value: Any) -> Any:
    """Return the value if it nests no deeper than `DEEPEST`, else raise a ValueError."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
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
    advice: str = "it was written by another version of ttools",
) -> Content:
    """Read a JSON file with a given schema as an object.

    Args:
        schema: The required value of the field `schema`, such as `ttools.profile/1`.
        kind: What messages call such files, for example `lock file`.
        content: The type to convert to; fields that the type does not declare are ignored.
        hook: Function that converts values to types that msgspec does not support.
        advice: The hint for a file with a different schema.

    Raises:
        UsageError: The file is missing, is not a JSON object, has a different schema or is damaged.
            If it is damaged, the message names the field.
    """
    with file_errors(f"read the {kind} `{path}`"):
        raw = path.read_bytes()
    try:
        data = parse_json(raw.decode("utf-8"))
    except ValueError as error:
        raise UsageError(f"`{path}` is not a {kind}: {error}") from error
    actual = data.get("schema") if isinstance(data, dict) else None
    if actual != schema:
        raise UsageError(f"`{path}` has schema {repr(actual)[:DEEPEST]}, not {schema!r}; {advice}")
    try:
        return msgspec.convert(data, content, dec_hook=hook)
    except ValueError as error:
        raise UsageError(f"`{path}` is a damaged {kind}: {error}") from error
