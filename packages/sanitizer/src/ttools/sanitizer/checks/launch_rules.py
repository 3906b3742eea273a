"""The check `launch`: launches that a GPU rejects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

from ttools.core.findings.findings import Finding
from ttools.core.gpus.launch_rules import GpuNeeds, Violation, broken_rules
from ttools.core.gpus.targets import ARCHITECTURES, read_target
from ttools.core.process.host_line import host_line
from ttools.interpreter.run.launch_rules import limits_in_force
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.sanitizer.analysis.shared_memory import shared_memory, tile_bytes
from ttools.sanitizer.checks.check import Check, Kind, Kinds

#: Kernels are compiled for this GPU if none is named; no other GPU has more shared memory.
_LARGEST = "sm_90"
_SKIPPED = "Triton's autotuner skips this configuration"


class GpuRules(Check):
    """Checks the rules of CUDA and Triton for grid, options, tensor devices and memory of a launch.

    The rules are listed in `ttools.core.gpus.launch_rules`. They are applied for the GPU that a
    device map names. If there is none, the largest limits of all GPUs apply.
    """

    name = "launch"
    page = "reference/launch_rules.md"
    data_hooks = frozenset[str]()
    kinds: ClassVar[Kinds] = {
        "refused_launch": Kind(
            severity="error",
            meaning="A GPU rejects the launch: the grid or a cluster is too large, a program needs "
            "too many threads or too much memory, a tensor is in host memory, or a kernel is "
            "autotuned while a CUDA graph is captured; a note if Triton's autotuner skips the "
            "configuration.",
        ),
    }

    def prepare(self, options: LaunchOptions) -> LaunchOptions:
        """Report the rules that the launch breaks, before it may be rejected."""
        self.checked.findings += map(self._refused, self.checked.launch.violations)
        return options

    def remarks(self) -> Iterable[Finding]:
        """Report a kernel that needs more shared memory than the emulated GPU has."""
        launch = self.checked.launch
        if not launch.on_gpu or launch.kernel.source is None:
            return ()
        refused = map(self._refused, self.checked.kernel.remember(GpuRules, self._of_memory))
        if self.checked.spec.site.choices == 1:
            return refused
        return [
            replace(finding, severity="note", message=f"{finding.message}; {_SKIPPED}")
            for finding in refused
        ]

    def _of_memory(self) -> Sequence[Violation]:
        limits, launch = limits_in_force(), self.checked.launch
        loaded, once = self.checked.kernel.fact(tile_bytes)
        if limits.shared is None or loaded * launch.kernel.options.stages + once <= limits.shared:
            return ()
        target = read_target(limits.gpu if limits.gpu in ARCHITECTURES else _LARGEST)
        return broken_rules(GpuNeeds(shared=shared_memory(launch, target)), limits)

    def _refused(self, violation: Violation) -> Finding:
        message = f"a GPU rejects this launch: {violation.message}"
        return self.finding("refused_launch", message, help=violation.help, count=0)


def tuned_in_capture(kernel: str) -> Finding:
    """Return the finding for a kernel that is autotuned while a CUDA graph is captured."""
    kind = "refused_launch"
    return Finding(
        kind=kind,
        check=GpuRules.name,
        severity=GpuRules.kinds[kind].severity,
        message="a GPU rejects this launch: the autotuner times the configurations while a CUDA "
        "graph is captured, which invalidates the capture",
        kernel=kernel,
        launch=host_line(),
        help="launch the kernel once with the same key before the capture",
        count=0,
    )
