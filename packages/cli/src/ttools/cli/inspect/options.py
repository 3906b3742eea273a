"""The options of `ttools inspect`: names, values and help, one type each."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

_REPORT = "Report"
_COMPILATION = "Compilation"


class InspectionFormat(str, Enum):
    """How an inspection is written."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


InspectedArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE.py:KERNEL | FILE.ttir | SCRIPT [ARGS]...",
        show_default=False,
        help="A kernel of a file, a .ttir file, or a script and its arguments.",
    ),
]


SignatureOption = Annotated[
    str | None,
    typer.Option(
        "--signature",
        metavar="TYPES",
        help="An entry per parameter: *fp32:16 (divisible by 16), i32, 1024 (a constant).",
        show_default=False,
        rich_help_panel=_COMPILATION,
    ),
]


TargetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        metavar="GPU",
        help="sm_80, sm_90, sm_100, gfx942, …; repeatable. By default this machine's.",
        show_default=False,
        rich_help_panel=_COMPILATION,
    ),
]


StageOption = Annotated[
    list[str] | None,
    typer.Option(
        "--stage",
        metavar="STAGE",
        help="Show ast, ttir, ttgir, llir, ptx, sass or amdgcn by source line; repeatable.",
        show_default=False,
        rich_help_panel=_COMPILATION,
    ),
]


InspectedOnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="KERNEL",
        help="Inspect only kernels of this name among those a script launches; repeatable.",
        show_default=False,
        rich_help_panel=_COMPILATION,
    ),
]


NumWarpsOption = Annotated[
    int | None,
    typer.Option(
        "--num-warps", min=1, metavar="N", help="Warps per block.", rich_help_panel=_COMPILATION
    ),
]


NumStagesOption = Annotated[
    int | None,
    typer.Option(
        "--num-stages",
        min=1,
        metavar="N",
        help="Stages of pipelined loops.",
        rich_help_panel=_COMPILATION,
    ),
]


AgainstOption = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="OTHER",
        help="Compare with another kernel (FILE.py:KERNEL, FILE.ttir) or another target.",
        show_default=False,
        rich_help_panel=_REPORT,
    ),
]


InspectionFormatOption = Annotated[
    InspectionFormat,
    typer.Option("--format", help="Format of the report.", rich_help_panel=_REPORT),
]


OutputDirOption = Annotated[
    Path | None,
    typer.Option(
        "--output-dir",
        metavar="DIR",
        help="Save all stages as files.",
        show_default=False,
        rich_help_panel=_REPORT,
    ),
]
