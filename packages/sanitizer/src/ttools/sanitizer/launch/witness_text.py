"""The words of a finding for values and lanes that a kernel reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ttools.core.spec import LaunchSpec


def variables(spec: LaunchSpec, values: Sequence[tuple[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Return names and values as text; `%3` becomes the name of parameter 3."""
    names = spec.names
    # Several numbers of a descriptor may be one parameter.
    return tuple(dict.fromkeys((_variable(name, names), _text(value)) for name, value in values))


def _variable(name: str, names: Sequence[str]) -> str:
    if name.startswith("%") and name[1:].isdigit() and int(name[1:]) < len(names):
        return names[int(name[1:])]
    return name


def lane_indices(lane: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return a lane, counted row by row, as one index per axis; `()` for a scalar."""
    indices: list[int] = []
    for extent in reversed(shape):
        lane, index = divmod(lane, extent)
        indices.insert(0, index)
    return tuple(indices)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
