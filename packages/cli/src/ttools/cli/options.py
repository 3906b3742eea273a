"""The options of the commands: their names, values and help, one type each.

A command lists the ones it takes in its signature; nothing here acts.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

_REPORT = "Report"
_LAUNCH = "Launch"
_TTIR = "Launching a .ttir file"
_CHECKS = "Checks"
_SUPPRESS = "Suppression"
_COMPILATION = "Compilation"
_GPU = "On a GPU"


class Engine(str, Enum):
    """What executes kernels."""

    NATIVE = "native"
    EAGER = "eager"


class Order(str, Enum):
    """The order in which programs start."""

    NATURAL = "natural"
    REVERSE = "reverse"
    RANDOM = "random"


class ReportFormat(str, Enum):
    """How a report is written."""

    TEXT = "text"
    JSON = "json"


class FindingsFormat(str, Enum):
    """How findings are written."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"
    HTML = "html"


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
    """What launches are told apart by."""

    SHADOW = "shadow"
    PYTHON = "python"


class ProfileData(str, Enum):
    """What Proton keeps of launches."""

    TRACE = "trace"
    TREE = "tree"


class InspectionFormat(str, Enum):
    """How an inspection is written."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


class Severity(str, Enum):
    """How grave a finding is."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class ViewBounds(str, Enum):
    """How grave it is to leave a tensor's elements inside its storage."""

    ERROR = "error"
    WARNING = "warning"
    OFF = "off"


class On(str, Enum):
    """Where kernels are checked."""

    CPU = "cpu"
    GPU = "gpu"


class DeviceMap(str, Enum):
    """What becomes of the CUDA devices that a script names."""

    CUDA_CPU = "cuda=cpu"
    OFF = "off"


WordsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SCRIPT [ARGS]...",
        show_default=False,
        help="A script and its arguments, or a .ttir file.",
    ),
]
ModuleOption = Annotated[
    str | None, typer.Option("-m", metavar="MODULE", help="Run a module, as `python -m` does.")
]
CodeOption = Annotated[
    str | None, typer.Option("-c", metavar="CODE", help="Run code, as `python -c` does.")
]

EngineOption = Annotated[
    Engine,
    typer.Option(
        "--engine",
        help="What executes kernels: native code, or Python for debuggers and print.",
        rich_help_panel=_LAUNCH,
    ),
]
PdbOption = Annotated[
    bool,
    typer.Option(
        "--pdb",
        help="Debug the script and its kernels, as `python -m pdb` does; implies --engine eager.",
        rich_help_panel=_LAUNCH,
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        metavar="N",
        help="Threads of a launch; by default what torch uses.",
        rich_help_panel=_LAUNCH,
    ),
]
OrderOption = Annotated[
    Order,
    typer.Option("--order", help="The order programs start in.", rich_help_panel=_LAUNCH),
]
SeedOption = Annotated[
    int,
    typer.Option("--seed", metavar="N", help="Seed of random choices.", rich_help_panel=_LAUNCH),
]
ProgramsOption = Annotated[
    str | None,
    typer.Option(
        "--programs",
        metavar="LIST",
        help="Run these programs only: 0,5:8,last,random:64.",
        rich_help_panel=_LAUNCH,
    ),
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="KERNEL",
        help="Interpret kernels of this name only; repeatable.",
        rich_help_panel=_LAUNCH,
    ),
]
DeviceMapOption = Annotated[
    DeviceMap | None,
    typer.Option(
        "--device-map",
        help="Let the CPU stand in for CUDA devices; the default where there is no GPU.",
        show_default=False,
        rich_help_panel=_LAUNCH,
    ),
]
FirstConfigOption = Annotated[
    bool,
    typer.Option(
        "--first-config",
        help="Autotuned kernels take their first config, untimed.",
        rich_help_panel=_LAUNCH,
    ),
]

