"""The search for the smallest kernel whose compilation fails in the same way as the original's."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ttools.core import shrinking
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.reduction.candidates import (
    NUMBER_STEPS,
    STEPS,
    lines,
    undefined_names,
    weight,
    without_unused,
)
from ttools.core.compilation.reduction.failure import CompileFailure
from ttools.core.compilation.reduction.trial import RESOURCES, Compiler
from ttools.core.compilation.standalone import StandaloneKernel, standalone_kernel
from ttools.core.gpus.launch_rules import limits_of
from ttools.core.gpus.targets import Target

#: Default time limits in seconds, of the search and of one compilation.
DEFAULT_SECONDS, DEFAULT_COMPILE_SECONDS = 300.0, 30.0
#: Columns of the comments in scripts.
_WIDTH = 80


@dataclass(frozen=True, kw_only=True)
class ReductionProgress:
    """The progress of a reduction.

    Attributes:
        candidates: Number of candidates compiled so far.
        lines: Number of lines of the smallest kernel so far.
    """

    candidates: int
    lines: int


@dataclass(frozen=True, kw_only=True)
class Reduction:
    """The result of reducing a kernel that does not compile.

    Attributes:
        original: The kernel before the reduction, as text.
        kernel: The smallest kernel found.
        failure: Failure of the smallest kernel.
        target: GPU for which neither kernel compiles.
        candidates: Number of candidates that were compiled.
        seconds: Duration of the search.
        ended: Reason for the end of the search: no candidate fails any more, the time limit, or
            Ctrl-C.
    """

    original: StandaloneKernel
    kernel: StandaloneKernel
    failure: CompileFailure
    target: Target
    candidates: int
    seconds: float
    ended: Literal["smallest", "timeout", "interrupted"]

    @property
    def script(self) -> str:
        """Return a script that reproduces the failure and needs only Triton."""
        note = "".join(f"{line}\n" for text in self.summary for line in _comment(text))
        after = self._comparison() if self.failure.kind == "resources" else ""
        return note + self.kernel.script(self.target, after)

    def _comparison(self) -> str:
        """Return statements that compare the compiled kernel's needs with the GPU's resources."""
        limits = limits_of(self.target)
        rules = {
            "threads": ("num_warps", self.target.threads, limits.threads, "threads per block"),
            "cluster": ("num_ctas", 1, limits.cluster, "blocks per cluster"),
            "shared_memory": ("shared", 1, limits.shared, "bytes of shared memory"),
            "tensor_memory": ("tmem_size", 1, limits.tensor_memory, "columns of tensor memory"),
        }
        name, factor, available, unit = rules[self.failure.error]
        needed = f"compiled.metadata.{name}{f' * {factor}' if factor > 1 else ''}"
        return (
            "# Triton rejects such a kernel when it is launched.\n"
            f"needed, available = {needed}, {available}\n"
            "if needed > available:\n"
            f'    message = f"needs {{needed:,}} {unit}, but only {{available:,}} are available"\n'
            "    raise SystemExit(message)"
        )

    @property
    def summary(self) -> list[str]:
        """Return lines that describe the failure and the search."""
        failure = self.failure
        fails = {
            "error": f"fails with {failure.error}",
            "crash": f"crashes ({failure.error})",
            "timeout": f"exceeds the time limit ({failure.error})",
            "resources": f"breaks the launch rule `{failure.error}`",
        }[failure.kind]
        before, after = lines(self.original), lines(self.kernel)
        ended = {
            "smallest": "no smaller candidate fails in the same way",
            "timeout": "stopped at the time limit, so a smaller kernel may exist",
            "interrupted": "interrupted, so a smaller kernel may exist",
        }[self.ended]
        rate = self.candidates / self.seconds if self.seconds else 0.0
        fails_in = f"{self.kernel.name} does not compile for {self.target.name}: it {fails} in"
        work = f"{self.candidates} candidates in {self.seconds:.1f} s ({rate:.3g}/s)"
        return [
            f"{fails_in} {failure.place}.",
            *(f"  {line}" for line in failure.message.splitlines()),
            *([f"help: {failure.remedy}"] if failure.remedy else []),
            f"Reduced from {before} to {after} lines with {work}; {ended}.",
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data with schema `ttools.reduction/1`."""
        return {
            "schema": "ttools.reduction/1",
            "kernel": self.kernel.name,
            "target": self.target.name,
            "failure": vars(self.failure),
            "lines": {"original": lines(self.original), "reduced": lines(self.kernel)},
            "candidates": self.candidates,
            "seconds": self.seconds,
            "ended": self.ended,
            "script": self.script,
        }


