"""Values of watched variables agree with NumPy, and outputs with those of unwatched kernels."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from watched_kernels import accumulate, line_of, narrow, product, scaled, unrolled

from ttools.core.errors import UsageError
from ttools.interpreter import interpret
from ttools.watch import open_trace, watch
from ttools.watch.record import recorder
from ttools.watch.report.summary import value_text
from ttools.watch.trace.record import Record

BLOCK = 32
N, STEPS, PROGRAMS = 50, 3, 2
ENGINES: list[dict[str, Any]] = [{}, {"threads": 2}, {"schedule": "materialised"}]


def run_accumulate() -> torch.Tensor:
    x = torch.arange(BLOCK * (STEPS + PROGRAMS), dtype=torch.float32)
    out = torch.zeros(BLOCK * PROGRAMS)
    accumulate[(PROGRAMS,)](out, x, N, STEPS, BLOCK=BLOCK)
    return out


def by_iteration(records: list[Record]) -> dict[tuple[int, ...], np.ndarray]:
    return {record.iteration: record.values for record in records}


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_values_by_program_line_and_iteration(engine: dict[str, Any]) -> None:
    with interpret():
        expected_out = run_accumulate()
    with watch(["acc", "x", "product", "total", "i"], **engine) as run:
        out = run_accumulate()
    assert torch.equal(out, expected_out) or engine.get("schedule") == "materialised"
    assert not run.warnings
    recording = run.recording
    for program in range(PROGRAMS):
        offs = program * BLOCK + np.arange(BLOCK)
        inside = offs < N
        acc = np.zeros(BLOCK, np.float32)
        for i in range(STEPS):
            x = np.where(inside, (offs + i * BLOCK).astype(np.float32), np.float32(0))
            acc = acc + (x * np.float32(2) + np.float32(1))
            (record,) = recording.select("x", program=program, iteration=(i,))
            assert record.mask is not None
            np.testing.assert_array_equal(record.mask, inside)
            np.testing.assert_array_equal(record.values[inside], x[inside])
            (record,) = recording.select("product", program=program, iteration=(i,))
            np.testing.assert_array_equal(record.values[inside], (x * 2)[inside])
            line = line_of(accumulate, "acc += scaled")
            assert record.assignment.line == line_of(scaled, "product = ")
            assert [at for _, at in record.assignment.callers] == [line]
            (record,) = recording.select("acc", program=program, iteration=(i,), line=line)
            np.testing.assert_array_equal(record.values[inside], acc[inside])
            line = line_of(accumulate, "acc = acc * 0.5")
            records = recording.select("acc", program=program, iteration=(i,), line=line)
            assert len(records) == (i > 1)
            if i > 1:
                acc = acc * np.float32(0.5)
                np.testing.assert_array_equal(records[0].values[inside], acc[inside])
        assert [r.values.item() for r in recording.select("i", program=program)] == [0, 1, 2]
        (record,) = recording.select("total", program=(program, 0, 0))
        assert record.values.item() == pytest.approx(float(acc.sum()), rel=1e-6)


def test_order_is_that_of_the_program() -> None:
    with watch(["accumulate.py:1", "acc", "x", "i"]) as run:
        run_accumulate()
    names = [record.name for record in run.recording.select(program=1)]
    assert names == ["acc", *("i", "x", "acc") * 2, "i", "x", "acc", "acc"]
    assert len(run.unmatched) == 1
    assert "accumulate.py:1" in run.unmatched[0]


def test_pointers_are_arguments_and_offsets() -> None:
    with watch(["ptrs", "x_ptr"]) as run:
        run_accumulate()
    for program in range(PROGRAMS):
        first, *moved = run.recording.select("ptrs", program=program)
        assert first.iteration == ()
        for iteration, record in [
            (0, first),
            *((n + 1, moved_record) for n, moved_record in enumerate(moved)),
        ]:
            names, offsets = record.targets
            assert set(names) == {"x_ptr"}
            np.testing.assert_array_equal(offsets, (program + iteration) * BLOCK + np.arange(BLOCK))
    names, offsets = run.recording.select("x_ptr", program=0)[0].targets
    assert (names, offsets.tolist()) == (["x_ptr"], 0)


def test_a_pointer_into_a_view_counts_from_its_first_element() -> None:
    storage = torch.zeros(1000)
    with watch(["ptrs"]) as run:
        accumulate[(1,)](torch.zeros(BLOCK), storage[100:], N, 1, BLOCK=BLOCK)
    _, offsets = run.recording["ptrs"][0].targets
    assert offsets[0] == 0


def test_every_element_type() -> None:
    x = torch.tensor([-3.7, 0.1, 2.5, 100.0, -0.0, 7.3, 1e-3, 55.0])
    with watch(["*"]) as run:
        narrow[(1,)](torch.zeros(8), x, BLOCK=8)

    def values(name: str) -> np.ndarray:
        (record,) = run.recording[name]
        return record.values

    assert values("brain").dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(values("brain"), x.numpy().astype(ml_dtypes.bfloat16))
    np.testing.assert_array_equal(
        values("eighth").view(np.uint8), x.to(torch.float8_e5m2).view(torch.uint8).numpy()
    )
    np.testing.assert_array_equal(values("half"), x.numpy().astype(np.float16))
    np.testing.assert_array_equal(values("whole"), x.numpy().astype(np.int8))
    assert values("odd").dtype == np.bool_
    np.testing.assert_array_equal(values("odd"), x.numpy().astype(np.int8) & 1 == 1)
    np.testing.assert_array_equal(values("wide"), x.numpy().astype(np.int64) * 1000000007)


def test_unrolled_loops_while_loops_and_calls_that_are_not_inlined() -> None:
    with interpret():
        out = torch.zeros(8)
        unrolled[(1,)](out, torch.arange(16.0), BLOCK=8)
    with watch(["*"]) as run:
        watched = torch.zeros(8)
        unrolled[(1,)](watched, torch.arange(16.0), BLOCK=8)
    assert torch.equal(out, watched)
    line = line_of(unrolled, "acc += more")
    steps = [r for r in run.recording["acc"] if r.assignment.line == line]
    expected: np.ndarray = np.arange(8, dtype=np.float32)
    assert len(steps) == 3
    for i, record in enumerate(steps):
        expected = expected + np.arange(i, i + 8, dtype=np.float32)
        np.testing.assert_array_equal(record.values, expected)
    halved = [r.values.item() for r in run.recording["bound"] if r.iteration]
    assert halved == [expected.max() / 2 ** (n + 1) for n in range(len(halved))]
    assert run.recording["doubled"][-1].values.item() == halved[-1] * 2


def test_products_of_matrices() -> None:
    a, b = torch.randn(16, 64), torch.randn(64, 16)
    with watch(["acc", "a", "k"]) as run:
        product[(1,)](torch.zeros(16, 16), a, b, 64, N=16, BLOCK=16)
    for iteration in range(4):
        ks = slice(iteration * 16, iteration * 16 + 16)
        (record,) = run.recording.select("a", iteration=(iteration,))
        np.testing.assert_array_equal(record.values, a[:, ks])
        (record,) = run.recording.select("acc", iteration=(iteration,))
        so_far = a[:, : ks.stop].double() @ b[: ks.stop].double()
        np.testing.assert_allclose(record.values, so_far, rtol=1e-4, atol=1e-4)
    assert [r.values.item() for r in run.recording["k"]] == [0, 16, 32, 48]


def test_only_selected_programs_are_recorded_and_all_run() -> None:
    with watch(["pid"], programs="1") as run:
        out = run_accumulate()
    assert [r.program for r in run.recording] == [(1, 0, 0)]
    assert out[:BLOCK].abs().min() > 0  # program 0 also ran


def test_a_grid_of_three_dimensions() -> None:
    @triton.jit
    def ids(out_ptr):
        x = tl.program_id(0)
        z = tl.program_id(2)
        tl.store(out_ptr + x, z)

    with watch(["x", "z"], programs="last") as run:
        ids[(2, 3, 4)](torch.zeros(2))
    assert {r.name: r.values.item() for r in run.recording} == {"x": 1, "z": 3}
    assert {r.program for r in run.recording} == {(1, 2, 3)}
    assert len(run.recording.select(program=(1, 2, 3))) == 2


def test_stored_values_are_variables_of_their_line() -> None:
    line = line_of(accumulate, "tl.store")
    with watch([f"watched_kernels.py:{line}"]) as run:
        out = run_accumulate()
    for program in range(PROGRAMS):
        (record,) = run.recording.select(program=program)
        assert record.name == "tl.store"
        assert record.mask is not None
        own = out[program * BLOCK : (program + 1) * BLOCK].numpy()
        np.testing.assert_array_equal(record.values[record.mask], own[record.mask])


def test_masked_lanes_of_a_load_may_have_a_value() -> None:
    @triton.jit
    def filled(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
        offs = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs, mask=offs < n, other=7.0)
        tl.store(out_ptr + offs, x)

    with watch(["x"]) as run:
        filled[(1,)](torch.zeros(8), torch.zeros(8), 3, BLOCK=8)
    (record,) = run.recording
    assert record.mask is not None
    assert record.mask.tolist() == [True] * 3 + [False] * 5
    assert record.defined is None
    assert (record.figures.count, record.figures.high) == (8, 7.0)
    assert "masked off 5 of 8  [0 0 0 7 7 7 …]" in value_text(record)


def test_names_that_match_nothing() -> None:
    with watch(["ac", "acc"]) as run:
        run_accumulate()
    (sentence,) = run.unmatched
    assert sentence in run.warnings
    assert "no variable `ac`" in sentence
    assert "in `accumulate`: acc, i, inside" in sentence
    with pytest.raises(UsageError, match="nothing named `x` was recorded; there are acc"):
        run.recording["x"]


@pytest.mark.parametrize("wish", ["", "a b", "file.py:x y", "acc;"])
def test_invalid_selections(wish: str) -> None:
    with pytest.raises(UsageError, match="cannot watch"):
        watch([wish])


def test_a_trace_contains_everything(tmp_path: Path) -> None:
    file = tmp_path / "run.trace"
    with watch(trace=file, programs="0") as run:
        run_accumulate()
    assert not run.warnings
    recording = open_trace(file)
    assert recording.complete
    assert set(recording.names) >= {"n", "pid", "offs", "inside", "acc", "ptrs", "x", "total"}
    launch = recording.launches[0]
    assert (launch.kernel, launch.grid) == ("accumulate", (PROGRAMS, 1, 1))
    x_ptr, n = launch.spec.arguments[1:3]
    assert x_ptr.tensor is not None
    assert (x_ptr.name, x_ptr.shape, x_ptr.tensor.strides) == ("x_ptr", (160,), (1,))
    assert (n.name, n.value) == ("n", N)
    assert "def accumulate" in recording.sources[recording.assignments[0].file]
    (offs,) = recording["offs"]
    np.testing.assert_array_equal(offs.values, np.arange(BLOCK))


def test_a_trace_ends_at_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "run.trace"
    with watch(trace=file, limit=1000) as run:
        out = run_accumulate()
    with interpret():
        assert torch.equal(out, run_accumulate())
    assert any("limit of 1,000 bytes" in sentence for sentence in run.warnings)
    recording = open_trace(file)
    assert len(recording) > 0
    assert recording.refused > 0
    assert sum(record.values.nbytes for record in recording) <= 1000


def test_cached_kernels_depend_on_the_code_that_watches_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = []
    for code in ("one", "other"):
        monkeypatch.setattr(recorder, "fingerprint", lambda package, code=code: f"{package} {code}")
        observer = recorder.Recorder(["acc"])
        observer.write_to(BytesIO(), 1)
        names.append(observer.instruments.rewrites)
    assert names == [('watch ["acc"]', "ttools.watch one"), ('watch ["acc"]', "ttools.watch other")]
