"""User options for running the programs of launches. This module must be fast to import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ttools.core.errors import UsageError
from ttools.interpreter.runtime.selection import Order


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """Options for running the programs of a launch.

    They are options of a run. The options with which a kernel is compiled are in `LaunchSpec`.

    Attributes:
        threads: Number of threads that run programs; by default as many as torch uses.
        order: Order in which programs start.
        seed: Seed of the random order and of `random:N` in `programs`.
        programs: Selection of the programs to run, in the syntax of `selection.py`; None for all.
        seconds: Time limit after which the launch is stopped; None for no limit.
    """

    threads: int | None = None
    order: Order = "natural"
    seed: int = 0
    programs: str | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise UsageError(f"threads={self.threads}: at least one thread is needed")
        if self.seconds is not None and not self.seconds > 0:
            raise UsageError(f"timeout={self.seconds}: must be a positive number of seconds")


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """Lets the programs of an eager launch run in groups; see `eager.groups`.

    Attributes:
        written: Start and end of each storage that the programs may write.
        first: Linear number of the program that runs first, and alone.
    """

    written: Sequence[tuple[int, int]]
    first: int = 0
