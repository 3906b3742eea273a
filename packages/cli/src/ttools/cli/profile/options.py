"""The options of `ttools profile`: names, values and help."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from ttools.cli import completion

_report = partial(typer.Option, rich_help_panel="Report")
_launch = partial(typer.Option, rich_help_panel="Launch")
_gpu = partial(typer.Option, rich_help_panel="On a GPU")

ProfiledArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SCRIPT [ARGS]... | compare|sweep|view ...",
        show_default=False,
        autocompletion=completion.words_or_scripts(("compare", "sweep", "view")),
        help="A script and its arguments, a .ttir file, or a command with options of its own.",
    ),
]
GpuOption = Annotated[
    str | None,
    _report(
        *("--gpu", "--device"),
        metavar="GPU",
        autocompletion=completion.gpus,
        help="Report bounds and projected times for a GPU (h100, a100, rtx4090, mi300x, …, or the "
        "first one with an architecture such as sm_90), and the registers, spills and occupancy of "
        "kernels compiled for it.",
    ),
]
DeviceFileOption = Annotated[
    Path | None,
    _report(
        "--device-file",
        metavar="FILE",
        help="Use the GPU described by a TOML file instead of one named with --gpu.",
    ),
]
ProfileTargetOption = Annotated[
    str | None,
    _report(
        "--target",
        metavar="GPU",
        hidden=True,
        autocompletion=completion.gpus,
        help="Compile for this architecture instead of that of --gpu.",
    ),
]
ContextOption = Annotated[
    Literal["shadow", "python"],
    _report(
        "--context", help="Group launches by Proton's scopes (shadow) or by Python's call stack."
    ),
]
DataOption = Annotated[
    Literal["trace", "tree"],
    _gpu("--data", help="Proton traces every launch, or keeps sums in a tree, which costs less."),
]
ProtonBackendOption = Annotated[
    str | None,
    _gpu(
        "--backend",
        metavar="NAME",
        help="Proton's source of times: cupti, rocprofiler, roctracer. By default, that of the "
        "GPU.",
    ),
]
ModeOption = Annotated[
    str | None,
    _gpu("--mode", metavar="MODE", help="Mode of Proton's backend: periodic_flushing, pcsampling."),
]
HookOption = Annotated[
    Literal["triton"] | None,
    _gpu("--hook", help="Include launch metadata of kernels in the file that Proton writes."),
]
ProtonFileOption = Annotated[
    Path | None,
    _gpu(
        "--proton-file", metavar="FILE", help="Keep the file that Proton writes, under this name."
    ),
]
InsideOption = Annotated[
    Literal["scopes", "lines"] | None,
    _gpu(
        "--inside",
        help="Instead of whole kernels, measure cycles inside them with Proton's instrumentation: "
        "of the scopes that kernels enter, or also of each line.",
    ),
]
TrialsOption = Annotated[
    bool, _gpu("--trials", help="Profile trials of autotuners like other launches.")
]
TreeOption = Annotated[bool, _report("--tree", help="Show scopes with the kernels in them.")]
LinesOption = Annotated[
    bool, _report("--lines", help="Report operations and bytes by source line.")
]
LineTimesOption = Annotated[
    bool | None,
    _report(
        "--line-times/--no-line-times",
        help="On the CPU, repeat first launches to sample the time of each line; the default with "
        "--lines and --format html.",
    ),
]
ProfileFormatOption = Annotated[
    Literal["text", "markdown", "json", "csv", "chrome", "html"],
    _report("--format", help="Format of the report."),
]
ProfiledOnOption = Annotated[
    Literal["auto", "cpu", "gpu"],
    _launch("--on", help="Where kernels run and are timed; auto is the GPU if there is one."),
]
WarmupOption = Annotated[
    int,
    _launch(
        "--warmup",
        metavar="N",
        help="Exclude the first N launches of each group of equal launches.",
    ),
]
IterationsOption = Annotated[
    int,
    _launch(
        "--iterations",
        metavar="N",
        help="Repeat each launch N times on the same memory; the program's results do not change.",
    ),
]
CountsOption = Annotated[
    bool,
    _report(
        "--counts/--no-counts",
        help="Count operations and bytes; on a GPU this copies tensors to the host.",
    ),
]
