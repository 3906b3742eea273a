"""Checks of a later launch read the kernel as Triton generated it, not as an emission changed it.

The first launch compiles the kernel without changes by the checks. The emission then contracts the
products and sums of floats to `math.fma`, which moves the positions of the operations after them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from ttools.ir.parser import parse_module
from ttools.sanitizer import sanitize
from ttools.sanitizer.analysis.kernel_facts import KernelFacts


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
