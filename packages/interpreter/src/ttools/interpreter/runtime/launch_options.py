"""How the programs of launches run, as users may choose it; imports nothing that takes time."""

from __future__ import annotations

from dataclasses import dataclass

from ttools.core.errors import UsageError
from ttools.interpreter.runtime.selection import Order


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """How to run the programs of a launch.

    They are the run's; those that a kernel is compiled with are the `LaunchSpec`'s.

    Attributes:
        threads: how many threads run programs; by default as many as torch uses.
        seed: of the random order and of `random:N` in `programs`.
        programs: which programs run, in the language of `selection`; all by default.
        seconds: after which the launch is stopped; None for never.
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
