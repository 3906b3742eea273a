"""The documentation's notebooks run, and their stored output is up to date."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ttools.cli.app import COMMANDS

pytest.importorskip("nbclient", reason="nbclient is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")
pytest.importorskip("torch", reason="torch is not installed")
nbformat = pytest.importorskip("nbformat")

from tools.notebooks import executed, kernel, notebooks, outputs  # noqa: E402


@pytest.fixture(scope="module")
def manager() -> Iterator[Any]:
    """Provide one process for all notebooks, so that torch is imported once."""
    with kernel() as started:
        yield started


@pytest.mark.slow  # `make ci` runs them, too
@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_a_notebook(path: Path, manager: Any) -> None:
    written = nbformat.read(path, as_version=4)
    counts = [cell.execution_count for cell in written.cells if cell.cell_type == "code"]
    assert counts == [*range(1, len(counts) + 1)], "the notebook was never executed completely"
    shown = outputs(written)
    assert outputs(executed(path, manager)) == shown, "run `python -m tools.notebooks`"


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_a_notebook_is_small_and_has_no_machine_specific_content(path: Path) -> None:
    text = path.read_text("utf-8")
    assert len(text) < 50_000
    assert not re.search(r"/home/|/root/|/work/|/tmp/|site-packages", text)


def test_there_is_a_notebook_per_command() -> None:
    # `replay` is an alias of `interpret`.
    names = {name.split(" ")[0] for name in COMMANDS}
    assert {path.stem for path in notebooks()} == names - {"replay"}
