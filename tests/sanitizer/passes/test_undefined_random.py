"""Random kernels: a lane is undefined exactly if changing the masked-off elements changes it.

The oracle runs the kernel with two different values of `other` in the masked-off lanes. Inputs are
random floats, and the operations preserve differences, so that every lane that depends on `other`
differs.
"""

from __future__ import annotations

from typing import Any

import instrumented
import numpy as np
import torch
from hypothesis import given, settings, strategies

from ttools.ir import Constant, FloatType, Module, TensorType, element_type
from ttools.ir.rewriting import Rewriter, add_operand
from ttools.sanitizer.passes import undefined

B = 8
_HEADER = """
@triton.jit
def kernel(a_ptr, b_ptr, o_ptr, n, k, B: tl.constexpr):
    i = tl.arange(0, B)
    m0 = i < n
    m1 = i >= k
    m2 = m0 & m1
    v0 = tl.load(a_ptr + i, mask=m0)
    v1 = tl.load(b_ptr + i, mask=m1)
    v2 = tl.load(b_ptr + B + i)
"""
_VALUES = (
    "{a} + {b} * 3.0",
    "{a} - {b} * 0.5",
    "tl.where({m}, {a}, {b})",
    "tl.where({m}, {a}, 0.0)",
    "{a} + tl.sum({b}, 0)",
    "tl.cumsum({a}, 0) + {b}",
    "tl.cumsum({a}, 0, reverse=True)",
    "tl.sum({a}[:, None] * 2.0 + {b}[None, :], 1)",
    "tl.sum(tl.where({m}[:, None], {a}[:, None], {b}[None, :]), 0)",
    "tl.flip({a}, 0)",
    "tl.reshape(tl.trans(tl.reshape({a}, (2, B // 2))), (B,))",
    "tl.load(a_ptr + i, mask={m}, other={a})",
)
_MASKS = ("{m} & {o}", "{m} | {o}", "({a} > 0) & {m}", "i < {c}", "i >= {c}")
_BLOCKS = (
    "for _ in range({c}):\n        v{x} = v{x} * 0.5 + v{y}",
    "for _ in range({c}):\n        v{x} = tl.where(m{m}, v{x}, v{y})",
    "if n > {c}:\n        v{x} = v{y} + 1.0\n    else:\n        v{x} = v{x} * 2.0",
)


@strategies.composite
def kernels(draw: strategies.DrawFn) -> str:
    lines: list[str] = []
    values, masks = 3, 3

    def pick(count: int) -> int:
        return draw(strategies.integers(0, count - 1))

    for _ in range(draw(strategies.integers(1, 7))):
        kind = draw(strategies.sampled_from(["value", "value", "mask", "block"]))
        names = {
            "a": f"v{pick(values)}",
            "b": f"v{pick(values)}",
            "m": f"m{pick(masks)}",
            "o": f"m{pick(masks)}",
            "c": draw(strategies.integers(0, B)),
        }
        if kind == "value":
            text = draw(strategies.sampled_from(_VALUES)).format(**names)
            lines.append(f"    v{values} = {text}")
            values += 1
        elif kind == "mask":
            # A mask with undefined lanes is a separate defect; here such masks are only combined.
            text = draw(strategies.sampled_from(_MASKS)).format(**names)
            lines.append(f"    m{masks} = {text}")
            masks += 1
        else:
            block = draw(strategies.sampled_from(_BLOCKS))
            text = block.format(
                x=pick(values), y=pick(values), m=pick(masks), c=draw(strategies.integers(0, 4))
            )
            lines.append(f"    {text}")
    stored = f"v{values - 1}" if values > 3 else f"v{pick(3)}"
    lines.append(f"    tl.store(o_ptr + i, {stored}, mask=m{pick(masks)})")
    return _HEADER + "\n".join(lines) + "\n"


def _with_junk(junk: float) -> Any:
    bits = int(np.float32(junk).view(np.uint32))

    def rewrite(module: Module) -> None:
        rewriter = Rewriter()
        for op in list(module.kernel.walk()):
            if op.name == "tt.load" and len(op.operands) == 2:
                type = op.result.type
                assert element_type(type) == FloatType("f32")
                assert isinstance(type, TensorType)
                b = rewriter.before(op)
                value = b.value("arith.constant", [], type, {"value": Constant(type, (bits,))})
                add_operand(op, value)
        rewriter.apply()

    return rewrite


@settings(max_examples=40)
@given(
    text=kernels(),
    n=strategies.integers(0, B),
    k=strategies.integers(0, B),
    schedule=strategies.sampled_from(["fused", "materialised"]),
    seed=strategies.integers(0, 1000),
)
def test_undefined_lanes_are_those_that_depend_on_masked_elements(
    text: str, n: int, k: int, schedule: Any, seed: int
) -> None:
    kernel = instrumented.kernel_from(text)
    generator = torch.Generator().manual_seed(seed)
    a, b = (torch.rand(2 * B, generator=generator) + 0.5 for _ in range(2))

    def run(rewrite: Any) -> tuple[list[instrumented.Held], np.ndarray[Any, Any]]:
        out = torch.full((B,), -1.0)
        arguments = {"a_ptr": a, "b_ptr": b, "o_ptr": out, "n": n, "k": k}
        checks = instrumented.run(kernel, (1,), arguments, {"B": B}, rewrite, schedule=schedule)
        return checks, out.numpy()

    checks, plain = run(undefined.apply)
    stores = [h.where[0] != 0 for h in checks if "stored" in h.message]
    reported = np.any(stores, axis=0) if stores else np.zeros(B, bool)
    masked = any(h.any for h in checks if "mask" in h.message.split(", and ")[1])
    first, second = (run(_with_junk(junk))[1] for junk in (1000.25, -77.5))
    changed = (first != second) | (first != plain) & (second != plain)
    if masked:
        return  # the mask itself is undefined and reported, and its lanes are arbitrary
    if "> 0" in text:  # values of either sign may select the same lanes
        reported = reported & changed
    np.testing.assert_array_equal(reported, changed, err_msg=text)
