"""Launches in processes that the program forks: checked there, but in no report of this process.

Owns the page of memory that a process shares with its children, and the sentence that comes of it.
Processes that begin with a program of their own do not know the run and are not seen.
"""

from __future__ import annotations

import mmap
import os

from ttools.core.findings.findings import Finding

_LAUNCHED, _FOUND = 0, 1

#: An entry for each fork on the way to this process: asking for its number takes longer.
_forks: list[None] = []
os.register_at_fork(after_in_child=lambda: _forks.append(None))


class ForkedLaunches:
    """Whether forked processes launched kernels while the run was active in them."""

    def __init__(self) -> None:
        self._forks = len(_forks)
        self._page = mmap.mmap(-1, mmap.PAGESIZE)  # shared with what is forked from now on

    def note(self, findings: list[Finding]) -> None:
        """Notes a launch, if this process is not the one that the run began in.

        Args:
            findings: of the launch.
        """
        if len(_forks) != self._forks:
            self._page[_LAUNCHED] = 1
            if findings:
                self._page[_FOUND] = 1

    @property
    def warnings(self) -> list[str]:
        """What the user should know of them: at most one sentence."""
        if not self._page[_LAUNCHED]:
            return []
        found = "something" if self._page[_FOUND] else "nothing"
        launched = (
            "processes that the program forked launched kernels, which are not in this report"
        )
        return [f"{launched}; {found} was found there"]
