"""Findings in configurations that pruning would not leave for a launch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.findings.findings import Finding
from ttools.sanitizer import sanitize

CONFIGS = [triton.Config({"B": block}) for block in (64, 16)]


def divides(configs: list[Any], arguments: dict[str, Any], **_: Any) -> list[Any]:
    return [config for config in configs if arguments["M"] % config.kwargs["B"] == 0]


@triton.jit
def double(x_ptr, y_ptr, M, N, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y_ptr + i, 2 * tl.load(x_ptr + i))


@triton.jit
def shift(x_ptr, y_ptr, M, N, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y_ptr + i, 2 * tl.load(x_ptr + i + 1))


def findings(function: Any, key: list[str], *, prunes: bool = True) -> list[Finding]:
    pruning = {"early_config_prune": divides} if prunes else None
    kernel = triton.autotune(CONFIGS, key=key, prune_configs_by=pruning)(function)
    with sanitize(checks="memcheck") as report:
        for size in (128, 48):
            x, y = torch.rand(size), torch.empty(size)
            kernel[lambda c, size=size: (triton.cdiv(size, c["B"]),)](x, y, size, 7)
    return [finding for finding in report.findings if finding.kind.startswith("oob")]


def test_a_configuration_that_was_chosen_for_another_size() -> None:
    load, store = findings(double, ["N"])
    assert (load.kind, store.kind) == ("oob_load", "oob_store")
    for finding in (load, store):
        assert finding.config is not None
        assert finding.config["B"] == 64
        assert finding.notes[0].startswith(
            "pruning does not leave this configuration for this launch; it was chosen for an "
            "earlier one with "
        )
        assert "M = 128" in finding.notes[0]
        assert 'not in key=["N"]' in finding.notes[0]
        assert finding.help == 'pass `key=["N", "M"]` to triton.autotune'


def test_a_key_with_the_size() -> None:
    assert not findings(double, ["M", "N"])


@pytest.mark.parametrize(("key", "prunes"), [(["M", "N"], True), (["N"], False)])
def test_other_defects_are_not_attributed_to_the_key(key: list[str], prunes: bool) -> None:
    some = findings(shift, key, prunes=prunes)
    assert some
    texts = [text for finding in some for text in (*finding.notes, finding.help or "")]
    assert not any("key=" in text for text in texts)
