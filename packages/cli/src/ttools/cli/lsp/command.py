"""`ttools lsp`: findings and counts in an editor, by the language server protocol."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from ttools.cli.console import say
from ttools.core.errors import UsageError


def lsp_command(
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Standard streams, which are used anyway.")
    ] = False,
) -> None:
    """Show findings, witnesses and counts in an editor that speaks the language server protocol.

    The editor starts this command and talks to it on standard input and output. It shows the
    reports that its settings name, and runs a script only where a setting or a command asks for it.
    """
    if find_spec("pygls") is None:
        raise UsageError(
            "the language server needs pygls: pip install 'triton-ttools[lsp]' brings it"
        )
    from ttools.cli.lsp.server import new_server

    if sys.stdin.isatty():
        say("note", "waiting for an editor on standard input; Ctrl-D ends")
    new_server().start_io()
