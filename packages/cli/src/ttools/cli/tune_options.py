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
    """In which order configurations are tried."""

    GUIDED = "guided"
    EXHAUSTIVE = "exhaustive"


class On(str, Enum):
    """What times."""

    CPU = "cpu"
    GPU = "gpu"


TunedArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SCRIPT [ARGS]... | FILE.py:KERNEL | show|export|rules FILE | diff OLD NEW",
        show_default=False,
        help="A script and its arguments, a kernel of a file, or a word and a store or two.",
    ),
]
SpaceOption = Annotated[
    Path | None,
    typer.Option(
        "--space",
        metavar="FILE.toml",
        help="The space of FILE.py:KERNEL; by default the configs of its autotuner.",
        show_default=False,
        rich_help_panel=_SEARCH,
    ),
]
InputsOption = Annotated[
    Path | None,
    typer.Option(
        "--inputs",
        metavar="FILE.py",
        help="Defines inputs(), which returns the arguments and grid of FILE.py:KERNEL.",
        show_default=False,
        rich_help_panel=_SEARCH,
    ),
]
SearchOption = Annotated[
    Search,
    typer.Option("--search", help="Which configurations are tried first.", rich_help_panel=_SEARCH),
]
TrialsOption = Annotated[
    int | None,
    typer.Option(
        "--trials",
        min=1,
        metavar="N",
        help="Try at most so many configurations for each key; by default all, of a guided search "
        "a quarter of more than 128, but at least 32.",
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
        help="Begin no configuration of a key after so long.",
        show_default=False,
        rich_help_panel=_SEARCH,
    ),
]
WithinOption = Annotated[
    float | None,
    typer.Option(
        "--within",
        metavar="X",
        help="End a search when its best is within X% of the best of all, with confidence.",
        show_default=False,
        rich_help_panel=_SEARCH,
    ),
]
HistoryOption = Annotated[
    bool,
    typer.Option(
        "--history",
        help="Of `export --format csv`: also trials that newer ones took the place of.",
        rich_help_panel=_REPORT,
    ),
]
GpuOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        "--device",
        metavar="GPU",
        help="Choose for a GPU that is not here, by its architecture (sm_90) or name (h100): "
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
        help="Run and tune kernels of this name only; repeatable.",
        show_default=False,
        rich_help_panel=_SEARCH,
    ),
]
ReferenceOption = Annotated[
    str | None,
    typer.Option(
        "--reference",
        metavar="MODULE:FUNCTION",
        help="Compare outputs with this function's, called with copies of the arguments by name, "
        "instead of the first configuration's.",
        show_default=False,
        rich_help_panel=_VERIFY,
    ),
]
OnOption = Annotated[
    On | None,
    typer.Option(
        "--on",
        help="What times: the GPU of this machine, by default if there is one, or the CPU.",
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
        help="Compile ahead in so many processes, and run configurations in one more; by default "
        "one for each processor. 0 runs all in this process.",
        show_default=False,
        rich_help_panel=_SEARCH,
    ),
]
GpusOption = Annotated[
    str | None,
    typer.Option(
        "--gpus",
        metavar="0,1,...",
        help="Run configurations on these GPUs at a time, a process pinned to each.",
        show_default=False,
        rich_help_panel=_SEARCH,
    ),
]
RayOption = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS[@N]",
        help="Run configurations on a Ray cluster, N at a time, an actor with a GPU for each; "
        "`local` starts one here.",
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
        help="Give up a configuration that takes longer, its compilation included.",
        rich_help_panel=_VERIFY,
    ),
]
SanitizeOption = Annotated[
    bool,
    typer.Option(
        "--sanitize",
        help="Run each configuration under the sanitizer first; one with an error cannot win.",
        rich_help_panel=_VERIFY,
    ),
]
RtolOption = Annotated[
    float | None,
    typer.Option(
        "--rtol",
        min=0,
        metavar="X",
        help="How far floating-point outputs may differ; by default it depends on the dtype.",
        show_default=False,
        rich_help_panel=_VERIFY,
    ),
]
ScratchOption = Annotated[
    list[str] | None,
    typer.Option(
        "--scratch",
        metavar="NAME",
        help="A parameter whose contents do not matter after a launch; repeatable.",
        show_default=False,
        rich_help_panel=_VERIFY,
    ),
]
StoreOption = Annotated[
    Path,
    typer.Option("--store", metavar="FILE", help="The file of all trials.", rich_help_panel=_KEEP),
]
FreshOption = Annotated[
    bool,
    typer.Option("--fresh", help="Try again what the store knows.", rich_help_panel=_KEEP),
]
LockOption = Annotated[
    Path | None,
    typer.Option(
        "--lock",
        metavar="FILE",
        help="Write the winners to a file for --locked.",
        show_default=False,
        rich_help_panel=_KEEP,
    ),
]
LockedOption = Annotated[
    bool,
    typer.Option(
        "--locked",
        help="Take all winners from the lock file; measure nothing.",
        rich_help_panel=_KEEP,
    ),
]
TuneFormatOption = Annotated[
    TuneFormat | None,
    typer.Option(
        "--format",
        help="Of the report and of show: text, json or html; of export: csv, json or lock; of "
        "diff: text or json; of rules: python or json.",
        show_default=False,
        rich_help_panel=_REPORT,
    ),
]
