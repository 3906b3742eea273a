"""Lookup of commands, and wording of the errors that typer reports.

Some commands have two words, such as `profile compare`. They are registered under both words and
listed in the help of the first.

Importing a command also imports its options and everything that they need. Therefore a command is
imported only when it is used. The list of commands needs only their names and summaries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_from_info
from typer.models import CommandInfo

from ttools.core.errors import UsageError, did_you_mean

#: Replacements for error messages of pydantic, with which typer parses values.
_REWORDED = (
    (re.compile(r"^Value error, "), ""),
    (re.compile(r"^Input should be a valid integer.*"), "must be an integer"),
    (re.compile(r"^Input should be a valid (\w+).*"), r"must be a \1"),
    (re.compile(r"^Input should be "), "must be "),
)
_NO_CHOICE = re.compile(r"^'(?P<value>.*)' is not one of (?P<choices>'.*')\.?$")


def second_words(commands: Mapping[str, Any], first: str) -> dict[str, Any]:
    """Return the two-word commands that start with the word `first`, by their second word."""
    head = f"{first} "
    return {name.removeprefix(head): commands[name] for name in commands if name.startswith(head)}


#: Names that users of other tools may try, and the commands that do the same.
_OTHER_NAMES = {
    "help": "see `ttools --help`, and `ttools COMMAND --help`",
    "run": "`ttools interpret` runs a script",
    "debug": "`ttools interpret --pdb` debugs a script",
    "check": "`ttools sanitize` checks a script",
    "test": "`ttools verify` compares a kernel with its reference",
    "bench": "`ttools profile sweep` compares times over shapes",
    "benchmark": "`ttools profile sweep` compares times over shapes",
    "autotune": "`ttools tune` tunes autotuned kernels",
    "compile": "`ttools inspect` shows compiled kernels",
    "version": "see `ttools --version`",
}

#: Former names of `--gpu`. They are accepted, but help and completion do not list them.
_FORMER = frozenset({"--device", "--target"})


@contextmanager
def _without_former_names(command: TyperCommand) -> Iterator[None]:
    """Hide former names of options while help or completions are produced."""
    names = [(parameter, parameter.opts) for parameter in command.params]
    for parameter, all_names in names:
        parameter.opts = [name for name in all_names if name not in _FORMER]
    try:
        yield
    finally:
        for parameter, all_names in names:
            parameter.opts = all_names


@contextmanager
def _errors_as_sentences() -> Iterator[None]:
    """Replace typer's errors, which would be printed in a box, by errors of ttools.

    Raises:
        UsageError: The command line is wrong.
    """
    try:
        yield
    except Exception as error:
        # From version 0.20 on, typer has its own copy of click's exceptions, so the classes differ.
        if not hasattr(error, "format_message") or type(error).__name__ == "NoArgsIsHelpError":
            raise
        raise UsageError(_sentence(error)) from None


@dataclass(frozen=True)
class LazyCommand:
    """A command whose module is imported when it is used.

    Attributes:
        function: The function, as `module:name` below `ttools.cli`.
        cls: The class of the command, in the same form.
        summary: The first sentence of its help.
        details: The rest of its help, if that is not the docstring of the function.
    """

    function: str
    cls: str
    summary: str
    details: str = ""

    def load(self, name: str) -> Any:
        """Import the command.

        Args:
            name: Name under which it is registered.
        """
        help = f"{self.summary}\n\n{self.details}" if self.details else None
        command = CommandInfo(
            name=name, cls=_imported(self.cls), callback=_imported(self.function), help=help
        )
        return get_command_from_info(command, pretty_exceptions_short=True, rich_markup_mode="rich")


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"ttools.cli.{module}"), name)


class _LazyCommands(Mapping[str, Any]):
    """Commands by name, each imported when it is looked up."""

    def __init__(self, lazy: Mapping[str, LazyCommand]) -> None:
        self._lazy = lazy
        self._loaded: dict[str, Any] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._lazy)

    def __len__(self) -> int:
        return len(self._lazy)

    def __contains__(self, name: object) -> bool:
        return name in self._lazy

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = self._lazy[name].load(name)
        return self._loaded[name]


class Group(TyperGroup):
    """The `ttools` command group.

    Attributes:
        lazy: The commands by name.
    """

    lazy: Mapping[str, LazyCommand] = {}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _LazyCommands(self.lazy)  # type: ignore[assignment]
        self._lists_commands = False

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Return the names of the commands in the order of the help."""
        return list(self.lazy)

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        """Return a command; for lists of commands, return one that only has a summary."""
        if self._lists_commands:
            return TyperCommand(cmd_name, help=self.lazy[cmd_name].summary)
        return self.commands.get(cmd_name)

    @contextmanager
    def _listing(self) -> Iterator[None]:
        self._lists_commands = True
        try:
            yield
        finally:
            self._lists_commands = False

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write the help, with the summaries of the commands."""
        with self._listing():
            super().format_help(ctx, formatter)

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse the options before the name of the command; report wrong options in a sentence."""
        with _errors_as_sentences():
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:  # type: ignore[override]
        """Resolve two words to a command, if there is one, even if the second names a script.

        Raises:
            UsageError: The second word is mistyped.
        """
        if len(args) > 1:
            both = " ".join(args[:2])
            if both in self.commands:
                return both, self.commands[both], args[2:]
            if not ctx.resilient_parsing:
                self._refuse_mistyped(*args[:2])
        if args and args[0] not in self.commands and not ctx.resilient_parsing:
            raise UsageError(f"there is no command `{args[0]}`{self._hint(args[0])}")
        return super().resolve_command(ctx, args)

    def _hint(self, word: str) -> str:
        """Return a suggestion of commands for a word that is not the name of a command."""
        names = sorted({name.partition(" ")[0] for name in self.commands})
        if own := _OTHER_NAMES.get(word, ""):
            return f"; {own}"
        both = [f"`ttools {name}`" for name in sorted(self.commands) if name.endswith(f" {word}")]
        if both:
            return f"; did you mean {' or '.join(both)}?"
        return did_you_mean(word, names) or f"; commands are {', '.join(names)}"

    def _refuse_mistyped(self, first: str, second: str) -> None:
        near = get_close_matches(second, second_words(self.commands, first), n=1)
        if near and "." not in second and not Path(second).exists():
            raise UsageError(
                f"there is no file `{second}`; did you mean `ttools {first} {near[0]}`?"
            )

    def shell_complete(self, ctx: typer.Context, incomplete: str) -> Any:  # type: ignore[override]
        """Complete the first words of commands."""
        with self._listing():
            items = super().shell_complete(ctx, incomplete)
        return [item for item in items if " " not in item.value]


