"""`ttools interpret`: runs a script, a module, code or a `.ttir` file on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ttools.cli import exit_codes, options
from ttools.cli.children import say_child_launches
from ttools.cli.console import keep_stdout_for_report, require_folder, say, say_interrupted
from ttools.cli.interpret import options as watch_options
from ttools.cli.interpret import statistics, watching
from ttools.cli.work import (
    read_work,
    require_source,
    run_work,
    take_over_from_upstream,
    without_statements,
)
from ttools.core.errors import UsageError
from ttools.core.process.child_launches import child_launches
from ttools.core.process.script import Target

if TYPE_CHECKING:
    from ttools.interpreter.api import Interpretation
    from ttools.watch.api import WatchedRun


class _Chosen:
    """The kernels that `--only` names, and those that were launched."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self.launched: dict[str, None] = {}

    def __call__(self, kernel: str) -> bool:
        self.launched[kernel] = None
        return kernel in self._names

    def missing(self) -> list[str]:
        """The names that no kernel had."""
        return [name for name in self._names if name not in self.launched]

    def listed(self) -> str:
        """The kernels that were launched."""
        return ", ".join(sorted(self.launched)) or "none"


def interpret_command(
    words: options.WordsArgument = None,
    module: options.ModuleOption = None,
    code: options.CodeOption = None,
    engine: options.EngineOption = "native",
    pdb: options.PdbOption = False,
    threads: options.ThreadsOption = None,
    order: options.OrderOption = "natural",
    seed: options.SeedOption = 0,
    dot: options.DotOption = None,
    programs: options.ProgramsOption = None,
    only: options.OnlyOption = None,
    device_map: options.DeviceMapOption = None,
    first_config: options.FirstConfigOption = False,
    stats: options.StatsOption = False,
    form: watch_options.FormatOption = "text",
    output: watch_options.OutputOption = None,
    grid: options.GridOption = None,
    arg: options.ArgOption = None,
    dump_outputs: options.DumpOutputsOption = None,
    watch: watch_options.WatchOption = None,
    trace: watch_options.TraceOption = None,
    trace_limit: watch_options.TraceLimitOption = None,
    compare: watch_options.CompareOption = None,
    rtol: watch_options.RtolOption = None,
    atol: watch_options.AtolOption = None,
    timeout: options.TimeoutOption = None,
    unsafe: watch_options.UnsafeOption = False,
) -> None:
    """Run Triton kernels on the CPU, as native code or as Python.

    Options before SCRIPT are for ttools, everything after it is for the script. The exit status
    is the script's own; 2 for wrong usage, 3 for a failure of ttools.
    """
    work = read_work(
        words or [],
        module=module,
        code=code,
        grid=grid,
        arguments=arg or [],
        dump_outputs=dump_outputs,
    )
    on_stdout = output == Path("-")
    output = None if on_stdout else output
    if pdb:
        engine = "eager"
    if engine == "eager":
        require_source(work, "--engine eager", "--pdb")
    wanted = watching.Wanted(
        watch=watch or (),
        trace=trace,
        trace_limit=trace_limit,
        compare=compare,
        rtol=rtol,
        atol=atol,
        form=form,
        output=output,
    )
    if wanted.any and engine == "eager":
        raise UsageError(
            "--watch, --trace, --compare and --format html look into native code, not into "
            "--engine eager"
        )
    if unsafe and engine == "eager":
        raise UsageError("--unsafe is for native code; --engine eager refuses such accesses")
    if timeout and isinstance(work, Target) and (wanted.any or engine == "eager"):
        raise UsageError("--timeout is for native code that nothing watches")
    require_folder(output, dump_outputs, trace)
    if on_stdout or wanted.any:
        keep_stdout_for_report(form, output)
    take_over_from_upstream("ttools interprets")
    from ttools.interpreter.api import interpret

    chosen = _Chosen(only or ())
    how: dict[str, Any] = {
        "only": chosen if only else None,
        "threads": threads,
        "order": order,
        "seed": seed,
        "dot": dot,
        "programs": programs,
        "unsafe": unsafe or None,
    }
    watched = wanted.run(**how) if wanted.any else None
    run = watched or interpret(
        first_config=first_config, engine=engine, timeout=timeout or None, **how
    )
    with child_launches() as children, run:
        status = run_work(work, device_map, dump_outputs, debug=pdb, timeout=timeout)
    say_interrupted(status, "what is reported")
    unmatched = watched.unmatched if watched is not None else []
    _say_of(run, unmatched, chosen)
    reported = stats or wanted.any or on_stdout or output is not None or form == "json"
    if children.kernels and (reported or not (run.stats or status or pdb)):
        say_child_launches(children.kernels, bool(run.stats), "the report")
    elif not run.stats and not pdb and not status:
        which = " that --only names" if chosen.launched else ""
        nothing = f"no Triton kernel{which} was launched, so nothing was interpreted"
        say("note", nothing + without_statements(work))
    if watched is not None and run.stats:
        differs = watching.report(watched, wanted, str(work))
        if unmatched:
            raise UsageError("\n".join(unmatched))
        status = status or exit_codes.FINDINGS * differs
    if stats or (not wanted.any and (on_stdout or output or form == "json")):
        name = str(work)
        kept = None if wanted.any else output
        table = "text" if wanted.picture else form
        statistics.report(
            run.stats,
            form=table,
            output=kept,
            on_stdout=on_stdout and not wanted.any,
            target=name,
            exit_code=status,
        )
    raise typer.Exit(status)


def _say_of(run: WatchedRun | Interpretation, unmatched: Sequence[str], chosen: _Chosen) -> None:
    """Says what the user should know of a run that has ended.

    Args:
        run: the run.
        unmatched: warnings that are an error, raised later.
        chosen: the kernels that were to run.
    """
    for warning in run.warnings:
        if warning not in unmatched:
            say("warning", warning)
    for name in chosen.missing():
        say("warning", f"no kernel `{name}` was launched (--only); launched: {chosen.listed()}")
    for note in run.notes:
        say("note", note)
