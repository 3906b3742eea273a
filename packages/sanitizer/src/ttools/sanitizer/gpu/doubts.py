"""Errors of initcheck that are none: memory whose writing compute-sanitizer does not see.

NVIDIA documents that tensormap instructions on global memory are not tracked. Triton keeps the
descriptors that kernels make in scratch memory, and stores through descriptors with them. Must not
know how findings are worded.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ttools.sanitizer.gpu.launch_log import Launch
from ttools.sanitizer.gpu.output import Record
from ttools.sanitizer.gpu.sites import Site, written_through_descriptors


class UnseenWrites:
    """What the launches of a run wrote unseen.

    Args:
        folder: of the run, which holds the kernels' TTIR.
    """

    def __init__(self, launches: Sequence[Launch], folder: Path) -> None:
        self._written = [
            (launch.begin, argument)
            for launch in launches
            if launch.source is not None
            for argument in launch.arguments
            if argument.description.name in written_through_descriptors(folder / launch.source)
        ]

    def hold(self, record: Record) -> bool:
        """Whether an address may have been written through a descriptor before."""
        address = record.address
        return address is not None and any(
            begin <= record.position and argument.holds(address)
            for begin, argument in self._written
        )


def is_scratch(record: Record, launch: Launch | None, site: Site) -> bool:
    """Whether an access is the compiler's own, to memory that is no argument's."""
    if launch is None or record.address is None or not site.is_compilers:
        return False
    return not any(argument.holds(record.address) for argument in launch.arguments)
