"""Written traces can be read, and files that are not traces are refused."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.core.errors import UsageError
from ttools.watch import open_trace
from ttools.watch.trace.elements import figures, numpy_type
from ttools.watch.trace.recording import Recording
from ttools.watch.trace.trace_format import TraceWriter

ELEMENTS = ("i1", "i8", "i64", "f32", "bf16", "f8E5M2", "!tt.ptr<f32>")


def describe(writer: TraceWriter, element: str, shape: list[int], masked: bool) -> None:
    argument: dict[str, Any] = {"name": "x", "type": "*fp32", "value": None, "shape": [4]}
    argument |= {"strides": [1], "address": 64, "storage": [64, 80]}
    launch: dict[str, Any] = {"index": 0, "kernel": "k", "grid": [2, 3, 1]}
    writer.describe("launch", launch | {"arguments": [argument]})
    assignment = {"number": 0, "kernel": "k", "name": "v", "file": "k.py", "line": 3, "callers": []}
    parameter = 0 if element.startswith("!") else -1
    kind = {"element": element, "shape": shape, "masked": masked, "filled": False}
    kind |= {"parameter": parameter}
    writer.describe("assignment", assignment | kind)


@st.composite
def written(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, list[int], bytes, bytes]]]:
    """Draw a trace and its values: program, iterations, mask, elements."""
    element, masked = draw(st.sampled_from(ELEMENTS)), draw(st.booleans())
    shape = draw(st.lists(st.sampled_from([1, 2, 4]), max_size=2))
    lanes = int(np.prod(shape, dtype=np.int64))
    kind = numpy_type(element)
    assert kind is not None
    file = io.BytesIO()
    writer = TraceWriter(file, 1 << 20)
    describe(writer, element, shape, masked)
    values = []
    for _ in range(draw(st.integers(0, 5))):
        program = draw(st.integers(0, 5))
        iterations = draw(st.lists(st.integers(0, 9), max_size=3))
        mask = bytes(draw(st.lists(st.integers(0, 1), min_size=lanes, max_size=lanes))) * masked
        size = lanes * kind.itemsize
        data = draw(st.binary(min_size=size, max_size=size))
        if element == "i1":
            data = bytes(byte & 1 for byte in data)
        values.append((program, iterations, mask, data))
        writer.value(0, 0, program, np.array(iterations, "<i8").tobytes(), mask, data)
    writer.describe("end", {"refused": 0})
    return file.getvalue(), values


@given(written())
@settings(max_examples=60)
def test_written_traces_can_be_read(case: tuple[bytes, list[Any]]) -> None:
    data, values = case
    recording = Recording(data)
    assert recording.complete
    # The values of a program keep their order, because the sort is stable.
    expected = sorted(values, key=lambda value: value[0])
    assert len(recording) == len(expected)
    for record, (program, iterations, mask, elements) in zip(recording, expected, strict=True):
        assert record.linear_program == program
        assert record.program == (program % 2, program // 2, 0)
        assert record.iteration == tuple(iterations)
        assert record.values.tobytes() == elements
        assert (b"" if record.mask is None else record.mask.tobytes()) == mask


def test_traces_of_the_first_format_are_read() -> None:
    file = io.BytesIO()
    describe(TraceWriter(file, 0), "f32", [4], False)
    old = file.getvalue().replace(b"ttools trace 2\n", b"ttools trace 1\n")
    described, before = b'{"assignment":', b'{     "place":'
    assert described in old
    assert Recording(old.replace(described, before)).assignments[0].name == "v"


@given(written(), st.data())
@settings(max_examples=60)
def test_damage_is_reported_or_leaves_a_shorter_trace(
    case: tuple[bytes, list[Any]], draw: st.DataObject
) -> None:
    data, values = case
    cut = draw.draw(st.integers(0, len(data) - 1))
    damaged = bytearray(data[:cut])
    if cut:
        damaged[draw.draw(st.integers(0, cut - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    recording = None
    sentence = ""
    try:
        recording = Recording(bytes(damaged))
    except UsageError as error:
        sentence = str(error)
    if recording is None:
        assert "not a trace" in sentence or "is damaged" in sentence
        return
    for record in recording:  # all records can be examined
        assert record.values.shape == record.assignment.shape
    assert len(recording) <= len(values)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot read the trace"),
        (b"", "is not a trace of ttools"),
        (b"\x80\x04}q\x00.", "is not a trace of ttools"),
        (b"ttools trace 2\n" + bytes(32), "is damaged at byte 15"),
    ],
)
def test_invalid_traces(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    file = tmp_path / "x.trace"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=sentence):
        open_trace(file)


@given(st.lists(st.floats(width=32), max_size=8), st.data())
@settings(max_examples=60)
def test_figures_against_python(values: list[float], draw: st.DataObject) -> None:
    mask = draw.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    result = figures(np.array(values, np.float32), np.array(mask, np.bool_))
    defined = [v for v, m in zip(values, mask, strict=True) if m]
    numbers = [v for v in defined if v == v]
    finite = [v for v in numbers if abs(v) != float("inf")]
    assert result.count == len(defined)
    assert result.nans == len(defined) - len(numbers)
    assert result.infinities == len(numbers) - len(finite)
    assert result.low == (min(numbers) if numbers else None)
    assert result.high == (max(numbers) if numbers else None)
    if finite:
        assert result.mean == pytest.approx(sum(finite) / len(finite), rel=1e-9, abs=1e-30)
    else:
        assert result.mean is None
