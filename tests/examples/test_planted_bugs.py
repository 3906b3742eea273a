"""The examples in `examples/debugging` have their bugs, and the corrections on the page fix them.

`tests/docs/test_sessions.py` runs the sessions that find the bugs.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.forked_python import PYTHON

pytest.importorskip("torch", reason="torch is not installed")  # the scripts need it

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "debugging"
PAGE = (ROOT / "docs" / "tutorials" / "planted_bugs.md").read_text("utf-8")
#: For each example, in the order of the page, the line that its correction replaces.
REPLACED = {
    "matmul_index": "        b = tl.load(",
    "transposed_view": "    offsets = ",
    "softmax_precision": "    total = ",
}


def run(script: Path) -> subprocess.CompletedProcess[str]:
    return PYTHON.run([str(script)], env={**os.environ, "TTOOLS_QUIET": "1"})


def corrections() -> dict[str, str]:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return dict(zip(REPLACED, [text for language, text in blocks if not language], strict=True))


def test_every_example_has_its_correction() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == set(REPLACED)


@pytest.mark.parametrize("name", REPLACED)
def test_the_bug_and_its_correction(name: str, tmp_path: Path) -> None:
    path = FOLDER / f"{name}.py"
    wrong = run(path)
    assert wrong.returncode == 1
    assert not wrong.stderr
    lines = path.read_text("utf-8").splitlines(keepends=True)
    (place,) = [n for n, line in enumerate(lines) if line.startswith(REPLACED[name])]
    lines[place] = corrections()[name]
    text = "".join(lines)
    if name == "transposed_view":  # the page says that the kernel takes the strides
        text = text.replace("out_ptr, n_columns", "out_ptr, stride_row, stride_column, n_columns")
        text = text.replace("(x, out, columns", "(x, out, *x.stride(), columns")
    corrected = tmp_path / path.name
    corrected.write_text(text, "utf-8")
    right = run(corrected)
    assert right.returncode == 0, right.stdout + right.stderr
