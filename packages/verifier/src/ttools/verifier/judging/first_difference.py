"""The first value of a kernel that differs between a GPU and the engine, from logs of both.

How far floats may be off is measured: the engine runs again with each value off by about a rounding
error, and with other values in undefined lanes. What these runs make of an integer or of the way
that a program goes says as well whether it depends on rounding. Must not know how logs are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.core.location import source_line
from ttools.core.ownership import is_triton_file
from ttools.interpreter.eager.elements import element as element_of

#: So many times what the disturbed runs differ by is allowed; of one type's step none knows less.
_ROOM = 8
_LOCATION = re.compile(r'(?:"([^"]+)"\()?"([^"]+)":(\d+):(\d+)')

Launch = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Found:
    """What comparing logs has found.

    Attributes:
        difference: a sentence on the first value that differs; empty if none does.
        limits: a sentence on what was not compared; empty if all was.
    """

    difference: str = ""
    limits: str = ""


class _DamagedError(Exception):
    """A log is none."""


def first_difference(
    gpu: Sequence[Launch], engine: Sequence[Launch], disturbed: Sequence[Sequence[Launch]]
) -> Found:
    """Looks for it in the earliest launch, and there in the program with the least number.

    Args:
        gpu: the logs of the launches of a call.
        engine: the same, by the engine.
        disturbed: the same by the engine, with small errors.
    """
    names = [each["kernel"] for each in gpu]
    if any([each["kernel"] for each in other] != names for other in (engine, *disturbed)):
        return Found(limits="the launches are others there than on the engine")
    limits: dict[str, None] = {}
    modules: list[dict[int, Any]] = [{} for _ in (gpu, engine, *disturbed)]
    for number, launches in enumerate(zip(gpu, engine, *disturbed, strict=True), 1):
        try:
            for known, launch in zip(modules, launches, strict=True):
                if "described" in launch:
                    known[launch["module"]] = launch["described"]
            described = [
                known[each["module"]] for known, each in zip(modules, launches, strict=True)
            ]
            found = _in_launch(launches, described, limits)
        except (_DamagedError, KeyError, IndexError, TypeError, ValueError):
            limits[f"launch {number} has no log that can be read"] = None
            continue
        if found:
            where = f"launch {number} of the call, of `{launches[0]['kernel']}`"
            return Found(difference=f"{where}, {found}", limits="; ".join(limits))
    return Found(limits="; ".join(limits))


def _in_launch(
    launches: Sequence[Launch], described: Sequence[dict[str, Any]], limits: dict[str, None]
) -> str:
    kernel = launches[0]["kernel"]
    sites = described[0]["sites"]
    if any(_shapes(each["sites"]) != _shapes(sites) for each in described[1:]):
        limits[f"the compiler makes other TTIR of `{kernel}` for the GPU than for the engine"] = (
            None
        )
        return ""
    logged = min(len(each["logs"]) for each in launches)
    if logged < max(each["programs"] for each in launches):
        limits[f"of `{kernel}` only the first {logged} programs were compared"] = None
    stored = {
        each["value"][0]
        for block in described[0]["blocks"]
        for each in block["items"]
        if "value" in each
    }
    for program in range(logged):
        streams = [
            _Log(launch["logs"][program], each["blocks"]).values()
            for launch, each in zip(launches, described, strict=True)
        ]
        found = _in_program(sites, stored, streams)
        if found:
            return f"program {program}: {found}"
        if any(launch["lengths"][program] > len(launch["logs"][program]) for launch in launches):
            limits[f"of `{kernel}` the last values of long programs were not compared"] = None
    return ""


def _shapes(sites: Sequence[dict[str, Any]]) -> list[Any]:
    return [(each["name"], each["element"], each["shape"]) for each in sites]


class _Log:
    """The values of one program, in the order in which they were computed.

    Args:
        blocks: what the entries hold, by number from 1 on.
    """

    def __init__(self, data: bytes, blocks: Sequence[dict[str, Any]]) -> None:
        self._data, self._blocks = data, blocks
        self._at = 0

    def _next(self) -> int:
        """The block of the next entry; 0 if there is none, or it did not fit."""
        number = int.from_bytes(self._data[self._at : self._at + 8], "little")
        if number > len(self._blocks):
            raise _DamagedError
        return number

    def values(self, inside: Sequence[int] | None = None) -> Iterator[tuple[int, memoryview]]:
        """The number of a value's site and what follows in memory, for each value.

        Args:
            inside: only entries of these blocks, up to the first of another one.
        """
        while (number := self._next()) and (inside is None or number in inside):
            block = self._blocks[number - 1]
            entry = memoryview(self._data)[self._at : self._at + block["size"]]
            self._at += block["size"]
            for each in block["items"]:
                if "inner" in each:
                    yield from self.values(each["inner"])
                else:
                    site, offset = each["value"]
                    yield site, entry[offset:]


def _in_program(
    sites: Sequence[dict[str, Any]], stored: set[int], streams: Sequence[Iterator[tuple[int, Any]]]
) -> str:
    chosen = [(each for each in stream if each[0] in stored) for stream in streams]
    visits: dict[int, int] = {}
    last = ""
    while True:
        values = [next(each, None) for each in chosen]
        ways = [None if each is None else each[0] for each in values]
        if len(set(ways[1:])) > 1:
            return ""  # which way it goes depends on rounding
        if ways[0] != ways[1]:
            if None in ways:
                return ""  # a log that was full
            return f"{last or 'at its beginning'} the program goes another way than on the engine"
        site = ways[0]
        if site is None:
            return ""
        visits[site] = visits.get(site, 0) + 1
        known = sites[site]
        kind = element_of(known["element"]).dtype
        lanes = int(np.prod(known["shape"], dtype=np.int64))
        arrays = [np.frombuffer(each[1], kind, lanes) for each in values if each is not None]
        differs = _difference(arrays[0], arrays[1], arrays[2:], known)
        if differs:
            return f"{_described(known, visits[site])}: {differs}"
        last = f"after {_described(known, visits[site])}"


def _difference(
    gpu: NDArray[Any], engine: NDArray[Any], disturbed: Sequence[NDArray[Any]], site: dict[str, Any]
) -> str:
    """What is wrong with a value; empty if nothing is."""
    if gpu.dtype.kind in "biu":
        steady = np.logical_and.reduce([each == engine for each in disturbed] or [engine == engine])
        wrong = (gpu != engine) & steady
    else:
        one, other = gpu.astype(np.float64), engine.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            spread = np.zeros(len(other))
            for each in disturbed:
                near = each.astype(np.float64)
                # What is infinite or no number in one of the runs only may be anything.
                off = np.where(_alike(near, other), 0, np.abs(near - other))
                spread = np.maximum(spread, np.where(np.isnan(off), np.inf, off))
            steps = _step(engine.dtype) * np.abs(other) + np.finfo(np.float32).tiny
            wrong = ~_alike(one, other) & ~(np.abs(one - other) <= _ROOM * spread + steps)
            wrong &= np.isfinite(spread)
    if not wrong.any():
        return ""
    at = int(np.flatnonzero(wrong)[0])
    shape = tuple(site["shape"])
    if not shape:
        return f"{_shown(gpu[at])} on the GPU, {_shown(engine[at])} on the engine"
    index = ", ".join(map(str, np.unravel_index(at, shape)))
    return (
        f"{int(wrong.sum())} of {wrong.size} elements, at [{index}] {_shown(gpu[at])} on the GPU, "
        f"{_shown(engine[at])} on the engine"
    )


def _shown(number: Any) -> str:
    return str(number) if number.dtype.kind in "biu" else f"{float(number):.6g}"


def _alike(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    same: NDArray[Any] = (one == other) | (np.isnan(one) & np.isnan(other))
    return same


def _step(dtype: np.dtype[Any]) -> float:
    """How far neighbours of a type are apart, relatively."""
    return next(2.0**-n for n in count() if dtype.type(1) + dtype.type(2.0 ** -(n + 1)) == 1)


def _described(site: dict[str, Any], visit: int) -> str:
    """A value by its variable, its line and its operation."""
    places = [(m[1], m[2], int(m[3])) for m in _LOCATION.finditer(site["where"])]
    own = [each for each in places if not is_triton_file(each[1])]
    times = "" if visit == 1 else f", the {_ordinal(visit)} time"
    operation = f"`{site['name']}`{times}"
    if not own:
        return operation
    name, file, line = own[0]
    text = source_line(file, line).strip()
    shown = f"`{name}` at " if name else ""
    source = f" (`{text}`)" if text and "`" not in text else ""
    return f"{shown}{file}:{line}{source}, {operation}"


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number // 10 % 10 != 1 else 0, "th")
    return f"{number}{ending}"
