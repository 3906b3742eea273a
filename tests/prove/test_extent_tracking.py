"""Numbers in scripts are traced to extents of tensors, from which claims about all sizes follow."""

from __future__ import annotations

import builtins
import functools
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.interpreter import interpret
from ttools.prove.api import SizesResult
from ttools.prove.trace.check import check_launches
from ttools.prove.trace.extent_tracking import ExtentTracking, tracking_extents
from ttools.prove.trace.inference import infer_template
from ttools.prove.trace.launches import ScriptTrace, trace_launches
from ttools.prove.trace.template import Template
from ttools.prove.trace.traced import TracedInt, extents_of


def _run(script: Callable[[], object], follow: bool = True) -> ScriptTrace:
    with trace_launches(follow=follow) as trace, interpret():
        script()
    return trace


def _template(trace: ScriptTrace) -> Template:
    (launch,) = trace.launches
    return infer_template(launch, {})


def _stated(result: SizesResult) -> str:
    return " | ".join(result.report.sizes.assumptions)


@triton.jit
def fold_kernel(
    x_ptr, o_ptr, B, T, N, C, sxb, sxt, sob, soc, son, BN: tl.constexpr, BC: tl.constexpr
):
    c = tl.program_id(1)
    n = tl.program_id(2) * BN + tl.arange(0, BN)[:, None]
    t = tl.arange(0, BC)[None, :]
    b = tl.program_id(0).to(tl.int64)
    at = c.to(tl.int64) * C + t
    x = tl.load(x_ptr + b * sxb + at * sxt + n, mask=(n < N) & (t < C) & (at < T), other=0.0)
    o = o_ptr + b * sob + c * soc.to(tl.int64) + n * son.to(tl.int64)
    tl.store(o + t, x, mask=(n < N) & (t < C))


def fold(x: torch.Tensor, length: int) -> torch.Tensor:
    batch, steps, columns = x.shape
    count = math.ceil(steps / length)
    o = torch.empty(batch, columns, count, length)

    def grid(meta: dict[str, int]) -> tuple[int, ...]:
        return batch, count, triton.cdiv(columns, meta["BN"])

    fold_kernel[grid](
        *(x, o, int(batch), int(steps), int(columns), int(length), x.stride(0), x.stride(1)),
        *(o.stride(0), o.stride(2), o.stride(1)),
        BN=4,
        BC=triton.next_power_of_2(length),
    )
    return o


@pytest.mark.slow
def test_equal_numbers_of_blocks_and_batches_are_distinguished() -> None:
    script = functools.partial(fold, torch.randn(2, 10, 4), 5)
    few = {"B": (1, 4), "T": (1, 20), "N": (1, 4), "C": (1, 5)}
    guessed = check_launches(_run(script, follow=False), few)
    assert guessed.verdict == "fails"  # the guess takes the two blocks for the two batches
    ranges = {"B": (1, 99), "T": (1, 999), "N": (1, 99)}
    followed = check_launches(_run(script), ranges)
    assert followed.verdict == "proved"
    assert "as computed by the script: o_ptr.shape[0] = B" in _stated(followed)
    assert "grid[0] = B, grid[1] = cdiv(T, 5), grid[2] = cdiv(N, 4)" in _stated(followed)
    assert "C = 5" in _stated(followed)  # a number in the script that is not an extent of a tensor
    assert "guessed, because `int` or `len` returned plain integers: B, T, N" in _stated(followed)


@triton.jit
def heads_kernel(x_ptr, o_ptr, H, T, D: tl.constexpr, BT: tl.constexpr):
    t = (tl.program_id(0).to(tl.int64) * BT + tl.arange(0, BT))[:, None]
    at = (t * H + tl.program_id(1)) * D + tl.arange(0, D)[None, :]
    x = tl.load(x_ptr + at, mask=t < T, other=0.0)
    tl.store(o_ptr + at, x, mask=t < T)


def heads(x: torch.Tensor, chunk: int) -> None:
    for b in range(x.shape[0]):
        for begin in range(0, x.shape[1], chunk):
            part = x[b, begin : begin + chunk]
            steps, count, columns = part.size()
            o = torch.empty_like(part)
            grid = (triton.cdiv(steps, 16), count)
            heads_kernel[grid](part, o, count, steps, D=columns, BT=16)


