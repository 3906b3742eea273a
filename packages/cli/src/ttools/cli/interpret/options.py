"""The options of `interpret` that look into kernels: their names, values and help."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

_LOOK = "Inspecting values"


class InterpretFormat(str, Enum):
    """How `interpret` reports."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


FormatOption = Annotated[
    InterpretFormat,
    typer.Option(
        "--format",
        help="Format of the report; html is a page of the values that programs computed, loaded "
        "and stored.",
        rich_help_panel="Report",
    ),
]

WatchOption = Annotated[
    list[str] | None,
    typer.Option(
        "--watch",
        metavar="NAME | FILE:LINE",
        help="Show the values of a variable, or of those assigned at a line; repeatable. All "
        "programs run; --programs chooses whose values are shown.",
        rich_help_panel=_LOOK,
    ),
]
TraceOption = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        help="Save the values of all variables, or of those that --watch names, to a file.",
        show_default=False,
        rich_help_panel=_LOOK,
    ),
]
TraceLimitOption = Annotated[
    str | None,
    typer.Option(
        "--trace-limit",
        metavar="SIZE",
        help="Maximum size of recorded values, such as 500M or 2G; 256M by default.",
        show_default=False,
        rich_help_panel=_LOOK,
    ),
]
CompareOption = Annotated[
    str | None,
    typer.Option(
        "--compare",
        metavar="eager | FILE",
        help="Find the first variable, line and lane that differ from the kernels run as Python, "
        "or from an earlier --trace; exit with 1 if there is one.",
        show_default=False,
        rich_help_panel=_LOOK,
    ),
]
RtolOption = Annotated[
    float | None,
    typer.Option(
        "--rtol",
        min=0,
        metavar="R",
        help="Relative tolerance of --compare; by default that of torch.testing for the type.",
        show_default=False,
        rich_help_panel=_LOOK,
    ),
]
AtolOption = Annotated[
    float | None,
    typer.Option(
        "--atol",
        min=0,
        metavar="A",
        help="Absolute tolerance of --compare; by default that of torch.testing for the type.",
        show_default=False,
        rich_help_panel=_LOOK,
    ),
]
