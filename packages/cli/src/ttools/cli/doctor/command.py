"""`ttools doctor`: installed versions, the active driver, and problems with remedies."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ttools.cli import exit_codes, options
from ttools.cli.blocks import Labelled
from ttools.cli.console import require_folder, stdout, write_json, write_tables
from ttools.core.environment import Result, examine
from ttools.core.errors import UsageError

if TYPE_CHECKING:
    from ttools.fuzz.self_test import Outcome

SCHEMA = "ttools.doctor/1"
_NO_LABELS = (("", ""), ("", ""))
_STYLES = {"ok": "green", "info": "", "warning": "yellow", "error": "bold red"}


def doctor_command(
    json: options.JsonOption = False,
    form: options.FormatOption = "text",
    output: options.OutputOption = None,
    self_test: Annotated[
        bool,
        typer.Option(
            "--self-test",
            help="Run random kernels on this CPU and compare them with NumPy, for SECONDS.",
        ),
    ] = False,
    seconds: Annotated[
        float | None,
        typer.Argument(
            metavar="[SECONDS]", help="Duration of --self-test; 30 by default.", min=0.1
        ),
    ] = None,
) -> None:
    """Report versions, drivers, devices and caches, with remedies for problems.

    The exit status is 1 if a check reports an error.
    """
    require_folder(output)
    if seconds is not None and not self_test:
        raise UsageError(f"{seconds:g}: a number of seconds needs --self-test")
    if self_test:
        _self_test(30.0 if seconds is None else seconds)
        return
    results = examine()
    if json or form == "json":
        checks = [asdict(result) for result in results]
        write_json({"schema": SCHEMA, "checks": checks}, output)
    else:
        write_tables([_listed(results)], output)
    failed = any(result.status == "error" for result in results)
    raise typer.Exit(exit_codes.FINDINGS if failed else exit_codes.OK)


def _listed(results: Sequence[Result]) -> Labelled:
    rows: list[tuple[Sequence[tuple[str, str]], Text]] = []
    for result in results:
        labels = ((result.status, _STYLES[result.status]), (result.name, ""))
        rows.append((labels, Text(result.detail)))
        if result.help:
            rows.append((_NO_LABELS, Text(f"help: {result.help}", style="cyan")))
    return Labelled(rows)


# ---- the self-test


def _self_test(seconds: float) -> None:
    """Run random kernels; the exit status is 1 if a result is wrong."""
    from ttools.cli.progress import State, ticking
    from ttools.fuzz.self_test import self_test

    def state(part: float, outcome: Outcome) -> State:
        failed = f"{len(outcome.failures)} failed"
        facts = f"{100 * part:.0f}% of the time elapsed", failed
        return State(what="self-test", done=outcome.kernels, unit="kernels", facts=facts)

    # Each run tries other kernels; the seed is in the report.
    first = time.time_ns() // 1_000_000 % 10**9
    with ticking() as tick:
        outcome = self_test(
            seconds, first=first, progress=lambda part, so_far: tick(state(part, so_far))
        )
    _report(outcome)
    raise typer.Exit(exit_codes.FINDINGS if outcome.failures else exit_codes.OK)


def _report(outcome: Outcome) -> None:
    from ttools.core.reports.report import counted

    console = stdout()
    launches = sum(outcome.launches.values())
    console.print(
        f"{counted(outcome.kernels, 'random kernel')} starting with seed {outcome.first}, "
        f"{counted(launches, 'launch', 'launches')} in "
        f"{counted(len(outcome.launches), 'variant')}: {len(outcome.failures) or 'no'} "
        f"{'difference' if len(outcome.failures) == 1 else 'differences'} from NumPy",
        highlight=False,
        soft_wrap=True,
    )
    if outcome.kernels == 0:
        console.print("no kernel finished in that time; allow more seconds", highlight=False)
    for failure, script in zip(outcome.failures, outcome.scripts, strict=True):
        console.print(f"\n{failure.kind} ({failure.variant}): {failure.message}", soft_wrap=True)
        console.print(f"\n{script}", highlight=False, soft_wrap=True)
    if outcome.failures:
        console.print(
            "This is a bug in ttools. Please report it as an issue of ttools, with the script, its "
            "output and the output of `ttools doctor`.",
            highlight=False,
            soft_wrap=True,
        )