@pytest.mark.parametrize("chunk", [8, 30])
def test_a_part_of_a_tensor_has_its_strides(chunk: int) -> None:
    # The second axis of a grid has at most 65,535 programs.
    trace = _run(lambda: heads(torch.randn(2, 24, 2, 16), chunk))
    assert check_launches(trace).verdict == "fails"
    result = check_launches(trace, {"H": (1, 65535)})
    assert result.verdict == "proved"
    assert "x_ptr.shape[1] = H" in _stated(result)
    assert "x_ptr.stride(0) = H * 16" in _stated(result)


@triton.jit
def packed_kernel(x_ptr, o_ptr, H, T, st, BT: tl.constexpr):
    t = tl.program_id(0).to(tl.int64) * BT + tl.arange(0, BT)
    h = tl.program_id(1)
    tl.store(o_ptr + t * H + h, tl.load(x_ptr + t * st + h, mask=t < T, other=0.0), mask=t < T)


def test_axes_inside_a_gap_keep_their_size() -> None:
    def script() -> None:
        x = torch.randn(50, 3, 4)[:, 1]
        o = torch.empty(x.shape)
        packed_kernel[(4, x.shape[1])](x, o, x.shape[1], x.shape[0], x.stride(0), BT=16)

    result = check_launches(_run(script))
    assert "st = 12, H = 4" in _stated(result) or "H = 4, st = 12" in _stated(result)
    assert "x_ptr.shape[0] = T" in _stated(result)


@triton.jit
def careless_kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + offs, tl.load(x_ptr + offs, mask=offs < n, other=0.0))


def test_defects_are_found_if_all_numbers_are_traced() -> None:
    def script() -> None:
        x = torch.randn(4, 48)
        n = x.numel()
        careless_kernel[(triton.cdiv(n, 64),)](x, torch.empty_like(x), n, BLOCK=64)

    result = check_launches(_run(script))
    assert result.verdict == "fails"
    (finding,) = result.findings
    assert (finding.kind, finding.sizes) == (
        "oob_store",
        {"x_ptr.shape[0]": 1, "x_ptr.shape[1]": 1},
    )
    assert "n = x_ptr.shape[0] * x_ptr.shape[1]" in _stated(result)


@triton.jit
def sums_kernel(x_ptr, o_ptr, T, NT: tl.constexpr, BT: tl.constexpr):
    for block in range(NT):
        t = block * BT + tl.arange(0, BT)
        tl.store(o_ptr + block, tl.sum(tl.load(x_ptr + t, mask=t < T, other=0.0)))


def test_constants_are_computed_as_in_the_script() -> None:
    def script(short: int = 0) -> None:
        x = torch.randn(100)
        count = triton.cdiv(x.shape[0], 64)
        o = torch.empty(count - short, 1)
        sums_kernel[(1,)](x, o, x.shape[0], NT=count, BT=64)

    ranges = {"T": (1, 500)}
    result = check_launches(_run(script), ranges)
    assert result.verdict == "proved"
    assert "as computed by the script: NT = cdiv(T, 64)" in _stated(result)
    wrong = check_launches(_run(lambda: script(1)), ranges)
    assert wrong.verdict == "fails"
    assert {finding.kind for finding in wrong.findings} == {"oob_store"}


