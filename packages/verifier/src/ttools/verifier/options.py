"""The options of a verification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ttools.core.device_map.map_option import emulated_gpu
from ttools.core.environment import gpu_usable
from ttools.core.errors import UsageError
from ttools.core.findings.findings import SEVERITIES, Severity

#: Function that receives the number of cases that were run, the number of cases that failed, and
#: the current activity after the cases, such as "reducing the inputs of failure 1 of 2". The
#: activity is empty while cases are run.
Progress: TypeAlias = Callable[[int, int, str], None]
#: Default of the maximum number of cases.
MOST_CASES = 400


@dataclass(frozen=True, kw_only=True)
class VerifyOptions:
    """Limits and choices of a verification.

    Attributes:
        cases: Maximum number of cases. If it is smaller than the number of cases in the plan, a
            pass says that it covers only a part of the plan. A run that reaches the default, 400,
            ends without a verdict.
        seed: Seed with which the inputs are drawn.
        seconds: Time in seconds after which no new case is begun; None for no limit. A run that
            ends because of this limit is inconclusive unless it fails.
        launch_seconds: Time limit of a launch in seconds.
        answer_seconds: Time limit of a call in seconds.
        memory: Bytes that each process may allocate after its start. An answer of a candidate's
            process may have at most a quarter of them.
        cpu_seconds: Limit of the CPU time of each process of the candidate, in seconds.
        network: If True, the candidate keeps the network of the system.
        shrink: Maximum number of attempts to reduce the inputs of a failure, for each class.
        all_sizes_seconds: Time limit of the check of accesses for all sizes of the domain at once,
            which runs last; 0 to skip it. The default is 5, or 25 if the product of the largest
            sizes is at least 2^31.
        replay: If "on", calls are repeated, also with other inputs, in a process without the
            candidate. If "required", the verdict is inconclusive unless all calls were repeated in
            this way.
        replay_seed: The hidden seed, from which random sizes and the other inputs follow. By
            default it is drawn from the system, so that no candidate can predict it.
        on: If `gpu`, the candidate also runs on the GPU.
        gpu: Name or architecture of the GPU that the CPU emulates for candidate and reference, such
            as `h100`: its compute capability, multiprocessors and launch rules. By default, the
            device map that the environment sets determines them.
        fail_on: Lowest severity of findings of the checks that are failures. Warnings are reported.
        fail_on_torch: If True, a candidate fails if torch finishes what its kernels have computed,
            for example by a final sum. By default, a note describes this work.
    """

    cases: int | None = None
    seed: int = 0
    seconds: float | None = None
    launch_seconds: float = 20.0
    answer_seconds: float = 60.0
    memory: int = 8 << 30
    cpu_seconds: int = 900
    network: bool = False
    shrink: int = 16
    all_sizes_seconds: float | None = None
    replay: Literal["on", "off", "required"] = "on"
    replay_seed: int | None = None
    on: Literal["cpu", "gpu"] = "cpu"
    gpu: str | None = None
    fail_on: Severity = "error"
    fail_on_torch: bool = False

    def __post_init__(self) -> None:
        if self.cases is not None and self.cases <= 0:
            raise UsageError(f"cases={self.cases}: must be positive")
        for name in ("launch_seconds", "answer_seconds", "memory", "cpu_seconds"):
            if getattr(self, name) <= 0:
                raise UsageError(f"{name}={getattr(self, name):g}: must be positive")
        if self.all_sizes_seconds is not None and self.all_sizes_seconds < 0:
            raise UsageError(f"all_sizes_seconds={self.all_sizes_seconds:g}: must be 0 or more")
        if self.replay not in ("on", "off", "required"):
            raise UsageError(f"replay={self.replay!r}: must be on, off or required")
        if self.on not in ("cpu", "gpu"):
            raise UsageError(f"on={self.on!r}: must be cpu or gpu")
        if self.fail_on not in SEVERITIES:
            raise UsageError(f"fail_on={self.fail_on!r}: must be {', '.join(SEVERITIES)}")
        if self.gpu is not None and self.on == "gpu":
            raise UsageError(f"gpu={self.gpu} is emulated on the CPU, so it needs on=cpu")
        emulated_gpu(None, self.gpu)
        if self.on == "gpu" and not gpu_usable():
            raise UsageError("on=gpu: there is no GPU here that torch can use")
        if self.seconds is not None and self.seconds <= 0:
            raise UsageError(f"seconds={self.seconds:g}: must be positive")
