"""Tests of packing Python arguments into raw 64-bit slots."""

from __future__ import annotations

import struct
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.errors import TtoolsError, UsageError
from ttools.core.triton_versions import Signature
from ttools.interpreter.abi.arguments import ArgumentPlan


def pack(type_name: Any, value: Any) -> list[int]:
    plan = ArgumentPlan(["x"], [type_name])
    return plan.pack(plan.flatten([value]))


@given(st.sampled_from([8, 16, 32, 64]), st.data())
def test_integers_keep_their_low_bits(width: int, data: st.DataObject) -> None:
    value = data.draw(st.integers(-(2 ** (width - 1)), 2**width - 1))
    (slot,) = pack(f"i{width}", value)
    assert 0 <= slot < 2**64
    assert slot % 2**width == value % 2**width


@given(st.floats(width=32, allow_nan=False))
def test_fp32_is_packed_as_its_bits(value: float) -> None:
    assert pack("fp32", value) == [struct.unpack("<I", struct.pack("<f", value))[0]]


@pytest.mark.parametrize(
    ("type_name", "value", "slot"),
    [
        ("i1", True, 1),
        ("u1", 2, 1),
        ("i8", -1, 2**64 - 1),
        ("u64", 2**64 - 1, 2**64 - 1),
        ("fp16", 1.0, 0x3C00),
        ("bf16", 1.0, 0x3F80),
        # The NVIDIA launcher truncates 1 + 2**-7 - 2**-20 instead of rounding it.
        ("bf16", 1.0078116, 0x3F80),
        ("fp32", 1e60, 0x7F800000),
        ("fp64", -2.0, 0xC000000000000000),
        ("*fp32", None, 0),
        ("*i8", 4096, 4096),
    ],
)
def test_slots(type_name: str, value: Any, slot: int) -> None:
    assert pack(type_name, value) == [slot]


def test_tuples_are_flattened_and_constants_omitted() -> None:
    signature: list[Signature] = ["constexpr", ("i32", "constexpr", ("*fp32", "i64")), "fp32"]
    plan = ArgumentPlan(["a", "b", "c"], signature)
    flat = plan.flatten([7, (1, 2, (4096, 3)), 0.0])
    assert flat == [1, 4096, 3, 0.0]
    assert plan.pack(flat) == [1, 4096, 3, 0]
    assert plan.types == ("i32", "*fp32", "i64", "fp32")
    assert plan.pointers == {1}


def test_errors_name_the_argument() -> None:
    plan = ArgumentPlan(["n", "t"], ["i32", ("fp32", "*fp32")])
    with pytest.raises(UsageError, match=r"argument `t\[0\]` \(fp32\)"):
        plan.pack(plan.flatten([1, ("a", 0)]))


@pytest.mark.parametrize("value", [1.5, "text", [1]])
def test_a_pointer_must_be_an_address(value: Any) -> None:
    with pytest.raises(UsageError, match="a pointer must be a tensor"):
        pack("*fp32", value)


def test_a_kernel_with_other_parameters_is_an_error() -> None:
    plan = ArgumentPlan(["x", "n"], ["*fp32", "i32"])
    plan.check(["!tt.ptr<f32>", "i32"])
    with pytest.raises(TtoolsError, match="bug in ttools"):
        plan.check(["!tt.ptr<f32>", "i32", "i32"])


class TestTensorsWithoutMemory:
    """Tests of tensors whose first access would crash the process."""

    def test_meta_device(self) -> None:
        with pytest.raises(UsageError, match=r"argument `x` \(\*fp32\): .* meta device"):
            pack("*fp32", torch.ones(8, device="meta"))

    def test_freed_storage(self) -> None:
        tensor = torch.ones(8)
        tensor.untyped_storage().resize_(0)
        with pytest.raises(UsageError, match="resized to 0 bytes"):
            pack("*fp32", tensor)

    def test_empty_tensors_are_allowed(self) -> None:
        assert pack("*fp32", torch.empty(0, 3, device="meta")) == [0]


@given(st.integers(-(2**31), 2**31 - 1), st.floats(width=32, allow_nan=False))
def test_repacking_keeps_addresses(integer: int, real: float) -> None:
    plan = ArgumentPlan(["a", "n", "b", "x"], ["*fp32", "i32", "*fp32", "fp32"])
    a, b = torch.zeros(3), torch.zeros(4)
    first = plan.pack([a, 1, b, 2.0])
    arguments = [a.view(3, 1), integer, b, real]
    assert plan.repack(arguments, first) == plan.pack(arguments)


def test_repacking_errors_name_the_argument() -> None:
    plan = ArgumentPlan(["a", "n"], ["*fp32", "i32"])
    with pytest.raises(UsageError, match="argument `n`"):
        plan.repack([torch.zeros(1), "text"], [4096, 1])
