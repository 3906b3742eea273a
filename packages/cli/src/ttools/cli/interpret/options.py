"""The options of `interpret` that look into kernels: their names, values and help."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

_look = partial(typer.Option, rich_help_panel="Inspecting values")

FormatOption = Annotated[
    Literal["text", "json", "html"],
    typer.Option(
        "--format",
        help="Format of the report; html is a page of the values that programs computed, loaded "
        "and stored.",
        rich_help_panel="Report",
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help="Write the report to a file; - is standard output. Without it --stats writes to "
        "standard error.",
        rich_help_panel="Report",
    ),
]
WatchOption = Annotated[
    list[str] | None,
    _look(
        "--watch",
        metavar="NAME | FILE:LINE",
        help="Show the values of a variable, or of those assigned at a line; repeatable. All "
        "programs run; --programs chooses whose values are shown.",
    ),
]
TraceOption = Annotated[
    Path | None,
    _look(
        "--trace",
        metavar="FILE",
        help="Save the values of all variables, or of those that --watch names, to a file.",
    ),
]
TraceLimitOption = Annotated[
    str | None,
    _look(
        "--trace-limit",
        metavar="SIZE",
        help="Maximum size of recorded values, such as 500M or 2G; 256M by default.",
    ),
]
CompareOption = Annotated[
    str | None,
    _look(
        "--compare",
        metavar="eager | FILE",
        help="Find the first variable, line and lane that differ from the kernels run as Python, "
        "or from an earlier --trace; exit with 1 if there is one.",
    ),
]
RtolOption = Annotated[
    float | None,
    _look(
        "--rtol",
        min=0,
        metavar="R",
        help="Relative tolerance of --compare; by default that of torch.testing for the type.",
    ),
]
AtolOption = Annotated[
    float | None,
    _look(
        "--atol",
        min=0,
        metavar="A",
        help="Absolute tolerance of --compare; by default that of torch.testing for the type.",
    ),
]
UnsafeOption = Annotated[
    bool,
    typer.Option(
        "--unsafe",
        help="Make accesses outside of tensors, which damage the process; by default they are "
        "skipped and reported.",
        rich_help_panel="Launch",
    ),
]
