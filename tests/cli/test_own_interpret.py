"""Commands see the launches of scripts that call `interpret()` themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

Run = Any

SCRIPT = """\
import torch
import triton
import triton.language as tl

from ttools.interpreter import interpret


@triton.autotune([triton.Config({"BLOCK": block}) for block in (16, 32)], key=["n"])
@triton.jit
def fill(p, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(p + at, at, mask=at < n + 1)


x = torch.zeros(40, dtype=torch.int32)
with interpret() as own:
    fill[lambda meta: (triton.cdiv(36, meta["BLOCK"]),)](x[:36], 36)
print("launches:", own.stats[0].launches)
"""


@pytest.mark.parametrize(
    ("words", "status", "expected"),
    [
        (["sanitize"], 1, "outside the elements passed to `p`"),
        (["profile"], 0, "Kernels on the CPU: 1 kernel, 1 launch"),
        (["interpret", "--stats"], 0, "kernel  launches"),
        pytest.param(["tune"], 0, "2 configurations", marks=pytest.mark.slow),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_launches_of_the_script_are_seen(
    ttools: Run, tmp_path: Path, words: list[str], status: int, expected: str
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    result = ttools(*words, "script.py")
    assert result.returncode == status, result.stderr
    output = " ".join((result.stdout + result.stderr).split())
    assert " ".join(expected.split()) in output
    assert "no Triton kernel was launched" not in result.stderr
    assert "launches: 0" not in result.stdout
