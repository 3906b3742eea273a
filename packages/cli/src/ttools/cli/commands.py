"""How the command line finds its commands, and how it words what typer refuses.

Some commands have two words, as `profile compare`: each is registered under both, and comes after
the options of `ttools` itself like any other. They are listed in the help of their first word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from typer.core import TyperCommand, TyperGroup

from ttools.core.errors import UsageError, did_you_mean

#: What pydantic, which typer reads values with, says of them, and what is shown instead.
_REWORDED = (
    (re.compile(r"^Value error, "), ""),
    (re.compile(r"^Input should be a valid integer.*"), "must be an integer"),
    (re.compile(r"^Input should be a valid (\w+).*"), r"must be a \1"),
    (re.compile(r"^Input should be "), "must be "),
)
_NO_CHOICE = re.compile(r"^'(?P<value>.*)' is not one of (?P<choices>'.*')\.?$")


def second_words(commands: Mapping[str, Any], first: str) -> dict[str, Any]:
    """The commands of two words that begin with one word, by their second word."""
    head = f"{first} "
    return {
        name.removeprefix(head): each for name, each in commands.items() if name.startswith(head)
    }


class Group(TyperGroup):
    """The `ttools` command."""

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:  # type: ignore[override]
        """Takes two words for a command where there is such a one: these win over scripts.

        Raises:
            UsageError: the second word is mistyped.
        """
        if len(args) > 1:
            both = " ".join(args[:2])
            if both in self.commands:
                return both, self.commands[both], args[2:]
            if not ctx.resilient_parsing:
                self._refuse_mistyped(*args[:2])
        return super().resolve_command(ctx, args)

    def _refuse_mistyped(self, first: str, second: str) -> None:
        near = get_close_matches(second, second_words(self.commands, first), n=1)
        if near and "." not in second and not Path(second).exists():
            raise UsageError(
                f"there is no file `{second}`; did you mean `ttools {first} {near[0]}`?"
            )

    def shell_complete(self, ctx: typer.Context, incomplete: str) -> Any:  # type: ignore[override]
        """Completes first words; the second ones are completed after them."""
        return [each for each in super().shell_complete(ctx, incomplete) if " " not in each.value]


class Command(TyperCommand):
    """A command of `ttools`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Words what is refused as a sentence, with the value that was probably meant."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            message = getattr(error, "message", None)
            if isinstance(message, str):
                error.message = _reworded(message)  # type: ignore[attr-defined]
            raise

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Lists the commands of two words that begin with this one, too."""
        super().format_help(ctx, formatter)
        commands = getattr(ctx.parent and ctx.parent.command, "commands", {})
        more = second_words(commands, str(self.name))
        if more:
            table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
            for word, command in more.items():
                table.add_row(f"{self.name} {word}", command.get_short_help_str(limit=200))
            title = f"Commands with options of their own (ttools {self.name} COMMAND --help)"
            Console().print(Panel(table, title=title, title_align="left", border_style="dim"))


def _reworded(message: str) -> str:
    for pattern, words in _REWORDED:
        message = pattern.sub(words, message)
    found = _NO_CHOICE.match(message)
    if found is not None:
        choices = found["choices"].strip("'").split("', '")
        hint = did_you_mean(found["value"], choices)
        message = message.removesuffix(".") + hint if hint else message
    return message