def _paragraphs(text: str) -> str:
    """Return a docstring without line breaks in its paragraphs, to fill lines of any width."""
    return "\n\n".join(" ".join(part.split()) for part in cleandoc(text).split("\n\n"))


class Command(TyperCommand):
    """A command of `ttools`.

    Args:
        name: Name of the command.
        help: The docstring that describes the command.
        options: Further arguments of `TyperCommand`.
    """

    def __init__(self, name: str | None, *, help: str | None = None, **options: Any) -> None:
        # typer keeps the line breaks of a docstring, which is wrapped for 100 columns.
        super().__init__(name, help=_paragraphs(help) if help else None, **options)

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse the command's options; report wrong options and values with suggestions."""
        with _errors_as_sentences():
            return super().parse_args(ctx, args)

    def shell_complete(self, ctx: typer.Context, incomplete: str) -> Any:  # type: ignore[override]
        """Complete names of options, except former names."""
        with _without_former_names(self):
            return super().shell_complete(ctx, incomplete)

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Add the two-word commands that start with this word."""
        with _without_former_names(self):
            super().format_help(ctx, formatter)
        commands = getattr(ctx.parent and ctx.parent.command, "commands", {})
        more = second_words(commands, str(self.name))
        if more:
            table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
            for word, command in more.items():
                table.add_row(f"{self.name} {word}", command.get_short_help_str(limit=200))
            title = f"Commands with options of their own (ttools {self.name} COMMAND --help)"
            Console().print(Panel(table, title=title, title_align="left", border_style="dim"))


def _sentence(error: Any) -> str:
    """Return the message of a typer error as a sentence with a suggestion."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "ttools"
    if name := getattr(error, "option_name", ""):
        if context is None or "o such option" not in error.message:
            return str(error.message).removesuffix(".")
        options = [option for item in context.command.params for option in item.opts]
        hint = did_you_mean(name, set(options) - _FORMER) or f"; see `{command} --help`"
        return f"`{command}` has no option `{name}`{hint}"
    error.message = _reworded(error.message)
    return str(error.format_message()).removesuffix(".")


def _reworded(message: str) -> str:
    for pattern, words in _REWORDED:
        message = pattern.sub(words, message)
    match = _NO_CHOICE.match(message)
    if match is not None:
        choices = match["choices"].strip("'").split("', '")
        hint = did_you_mean(match["value"], choices)
        message = message.removesuffix(".") + hint if hint else message
    return message
