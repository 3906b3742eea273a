"""Default text reports are short: a finding has at most 12 lines, a run on one kernel at most 40.

The kernels in `report_kernels` are those of Triton's tutorials, with a reference and inputs. Three
variants of them have a defect. Each command runs in a terminal of 80 columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cli.conftest import Run

_FOLDER = Path(__file__).parent / "report_kernels"
_WIDTH = 80
_MOST_LINES, _MOST_OF_FINDING = 40, 12


@dataclass(frozen=True)
class Subject:
    """A file with one kernel.

    Attributes:
        file: Name of the file without its suffix.
        sizes: Ranges to prove.
        right: Text in the file that is replaced; empty for the file as it is.
        wrong: The text that replaces it.
    """

    file: str
    sizes: tuple[str, ...]
    right: str = ""
    wrong: str = ""

    def write(self, folder: Path) -> str:
        """Write the file to a folder, and return its name."""
        text = (_FOLDER / f"{self.file}.py").read_text("utf-8")
        assert self.right in text
        name = f"{self.file}.py"
        (folder / name).write_text(text.replace(self.right, self.wrong) if self.right else text)
        return name


ROWS = ("rows=1:1000", "columns=1:1000")
SUBJECTS = {
    "vector-add": Subject("vector_add", ("n=1:1000000",)),
    "softmax": Subject("softmax", ROWS),
    "matmul": Subject("matmul", ("M=1:500", "N=1:500", "K=1:500")),
    "layer-norm": Subject("layer_norm", ROWS),
    "attention": Subject("attention", ("queries=1:500", "keys=1:500")),
    "missing-mask": Subject("vector_add", ("n=1:1000000",), ", x + y, mask=mask)", ", x + y)"),
    "wide-mask": Subject(
        "softmax", ROWS, "mask = offsets < columns", "mask = offsets < columns + 4"
    ),
    "small-grid": Subject(
        "matmul",
        ("M=1:500", "N=1:500", "K=1:500"),
        'triton.cdiv(N, meta["BLOCK"])',
        'max(1, N // meta["BLOCK"])',
    ),
}
COMMANDS = {
    "sanitize": ("sanitize", "{file}"),
    "profile": ("profile", "{file}"),
    "profile-gpu": ("profile", "--gpu", "h100", "{file}"),
    "tune": ("tune", "{file}"),
    "verify": ("verify", "--cases", "20", "--all-sizes-seconds", "2", "{file}"),
    "prove": ("prove", "--timeout", "5", "{file}:run", "{sizes}"),
}
#: The combinations that run in each test run.
_USUAL = {("wide-mask", "sanitize"), ("softmax", "profile-gpu")}


def _all() -> list[object]:
    return [
        pytest.param(
            *(subject, command),
            id=f"{subject}-{command}",
            marks=() if (subject, command) in _USUAL else (pytest.mark.slow,),
        )
        for subject in SUBJECTS
        for command in COMMANDS
    ]


def rows(lines: list[str]) -> int:
    """Return the number of rows that lines take in a terminal."""
    return sum(max(1, -(-len(line) // _WIDTH)) for line in lines)


def findings(text: str) -> list[list[str]]:
    """Return the lines of each finding that is shown in full, without causes and folded lines."""
    blocks = [block.splitlines() for block in text.split("\n\n")]
    shown = []
    for lines in blocks:
        first = next((n for n, line in enumerate(lines) if _begins(line)), None)
        if first is not None:
            folded = (n for n, line in enumerate(lines) if "further f" in line)
            shown.append(lines[first : next(folded, len(lines))])
    return shown


def _begins(line: str) -> bool:
    """Return whether a line is the first of a finding or of a failure of a verification."""
    return bool(re.match(r"(?:\S.*: (?:error|warning|note)\[\w+\]: |  (?:warning: )?\w+: )", line))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("subject", "command"), _all())
def test_reports_are_short(subject: str, command: str, ttools: Run, tmp_path: Path) -> None:
    chosen = SUBJECTS[subject]
    file = chosen.write(tmp_path)
    words = [
        word
        for template in COMMANDS[command]
        for word in (chosen.sizes if template == "{sizes}" else [template.format(file=file)])
    ]
    result = ttools(*words, COLUMNS=str(_WIDTH))
    assert "Traceback" not in result.stderr
    assert result.returncode in (0, 1, 4), result.stderr
    assert result.stdout.strip()
    messages = result.stderr.splitlines()  # a line each, however long
    assert rows(result.stdout.splitlines()) + len(messages) <= _MOST_LINES, result.stdout
    for lines in findings(result.stdout):
        assert rows(lines) <= _MOST_OF_FINDING, "\n".join(lines)


def test_findings_are_recognised() -> None:
    text = """\
mask `m = offs < n` (line 3) admits lanes 4-7; 2 accesses leave their tensors
k.py:4:9: error[oob_load]: out-of-bounds load of 4 bytes from `x_ptr`
    4 |     x = tl.load(x_ptr + offs)
  1 further finding (`-v` shows it in full):
    line 5: error[oob_store]: out-of-bounds store

  memory: out-of-bounds load of 4 bytes from `x_ptr`
    k.py:4:9

3 errors in 1 kernel, 1 launch
"""
    assert [len(lines) for lines in findings(text)] == [2, 2]
    assert rows(["", "a" * 80, "a" * 81]) == 4
