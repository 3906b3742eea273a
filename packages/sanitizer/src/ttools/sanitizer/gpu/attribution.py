"""Which launch an error belongs to, and which argument an address.

Errors carry no launch: the report is printed while the program runs, so that an error belongs to
the launch during which it was printed. Must not know what an error means.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence

from ttools.core.spec import ArgumentSpec
from ttools.sanitizer.gpu.launch_log import LogEntry, memory_of
from ttools.sanitizer.gpu.output import Record


class Attribution:
    """Finds the launches of a run that errors belong to.

    Args:
        launches: as logged.
    """

    def __init__(self, launches: Sequence[LogEntry]) -> None:
        self._launches = sorted(launches, key=lambda launch: launch.begin)
        self._begins = [launch.begin for launch in self._launches]
        self._of_function: dict[str, list[LogEntry]] = defaultdict(list)
        for launch in self._launches:
            self._of_function[launch.function].append(launch)

    def of(self, record: Record) -> LogEntry | None:
        """The launch that made an error; None if it was none of the log's."""
        functions = {frame.function for frame in (record.frame, *record.frames) if frame}
        during = self._during(record.position)
        of_function = [launch for launch in during if launch.function in functions]
        if of_function:
            return of_function[0]
        # A function that is not inlined has a name of its own.
        waited_for = [launch for launch in during if launch.end is not None]
        if waited_for:
            return waited_for[0]
        # A launch from a graph prints its errors when the graph runs.
        return max(
            filter(None, (self._last(name, record.position) for name in functions)),
            key=lambda launch: launch.begin,
            default=None,
        )

    def _during(self, position: int) -> list[LogEntry]:
        """The launches under way, the last first: threads may launch at the same time."""
        found = []
        for index in range(bisect_right(self._begins, position) - 1, -1, -1):
            launch = self._launches[index]
            if launch.end is not None and launch.end <= position:
                break
            found.append(launch)
        return found

    def _last(self, function: str, position: int) -> LogEntry | None:
        known = self._of_function.get(function, [])
        earlier = bisect_right(known, position, key=lambda launch: launch.begin)
        return known[earlier - 1] if earlier else None


def argument_at(
    arguments: Iterable[ArgumentSpec], address: int, names: frozenset[str] = frozenset()
) -> ArgumentSpec | None:
    """The argument that an access was made through, as far as can be known.

    Args:
        names: those that the pointer derives from; empty if that is unknown.

    Returns:
        The one whose storage holds the address, else the nearest; without names, None if no
        storage holds it.
    """
    known = [each for each in arguments if memory_of(each) is not None]
    named = [each for each in known if each.name in names]
    if len(named) == 1:
        return named[0]
    candidates = named or known
    nearest = min(candidates, key=lambda each: distance(each, address), default=None)
    if nearest is None or (not named and distance(nearest, address)):
        return None
    return nearest


def distance(argument: ArgumentSpec, address: int) -> int:
    """Return how many bytes an address is outside a tensor's storage; 0 inside."""
    memory = memory_of(argument)
    assert memory is not None
    start, end = memory
    return max(start - address, address - (start + 1 if end is None else end) + 1, 0)
