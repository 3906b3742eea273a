"""Logs of a kernel's values: their content, and differences beyond rounding and order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from ttools.interpreter.api import interpret
from ttools.verifier.run.first_difference import Found, first_difference
from ttools.verifier.workers import value_log
from ttools.verifier.workers.value_log import logged

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@triton.jit
def product_kernel(a_ptr, b_ptr, o_ptr, K, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)[:, None]
    columns = tl.arange(0, BLOCK)[None, :]
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        a = tl.load(a_ptr + rows * K + k + columns, mask=k + columns < K)
        b = tl.load(b_ptr + (k + rows) * BLOCK + columns, mask=k + rows < K, other=0.0)
        a = tl.where(k + columns < K, a, 0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(o_ptr + rows * BLOCK + columns, acc.to(tl.bfloat16))


@triton.jit(noinline=True)
def collatz(n):
    steps = 0
    while n > 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


@triton.jit
def many_kernel(x_ptr, o_ptr, counter_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0) + 2 * tl.program_id(1)
    if row == 5:
        return
    arrival = tl.atomic_add(counter_ptr, 1)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + c, mask=c < N)
    small = x.to(tl.float8e5).to(tl.float32)
    x = tl.where(c < N, tl.exp(x) - small, 0.0)
    total = tl.cumsum(x, axis=0)
    best = tl.argmax(x, axis=0)
    ordered = tl.sort((x * 1000).to(tl.int32))
    steps = collatz(best + 7)
    wide = ordered.to(tl.int64) * steps + arrival
    half = total.to(tl.float16) * 0.5
    tl.store(o_ptr + row * BLOCK + c, wide + half.to(tl.int64))


def product(device: str) -> None:
    a, b = torch.randn(16, 40), torch.randn(40, 16)
    o = torch.empty(16, 16, dtype=torch.bfloat16, device=device)
    product_kernel[(1,)](a.to(device), b.to(device), o, 40, BLOCK=16)


def many(device: str) -> None:
    x = torch.randn(6, 20)
    o = torch.empty(6, 32, dtype=torch.int64, device=device)
    counter = torch.zeros(1, dtype=torch.int32, device=device)
    many_kernel[(2, 3)](x.to(device), o, counter, 20, BLOCK=32)


def logs(
    call: Callable[[str], None], device: str = "cpu", order: Any = "natural", **request: Any
) -> Any:
    torch.manual_seed(0)
    engine = interpret(order=order, threads=1) if device == "cpu" else nullcontext()
    with engine, logged(request, device) as log:
        call(device)
    return log


@cache
def engine(call: Callable[[str], None]) -> tuple[Any, list[Any]]:
    """Return the log of the engine, and its logs with rounding errors and in other orders."""
    orders = enumerate(("reverse", "random", "random"))
    return logs(call), [logs(call, order=order, seed=n) for n, order in orders]


def compared(call: Callable[[str], None], gpu: list[Any]) -> Found:
    return first_difference(gpu, *engine(call))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("call", [product, pytest.param(many, marks=pytest.mark.slow)])
def test_right_kernels_have_no_difference(call: Callable[[str], None], device: str) -> None:
    assert compared(call, logs(call, device)) == Found()
    assert compared(call, logs(call, device, part=(1, 2))) == Found()


def test_rounding_errors_and_other_orders_are_no_difference() -> None:
    assert compared(many, logs(many, order="random", seed=7)) == Found()
    exact, _ = engine(many)
    # Without these logs, other orders of arrival and other rounding would be a difference.
    alone = first_difference(logs(many, order="reverse"), exact, [])
    assert "`arrival` at " in alone.difference
    assert "`tt.atomic_rmw`: " in alone.difference
    alone = first_difference(engine(product)[1][1], engine(product)[0], [])
    assert "`a` at " in alone.difference


def flipped(log: list[Any], kernel_site: str, visit: int = 1) -> list[Any]:
    """Flip bits of one value in a log, for the last program that has the value."""
    described = log[0]["described"]
    site = next(n for n, e in enumerate(described["sites"]) if kernel_site in e["where"])
    number, offset = next(
        (number, item["value"][1])
        for number, block in enumerate(described["blocks"], 1)
        for item in block["items"]
        if item.get("value", [None])[0] == site
    )
    data, at, visits = bytearray(log[0]["logs"][-1]), 0, 0
    while at < len(data):
        block = int.from_bytes(data[at : at + 8], "little")
        visits += block == number
        if block == number and visits == visit:
            data[at + offset] ^= 0x7F
            data[at + offset + 3] ^= 0x7F
            break
        at += described["blocks"][block - 1]["size"]
    log[0]["logs"][-1] = bytes(data)
    return log


def test_the_iteration_of_a_loop_is_reported() -> None:
    difference = compared(product, flipped(logs(product), '"acc"', visit=2))
    assert "program 0: `acc` at " in difference.difference
    assert "`tt.dot`, the 2nd time: 1 of 256 elements, at [0, 0] " in difference.difference


def branching(*entries: tuple[int, float]) -> list[Any]:
    """Return the log of one program from block numbers, each with its value."""
    site = {"name": "arith.addf", "where": "", "element": "f32", "shape": []}
    blocks: list[dict[str, Any]] = [{"size": 32, "items": [{"value": [n, 16]}]} for n in range(3)]
    blocks[0]["items"].append({"inner": [2, 3]})
    data = b"".join(
        number.to_bytes(16, "little") + np.float32(value).tobytes() + bytes(12)
        for number, value in entries
    )
    described = {"sites": [site] * 3, "blocks": blocks, "first": 32}
    launch = {"kernel": "k", "programs": 1, "module": 1, "logs": [data], "lengths": [len(data)]}
    return [{**launch, "described": described}]


def test_programs_that_take_other_branches() -> None:
    engine, gpu = branching((1, 1), (2, 5)), branching((1, 1), (3, 5))
    difference = first_difference(gpu, engine, [engine])
    assert difference.difference == (
        "launch 1 of the call (`k`), program 0: after `arith.addf`, the program takes a "
        "different path than on the engine"
    )
    # A branch that rounding errors can change is not a difference.
    assert first_difference(gpu, engine, [gpu]) == Found()
    # A log that ends early may have been full.
    assert first_difference(branching((1, 1)), engine, [engine]) == Found()
    twice = branching((1, 1), (2, 5), (2, 6))
    difference = first_difference(branching((1, 1), (2, 5), (2, 7)), twice, [twice])
    assert difference.difference.endswith(
        "`arith.addf`, the 2nd time: 7 on the GPU, 6 on the engine"
    )


def test_values_that_do_not_fit_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_log, "_SIZE", 6 * 2048)
    first = compared(many, logs(many))
    assert first == Found(
        limits="the last values of long programs of `many_kernel` were not compared"
    )
    first = first_difference(logs(many, most=3), logs(many, most=3), [])
    assert "only the first 3 programs of `many_kernel` were compared" in first.limits


def test_other_launches_other_code_and_damaged_logs_are_limits() -> None:
    one, other = engine(many)[0], logs(product)
    assert (
        first_difference(one, other, []).limits
        == "the launches on the GPU differ from those on the engine"
    )
    other[0]["kernel"] = "many_kernel"
    assert (
        "produces different TTIR of `many_kernel` for the GPU"
        in first_difference(one, other, []).limits
    )
    damaged = logs(many)
    damaged[0]["logs"][0] = b"\xff" * 64
    assert first_difference(damaged, one, []).limits == "the log of launch 1 cannot be read"
    damaged[0] = {"kernel": "many_kernel"}
    assert first_difference(damaged, one, []).limits == "the log of launch 1 cannot be read"


def test_logging_does_not_change_results() -> None:
    def call(device: str) -> None:
        results.append(torch.empty(16, 16, dtype=torch.bfloat16))
        product_kernel[(1,)](a, b, results[-1], 40, BLOCK=16)

    results: list[torch.Tensor] = []
    a, b = torch.randn(16, 40), torch.randn(40, 16)
    with interpret():
        call("cpu")
    logs(call)
    logs(call, seed=1)
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    np.testing.assert_allclose(results[0].float(), results[2].float(), rtol=0.02, atol=1e-3)
