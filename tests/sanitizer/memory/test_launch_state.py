"""One kernel restores several storages of any size."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.sanitizer.memory.launch_state import _copy, _together


@settings(max_examples=30)
@given(st.lists(st.integers(0, 40), max_size=12))
def test_all_bytes_are_restored(sizes: list[int]) -> None:
    # On a GPU, one kernel restores all storages; here they are on the CPU.
    storages = [torch.randint(0, 256, (size,), dtype=torch.uint8) for size in sizes]
    before = [storage.clone() for storage in storages]
    pairs = _together([storage.clone() for storage in storages], storages)
    assert len(pairs) <= 2, "copies by eight bytes and by single bytes"
    for _ in range(2):
        for storage in storages:
            storage.zero_()
        for targets, sources in pairs:
            _copy(targets, sources)
        assert all(torch.equal(*both) for both in zip(storages, before, strict=True))
