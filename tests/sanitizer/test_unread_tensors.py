"""Notes on tensors that are passed to kernels which never read or write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl

from ttools.core.findings.findings import Finding
from ttools.sanitizer import sanitize


def notes(*launches: tuple[Any, Sequence[Any], dict[str, Any]]) -> list[Finding]:
    with sanitize(checks="memcheck") as report:
        for kernel, arguments, constants in launches:
            kernel[(1,)](*arguments, **constants)
    assert all(finding.severity == "note" for finding in report.findings)
    return [finding for finding in report.findings if finding.kind == "unread_tensor"]


@triton.jit
def forgets_scale(x_ptr, scale_ptr, out_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out_ptr + i, tl.load(x_ptr + i))


@triton.jit
def uses_scale(x_ptr, scale_ptr, out_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out_ptr + i, tl.load(x_ptr + i) * tl.load(scale_ptr))


@triton.jit
def ignores_on_purpose(x_ptr, _scale_ptr, out_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out_ptr + i, tl.load(x_ptr + i))


def test_a_parameter_that_the_source_does_not_use() -> None:
    x, scale, out = torch.ones(16), torch.tensor([0.5]), torch.empty(16)
    (note,) = notes((forgets_scale, (x, scale, out), {"B": 16}))
    assert note.message == (
        "a tensor is passed for `scale_ptr`, and the kernel neither reads nor writes it"
    )
    assert note.argument is not None
    assert note.argument.name == "scale_ptr"
    assert note.location is not None
    assert note.location.line == forgets_scale.starting_line_number + 1
    assert not notes((uses_scale, (x, scale, out), {"B": 16}))
    assert not notes((ignores_on_purpose, (x, scale, out), {"B": 16}))


@triton.jit
def moves_a_pointer(x_ptr, scale_ptr, out_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    scales = scale_ptr + i
    for _ in range(n):
        tl.store(out_ptr + i, tl.load(x_ptr + i) * tl.load(scales))
        scales += B


def test_a_pointer_that_a_loop_carries_is_used() -> None:
    assert not notes(
        (moves_a_pointer, (torch.ones(16), torch.ones(32), torch.empty(16), 2), {"B": 16})
    )


@triton.jit
def to_query_type(x, scale_ptr, QUANTISED: tl.constexpr):
    if QUANTISED:
        return x.to(tl.float32)
    return x.to(tl.float32) * tl.load(scale_ptr)


@triton.jit
def dequantise(k_ptr, scale_ptr, out_ptr, QUANTISED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    k = tl.load(k_ptr + i)
    tl.store(out_ptr + i, to_query_type(k, scale_ptr, QUANTISED))


def test_a_path_that_a_constant_selects_drops_the_scale() -> None:
    k, scale, out = torch.ones(16, dtype=torch.int8), torch.tensor([0.25]), torch.empty(16)
    quantised, plain = {"QUANTISED": True, "B": 16}, {"QUANTISED": False, "B": 16}
    (note,) = notes((dequantise, (k, scale, out), quantised))
    with sanitize(checks="default") as report:  # which also tracks the tensor's bytes
        dequantise[(1,)](k, torch.tensor([0.25]), out, **quantised)
    assert [finding.message for finding in report.findings] == [note.message]
    assert note.message == (
        "a tensor is passed for `scale_ptr`, and no launch of the run reads or writes it: "
        "`QUANTISED=True` excludes its use"
    )
    # Another launch of the run uses the parameter.
    both = [(dequantise, (k, scale, out), constants) for constants in (quantised, plain)]
    assert not notes(*both)


def test_placeholders_are_not_noted() -> None:
    k, out = torch.ones(16, dtype=torch.int8), torch.empty(16)
    placeholders = (torch.ones(1), torch.zeros(1), out)
    launches = [
        (dequantise, (k, scale, out), {"QUANTISED": True, "B": 16}) for scale in placeholders
    ]
    assert not notes(*launches)
    with sanitize(checks="default") as run:
        dequantise[(1,)](k, torch.empty(1), out, QUANTISED=True, B=16)
    assert not [f for f in run.findings if f.kind == "unread_tensor"]


@triton.jit
def adds_bias(x_ptr, bias_ptr, out_ptr, HAS_BIAS: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    if HAS_BIAS:
        x += tl.load(bias_ptr + i)
    tl.store(out_ptr + i, x)


def test_a_flag_that_is_off_excludes_a_use_on_purpose() -> None:
    x, out = torch.rand(16), torch.empty(16)
    assert not notes((adds_bias, (x, torch.rand(16), out), {"HAS_BIAS": False, "B": 16}))


@triton.jit
def pointer_as_seed(x_ptr, seed_ptr, out_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    seed = seed_ptr.to(tl.int64)
    tl.store(out_ptr + i, tl.load(x_ptr + i) * (tl.rand(seed, i) > 0.5))


@triton.jit
def loaded_seed(x_ptr, seed_ptr, out_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    seed = tl.load(seed_ptr)
    tl.store(out_ptr + i, tl.load(x_ptr + i) * (tl.rand(seed, i) > 0.5))


@triton.jit
def pointer_through_an_integer(x_ptr, out_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = (x_ptr.to(tl.int64) + 4).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + i, tl.load(x + i))


def test_an_address_that_is_used_as_a_number() -> None:
    x, seed, out = torch.ones(32), torch.tensor([7]), torch.empty(16)
    (note,) = notes((pointer_as_seed, (x, seed, out), {"B": 16}))
    assert note.message == (
        "the kernel uses the address of `seed_ptr` as a number, and neither reads nor writes the "
        "tensor"
    )
    assert note.location is not None
    assert note.location.line == pointer_as_seed.starting_line_number + 3
    assert not notes((loaded_seed, (x, seed, out), {"B": 16}))
    assert not notes((pointer_through_an_integer, (x, out), {"B": 16}))
