"""Atomics of a scope narrower than the launch: they exclude nobody outside their own program."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize


@triton.jit
def count_kernel(counter_ptr, SCOPE: tl.constexpr):
    tl.atomic_add(counter_ptr, 1, sem="relaxed", scope=SCOPE)


@pytest.mark.parametrize(
    ("scope", "programs", "kinds"),
    [("cta", 4, ["race"]), ("cta", 1, []), ("gpu", 4, []), ("sys", 4, [])],
)
def test_atomics_of_programs_exclude_each_other_in_a_common_scope(
    scope: str, programs: int, kinds: list[str]
) -> None:
    counter = torch.zeros(1, dtype=torch.int32)
    with sanitize() as report:
        count_kernel[(programs,)](counter, SCOPE=scope)
    assert [finding.kind for finding in report.findings] == kinds
    assert all("scope" in (finding.help or "") for finding in report.findings)
    assert counter.item() == programs
