"""`ttools profile sweep`: measures implementations side by side over shapes.

`--shapes "M=1024,4096"` selects the shapes.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import RenderableType
from rich.table import Table

from ttools.cli import exit_codes, options
from ttools.cli.blocks import paragraph
from ttools.cli.blocks import table as narrow_table
from ttools.cli.console import (
    keep_stdout_for_report,
    new_table,
    require_folder,
    say,
    write_json,
    write_tables,
    write_text,
)
from ttools.cli.markdown import markdown
from ttools.cli.profile.options import ProfiledOnOption
from ttools.cli.progress import State, progress
from ttools.cli.work import devices_for, take_over_from_upstream, write_crash_notes
from ttools.core.errors import UsageError
from ttools.core.process.user_module import load_functions
from ttools.core.reports.numbers import number, seconds

if TYPE_CHECKING:
    from ttools.profiler.sweep.sweep import Measurement, Sweep


_RANGE = re.compile(r"(\d+):(\d+)(?::(\d+))?")
#: Maximum number of shapes; a larger number indicates a mistake in a range.
_MOST = 10_000


def read_shapes(
    words: Sequence[str], module: Any, draw: Callable[..., Any]
) -> list[dict[str, Any]]:
    """Return all combinations of the given values.

    Other parameters of `inputs` get the first values that `ttools tune` would pass.

    Args:
        words: Words `NAME=VALUE,…`, where a value may be a range: `LOW:HIGH` doubles the value from
            LOW to HIGH, and `LOW:HIGH:STEP` adds STEP repeatedly.
        module: The module that contains `draw`, and optionally `DOMAIN` and `TUNE`.
        draw: The function that returns arguments.

    Raises:
        UsageError: A parameter or value does not exist, or a parameter has no value.
    """
    from ttools.verifier.cases.tuned import problems_of

    if not words:
        return problems_of(module, draw)
    parameters = inspect.signature(draw).parameters
    domain = getattr(module, "DOMAIN", None) or {}
    values_by_name: dict[str, list[Any]] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not text:
            raise UsageError(
                f"--shapes {word}: must be NAME=VALUE,…, such as M=1024,4096 or N=256:8192"
            )
        if name not in parameters:
            raise UsageError(
                f"--shapes {word}: `inputs` has only the parameters {', '.join(parameters)}"
            )
        chosen = values_by_name.setdefault(name, [])
        chosen += [value for value in _values(word, text, domain.get(name)) if value not in chosen]
    missing = [
        name
        for name, parameter in parameters.items()
        if name not in values_by_name
        and name != "seed"
        and parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    base: dict[str, Any] = problems_of(module, draw)[0] if missing else {}
    if "seed" in parameters:
        base.setdefault("seed", 0)
    shapes = [
        {**base, **dict(zip(values_by_name, values, strict=True))}
        for values in itertools.islice(itertools.product(*values_by_name.values()), _MOST + 1)
    ]
    if len(shapes) > _MOST:
        raise UsageError(f"--shapes requests more than {_MOST:,} shapes")
    return shapes


def _values(word: str, text: str, entry: Any) -> list[Any]:
    """Return the values that one word lists; `entry` is the parameter's domain, if it has one."""
    labels = {str(item).removeprefix("torch."): item for item in entry or ()}
    if isinstance(entry, (tuple, range)):
        labels = {}
    values: list[Any] = []
    for part in text.split(","):
        if labels:
            if part not in labels:
                raise UsageError(f"--shapes {word}: `{part}` is not one of {', '.join(labels)}")
            values.append(labels[part])
        elif match := _RANGE.fullmatch(part):
            values += _sizes(word, *(int(item) for item in match.groups() if item))
        else:
            values.append(_literal(part))
    return values


