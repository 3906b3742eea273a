"""`ttools prove`: the sizes for which all launches are correct, or the smallest that fails."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

import typer

from ttools.cli import completion, options
from ttools.cli.console import keep_stdout_for_report, require_folder, verbosity
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
        help="With --script, restrict a size that the report names to this range; repeatable. By "
        "default, all values are covered for which the tensors fit in memory.",
    ),
]
MemoryOption = Annotated[
    str | None,
    _proof(
        "--memory",
        metavar="AMOUNT",
        help="With --script, check all sizes whose tensors fit in this much memory, 80GB by "
        "default.",
    ),
]
GpuOption = Annotated[
    str | None,
    _proof(
        "--gpu",
        metavar="GPU",
        autocompletion=completion.gpus,
        help="With --script, check all sizes whose tensors fit in the memory of a GPU, such as "
        "h200.",
    ),
]
AssumeOption = Annotated[
    list[str] | None,
    _proof(
        "--assume",
        metavar="PARAMETER=LOW:HIGH[,distinct][,sorted]",
        help="Assume this about the integers in a tensor, such as `index=0:n-1`; repeatable.",
    ),
]
TimeoutOption = Annotated[
    float | None,
    _proof(
        "--timeout",
        min=0,
        metavar="SECONDS",
        help="Maximum computing time for a verdict, with --script for each launch; 25 by default. "
        "0 for no limit.",
    ),
]
RequireProofOption = Annotated[
    bool, _report("--require-proof", help="Exit with 4 if something is neither proved nor wrong.")
]
VerboseOption = Annotated[
    bool,
    _report(
        "--verbose", "-v", help="Show all findings, assumptions and conditions that are not proved."
    ),
]
FormatOption = Annotated[
    Literal["text", "markdown", "json", "brief", "html", "sarif", "junit", "github"],
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
    memory: MemoryOption = None,
    gpu: GpuOption = None,
    assume: AssumeOption = None,
    timeout: TimeoutOption = None,
    form: FormatOption = "text",
    output: options.OutputOption = None,
    fail_on: FailOnOption = "error",
    require_proof: RequireProofOption = False,
    verbose: VerboseOption = False,
    device_map: options.DeviceMapOption = None,
) -> None:
    """Prove launches correct for all sizes of a range, or find the smallest size with a defect.

    `ttools prove FILE.py:FUNCTION n=1:2147483648` proves what a function launches, `ttools prove
    --script SCRIPT [ARGS]` what a script launches. The exit status is the script's own if that is
    not 0; else 0 if nothing is found wrong, 1 if something is, 4 if --require-proof is given and
    something is not decided, 2 for wrong usage, 3 for a failure of ttools.
    """
    require_folder(output)
    keep_stdout_for_report(form, output)
    target_words = words or []
    verbose = verbose or verbosity() == "verbose"
    proving = Proving(
        assume=assume or [],
        form=form,
        output=output,
        fail_on=fail_on,
        timeout=timeout,
        require_proof=require_proof,
        memory=_bytes(memory, gpu),
        verbose=verbose,
    )
    if script or module is not None or code is not None:
        if target_words and is_kernel(target_words[0]):
            raise UsageError(f"--script takes a script, not the function {target_words[0]}")
        work = read_work(target_words, module=module, code=code, grid=None, arguments=[])
        raise typer.Exit(proving.prove_script(work, sizes or [], device_map, "--script"))
    only_scripts = {"--sizes": sizes, "--device-map": device_map, "--memory": memory, "--gpu": gpu}
    for name, value in only_scripts.items():
        if value:
            raise UsageError(
                f"{name} needs --script; without it, ranges follow the function: `n=1:4096`"
            )
    if not target_words or not is_kernel(target_words[0]):
        raise UsageError(
            "nothing to prove: give FILE.py:FUNCTION and the range of each size that it takes, "
            "such as `n=1:4096`, or --script SCRIPT"
        )
    if len(target_words) == 1:
        raise UsageError(f"no sizes given: name a range, as in `{target_words[0]} n=1:4096`")
    raise typer.Exit(proving.prove_function(target_words[0], target_words[1:]))


def _bytes(memory: str | None, gpu: str | None) -> int | None:
    """Return the number of bytes of memory that the options specify; None without options.

    Raises:
        UsageError: Both options are given, or one of them cannot be read.
    """
    if memory is not None and gpu is not None:
        raise UsageError("give either --memory or --gpu, not both")
    if memory is not None:
        from ttools.core.gpus.memory import read_memory

        return read_memory(memory)
    if gpu is None:
        return None
    from ttools.core.gpus.devices import read_device

    return read_device(gpu).memory
