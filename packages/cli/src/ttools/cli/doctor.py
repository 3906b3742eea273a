"""`ttools doctor`: what is installed, which driver is active and why, and what is in the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from ttools.cli import exit_codes, options
from ttools.cli.console import require_folder, stdout, write_json, write_tables
from ttools.core.environment import Result, examine

SCHEMA_VERSION = 1
_STYLES = {"ok": "green", "info": "", "warning": "yellow", "error": "bold red"}


def doctor_command(
    json: options.JsonOption = False,
    form: options.FormatOption = options.ReportFormat.TEXT,
    output: options.OutputOption = None,
) -> None:
    """Report versions, drivers, devices, caches, and what to do about what is wrong.

    The exit status is 1 when something is an error.
    """
    require_folder(output)
    results = examine()
    if json or form is options.ReportFormat.JSON:
        write_json(_as_json(results), output, stdout())
    else:
        write_tables([_table(results)], output, stdout())
    failed = any(result.status == "error" for result in results)
    raise typer.Exit(exit_codes.FINDINGS if failed else exit_codes.OK)


def _as_json(results: Sequence[Result]) -> dict[str, Any]:
    return {"schema": SCHEMA_VERSION, "checks": [asdict(result) for result in results]}


def _table(results: Sequence[Result]) -> Table:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for result in results:
        detail = Text(result.detail)
        if result.help:
            detail.append(f"\nhelp: {result.help}", style="cyan")
        table.add_row(Text(result.status, style=_STYLES[result.status]), result.name, detail)
    return table
