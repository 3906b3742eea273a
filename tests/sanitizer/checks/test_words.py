"""Details of messages that depend on the place of an access."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize


@triton.jit
def read_at(x_ptr, out_ptr, at):
    tl.store(out_ptr, tl.load(x_ptr + at))


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (8, "the access begins right after the last of them"),
        (9, "the access is 4 bytes past the last of them"),
        (-1, "the access is 4 bytes before the first of them"),
        (10, "the access begins at its end"),
    ],
)
def test_the_position_of_an_access_relative_to_a_slice(at: int, expected: str) -> None:
    with sanitize(checks="memcheck") as report:
        read_at[(1,)](torch.zeros(14)[4:12], torch.zeros(1), at)
    (finding,) = report.findings
    assert finding.notes[0] == expected


@triton.jit
def waits_for_ever(flags_ptr, n: tl.constexpr):
    while tl.atomic_add(flags_ptr, 0) < n:
        pass


@pytest.mark.parametrize(
    ("programs", "expected"),
    [(1, "program (0, 0, 0) waits here"), (2, "programs (0, 0, 0), (1, 0, 0) wait here")],
)
def test_waiting_programs_are_listed_by_line(programs: int, expected: str) -> None:
    with sanitize(checks="deadlock") as report:
        waits_for_ever[(programs,)](torch.zeros(1, dtype=torch.int32), 5)
    (finding,) = report.findings
    assert finding.notes[0] == expected


@triton.jit
def unsigned_index(x_ptr, index_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    index = tl.load(index_ptr + lanes)
    tl.store(out_ptr + lanes, tl.load(x_ptr + index.to(tl.int32)))


@pytest.mark.parametrize(("dtype", "expected"), [(torch.uint8, "200"), (torch.int8, "-56")])
def test_unsigned_numbers_are_shown_unsigned(dtype: torch.dtype, expected: str) -> None:
    index = torch.full((16,), 200, dtype=torch.uint8).view(dtype)
    with sanitize(checks="memcheck") as report:
        unsigned_index[(1,)](torch.zeros(16), index, torch.zeros(16), BLOCK=16)
    (finding,) = report.findings
    assert dict(finding.variables)["index"] == expected


@triton.jit
def undefined_twice(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    index = tl.load(index_ptr + lanes, mask=lanes < n)
    tl.store(out_ptr + lanes, tl.load(x_ptr + index, mask=index < 8, other=0.0), mask=index < 8)


def test_lanes_used_in_several_places_count_once() -> None:
    index = torch.zeros(16, dtype=torch.int32)
    with sanitize(checks="initcheck") as report:
        for _ in range(2):
            undefined_twice[(1,)](torch.zeros(16), index, torch.zeros(16), 10, BLOCK=16)
    (finding,) = report.findings
    assert (finding.count, finding.programs) == (2 * 6, 2)


@triton.jit
def narrowed_index(x_ptr, index_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    index = tl.load(index_ptr + lanes).to(tl.int32)
    tl.store(out_ptr + lanes, tl.load(x_ptr + index))


def test_a_number_that_a_conversion_truncates_is_called_a_value() -> None:
    index = torch.full((16,), 1 << 32)
    with sanitize(checks="overflow") as report:
        narrowed_index[(1,)](torch.zeros(16), index, torch.zeros(16), BLOCK=16)
    (finding,) = report.findings
    assert finding.message.startswith("an int32 converted value wraps around")
    assert dict(finding.variables) == {"value": str(1 << 32)}


@triton.jit
def smooth(a_ptr, b_ptr, n, steps, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    source, target = a_ptr, b_ptr
    for _ in range(steps):
        left = tl.load(source + i - 1, mask=i > 0, other=0.0)
        tl.store(target + i, left / 2, mask=i < n)
        source, target = target, source


@pytest.mark.parametrize("is_one", [False, True])
def test_a_race_in_alternating_buffers_names_both(is_one: bool) -> None:
    a = torch.rand(64)
    b = a if is_one else torch.zeros(64)
    with sanitize(checks="racecheck") as report:
        smooth[(4,)](a, b, 64, 3, B=16)
    (race,) = (f for f in report.findings if f.kind == "race")
    also = [note for note in race.notes if "too" in note]
    named = race.argument and race.argument.name
    assert named in ("a_ptr", "b_ptr")
    other = "b_ptr" if named == "a_ptr" else "a_ptr"
    assert also == ([] if is_one else [f"both access elements of `{other}`, too"])
