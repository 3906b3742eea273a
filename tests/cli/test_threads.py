"""Several threads launch kernels for the first time simultaneously, before anything is compiled."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run

SCRIPT = """
import threading
import torch
import triton
import triton.language as tl

@triton.jit
def add_one(x, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + offsets, tl.load(x + offsets, mask=offsets < n) + 1, mask=offsets < n)

@triton.jit
def total(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + offsets, mask=offsets < n, other=0.0)))

def work(results, number):
    x, out = torch.zeros(100), torch.zeros(1)
    together.wait()
    for _ in range(3):
        add_one[(4,)](x, 100, BLOCK=32)
        total[(1,)](x, out, 100, BLOCK=128)
    results[number] = out.item()

together = threading.Barrier(6)
results = [None] * 6
threads = [threading.Thread(target=work, args=(results, number)) for number in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(results)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("interpret",),
        *(
            pytest.param(words, marks=pytest.mark.slow)
            for words in (
                ("sanitize", "--check", "all"),
                ("interpret", "--engine", "eager"),
                ("interpret", "--threads", "2"),
                ("profile",),
                ("record",),
            )
        ),
    ],
    ids=" ".join,
)
def test_first_launches_at_once(
    words: tuple[str, ...], tmp_path: Path, started_ttools: Run
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    caches = {name: str(tmp_path / name) for name in ("TTOOLS_CACHE_DIR", "TRITON_CACHE_DIR")}
    result = started_ttools(*words, "script.py", **caches)
    assert (result.returncode, result.stdout.splitlines()[0]) == (0, str([600.0] * 6)), (
        result.stderr
    )
