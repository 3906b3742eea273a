"""Finds the first value of a kernel that differs between a GPU and the engine, from logs of both.

The permitted difference of floats is measured. The engine runs again with each value changed by
about a rounding error, and with different values in undefined lanes. If an integer or the control
flow of a program differs between these runs, it depends on rounding and is not compared.
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

#: A value may differ by this multiple of the largest change in the perturbed runs, plus one step
#: of its type.
_ROOM = 8
_LOCATION = re.compile(r'(?:"([^"]+)"\()?"([^"]+)":(\d+):(\d+)')

Launch = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Found:
    """Result of a comparison of logs.

    Attributes:
        difference: Description of the first value that differs; empty if none does.
        limits: Description of the values that were not compared; empty if all were.
    """

    difference: str = ""
    limits: str = ""


class _DamagedError(Exception):
    """A log is not in the expected format."""


def first_difference(
    gpu: Sequence[Launch], engine: Sequence[Launch], perturbed: Sequence[Sequence[Launch]]
) -> Found:
    """Find the first difference, in the earliest launch and the program with the lowest number.

    Args:
        gpu: Logs of the launches of a call on the GPU.
        engine: Logs of the same launches on the engine.
        perturbed: Logs of further runs of the engine with small changes to all values.
    """
    names = [launch["kernel"] for launch in gpu]
    if any([launch["kernel"] for launch in other] != names for other in (engine, *perturbed)):
        return Found(limits="the launches on the GPU differ from those on the engine")
    limits: dict[str, None] = {}
    modules: list[dict[int, Any]] = [{} for _ in (gpu, engine, *perturbed)]
    for number, launches in enumerate(zip(gpu, engine, *perturbed, strict=True), 1):
        try:
            for descriptions, launch in zip(modules, launches, strict=True):
                if "described" in launch:
                    descriptions[launch["module"]] = launch["described"]
            described = [
                descriptions[launch["module"]]
                for descriptions, launch in zip(modules, launches, strict=True)
            ]
            difference = _in_launch(launches, described, limits)
        except (_DamagedError, KeyError, IndexError, TypeError, ValueError):
            limits[f"the log of launch {number} cannot be read"] = None
            continue
        if difference:
            where = f"launch {number} of the call (`{launches[0]['kernel']}`)"
            return Found(difference=f"{where}, {difference}", limits="; ".join(limits))
    return Found(limits="; ".join(limits))


def _in_launch(
    launches: Sequence[Launch], described: Sequence[dict[str, Any]], limits: dict[str, None]
) -> str:
    kernel = launches[0]["kernel"]
    sites = described[0]["sites"]
    if any(_shapes(module["sites"]) != _shapes(sites) for module in described[1:]):
        limits[
            f"the compiler produces different TTIR of `{kernel}` for the GPU and for the engine"
        ] = None
        return ""
    logged = min(len(launch["logs"]) for launch in launches)
    if logged < max(launch["programs"] for launch in launches):
        limits[f"only the first {logged} programs of `{kernel}` were compared"] = None
    stored = {
        item["value"][0]
        for block in described[0]["blocks"]
        for item in block["items"]
        if "value" in item
    }
    for program in range(logged):
        streams = [
            _Log(launch["logs"][program], module["blocks"]).values()
            for launch, module in zip(launches, described, strict=True)
        ]
        difference = _in_program(sites, stored, streams)
        if difference:
            return f"program {program}: {difference}"
        if any(launch["lengths"][program] > len(launch["logs"][program]) for launch in launches):
            limits[f"the last values of long programs of `{kernel}` were not compared"] = None
    return ""


def _shapes(sites: Sequence[dict[str, Any]]) -> list[Any]:
    return [(site["name"], site["element"], site["shape"]) for site in sites]


class _Log:
    """The values of one program, in the order in which they were computed.

    Args:
        data: Bytes of the log.
        blocks: Layouts of the log's entries; the first layout has number 1.
    """

    def __init__(self, data: bytes, blocks: Sequence[dict[str, Any]]) -> None:
        self._data, self._blocks = data, blocks
        self._at = 0

    def _next(self) -> int:
        """Return the next entry's block; 0 if there is no entry or it did not fit in the log."""
        number = int.from_bytes(self._data[self._at : self._at + 8], "little")
        if number > len(self._blocks):
            raise _DamagedError
        return number

    def values(self, inside: Sequence[int] | None = None) -> Iterator[tuple[int, memoryview]]:
        """Yield, for each value, the number of its site and the memory that begins with it.

        Args:
            inside: Blocks whose entries are read, up to the first entry of a block that is not
                among them; None to read the entries of all blocks.
        """
        while (number := self._next()) and (inside is None or number in inside):
            block = self._blocks[number - 1]
            entry = memoryview(self._data)[self._at : self._at + block["size"]]
            self._at += block["size"]
            for item in block["items"]:
                if "inner" in item:
                    yield from self.values(item["inner"])
                else:
                    site, offset = item["value"]
                    yield site, entry[offset:]


def _in_program(
    sites: Sequence[dict[str, Any]], stored: set[int], streams: Sequence[Iterator[tuple[int, Any]]]
) -> str:
    chosen = [(entry for entry in stream if entry[0] in stored) for stream in streams]
    visits: dict[int, int] = {}
    last = ""
    while True:
        values = [next(stream, None) for stream in chosen]
        next_sites = [None if entry is None else entry[0] for entry in values]
        if len(set(next_sites[1:])) > 1:
            return ""  # the control flow depends on rounding
        if next_sites[0] != next_sites[1]:
            if None in next_sites:
                return ""  # one of the logs was full
            where = last or "at its beginning"
            return f"{where}, the program takes a different path than on the engine"
        site = next_sites[0]
        if site is None:
            return ""
        visits[site] = visits.get(site, 0) + 1
        description = sites[site]
        kind = element_of(description["element"]).dtype
        lanes = int(np.prod(description["shape"], dtype=np.int64))
        arrays = [np.frombuffer(entry[1], kind, lanes) for entry in values if entry is not None]
        differs = _difference(arrays[0], arrays[1], arrays[2:], description)
        if differs:
            return f"{_described(description, visits[site])}: {differs}"
        last = f"after {_described(description, visits[site])}"


def _difference(
    gpu: NDArray[Any], engine: NDArray[Any], perturbed: Sequence[NDArray[Any]], site: dict[str, Any]
) -> str:
    """Describe how a value differs between the GPU and the engine; empty if it does not differ."""
    if gpu.dtype.kind in "biu":
        steady = np.logical_and.reduce([run == engine for run in perturbed] or [engine == engine])
        wrong = (gpu != engine) & steady
    else:
        one, other = gpu.astype(np.float64), engine.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            spread = np.zeros(len(other))
            for run in perturbed:
                near = run.astype(np.float64)
                # If a value is infinite or NaN in only some of the runs, it may have any value on
                # the GPU.
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
    """Return the relative distance of neighbouring values of a type."""
    return next(2.0**-n for n in count() if dtype.type(1) + dtype.type(2.0 ** -(n + 1)) == 1)


def _described(site: dict[str, Any], visit: int) -> str:
    """Describe a value by its variable, its line and its operation."""
    places = [(m[1], m[2], int(m[3])) for m in _LOCATION.finditer(site["where"])]
    own = [place for place in places if not is_triton_file(place[1])]
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
