"""The options of `ttools verify`: names, values and help, one type each."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

_report = partial(typer.Option, rich_help_panel="Report")
_run = partial(typer.Option, rich_help_panel="Run")

CandidateArgument = Annotated[
    str | None,
    typer.Argument(metavar="FILE.py:CANDIDATE", show_default=False, help="The function to verify."),
]
ReferenceOption = Annotated[
    str | None,
    typer.Option(
        "--reference", metavar="FILE.py:NAME", help="What the candidate must compute, in torch."
    ),
]
InputsOption = Annotated[
    str | None,
    typer.Option(
        "--inputs",
        metavar="FILE.py:NAME",
        help="Function that returns keyword arguments; its domain is DOMAIN beside it.",
    ),
]
BatchOption = Annotated[
    Path | None,
    _run(
        "--batch",
        metavar="FOLDER",
        help="Verify each file of a folder, which has candidate, reference and inputs.",
    ),
]
RayOption = Annotated[
    str | None,
    _run(
        "--ray",
        metavar="ADDRESS[@N]",
        help="Of --batch: verify files on a Ray cluster, N at a time; `local` starts one here.",
    ),
]
JobsOption = Annotated[
    int, _run("--jobs", min=1, metavar="N", help="Of --batch: how many at a time.")
]
CasesOption = Annotated[int, _run("--cases", min=1, metavar="N", help="Most cases to try.")]
SecondsOption = Annotated[
    float | None,
    _run("--seconds", min=1, metavar="S", help="Begin no case later; what is left is not passed."),
]
SeedOption = Annotated[int, _run("--seed", metavar="N", help="Seed of inputs and random sizes.")]
AllSizesOption = Annotated[
    float | None,
    _run(
        "--all-sizes-seconds",
        min=0,
        metavar="S",
        help="Most time for accesses at all sizes of the domain at once (5 to 25); 0 for none.",
    ),
]
OnOption = Annotated[
    Literal["cpu", "gpu"],
    _run("--on", help="Where the candidate runs: cpu is our engine; gpu has both, and compares."),
]
WriteTestsOption = Annotated[
    Path | None,
    _report("--write-tests", metavar="DIR", help="Write each failure as a pytest file."),
]
VerdictFormatOption = Annotated[
    Literal["text", "json"],
    _report("--format", help="Format of the report; of --batch, json is a line for each file."),
]
