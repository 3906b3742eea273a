"""Running a `.ttir` file from the command line: its grid and arguments, and what comes out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from ttools.cli import exit_codes
from ttools.cli.console import stdout
from ttools.core.errors import UsageError, file_errors

if TYPE_CHECKING:
    import numpy as np

_AXES = 3
#: Characters of an option that an error repeats.
_SHOWN = 100
#: No count of programs that a launch takes has more digits.
_COUNT = re.compile(r"\s*[0-9]{1,18}\s*")


@dataclass(frozen=True, kw_only=True)
class KernelFile:
    """A `.ttir` file, with the grid and the arguments to launch its kernel with.

    Attributes:
        grid: Programs along x, y, z.
        arguments: What each argument is, in the interpreter's notation.
    """

    path: str
    grid: tuple[int, int, int]
    arguments: dict[str, str]

    def __str__(self) -> str:
        return self.path


def parse_grid(text: str | None) -> tuple[int, int, int]:
    """Reads `4`, `4,2` or `4,2,1`; one program when absent.

    Raises:
        UsageError: It is none of these.
    """
    words = (text or "1").split(",")
    if len(words) > _AXES or not all(map(_COUNT.fullmatch, words)):
        shown = (text or "")[:_SHOWN]
        raise UsageError(f"--grid is `{shown}`, but must be up to three counts such as 4 or 4,2,1")
    x, y, z = ([int(word) for word in words] + [1, 1])[:_AXES]
    return x, y, z


def parse_arguments(texts: Sequence[str]) -> dict[str, str]:
    """Splits each `name=value`; the interpreter reads the values.

    Raises:
        UsageError: One has no `=`, or a name comes twice.
    """
    arguments: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name and value):
            raise UsageError(f"--arg `{text}` is not of the form NAME=VALUE, as in n=1000")
        if name in arguments:
            raise UsageError(f"--arg gives `{name}` twice")
        arguments[name] = value
    return arguments


def read_launch(path: str, grid: str | None, arguments: Sequence[str]) -> KernelFile:
    """What the options say to launch.

    Raises:
        UsageError: One of them does not read.
    """
    return KernelFile(path=path, grid=parse_grid(grid), arguments=parse_arguments(arguments))


def run_launch(
    launch: KernelFile, dump: Path | None = None, quiet: bool = False, timeout: float | None = None
) -> int:
    """Launches the kernel of a file and saves or shows its tensors; returns the exit status.

    Args:
        dump: where to save the tensors; they are listed on standard output without it.
        quiet: whether not to list them.
        timeout: seconds after which it is stopped; None for the default, 0 for any time.

    Raises:
        UsageError: An argument does not fit the kernel, or `dump` cannot be written.
    """
    from ttools.interpreter.records.time_limit import DEFAULT_TIMEOUT
    from ttools.interpreter.records.ttir_file import run_ttir_file

    limit = DEFAULT_TIMEOUT if timeout is None else timeout
    outputs = run_ttir_file(launch.path, launch.grid, launch.arguments, limit)
    show_outputs(outputs, dump, quiet)
    return exit_codes.OK


def show_outputs(
    outputs: Mapping[str, np.ndarray[Any, Any]],
    dump: Path | None,
    quiet: bool,
    title: str = "After the launch",
) -> None:
    """Saves tensors, or shows them on standard output.

    Raises:
        UsageError: `dump` cannot be written.
    """
    if dump is not None:
        _save(outputs, dump)
    elif not quiet:
        # Not as the table's title, which would be broken where the table ends.
        stdout().print(title, style="italic", soft_wrap=True)
        stdout().print(_table(outputs))


def _save(outputs: Mapping[str, np.ndarray[Any, Any]], dump: Path) -> None:
    import numpy as np

    with file_errors(f"write `{dump}`"), dump.open("wb") as file:
        np.savez(file, **outputs)  # type: ignore[arg-type]


def _table(outputs: Mapping[str, np.ndarray[Any, Any]]) -> Table:
    """Return the tensors after the launch, a line each."""
    import numpy as np

    table = Table("argument", "type", "shape", "values")
    for name, array in outputs.items():
        values = np.array2string(array.ravel(), threshold=8, edgeitems=3, precision=4)
        table.add_row(*map(Text, (name, str(array.dtype), str(list(array.shape)), values)))
    return table
