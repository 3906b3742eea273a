"""Launches whose grids, heuristics and hooks call Triton's host functions are sent to workers."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from tests.forked_python import PYTHON

#: A library of the user with globals that pickle refuses.
LIBRARY = """
import threading
from functools import cache, partial
import triton
from triton import cdiv

lock = threading.RLock()
local = threading.local()

@triton.constexpr_function
def rounded(n, to): return (n + to - 1) // to

def blocks(n, block):
    with lock:
        return cdiv(n, block)

@cache
def cached_blocks(n, block): return cdiv(n, block)

class Grid:
    def __init__(self, n): self.n, self.lock = n, threading.Lock()
    def __call__(self, meta):
        with self.lock:
            return (cdiv(self.n, meta["B"]),)
    @triton.constexpr_function
    def method(self, n, to): return rounded(n, to)
"""

#: Launches with all spellings of host functions, as a script or as a module that it imports.
LAUNCHES = """
import threading
import torch, triton, triton.language as tl
import triton as renamed
from triton import cdiv, next_power_of_2
import library
from library import Grid, cached_blocks, local, lock, rounded

alias = triton.cdiv
own_lock, condition = threading.Lock(), threading.Condition()

@triton.constexpr_function
def own_cdiv(n, to): return rounded(n, to)

def function(meta):
    with own_lock, condition:
        return (alias(N, meta["B"]),)

def closure(n, divide=cdiv):
    lock = threading.RLock()
    def grid(meta):
        with lock:
            return (divide(n, meta["B"]),)
    return grid

@triton.jit
def kernel(x, o, n, tag, B: tl.constexpr, W: tl.constexpr):
    tl.static_assert(W >= 100)
    width: tl.constexpr = own_cdiv(cdiv(B, 1), 1)
    i = tl.program_id(0) * width + tl.arange(0, width)
    tl.store(o + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)

N = 100
owner = Grid(N)

def hook(arguments):
    with lock:
        local.seen = cdiv(1, 1)

GRIDS = {
    "from": lambda meta: (cdiv(N, meta["B"]),),
    "alias": lambda meta: (alias(N, meta["B"]),),
    "attribute": lambda meta: (triton.cdiv(N, meta["B"]),),
    "renamed": lambda meta: (renamed.cdiv(N, meta["B"]),),
    "default": lambda meta, divide=cdiv: (divide(N, meta["B"]),),
    "function": function,
    "closure": closure(N),
    "own constexpr": lambda meta: (own_cdiv(N, meta["B"]),),
    "library constexpr": lambda meta: (rounded(N, meta["B"]),),
    "library function": lambda meta: (library.blocks(N, meta["B"]),),
    "cached": lambda meta: (cached_blocks(N, meta["B"]),),
    "object": owner,
    "method": lambda meta: (owner.method(N, meta["B"]),),
    "lock of a library": lambda meta: (lock.__enter__() and cdiv(N, meta["B"]),),
    "container": lambda meta, table={"f": [cdiv]}: (table["f"][0](N, meta["B"]),),
}
HEURISTICS = {
    "from": lambda a: next_power_of_2(a["n"]),
    "attribute": lambda a: triton.next_power_of_2(a["n"]),
    "closure": (lambda f: lambda a: f(a["n"]))(next_power_of_2),
    "object itself": (lambda f: lambda a: f(a["n"]))(triton.next_power_of_2),
}

def launch_all(names):
    configs = [triton.Config({"B": b}, pre_hook=hook) for b in (32, 64)]
    x = torch.rand(N, device="cpu")
    for name, grid in GRIDS.items():
        heuristics = list(HEURISTICS.values())
        for width in heuristics if name == "from" else heuristics[:1]:
            o = torch.empty_like(x)
            tuned = triton.heuristics({"W": width})(kernel)
            tuned = triton.autotune(configs, key=["n", "tag"])(tuned)
            names.append(name)
            tuned[grid](x, o, N, len(names))  # a problem of its own
            assert torch.equal(o, x + 1), name
"""

RUN = """
from ttools.tuner import TuneOptions, TuningRun
names = []
with TuningRun(TuneOptions(search="exhaustive")) as run:
    {module}launch_all(names)
assert len(run.results) == len(names) == 18, (len(run.results), names)
for name, result in zip(names, run.results):
    assert result.notes == [], (name, result.notes)
    assert [each.status for each in result.trials.values()] == ["ok", "ok"], name
"""


@pytest.mark.parametrize("imported", [False, True], ids=["script", "imported module"])
def test_every_spelling_of_host_functions_and_locks_is_sent(tmp_path: Path, imported: bool) -> None:
    (tmp_path / "library.py").write_text(LIBRARY)
    run = RUN.format(module="launches." if imported else "")
    if imported:
        (tmp_path / "launches.py").write_text(textwrap.dedent(LAUNCHES))
        text = "import launches\n" + run
    else:
        text = LAUNCHES + run
    script = tmp_path / "script.py"
    script.write_text(text)
    result = PYTHON.run([str(script)], cwd=tmp_path, timeout=240)
    assert result.returncode == 0, result.stderr
