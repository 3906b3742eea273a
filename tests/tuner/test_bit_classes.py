"""Classes of configurations with equal bits: prediction, choice, store, lock and reports."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import ttools.tuner
from ttools.core.errors import UsageError
from ttools.tuner import TuneOptions, TuningRun
from ttools.tuner.measure import bit_classes
from ttools.tuner.measure.reproducible import BitClasses
from ttools.tuner.report.html import write_page
from ttools.tuner.store.bit_equality import bit_class_summary, timed_classes
from ttools.tuner.store.lock import LockedBits, read_lock
from ttools.tuner.store.store import TuningEntry, TuningStore

HERE = TuneOptions(workers=0)
#: The first, second and fourth configuration add in the same order, the third in another order.
CONFIGS = [
    triton.Config({"BLOCK": 128}, num_warps=1),
    triton.Config({"BLOCK": 128}, num_warps=1, num_stages=2),
    triton.Config({"BLOCK": 128}, num_warps=4),
    triton.Config({"BLOCK": 128}, num_warps=1, num_stages=4),
]


@triton.jit
def sum_rows(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + offs, mask=offs < n, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x, 0))


@triton.jit
def add_rows(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + offs, mask=offs < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(x, 0))


def tuned(
    options: TuneOptions, kernel: Any = sum_rows, configs: Sequence[Any] = CONFIGS, **run: Any
) -> TuningRun:
    decorated = triton.autotune(list(configs), key=["n"], reset_to_zero=["out_ptr"])(kernel)
    torch.manual_seed(0)
    x, out = torch.randn(3, 100), torch.zeros(3)
    with TuningRun(options, **run) as active:
        decorated[(3,)](out, x, 100)
    if kernel is sum_rows:
        torch.testing.assert_close(out, x.sum(1))
    return active


def test_only_configurations_equal_to_the_first_compete(tmp_path: Path) -> None:
    store, lock = tmp_path / "store.sqlite", tmp_path / "lock.json"
    run = tuned(replace(HERE, reproducible="first"), store=store, lock=lock)
    (result,) = run.results
    assert (result.space, len(result.trials)) == (3, 3)
    assert {trial.values["num_warps"] for trial in result.trials.values()} == {1}
    classes = result.bit_classes
    assert classes is not None
    assert (classes.target, len(classes.same_as), classes.unknown) == ("sm_90", 4, {})
    text = bit_class_summary(result.entry())
    assert text == (
        "bit-equal to the fastest: 3 of 4 configurations on sm_90; no other configuration was timed"
    )
    locked = read_lock(lock)
    (bits,) = locked.bits.values()
    first = {"BLOCK": 128, "num_ctas": 1, "num_stages": 3, "num_warps": 1}
    assert bits == LockedBits("sm_90", first, 3)


def test_the_store_keeps_the_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.sqlite"
    tuned(replace(HERE, reproducible="classes"), store=path)
    store = TuningStore(path)
    (entry,) = store.entries()
    store.close()
    assert [(one.configurations, one.first["num_warps"]) for one in timed_classes(entry)] in (
        [(3, 1), (1, 4)],
        [(1, 4), (3, 1)],
    )
    assert "longer" in bit_class_summary(entry)
    page = write_page([entry])
    assert "Classes of equal bits" in page
    rows = re.findall(r"<tr><td><code>([^<]*)</code></td><td class=.number.>(\d)</td>", page)
    assert sorted(rows, key=lambda row: row[1]) == [
        ("BLOCK=128, num_ctas=1, num_stages=3, num_warps=4", "1"),
        ("BLOCK=128, num_ctas=1, num_stages=3, num_warps=1", "3"),
    ]

    def fail(*arguments: object) -> None:
        raise AssertionError("the classes are in the store")

    monkeypatch.setattr(bit_classes, "bit_classes", fail)
    run = tuned(replace(HERE, reproducible="num_warps=4"), store=path)
    assert [trial.values["num_warps"] for trial in run.results[0].trials.values()] == [4]


def test_configurations_that_depend_on_the_order_of_programs_are_alone() -> None:
    run = tuned(replace(HERE, reproducible="first"), kernel=add_rows)
    (result,) = run.results
    assert len(result.trials) == 1
    assert any(
        note.endswith("its bits depend on the order of programs") for note in result.notes
    ), result.notes


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("BLOCK", "reproducible=BLOCK: must be first, classes, or values of a configuration"),
        ("BLOCK=64", "no configuration has BLOCK=64"),
        ("BLOCK=128", "4 configurations have BLOCK=128, which are not all bit-equal on sm_90"),
    ],
)
def test_unsuitable_values(wanted: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tuned(replace(HERE, reproducible=wanted))


def test_the_decorator(tmp_path: Path) -> None:
    decorate = ttools.tuner.tune(
        CONFIGS,
        key=["n"],
        options=HERE,
        store=tmp_path / "store.sqlite",
        on="cpu",
        reproducible={"num_warps": 4},
    )
    kernel, out = decorate(sum_rows), torch.zeros(2)
    kernel[(2,)](out, torch.ones(2, 100), 100)
    assert out.tolist() == [100.0, 100.0]
    assert kernel.best_config.num_warps == 4
    with pytest.raises(UsageError, match="reproducible=4: must be first, classes"):
        ttools.tuner.tune(CONFIGS, key=["n"], reproducible=4)  # type: ignore[arg-type]


def test_an_output_on_a_gpu_that_contradicts_the_prediction_cannot_win() -> None:
    from ttools.tuner.measure.trial import Trial
    from ttools.tuner.store.problem import Problem
    from ttools.tuner.tuning import Tuning, TuningResult

    one, other = (Trial(values={"B": n}, status="ok") for n in (1, 2))
    classes = BitClasses(target="sm_90", same_as={one.key: one.key, other.key: one.key})
    problem = Problem(
        kernel="k", source="", key='{"dtypes": []}', device="cuda: H200 (sm_90)", versions=""
    )
    result = TuningResult(problem=problem, space=2, location=("k.py", 1), bit_classes=classes)
    entry = TuningEntry(problem=problem)
    tuning = Tuning(result, [], None, HERE, entry, lambda trial: None)  # type: ignore[arg-type]
    differs = replace(other, reference=one.key, bit_equal=False)
    assert tuning._with_predicted_bits(differs).status == "wrong"
    equal = replace(differs, bit_equal=True)
    assert tuning._with_predicted_bits(equal) is equal


def test_the_report_in_json() -> None:
    run = tuned(replace(HERE, reproducible="classes"))
    (problem,) = json.loads(run.to("json"))["problems"]
    classes = problem["bit_classes"]
    assert (classes["gpu"], classes["unknown"]) == ("sm_90", [])
    assert sorted(one["configurations"] for one in classes["classes"]) == [1, 3]
    assert all(one["seconds"] > 0 for one in classes["classes"])
