"""The options that several commands share, and those of `interpret`: names, values and help.

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


class Engine(str, Enum):
    """What executes kernels."""

    NATIVE = "native"
    EAGER = "eager"


class Order(str, Enum):
    """The order in which programs start."""

    NATURAL = "natural"
    REVERSE = "reverse"
    RANDOM = "random"


class Dot(str, Enum):
    """How matrix products are computed."""

    AS_WRITTEN = "as-written"
    EXACT = "exact"
    TENSOR_CORE = "tensor-core"


class ReportFormat(str, Enum):
    """How a report is written."""

    TEXT = "text"
    JSON = "json"


class DeviceMap(str, Enum):
    """What CUDA devices that a script names are mapped to."""

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
        help="Threads per launch; by default as many as torch uses.",
        rich_help_panel=_LAUNCH,
    ),
]


DotOption = Annotated[
    Dot | None,
    typer.Option(
        "--dot",
        show_default=False,
        help="Products of f32 tiles: as-written, which rounds their operands to tf32 as a GPU "
        "does unless the kernel says otherwise (the default), or exact. tensor-core also sums "
        "those of f32, f16 and bf16 as Hopper's tensor cores do, bit for bit.",
        rich_help_panel=_LAUNCH,
    ),
]


OrderOption = Annotated[
    Order,
    typer.Option("--order", help="Order in which programs start.", rich_help_panel=_LAUNCH),
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
        help="Run only these programs: 0,5:8,last,random:64.",
        rich_help_panel=_LAUNCH,
    ),
]


OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="KERNEL",
        help="Interpret only kernels of this name; repeatable.",
        rich_help_panel=_LAUNCH,
    ),
]


DeviceMapOption = Annotated[
    DeviceMap | None,
    typer.Option(
        "--device-map",
        help="Run on the CPU what asks for CUDA devices; the default where there is no GPU.",
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
        "--stats", help="Report the launches and times of each kernel.", rich_help_panel=_REPORT
    ),
]


FormatOption = Annotated[
    ReportFormat,
    typer.Option("--format", help="Format of the report.", rich_help_panel=_REPORT),
]


def _file_or_none(output: Path | None) -> Path | None:
    """None for `-`, by which many programs mean standard output."""
    return None if output == Path("-") else output


OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="FILE",
        callback=_file_or_none,
        help="Write the report to a file; - is standard output.",
        show_default=False,
        rich_help_panel=_REPORT,
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
