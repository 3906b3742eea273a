"""The options of `ttools inspect`: names, values and help, one type each."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from ttools.cli import completion

_report = partial(typer.Option, rich_help_panel="Report")
_compilation = partial(typer.Option, rich_help_panel="Compilation")

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
    _compilation(
        "--signature",
        metavar="TYPES",
        help="An entry per parameter: *fp32:16 (divisible by 16), i32, 1024 (a constant).",
    ),
]
TargetOption = Annotated[
    list[str] | None,
    _compilation(
        "--target",
        metavar="GPU",
        autocompletion=completion.architectures,
        help="sm_80, sm_90, sm_100, gfx942, …; repeatable. By default this machine's.",
    ),
]
StageOption = Annotated[
    list[str] | None,
    _compilation(
        "--stage",
        metavar="STAGE",
        help="Show ast, ttir, ttgir, llir, ptx, sass or amdgcn by source line; repeatable.",
    ),
]
InspectedOnlyOption = Annotated[
    list[str] | None,
    _compilation(
        "--only",
        metavar="KERNEL",
        help="Inspect only kernels of this name among those a script launches; repeatable.",
    ),
]
NumWarpsOption = Annotated[
    int | None, _compilation("--num-warps", min=1, metavar="N", help="Warps per block.")
]
NumStagesOption = Annotated[
    int | None, _compilation("--num-stages", min=1, metavar="N", help="Stages of pipelined loops.")
]
AgainstOption = Annotated[
    str | None,
    _report(
        "--against",
        metavar="OTHER",
        help="Compare with another kernel (FILE.py:KERNEL, FILE.ttir) or another target.",
    ),
]
InspectionFormatOption = Annotated[
    Literal["text", "json", "html"], _report("--format", help="Format of the report.")
]
OutputDirOption = Annotated[
    Path | None, _report("--output-dir", metavar="DIR", help="Save all stages as files.")
]
LockOption = Annotated[
    Path | None,
    _report(
        "--lock",
        metavar="FILE",
        help="Record registers, spills, shared memory, instructions, counts in a file.",
    ),
]
CheckLockOption = Annotated[
    bool,
    _report("--check", help="Compare with the --lock file instead; exit with 1 beyond its limits."),
]
