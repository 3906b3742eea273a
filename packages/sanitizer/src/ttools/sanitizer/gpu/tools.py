"""The tools of compute-sanitizer: which check each stands for, and the options it is run with.

Owns the tables. What a tool prints is `output`'s business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ttools.core.errors import UsageError
from ttools.sanitizer.checks.registry import default_checks

#: So many errors are printed and counted in a run of a tool.
PRINT_LIMIT = 20_000
#: Between allocations, in bytes: what leaves one by less does not land in the next.
_PADDING = 4096

_COMMON = (
    *("--target-processes", "all"),
    *("--launch-timeout", "0"),
    *("--print-limit", str(PRINT_LIMIT)),
    *("--strip-paths", "no"),
    *("--demangle", "simple"),
    *("--show-backtrace", "device"),
    # The status of the program is its own business, and one that uses no GPU is no error.
    *("--check-exit-code", "no"),
    *("--require-cuda-init", "no"),
)


@dataclass(frozen=True)
class GpuTool:
    """One tool of compute-sanitizer.

    Attributes:
        name: as `--tool` wants it.
        check: of ttools, whose kinds its findings are.
        options: of its own.
    """

    name: str
    check: str
    options: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"compute-sanitizer {self.name}"

    def arguments(self, report: Path) -> list[str]:
        """Its command line up to the program; what it prints goes to `report`."""
        named = ("--tool", self.name, "--log-file", str(report).replace("%", "%%"))
        return [*named, *_COMMON, *self.options]


#: In the order they are run.
TOOLS = (
    GpuTool(
        "memcheck",
        "memcheck",
        (
            *("--padding", str(_PADDING)),
            # The rest of the program goes on.
            *("--destroy-on-device-error", "kernel"),
            # torch asks for much that may fail.
            *("--report-api-errors", "no"),
        ),
    ),
    GpuTool("racecheck", "racecheck"),
    # Copying memory that was never written decides nothing.
    GpuTool("initcheck", "initcheck", ("--check-api-memory-access", "no")),
    GpuTool("synccheck", "deadlock"),
)
_CHECKS = tuple(dict.fromkeys(tool.check for tool in TOOLS))


def tools_for(checks: frozenset[str]) -> tuple[tuple[GpuTool, ...], str | None]:
    """The tools that make these checks, and a sentence on the checks that none makes.

    Checks that are part of a whole set are left out without a sentence.

    Raises:
        UsageError: no tool makes any of them.
    """
    tools = tuple(tool for tool in TOOLS if tool.check in checks)
    left = sorted(checks - set(_CHECKS))
    if not tools:
        raise UsageError(
            f"on a GPU there is no {_listed(left)}; choose from {', '.join(_CHECKS)}, "
            "or check on the CPU"
        )
    whole_sets = checks >= default_checks()
    if left and not whole_sets:
        return tools, f"{_listed(left)}: made on the CPU only"
    return tools, None


def _listed(names: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)
