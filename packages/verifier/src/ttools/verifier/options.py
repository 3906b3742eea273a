"""What a verification may be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ttools.core.environment import gpu_usable
from ttools.core.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class VerifyOptions:
    """How much is tried.

    Attributes:
        cases: how many at most; a run of fewer than the plan has is inconclusive unless it fails.
        seed: of inputs and random sizes.
        seconds: after which no case is begun, None for never; the run is then inconclusive unless
            it fails.
        launch_seconds: how long one launch may take.
        answer_seconds: how long one call may take.
        memory: bytes that each process may use beyond what it has when it begins.
        network: whether the candidate keeps its network.
        shrink: how many smaller inputs are tried for each class of failure.
        all_sizes_seconds: how long accesses are looked at for all sizes of the domain at once,
            after all else; 0 for not at all. By default 5, and 25 where the largest sizes make
            2^31 elements or more.
        replay: Whether calls are repeated, on other inputs too, in a process without the candidate.
            If "required", a candidate that cannot be verified by replay is inconclusive.
        replay_seed: Seed of the other inputs; by default they are drawn from the system, so that no
            candidate knows them.
        on: `gpu` has the candidate run on the GPU, too.
    """

    cases: int = 400
    seed: int = 0
    seconds: float | None = None
    launch_seconds: float = 20.0
    answer_seconds: float = 60.0
    memory: int = 8 << 30
    network: bool = False
    shrink: int = 16
    all_sizes_seconds: float | None = None
    replay: Literal["on", "off", "required"] = "on"
    replay_seed: int | None = None
    on: Literal["cpu", "gpu"] = "cpu"

    def __post_init__(self) -> None:
        for name in ("cases", "launch_seconds", "answer_seconds", "memory"):
            if getattr(self, name) <= 0:
                raise UsageError(f"{name}={getattr(self, name):g}: must be positive")
        if self.all_sizes_seconds is not None and self.all_sizes_seconds < 0:
            raise UsageError(f"all_sizes_seconds={self.all_sizes_seconds:g}: must be 0 or more")
        if self.replay not in ("on", "off", "required"):
            raise UsageError(f"replay={self.replay!r}: must be on, off or required")
        if self.on not in ("cpu", "gpu"):
            raise UsageError(f"on={self.on!r}: must be cpu or gpu")
        if self.on == "gpu" and not gpu_usable():
            raise UsageError("on=gpu: there is no GPU here that torch can use")
        if self.seconds is not None and self.seconds <= 0:
            raise UsageError(f"seconds={self.seconds:g}: must be positive")
