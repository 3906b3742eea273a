"""The options of `ttools sanitize`: names, values and help, one type each."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from ttools.cli import completion

_report = partial(typer.Option, rich_help_panel="Report")
_checks = partial(typer.Option, rich_help_panel="Checks")
_suppress = partial(typer.Option, rich_help_panel="Suppression")
_gpu = partial(typer.Option, rich_help_panel="On a GPU")

FindingsFormatOption = Annotated[
    Literal["text", "json", "sarif", "junit", "github", "html"],
    _report("--format", help="Format of the report."),
]
FailOnOption = Annotated[
    Literal["error", "warning", "note"],
    _report("--fail-on", help="Exit with 1 on findings of at least this severity."),
]
RequireLaunchesOption = Annotated[
    bool, _report("--require-launches", help="Exit with 1 when no kernel was launched.")
]
CheckOption = Annotated[
    list[str] | None,
    _checks(
        "--check",
        metavar="CHECKS",
        autocompletion=completion.checks,
        help="memcheck, racecheck, initcheck, overflow, hints, deadlock, launch, numeric, all or "
        "default; repeatable, or separated by commas.",
    ),
]
OnOption = Annotated[
    Literal["cpu", "gpu"],
    _gpu(
        "--on", help="Where kernels run: on the CPU, or on a GPU under NVIDIA's compute-sanitizer."
    ),
]
InstrumentOption = Annotated[
    list[str] | None,
    _gpu(
        "--instrument",
        metavar="MODES",
        help="Run under Triton's own instrumentation, too: consan, gsan or iisan, or asan on AMD's "
        "GPUs; repeatable, or separated by commas.",
    ),
]
TimeoutOption = Annotated[
    float | None,
    _checks(
        "--timeout",
        min=0,
        metavar="SECONDS",
        help="The most time that compiling the kernel of a launch, running it and each analysis of "
        "it may take, 600 by default; with --sizes and --all-sizes the time to compute a verdict, "
        "25 by default; with --on gpu the whole run, any by default. 0 for any time.",
    ),
]
CheckedOnlyOption = Annotated[
    list[str] | None,
    _checks(
        "--only",
        metavar="KERNEL",
        help="Check kernels of this name only, others run unchecked; repeatable.",
    ),
]
SizesOption = Annotated[
    list[str] | None,
    _checks(
        "--sizes",
        metavar="NAME=FIRST:LAST",
        help="Check a function, FILE.py:FUNCTION, for all sizes of a range at once; repeatable.",
    ),
]
AssumeOption = Annotated[
    list[str] | None,
    _checks(
        "--assume",
        metavar="PARAMETER=LOW:HIGH[,distinct][,sorted]",
        help="Take integers in a tensor to be so, with --sizes or --all-sizes: `index=0:n-1`; "
        "repeatable.",
    ),
]
AllSizesOption = Annotated[
    bool,
    _checks(
        "--all-sizes",
        help="Check the launches of a script for all sizes; --sizes gives sizes other ranges.",
    ),
]
AllConfigsOption = Annotated[
    bool, _checks("--all-configs", help="Run every config of autotuned kernels.")
]
PoisonOption = Annotated[
    bool,
    _checks(
        "--poison",
        help="Fill unwritten memory and undefined lanes with NaN, or junk if they are integers.",
    ),
]
ViewBoundsOption = Annotated[
    Literal["error", "warning", "off"] | None,
    _checks(
        "--view-bounds",
        show_default="stores: error, loads: warning",
        help="Severity of accesses outside a tensor's elements but inside its storage.",
    ),
]
MaxFindingsOption = Annotated[
    int,
    _checks(
        "--max-findings", min=1, metavar="N", help="Report at most N findings, most severe first."
    ),
]
PdbOnFindingOption = Annotated[
    bool,
    _checks(
        "--pdb-on-finding",
        help="Enter pdb at the first finding that --fail-on counts: at its line, in its program.",
    ),
]
SuppressionsOption = Annotated[
    list[Path] | None,
    _suppress("--suppressions", metavar="FILE", help="TOML file of suppression rules; repeatable."),
]
BaselineOption = Annotated[
    Path | None, _suppress("--baseline", metavar="FILE", help="Known findings, which do not count.")
]
UpdateBaselineOption = Annotated[
    bool, _suppress("--update-baseline", help="Write this run's findings to the baseline.")
]
