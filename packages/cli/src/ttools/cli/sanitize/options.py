"""The options of `ttools sanitize`: names, values and help, one type each."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

_REPORT = "Report"
_CHECKS = "Checks"
_SUPPRESS = "Suppression"
_GPU = "On a GPU"


class FindingsFormat(str, Enum):
    """How findings are written."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"
    HTML = "html"


class Severity(str, Enum):
    """The severity of a finding."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class ViewBounds(str, Enum):
    """The severity of an access outside a tensor's elements but inside its storage."""

    ERROR = "error"
    WARNING = "warning"
    OFF = "off"


class On(str, Enum):
    """Where kernels are checked."""

    CPU = "cpu"
    GPU = "gpu"


FindingsFormatOption = Annotated[
    FindingsFormat,
    typer.Option("--format", help="Format of the report.", rich_help_panel=_REPORT),
]


FailOnOption = Annotated[
    Severity,
    typer.Option(
        "--fail-on",
        help="Exit with 1 on findings of at least this severity.",
        rich_help_panel=_REPORT,
    ),
]


RequireLaunchesOption = Annotated[
    bool,
    typer.Option(
        "--require-launches",
        help="Exit with 1 when no kernel was launched.",
        rich_help_panel=_REPORT,
    ),
]


CheckOption = Annotated[
    list[str] | None,
    typer.Option(
        "--check",
        metavar="CHECKS",
        help="memcheck, racecheck, initcheck, overflow, hints, deadlock, numeric, all or default; "
        "repeatable, or separated by commas.",
        rich_help_panel=_CHECKS,
    ),
]


OnOption = Annotated[
    On,
    typer.Option(
        "--on",
        help="Where kernels run: on the CPU, or on a GPU under NVIDIA's compute-sanitizer.",
        rich_help_panel=_GPU,
    ),
]


TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        min=0.1,
        metavar="SECONDS",
        help="Stop a run on a GPU after this many seconds.",
        show_default=False,
        rich_help_panel=_GPU,
    ),
]


CheckedOnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="KERNEL",
        help="Check kernels of this name only, others run unchecked; repeatable.",
        rich_help_panel=_CHECKS,
    ),
]


AllConfigsOption = Annotated[
    bool,
    typer.Option(
        "--all-configs", help="Run every config of autotuned kernels.", rich_help_panel=_CHECKS
    ),
]


ViewBoundsOption = Annotated[
    ViewBounds,
    typer.Option(
        "--view-bounds",
        help="Severity of accesses outside a tensor's elements but inside its storage.",
        rich_help_panel=_CHECKS,
    ),
]


MaxFindingsOption = Annotated[
    int,
    typer.Option(
        "--max-findings",
        min=1,
        metavar="N",
        help="Report at most N findings, most severe first.",
        rich_help_panel=_CHECKS,
    ),
]


PdbOnFindingOption = Annotated[
    bool,
    typer.Option(
        "--pdb-on-finding",
        help="Enter pdb at the first finding that --fail-on counts: at its line, in its program.",
        rich_help_panel=_CHECKS,
    ),
]


SuppressionsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--suppressions",
        metavar="FILE",
        help="TOML file of suppression rules; repeatable.",
        rich_help_panel=_SUPPRESS,
    ),
]


BaselineOption = Annotated[
    Path | None,
    typer.Option(
        "--baseline",
        metavar="FILE",
        help="Known findings, which do not count.",
        show_default=False,
        rich_help_panel=_SUPPRESS,
    ),
]


UpdateBaselineOption = Annotated[
    bool,
    typer.Option(
        "--update-baseline",
        help="Write this run's findings to the baseline.",
        rich_help_panel=_SUPPRESS,
    ),
]
