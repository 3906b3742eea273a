"""`ttools record`: runs a program unchanged and saves selected launches to a file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ttools.cli import completion, exit_codes, options
from ttools.cli.children import say_child_launches
from ttools.cli.console import require_folder, say, say_interrupted
from ttools.cli.targets import RECORD_SUFFIX, TTIR_SUFFIX, read_target
from ttools.cli.work import ADVICE, run_work, surviving, take_over_from_upstream
from ttools.core.errors import UsageError
from ttools.core.process.child_launches import child_launches
from ttools.core.reports.report import counted

if TYPE_CHECKING:
    from ttools.interpreter.records.launch_recorder import LaunchRecorder

_record = partial(typer.Option, rich_help_panel="Record")

WordsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SCRIPT [ARGS]...", show_default=False, help="A script and its arguments."
    ),
]
OutputOption = Annotated[
    Path | None,
    _record(
        "--output",
        metavar="FILE.tt",
        show_default=False,
        help="The record; by default launch.tt, or none with --script.",
    ),
]
ScriptOption = Annotated[
    Path | None,
    _record(
        "--script",
        metavar="FILE.py",
        help="Write the launches as a Python file that needs only Triton and torch.",
    ),
]
OnlyOption = Annotated[
    list[str] | None,
    _record(
        "--only",
        metavar="KERNEL",
        autocompletion=completion.kernels,
        help="Record kernels of this name only; repeatable.",
    ),
]
LaunchOption = Annotated[
    list[str] | None,
    _record(
        "--launch",
        metavar="LIST",
        help="Launches of these kernels to record, counted from 0, such as 0,3:5; by default, the "
        "first of each kernel.",
    ),
]
DataOption = Annotated[
    Literal["full", "seed", "auto"],
    _record(
        "--data",
        help="Record memory unchanged (full), as similar random numbers (seed), or unchanged up to "
        "256 MiB (auto).",
    ),
]


def record_command(
    words: WordsArgument = None,
    module: options.ModuleOption = None,
    code: options.CodeOption = None,
    output: OutputOption = None,
    script: ScriptOption = None,
    only: OnlyOption = None,
    launch: LaunchOption = None,
    data: DataOption = "auto",
    device_map: options.DeviceMapOption = None,
) -> None:
    """Save launches of a program, to check or profile them elsewhere.

    The program runs unchanged, on a GPU if there is one. `ttools interpret`, `sanitize` and
    `profile` accept the file instead of a script, on any machine. Options before SCRIPT are for
    ttools; everything after it is for the script. The exit status is the script's own; 1 if nothing
    was recorded.
    """
    named = (words or [""])[0] if module is None and code is None else ""
    if named.endswith(TTIR_SUFFIX):
        raise UsageError(
            f"`{named}` is not a program; `ttools record` runs a program and saves its launches"
        )
    target = read_target(words or [], module, code)
    if output is None and script is None:
        output = Path("launch.tt")
    if output is not None and output.suffix != RECORD_SUFFIX:
        raise UsageError(f"--output {output}: the name of a record must end in {RECORD_SUFFIX}")
    require_folder(output, script)
    take_over_from_upstream("ttools records")
    from ttools.interpreter.records.launch_recorder import record

    recorder = record(
        output,
        only=only or None,
        launches=",".join(launch) if launch else None,
        data=data,
        script=script,
    )
    with child_launches() as children, recorder, surviving(device_map) as checked:
        status = run_work(target, device_map, advice=ADVICE if checked is None else None)
    say_interrupted(status, "the record")
    say_child_launches(children.kernels, bool(recorder.seen), "the record")
    for note in recorder.notes:
        say("warning", note)
    if checked is not None and checked.findings:
        say(
            "warning",
            f"out-of-bounds accesses were skipped: `ttools sanitize {output or script}` reports "
            "them",
        )
    if recorder.recorded and output is not None:
        _say_written(output, recorder.recorded, recorder.seen, [output])
    if recorder.in_script and script is not None:
        _say_written(script, recorder.in_script, recorder.seen, recorder.script_files)
    if recorder.recorded and (script is None or recorder.in_script):
        raise typer.Exit(status)
    if recorder.recorded:
        say("error", f"{script} was not written: see the warnings")
        raise typer.Exit(status or exit_codes.FINDINGS)
    if recorder.seen or not status:
        say("error", f"nothing was recorded: {_reason(recorder)}")
    raise typer.Exit(status or exit_codes.FINDINGS)


def _say_written(file: Path, count: int, seen: int, files: Sequence[Path]) -> None:
    size = f"{files[0].stat().st_size:,} bytes"
    if len(files) > 1:
        size += f"; tensors are in {files[1]}, {files[1].stat().st_size:,} bytes"
    say("note", f"{file} holds {count:,} of {counted(seen, 'launch', 'launches')}, {size}")


def _reason(recorder: LaunchRecorder) -> str:
    if not recorder.seen:
        return "no Triton kernel was launched" + (" that --only names" if recorder.only else "")
    if recorder.notes:
        return "see the warnings"
    return f"--launch selects none of the {recorder.seen:,} launches"
