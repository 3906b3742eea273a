"""Launches that are screened by a rewritten kernel instead of being followed in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from ttools.core.findings.findings import Finding
from ttools.sanitizer import sanitize
from ttools.sanitizer.accuracy.follower import Follower
from ttools.sanitizer.accuracy.memory import StorageShadow
from ttools.sanitizer.checks.accuracy import Accuracy

BF16 = torch.bfloat16


@triton.jit
def softmax(x_ptr, o_ptr, n, N: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, N)
    x = tl.load(x_ptr + row * n + i, mask=i < n, other=float("-inf"))
    y = tl.exp(x - tl.max(x, 0))
    tl.store(o_ptr + row * n + i, y / tl.sum(y, 0), mask=i < n)


@triton.jit
def normalised(x_ptr, o_ptr, n, N: tl.constexpr, PADS: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, N)
    x = tl.load(x_ptr + row * n + i, mask=i < n, other=0.0).to(tl.float32)
    mean = tl.sum(x, 0) / n
    x = x - mean
    if not PADS:
        x = tl.where(i < n, x, 0.0)
    var = tl.sum(x * x, 0) / n
    y = x * tl.rsqrt(var + 1e-5)
    tl.store(o_ptr + row * n + i, y, mask=i < n)


@triton.jit
def product(a_ptr, b_ptr, o_ptr, K, N: tl.constexpr, PRECISION: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    acc = tl.zeros([N, N], dtype=tl.float32)
    for k in range(0, K, N):
        a = tl.exp(tl.load(a_ptr + i * K + k + j))
        b = tl.load(b_ptr + (k + i) * N + j)
        acc = tl.dot(a.to(b.dtype), b, acc, input_precision=PRECISION)
    tl.store(o_ptr + i * N + j, acc)


@triton.jit
def branches(x_ptr, o_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    y = tl.sqrt(x) * 1.1
    total = tl.sum(y, 0)
    if total > 3.0:
        y = tl.maximum(y, 0.5) + tl.cumsum(x, 0)
    else:
        y = libdevice.expm1(-y)
    n = 0
    while n < 3:
        y = tl.fma(y, y, x) / (1.0 + y)
        n += 1
    z = tl.join(y, tl.log(x + 1.0)).permute(1, 0)
    tl.store(o_ptr + tl.arange(0, 2)[:, None] * N + tl.arange(0, N)[None, :], z)


@triton.jit
def accumulated(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.load(o_ptr + i) + tl.load(x_ptr + i))


@triton.jit
def largest(x_ptr, o_ptr, n_ptr, N: tl.constexpr):
    x = tl.sqrt(tl.load(x_ptr + tl.arange(0, N)))
    value, index = tl.max(x, 0, return_indices=True)
    tl.store(o_ptr, value)
    tl.store(n_ptr, index)


@triton.jit
def rounded(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, (tl.load(x_ptr + i) * 3.0e38).to(tl.int32))


@triton.jit
def compared(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + i, tl.where(x + 1.0 > 1.0, 5.0, 7.0))


@triton.jit
def cancelled(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.exp(tl.load(x_ptr + i)) - 1.0)


Launch = Callable[[], object]


def _softmax(x: torch.Tensor) -> Launch:
    return lambda: softmax[(len(x),)](x, torch.empty_like(x), x.shape[1], N=64)


def _product(dtype: torch.dtype, precision: str) -> Launch:
    a, b, out = torch.randn(16, 64), torch.randn(64, 16).to(dtype), torch.empty(16, 16)
    return lambda: product[(1,)](a, b, out, 64, N=16, PRECISION=precision)


def _normalised(dtype: torch.dtype) -> Launch:
    x = torch.randn(3, 50).to(dtype)
    return lambda: normalised[(3,)](x, torch.empty_like(x), 50, N=64, PADS=False)


def _branches(factor: float) -> Launch:
    x = factor * torch.rand(32)
    return lambda: branches[(1,)](x, torch.empty(2, 32), N=32)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: _softmax(torch.randn(3, 50)), id="softmax"),
        pytest.param(lambda: _normalised(torch.float32), id="normalised"),
        pytest.param(lambda: _normalised(BF16), id="normalised_bf16"),
        pytest.param(lambda: _product(torch.float32, "ieee"), id="product"),
        pytest.param(lambda: _product(torch.float32, "tf32"), id="product_tf32"),
        pytest.param(lambda: _product(BF16, "ieee"), id="product_bf16"),
        pytest.param(lambda: _branches(1.0), id="branch"),
        pytest.param(lambda: _branches(0.01), id="other_branch"),
    ],
)
def test_exact_values_are_those_of_a_launch_that_is_followed(
    make: Callable[[], Launch], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    launch = make()
    ((shadow, exact),) = _screened(launch, monkeypatch, is_clean=False)
    own = exact[shadow.elements]
    assert shadow.count
    assert np.isfinite(own).all()
    difference = np.abs(own - shadow.exact[: shadow.count])
    assert (difference <= 2.0**-40 * np.abs(own).max()).all()
    assert np.isnan(np.delete(exact, shadow.elements)).all()


def _screened(
    launch: Launch, monkeypatch: pytest.MonkeyPatch, *, is_clean: bool
) -> list[tuple[StorageShadow, Any]]:
    """Return the outputs' shadows and exact values, which the kernel has computed.

    Args:
        launch: The launches.
        monkeypatch: Fixture of pytest.
        is_clean: If False, the launch is followed, too.
    """
    found: list[tuple[StorageShadow, Any]] = []
    own = Accuracy._is_clean

    def recorded(self: Accuracy, number: int) -> bool:
        assert self._screening is not None
        pairs = [(tracked.shadow, tracked.exact.copy()) for tracked in self._screening._storages]
        found.extend(pairs)
        if is_clean:
            self._screening.flags[:] = 0
            return own(self, number)
        self._screening.drop()
        self._screening.flags[:] = 1
        return False

    monkeypatch.setattr(Accuracy, "_is_clean", recorded)
    with sanitize(checks="accuracy"):
        launch()
    return found


def _second(first: Launch, second: Launch) -> list[Finding]:
    """Return the findings of the second of two launches; the first one must be clean."""
    with sanitize(checks="accuracy") as report:
        first()
        assert report.findings == []
        second()
    return [f for f in report.findings if f.kind != "within_rounding"]


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each operation that is followed is added."""
    names: list[str] = []
    operation = Follower.operation

    def counted(self: Follower, name: str, arguments: Any, result: Any) -> None:
        names.append(name)
        operation(self, name, arguments, result)

    monkeypatch.setattr(Follower, "operation", counted)
    return names


