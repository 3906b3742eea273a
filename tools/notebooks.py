"""Executes the notebooks of the documentation, all in one process, and saves their outputs.

    python -m tools.notebooks            # executes docs/notebooks/*.ipynb and saves them
    python -m tools.notebooks --check    # exits with status 1 if the outputs differ

The comparison ignores the parts of outputs that depend on machine or time: numbers, and the folders
of the Jupyter kernel.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
_SECONDS = 120
#: Tag of cells whose outputs depend on the machine.
_OF_THE_MACHINE = "of the machine"
#: Matches the folder in which the Jupyter kernel stores the code of cells.
_CELLS = re.compile(r"[^\s\"'(]*/ipykernel_\d+/")
#: Matches the name of a cell.
_CELL = re.compile(r"\bIn\[(\d+)\]")
_NUMBER = re.compile(r"\d[\d.,]*(?:e[-+]?\d+)?(?: ?(?:[kMGTnuµm]?(?:B|s)|[kMGT])\b)?|\bnan\b")


def notebooks() -> list[Path]:
    """Return the notebooks, sorted by name."""
    return sorted(FOLDER.glob("*.ipynb"))


@contextmanager
def kernel() -> Iterator[KernelManager]:
    """Start a process that runs cells in an empty folder."""
    with TemporaryDirectory() as folder:
        # Use Unix sockets, which need no TCP port.
        address = str(Path(folder, "kernel"))
        manager = KernelManager(kernel_name="python3", transport="ipc", ip=address)
        manager.start_kernel(cwd=folder, env={**os.environ, "TTOOLS_QUIET": "1", "COLUMNS": "100"})
        try:
            yield manager
        finally:
            manager.shutdown_kernel(now=True)


def executed(path: Path, manager: KernelManager) -> Any:
    """Return a notebook with new outputs.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell fails.
    """
    notebook = nbformat.read(path, as_version=4)
    forget = nbformat.v4.new_code_cell("%reset -f")
    notebook.cells.insert(0, forget)
    client = NotebookClient(notebook, km=manager, timeout=_SECONDS)
    client.execute(cleanup_kc=False)
    notebook.cells.pop(0)
    cells = list(enumerate(_code(notebook), 1))
    # All notebooks run in one process, whose cell counter continues from one notebook to the next.
    # Only results contain the counter's values.
    results = (
        (output.execution_count - number)
        for number, cell in cells
        for output in cell.outputs
        if "execution_count" in output
    )
    earlier = next(results, 0)
    for number, cell in cells:
        cell.metadata.pop("execution", None)
        cell.execution_count = number
        for output in cell.outputs:
            _tidy(output, number, earlier)
    return notebook


def _tidy(output: Any, number: int, earlier: int) -> None:
    """Remove the folder of cells from an output, and number the cells of each notebook from 1."""
    if "execution_count" in output:
        output.execution_count = number
    for data in (output, output.get("data", {})):
        for key, value in data.items():
            if isinstance(value, str):
                text = _CELLS.sub("", value)
                data[key] = _CELL.sub(lambda match: f"In[{int(match[1]) - earlier}]", text)


def outputs(notebook: Any) -> list[list[tuple[str, str]]]:
    """Return type and text of each cell's outputs, without the parts that vary between runs."""
    return [
        [(output.output_type, _plain(_text(output))) for output in cell.outputs]
        for cell in _code(notebook)
        if _OF_THE_MACHINE not in cell.metadata.get("tags", ())
    ]


def _code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _text(output: Any) -> str:
    data = output.get("data", {})
    text = output.get("text", "") or data.get("text/plain", "")
    return f"{', '.join(sorted(data))}: {''.join(text)}"


def _plain(text: str) -> str:
    # Words are sorted, because the order of table rows depends on measured times.
    return " ".join(sorted(re.sub(r"[\s-]+", " ", _NUMBER.sub("N", text)).split()))


def main(arguments: Sequence[str]) -> int:
    """Execute the notebooks and save or compare them; return the exit status."""
    parser = argparse.ArgumentParser(prog="tools.notebooks")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    status = 0
    with kernel() as manager:
        for path in notebooks():
            notebook = executed(path, manager)
            if not options.check:
                nbformat.write(notebook, path)
            elif outputs(notebook) != outputs(nbformat.read(path, as_version=4)):
                print(f"{path}: other outputs; run `python -m tools.notebooks`", file=sys.stderr)
                status = 1
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