@triton.autotune(configs=[triton.Config({"BLOCK": 32})], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned_kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(o_ptr + offs, tl.load(x_ptr + offs))
    else:
        tl.store(o_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


class Double(torch.autograd.Function):
    """Launch kernels in the forward and the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.count = x.numel()
        o = torch.empty_like(x)
        grid = lambda meta: (triton.cdiv(ctx.count, meta["BLOCK"]),)  # noqa: E731
        tuned_kernel[grid](x, o, ctx.count)
        return o

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        o = torch.empty(ctx.count, dtype=x.dtype)
        tuned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](
            grad.contiguous(), o, len(x) * x.shape[1]
        )
        return o.view(x.shape)


@pytest.mark.parametrize("shape", [pytest.param((8, 12), marks=pytest.mark.slow), (2, 12)])
def test_autograd_autotuners_heuristics_and_grids(shape: tuple[int, int]) -> None:
    def script() -> None:
        x = torch.randn(shape, requires_grad=True)
        Double.apply(x).sum().backward()
        assert x.grad is not None
        assert x.grad.eq(1).all()

    trace = _run(script)
    result = check_launches(trace)
    assert result.verdict == "proved"
    assert extents_of(trace.launches[0].provenances["n"]) == set(shape)
    assert trace.launches[0].grid_provenances[0] is not None
    assert "n" not in trace.launches[-1].provenances  # `len` returns a plain integer
    assert len(trace.launches) == 2
    for launch in trace.launches:
        assert all(type(value) is not TracedInt for value in launch.arguments.values())
    assert "n = " in _stated(result)


def test_a_row_per_element_of_several_axes_is_traced() -> None:
    def script() -> None:
        x = torch.randn(3, 5, 16)
        rows = x.view(-1, x.shape[-1])
        count, columns = rows.shape
        heads_kernel[(triton.cdiv(count, 16), 1)](
            rows, torch.empty_like(rows), 1, count, columns, 16
        )

    template = _template(_run(script))
    assert template.sizes == {"extent_3": 3, "extent_5": 5}
    assert "T = extent_3 * extent_5" in template.assumptions[0]
    assert check_launches(_run(script)).verdict == "proved"


def _extents(tensor: torch.Tensor, mode: ExtentTracking) -> list[str]:
    provenances = mode.extents(tensor)
    return ["?" if n is None else re.sub(r"extent_(\d+)", r"<\1>", str(n)) for n in provenances]


def test_tensors_keep_the_provenance_of_their_extents() -> None:
    mode = ExtentTracking()
    with tracking_extents(mode):
        x = torch.randn(4, 6, 10)
        b, t, d = x.shape
        o = x.new_empty(triton.cdiv(t, 4), *x.shape)
        assert _extents(o, mode) == ["cdiv(<6>, 4)", "<4>", "<6>", "<10>"]
        assert _extents(o * 2 + 1, mode) == ["cdiv(<6>, 4)", "<4>", "<6>", "<10>"]
        assert _extents(o[1], mode) == ["<4>", "<6>", "<10>"]
        assert _extents(o[:, 1:, None, :3], mode) == ["cdiv(<6>, 4)", "<4> - 1", "1", "?", "<10>"]
        assert _extents(x.transpose(0, 2), mode) == ["<10>", "<6>", "<4>"]
        assert _extents(x.reshape(b * t, d), mode) == ["<4> * <6>", "<10>"]
        assert _extents(x.view(b, t, 2, d // 2), mode) == ["<4>", "<6>", "2", "<10> // 2"]
        assert _extents(x.flatten(1), mode)[0] == "<4>"
        assert _extents(torch.zeros((t, 5)), mode) == ["<6>", "5"]
        assert _extents(torch.zeros(t | 1), mode) == ["?"]
        assert _extents(torch.zeros(3, 5), mode) == ["?", "?"]
        assert _extents(torch.full_like(o, 1.0), mode)[0] == "cdiv(<6>, 4)"
        assert o.stride(0).expr.base_symbols()  # type: ignore[attr-defined]
        assert o.stride()[3] == 1
        assert x.size(1).expr == x.shape[1].expr  # type: ignore[attr-defined]
        o.resize_(7)
        assert _extents(o, mode) == ["?"]
    assert type(x.shape[0]) is int
    assert builtins.min is min
    assert type(min(b, 3)) is int
    assert "built-in" in repr(min)


def test_programs_take_the_same_branches() -> None:
    def script() -> list[object]:
        x = torch.arange(24.0).view(4, 6)
        layer = torch.nn.Linear(x.shape[1], x.shape[0])
        with torch.no_grad():
            layer.weight.fill_(0.5)
            layer.bias.fill_(x.shape[0])
        compiled = torch.compile(
            lambda y, n: y.reshape(y.shape[1], y.shape[0]) * n + min(n, 3),
            backend="eager",
            fullgraph=True,
        )
        scripted = torch.jit.script(_scripted)
        parts: Any = torch.utils.data.DataLoader(x, batch_size=x.shape[0] // 2)  # type: ignore[arg-type]
        return [
            *(layer(x).tolist(), compiled(x, x.shape[0]).tolist(), scripted(x, len(x)).tolist()),
            *([part.tolist() for part in parts], torch.vmap(lambda r: r * r.shape[0])(x).tolist()),
            *(f"{x.shape} {x.shape[0]:03d}", x.expand(2, *x.shape).shape == (2, 4, 6)),
        ]

    plain = script()
    with tracking_extents(ExtentTracking()):
        assert script() == plain


def _scripted(x: torch.Tensor, n: int) -> torch.Tensor:
    return x[: min(n, 2)] * n
