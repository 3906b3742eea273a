"""Launches from files: a `.ttir` file with a grid and arguments, or the launches of a record."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttools.cli import exit_codes
from ttools.cli.blocks import block, table
from ttools.cli.console import say, write_tables
from ttools.core.errors import UsageError, file_errors

if TYPE_CHECKING:
    import numpy as np
    from rich.console import RenderableType

_AXES = 3
#: Maximum number of characters of an option quoted in an error.
_SHOWN = 100
#: Matches a number of programs of at most 18 digits.
_COUNT = re.compile(r"\s*[0-9]{1,18}\s*")


@dataclass(frozen=True, kw_only=True)
class KernelFile:
    """A `.ttir` file with a grid and arguments for its kernel.

    Attributes:
        grid: Programs along x, y, z.
        arguments: Description of each argument, in the interpreter's notation.
    """

    path: str
    grid: tuple[int, int, int]
    arguments: dict[str, str]

    def __str__(self) -> str:
        return self.path


def parse_grid(text: str | None) -> tuple[int, int, int]:
    """Parse `4`, `4,2` or `4,2,1`; None means one program.

    Raises:
        UsageError: The text does not have one of these forms.
    """
    words = (text or "1").split(",")
    if len(words) > _AXES or not all(map(_COUNT.fullmatch, words)):
        shown = (text or "")[:_SHOWN]
        raise UsageError(
            f"--grid is `{shown}`, but must be one to three numbers such as 4 or 4,2,1"
        )
    x, y, z = ([int(word) for word in words] + [1, 1])[:_AXES]
    return x, y, z


def parse_arguments(texts: Sequence[str]) -> dict[str, str]:
    """Split each `name=value`; the interpreter parses the values.

    Raises:
        UsageError: A text has no `=`, or a name occurs twice.
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
    """Return the launch that the options describe.

    Raises:
        UsageError: An option is invalid.
    """
    return KernelFile(path=path, grid=parse_grid(grid), arguments=parse_arguments(arguments))


def run_launch(
    launch: KernelFile, dump: Path | None = None, quiet: bool = False, timeout: float | None = None
) -> int:
    """Launch the kernel of a file and save or show its tensors; return the exit status.

    Args:
        dump: File for the tensors; without it they are listed on standard output.
        quiet: If True, tensors are not listed.
        timeout: Time limit in seconds; None for the default, 0 for no limit.

    Raises:
        UsageError: An argument does not match the kernel, or `dump` cannot be written.
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
    """Save tensors, or show them on standard output.

    Raises:
        UsageError: `dump` cannot be written.
    """
    if dump is not None:
        _save(outputs, dump)
    elif not quiet:
        write_tables([block(title, [], _table(outputs))], None)


def _save(outputs: Mapping[str, np.ndarray[Any, Any]], dump: Path) -> None:
    import numpy as np

    with file_errors(f"write `{dump}`"), dump.open("wb") as file:
        # NumPy writes bfloat16 and 8-bit floats of ml_dtypes as untyped bytes; float32 represents
        # their values exactly.
        saved = {
            name: array.astype(np.float32) if array.dtype.isbuiltin == 2 else array
            for name, array in outputs.items()
        }
        np.savez(file, **saved)  # type: ignore[arg-type]
    say("note", f"the tensors are in {dump}")


def _table(outputs: Mapping[str, np.ndarray[Any, Any]]) -> RenderableType:
    """Return a table with a row for each tensor."""
    import numpy as np

    names = ("argument", "type", "shape", "values")
    rows = []
    for name, array in outputs.items():
        values = np.array2string(array.ravel(), threshold=8, edgeitems=3, precision=4)
        rows.append((name, str(array.dtype), str(list(array.shape)), values))
    return table(names, rows, left=names, always=names)


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The launches of a record."""

    path: str

    def __str__(self) -> str:
        return self.path


def run_replay(
    work: Replay, dump: Path | None = None, quiet: bool = False, timeout: float | None = None
) -> int:
    """Replay the launches and save or show their tensors; return the exit status.

    Args:
        dump: File for the tensors; without it they are listed on standard output.
        quiet: If True, tensors are not listed.
        timeout: Time limit of a launch in seconds; None for the default, 0 for no limit.

    Raises:
        UsageError: The file is not a record, or `dump` cannot be written.
    """
    from ttools.interpreter.records.replay import replay
    from ttools.interpreter.records.time_limit import DEFAULT_TIMEOUT

    replayed = replay(work.path, DEFAULT_TIMEOUT if timeout is None else timeout)
    if dump is not None:
        several = len(replayed) > 1
        saved = {
            f"{number}.{name}" if several else name: array
            for number, result in enumerate(replayed)
            for name, array in result.tensors.items()
        }
        show_outputs(saved, dump, quiet)
        return exit_codes.OK
    for result in replayed:
        spec = result.launch.spec
        site = f", launched from {spec.site.line}" if spec.site.line else ""
        title = f"{spec.kernel}, grid {spec.grid}{site}"
        show_outputs(result.tensors, None, quiet, title)
    return exit_codes.OK
