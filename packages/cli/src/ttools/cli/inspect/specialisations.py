"""`ttools inspect --specialisations`: the compilations of a script, their causes and durations."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from ttools.cli.console import say, say_interrupted, write_text
from ttools.cli.progress import State, progress
from ttools.cli.targets import is_kernel, read_target
from ttools.cli.work import run_work, take_over_from_upstream
from ttools.core.errors import UsageError

if TYPE_CHECKING:
    from ttools.core.compilation.compilation_log import CompilationLog
    from ttools.core.gpus.targets import Target
    from ttools.core.process.script import Target as Script


def require_script(words: Sequence[str], module: str | None, code: str | None) -> Script:
    """Return the script whose compilations are reported.

    Args:
        words: The script and its arguments.

    Raises:
        UsageError: There is no script.
    """
    if words and module is None and code is None and is_kernel(words[0]):
        raise UsageError(
            f"--specialisations observes the launches of a script, and `{words[0]}` names a kernel"
        )
    return read_target(words, module, code)


def report_specialisations(
    script: Script,
    target: Target,
    *,
    only: Sequence[str],
    device_map: str | None,
    form: str,
    output: Path | None,
    warmup_file: Path | None,
) -> int:
    """Run a script, report its compilations, and return its exit status.

    Args:
        target: The GPU for which durations and costs are determined.
        only: Names of the kernels to report; empty for all.
        warmup_file: File for the script that compiles all variants; None for no such script.

    Raises:
        UsageError: The script compiles no kernel.
    """
    from ttools.core.compilation.compilation_log import observe_compilations
    from ttools.core.compilation.specialisation_report import explain

    take_over_from_upstream("ttools observes compilations")
    bar = progress(
        lambda: State(
            what="observed",
            done=len(log.compilations),
            unit="compilations",
            one="compilation",
        )
    )
    with observe_compilations(names=only) as log, _running(device_map), bar:
        status = run_work(script, device_map)
    say_interrupted(status, "the report")
    if not log.compilations:
        which = f" named {', '.join(only)}" if only else ""
        raise UsageError(f"no kernel{which} was compiled, so there is nothing to report")
    compiled: list[None] = []
    total = len({entry.source for entry in log.compilations})
    state = lambda: State(what="compiled", done=len(compiled), total=total, unit="variants")  # noqa: E731
    with progress(state, shared=False):
        report = explain(log, target, lambda: compiled.append(None))
    if warmup_file is not None:
        _write_warm_up(log, target, warmup_file)
    write_text(report.to(form), output)
    return status


def _running(device_map: str | None) -> AbstractContextManager[object]:
    """Return a context in which the script runs: on its GPU, or on the CPU if there is none."""
    from ttools.core.environment import gpu_usable
    from ttools.sanitizer.api import sanitize

    if gpu_usable() and device_map in (None, "off"):
        return nullcontext()
    # Scripts may depend on results; an invalid access must not terminate the process. All
    # configurations are compiled, as a GPU's autotuner would compile them.
    return sanitize(checks="memcheck", all_configs=True)


def _write_warm_up(log: CompilationLog, target: Target, path: Path) -> None:
    from ttools.core.compilation.warm_up_script import warm_up_script
    from ttools.core.errors import file_errors

    script = warm_up_script(log.compilations, target)
    with file_errors(f"write to `{path}`"):
        path.write_text(script.text, "utf-8")
    say("note", f"`python {path}` compiles {script.variants} variants ahead of time")
    for sentence in script.left_out:
        say("note", f"{path} does not compile {sentence}")
