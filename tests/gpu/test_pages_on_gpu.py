"""On a machine with a GPU: the Python of the documentation's pages and notebooks runs there, too."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

from tests.docs.test_pages import PAGES, ROOT
from tests.docs.test_pages import test_python_of_a_page_runs as run_page  # noqa: E402
from tools.notebooks import executed, kernel, notebooks  # noqa: E402

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_page(page: Path, tmp_path: Path) -> None:
    run_page(page, tmp_path)


def test_notebooks() -> None:
    with kernel() as manager:
        for path in notebooks():
            executed(path, manager)  # raises what a cell raises
