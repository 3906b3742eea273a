"""Autotuned kernels that modify their inputs, which a tuner's repeated launches modify again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.findings.findings import Finding
from ttools.sanitizer import not_restored, sanitize

CONFIGS = [triton.Config({"B": 16}), triton.Config({"B": 32})]


def scale(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0.0) * 2, mask=i < n)


def add_up(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(o_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0)))


def clip(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + i, tl.maximum(tl.load(x_ptr + i, mask=i < n, other=0.0), 0.5), mask=i < n)


def through_scratch(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0.0), mask=i < n)
    tl.store(o_ptr + i, tl.load(o_ptr + i, mask=i < n, other=0.0) + 1, mask=i < n)


def changed(
    function: Any,
    *,
    in_place: bool = False,
    configs: Any = CONFIGS,
    all_configs: bool = False,
    **how: Any,
) -> list[Finding]:
    """Return the findings of two launches of a function that is autotuned with options."""
    kernel = triton.autotune(configs=configs, key=["n"], **how)(triton.jit(function))
    x = torch.ones(40)
    o = x if in_place else torch.zeros(40)
    with sanitize(all_configs=all_configs) as report:
        for _ in range(2):
            kernel[lambda c: (triton.cdiv(40, c["B"]),)](x, o, 40)
    if function is scale:
        assert (o == (4 if in_place else 2)).all()  # launches for the comparison are undone
    return [finding for finding in report.findings if finding.severity != "note"]


def test_memory_of_checks_lives_through_the_second_execution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keep the shadow memory until the end, because native code has its address."""
    execute_again, alive = not_restored._changed_again, []

    def observed(checked: Any, restored: frozenset[str]) -> list[int]:
        alive.append((bool(checked._hidden), bool(checked.memory_owners)))
        return execute_again(checked, restored)

    monkeypatch.setattr(not_restored, "_changed_again", observed)
    kernel = triton.autotune(configs=CONFIGS, key=["n"])(triton.jit(scale))
    with sanitize(checks="initcheck"):
        x = torch.empty(64)
        x[:20] = 1
        kernel[lambda c: (triton.cdiv(20, c["B"]),)](x, x, 20)
    assert alive == [(True, True)]


def test_a_tensor_that_is_scaled_in_place() -> None:
    (finding,) = changed(scale, in_place=True)
    assert (finding.kind, finding.severity) == ("not_restored", "warning")
    assert finding.argument is not None
    assert finding.argument.name == "o_ptr"
    assert finding.location is not None
    assert "launches many times to time 2 configurations" in finding.message
    assert finding.help == 'pass `restore_value=["o_ptr"]` to triton.autotune'


def test_sums_that_are_added_to() -> None:
    (finding,) = changed(add_up)
    assert finding.kind == "not_restored"
    assert finding.help == 'pass `restore_value=["o_ptr"]` to triton.autotune'


def test_the_advice_keeps_what_the_autotuner_restores_already() -> None:
    kernel = triton.autotune(CONFIGS, key=["n"], restore_value=["x_ptr"])(triton.jit(add_up))
    with sanitize() as report:
        o = torch.ones(1)
        kernel[lambda c: (triton.cdiv(40, c["B"]),)](torch.ones(40), o, 40)
    (finding,) = [finding for finding in report.findings if finding.kind == "not_restored"]
    assert finding.help == 'pass `restore_value=["x_ptr", "o_ptr"]` to triton.autotune'


def test_one_finding_if_all_configurations_run() -> None:
    (finding,) = changed(scale, in_place=True, all_configs=True)
    assert finding.kind == "not_restored"


@pytest.mark.parametrize(
    ("function", "how"),
    [
        (scale, {}),
        (scale, {"in_place": True, "restore_value": ["x_ptr"]}),
        (scale, {"in_place": True, "configs": CONFIGS[:1]}),
        (add_up, {"reset_to_zero": ["o_ptr"]}),
        (add_up, {"pre_hook": lambda arguments, **_: arguments["o_ptr"].zero_()}),
        (clip, {"in_place": True}),
        (through_scratch, {}),
    ],
    ids=["apart", "restored", "one", "reset", "hook", "twice-as-once", "scratch"],
)
def test_restored_or_unmodified_memory_is_not_reported(function: Any, how: dict[str, Any]) -> None:
    assert changed(function, **how) == []
