"""Running a `.ttir` file from the command line: its grid and arguments, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from ttools.cli.console import stdout
from ttools.core.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

_AXES = 3


def parse_grid(text: str | None) -> tuple[int, int, int]:
    """Reads `4`, `4,2` or `4,2,1`; one program when absent.

    Raises:
        UsageError: It is none of these.
    """
    words = (text or "1").split(",")
    if len(words) > _AXES or not all(word.strip().isdigit() for word in words):
        raise UsageError(f"--grid is `{text}`, but must be up to three counts such as 4 or 4,2,1")
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


def run_ttir(path: str, grid: str | None, arguments: Sequence[str], dump: Path | None) -> int:
    """Launches the kernel of a file and saves or shows its tensors; returns the exit code.

    Raises:
        UsageError: The file is missing, or an option does not read.
    """
    if not Path(path).is_file():
        raise UsageError(f"there is no file `{path}`")
    from ttools.interpreter.ttir_file import run_ttir_file

    outputs = run_ttir_file(path, parse_grid(grid), parse_arguments(arguments))
    if dump is None:
        stdout().print(_table(outputs))
    else:
        _save(outputs, dump)
    return 0


def _save(outputs: Mapping[str, np.ndarray[Any, Any]], dump: Path) -> None:
    import numpy as np

    try:
        with dump.open("wb") as file:
            np.savez(file, **outputs)  # type: ignore[arg-type]
    except OSError as error:
        raise UsageError(f"cannot write `{dump}`: {error.strerror}") from error


def _table(outputs: Mapping[str, np.ndarray[Any, Any]]) -> Table:
    """The tensors after the launch, a line each."""
    import numpy as np

    table = Table(title="After the launch", title_justify="left")
    for name in ("argument", "type", "shape", "values"):
        table.add_column(name)
    for name, array in outputs.items():
        values = np.array2string(array.ravel(), threshold=8, edgeitems=3, precision=4)
        table.add_row(name, str(array.dtype), str(list(array.shape)), values)
    return table
