"""`ttools prove`: at which sizes of a range all launches are right, or the least that is wrong."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

import typer

from ttools.cli import options
from ttools.cli.console import keep_stdout_for_report, require_folder
from ttools.cli.prove.proving import Proving
from ttools.cli.targets import is_kernel
from ttools.cli.work import read_work
from ttools.core.errors import UsageError

_report = partial(typer.Option, rich_help_panel="Report")
_proof = partial(typer.Option, rich_help_panel="Proof")

WordsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE.py:FUNCTION NAME=FIRST:LAST",
        show_default=False,
        help="A function and the range of each size that it takes, both ends included; with "
        "--script a script and its arguments.",
    ),
]
ScriptOption = Annotated[
    bool,
    typer.Option("--script", help="Run a script and prove what it launches, for all sizes."),
]
SizesOption = Annotated[
    list[str] | None,
    _proof(
        "--sizes",
        metavar="NAME=FIRST:LAST",
        help="With --script, the range of a size that the report names; repeatable.",
    ),
]
AssumeOption = Annotated[
    list[str] | None,
    _proof(
        "--assume",
        metavar="PARAMETER=LOW:HIGH[,distinct][,sorted]",
        help="Take integers in a tensor to be so: `index=0:n-1`; repeatable.",
    ),
]
TimeoutOption = Annotated[
    float | None,
    _proof(
        "--timeout",
        min=0,
        metavar="SECONDS",
        help="The most time to compute a verdict, 25 by default; with --script for each launch. 0 "
        "for any time.",
    ),
]
RequireProofOption = Annotated[
    bool, _report("--require-proof", help="Exit with 4 when something is neither proved nor wrong.")
]
FormatOption = Annotated[
    Literal["text", "json", "sarif", "junit", "github", "html"],
    _report("--format", help="Format of the report."),
]
FailOnOption = Annotated[
    Literal["error", "warning", "note"],
    _report("--fail-on", help="Exit with 1 on findings of at least this severity."),
]


def prove_command(
    words: WordsArgument = None,
    script: ScriptOption = False,
    module: options.ModuleOption = None,
    code: options.CodeOption = None,
    sizes: SizesOption = None,
    assume: AssumeOption = None,
    timeout: TimeoutOption = None,
    form: FormatOption = "text",
    output: options.OutputOption = None,
    fail_on: FailOnOption = "error",
    require_proof: RequireProofOption = False,
    device_map: options.DeviceMapOption = None,
) -> None:
    """Prove launches right for all sizes of a range, or find the least size that is wrong.

    `ttools prove FILE.py:FUNCTION n=1:2147483648` proves what a function launches, `ttools prove
    --script SCRIPT [ARGS]` what a script launches. The exit status is the script's own if that is
    not 0; else 0 if nothing is found wrong, 1 if something is, 4 if --require-proof is given and
    something is not decided, 2 for wrong usage, 3 for a failure of ttools.
    """
    require_folder(output)
    keep_stdout_for_report(form, output)
    target_words = words or []
    proving = Proving(assume or [], form, output, fail_on, timeout, require_proof)
    if script or module is not None or code is not None:
        if target_words and is_kernel(target_words[0]):
            raise UsageError(f"--script takes a script, not the function {target_words[0]}")
        work = read_work(target_words, module=module, code=code, grid=None, arguments=[])
        raise typer.Exit(proving.prove_script(work, sizes or [], device_map, "--script"))
    for name, value in (("--sizes", sizes), ("--device-map", device_map)):
        if value:
            raise UsageError(f"{name} needs --script; ranges follow the function: `n=1:4096`")
    if not target_words or not is_kernel(target_words[0]):
        raise UsageError(
            "nothing to prove: give FILE.py:FUNCTION and the range of each size that it takes, as "
            "`n=1:4096`, or --script SCRIPT"
        )
    if len(target_words) == 1:
        raise UsageError(f"no sizes to prove: name a range, as in `{target_words[0]} n=1:4096`")
    raise typer.Exit(proving.prove_function(target_words[0], target_words[1:]))
