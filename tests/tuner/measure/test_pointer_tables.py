"""Tables of addresses among the arguments of a launch: their tensors, and kernels that use them."""

from __future__ import annotations

import mmap
import pickle

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tuner.workers.test_serialized_launch import launch_of

from ttools.tuner import TuneOptions, TuningRun
from ttools.tuner.measure.checks import Checks
from ttools.tuner.measure.pointer_tables import pointees_of
from ttools.tuner.workers.serialized_launch import deserialize, serialize

_MAP_32BIT = 0x40


@triton.jit
def add_one_kernel(table_ptr, BLOCK: tl.constexpr):
    out = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    offs = tl.arange(0, BLOCK)
    tl.store(out + offs, tl.load(out + offs, mask=offs < 8) + 1, mask=offs < 8)


@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 7)), min_size=1, max_size=6))
def test_addresses_are_resolved_to_their_tensors(
    words: list[tuple[int, int]],
) -> None:
    owners = [torch.zeros(8) for _ in range(4)]
    table = torch.tensor([[owners[n].data_ptr() + 4 * at, at] for n, at in words])
    pointees = pointees_of({"table": table, "n": 5})
    assert pointees.is_known
    assert [
        (address.tensor.data_ptr(), address.offset, address.at) for address in pointees.addresses
    ] == [(owners[n].data_ptr(), 4 * at, 16 * row) for row, (n, at) in enumerate(words)]
    firsts = {n: row for row, (n, _) in reversed(list(enumerate(words)))}
    assert {name: tensor.data_ptr() for name, tensor in pointees.tensors.items()} == {
        f"table[{row}, 0]": owners[n].data_ptr() for n, row in firsts.items()
    }


def test_tables_may_contain_tables_and_arguments() -> None:
    out = torch.zeros(8)
    inner = torch.tensor([out.data_ptr()])
    outer = torch.tensor([inner.data_ptr(), out.data_ptr()])
    assert list(pointees_of({"outer": outer, "out": out}).tensors) == ["outer[0]", "outer[1]"]
    strided = torch.tensor([[1, out.data_ptr()]])[:, 1]
    (address,) = pointees_of({"strided": strided}).addresses
    assert address.at == 8


def test_tensors_may_lie_in_the_lowest_gigabytes() -> None:
    """Python programs that are not position-independent, as Debian's, have their heap there."""
    low = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_32BIT)
    out = torch.frombuffer(low, dtype=torch.float32)
    assert out.data_ptr() < 1 << 32
    table = torch.tensor([3, out.data_ptr() + 8])
    pointees = pointees_of({"table": table})
    assert pointees.is_known
    assert [(word.at, word.offset) for word in pointees.addresses] == [(8, 8)]
    assert pointees_of({"address": out.data_ptr()}).stray == ["address"]


def test_tensors_without_memory_are_at_no_address() -> None:
    meta = torch.empty(1 << 20, device="meta")
    assert meta.untyped_storage().nbytes() == 4 << 20
    assert not pointees_of({"indices": torch.arange(1 << 19), "n": 1 << 18}).addresses


def test_unknown_addresses_are_reported() -> None:
    out = torch.zeros(8)
    half = torch.tensor([out.data_ptr(), 1 << 46])
    assert pointees_of({"half": half}).stray == ["half"]
    assert pointees_of({"address": out.data_ptr()}).stray == ["address"]
    numbers = pointees_of({"numbers": torch.tensor([1 << 46]), "n": 1 << 46})
    assert (numbers.stray, numbers.is_known) == ([], False)


def test_tables_of_copies_have_the_addresses_of_the_copies() -> None:
    outs = [torch.arange(8.0), torch.ones(4)]
    table = torch.tensor([7, outs[1].data_ptr(), outs[0].data_ptr() + 8])
    serialized = pickle.loads(pickle.dumps(serialize(launch_of({"table": table}))))
    copy = deserialize(serialized)
    pointees = pointees_of(copy.arguments)
    assert [address.tensor.tolist() for address in pointees.addresses] == [
        outs[1].tolist(),
        [*range(8)],
    ]
    assert pointees.addresses[1].offset == 8
    assert copy.arguments["table"][0] == 7
    assert not {address.tensor.data_ptr() for address in pointees.addresses} & {
        t.data_ptr() for t in outs
    }


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("sanitize", [False, True])
def test_a_kernel_that_writes_through_a_table_is_tuned(workers: int, sanitize: bool) -> None:
    configs = [triton.Config({"BLOCK": block}) for block in (8, 16, 4)]
    kernel = triton.autotune(configs, key=[])(add_one_kernel)
    outs = [torch.zeros(8), torch.ones(8)]
    options = TuneOptions(workers=workers, checks=Checks(sanitize=sanitize))
    with TuningRun(options) as run:
        kernel[(2,)](torch.tensor([out.data_ptr() for out in outs]))
    (result,) = run.results
    assert [trial.status for trial in result.trials.values()] == ["ok", "ok", "wrong"]
    assert "of `table_ptr[0]` differ" in list(result.trials.values())[2].reason
    assert [out.tolist() for out in outs] == [[1.0] * 8, [2.0] * 8], "the kernel is launched once"
