"""Tests that the removal of dead code is complete and changes no result."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ttools.interpreter import interpret
from ttools.interpreter.abi.module import Instruments
from ttools.ir.dead_code import remove_dead_code
from ttools.ir.inlining import inline_calls
from ttools.ir.parser import parse_module
from ttools.ir.verification import verify

EFFECTS = {"tt.store", "tt.atomic_rmw", "tt.atomic_cas", "tt.return", "tt.assert", "tt.print"}


@triton.jit
def control_kernel(x_ptr, out_ptr, unused_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    dead = tl.exp(x)
    total, wasted = x, dead
    steps = 0
    for k in range(0, n, 32):
        wasted += tl.load(unused_ptr + k) * dead
        if k % 64 == 0:
            total += 1.0
            wasted *= 2.0
        else:
            total *= 0.5
    while steps < 5:
        steps += 2
        wasted += steps
        total -= steps
    tl.store(out_ptr + offs, total, mask=offs < n)


class Rewriting:
    def __init__(self, keep: set[str]) -> None:
        self.keep = keep

    def launch(self, launch):
        def rewrite(module) -> None:
            inline_calls(module)
            remove_dead_code(module.kernel, lambda op: op.name in self.keep)
            assert verify(module) == []

        name = f"dead {sorted(self.keep)}"
        return launch.execute(Instruments(rewrites=(name,)), rewrite=rewrite)


def run(observer) -> torch.Tensor:
    x = torch.linspace(-1, 1, 100)
    out, unused = torch.zeros(100), torch.ones(100)
    with interpret(observer=observer):
        control_kernel[(4,)](x, out, unused, 100, BLOCK=32)
    return out


def test_results_do_not_change() -> None:
    assert torch.equal(run(Rewriting(EFFECTS)), run(None))
    assert float(run(None).abs().sum()) > 0


def test_without_stores_nothing_is_written() -> None:
    assert not run(Rewriting({"tt.return"})).any()


@pytest.mark.parametrize("keep", [EFFECTS, {"tt.return"}])
def test_only_live_operations_remain(keep: set[str]) -> None:
    x = torch.zeros(100)
    with interpret():
        compiled = control_kernel[(1,)](x, x.clone(), x, 100, BLOCK=32)
    module = parse_module(compiled.asm["ttir"])
    inline_calls(module)
    remove_dead_code(module.kernel, lambda op: op.name in keep)
    assert verify(module) == []
    names = [op.name for op in module.kernel.walk()]
    assert "math.exp" not in names
    assert names.count("tt.load") == (1 if "tt.store" in keep else 0)
    assert ("scf.while" in names) == ("tt.store" in keep)
