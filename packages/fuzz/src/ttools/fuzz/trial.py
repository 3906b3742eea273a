"""The trial of one kernel: it runs in several variants, and each result is compared."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ttools.core.ownership import owner_of_class, owner_of_frame
from ttools.fuzz import oracle
from ttools.fuzz.comparison import Mismatch, compare
from ttools.fuzz.execution import FindingsError, Runner
from ttools.fuzz.memory import contents, short_limits
from ttools.fuzz.operations import access
from ttools.fuzz.program import Program
from ttools.fuzz.variants import Variant

#: Kinds of failure: wrong result, exception, finding of the sanitizer, rejected by Triton, process
#: crashed or timed out; for a comparison of three results, which of them differs from the others.
Kind = Literal[
    "wrong",
    "error",
    "finding",
    "rejected",
    "crash",
    "hang",
    "engine only",
    "gpu only",
    "oracle only",
    "all differ",
]
_DIFFERENCES = ("wrong", "engine only", "gpu only", "oracle only", "all differ")


@dataclass(frozen=True)
class Failure:
    """A kernel that failed.

    Attributes:
        message: Description in one or more lines.
        mismatch: The first buffer that is wrong, if any.
    """

    seed: int
    kind: Kind
    variant: str
    message: str
    mismatch: Mismatch | None = None

    @property
    def cause(self) -> str:
        """A text that is equal for failures that may have the same reason."""
        if self.kind in _DIFFERENCES:
            return self.kind
        lines = [line.strip() for line in self.message.splitlines() if line.strip(" ^|")]
        words = re.sub(r"0x[0-9a-f]+|[%@]?\w*\d+\w*", "#", " ".join(lines[:4]))
        return f"{self.kind}: {words}"[:160]


@dataclass(frozen=True)
class Verdict:
    """The result of a kernel's trial.

    Attributes:
        variants: Names of the variants that ran.
        seconds: CPU time of the worker process in seconds.
    """

    seed: int
    variants: tuple[str, ...]
    failures: tuple[Failure, ...]
    seconds: float


def examine(
    program: Program,
    variants: Sequence[Variant],
    folder: Path,
    *,
    cpu: str = "",
    announce: Callable[[str], None] = lambda _: None,
) -> Verdict:
    """Run a kernel in every variant.

    Args:
        folder: Folder for the kernel's source.
        cpu: Target CPU of variants that do not set one.
        announce: Called with the name of each variant before it runs.
    """
    start = time.process_time()
    before = {buffer.name: contents(buffer) for buffer in program.buffers}
    expected = oracle.run(program)
    buffers = {buffer.name: buffer for buffer in program.buffers}
    runner = Runner(program, folder, cpu)
    failures, ran = [], []
    for variant in variants:
        wanted = expected
        if variant.short:
            try:
                wanted = oracle.run(program, short_limits(program))
            except (access.UndefinedError, oracle.EndlessError):
                continue  # with zeros loaded past the ends, the result is not defined
        announce(variant.name)
        ran.append(variant.name)
        try:
            actual = runner.run(variant, before)
        except Exception as error:  # noqa: BLE001 - any exception is the kernel's verdict
            failures.append(_failure(program.seed, variant, error))
            if failures[-1].kind == "rejected":
                break
            continue
        wrong = compare(buffers, before, wanted, actual)
        if wrong:
            text = "\n".join(map(str, wrong))
            failures.append(Failure(program.seed, "wrong", variant.name, text, wrong[0]))
    return Verdict(program.seed, tuple(ran), tuple(failures), time.process_time() - start)


def is_refusal(error: BaseException) -> bool:
    """Return whether Triton's front end raised an error, directly or through MLIR."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if owner_of_class(type(error)) == "triton":
        return True
    if last is None or owner_of_frame(last.tb_frame) != "triton":
        return False
    return str(last.tb_frame.f_globals.get("__name__")).split(".")[1:2] == ["compiler"]


def _failure(seed: int, variant: Variant, error: Exception) -> Failure:
    kind: Kind = "error"
    if isinstance(error, FindingsError):
        kind = "finding"
    elif is_refusal(error):
        kind = "rejected"
    text = f"{type(error).__name__}: {error}"
    if error.__cause__ is not None:
        text += f"\n{type(error.__cause__).__name__}: {error.__cause__}"
    return Failure(seed, kind, variant.name, text)
