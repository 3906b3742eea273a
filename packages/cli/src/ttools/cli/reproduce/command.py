"""`ttools reproduce`: determines whether a function's results are bitwise reproducible on a GPU."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ttools.cli import completion, exit_codes, options
from ttools.cli.console import keep_stdout_for_report, require_folder, write_text
from ttools.cli.work import devices_for, take_over_from_upstream
from ttools.core.errors import UsageError
from ttools.core.location import shown_line
from ttools.core.process.user_module import load_functions, split_word

if TYPE_CHECKING:
    from ttools.verifier.reproducibility.result import Question, Reproducibility

_compare = partial(typer.Option, rich_help_panel="Comparisons")
_report = partial(typer.Option, rich_help_panel="Report")

FunctionArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE.py:FUNCTION",
        show_default=False,
        help="A function that launches kernels and returns tensors, or stores to its arguments.",
    ),
]
InputsOption = Annotated[
    str | None,
    typer.Option(
        "--inputs",
        metavar="FILE.py[:NAME]",
        help="Function that returns keyword arguments, as for ttools verify; by default `inputs` "
        "in the same file.",
    ),
]
ShapesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--shapes",
        metavar="NAME=VALUES",
        help="Values of a parameter of inputs, as for ttools profile sweep; repeatable. By "
        "default, the first shape of ttools tune.",
    ),
]
GpuOption = Annotated[
    str,
    typer.Option(
        "--gpu",
        metavar="GPU",
        autocompletion=completion.cuda_gpus,
        help="Architecture for which the kernels are compiled, such as sm_80 or sm_90.",
    ),
]
RunsOption = Annotated[
    bool, _compare("--runs", help="Test whether another order of programs gives the same bits.")
]
ConfigsOption = Annotated[
    bool, _compare("--configs", help="Test whether all configurations give the same bits.")
]
BatchOption = Annotated[
    list[str] | None,
    _compare(
        "--batch",
        metavar="NAME[:AXIS]",
        help="Test whether each row gives the same bits in smaller batches of this argument. "
        "Repeat the option for arguments that share the batch; the axis is 0 by default.",
    ),
]
DevicesOption = Annotated[
    list[str] | None,
    _compare(
        "--devices",
        metavar="GPU",
        autocompletion=completion.cuda_gpus,
        help="Test whether this GPU gives the same bits as --gpu; repeatable.",
    ),
]
FormatOption = Annotated[
    Literal["text", "markdown", "json", "brief", "html", "sarif", "junit", "github"],
    _report("--format", help="Format of the report."),
]
#: Exit statuses by verdict.
STATUS = {
    "equal": exit_codes.OK,
    "differs": exit_codes.FINDINGS,
    "unknown": exit_codes.UNKNOWN,
}


def reproduce_command(
    function: FunctionArgument = None,
    inputs: InputsOption = None,
    shapes: ShapesOption = None,
    gpu: GpuOption = "sm_90",
    runs: RunsOption = False,
    configs: ConfigsOption = False,
    batch: BatchOption = None,
    devices: DevicesOption = None,
    device_map: options.DeviceMapOption = None,
    form: FormatOption = "text",
    output: options.OutputOption = None,
) -> None:
    """Determine whether results have equal bits on a GPU, from the order of evaluation.

    No GPU is needed. Without --runs, --configs, --batch and --devices, runs and configurations
    are compared. The exit status is 0 if all comparisons are proved equal, 1 if one
    differs, 4 if one is unknown.
    """
    require_folder(output)
    keep_stdout_for_report(form, output)
    if function is None:
        raise UsageError("no function is given: ttools reproduce FILE.py:FUNCTION")
    file, _ = split_word(function)
    word = inputs or f"{file}:inputs"
    if ":" not in word:
        word += ":inputs"
    from ttools.verifier.reproducibility.api import axes_of

    axes = axes_of(batch)
    chosen = {"runs": runs, "configs": configs}
    questions: list[Question] = [q for q in ("runs", "configs") if chosen[q]]
    if not questions and not axes and not devices:
        questions = ["runs", "configs"]
    take_over_from_upstream("ttools interprets")
    with devices_for(device_map):
        result = _answered(function, word, shapes or [], gpu, questions, axes, devices or [])
    write_text(result.to(form), output)
    raise typer.Exit(STATUS[result.verdict])


def _answered(
    function: str,
    inputs: str,
    shapes: list[str],
    gpu: str,
    questions: list[Question],
    batch: dict[str, int],
    devices: list[str],
) -> Reproducibility:
    """Answer the questions for each shape."""
    from ttools.cli.profile.sweep import read_shapes
    from ttools.verifier.reproducibility.api import reproduce

    (drawing, draw), (_, called) = load_functions([inputs, function])
    wanted = read_shapes(shapes, drawing, draw)
    results = []
    for shape in wanted if shapes else wanted[:1]:
        arguments = draw(**shape)
        if not isinstance(arguments, dict):
            raise UsageError(f"`{inputs}` must return a dict of keyword arguments")
        result = reproduce(
            called, arguments, gpu=gpu, questions=questions, batch=batch, devices=devices
        )
        text = ", ".join(f"{name}={value}" for name, value in shape.items() if name != "seed")
        results.append((text, result))
    if len(results) == 1:
        return replace(results[0][1], function=shown_line(function))
    answers = tuple(
        replace(answer, subject=f"{answer.subject} ({text})")
        for text, result in results
        for answer in result.answers
    )
    notes = tuple(dict.fromkeys(note for _, result in results for note in result.notes))
    return replace(results[0][1], function=shown_line(function), answers=answers, notes=notes)
