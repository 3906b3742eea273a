"""Storages that one kernel puts back: the bytes of each, whatever their sizes."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.sanitizer.memory.launch_state import _copy, _together


@settings(max_examples=30)
@given(st.lists(st.integers(0, 40), max_size=12))
def test_all_bytes_are_put_back_few_or_many_together(sizes: list[int]) -> None:
    # What is on a GPU is put back so; here as many storages of the CPU.
    storages = [torch.randint(0, 256, (size,), dtype=torch.uint8) for size in sizes]
    before = [storage.clone() for storage in storages]
    pairs = _together([storage.clone() for storage in storages], storages)
    assert len(pairs) <= 2, "by eight bytes at a time, and by one"
    for _ in range(2):
        for storage in storages:
            storage.zero_()
        for targets, sources in pairs:
            _copy(targets, sources)
        assert all(torch.equal(*both) for both in zip(storages, before, strict=True))