def _comment(text: str) -> list[str]:
    indent = "# " + " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(
        text, _WIDTH, initial_indent="# ", subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def reduce_failure(
    source: KernelSource | StandaloneKernel,
    target: Target,
    *,
    seconds: float = DEFAULT_SECONDS,
    compile_seconds: float = DEFAULT_COMPILE_SECONDS,
    on_progress: Callable[[ReductionProgress], object] = lambda _: None,
) -> Reduction | None:
    """Reduce a kernel whose compilation fails to the smallest one that fails in the same way.

    Candidates are compiled in worker processes, because they may crash or hang. Ctrl-C ends the
    search, and the smallest kernel found so far is returned.

    Args:
        source: The kernel, with its specialisation and launch options.
        seconds: Time limit of the search.
        compile_seconds: A compilation that takes longer counts as a failure.
        on_progress: Function to call after each candidate.

    Returns:
        The reduction; None if the kernel compiles.

    Raises:
        UsageError: The kernel cannot be written as a stand-alone script.
    """
    kernel = source if isinstance(source, StandaloneKernel) else standalone_kernel(source)
    with Compiler(target, compile_seconds) as compiler:
        failure = compiler.compile(kernel)
        if failure is None:
            return None
        return _Search(compiler, target, kernel, failure, on_progress).run(seconds)


class _Search:
    def __init__(
        self,
        compiler: Compiler,
        target: Target,
        kernel: StandaloneKernel,
        failure: CompileFailure,
        on_progress: Callable[[ReductionProgress], object],
    ) -> None:
        self._compiler, self._target, self._on_progress = compiler, target, on_progress
        self._original = self._best = kernel
        self._wanted = self._failure = failure
        self._last_stage = RESOURCES if failure.kind == "resources" else failure.stage
        self._tried: set[tuple[object, ...]] = set()
        self._candidates = 0

    def run(self, seconds: float) -> Reduction:
        began = time.monotonic()
        ended: Literal["smallest", "timeout", "interrupted"] = "smallest"
        try:
            steps = STEPS if self._wanted.kind == "timeout" else (*STEPS, *NUMBER_STEPS)
            shrinking.shrink(self._original, steps, self._accepts, began + seconds)
            if time.monotonic() >= began + seconds:
                ended = "timeout"
        except KeyboardInterrupt:
            ended = "interrupted"
        return Reduction(
            original=self._original,
            kernel=self._best,
            failure=self._failure,
            target=self._target,
            candidates=self._candidates,
            seconds=time.monotonic() - began,
            ended=ended,
        )

    def _accepts(
        self, candidate: StandaloneKernel, best: StandaloneKernel
    ) -> StandaloneKernel | None:
        try:
            tidy = without_unused(candidate)
        except SyntaxError:  # for example, an assignment to a constant
            return None
        key = (tidy.definitions, tidy.parameters, tidy.options)
        if key in self._tried or weight(tidy) >= weight(best):
            return None
        self._tried.add(key)
        if not undefined_names(tidy) <= undefined_names(best):
            return None
        failure = self._compiler.compile(tidy, self._last_stage)
        self._candidates += 1
        accepted = failure is not None and failure.is_like(self._wanted)
        if accepted:
            assert failure is not None
            self._best, self._failure = tidy, failure
        self._on_progress(ReductionProgress(candidates=self._candidates, lines=lines(self._best)))
        return tidy if accepted else None
