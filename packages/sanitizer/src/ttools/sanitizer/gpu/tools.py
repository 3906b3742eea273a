"""The tools of compute-sanitizer, with the check to which each corresponds and its options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ttools.core.errors import UsageError
from ttools.sanitizer.checks.registry import default_checks

#: Maximum number of errors that a tool prints in one run.
PRINT_LIMIT = 20_000
#: Number of bytes between allocations. An access that is out of bounds by less than this cannot hit
#: another allocation.
_PADDING = 4096

_COMMON = (
    *("--target-processes", "all"),
    *("--launch-timeout", "0"),
    *("--print-limit", str(PRINT_LIMIT)),
    *("--strip-paths", "no"),
    *("--demangle", "simple"),
    *("--show-backtrace", "device"),
    # A program may exit with any status, and it may use no GPU at all.
    *("--check-exit-code", "no"),
    *("--require-cuda-init", "no"),
)


@dataclass(frozen=True)
class GpuTool:
    """One tool of compute-sanitizer.

    Attributes:
        name: Value of the option `--tool`.
        check: The ttools check that corresponds to the tool; the tool's findings are reported as
            findings of this check.
        options: Options in addition to those that all tools have.
    """

    name: str
    check: str
    options: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Name of the tool in messages."""
        return f"compute-sanitizer {self.name}"

    def arguments(self, report: Path) -> list[str]:
        """Return the options of a run; the tool prints to the file `report`."""
        named = ("--tool", self.name, "--log-file", str(report).replace("%", "%%"))
        return [*named, *_COMMON, *self.options]


#: The tools, in the order in which they run.
TOOLS = (
    GpuTool(
        "memcheck",
        "memcheck",
        (
            *("--padding", str(_PADDING)),
            # An invalid access terminates its kernel, and the program continues.
            *("--destroy-on-device-error", "kernel"),
            # torch makes API calls that fail, and handles these errors itself.
            *("--report-api-errors", "no"),
        ),
    ),
    GpuTool("racecheck", "racecheck"),
    # A copy of memory that was never written is not a defect by itself.
    GpuTool("initcheck", "initcheck", ("--check-api-memory-access", "no")),
    GpuTool("synccheck", "deadlock"),
)
_CHECKS = tuple(dict.fromkeys(tool.check for tool in TOOLS))


def tools_for(checks: frozenset[str]) -> tuple[tuple[GpuTool, ...], str | None]:
    """Return the tools that make these checks, and a sentence on checks without a tool.

    The sentence is None if every check has a tool, or if `checks` contains the whole default set.

    Raises:
        UsageError: No tool makes any of the checks.
    """
    tools = tuple(tool for tool in TOOLS if tool.check in checks)
    left = sorted(checks - set(_CHECKS))
    if not tools:
        raise UsageError(
            f"not available on a GPU: {_listed(left)}; choose from {', '.join(_CHECKS)}, "
            "or check on the CPU"
        )
    whole_sets = checks >= default_checks()
    if left and not whole_sets:
        return tools, f"{_listed(left)}: available on the CPU only"
    return tools, None


def _listed(names: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)
