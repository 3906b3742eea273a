"""`ttools inspect --reduce`: the smallest kernel that fails to compile in the same way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttools.cli import exit_codes
from ttools.cli.console import keep_stdout_for_report, say, write_json, write_text
from ttools.cli.kernel_file import load_kernel
from ttools.cli.progress import State, ticking
from ttools.cli.targets import RECORD_SUFFIX, TTIR_SUFFIX, is_kernel, read_target
from ttools.cli.work import run_work, take_over_from_upstream
from ttools.core.errors import UsageError
from ttools.core.process.script import Target as Program

if TYPE_CHECKING:
    from ttools.core.compilation.kernel_source import KernelSource
    from ttools.core.compilation.reduction import Reduction
    from ttools.core.compilation.standalone import StandaloneKernel
    from ttools.core.gpus.targets import Target
    from ttools.core.process.channel import Channel


@dataclass(frozen=True, kw_only=True)
class ReduceOptions:
    """The options of `ttools inspect --reduce`.

    Attributes:
        signature: Signature of a kernel in a file.
        launch: Launch options such as num_warps.
        only: Names of the kernels of a script to compile.
        target: GPU to compile for.
        device_map: Mapping of the CUDA devices that a script names.
        timeout: Time limit of the reduction in seconds; None for the default, 0 for no limit.
        compile_timeout: Time limit of one compilation in seconds; None for the default.
        form: Format of the report.
        output: File of the report; None for standard output.
    """

    signature: str | None
    launch: Mapping[str, int]
    only: Sequence[str]
    target: Target
    device_map: str | None
    timeout: float | None
    compile_timeout: float | None
    form: str
    output: Path | None


def reduce_kernel(
    words: Sequence[str], module: str | None, code: str | None, chosen: ReduceOptions
) -> int:
    """Reduce the first kernel that does not compile; return the exit status."""
    if chosen.output is None:
        # The report is a script on standard output, which must not be mixed with output of the
        # program.
        keep_stdout_for_report("python", None)
    if module is None and code is None and words and is_kernel(words[0]):
        reduced = _reduced_kernel(words, chosen)
    else:
        reduced = _reduced_program(words, module, code, chosen)
    if reduced is None:
        return exit_codes.OK
    if chosen.form == "json":
        write_json(reduced.as_dict(), chosen.output)
    else:
        write_text(reduced.script, chosen.output)
    return exit_codes.INTERRUPTED if reduced.ended == "interrupted" else exit_codes.FINDINGS


def _reduced_kernel(words: Sequence[str], chosen: ReduceOptions) -> Reduction | None:
    from ttools.core.compilation.kernel_source import source_of_signature

    if len(words) > 1:
        raise UsageError(f"`{words[0]}` takes no arguments, but got `{words[1]}`")
    function = load_kernel(words[0])
    if chosen.signature is None:
        raise UsageError(
            f"`{words[0]}` needs --signature, with an entry for each of "
            f"{', '.join(function.arg_names)}"
        )
    source = source_of_signature(function, chosen.signature, chosen.launch)
    reduced = _reduced(source, chosen)
    if reduced is None:
        say("note", f"`{source.name}` compiles for {chosen.target.name}: nothing to reduce")
    return reduced


def _reduced(source: KernelSource | StandaloneKernel, chosen: ReduceOptions) -> Reduction | None:
    from ttools.core.compilation.reduction import ReductionProgress, reduce_failure

    with ticking() as show:

        def on_progress(state: ReductionProgress) -> None:
            show(
                State(
                    what=f"reducing {source.name}",
                    done=state.candidates,
                    unit="candidates",
                    facts=(f"{state.lines} lines left",),
                )
            )

        return reduce_failure(source, chosen.target, on_progress=on_progress, **_limits(chosen))


def _limits(chosen: ReduceOptions) -> dict[str, float]:
    limits: dict[str, float] = {}
    if chosen.timeout is not None:
        limits["seconds"] = chosen.timeout or float("inf")
    if chosen.compile_timeout is not None:
        limits["compile_seconds"] = chosen.compile_timeout
    return limits


# ---- a program, which runs in another process, because a compilation may crash or hang there


@dataclass(frozen=True)
class _Unwritable:
    """A kernel that cannot be written as a script.

    Attributes:
        reason: Message of the error.
    """

    name: str
    reason: str


@dataclass(frozen=True)
class _Ended:
    """The end of the program, with its exit status."""

    status: int


def _reduced_program(
    words: Sequence[str], module: str | None, code: str | None, chosen: ReduceOptions
) -> Reduction | None:
    if chosen.signature is not None:
        raise UsageError("--signature is for FILE.py:KERNEL; a script's launches have their own")
    if chosen.launch:
        raise UsageError("--num-warps and --num-stages are for FILE.py:KERNEL")
    if words and words[0].endswith((TTIR_SUFFIX, RECORD_SUFFIX)):
        raise UsageError(f"`{words[0]}` has no Python source to reduce; give a kernel or a script")
    program = read_target(words, module, code)
    take_over_from_upstream("ttools captures launches")
    kernel = _first_failing(program, chosen)
    return None if kernel is None else _reduced(kernel, chosen)


def _first_failing(program: Program, chosen: ReduceOptions) -> StandaloneKernel | None:
    """Return the first kernel of a program that does not compile; None if all do."""
    from ttools.core.compilation.reduction import Compiler

    count = 0
    with _running(program, chosen) as messages, Compiler(chosen.target, **_compiler(chosen)) as gpu:
        for message in messages:
            if isinstance(message, _Unwritable):
                say("warning", f"`{message.name}` is left out: {message.reason}")
                continue
            count += 1
            kernel: StandaloneKernel = message
            if gpu.compile(kernel) is not None:
                say("note", f"`{kernel.name}` does not compile: the script ends here")
                return kernel
    if not count:
        which = f" named {', '.join(chosen.only)}" if chosen.only else ""
        raise UsageError(f"no kernel{which} was launched, so there is nothing to reduce")
    compilations = "the only compilation" if count == 1 else f"all {count} compilations"
    say("note", f"{compilations} that launches need can be made for {chosen.target.name}")
    return None


def _compiler(chosen: ReduceOptions) -> dict[str, float]:
    from ttools.core.compilation.reduction import DEFAULT_COMPILE_SECONDS

    return {"seconds": chosen.compile_timeout or DEFAULT_COMPILE_SECONDS}


@contextmanager
def _running(program: Program, chosen: ReduceOptions) -> Iterator[Iterator[Any]]:
    """Run a program in another process; yield its kernels as soon as they are to be compiled."""
    from ttools.core.compilation.reduction import kernel_codec
    from ttools.core.process.worker import Limits, fork_worker

    serve = partial(_serve, program, list(chosen.only), chosen.device_map)
    worker = fork_worker(serve, Limits(output="shown"), kernel_codec(_Unwritable, _Ended))
    try:
        yield _messages(worker)
    finally:
        worker.end()


def _messages(worker: Any) -> Iterator[Any]:
    from ttools.core.process.channel import WorkerGoneError

    while True:
        try:
            message = worker.receive()
        except WorkerGoneError as error:
            say("warning", f"the script has ended early: {error}")
            return
        if isinstance(message, _Ended):
            return
        yield message


def _serve(program: Program, only: list[str], device_map: str | None, channel: Channel) -> None:
    from ttools.core.compilation.specialisation import captured
    from ttools.core.compilation.standalone import standalone_kernel
    from ttools.sanitizer.api import sanitize

    def send(source: KernelSource) -> None:
        try:
            channel.send(standalone_kernel(source))
        except UsageError as error:
            channel.send(_Unwritable(source.name, str(error)))

    # Scripts may depend on results; an invalid access must not terminate the process.
    checked = sanitize(checks="memcheck", first_config=True)
    with captured(names=only, on_source=send), checked:
        status = run_work(program, device_map)
    channel.send(_Ended(status))