def test_a_clean_launch_is_followed_once(followed: list[str]) -> None:
    launch = _softmax(torch.randn(20, 50))
    with sanitize(checks="accuracy") as report:
        launch()
        once = len(followed)
        launch()
    assert once
    assert len(followed) == once
    (note,) = report.findings
    assert "of 2,000 stored elements are as accurate" in note.notes[0]
    assert note.notes[-1] == "all programs were screened; 8 of 20 programs were followed"


def test_a_launch_is_screened_under_all_checks(followed: list[str]) -> None:
    launch = _softmax(torch.randn(20, 50))
    with sanitize(checks="all,accuracy") as report:
        launch()
        once = len(followed)
        launch()
    assert once
    assert len(followed) == once
    assert [finding.kind for finding in report.findings] == ["within_rounding"]


def test_figures_of_large_outputs_are_those_of_some_elements() -> None:
    with sanitize(checks="accuracy") as report:
        _softmax(torch.randn(300, 50))()
    (note,) = report.findings
    assert "of 3,000 stored elements are as accurate" in note.notes[0]
    assert note.notes[-1] == "the figures are those of 1 in 5 elements"


@triton.jit
def sensitive(x_ptr, y_ptr, o_ptr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    z = tl.where(y > 0, tl.minimum(tl.exp(y) - 1.0, 10.0), y)
    total = tl.sum(x * x * x, 0) + 0.5 * tl.max(x, 0) - tl.sqrt(tl.sum(x * x, 0))
    tl.store(o_ptr + 2 * tl.program_id(0), total)
    tl.store(o_ptr + 2 * tl.program_id(0) + 1, tl.max(z, 0))


def test_a_sensitive_output_is_not_followed_again(followed: list[str]) -> None:
    torch.manual_seed(0)
    x, y, out = torch.randn(1000, 16), torch.ones(1000, 16), torch.zeros(1000, 2)

    def launch() -> None:
        sensitive[(1000,)](x, y, out, N=16)

    with sanitize(checks="accuracy") as report:
        launch()
        once = len(followed)
        launch()
        assert len(followed) == once
        assert report.findings == []
        y[-3:] = 1e-7
        launch()
        assert (
            len(followed) == once * 11 // 8
        )  # these three programs in addition to the first eight
    assert [f.kind for f in report.findings if f.severity != "note"] == ["cancellation"]


def _argmax(values: list[float]) -> Launch:
    x, out, index = torch.tensor(values), torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    return lambda: largest[(1,)](x, out, index, N=4)


def _rounded(value: float) -> Launch:
    x, out = torch.full((4,), value), torch.zeros(4, dtype=torch.int32)
    return lambda: rounded[(1,)](x, out, N=4)


def _compared(value: float) -> Launch:
    x, out = torch.full((4,), value), torch.zeros(4)
    return lambda: compared[(1,)](x, out, N=4)


def _cancelled(value: float) -> Launch:
    x, out = torch.full((4,), value), torch.zeros(4)
    return lambda: cancelled[(1,)](x, out, N=4)


def _padded(mean: float) -> Launch:
    x = torch.randn(2, 50)
    x += mean - x.mean(1, keepdim=True)
    return lambda: normalised[(2,)](x, torch.empty_like(x), 50, N=64, PADS=True)


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("decision", lambda: _compared(1.0), lambda: _compared(1e-10)),
        ("decision", lambda: _argmax([1.0, 2.0, 3.0, 4.0]), lambda: _argmax([1, 2, 4, 4.0000005])),
        ("overflow", lambda: _rounded(1e-38), lambda: _rounded(3.0)),
        ("cancellation", lambda: _cancelled(1.0), lambda: _cancelled(1e-7)),
        ("padded_lanes", lambda: _padded(0.0), lambda: _padded(4.0)),
    ],
)
def test_a_later_launch_with_a_defect_is_followed(
    kind: str, first: Callable[[], Launch], second: Callable[[], Launch]
) -> None:
    torch.manual_seed(0)
    findings = _second(first(), second())
    assert [finding.kind for finding in findings] == [kind]


def test_errors_add_up_over_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = torch.full((4,), 0.1), torch.zeros(4)

    def launches() -> None:
        for _ in range(3):
            accumulated[(1,)](x, out, N=4)
        out[:2] = 1.0  # these elements are inputs now
        accumulated[(1,)](x, out, N=4)

    _, exact = _screened(launches, monkeypatch, is_clean=True)[-1]
    step = float(x[0])
    assert exact.tolist() == pytest.approx([1 + step] * 2 + [4 * step] * 2, rel=1e-15)
