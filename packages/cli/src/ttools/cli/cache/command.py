"""`ttools cache`: location, size and removal of compiled kernels and tunings."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from ttools.cli import options
from ttools.cli.blocks import table
from ttools.cli.console import require_folder, say, write_json, write_tables
from ttools.core.configuration import cache_directory
from ttools.core.reports.numbers import mebibytes

SCHEMA = "ttools.cache/1"


def cache_command(
    action: Annotated[
        Literal["show", "clear"],
        typer.Argument(metavar="[show|clear]", help="The default is show."),
    ] = "show",
    tunings: Annotated[
        bool, typer.Option("--tunings", help="With clear: also remove the results of @tune.")
    ] = False,
    form: options.FormatOption = "text",
    output: options.OutputOption = None,
) -> None:
    """Show or clear the files kept on disk: compiled kernels, and measurements of @tune.

    Triton's own cache is not affected.
    """
    from ttools.interpreter.native.object_store import ObjectStore

    require_folder(output)
    folder = cache_directory()
    store, measured = ObjectStore(folder / "objects"), folder / "tunings.sqlite"
    if action == "clear":
        entries, size = store.clear()
        say(
            "note",
            f"removed {entries:,} files of compiled kernels, {mebibytes(size)}, from {folder}",
        )
        if tunings and measured.exists():
            measured.unlink()
            say("note", f"removed {measured}")
    entries, size = store.size()
    kept = measured.stat().st_size if measured.exists() else 0
    rows = (
        ("compiled kernels", str(store.directory), entries, size, store.limit_bytes),
        ("tunings", str(measured), int(kept > 0), kept, None),
    )
    if form == "json":
        names = ("what", "path", "files", "bytes", "limit_bytes")
        kinds = [dict(zip(names, row, strict=True)) for row in rows]
        write_json({"schema": SCHEMA, "caches": kinds}, output)
        return
    cells = [
        (what, path, f"{files:,}", mebibytes(used), mebibytes(limit) if limit else "")
        for what, path, files, used, limit in rows
    ]
    headings = ("what", "path", "files", "size", "at most")
    write_tables([table(headings, cells, left=("what", "path"), always=headings)], output)
