"""Tests that long chains of dependent operations, as from unrolled loops, can be compiled."""

from __future__ import annotations

import kernel_text
import pytest
import torch

from ttools.interpreter.abi.module import EmitOptions, Facts
from ttools.interpreter.emit.kernel import emit_kernel
from ttools.ir.parser import parse_module

X = torch.arange(64) - 5
#: Step of each chain in Triton, and the same step for a tensor `v` of 64 elements.
STEPS = {
    "integers": ("v = v * 3 + j", lambda v, j: v * 3 + j),
    "doubled": ("v = v + v", lambda v, j: v + v),
    "chosen": ("v = tl.where(v > j, v - j, v + 1)", lambda v, j: torch.where(v > j, v - j, v + 1)),
    "reversed": ("v = tl.flip(v, 0) + j", lambda v, j: v.flip(0) + j),
    "transposed": (
        "v = tl.reshape(tl.trans(tl.reshape(v, (4, 16))), (64,)) + j",
        lambda v, j: v.reshape(4, 16).T.reshape(64) + j,
    ),
    "views only": (
        "v = tl.reshape(tl.trans(tl.reshape(v, (4, 16))), (64,))",
        lambda v, j: v.reshape(4, 16).T.reshape(64),
    ),
    "addresses": ("p = p + 1\n        v += tl.load(p - j - 1)", lambda v, j: v + X),
    "stored": (
        "tl.store(out_ptr + 64 + i, v)\n        v = tl.load(out_ptr + 127 - i) + j",
        lambda v, j: v.flip(0) + j,
    ),
    "summed": ("v = v + tl.sum(v & 3, 0)", lambda v, j: v + (v & 3).sum()),
    "branches": ("if s + j > 5:\n            v += 1", lambda v, j: v + (7 + j > 5)),
}  # fmt: skip
#: Steps that run among the slow tests, since others are emitted in the same way.
SIMILAR = ("doubled", "transposed", "views only")

_TEXT = """\
@triton.jit
def kernel(x_ptr, out_ptr, s, N: tl.constexpr):
    i = tl.arange(0, 64)
    v = tl.load(x_ptr + i)
    p = x_ptr + i
    for j in tl.static_range(N):
        {step}
    tl.store(out_ptr + i, v)
"""


@pytest.mark.parametrize(
    "step",
    [pytest.param(s, marks=pytest.mark.slow if s in SIMILAR else ()) for s in STEPS],
)
def test_chains_of_steps(step: str, schedule: str) -> None:
    text, expected = STEPS[step]
    kernel = kernel_text.module(_TEXT.format(step=text)).kernel
    out = torch.zeros(128, dtype=torch.int64)
    kernel[1,](X, out, 7, 120)
    reference = X
    for j in range(120):
        reference = expected(reference, j)
    assert torch.equal(out[:64], reference)


@pytest.mark.parametrize("operation", [
    "arith.mulf {}, %k : tensor<64xf32>",
    "arith.xori {}, {} : tensor<64xi32>",
    "math.exp {} : tensor<64xf32>",
    "tt.reshape {} : tensor<64xf32> -> tensor<64xf32>",
])  # fmt: skip
def test_ten_thousand_operations_are_emitted(operation: str) -> None:
    element = "i32" if "xori" in operation else "f32"
    chain = "\n".join(f"    %v{n + 1} = {operation.replace('{}', f'%v{n}')}" for n in range(10_000))
    constant = "dense<1.5> : tensor<64xf32>"
    text = f"""module {{
  tt.func public @kernel(%x: !tt.ptr<{element}>, %out: !tt.ptr<{element}>) {{
    %k = arith.constant {constant}
    %i = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32>
    %xs = tt.splat %x : !tt.ptr<{element}> -> tensor<64x!tt.ptr<{element}>>
    %p = tt.addptr %xs, %i : tensor<64x!tt.ptr<{element}>>, tensor<64xi32>
    %v0 = tt.load %p : tensor<64x!tt.ptr<{element}>>
{chain}
    %os = tt.splat %out : !tt.ptr<{element}> -> tensor<64x!tt.ptr<{element}>>
    %q = tt.addptr %os, %i : tensor<64x!tt.ptr<{element}>>, tensor<64xi32>
    tt.store %q, %v10000 : tensor<64x!tt.ptr<{element}>>
    tt.return
  }}
}}
"""
    emitted = emit_kernel(parse_module(text), Facts(readonly=frozenset({0})), EmitOptions(lanes=8))
    assert emitted.llvm_ir.count("\n") > 500
