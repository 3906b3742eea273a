"""Launches at the sizes of findings, which confirm or refute them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from tests.prove import kernels

from ttools.core.reports.registry import write_report
from ttools.prove import prove
from ttools.prove.trace.check import check_launches
from ttools.prove.trace.inference import infer_template
from ttools.prove.trace.launches import ScriptTrace
from ttools.prove.trace.random_tensors import NoSuchNumbersError, RandomTensors


@triton.jit
def past_end_kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0.0), mask=i < n + n // 100)


@triton.jit
def lookup_kernel(index_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + i, mask=i < n, other=0)
    tl.store(o_ptr + index, 1.0, mask=(i < n) & (index >= 0))


def past_end(n: int) -> None:
    x = torch.zeros(n)
    past_end_kernel[(triton.cdiv(n, 64),)](x, torch.empty_like(x), n, BLOCK=64)


def test_a_launch_at_the_least_size_confirms_the_finding() -> None:
    result = prove(past_end, n=range(1, 1 << 20))
    (finding,) = result.findings
    assert (finding.sizes, finding.witness) == ({"n": 100}, "confirmed")
    assert "a launch at this size reproduces the defect" in str(result)
    # The launch explains the defect: the condition that admits the lane, and its values.
    assert "`i < n + n // 100`" in str(finding.help)
    assert {"i": "100", "n": "100"}.items() <= dict(finding.variables).items()
    (data,) = json.loads(write_report(result.report, "json"))["findings"]
    assert data["witness"] == "confirmed"


@pytest.mark.parametrize(
    "run",
    [
        *(kernels.padded, kernels.odd_pairs, kernels.shift, kernels.two_ways_to_store),
        pytest.param(kernels.capped, marks=pytest.mark.slow),
    ],
    ids=lambda run: str(run.__name__),
)
def test_small_findings_of_each_kind_are_confirmed(run: Callable[..., None]) -> None:
    sizes: dict[str, Any] = dict.fromkeys(inspect.signature(run).parameters, range(1, 1 << 14))
    findings = prove(run, **sizes).findings
    assert findings
    assert {finding.witness for finding in findings} == {"confirmed"}


def test_launches_that_are_too_large_are_not_run() -> None:
    (finding,) = prove(kernels.copy, n=range(1, 1 << 33)).findings
    assert finding.witness == "too large"
    assert finding.notes[-1] == (
        "no launch was made at n = 2,147,483,649, because its tensors take 4,294,967,298 bytes"
    )


def test_errors_of_a_launch_are_reported() -> None:
    def run(n: int) -> None:
        past_end(n)
        if type(torch.zeros(n)) is torch.Tensor:  # a tensor with memory
            raise RuntimeError("no such device")

    (finding,) = prove(run, n=range(100, 101)).findings
    assert finding.witness == "not made"
    assert finding.notes[-1] == "no launch could be made at n = 100: RuntimeError: no such device"


def test_a_launch_stopped_by_the_time_limit_is_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ttools.prove.witness._SECONDS", 1e-6)
    (finding,) = prove(past_end, n=range(100, 101)).findings
    assert finding.witness == "not made"
    assert finding.notes[-1] == "a launch at n = 100 did not finish within 1e-06 seconds"


def _looked_up(index: torch.Tensor) -> ScriptTrace:
    trace = ScriptTrace()
    arguments = (index, torch.zeros(len(index)), len(index))
    trace.record(lookup_kernel, arguments, {"BLOCK": 64, "grid": (triton.cdiv(len(index), 64),)})
    return trace


def test_launches_of_a_script_are_run_at_other_sizes() -> None:
    x = torch.zeros(300)
    trace = ScriptTrace()
    trace.record(past_end_kernel, (x, torch.empty_like(x), 300), {"BLOCK": 64, "grid": (5,)})
    findings = {f.kind: f for f in check_launches(trace).findings}
    assert (findings["oob_store"].sizes, findings["oob_store"].witness) == ({"n": 100}, "confirmed")
    assert findings["int_overflow"].witness == "too large"


def test_tables_of_a_script_are_tried_at_their_assumed_ends() -> None:
    result = check_launches(_looked_up(torch.arange(200)), assume={"index_ptr": (0, "n")})
    (finding,) = (f for f in result.findings if f.kind == "oob_store")
    assert finding.sizes == {"n": 1}
    assert finding.witness == "confirmed"


@pytest.mark.parametrize("words", [(), ("distinct",), ("sorted",), ("distinct", "sorted")])
def test_random_tensors_satisfy_the_assumptions(words: tuple[str, ...]) -> None:
    (launch,) = _looked_up(torch.arange(200)).launches
    template = infer_template(launch, {})
    (name,) = template.sizes
    tensors = RandomTensors(template, {"index_ptr": (0, f"2*{name}", *words)})
    for size in (1, 7, 300):
        content = tensors._content(launch.tensors["index_ptr"], size, {name: size})
        assert int(content.min()) >= 0
        assert int(content.max()) <= 2 * size
        assert "distinct" not in words or len(content.unique()) == size
        assert "sorted" not in words or content.tolist() == sorted(content.tolist())
    if "distinct" in words:
        with pytest.raises(NoSuchNumbersError):
            tensors._content(launch.tensors["index_ptr"], 22, {name: 10})
