"""Options that several commands share, and those of `interpret`: names, values and help.

A command lists the options it accepts in its signature. The functions at the end interpret options
that need more than typer's conversion.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ttools.cli import completion
from ttools.core.device_map.map_option import emulated_gpu, read_device_map
from ttools.core.errors import UsageError
from ttools.core.process.script import Target

if TYPE_CHECKING:
    from ttools.cli.work import Work
    from ttools.core.gpus.devices import Device

_report = partial(typer.Option, rich_help_panel="Report")
_launch = partial(typer.Option, rich_help_panel="Launch")
_ttir = partial(typer.Option, rich_help_panel="Launching a .ttir file")


def _checked_map(text: str | None) -> str | None:
    try:
        return None if text is None else str(read_device_map(text) or "off")
    except UsageError as error:
        raise UsageError(f"--device-map: {error.message}") from error


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
    Literal["native", "eager"],
    _launch(
        "--engine", help="What executes kernels: native code, or Python for debuggers and print."
    ),
]
PdbOption = Annotated[
    bool,
    _launch(
        "--pdb",
        help="Debug the script and its kernels, as `python -m pdb` does; implies --engine eager.",
    ),
]
ThreadsOption = Annotated[
    int | None,
    _launch(
        "--threads",
        min=1,
        metavar="N",
        help="Threads per launch; by default as many as torch uses.",
    ),
]
DotOption = Annotated[
    Literal["as-written", "exact", "tensor-core"] | None,
    _launch(
        "--dot",
        help="How tl.dot multiplies f32 tiles. as-written (the default) rounds operands to tf32, "
        "as a GPU does, unless the kernel sets another precision; exact does not round them; "
        "tensor-core also sums products of f32, f16 and bf16 as Hopper's tensor cores do, bit for "
        "bit.",
    ),
]
OrderOption = Annotated[
    Literal["natural", "reverse", "random"],
    _launch("--order", help="Order in which programs start."),
]
SeedOption = Annotated[int, _launch("--seed", metavar="N", help="Seed of random choices.")]
ProgramsOption = Annotated[
    str | None,
    _launch("--programs", metavar="LIST", help="Run only these programs: 0,5:8,last,random:64."),
]
OnlyOption = Annotated[
    list[str] | None,
    _launch(
        "--only",
        metavar="KERNEL",
        autocompletion=completion.kernels,
        help="Interpret or profile only kernels of this name; repeatable.",
    ),
]
DeviceMapOption = Annotated[
    str | None,
    _launch(
        "--device-map",
        metavar="cuda=cpu|off",
        autocompletion=completion.device_maps,
        callback=_checked_map,
        help="Run code for CUDA devices on the CPU; the default if there is no GPU. "
        "cuda=cpu,capability=9.0,sms=132 sets the properties that scripts see.",
    ),
]
EmulatedGpuOption = Annotated[
    str | None,
    _launch(
        "--gpu",
        metavar="GPU",
        autocompletion=completion.cuda_gpus,
        help="Emulate h100, a100, rtx4090, … or an architecture such as sm_90: its capability, "
        "multiprocessors and launch rules. Implies the device map.",
    ),
]
FirstConfigOption = Annotated[
    bool,
    _launch(
        "--first-config",
        help="Run autotuned kernels with their first config, without timing the others.",
    ),
]
TimeoutOption = Annotated[
    float | None,
    _launch(
        "--timeout",
        min=0,
        metavar="SECONDS",
        help="Time limit for each launch, and for each compilation. By default, no limit for "
        "scripts, and 600 seconds for records and .ttir files. 0 for no limit.",
    ),
]
StatsOption = Annotated[
    bool, _report("--stats", help="Report the launches and times of each kernel.")
]
FormatOption = Annotated[Literal["text", "json"], _report("--format", help="Format of the report.")]


def _file_or_none(output: Path | None) -> Path | None:
    """Return None for `-`, which conventionally means standard output."""
    return None if output == Path("-") else output


OutputOption = Annotated[
    Path | None,
    _report(
        "--output",
        metavar="FILE",
        callback=_file_or_none,
        help="Write the report to a file; - is standard output.",
    ),
]
GridOption = Annotated[
    str | None,
    _ttir("--grid", metavar="X[,Y[,Z]]", help="Grid of the launch; by default, one program."),
]
ArgOption = Annotated[
    list[str] | None,
    _ttir(
        "--arg",
        metavar="NAME=VALUE",
        help="Argument of the launch: rand:f32[1024], zeros:f16[4,4], arange:i32[64], file.npy, "
        "1000, 1.5; repeatable.",
    ),
]
DumpOutputsOption = Annotated[
    Path | None,
    _ttir("--dump-outputs", metavar="FILE.npz", help="Save the tensors as the launch leaves them."),
]
JsonOption = Annotated[bool, _report("--json", help="The same as --format json.")]


def device_map_of(work: Work, device_map: str | None, gpu: str | None) -> str | None:
    """Return the device map that `--device-map` or `--gpu` requests; None without them.

    Args:
        work: The work of the command: a script, a launch or a record.
        device_map: Device map as the user writes it with `--device-map`.
        gpu: Name or architecture of a GPU from `--gpu`.

    Raises:
        UsageError: Both options are given, the GPU cannot be emulated, or the work is not a
            program.
    """
    if gpu is not None and not isinstance(work, Target):
        raise UsageError(
            "--gpu emulates a GPU for programs; launches of records and .ttir files run on the CPU"
        )
    return emulated_gpu(device_map, gpu, ("--device-map", "--gpu"))


def given_gpu(name: str | None, file: Path | None) -> str | Device | None:
    """Return the GPU that the options select, or None without options.

    Raises:
        UsageError: Both options are given, or the file is invalid.
    """
    if file is None:
        return name
    if name is not None:
        raise UsageError("give either --gpu or --device-file, not both")
    from ttools.core.gpus.devices import read_device_file

    return read_device_file(file)


#: The value of --ray that starts a cluster on this machine for this run.
_LOCAL = "local"


def read_ray(text: str, *, what: str, extra: str) -> tuple[str | None, int]:
    """Return the address of a cluster (None for a local one) and the number of actors.

    Args:
        text: Value of the option.
        what: Plural noun for the jobs of which N run at a time.
        extra: Requirement that installs Ray.

    Raises:
        UsageError: The value is invalid, or Ray is not installed.
    """
    address, _, count = text.rpartition("@")
    address, actors = (address, count) if address else (text, "1")
    if not actors.isdecimal() or int(actors) < 1:
        raise UsageError(f"--ray {text}: must be ADDRESS, or ADDRESS@N for N {what} at a time")
    if find_spec("ray") is None:  # report it now, not after a long preparation
        raise UsageError(f"--ray: Ray is not installed: pip install '{extra}'")
    return (None if address == _LOCAL else address), int(actors)
