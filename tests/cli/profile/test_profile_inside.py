"""`ttools profile --inside` on a machine without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run

from ttools.core.environment import gpu_usable


@pytest.mark.skipif(gpu_usable(), reason="there is a GPU")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--inside", "lines"], "measured on a GPU, and there is none here"),
        (["--inside", "scopes", "--format", "csv"], "no report in the format csv"),
        (["--inside", "scopes", "--on", "cpu"], "omit --on cpu"),
    ],
)
def test_a_refusal_names_the_reason(
    called_ttools: Run, tmp_path: Path, words: list[str], message: str
) -> None:
    (tmp_path / "script.py").write_text("raise SystemExit(7)")
    done = called_ttools("profile", *words, "script.py")
    assert done.returncode == 2
    assert message in done.stderr
