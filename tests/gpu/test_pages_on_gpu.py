"""Tests on a machine with a GPU that the code of the documentation's pages and notebooks runs."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

from tests.docs.test_pages import PAGES, ROOT, blocks  # noqa: E402
from tests.docs.test_pages import test_python_of_a_page_runs as run_page  # noqa: E402
from tests.forked_python import PYTHON  # noqa: E402
from tools.notebooks import executed, kernel, notebooks  # noqa: E402

pytestmark = pytest.mark.gpu

#: Pages whose scripts run under `ttools interpret`, because they launch kernels on CPU tensors.
INTERPRETED = ("grids.md", "watching.md", "debugging.md")
#: Pages to run. Those about the design describe machines without a GPU.
_USERS = [page for page in PAGES if "design" not in page.parts]


@pytest.mark.parametrize("page", _USERS, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_page(page: Path, tmp_path: Path) -> None:
    if page.name not in INTERPRETED:
        run_page(page, tmp_path)
        return
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks(page)), "utf-8")
    completed = PYTHON.run(["-m", "ttools_entry", "interpret", str(script)], cwd=ROOT)
    assert completed.returncode == 0, completed.stderr


def test_notebooks() -> None:
    with kernel() as manager:
        for path in notebooks():
            executed(path, manager)  # raises the exceptions of cells
