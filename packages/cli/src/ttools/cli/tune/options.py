"""The options of `ttools tune` that no other command has."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

_SEARCH = "Search"
_VERIFY = "Verification"
_KEEP = "Store"
_REPORT = "Report"


class TuneFormat(str, Enum):
    """How tunings are written."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    LOCK = "lock"
    HTML = "html"
    PYTHON = "python"


class Search(str, Enum):
    """The order in which configurations are tried."""

    GUIDED = "guided"
    EXHAUSTIVE = "exhaustive"


class On(str, Enum):
    """The device that is timed."""

    CPU = "cpu"
    GPU = "gpu"


TunedArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SCRIPT [ARGS]... | FILE.py:KERNEL | show|export|rules FILE | diff OLD NEW",
        show_default=False,
        help="A script and its arguments, a kernel in a file, or a subcommand and its stores.",
    ),
]
SpaceOption = Annotated[
    Path | None,
    typer.Option(
        "--space",
        metavar="FILE.toml",
        help="Search space of FILE.py:KERNEL; by default the configs of its autotuner.",
        show_default=False,
        rich_help_panel=_SEARCH,
    ),
]
InputsOption = Annotated[
    Path | None,
    typer.Option(
        "--inputs",
        metavar="FILE.py",
        help="File whose inputs() returns the arguments and the grid of FILE.py:KERNEL.",
        show_default=False,
        rich_help_panel=_SEARCH,
    ),
]
SearchOption = Annotated[
    Search,
    typer.Option("--search", help="Search strategy.", rich_help_panel=_SEARCH),
]
TrialsOption = Annotated[
    int | None,
    typer.Option(
        "--trials",
        min=1,
        metavar="N",
        help="Maximum trials per key; by default all configurations, or for a guided search over "
        "more than 128 a quarter of them, but at least 32.",
        show_default=False,
        rich_help_panel=_SEARCH,
    ),
]
SecondsOption = Annotated[
    float | None,
    typer.Option(
        "--seconds",
        min=0,
        metavar="S",
        help="Start no more trials of a key after S seconds.",
        show_default=False,
        rich_help_panel=_SEARCH,
    ),
]
WithinOption = Annotated[
    float | None,
    typer.Option(
        "--within",
        metavar="X",
        help="Stop when the best configuration found is within X% of the optimum, with 95% "
        "confidence.",
        show_default=False,
        rich_help_panel=_SEARCH,
    ),
]
HistoryOption = Annotated[
    bool,
    typer.Option(
        "--history",
        help="With `export --format csv`: include trials that newer ones replaced.",
        rich_help_panel=_REPORT,
    ),
]
GpuOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        "--device",
        metavar="GPU",
        help="Tune for a GPU that is not here, given by architecture (sm_90) or name (h100): "
        "configurations are compiled for it, verified on the CPU, and ranked by a model.",
        show_default=False,
        rich_help_panel=_SEARCH,
    ),
]
TunedOnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="KERNEL",
        help="Run and tune only kernels of this name; repeatable.",
        show_default=False,
        rich_help_panel=_SEARCH,
    ),
]
ReferenceOption = Annotated[
    str | None,
    typer.Option(
        "--reference",
        metavar="MODULE:FUNCTION",
        help="Compare outputs with those of this function, called with copies of the arguments by "
        "name, instead of those of the first configuration.",
        show_default=False,
        rich_help_panel=_VERIFY,
    ),
]
OnOption = Annotated[
    On | None,
    typer.Option(
        "--on",
        help="Device to time on: this machine's GPU, the default if there is one, or the CPU.",
        show_default=False,
        rich_help_panel=_SEARCH,
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=0,
        metavar="N",
        help="Compile ahead in N processes, and run configurations in one more; by default one per "
        "processor. 0 runs everything in this process.",
        show_default=False,
        rich_help_panel=_SEARCH,
    ),
]
GpusOption = Annotated[
    str | None,
    typer.Option(
        "--gpus",
        metavar="0,1,...",
        help="Run configurations on these GPUs in parallel, one process pinned to each.",
        show_default=False,
        rich_help_panel=_SEARCH,
    ),
]
RayOption = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS[@N]",
        help="Run configurations on a Ray cluster, N at a time, each in an actor with a GPU of its "
        "own; `local` starts a cluster on this machine.",
        show_default=False,
        rich_help_panel=_SEARCH,
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        min=0.1,
        metavar="S",
        help="Time limit of a configuration, compilation included.",
        rich_help_panel=_VERIFY,
    ),
]
SanitizeOption = Annotated[
    bool,
    typer.Option(
        "--sanitize",
        help="Run each configuration under the sanitizer first; reject those with errors.",
        rich_help_panel=_VERIFY,
    ),
]
RtolOption = Annotated[
    float | None,
    typer.Option(
        "--rtol",
        min=0,
        metavar="X",
        help="Relative tolerance of floating-point outputs; by default it depends on the dtype.",
        show_default=False,
        rich_help_panel=_VERIFY,
    ),
]
ScratchOption = Annotated[
    list[str] | None,
    typer.Option(
        "--scratch",
        metavar="NAME",
        help="Parameter whose contents after a launch are not compared; repeatable.",
        show_default=False,
        rich_help_panel=_VERIFY,
    ),
]
StoreOption = Annotated[
    Path,
    typer.Option(
        "--store", metavar="FILE", help="File that all trials are stored in.", rich_help_panel=_KEEP
    ),
]
FreshOption = Annotated[
    bool,
    typer.Option("--fresh", help="Repeat trials that are in the store.", rich_help_panel=_KEEP),
]
LockOption = Annotated[
    Path | None,
    typer.Option(
        "--lock",
        metavar="FILE",
        help="Write the winners to this file, for --locked.",
        show_default=False,
        rich_help_panel=_KEEP,
    ),
]
LockedOption = Annotated[
    bool,
    typer.Option(
        "--locked",
        help="Use the winners of the lock file; measure nothing.",
        rich_help_panel=_KEEP,
    ),
]
TuneFormatOption = Annotated[
    TuneFormat | None,
    typer.Option(
        "--format",
        help="Output format. Report and show: text, json or html; export: csv, json or lock; "
        "diff: text or json; rules: python or json.",
        show_default=False,
        rich_help_panel=_REPORT,
    ),
]
