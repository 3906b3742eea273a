"""Launches of a kernel that was launched before.

The checks of a later launch read the kernel as Triton generated it, not as an emission changed it:
the first launch compiles the kernel without changes by the checks, and the emission contracts the
products and sums of floats to `math.fma`, which moves the positions of the operations after them.

A launch that equals an earlier one without findings follows its plan (`launch.checked.Plan`). Its
findings are the same as without plans, whatever has changed in between.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.ir.parser import parse_module
from ttools.sanitizer import sanitize
from ttools.sanitizer.analysis.kernel_facts import KernelFacts
from ttools.sanitizer.checks.memcheck import Memcheck
from ttools.sanitizer.checks.overflow import Overflow
from ttools.sanitizer.launch.checked import CheckedLaunch


@triton.jit
def contracted(x_ptr, o_ptr, stride, split, B: tl.constexpr):
    lanes = tl.arange(0, B)
    x = tl.load(x_ptr + lanes)
    first = x * x - x * 2.0
    second = first * x + x * 3.0
    at = tl.program_id(0) * stride + (lanes // split) * stride + lanes % split
    tl.store(o_ptr + at, first * second + x)


@pytest.fixture(autouse=True)
def _no_cached_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Make each test compile, because a kernel from the cache is not emitted."""
    monkeypatch.setenv("TTOOLS_CACHE_DIR", str(tmp_path))
    contracted.device_caches.clear()


def findings_of(*strides: int) -> list[tuple[str, int, str]]:
    with sanitize() as report:
        for stride in strides:
            contracted[(3,)](torch.rand(16), torch.zeros(96), stride, 16, B=16)
    return [
        (finding.kind, finding.location.line if finding.location else 0, finding.message)
        for finding in report.findings
    ]


def test_an_overflow_is_found_at_the_same_place_after_another_launch() -> None:
    alone = findings_of(1 << 30)
    assert "int_overflow" in [kind for kind, _, _ in alone]
    contracted.device_caches.clear()
    assert findings_of(32, 1 << 30) == alone


@pytest.mark.parametrize("strides", [(32,), (32, 1 << 30)])
def test_emission_does_not_change_what_the_checks_read(
    strides: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels: list[KernelFacts] = []
    make = KernelFacts.__init__

    def collect(self: KernelFacts, variants: object) -> None:
        make(self, variants)  # type: ignore[arg-type]
        kernels.append(self)

    monkeypatch.setattr(KernelFacts, "__init__", collect)
    findings_of(*strides)
    assert kernels
    for kernel in kernels:
        generated = parse_module(kernel.ttir).kernel.walk()
        assert [op.name for op in kernel.module.kernel.walk()] == [op.name for op in generated]


@triton.jit
def moved(o_ptr, x_ptr, to_ptr, n, B: tl.constexpr):
    lanes = tl.program_id(0) * B + tl.arange(0, B)
    inside = lanes < n
    to = tl.load(to_ptr + lanes, mask=inside, other=0)
    x = tl.load(x_ptr + lanes, mask=inside, other=0.0)
    tl.store(o_ptr + to, x, mask=inside)


class Arguments:
    """The arguments of `moved`, which a change modifies after launches without findings."""

    def __init__(self) -> None:
        self.rows = torch.zeros(4, 16)
        self.x, self.to = torch.ones(16), torch.arange(16, dtype=torch.int32)
        self.out: Any = self.rows[0]
        self.n, self.programs = 16, 1

    def launch(self) -> None:
        moved[(self.programs,)](self.out, self.x, self.to, self.n, B=16)


def enlarge_number(own: Arguments) -> None:
    own.n, own.programs = 32, 2


def add_programs(own: Arguments) -> None:
    own.n = 1 << 20
    own.launch()  # the first program is in bounds for any number, so this launch has no findings
    own.programs = 2


def shorten_view(own: Arguments) -> None:
    own.out = own.out[:8]  # has the same address


def pass_column(own: Arguments) -> None:
    own.out = own.rows[:, 0]


def pass_copy(own: Arguments) -> None:
    own.out = torch.zeros(8)


def share_memory(own: Arguments) -> None:
    own.x = own.out
    own.to = own.to.flip(0)


def leave_tensor(own: Arguments) -> None:
    own.to[3] = 100


def repeat_index(own: Arguments) -> None:
    own.to[3] = 4


def copy_unwritten(own: Arguments) -> None:
    own.x.copy_(torch.empty(16))


def pass_unwritten(own: Arguments) -> None:
    own.x = torch.empty(16)


def change_nothing(own: Arguments) -> None:
    pass


CHANGES: dict[Any, set[str]] = {
    enlarge_number: {"oob_load"},
    add_programs: {"oob_load"},
    shorten_view: {"view_oob"},
    pass_column: {"view_oob"},
    pass_copy: {"oob_store"},
    share_memory: {"intra_program_race"},
    leave_tensor: {"oob_store"},
    repeat_index: {"overlapping_store"},
    copy_unwritten: {"uninit_read"},
    pass_unwritten: {"uninit_read"},
    change_nothing: set(),
}


def findings_after(change: Callable[[Arguments], None]) -> list[tuple[str, str, int, int]]:
    """Return the findings of launches before and after a change, and again before it."""
    with sanitize() as report:
        own = Arguments()
        for _ in range(3):
            own.launch()
        assert not report.findings
        change(own)
        own.launch()
        own.launch()
        Arguments().launch()
    return [(f.kind, str(f.location), f.count, f.programs) for f in report.findings]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_after_equal_launches_is_found(
    change: Callable[[Arguments], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = findings_after(change)
    assert CHANGES[change] <= {kind for kind, *_ in found}
    assert bool(found) == bool(CHANGES[change])
    monkeypatch.setattr(CheckedLaunch, "plan", None)
    assert findings_after(change) == found


def test_an_equal_launch_is_not_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    for check, hook in ((Memcheck, "remarks"), (Overflow, "passes")):
        original = getattr(check, hook)

        def counting(self: Any, original: Any = original, hook: str = hook) -> Any:
            called.append(hook)
            return original(self)

        monkeypatch.setattr(check, hook, counting)
    with sanitize() as report:
        own = Arguments()
        for _ in range(4):
            own.launch()
        assert sorted(called) == ["passes", "remarks"]
        own.to[3] = 100  # the remarks are complete if the launch has findings
        own.launch()
        assert sorted(called) == ["passes", "remarks", "remarks"]
        own.n = 3
        own.launch()
        assert sorted(called) == ["passes", "passes", "remarks", "remarks", "remarks"]
    assert [finding.kind for finding in report.findings] == ["oob_store"]
