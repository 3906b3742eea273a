"""Sweeps of implementations over shapes: measurements, comparisons and reports."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
import torch
from tests.profiler.sweep import kernels_for_sweep as kernels

from ttools.core.errors import UsageError
from ttools.profiler import Sweep
from ttools.profiler.sweep.calls import Duration, Pass, greatest_error, time_alternately
from ttools.profiler.sweep.html import write_page
from ttools.profiler.sweep.sweep import Measurement, speedup_within

DumpDom = Callable[[Path], str]


def shapes(*columns: int) -> list[dict[str, object]]:
    return [{"rows": 3, "columns": n, "dtype": torch.float32} for n in columns]


def swept(*names: str, columns: tuple[int, ...] = (16, 40)) -> Sweep:
    functions = {name: getattr(kernels, name) for name in names}
    return Sweep(functions, kernels.inputs, shapes(*columns), on="cpu", repeat_s=0.0).run()


def differentiated(which: Pass, **functions: Callable[..., object]) -> Sweep:
    differentiable_shapes = [{**shape, "differentiable": True} for shape in shapes(16)]
    return Sweep(
        functions, kernels.inputs, differentiable_shapes, which=which, on="cpu", repeat_s=0.0
    ).run()


def test_a_row_for_each_shape_and_implementation() -> None:
    sweep = swept("by_torch", "by_kernel", "in_place")
    frame = sweep.frame
    assert list(zip(frame["columns"], frame["implementation"], strict=True)) == [
        (n, name) for n in (16, 40) for name in ("by_torch", "by_kernel", "in_place")
    ]
    assert set(frame["dtype"]) == {"float32"}
    assert (frame["time_s"] > 0).all()
    assert (frame["low_s"] <= frame["time_s"]).all()
    assert (frame["time_s"] <= frame["high_s"]).all()
    assert (frame[frame["implementation"] == "by_torch"]["speedup"] == 1).all()
    assert (frame["error"] < 1e-6).all()
    # An argument that is written in place is also read.
    bytes_moved = (frame["gbytes"] * frame["time_s"] * 1e9).round().tolist()
    assert bytes_moved == [
        2 * 3 * 4 * n if k < 2 else 3 * 4 * n for n in (16, 40) for k in range(3)
    ]
    assert sweep.varying == ["columns"]
    assert (sweep.done, sweep.total, sweep.timed_on) == (2, 2, "CPU")


def test_speedups_and_errors_refer_to_the_baseline() -> None:
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return 2 * kernels.by_torch(x)

    functions = {"doubled": doubled, "by_torch": kernels.by_torch}
    sweep = Sweep(
        functions, kernels.inputs, shapes(8), baseline="by_torch", on="cpu", repeat_s=0.0
    ).run()
    first, second = sweep.rows
    assert (first.implementation, first.error) == ("doubled", 1.0)
    assert (second.speedup, second.error) == (1.0, 0.0)
    assert first.time is not None
    assert second.time is not None
    assert first.speedup == second.time.median / first.time.median
    assert second.speedup_within is None


def test_speedups_have_intervals() -> None:
    base, own = (Duration.of([n * t for t in (0.9, 1.0, 1.0, 1.0, 1.1, 1.2)]) for n in (3, 2))
    within = speedup_within(base, own)
    assert within is not None
    assert within[0] < 1.5 < within[1]
    row = Measurement(shape={}, implementation="f", time=own, speedup=1.5, speedup_within=within)
    assert (row.as_dict()["speedup_low"], row.as_dict()["speedup_high"]) == within
    few = Duration.of([1.0, 1.1, 1.2])
    assert speedup_within(base, few) is speedup_within(None, own) is None


def test_inputs_are_drawn_on_the_cpu() -> None:
    with torch.device("meta"):  # a sweep on a GPU makes the GPU the default device
        sweep = swept("by_torch", columns=(16,))
    assert [row.failure for row in sweep.rows] == [""]


@pytest.mark.parametrize("which", ["backward", "both"])
def test_gradients_are_compared(which: Pass) -> None:
    def wrong(x: torch.Tensor) -> torch.Tensor:  # right values, but twice their gradients
        return kernels.by_torch(x) * 2 - kernels.by_torch(x).detach()

    right = kernels.with_gradients
    first, second, bad = differentiated(which, torch=kernels.by_torch, own=right, wrong=wrong).rows
    assert [row.failure for row in (first, second, bad)] == [""] * 3
    assert first.error == 0
    assert second.error is not None
    assert second.error < 1e-6
    assert bad.error == pytest.approx(1.0)


def test_passes_have_their_own_bytes_and_flops() -> None:
    def inputs(n: int) -> dict[str, torch.Tensor]:
        return {"input": torch.ones(n, 3, requires_grad=True), "mat2": torch.ones(3, 5)}

    work: dict[Pass, tuple[int, int]] = {}
    for which in get_args(Pass):
        sweep = Sweep({"mm": torch.mm}, inputs, [{"n": 4}], which=which, on="cpu", repeat_s=0.0)
        (row,) = sweep.run().rows
        work[which] = (row.flops, row.bytes)
    flops, a, b, c = 2 * 4 * 3 * 5, 4 * 4 * 3, 4 * 3 * 5, 4 * 4 * 5
    assert work == {
        "forward": (flops, a + b + c),
        "backward": (flops, a + b + c + a),
        "both": (2 * flops, a + b + c + c + a),
    }


def test_missing_gradients_are_reported() -> None:
    (row,) = differentiated("backward", a=kernels.in_place).rows
    assert "leaf" in row.failure or "gradient" in row.failure
    (row,) = (
        Sweep(
            {"t": lambda x: x.detach()},
            lambda n: {"x": torch.ones(n, requires_grad=True)},
            [{"n": 2}],
            which="both",
            on="cpu",
            repeat_s=0.0,
        )
        .run()
        .rows
    )
    assert row.failure == "UsageError: no result requires gradients"


def test_failures_are_reported_and_others_measured() -> None:
    sweep = swept("by_torch", "failing", "one_row")
    failures = {(row.shape["columns"], row.implementation): row.failure for row in sweep.rows}
    assert failures[16, "failing"] == failures[16, "by_torch"] == failures[40, "by_torch"] == ""
    assert failures[40, "failing"] == "MemoryError: too many columns"
    assert (
        failures[40, "one_row"]
        == "returns a tensor of shape [1, 40], but the baseline one of [3, 40]"
    )
    assert all(row.time is None and row.error is None for row in sweep.rows if row.failure)


def test_comparisons_need_the_baseline() -> None:
    sweep = swept("failing", "by_torch", columns=(40,))
    failed, other = sweep.rows
    assert failed.failure
    assert other.time is not None
    assert (other.speedup, other.error) == (None, None)


def test_failing_inputs_are_reported() -> None:
    def inputs(rows: int, **_: object) -> dict[str, object]:
        raise ValueError(f"no {rows} rows")

    sweep = Sweep({"a": kernels.by_torch}, inputs, shapes(4), on="cpu").run()
    assert [row.failure for row in sweep.rows] == ["`inputs` fails: ValueError: no 3 rows"]


def test_products_are_counted() -> None:
    def inputs(n: int) -> dict[str, torch.Tensor]:
        return {"a": torch.ones(n, 3), "b": torch.ones(3, 5)}

    sweep = Sweep({"mm": torch.mm}, lambda n: _named(inputs(n)), [{"n": 4}], on="cpu", repeat_s=0.0)
    (row,) = sweep.run().rows
    assert row.flops == 2 * 4 * 3 * 5


def _named(given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {"input": given["a"], "mat2": given["b"]}


def test_calls_do_not_see_each_other() -> None:
    starts = []

    def adds(x: torch.Tensor) -> None:
        starts.append(float(x[0, 0]))
        x += 1

    Sweep(
        {"first": adds, "second": adds},
        lambda n: {"x": torch.zeros(n, n)},
        [{"n": 2}],
        on="cpu",
        repeat_s=0.0,
    ).run()
    assert starts.count(0.0) >= 4, (
        "both implementations start from the values that `inputs` returned"
    )


@pytest.mark.parametrize(
    ("own", "other", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([math.nan, 1.0], [math.nan, 1.0], 0.0),
        ([math.nan, 1.0], [0.0, 1.0], math.inf),
        ([math.inf, 1.0], [math.inf, 1.0], 0.0),
        ([math.inf, 1.0], [-math.inf, 1.0], math.inf),
        ([math.inf, 1.5], [math.inf, 1.0], 0.5),
        ([0.0, 1e-9], [0.0, 0.0], math.inf),
    ],
)
def test_the_largest_error(own: list[float], other: list[float], error: float) -> None:
    assert greatest_error([torch.tensor(own)], [torch.tensor(other)]) == error


def test_alternating_times_report_a_call_that_fails_later() -> None:
    calls: list[None] = []

    def fails_at_last() -> None:
        calls.append(None)
        if len(calls) > 1:
            raise RuntimeError("no more")

    measured = time_alternately({"good": lambda: sum(range(100)), "bad": fails_at_last}, 0.0)
    assert isinstance(measured["good"], Duration)
    assert 0 < measured["good"].low <= measured["good"].median <= measured["good"].high
    assert str(measured["bad"]) == "no more"


def test_invalid_arguments() -> None:
    functions = {"a": kernels.by_torch}
    with pytest.raises(UsageError, match="at least one implementation and one shape"):
        Sweep(functions, kernels.inputs, [])
    with pytest.raises(UsageError, match="`b` is not one of a"):
        Sweep(functions, kernels.inputs, shapes(4), baseline="b")
    with pytest.raises(UsageError, match="must be one of forward, backward, both"):
        Sweep(functions, kernels.inputs, shapes(4), which="bwd")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="must be a finite number of seconds"):
        Sweep(functions, kernels.inputs, shapes(4), repeat_s=-1.0)


def test_the_page_shows_every_measurement(tmp_path: Path, dump_dom: DumpDom) -> None:
    sweep = swept("by_torch", "by_kernel", "failing", columns=(16, 32, 64))
    page = tmp_path / "page.html"
    page.write_text(write_page(sweep, "<kernels>"), encoding="utf-8")
    dom = dump_dom(page)
    assert "of <code>&lt;kernels&gt;</code>" in dom
    assert dom.count("<polyline") == 3
    assert len(re.findall("<circle", dom)) == 3 + 3 + 1
    assert dom.count("<tr>") == 1 + 9
    assert dom.count("MemoryError: too many columns") == 2
    assert re.search(r"<title>by_kernel, columns=32: [\d.]+ .?s</title>", dom)


def test_charts_are_made_for_each_value_of_other_parameters(
    tmp_path: Path, dump_dom: DumpDom
) -> None:
    several = [
        {"rows": 2, "columns": n, "dtype": dtype}
        for n in (4, 8, 16)
        for dtype in (torch.float32, torch.float16)
    ]
    sweep = Sweep({"t": kernels.by_torch}, kernels.inputs, several, on="cpu", repeat_s=0.0).run()
    page = tmp_path / "page.html"
    page.write_text(write_page(sweep, "k"), encoding="utf-8")
    dom = dump_dom(page)
    assert re.findall("<h2>(Time.*?)</h2>", dom) == [
        "Time at dtype=float32",
        "Time at dtype=float16",
    ]


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    functions = {name: getattr(kernels, name) for name in ("by_torch", "by_kernel")}
    sweep = Sweep(functions, kernels.inputs, shapes(256, 1024), on="gpu").run()
    assert sweep.timed_on == torch.cuda.get_device_name()
    assert [row.failure for row in sweep.rows] == [""] * 4
    assert all(row.error is not None and row.error < 1e-5 for row in sweep.rows)


@pytest.mark.gpu
@pytest.mark.parametrize("which", ["backward", "both"])
def test_gradients_on_a_gpu(which: Pass) -> None:
    functions = {name: getattr(kernels, name) for name in ("by_torch", "with_gradients")}
    differentiable_shapes = [{**shape, "differentiable": True} for shape in shapes(1024)]
    sweep = Sweep(functions, kernels.inputs, differentiable_shapes, which=which, on="gpu").run()
    assert [row.failure for row in sweep.rows] == ["", ""]
    assert all(row.error is not None and row.error < 1e-5 for row in sweep.rows)
