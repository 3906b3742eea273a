"""Rows for one or several Proton profiles: selected nodes, with a value per metric and profile."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ttools.core.errors import UsageError
from ttools.profiler.view.file import Frame, Number, ProtonProfile
from ttools.profiler.view.metrics import Column


@dataclass(frozen=True)
class Row:
    """A node of the profiles.

    Attributes:
        path: Names from the root to the node.
        values: For each profile, the values of the metrics.
    """

    path: tuple[str, ...]
    values: tuple[tuple[Number | None, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The nodes to show.

    Attributes:
        include: A regular expression; only nodes with matching names, their ancestors and their
            descendants are selected.
        exclude: A regular expression; nodes with matching names and their descendants are left out.
        depth: Number of levels below the root; all by default.
        least: Nodes whose first metric is below this percentage of the root's value are left out.
    """

    include: str | None = None
    exclude: str | None = None
    depth: int | None = None
    least: float = 0.0


def rows(
    profiles: Sequence[ProtonProfile], columns: Sequence[Column], selection: Selection
) -> list[Row]:
    """Return the nodes of all profiles, parents first; nodes with the same path share a row.

    With several devices, the device is part of the name: `kernel [CUDA 1]`.

    Raises:
        UsageError: A regular expression is invalid.
    """
    wanted, unwanted = _pattern(selection.include), _pattern(selection.exclude)
    values_by_path: dict[tuple[str, ...], list[list[tuple[Number | None, ...]]]] = {}
    devices = {f.device for profile in profiles for _, f in profile.root.walk() if f.device}
    for index, profile in enumerate(profiles):
        whole = _first(profile.root, profile, columns)
        for path, frame in profile.root.walk():
            if not _is_chosen(path, frame, wanted, unwanted, selection.depth):
                continue
            own = _first(frame, profile, columns)
            if selection.least and whole and (own or 0.0) < whole * selection.least / 100:
                continue
            values = tuple(column.of(frame, profile) for column in columns)
            if len(devices) > 1 and frame.device:
                path = (*path[:-1], f"{path[-1]} [{' '.join(frame.device)}]")
            values_by_path.setdefault(path, [[] for _ in profiles])[index].append(values)
    empty = tuple(None for _ in columns)
    result = []
    for path, slots in values_by_path.items():
        # Several nodes of a profile can have the same path; each of them gets its own row.
        for n in range(max(len(slot) for slot in slots)):
            result.append(Row(path, tuple(s[n] if n < len(s) else empty for s in slots)))
    return _nested(result)


def _first(frame: Frame, profile: ProtonProfile, columns: Sequence[Column]) -> float | None:
    value = columns[0].of(frame, profile) if columns else None
    return None if isinstance(value, tuple) else value


def _pattern(text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(f"`{text}` is not a valid regular expression: {error}") from error


def _is_chosen(
    path: tuple[str, ...],
    frame: Frame,
    wanted: re.Pattern[str] | None,
    unwanted: re.Pattern[str] | None,
    depth: int | None,
) -> bool:
    if depth is not None and len(path) - 1 > depth:
        return False
    if unwanted is not None and any(unwanted.search(name) for name in path[1:]):
        return False
    if wanted is None or any(wanted.search(name) for name in path):
        return True
    return any(wanted.search(below.name) for _, below in frame.walk())


def _nested(unsorted: list[Row]) -> list[Row]:
    """Sort rows so that each follows its parent, including rows that only a later profile has."""
    order: dict[tuple[str, ...], int] = {}
    for row in unsorted:
        for n in range(len(row.path)):
            order.setdefault(row.path[: n + 1], len(order))
    return sorted(
        unsorted, key=lambda row: [order[row.path[: n + 1]] for n in range(len(row.path))]
    )
