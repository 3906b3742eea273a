"""The options of `ttools profile`: names, values and help, one type each."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

_REPORT = "Report"
_LAUNCH = "Launch"
_GPU = "On a GPU"


class ProfiledOn(str, Enum):
    """Where profiled kernels run."""

    AUTO = "auto"
    CPU = "cpu"
    GPU = "gpu"


class ProfileFormat(str, Enum):
    """How a profile is written."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    CHROME = "chrome"
    HTML = "html"


class ProfileContext(str, Enum):
    """What launches are grouped by."""

    SHADOW = "shadow"
    PYTHON = "python"


class ProfileData(str, Enum):
    """What Proton keeps of launches."""

    TRACE = "trace"
    TREE = "tree"


class ProtonHook(str, Enum):
    """What Proton is hooked to."""

    TRITON = "triton"


DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="GPU",
        help="Bound each launch by the roofline of h100, h200, a100, b200, rtx4090, mi300x, ….",
        show_default=False,
        rich_help_panel=_REPORT,
    ),
]


ProfileTargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="GPU",
        help="Compile for sm_80, sm_90, gfx942, …: registers, spills, occupancy. By default the "
        "device's.",
        show_default=False,
        rich_help_panel=_REPORT,
    ),
]


ContextOption = Annotated[
    ProfileContext,
    typer.Option(
        "--context",
        help="Group launches by Proton's scopes (shadow) or by Python's call stack.",
        rich_help_panel=_REPORT,
    ),
]


DataOption = Annotated[
    ProfileData,
    typer.Option(
        "--data",
        help="Proton traces every launch, or keeps sums in a tree, which costs less.",
        rich_help_panel=_GPU,
    ),
]


ProtonBackendOption = Annotated[
    str | None,
    typer.Option(
        "--backend",
        metavar="NAME",
        help="Proton's source of times: cupti, rocprofiler, roctracer. By default the GPU's own.",
        show_default=False,
        rich_help_panel=_GPU,
    ),
]


ModeOption = Annotated[
    str | None,
    typer.Option(
        "--mode",
        metavar="MODE",
        help="Mode of Proton's backend: periodic_flushing, pcsampling.",
        show_default=False,
        rich_help_panel=_GPU,
    ),
]


HookOption = Annotated[
    ProtonHook | None,
    typer.Option(
        "--hook",
        help="Include launch metadata of kernels in the file that Proton writes.",
        show_default=False,
        rich_help_panel=_GPU,
    ),
]


ProtonFileOption = Annotated[
    Path | None,
    typer.Option(
        "--proton-file",
        metavar="FILE",
        help="Keep the file that Proton writes, under this name.",
        show_default=False,
        rich_help_panel=_GPU,
    ),
]


TreeOption = Annotated[
    bool,
    typer.Option("--tree", help="Show scopes with the kernels in them.", rich_help_panel=_REPORT),
]


LinesOption = Annotated[
    bool,
    typer.Option(
        "--lines", help="Report operations and bytes by source line.", rich_help_panel=_REPORT
    ),
]


LineTimesOption = Annotated[
    bool,
    typer.Option(
        "--line-times/--no-line-times",
        help="On the CPU, sample the time of each line of a kernel.",
        rich_help_panel=_REPORT,
    ),
]


ProfileFormatOption = Annotated[
    ProfileFormat,
    typer.Option("--format", help="Format of the report.", rich_help_panel=_REPORT),
]


ProfiledOnOption = Annotated[
    ProfiledOn,
    typer.Option(
        "--on",
        help="Where kernels run and are timed; auto is the GPU where there is one.",
        rich_help_panel=_LAUNCH,
    ),
]


WarmupOption = Annotated[
    int,
    typer.Option(
        "--warmup",
        metavar="N",
        help="Exclude the first N of equal launches from all figures.",
        rich_help_panel=_LAUNCH,
    ),
]


IterationsOption = Annotated[
    int,
    typer.Option(
        "--iterations",
        metavar="N",
        help="Repeat each launch N times on the same memory; the program's results do not change.",
        rich_help_panel=_LAUNCH,
    ),
]


CountsOption = Annotated[
    bool,
    typer.Option(
        "--counts/--no-counts",
        help="Count operations and bytes; on a GPU this copies tensors to the host.",
        rich_help_panel=_REPORT,
    ),
]
