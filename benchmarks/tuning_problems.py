"""The kernels, spaces and shapes that tuners are compared on, written as one writes them for a GPU.

Must not know who tunes them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl

# Kernels have no annotations but constexpr: their parameters are what a launch makes of them.
# mypy: disable-error-code="no-untyped-def"


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    group = pid // (GROUP_M * columns)
    height = min(rows - group * GROUP_M, GROUP_M)
    pid_m = group * GROUP_M + (pid % (GROUP_M * columns)) % height
    pid_n = (pid % (GROUP_M * columns)) // height
    m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    n = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    k = tl.arange(0, BLOCK_K)
    a = a_ptr + m[:, None] * K + k[None, :]
    b = b_ptr + n[None, :] * K + k[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        left = start + k < K
        total = tl.dot(
            tl.load(a, mask=left[None, :], other=0.0),
            tl.load(b, mask=left[:, None], other=0.0),
            total,
        )
        a += BLOCK_K
        b += BLOCK_K
    m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total.to(tl.float16), mask=inside)


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, length, scale,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    base = tl.program_id(1).to(tl.int64) * length * HEAD
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    lanes = tl.arange(0, HEAD)
    columns = tl.arange(0, BLOCK_N)
    inside = rows[:, None] < length
    at = base + rows[:, None] * HEAD + lanes[None, :]
    q = tl.load(q_ptr + at, mask=inside, other=0.0)
    most = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    weight = tl.zeros((BLOCK_M,), tl.float32)
    total = tl.zeros((BLOCK_M, HEAD), tl.float32)
    for start in range(0, length, BLOCK_N):
        there = start + columns < length
        k = tl.load(
            k_ptr + base + (start + columns)[None, :] * HEAD + lanes[:, None],
            mask=there[None, :],
            other=0.0,
        )
        scores = tl.where(there[None, :], tl.dot(q, k) * scale, float("-inf"))
        new = tl.maximum(most, tl.max(scores, 1))
        p = tl.exp2(scores - new[:, None])
        fade = tl.exp2(most - new)
        weight = weight * fade + tl.sum(p, 1)
        v = tl.load(
            v_ptr + base + (start + columns)[:, None] * HEAD + lanes[None, :],
            mask=there[:, None],
            other=0.0,
        )
        total = tl.dot(p.to(tl.float16), v, total * fade[:, None])
        most = new
    tl.store(out_ptr + at, (total / weight[:, None]).to(tl.float16), mask=inside)


@triton.jit
def layer_norm_kernel(
    x_ptr, w_ptr, out_ptr, rows, columns, eps, BLOCK: tl.constexpr, ROWS: tl.constexpr
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lanes = tl.arange(0, BLOCK)
    start = row[:, None].to(tl.int64) * columns
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    squares = tl.zeros((ROWS, BLOCK), tl.float32)
    for offset in range(0, columns, BLOCK):
        at = offset + lanes[None, :]
        inside = (row[:, None] < rows) & (at < columns)
        x = tl.load(x_ptr + start + at, mask=inside, other=0.0).to(tl.float32)
        total += x
        squares += x * x
    mean = tl.sum(total, 1) / columns
    spread = tl.rsqrt(tl.sum(squares, 1) / columns - mean * mean + eps)
    for offset in range(0, columns, BLOCK):
        at = offset + lanes[None, :]
        inside = (row[:, None] < rows) & (at < columns)
        x = tl.load(x_ptr + start + at, mask=inside, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + at, mask=at < columns, other=0.0).to(tl.float32)
        y = (x - mean[:, None]) * spread[:, None] * w
        tl.store(out_ptr + start + at, y.to(tl.float16), mask=inside)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lanes = tl.arange(0, BLOCK)
    start = row[:, None].to(tl.int64) * columns
    most = tl.full((ROWS, BLOCK), -1e30, tl.float32)
    weight = tl.zeros((ROWS, BLOCK), tl.float32)
    for offset in range(0, columns, BLOCK):
        at = offset + lanes[None, :]
        inside = (row[:, None] < rows) & (at < columns)
        x = tl.load(x_ptr + start + at, mask=inside, other=-1e30).to(tl.float32)
        new = tl.maximum(most, x)
        weight = weight * tl.exp(most - new) + tl.exp(x - new)
        most = new
    top = tl.max(most, 1)
    total = tl.sum(weight * tl.exp(most - top[:, None]), 1)
    for offset in range(0, columns, BLOCK):
        at = offset + lanes[None, :]
        inside = (row[:, None] < rows) & (at < columns)
        x = tl.load(x_ptr + start + at, mask=inside, other=0.0).to(tl.float32)
        y = tl.exp(x - top[:, None]) / total[:, None]
        tl.store(out_ptr + start + at, y.to(tl.float16), mask=inside)


@triton.jit
def gelu_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr, TURNS: tl.constexpr):
    for turn in tl.static_range(TURNS):
        offsets = (tl.program_id(0) * TURNS + turn) * BLOCK + tl.arange(0, BLOCK)
        inside = offsets < n
        x = tl.load(x_ptr + offsets, mask=inside).to(tl.float32)
        y = tl.load(y_ptr + offsets, mask=inside).to(tl.float32)
        gelu = 0.5 * x * (1 + tl.math.erf(x * 0.7071067811865476))
        tl.store(out_ptr + offsets, (gelu * y).to(tl.float16), mask=inside)


Values = Mapping[str, Sequence[Any]]
_OPTIONS = ("num_warps", "num_stages")


@dataclass(frozen=True, kw_only=True)
class TuningProblem:
    """A kernel with the space it is tuned over.

    Attributes:
        name: of the comparison.
        kernel: a jit function.
        key: what is tuned apart.
        space: values by parameter; all combinations that `keeps` keeps are configurations.
        shapes: sizes by name, each a launch.
        inputs: arguments by name, and the grid, of a shape.
        keeps: whether a combination is one that somebody would write down.
    """

    name: str
    kernel: Any
    key: Sequence[str]
    space: Values
    shapes: Sequence[Mapping[str, int]]
    inputs: Callable[..., tuple[dict[str, Any], Callable[[Mapping[str, Any]], tuple[int, ...]]]]
    keeps: Callable[[Mapping[str, Any]], bool] = lambda values: True

    def configs(self) -> list[Any]:
        """All configurations, the last parameter running fastest."""
        chosen = itertools.product(*self.space.values())
        values = (dict(zip(self.space, each, strict=True)) for each in chosen)
        return [config_of(each) for each in values if self.keeps(each)]


def config_of(values: Mapping[str, Any]) -> Any:
    """A `triton.Config` of parameters and launch options."""
    own = {name: value for name, value in values.items() if name not in _OPTIONS}
    return triton.Config(own, **{n: values[n] for n in _OPTIONS if n in values})


def _matmul(dtype: str) -> Callable[..., Any]:
    def inputs(m: int, n: int, k: int) -> Any:
        import torch

        a, b = (torch.randn(s, k, device="cuda", dtype=torch.float16) for s in (m, n))
        if dtype == "fp8":
            a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
        c = torch.empty(m, n, device="cuda", dtype=torch.float16)
        arguments = {"a_ptr": a, "b_ptr": b, "c_ptr": c, "M": m, "N": n, "K": k}
        return arguments, lambda meta: (
            triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),
        )

    return inputs


def _attention(heads: int, length: int, head: int) -> Any:
    import torch

    q, k, v = (torch.randn(heads, length, head, device="cuda").half() for _ in range(3))
    arguments: dict[str, Any] = {"q_ptr": q, "k_ptr": k, "v_ptr": v, "out_ptr": torch.empty_like(q)}
    arguments |= {"length": length, "scale": 1.4426950408889634 / head**0.5, "HEAD": head}
    return arguments, lambda meta: (triton.cdiv(length, meta["BLOCK_M"]), heads)


def _rows(with_weight: bool) -> Callable[..., Any]:
    def inputs(rows: int, columns: int) -> Any:
        import torch

        x = torch.randn(rows, columns, device="cuda").half()
        arguments = {"x_ptr": x, "out_ptr": torch.empty_like(x), "rows": rows, "columns": columns}
        if with_weight:
            arguments |= {"w_ptr": torch.randn(columns, device="cuda").half(), "eps": 1e-5}
        return arguments, lambda meta: (triton.cdiv(rows, meta["ROWS"]),)

    return inputs


def _gelu(n: int) -> Any:
    import torch

    x, y = (torch.randn(n, device="cuda").half() for _ in range(2))
    arguments = {"x_ptr": x, "y_ptr": y, "out_ptr": torch.empty_like(x), "n": n}
    return arguments, lambda meta: (triton.cdiv(n, meta["BLOCK"] * meta["TURNS"]),)


def _tiles(block_k: Sequence[int]) -> Values:
    return {
        "BLOCK_M": (64, 128, 256),
        "BLOCK_N": (64, 128, 256),
        "BLOCK_K": block_k,
        "GROUP_M": (8,),
        "num_warps": (4, 8),
        "num_stages": (3, 4),
    }


_PRODUCTS = ({"m": 4096, "n": 4096, "k": 4096}, {"m": 512, "n": 4096, "k": 2048})
_ROW_SPACE = {
    "BLOCK": (256, 512, 1024, 2048, 4096),
    "ROWS": (1, 2, 4),
    "num_warps": (1, 2, 4, 8, 16),
}
#: Elements of a thread that its registers can hold.
_MOST_PER_THREAD = 128


def _fits_rows(values: Mapping[str, Any]) -> bool:
    threads = 32 * int(values["num_warps"])
    return int(values["ROWS"] * values["BLOCK"]) <= _MOST_PER_THREAD * threads


def _fits_tile(values: Mapping[str, Any]) -> bool:
    return int(values["BLOCK_M"] * values["BLOCK_N"]) <= 256 * 128


_ROW_SHAPES = (
    {"rows": 8192, "columns": 4096},
    {"rows": 32768, "columns": 768},
    {"rows": 512, "columns": 8192},
)
PROBLEMS = (
    TuningProblem(
        name="gelu",
        kernel=gelu_kernel,
        key=("n",),
        space={
            "BLOCK": (256, 512, 1024, 2048, 4096, 8192),
            "TURNS": (1, 2),
            "num_warps": (1, 2, 4, 8, 16),
        },
        shapes=({"n": 1 << 26}, {"n": 1 << 22}, {"n": 1 << 18}),
        inputs=_gelu,
    ),
    TuningProblem(
        name="softmax",
        kernel=softmax_kernel,
        key=("rows", "columns"),
        space=_ROW_SPACE,
        shapes=_ROW_SHAPES,
        inputs=_rows(with_weight=False),
        keeps=_fits_rows,
    ),
    TuningProblem(
        name="layer_norm",
        kernel=layer_norm_kernel,
        key=("rows", "columns"),
        space=_ROW_SPACE,
        shapes=_ROW_SHAPES,
        inputs=_rows(with_weight=True),
        keeps=_fits_rows,
    ),
    TuningProblem(
        name="matmul_fp16",
        kernel=matmul_kernel,
        key=("M", "N", "K"),
        space=_tiles((32, 64)),
        shapes=(*_PRODUCTS, {"m": 8192, "n": 1024, "k": 1024}),
        inputs=_matmul("fp16"),
        keeps=_fits_tile,
    ),
    TuningProblem(
        name="matmul_fp8",
        kernel=matmul_kernel,
        key=("M", "N", "K"),
        space=_tiles((64, 128)),
        shapes=(*_PRODUCTS, {"m": 8192, "n": 2048, "k": 8192}),
        inputs=_matmul("fp8"),
        keeps=_fits_tile,
    ),
    TuningProblem(
        name="attention",
        kernel=attention_kernel,
        key=("length", "HEAD"),
        space={
            "BLOCK_M": (64, 128),
            "BLOCK_N": (32, 64, 128),
            "num_warps": (4, 8),
            "num_stages": (1, 2, 3, 4),
        },
        shapes=(
            {"heads": 32, "length": 4096, "head": 64},
            {"heads": 64, "length": 1024, "head": 64},
            {"heads": 16, "length": 4096, "head": 128},
        ),
        inputs=_attention,
    ),
)
