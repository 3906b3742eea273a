"""`ttools interpret`: runs a script, a module, code or a `.ttir` file on the CPU.

With `--stats`, it reports the times of launches as a table or as JSON.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ttools.cli import exit_codes, options
from ttools.cli.blocks import block, table
from ttools.cli.children import say_child_launches
from ttools.cli.console import (
    keep_stdout_for_report,
    require_folder,
    say,
    say_interrupted,
    stderr,
    stdout,
    write_json,
    write_tables,
)
from ttools.cli.interpret import watching
from ttools.cli.selectors import refuse_unknown, refuse_unknown_kernels
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
    from rich.console import RenderableType

    from ttools.interpreter.api import Interpretation
    from ttools.interpreter.run.stats import KernelStats
    from ttools.watch.api import WatchedRun


def _as_table(costs: Sequence[KernelStats]) -> RenderableType:
    """Return the report as a table in milliseconds, slowest kernel first."""
    names = ("kernel", "launches", "programs", "front end ms", "compile ms", "run ms", "cached")
    rows = [
        (
            cost.kernel,
            f"{cost.launches:,}",
            f"{cost.programs:,}",
            *(f"{seconds * 1e3:,.2f}" for seconds in _times(cost)),
            f"{cost.cache_hits:,}",
        )
        for cost in sorted(costs, key=lambda cost: sum(_times(cost)), reverse=True)
    ]
    return block("Kernel launches", [], table(names, rows, left=["kernel"], always=names))


def _times(cost: KernelStats) -> tuple[float, float, float]:
    return cost.front_end_s, cost.compile_s, cost.run_s


def report_statistics(
    costs: Sequence[KernelStats],
    *,
    form: str,
    output: Path | None,
    on_stdout: bool,
    target: str,
    exit_code: int,
) -> None:
    """Write the report to a file or, by default, to standard error, apart from script output.

    Args:
        costs: Statistics of each kernel.
        form: Format, `text` or `json`.
        output: File to write; None for a stream.
        on_stdout: If True, the report goes to standard output if `output` is None.
        target: The program as the user wrote it.
        exit_code: Exit status of the program.
    """
    if form == "json":
        from ttools.interpreter.run.stats import stats_as_data

        script = {"target": target, "exit_code": exit_code}
        write_json(stats_as_data(costs, script), output, None if on_stdout else sys.stderr)
    else:
        write_tables([_as_table(costs)], output, stdout() if on_stdout else stderr())


_look = partial(typer.Option, rich_help_panel="Inspecting values")

FormatOption = Annotated[
    Literal["text", "json", "html"],
    typer.Option(
        "--format",
        help="Format of the report; html is a page of the values that programs computed, loaded "
        "and stored.",
        rich_help_panel="Report",
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help="Write the report to a file; - is standard output. Without it, --stats writes to "
        "standard error.",
        rich_help_panel="Report",
    ),
]
WatchOption = Annotated[
    list[str] | None,
    _look(
        "--watch",
        metavar="NAME | FILE:LINE",
        help="Show the values of a variable, or of those assigned at a line; repeatable. All "
        "programs run; --programs chooses whose values are shown.",
    ),
]
TraceOption = Annotated[
    Path | None,
    _look(
        "--trace",
        metavar="FILE",
        help="Save the values of all variables, or of those that --watch names, to a file.",
    ),
]
TraceLimitOption = Annotated[
    str | None,
    _look(
        "--trace-limit",
        metavar="SIZE",
        help="Maximum size of recorded values, such as 500M or 2G; 256M by default.",
    ),
]
CompareOption = Annotated[
    str | None,
    _look(
        "--compare",
        metavar="eager | FILE",
        help="Find the first variable, line and lane that differ from the kernels run as Python, "
        "or from an earlier --trace; exit with 1 if there is one.",
    ),
]
RtolOption = Annotated[
    float | None,
    _look(
        "--rtol",
        min=0,
        metavar="R",
        help="Relative tolerance of --compare; by default that of torch.testing for the type.",
    ),
]
AtolOption = Annotated[
    float | None,
    _look(
        "--atol",
        min=0,
        metavar="A",
        help="Absolute tolerance of --compare; by default that of torch.testing for the type.",
    ),
]
UnsafeOption = Annotated[
    bool,
    typer.Option(
        "--unsafe",
        help="Perform accesses outside of tensors, which may corrupt the process; by default they "
        "are skipped and reported.",
        rich_help_panel="Launch",
    ),
]


class _Chosen:
    """The kernels that `--only` names, and those that were launched."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self.launched: dict[str, None] = {}

    def __call__(self, kernel: str) -> bool:
        self.launched[kernel] = None
        return kernel in self._names

    def missing(self) -> list[str]:
        """Return the names that no launched kernel has."""
        return [name for name in self._names if name not in self.launched]

    def listed(self) -> str:
        """Return the names of the launched kernels."""
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
    gpu: options.EmulatedGpuOption = None,
    first_config: options.FirstConfigOption = False,
    stats: options.StatsOption = False,
    form: FormatOption = "text",
    output: OutputOption = None,
    grid: options.GridOption = None,
    arg: options.ArgOption = None,
    dump_outputs: options.DumpOutputsOption = None,
    watch: WatchOption = None,
    trace: TraceOption = None,
    trace_limit: TraceLimitOption = None,
    compare: CompareOption = None,
    rtol: RtolOption = None,
    atol: AtolOption = None,
    timeout: options.TimeoutOption = None,
    unsafe: UnsafeOption = False,
) -> None:
    """Run Triton kernels on the CPU, as native code or as Python.

    Options before SCRIPT are for ttools; everything after it is for the script. The exit status is
    the script's own; 2 for wrong usage, 3 for a failure of ttools.
    """
    work = read_work(
        words or [],
        module=module,
        code=code,
        grid=grid,
        arguments=arg or [],
        dump_outputs=dump_outputs,
    )
    device_map = options.device_map_of(work, device_map, gpu)
    on_stdout = output == Path("-")
    output = None if on_stdout else output
    if pdb:
        engine = "eager"
    if engine == "eager":
        require_source(work, "--engine eager", "--pdb")
    watch_options = watching.WatchOptions(
        watch=watch or (),
        trace=trace,
        trace_limit=trace_limit,
        compare=compare,
        rtol=rtol,
        atol=atol,
        form=form,
        output=output,
    )
    if watch_options.any and engine == "eager":
        raise UsageError(
            "--watch, --trace, --compare and --format html need native code, so they cannot be "
            "used with --engine eager"
        )
    if unsafe and engine == "eager":
        raise UsageError(
            "--unsafe needs native code; --engine eager rejects accesses outside of tensors"
        )
    if timeout and isinstance(work, Target) and "eager" in (engine, compare):
        raise UsageError(
            "--timeout cannot be used with --engine eager or --compare eager, whose programs run "
            "as Python"
        )
    refuse_unknown(watch or (), work)
    refuse_unknown_kernels(only or (), work)
    require_folder(output, dump_outputs, trace)
    if on_stdout or watch_options.any:
        keep_stdout_for_report(form, output)
    take_over_from_upstream("ttools interprets")
    from ttools.interpreter.api import interpret

    chosen = _Chosen(only or ())
    engine_options: dict[str, Any] = {
        "only": chosen if only else None,
        "threads": threads,
        "order": order,
        "seed": seed,
        "dot": dot,
        "programs": programs,
        "unsafe": unsafe or None,
    }
    limit = timeout if isinstance(work, Target) else None  # others are limited by `run_work`
    watched = watch_options.run(**engine_options, timeout=limit) if watch_options.any else None
    run = watched or interpret(
        first_config=first_config, engine=engine, timeout=timeout or None, **engine_options
    )
    with child_launches() as children, run:
        status = run_work(work, device_map, dump_outputs, debug=pdb, timeout=timeout)
    say_interrupted(status, "the report")
    unmatched = watched.unmatched if watched is not None else []
    _show_messages(run, unmatched, chosen)
    reported = stats or watch_options.any or on_stdout or output is not None or form == "json"
    if children.kernels and (reported or not (run.stats or status or pdb)):
        say_child_launches(children.kernels, bool(run.stats), "the report")
    elif not run.stats and not pdb and not status:
        which = " that --only names" if chosen.launched else ""
        nothing = f"no Triton kernel{which} was launched, so nothing was interpreted"
        say("note", nothing + without_statements(work))
    if watched is not None and run.stats:
        differs = watching.report(watched, watch_options, str(work))
        if unmatched:
            raise UsageError("\n".join(unmatched))
        status = status or exit_codes.FINDINGS * differs
    if stats or (not watch_options.any and (on_stdout or output or form == "json")):
        name = str(work)
        stats_output = None if watch_options.any else output
        table = "text" if watch_options.picture else form
        report_statistics(
            run.stats,
            form=table,
            output=stats_output,
            on_stdout=on_stdout and not watch_options.any,
            target=name,
            exit_code=status,
        )
    raise typer.Exit(status)


def _show_messages(
    run: WatchedRun | Interpretation, unmatched: Sequence[str], chosen: _Chosen
) -> None:
    """Show warnings and notes of a run that has ended."""
    for warning in run.warnings:
        if warning not in unmatched:
            say("warning", warning)
    for name in chosen.missing():
        say("warning", f"no kernel `{name}` was launched (--only); launched: {chosen.listed()}")
    for note in run.notes:
        say("note", note)