def _sizes(word: str, low: int, high: int, step: int | None = None) -> list[int]:
    if not 0 < low <= high or step == 0:
        raise UsageError(
            f"--shapes {word}: a range must be LOW:HIGH or LOW:HIGH:STEP, with positive integers"
        )
    if step:
        return list(range(low, high + 1, step)[: _MOST + 1])
    doublings = (high // low).bit_length()
    return [low << n for n in range(doublings)]


def _literal(text: str) -> Any:
    """Return a Python literal, or the text itself."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


ImplementationsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE.py:FUNCTION…",
        show_default=False,
        help="Functions that compute the same results.",
    ),
]
SweepInputsOption = Annotated[
    str | None,
    typer.Option(
        "--inputs",
        metavar="FILE.py:NAME",
        help="Function that takes a shape and returns keyword arguments, as for ttools verify.",
    ),
]
ShapesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--shapes",
        metavar="NAME=VALUES",
        help="Values of a parameter of inputs: a list M=1024,4096, a doubling range M=256:8192, or "
        "a range with a step M=256:1024:256; repeatable. By default, the shapes of ttools tune.",
    ),
]
PassOption = Annotated[
    Literal["forward", "backward", "both"],
    typer.Option(
        "--pass",
        help="What is timed and compared; backward needs inputs that require gradients.",
    ),
]
BaselineOption = Annotated[
    str | None,
    typer.Option(
        "--baseline",
        metavar="FUNCTION",
        help="Function to which speed-ups and errors refer; by default the first.",
    ),
]
RepeatOption = Annotated[
    float,
    typer.Option(
        "--repeat",
        min=0,
        metavar="S",
        help="Number of seconds for which each function is repeated at each shape.",
    ),
]
SweepFormatOption = Annotated[
    Literal["text", "markdown", "json", "csv", "html"],
    typer.Option("--format", help="Format of the report.", rich_help_panel="Report"),
]


def profile_sweep_command(
    implementations: ImplementationsArgument = None,
    inputs: SweepInputsOption = None,
    shapes: ShapesOption = None,
    which: PassOption = "forward",
    baseline: BaselineOption = None,
    on: ProfiledOnOption = "auto",
    threads: options.ThreadsOption = None,
    device_map: options.DeviceMapOption = None,
    repeat: RepeatOption = 0.1,
    form: SweepFormatOption = "text",
    output: options.OutputOption = None,
) -> None:
    """Time implementations side by side over shapes.

    The report has a row per shape and implementation: time, speed-up over the baseline, error of
    the result, GB/s and Tflop/s. The exit status is 1 if an implementation fails at a shape or
    returns tensors of different shapes from the baseline's.
    """
    if not implementations or inputs is None:
        raise UsageError(
            "nothing to measure: ttools profile sweep --inputs FILE.py:NAME FILE.py:FUNCTION …"
        )
    require_folder(output)
    keep_stdout_for_report(form, output)
    take_over_from_upstream("ttools times")
    write_crash_notes()
    status = exit_codes.OK
    with devices_for(device_map):
        (module, draw), *loaded = load_functions([inputs, *implementations])
        from ttools.profiler.sweep.sweep import Sweep

        names = _names(implementations)
        sweep = Sweep(
            dict(zip(names, (function for _, function in loaded), strict=True)),
            draw,
            read_shapes(shapes or [], module, draw),
            which=which,
            baseline=baseline,
            on=on,
            threads=threads,
            repeat_s=repeat,
        )
        with progress(
            lambda: State(what="measured", done=sweep.done, total=sweep.total, unit="shapes")
        ):
            try:
                sweep.run()
            except KeyboardInterrupt:
                status = exit_codes.INTERRUPTED
    if sweep.timed_on == "CPU":
        say("warning", "these times were measured on a CPU, so they say little about a GPU")
    if sweep.done < sweep.total:
        say("note", f"interrupted: {sweep.done} of {sweep.total} shapes were measured")
    _write(sweep, " ".join(implementations), form, output)
    if not status and any(row.failure for row in sweep.rows):
        status = exit_codes.FINDINGS
    raise typer.Exit(status)


def _names(words: Sequence[str]) -> list[str]:
    """Return the functions' names, preceded by the names of their files if two are equal."""
    if len(set(words)) < len(words):
        twice = next(word for word in words if words.count(word) > 1)
        raise UsageError(f"`{twice}` is named twice")
    plain = [word.rpartition(":")[2] for word in words]
    if len(set(plain)) == len(plain):
        return plain
    stems = [f"{Path(word.rpartition(':')[0]).stem}:{word.rpartition(':')[2]}" for word in words]
    return stems if len(set(stems)) == len(stems) else list(words)


def _write(sweep: Sweep, title: str, form: str, output: Path | None) -> None:
    if form == "json":
        write_json(sweep.as_dict(), output)
    elif form == "csv":
        write_text(sweep.to("csv"), output)
    elif form == "html":
        from ttools.profiler.sweep.html import write_page

        write_text(write_page(sweep, title), output)
    elif form == "markdown":
        write_text(markdown([_table(sweep)]), output)
    else:
        write_tables(_blocks(sweep), output)


_MEASURED = ("time", "speed-up", "error", "GB/s", "Tflop/s")


def _blocks(sweep: Sweep) -> Iterator[RenderableType]:
    """Yield one narrow table, without constant columns."""
    varying = sweep.varying
    names = (*varying, "implementation", *_MEASURED)
    rows = [_cells(row, varying) for row in sweep.rows if not row.failure]
    if rows:
        yield narrow_table(names, rows, left=("implementation",))
        yield paragraph(
            f"\nTimes{sweep.of_pass} on {sweep.timed_on}; speed-ups and errors refer to "
            f"{sweep.baseline}; GB/s count the tensors passed and returned."
        )
    failed: dict[tuple[str, str], list[str]] = {}
    for row in sweep.rows:
        if row.failure:
            values = row.as_dict()
            shape = ", ".join(f"{name}={values[name]}" for name in varying if name in values)
            failed.setdefault((shape, row.failure), []).append(row.implementation)
    for (shape, failure), those in failed.items():
        yield paragraph(f"{', '.join(those)} at {shape}: {failure}")


def _table(sweep: Sweep) -> Table:
    varying = sweep.varying
    left = ("implementation", "failure")
    table = new_table(
        f"Times{sweep.of_pass} on {sweep.timed_on}, with {sweep.baseline} as the baseline",
        (),
        varying,
    )
    table.add_column("implementation")
    for name in _MEASURED:
        table.add_column(name, justify="right")
    table.add_column(left[1])
    for row in sweep.rows:
        table.add_row(*_cells(row, varying), row.failure)
    return table


def _speedup_text(speedup: float, within: tuple[float, float] | None) -> str:
    interval = "" if within is None else f" ({within[0]:.2f} to {within[1]:.2f})"
    return f"{speedup:.2f}{interval}"


def _cells(row: Measurement, varying: Sequence[str]) -> list[str]:
    values = row.as_dict()
    figures = (values["speedup"], values["error"], values["gbytes"], values["tflops"])
    speedup, error, gbytes, tflops = figures
    return [
        *(str(values.get(name, "")) for name in varying),
        row.implementation,
        seconds(values["time_s"]),
        "" if speedup is None else _speedup_text(speedup, row.speedup_within),
        "" if error is None else f"{error:.1e}" if error else "0",
        "" if gbytes is None else number(gbytes),
        "" if tflops is None else number(tflops),
    ]
