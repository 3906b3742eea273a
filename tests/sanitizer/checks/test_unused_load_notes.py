"""Notes on unused loads, which Triton removes, so that no check sees them."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize


@triton.jit
def peeks(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.load(x_ptr + BLOCK + offs)
    tl.store(y_ptr + offs, x)


@triton.jit
def peeks_with_a_reason(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.load(x_ptr + offs)  # ttools: ignore[unused_load] warms the cache on another backend
    tl.store(y_ptr + offs, offs)


def test_an_unused_load_is_a_note_even_if_out_of_bounds() -> None:
    x, y = torch.zeros(16), torch.empty(16)
    with sanitize() as report:
        for _ in range(3):
            peeks[(2,)](x, y, BLOCK=16)
    (note,) = [finding for finding in report.findings if finding.kind == "unused_load"]
    assert note.location is not None
    assert (note.severity, note.check, note.count) == ("note", "memcheck", 0)
    assert "tl.load(x_ptr + BLOCK + offs)\n" in report.to("text")
    assert "times" not in report.to("text")
    report.raise_for_failures("warning")


def test_other_checks_do_not_report_it() -> None:
    with sanitize(checks="initcheck,overflow,hints") as report:
        peeks[(1,)](torch.zeros(16), torch.empty(16), BLOCK=16)
    assert report.findings == []


def test_it_can_be_suppressed() -> None:
    with sanitize() as report:
        peeks_with_a_reason[(1,)](torch.zeros(16), torch.empty(16, dtype=torch.int32), BLOCK=16)
    assert report.findings == []
    assert [finding.finding.kind for finding in report.report().suppressed] == ["unused_load"]


@triton.jit
def spins(flag_ptr, y_ptr, ATOMIC: tl.constexpr):
    if ATOMIC:
        while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:
            pass
    else:
        while tl.load(flag_ptr) == 0:
            pass
    tl.store(y_ptr, 1)


def test_a_removed_wait_is_reported_as_such() -> None:
    for atomic in (False, True):
        with sanitize() as report:
            spins[(1,)](torch.ones(1, dtype=torch.int32), torch.zeros(1), ATOMIC=atomic)
        reported = [(f.kind, f.severity, f.message.split(":")[0]) for f in report.findings]
        assert reported == ([] if atomic else [("unused_load", "note", "this loop does not wait")])
        assert all("atomic" in (f.help or "") for f in report.findings)
