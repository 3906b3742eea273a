"""The documentation's notebooks run, and what they show is what is written there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ttools.cli.app import app

pytest.importorskip("nbclient", reason="nbclient is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")
pytest.importorskip("torch", reason="torch is not installed")
nbformat = pytest.importorskip("nbformat")

from tools.notebooks import executed, kernel, notebooks, outputs  # noqa: E402


@pytest.fixture(scope="module")
def manager() -> Iterator[Any]:
    """One process for all notebooks: it imports torch once."""
    with kernel() as started:
        yield started


@pytest.mark.slow  # `make ci` has them all the same
@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_a_notebook(path: Path, manager: Any) -> None:
    written = nbformat.read(path, as_version=4)
    counts = [cell.execution_count for cell in written.cells if cell.cell_type == "code"]
    assert counts == [*range(1, len(counts) + 1)], "it was never executed as a whole"
    shown = outputs(written)
    assert outputs(executed(path, manager)) == shown, "run `python -m tools.notebooks`"


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_a_notebook_is_small_and_of_no_machine(path: Path) -> None:
    text = path.read_text("utf-8")
    assert len(text) < 50_000
    assert not re.search(r"/home/|/root/|/work/|/tmp/|site-packages", text)


def test_there_is_one_per_command() -> None:
    names = {str(command.name).split(" ")[0] for command in app.registered_commands}
    assert {path.stem for path in notebooks()} == names
