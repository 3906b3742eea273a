"""Cached regions of arguments agree with a new computation."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ttools.core.spec import CompileOptions
from ttools.interpreter.abi.arguments import ArgumentPlan
from ttools.interpreter.abi.module import MemoryEffects
from ttools.interpreter.abi.region import NOWHERE, region_of
from ttools.interpreter.run import address_book
from ttools.interpreter.run.address_book import AddressBook
from ttools.interpreter.run.kernel_launch import ExecutableKernel, KernelLaunch
from ttools.sanitizer.memory.regions import RegionCache


def observed(arguments: list[Any], types: list[str]) -> KernelLaunch:
    """Return a launch with the arguments, whose other properties do not matter."""
    plan = ArgumentPlan([f"a{n}" for n in range(len(types))], types)
    effects = MemoryEffects(frozenset(), synchronises=False, unknown_writes=False)
    variants: Any = SimpleNamespace(effects=effects, parameters=())
    kernel = ExecutableKernel(name="k", plan=plan, variants=variants, options=CompileOptions())
    return KernelLaunch(kernel, (1,), arguments, None)


def _same(x, y):
    pass


def _resized(x, y):
    x.resize_(3)


def _restrided(x, y):
    x.as_strided_((4, 2), (3, 1))


def _moved(x, y):
    x.set_(x.untyped_storage(), 2, (4,), (1,))


def _elsewhere(x, y):
    x.data = y


def _shrunk(x, y):
    x.untyped_storage().resize_(20)


def _grown(x, y):
    x.untyped_storage().resize_(200)


@pytest.mark.parametrize(
    "change", [_same, _resized, _restrided, _moved, _elsewhere, _shrunk, _grown]
)
def test_a_change_of_a_tensor_is_seen(change):
    x, y = torch.zeros(12), torch.zeros(5)
    launch = observed([x, 7, y], ["*fp32", "i32", "*fp32"])
    computed = []

    def find(index):
        computed.append(index)
        return region_of(launch.arguments[index], launch.values[index])

    cache = RegionCache()
    first = cache.regions(launch, find)
    change(x, y)
    launch = observed([x, 9, y], ["*fp32", "i32", "*fp32"])
    again = cache.regions(launch, find)
    assert launch.raw_parameters == [x.data_ptr(), 9, y.data_ptr()]
    assert list(again) == [region_of(x, x), NOWHERE, region_of(y, y)]
    assert (again is first) == (change is _same) == (computed == [0, 2])


@pytest.mark.parametrize(("places", "looked_up"), [(3, 3), (300, 600)])
def test_a_few_addresses_per_argument_are_cached(places, looked_up):
    tensors = [torch.zeros(n + 1) for n in range(places)]
    cache, computed = RegionCache(), []

    def find(index):
        computed.append(index)
        return region_of(*launch.arguments, *launch.values)

    for x in tensors * 2:
        launch = observed([x], ["*fp32"])
        assert cache.regions(launch, find) == [region_of(x, x)]
        assert launch.raw_parameters == [x.data_ptr()]
    assert len(computed) == looked_up


def test_addresses_without_a_tensor_are_not_cached():
    launch = observed([4096], ["*fp32"])
    computed = []
    cache = RegionCache()
    for _ in range(2):
        cache.regions(launch, lambda index: computed.append(index) or NOWHERE)
    assert computed == [0, 0]


def test_the_address_book_has_live_and_freed_storages():
    book = AddressBook()
    with book.watching():
        kept, gone = torch.zeros(300), torch.zeros(700)
        start, end = kept.data_ptr(), gone.data_ptr()
        assert sorted(book.live()) == sorted([(start, start + 1200), (end, end + 2800)])
        assert book.freed(end) is None
        del gone
        assert book.live() == [(start, start + 1200)]
        assert book.freed(end + 2796) == "a tensor of 2,800 bytes"
        assert book.freed(start) is None
        # The memory of this freed storage belongs to another tensor now.
        shadowing = torch.frombuffer((ctypes.c_char * 40).from_address(end), dtype=torch.uint8)
        shadowing.data_ptr()
        assert book.freed(end + 8) is None
        assert book.freed(end + 40) == "a tensor of 2,800 bytes"


def test_the_address_book_forgets_old_freed_storages(monkeypatch):
    monkeypatch.setattr(address_book, "_MOST_FREED", 8)
    book = AddressBook()
    kept = [torch.zeros(1) for _ in range(20)]
    for tensor in kept:
        book.note(tensor)
    assert len(book.live()) == 20
    del tensor
    for n in range(200):
        book.note(torch.zeros(n + 1))
    assert len(book._known) <= 2 * (20 + 1)  # and the storage that was added last
    assert len(book.live()) == 20
