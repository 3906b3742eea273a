"""Files of ours in JSON: an object whose `schema` says what it is, and in which version.

Owns telling a user what is wrong with such a file. Must not know what any of them hold.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ttools.core.errors import UsageError


def read_json_document(
    path: Path, schema: str, kind: str, *, advice: str = "another ttools wrote it"
) -> dict[str, Any]:
    """Reads a file and makes sure that it is of a schema.

    Args:
        path: the file.
        schema: what its `schema` must be, such as `ttools.profile/1`.
        kind: what to call such files, such as `lock file`.
        advice: what to say of another schema.

    Raises:
        UsageError: it is not there, is no JSON object, or is of another schema.
    """
    try:
        data = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the {kind} `{path}`: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"`{path}` is no {kind}: {error}") from error
    found = data.get("schema") if isinstance(data, dict) else None
    if found != schema:
        raise UsageError(f"`{path}` has schema {found!r}, not {schema!r}; {advice}")
    return dict(data)
