"""Functions that Triton does not inline, and configurations tuned for other arguments."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from catalogue import buggy


@triton.jit(noinline=True)
def read_one(p, i):
    return tl.load(p + i)  # BUG: oob_load


@triton.jit(noinline=True)
def add_to(p, i, x):
    tl.store(p + i, tl.load(p + i) + x)  # BUG: race


@triton.jit
def by_calls(x_ptr, o_ptr, shift, group):
    i = tl.program_id(0)
    add_to(o_ptr, i // group, read_one(x_ptr, i + shift))


@buggy("oob_load", "x_ptr")
def function_that_is_not_inlined_reads(fixed: bool) -> None:
    by_calls[(30,)](torch.rand(30), torch.zeros(30), 0 if fixed else 2, 1)


@buggy("race", "o_ptr", also=["overlapping_store"], checks="racecheck")
def function_that_is_not_inlined_races(fixed: bool) -> None:
    by_calls[(30,)](torch.rand(30), torch.zeros(30), 0, 1 if fixed else 2)


def _whole_tiles_only(
    configs: list[triton.Config], arguments: dict[str, Any], **_: Any
) -> list[triton.Config]:
    return [config for config in configs if config.kwargs["EVEN"] == (arguments["n"] % 32 == 0)]


def _copying(key: list[str]) -> Any:
    return triton.autotune(
        [triton.Config({"B": 32, "EVEN": even}) for even in (True, False)],
        key=key,
        prune_configs_by={"early_config_prune": _whole_tiles_only},
    )(in_tiles)


@triton.jit
def in_tiles(x_ptr, o_ptr, m, n, B: tl.constexpr, EVEN: tl.constexpr):
    r = tl.program_id(0)
    for first in range(0, n, B):
        c = first + tl.arange(0, B)
        x = tl.load(x_ptr + r * n + c, mask=(c >= 0) if EVEN else (c < n))  # BUG: oob_load
        tl.store(o_ptr + r * n + c, x, mask=c < n)


@buggy("oob_load", "x_ptr")
def configuration_of_other_columns_is_used(fixed: bool) -> None:
    copies = _copying(["m", "n"] if fixed else ["m"])
    for n in (64, 50):
        copies[(4,)](torch.rand(4, n), torch.empty(4, n), 4, n)