StatsOption = Annotated[
    bool,
    typer.Option(
        "--stats", help="Report launches and times of each kernel.", rich_help_panel=_REPORT
    ),
]
FormatOption = Annotated[
    ReportFormat,
    typer.Option("--format", help="Format of the report.", rich_help_panel=_REPORT),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help="Write the report to a file.",
        show_default=False,
        rich_help_panel=_REPORT,
    ),
]

FindingsFormatOption = Annotated[
    FindingsFormat,
    typer.Option("--format", help="Format of the report.", rich_help_panel=_REPORT),
]
FailOnOption = Annotated[
    Severity,
    typer.Option(
        "--fail-on", help="Exit with 1 on findings from this on.", rich_help_panel=_REPORT
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
        help="Stop a run on a GPU after so long.",
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
        help="Severity of leaving a tensor's elements inside its storage.",
        rich_help_panel=_CHECKS,
    ),
]
MaxFindingsOption = Annotated[
    int,
    typer.Option(
        "--max-findings",
        min=1,
        metavar="N",
        help="Keep at most so many findings.",
        rich_help_panel=_CHECKS,
    ),
]
PdbOnFindingOption = Annotated[
    bool,
    typer.Option(
        "--pdb-on-finding",
        help="Drop into pdb at the first finding from --fail-on on: its line, program and state.",
        rich_help_panel=_CHECKS,
    ),
]
SuppressionsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--suppressions",
        metavar="FILE",
        help="Rules for findings that do not count, as TOML; repeatable.",
        rich_help_panel=_SUPPRESS,
    ),
]
BaselineOption = Annotated[
    Path | None,
    typer.Option(
        "--baseline",
        metavar="FILE",
        help="Findings that are known and do not count.",
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

GridOption = Annotated[
    str | None,
    typer.Option("--grid", metavar="X[,Y[,Z]]", help="The grid.", rich_help_panel=_TTIR),
]
ArgOption = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        metavar="NAME=VALUE",
        help="An argument: rand:f32[1024], zeros:f16[4,4], arange:i32[64], file.npy, 1000, 1.5; "
        "repeatable.",
        rich_help_panel=_TTIR,
    ),
]
DumpOutputsOption = Annotated[
    Path | None,
    typer.Option(
        "--dump-outputs",
        metavar="FILE.npz",
        help="Save the tensors as the launch leaves them.",
        rich_help_panel=_TTIR,
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="The same as --format json.", rich_help_panel=_REPORT)
]

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
        help="Show ast, ttir, ttgir, llir, ptx, sass or amdgcn by lines of source; repeatable.",
        show_default=False,
        rich_help_panel=_COMPILATION,
    ),
]
InspectedOnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="KERNEL",
        help="Of what a script launches, inspect kernels of this name; repeatable.",
        show_default=False,
        rich_help_panel=_COMPILATION,
    ),
]
NumWarpsOption = Annotated[
    int | None,
    typer.Option(
        "--num-warps", min=1, metavar="N", help="Warps of a block.", rich_help_panel=_COMPILATION
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
        help="Tell launches apart by Proton's scopes (shadow) or by Python's call stack.",
        rich_help_panel=_REPORT,
    ),
]
DataOption = Annotated[
    ProfileData,
    typer.Option(
        "--data",
        help="Let Proton trace every launch, or keep sums in a tree, which costs less.",
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
        help="Of Proton's backend: periodic_flushing, pcsampling.",
        show_default=False,
        rich_help_panel=_GPU,
    ),
]
ProtonFileOption = Annotated[
    Path | None,
    typer.Option(
        "--proton-file",
        metavar="FILE",
        help="Keep the file that Proton writes.",
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
    typer.Option("--lines", help="Tell what each line of source does.", rich_help_panel=_REPORT),
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
CountsOption = Annotated[
    bool,
    typer.Option(
        "--counts/--no-counts",
        help="Count operations and bytes; on a GPU this copies tensors to the host.",
        rich_help_panel=_REPORT,
    ),
]
