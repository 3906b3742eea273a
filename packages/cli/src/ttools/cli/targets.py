"""The syntax of targets: `SCRIPT [ARGS…]`, `-m MODULE [ARGS…]`, `-c CODE`, or a file.

Options before the target belong to ttools, everything after it to the script. `.ttir` files,
records (`.tt`) and kernels (`FILE.py:KERNEL`) take no arguments, so options of ttools may follow
them, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import typer

from ttools.cli.commands import Command
from ttools.cli.console import say
from ttools.core.errors import UsageError
from ttools.core.process.script import Target

TTIR_SUFFIX, RECORD_SUFFIX = ".ttir", ".tt"
#: Files with kernels but without a script, by extension.
_KERNELS = {TTIR_SUFFIX: "a .ttir file", RECORD_SUFFIX: "a record"}
_PYTHON_FORMS = ("-m", "-c")


class TargetCommand(Command):
    """A command that runs a target.

    Attributes:
        reserved: Words that do not name scripts; a script with such a name is given as `./word`.
    """

    reserved: tuple[str, ...] = ()

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Separate the options of the script from those of the command."""
        takes_value = {
            name: not getattr(param, "is_flag", False)
            for param in self.params
            for name in (*param.opts, *param.secondary_opts)
            if name.startswith("-")
        }
        separated = separate(args, takes_value, self.reserved)
        if "--" not in args and "--" in separated:
            at = separated.index("--")
            if not any(word[:2] in _PYTHON_FORMS for word in separated[:at]):
                _note_misplaced(separated[at + 1 :], takes_value)
        return super().parse_args(ctx, separated)


class ReplayCommand(TargetCommand):
    """A variant of `interpret` that accepts only records."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Require a record.

        Raises:
            UsageError: The command line names something else.
        """
        rest = super().parse_args(ctx, args)
        words = ctx.params.get("words") or [""]
        if not ctx.resilient_parsing and not words[0].endswith(RECORD_SUFFIX):
            named = f"`{words[0]}` is not a record" if words[0] else "nothing to replay"
            raise UsageError(
                f"{named}: give FILE{RECORD_SUFFIX} as written by `ttools record`; to run "
                "a script, use `ttools interpret`"
            )
        return rest


def _note_misplaced(words: Sequence[str], options: Collection[str]) -> None:
    """Write a note on options of ttools that a script receives but never mentions."""
    misplaced = {word.partition("=")[0] for word in words[1:] if word.startswith("--")}
    for name in sorted(misplaced.intersection(options)):
        try:
            text = Path(words[0]).read_text(errors="replace")
        except (OSError, ValueError):
            return  # reported when it is run
        if name not in text:
            say(
                "note",
                f"`{name}` is passed to {words[0]}, which does not mention it: "
                "options of ttools must come before the script",
            )


def is_kernel(word: str) -> bool:
    """Return whether a word of the command line names a kernel in a file: `FILE.py:KERNEL`."""
    file, colon, name = word.rpartition(":")
    return bool(colon) and file.endswith(".py") and name.isidentifier()


def separate(
    arguments: Sequence[str], takes_value: Mapping[str, bool], reserved: Sequence[str] = ()
) -> list[str]:
    """Insert `--` before the script's own arguments.

    Args:
        takes_value: For each option of the command, whether a value follows it.
        reserved: Words that do not name scripts.
    """
    position = 0
    while position < len(arguments):
        token = arguments[position]
        if token == "--":
            break
        if token[:2] in _PYTHON_FORMS:
            end = position + (1 if len(token) > 2 else 2)
            if end > len(arguments):
                break
            return [*arguments[:end], "--", *arguments[end:]]
        if token.startswith("-") and token != "-":
            position += 2 if takes_value.get(token, False) else 1
        elif token.endswith(tuple(_KERNELS)) or is_kernel(token) or token in reserved:
            break
        else:
            return [*arguments[:position], "--", *arguments[position:]]
    return list(arguments)


def read_target(words: Sequence[str], module: str | None, code: str | None) -> Target:
    """Return the Python target that the command line names.

    Raises:
        UsageError: The command line names no target, or a file that does not exist.
    """
    if module is not None:
        return Target(kind="module", name=module, arguments=tuple(words))
    if code is not None:
        return Target(kind="code", name=code, arguments=tuple(words))
    if not words:
        raise UsageError(
            "nothing to run: give SCRIPT [ARGS…], -m MODULE, -c CODE, a .ttir file or a record"
        )
    if words[0].endswith(RECORD_SUFFIX):
        raise UsageError(
            f"`{words[0]}` is a record, not a program; records can be used with `ttools "
            "interpret`, `sanitize`, `profile` and `inspect`"
        )
    if words[0] != "-" and not Path(words[0]).exists():
        raise UsageError(f"there is no file `{words[0]}`")
    return Target(kind="script", name=words[0], arguments=tuple(words[1:]))


def kernels_path(words: Sequence[str], suffix: str) -> str | None:
    """Return the file with kernels that the command line names, or None if it names something else.

    Args:
        suffix: Extension of the expected files, `TTIR_SUFFIX` or `RECORD_SUFFIX`.

    Raises:
        UsageError: The file does not exist, or other words follow it.
    """
    if not words or not words[0].endswith(suffix):
        return None
    if len(words) > 1:
        raise UsageError(f"{_KERNELS[suffix]} takes no arguments, but got `{' '.join(words[1:])}`")
    if not Path(words[0]).is_file():
        raise UsageError(f"there is no file `{words[0]}`")
    return words[0]
