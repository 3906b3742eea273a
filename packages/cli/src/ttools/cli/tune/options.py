"""The options that only `ttools tune` has."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from ttools.cli import completion

_search = partial(typer.Option, rich_help_panel="Search")
_verify = partial(typer.Option, rich_help_panel="Verification")
_keep = partial(typer.Option, rich_help_panel="Store")
_report = partial(typer.Option, rich_help_panel="Report")

#: Output formats of tunings.
TuneFormat = Literal[
    "text",
    "markdown",
    "json",
    "csv",
    "lock",
    "t4",
    "html",
    "python",
    "vllm",
    "sglang",
    "flaggems",
    "triton",
]

TunedArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SCRIPT [ARGS]... | FILE.py:NAME | show|export|rules FILE | diff OLD NEW | check …",
        show_default=False,
        autocompletion=completion.words_or_scripts(("show", "export", "rules", "diff", "check")),
        help="A script and its arguments, a kernel in a file, or a subcommand and its stores.",
    ),
]
SpaceOption = Annotated[
    Path | None,
    _search(
        "--space",
        metavar="FILE.toml",
        help="Search space of FILE.py:KERNEL; by default the configs of its autotuner.",
    ),
]
InputsOption = Annotated[
    str | None,
    _search(
        "--inputs",
        metavar="FILE.py[:NAME]",
        help="File whose inputs() returns the arguments and the grid of FILE.py:KERNEL, or those "
        "of FILE.py:FUNCTION, as for `ttools verify`.",
    ),
]
SearchOption = Annotated[
    Literal["guided", "exhaustive"], _search("--search", help="Search strategy.")
]
EffortOption = Annotated[
    Literal["quick", "default", "full"],
    _search(
        "--effort",
        help="How many configurations a guided search tries. `quick`: 16; `default`: a quarter, "
        "but at least 32 and at most 500; `full`: all, but 2,500 if there are 10,000 or more. "
        "`--trials`, `--seconds` and `--within` take precedence.",
    ),
]
TrialsOption = Annotated[
    int | None,
    _search(
        "--trials",
        min=1,
        metavar="N",
        help="Maximum number of trials per key, including stored ones; overrides --effort.",
    ),
]
SecondsOption = Annotated[
    float | None,
    _search("--seconds", min=0, metavar="S", help="Start no new trial of a key after S seconds."),
]
WithinOption = Annotated[
    float | None,
    _search(
        "--within",
        metavar="X",
        help="Stop when the best configuration found is within X% of the optimum, with 95% "
        "confidence.",
    ),
]
HistoryOption = Annotated[
    bool,
    _report(
        "--history", help="With `export --format csv`: include trials that newer ones replaced."
    ),
]
GpuOption = Annotated[
    str | None,
    _search(
        *("--gpu", "--target", "--device"),
        metavar="GPU",
        autocompletion=completion.gpus,
        help="Tune for a GPU that is not present, given by name (h100) or architecture (sm_90): "
        "configurations are compiled for it, verified on the CPU, and ranked by a model.",
    ),
]
GpuFileOption = Annotated[
    Path | None,
    _search(
        "--device-file",
        metavar="FILE",
        help="Tune for the GPU described by a TOML file, as with --gpu.",
    ),
]
TunedOnlyOption = Annotated[
    list[str] | None,
    _search(
        "--only",
        metavar="KERNEL",
        autocompletion=completion.kernels,
        help="Run and tune only kernels of this name; repeatable.",
    ),
]
ReferenceOption = Annotated[
    str | None,
    _verify(
        "--reference",
        metavar="MODULE:FUNCTION",
        help="Compare outputs with those of this function, called with copies of the arguments by "
        "name, instead of those of the first configuration.",
    ),
]
OnOption = Annotated[
    Literal["cpu", "gpu"] | None,
    _search(
        "--on",
        help="Device to time on: this machine's GPU, the default if there is one, or the CPU.",
    ),
]
WorkersOption = Annotated[
    int | None,
    _search(
        "--workers",
        min=0,
        metavar="N",
        help="Compile ahead in N processes, and run configurations in one more; by default one per "
        "processor. 0 runs everything in this process.",
    ),
]
GpusOption = Annotated[
    str | None,
    _search(
        "--gpus",
        metavar="0,1,...",
        help="Run configurations on these GPUs in parallel, one process pinned to each.",
    ),
]
RayOption = Annotated[
    str | None,
    _search(
        "--ray",
        metavar="ADDRESS[@N]",
        help="Run configurations on a Ray cluster, N at a time, each in an actor with a GPU of its "
        "own; `local` starts a cluster on this machine.",
    ),
]
TimeoutOption = Annotated[
    float,
    _verify(
        "--timeout",
        min=0.1,
        metavar="S",
        help="Time limit for a configuration, including its compilation.",
    ),
]
SanitizeOption = Annotated[
    bool,
    _verify(
        "--sanitize",
        help="Run each configuration under the sanitizer first; reject those with errors.",
    ),
]
RtolOption = Annotated[
    float | None,
    _verify(
        "--rtol",
        min=0,
        metavar="X",
        help="Relative tolerance of floating-point outputs; by default it depends on the dtype.",
    ),
]
ScratchOption = Annotated[
    list[str] | None,
    _verify(
        "--scratch",
        metavar="NAME",
        help="Parameter whose contents after a launch are not compared; repeatable.",
    ),
]
ReproducibleOption = Annotated[
    str | None,
    _verify(
        "--reproducible",
        metavar="first|classes|NAME=VALUE,...",
        help="Let only configurations compete that give the same bits as the first one, or as the "
        "one with these values; or report classes of equal bits and their best times.",
    ),
]
StoreOption = Annotated[
    Path, _keep("--store", metavar="FILE", help="File in which all trials are stored.")
]
FreshOption = Annotated[bool, _keep("--fresh", help="Repeat trials that are already in the store.")]
LockOption = Annotated[
    Path | None,
    _keep("--lock", metavar="FILE", help="Write the winners to this file, for --locked."),
]
LockedOption = Annotated[
    bool, _keep("--locked", help="Use the winners of the lock file; measure nothing.")
]
TuneFormatOption = Annotated[
    TuneFormat | None,
    _report(
        "--format",
        help="Output format. Report and show: text, markdown, json or html; export: csv, json, "
        "lock, t4, vllm, sglang, flaggems or triton; diff: text or json; rules: python or json.",
    ),
]
