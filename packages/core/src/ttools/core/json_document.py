"""Files that users hand in, as JSON or TOML: ours say in `schema` what they are, in which version.

Owns what a user reads of such a file: that it does not read, nests too deeply, or
lacks something or has it of another type. Must not know what any of them hold.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from ttools.core.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Lists and objects within each other; who walks a document may do so by recursion.
DEEPEST = 100
_LEAST_INTEGER, _LAST_INTEGER = -(1 << 63), (1 << 64) - 1
#: What conforms to anything.
ANY = object
#: The name that stands for every name of an object.
EACH = "*"


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
    *,
    shape: Any = ANY,
    advice: str = "another ttools wrote it",
) -> dict[str, Any]:
    """Reads a file and makes sure that it is of a schema.

    Args:
        path: the file.
        schema: what its `schema` must be, such as `ttools.profile/1`.
        kind: what to call such files, such as `lock file`.
        shape: what it must hold, see `conform`.
        advice: what to say of another schema.

    Raises:
        UsageError: it is not there, is no JSON object, is of another schema, or is damaged.
    """
    try:
        data = parse_json(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the {kind} `{path}`: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"`{path}` is no {kind}: {error}") from error
    found = data.get("schema") if isinstance(data, dict) else None
    if found != schema:
        raise UsageError(f"`{path}` has schema {repr(found)[:DEEPEST]}, not {schema!r}; {advice}")
    try:
        conform(data, shape)
    except ValueError as error:
        raise UsageError(f"`{path}` is a damaged {kind}: {error}") from error
    return dict(data)


def conform(value: Any, shape: Any, path: str = "") -> None:
    """Makes sure that a value of a document is what its reader takes it for.

    Args:
        value: of the document.
        shape: a type (`float` takes every finite number, `int` those of 64 bits, `None` nothing
            else); a tuple of shapes, of which one must fit; a list of one shape, which all
            elements have; a dictionary of shapes by name, of which those that end with `?` may be
            missing, and `EACH` is that of all other names.
        path: where the value stands, such as `winners[3].config`.

    Raises:
        ValueError: it is something else; says where and what it must be.
    """
    if isinstance(shape, tuple):
        _conform_to_one(value, shape, path)
    elif isinstance(shape, list):
        _require(isinstance(value, list), path, "must be a list")
        for number, each in enumerate(value):
            conform(each, shape[0], f"{path}[{number}]")
    elif isinstance(shape, dict):
        _require(isinstance(value, dict), path, "must be an object")
        _conform_fields(value, shape, path)
    else:
        _require(_is(value, shape), path, f"must be {_NAMES.get(shape, shape)}")


_NAMES: dict[Any, str] = {
    str: "a text",
    bool: "true or false",
    int: "a whole number of 64 bits",
    float: "a finite number",
    None: "null",
}


def _is(value: Any, shape: Any) -> bool:
    if shape is ANY:
        return True
    if shape is None or isinstance(value, bool):
        return value is None if shape is None else shape is bool
    if shape is float:
        # No number of JSON is too large for Python, but some are for a float.
        return isinstance(value, (int, float)) and abs(value) < math.inf and _fits(value)
    if shape is int:
        return isinstance(value, int) and _LEAST_INTEGER <= value <= _LAST_INTEGER
    return isinstance(value, shape)


def _fits(value: float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _conform_to_one(value: Any, shapes: tuple[Any, ...], path: str) -> None:
    reasons = []
    for shape in shapes:
        try:
            return conform(value, shape, path)
        except ValueError as error:
            reasons.append(str(error))
    raise ValueError(reasons[-1] if len(reasons) == 1 else "; or ".join(dict.fromkeys(reasons)))


def _conform_fields(value: dict[str, Any], shape: dict[str, Any], path: str) -> None:
    inside = f"{path}." if path else ""
    for name, inner in shape.items():
        plain = name.removesuffix("?")
        if name == EACH:
            for other in value:
                if other not in shape and f"{other}?" not in shape:
                    conform(value[other], inner, f"{inside}{other[:DEEPEST]}")
        elif plain in value:
            conform(value[plain], inner, f"{inside}{plain}")
        else:
            _require(name != plain, f"{inside}{plain}", "is missing")


def _require(right: bool, path: str, what: str) -> None:
    if not right:
        raise ValueError(f"{path or 'the document'} {what}")
