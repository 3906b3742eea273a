"""Host code that calls C code: autograd functions, custom operators, other modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from tests.prove import kernels
from tests.prove.other_module import blocks_of

from ttools.prove.analysis import Analysis

_WEIGHT = torch.ones(256)
_LIBRARY = torch.library.Library("ttools_sizes", "FRAGMENT")
_LIBRARY.define("twice(Tensor x) -> Tensor")


def _copied(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    kernels.copy_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        assert ctx.needs_input_grad == (False,)
        return _copied(x)


class _NewStyle(torch.autograd.Function):
    @staticmethod
    def forward(x: torch.Tensor, times: int = 1) -> torch.Tensor:
        return _copied(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        _, ctx.times = inputs


@torch.library.custom_op("ttools_sizes::softmax", mutates_args=())
def _operator(x: torch.Tensor) -> torch.Tensor:
    return _copied(x)


def _function(n: Any) -> None:
    _Copy.apply(torch.randn(n))


def _new_function(n: Any) -> None:
    _NewStyle.apply(torch.randn(n))


def _custom(n: Any) -> None:
    _operator(torch.randn(n))


def _custom_by_name(n: Any) -> None:
    # A custom operator with the name of one of torch's, which launches no kernel.
    torch.ops.ttools_sizes.softmax(torch.randn(n))
    torch.ops.ttools_sizes.softmax.default(torch.randn(n))


def _in_another_module(n: Any) -> None:
    for _ in blocks_of(n, 1 << 20):
        _copied(torch.randn(n))


@pytest.mark.parametrize(
    "run", [_function, _new_function, _custom, _custom_by_name, _in_another_module]
)
def test_launches_inside_are_followed(run: Callable[..., Any]) -> None:
    result = Analysis(run, {"n": (2, 1000)}).analyse()
    assert result.verdict == "proved"
    assert {launch.kernel for launch in result.launches} == {"copy_kernel"}


def test_real_tensors_have_their_real_size() -> None:
    def run(n: Any) -> None:
        y = torch.empty(n)
        kernels.copy_kernel[(triton.cdiv(n, 64),)](_WEIGHT, y, n, BLOCK=64)

    (defect,) = Analysis(run, {"n": (1, 1000)}).analyse().defects
    assert (defect.event.kind, defect.sizes) == ("oob_load", {"n": 257})


@triton.jit
def flagged_kernel(x_ptr, flag_ptr, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + lanes, lanes)
    tl.atomic_store(flag_ptr + tl.program_id(0), 1)


@pytest.mark.skipif(not hasattr(tl, "atomic_store"), reason="this Triton has no atomic stores")
def test_atomic_loads_and_stores_are_not_followed() -> None:
    def run(n: Any) -> None:
        programs = triton.cdiv(n, 64)
        flagged_kernel[(programs,)](torch.empty(programs * 64), torch.zeros(programs), BLOCK=64)

    (abstention,) = Analysis(run, {"n": (1, 1000)}).analyse().abstained
    assert abstention.reason == "not modelled: `tt.atomic_store` in the kernel"


def test_operators_in_c_are_not_followed() -> None:
    def run(n: Any) -> None:
        torch.ops.ttools_sizes.twice(torch.randn(n))

    (abstention,) = Analysis(run, {"n": (1, 9)}).analyse().abstained
    assert abstention.reason == "not modelled: the operator `ttools_sizes::twice` in host code"
    assert abstention.file == __file__
