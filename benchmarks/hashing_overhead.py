"""Measures what hashing the order of evaluation costs: `python benchmarks/hashing_overhead.py`.

`docs/design/reproducibility.md` contains the results. All times are CPU times of the process, so
that other load on the machine matters little. Kernels are compiled before they are measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import torch
import triton
import triton.language as tl
import typer

from ttools.core.gpus.targets import read_target
from ttools.interpreter import interpret
from ttools.sanitizer.reproducibility.run import HashingObserver

# Kernels have no annotations except `constexpr`: the types depend on the arguments of a launch.
# mypy: disable-error-code="no-untyped-def"


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x, y = tl.load(x_ptr + offsets, mask=mask), tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask, start = offsets < n, tl.program_id(0) * n
    x = tl.load(x_ptr + start + offsets, mask=mask, other=-float("inf"))
    powers = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + start + offsets, powers / tl.sum(powers, 0), mask=mask)


@triton.jit
def norm_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask, start = offsets < n, tl.program_id(0) * n
    x = tl.load(x_ptr + start + offsets, mask=mask, other=0.0)
    centred = tl.where(mask, x - tl.sum(x, 0) / n, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / n + 1e-5)
    weight, bias = tl.load(weight_ptr + offsets, mask=mask), tl.load(bias_ptr + offsets, mask=mask)
    tl.store(out_ptr + start + offsets, centred * scale * weight + bias, mask=mask)


@triton.jit
def product_kernel(a_ptr, b_ptr, out_ptr, N, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None]
    columns = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK))[None, :]
    ks = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, N, BLOCK_K):
        a = tl.load(a_ptr + rows * N + (k + ks)[None, :])
        total = tl.dot(a, tl.load(b_ptr + (k + ks)[:, None] * N + columns), total)
    tl.store(out_ptr + rows * N + columns, total)


def _add(n: int) -> Callable[[], Any]:
    x, y, out = torch.randn(n), torch.randn(n), torch.empty(n)
    return lambda: add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)


def _softmax(rows: int, n: int) -> Callable[[], Any]:
    x, out = torch.randn(rows, n), torch.empty(rows, n)
    return lambda: softmax_kernel[(rows,)](x, out, n, BLOCK=n)


def _norm(rows: int, n: int) -> Callable[[], Any]:
    x, out = torch.randn(rows, n), torch.empty(rows, n)
    weight, bias = torch.randn(n), torch.randn(n)
    return lambda: norm_kernel[(rows,)](x, weight, bias, out, n, BLOCK=n)


def _product(n: int) -> Callable[[], Any]:
    a, b, out = torch.randn(n, n).half(), torch.randn(n, n).half(), torch.empty(n, n)
    grid = (n // 64, n // 64)
    return lambda: product_kernel[grid](a, b, out, n, BLOCK=64, BLOCK_K=32)


WORKLOADS: dict[str, Callable[[], Callable[[], Any]]] = {
    "add 1M": lambda: _add(10**6),
    "softmax 256x4096": lambda: _softmax(256, 4096),
    "layer norm 1024x1024": lambda: _norm(1024, 1024),
    "matmul 256": lambda: _product(256),
    "add 10M": lambda: _add(10**7),
}


def _seconds(call: Callable[[], Any], observer: HashingObserver | None = None) -> float:
    with interpret() if observer is None else interpret(observer=observer):
        start = time.process_time()
        call()
        return time.process_time() - start


def main(
    only: Annotated[str, typer.Option(help="Workloads whose names contain this text.")] = "",
    one_by_one: Annotated[bool, typer.Option(help="Also run programs one after the other.")] = True,
) -> None:
    """Print the CPU times of launches: unchecked, hashed in groups, and hashed one by one."""
    target = read_target("sm_90")
    typer.echo("CPU seconds            unchecked   in groups  one by one")
    for name, make in WORKLOADS.items():
        if only not in name:
            continue
        torch.manual_seed(0)
        call = make()
        _seconds(call)
        plain = min(_seconds(call) for _ in range(3))
        cells = [f"{plain:11.4f}"]
        for in_groups in (True, False) if one_by_one else (True,):
            times = [_seconds(call, HashingObserver(target, in_groups=in_groups)) for _ in "12"]
            cells.append(f"{times[1]:11.2f}")
        typer.echo(f"{name:21}{' '.join(cells)}")


if __name__ == "__main__":
    typer.run(main)
