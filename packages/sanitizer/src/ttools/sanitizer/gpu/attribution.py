"""Assigns errors to the launches that made them, and addresses to arguments.

The report of a tool does not say to which launch an error belongs. However, the report grows while
the program runs, and the log of launches contains its length, in bytes, before and after each
launch. An error therefore belongs to a launch that was running when the report had reached the
error's position.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence

from ttools.core.spec import ArgumentSpec
from ttools.sanitizer.gpu.launch_log import LogEntry, memory_of
from ttools.sanitizer.gpu.output import Record


class Attribution:
    """Finds the launch of a run that an error belongs to.

    Args:
        launches: Launches in the log of the run.
    """

    def __init__(self, launches: Sequence[LogEntry]) -> None:
        self._launches = sorted(launches, key=lambda launch: launch.begin)
        self._begins = [launch.begin for launch in self._launches]
        self._of_function: dict[str, list[LogEntry]] = defaultdict(list)
        for launch in self._launches:
            self._of_function[launch.function].append(launch)

    def of(self, record: Record) -> LogEntry | None:
        """Return the launch that made an error; None if the log has no such launch."""
        functions = {frame.function for frame in (record.frame, *record.frames) if frame}
        during = self._during(record.position)
        of_function = [launch for launch in during if launch.function in functions]
        if of_function:
            return of_function[0]
        # The error is in a function that was not inlined, so the reported name is not the kernel's.
        waited_for = [launch for launch in during if launch.end is not None]
        if waited_for:
            return waited_for[0]
        # For a kernel in a CUDA graph, errors are printed when the graph runs, after the launch
        # call.
        return max(
            filter(None, (self._last(name, record.position) for name in functions)),
            key=lambda launch: launch.begin,
            default=None,
        )

    def _during(self, position: int) -> list[LogEntry]:
        """Return the launches that were running at a position of the report, latest first.

        Several launches can run at a time, since threads launch independently.
        """
        running = []
        for index in range(bisect_right(self._begins, position) - 1, -1, -1):
            launch = self._launches[index]
            if launch.end is not None and launch.end <= position:
                break
            running.append(launch)
        return running

    def _last(self, function: str, position: int) -> LogEntry | None:
        launches = self._of_function.get(function, [])
        earlier = bisect_right(launches, position, key=lambda launch: launch.begin)
        return launches[earlier - 1] if earlier else None


def argument_at(
    arguments: Iterable[ArgumentSpec], address: int, names: frozenset[str] = frozenset()
) -> ArgumentSpec | None:
    """Return the argument through which an access was most likely made.

    Args:
        arguments: Arguments of the launch.
        address: Address of the access.
        names: Names of the parameters that the pointer derives from; empty if it is unknown.

    Returns:
        The argument whose storage contains the address. If no storage does, the nearest argument
        among `names`; None if `names` is empty.
    """
    pointers = [argument for argument in arguments if memory_of(argument) is not None]
    named = [argument for argument in pointers if argument.name in names]
    if len(named) == 1:
        return named[0]
    candidates = named or pointers
    nearest = min(candidates, key=lambda pointer: distance(pointer, address), default=None)
    if nearest is None or (not named and distance(nearest, address)):
        return None
    return nearest


def distance(argument: ArgumentSpec, address: int) -> int:
    """Return how many bytes an address is outside a tensor's storage; 0 if it is inside."""
    memory = memory_of(argument)
    assert memory is not None
    start, end = memory
    return max(start - address, address - (start + 1 if end is None else end) + 1, 0)
