"""`ttools lsp`: findings and counts in an editor, by the Language Server Protocol."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from ttools.cli.console import say
from ttools.core.errors import UsageError


def lsp_command(
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Use standard streams, which is the default.")
    ] = False,
) -> None:
    """Show findings, witnesses and counts in an editor that supports the Language Server Protocol.

    The editor starts this command and communicates by standard input and output. The server shows
    the reports that the editor's settings name, and runs a script only if a setting or a command
    requests it.
    """
    if find_spec("pygls") is None:
        raise UsageError("the language server needs pygls: run pip install 'triton-ttools[lsp]'")
    from ttools.cli.lsp.server import new_server

    if sys.stdin.isatty():
        say("note", "waiting for an editor on standard input; press Ctrl-D to quit")
    new_server().start_io()
