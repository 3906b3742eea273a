"""Findings with a common cause are grouped: one wrong mask, one index, one missing barrier."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from tests.sanitizer.causes.int8_matmul import multiply

from ttools.core.findings.causes import Cause
from ttools.core.findings.findings import Finding
from ttools.core.reports.reading import read_findings
from ttools.core.reports.report import by_cause, cause_text
from ttools.sanitizer import sanitize

# mypy: disable-error-code="no-untyped-def"


@triton.jit
def rope(x_ptr, cos_ptr, stride, D, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    half = D // 2
    m = offs < D  # should be `offs < half`
    a = tl.load(x_ptr + row * stride + offs, mask=m)
    b = tl.load(x_ptr + row * stride + half + offs, mask=m)
    c = tl.load(cos_ptr + row * half + offs, mask=m)
    tl.store(x_ptr + row * stride + offs, a * c - b, mask=m)
    tl.store(x_ptr + row * stride + half + offs, a + b * c, mask=m)


@triton.jit
def two_masks(x_ptr, y_ptr, o_ptr, n, k, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m1 = offs < n + 8
    m2 = offs < k * 2
    a = tl.load(x_ptr + offs, mask=m1, other=0)
    b = tl.load(y_ptr + offs, mask=m2, other=0)
    c = tl.load(x_ptr + offs, mask=offs < n, other=0)
    tl.store(o_ptr + offs, a + b + c, mask=m1)


@triton.jit
def conjunctions(x_ptr, y_ptr, o_ptr, M, N, s, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    columns = c < N + 8
    at = r[:, None] * s + c[None, :]
    v = tl.load(x_ptr + at, mask=(r < M)[:, None] & columns[None, :], other=0)
    w = tl.load(y_ptr + at, mask=(r[:, None] < M) & columns[None, :], other=0)
    tl.store(o_ptr + at, v + w, mask=(r[:, None] < M + 1) & (c[None, :] < N))


@triton.jit
def top_k(x_ptr, values_ptr, indices_ptr, n, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + lanes, mask=lanes < n, other=-float("inf"))
    for k in range(K + 1):
        best = tl.argmax(x, axis=0)
        tl.store(values_ptr + row * K + k, tl.max(x, axis=0))
        tl.store(indices_ptr + row * K + k, best)
        x = tl.where(lanes == best, -float("inf"), x)


@triton.jit
def overlapping_rows(out_ptr, K: tl.constexpr):
    row = tl.program_id(0) % 4  # two programs store each row
    for k in range(K):
        tl.store(out_ptr + (row + 4) * 4 + k, 1.0 * tl.program_id(0))


@triton.jit
def fill(o_ptr, N, M, stride, other_stride, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = (rows[:, None] < N) & (columns[None, :] < M)
    tl.store(o_ptr + rows[:, None] * stride + columns[None, :] * other_stride, 1.0, mask=mask)


@triton.jit
def load_masked(p, offs, m):
    return tl.load(p + offs, mask=m, other=0)


@triton.jit
def load_below(p, offs, n):
    inside = offs < n
    return tl.load(p + offs, mask=inside, other=0)


@triton.jit
def through_helpers(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    m = offs < n
    a = load_masked(x_ptr, offs, m) + load_masked(y_ptr, offs, m)
    b = load_below(x_ptr, offs, n - 1) + load_below(y_ptr, offs, n - 2)
    tl.store(o_ptr + offs, a + b, mask=m)


@triton.jit
def grouped_rows(x_ptr, o_ptr, ends_ptr, N, BM: tl.constexpr, BN: tl.constexpr):
    g = tl.program_id(0)
    columns = tl.arange(0, BN)
    end = tl.load(ends_ptr + g + 1)
    for start in range(tl.load(ends_ptr + g), end, BM):
        rows = start + tl.arange(0, BM)
        at = rows[:, None] * N + columns[None, :]
        inside = columns[None, :] < N
        x = tl.load(x_ptr + at, mask=inside & (rows[:, None] < end), other=0)
        tl.store(o_ptr + at, x, mask=inside)  # should also compare `rows` with `end`


@triton.jit
def count_segments(segment_ptr, count_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s = tl.load(segment_ptr + offs, mask=offs < n, other=0)
    tl.store(count_ptr + s, tl.load(count_ptr + s, mask=offs < n) + 1, mask=offs < n)


@triton.jit
def add_to_segments(x_ptr, segment_ptr, sum_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = offs < n
    s = tl.load(segment_ptr + offs, mask=m, other=0)
    old = tl.load(sum_ptr + s, mask=m, other=0)
    tl.store(sum_ptr + s, old + tl.load(x_ptr + offs, mask=m, other=0), mask=m)


@triton.jit
def unmasked(x_ptr, y_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + offs, tl.load(x_ptr + offs) + tl.load(y_ptr + offs))


@triton.jit
def independent_race(x_ptr, o_ptr, p_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    m = offs < n + 4
    v = tl.load(x_ptr + offs, mask=m, other=0) + tl.program_id(0)
    tl.store(o_ptr + offs, v, mask=m)  # all programs store to the same elements
    tl.store(p_ptr + tl.program_id(0) * n + offs, v, mask=m)  # only those of the mask's lanes do


@triton.jit
def gathered(x_ptr, y_ptr, index_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    m = offs < n
    i = tl.load(index_ptr + offs, mask=m, other=0)
    v = tl.load(x_ptr + i, mask=m, other=0) + tl.load(y_ptr + i, mask=m, other=0)
    tl.store(o_ptr + offs, v, mask=m)


@triton.jit
def swizzled(x_ptr, o_ptr, M, N, s, BM: tl.constexpr, BN: tl.constexpr):
    pid = tl.program_id(0)
    width = tl.cdiv(N, BN)
    r = (pid // width * BM + tl.arange(0, BM)) % M
    c = pid % width * BN + tl.arange(0, BN)
    m = c[None, :] < N + 4
    v = tl.load(x_ptr + r[:, None] * s + c[None, :], mask=m, other=0)
    tl.store(o_ptr + pid * BM * BN + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :], v)


@triton.jit
def flat(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = offs < n + 8
    tl.store(o_ptr + offs, tl.load(x_ptr + offs, mask=m, other=0), mask=m)


@triton.jit
def negative(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    m = offs < n
    tl.store(o_ptr + offs, tl.load(x_ptr + offs - 1, mask=m, other=0), mask=m)


@triton.jit
def store_without_mask(x_ptr, o_ptr, n, s, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s + offs, mask=offs < n)
    tl.store(o_ptr + row * s + offs, x * 2)


@triton.jit
def every_other_lane(x_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs % 2 == 0)
    tl.store(o_ptr + offs, x)


@triton.jit
def reversed_in_place(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    a = tl.load(x_ptr + offs)
    b = tl.load(y_ptr + offs)
    tl.store(x_ptr + BLOCK - 1 - offs, a + b)
    tl.store(y_ptr + BLOCK - 1 - offs, a - b)


@triton.jit
def reversed_twice(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(x_ptr + BLOCK - 1 - offs, tl.load(x_ptr + offs))
    tl.store(y_ptr + BLOCK - 1 - offs, tl.load(y_ptr + offs))


def grouped(kernel, grid, *arguments, **constants) -> list[tuple[Finding, ...]]:
    with sanitize() as checked:
        kernel[grid](*arguments, **constants)
    return by_cause(checked.findings)


def names(groups: list[tuple[Finding, ...]]) -> list[tuple[str, int]]:
    """Return the name, or the source, of each cause, and the number of its findings."""
    causes = [(group[0].cause, len(group)) for group in groups]
    return [("" if c is None else c.name or c.source, count) for c, count in causes]


def test_all_consequences_of_one_wrong_mask_are_one_group() -> None:
    (group,) = grouped(rope, (16,), torch.randn(16, 80), torch.randn(16, 40), 80, 80, BLOCK=64)
    kinds = [finding.kind for finding in group]
    assert kinds[:3] == ["oob_load", "oob_load", "oob_store"]
    assert set(kinds[3:]) == {"overlapping_store", "race", "intra_program_race"}
    cause = group[0].cause
    assert cause is not None
    assert (cause.kind, cause.name, cause.source) == ("mask", "m", "m = offs < D")
    assert cause.lanes == ((40, 63),)
    assert group[0].help is not None
    assert group[0].help.startswith("the mask is too wide for this tensor: lanes 40-63 pass `m` (")
    line = rope.starting_line_number + 5
    assert cause.location is not None
    assert cause.location.line == line
    races = len(group) - 3
    assert cause_text(group) == (
        f"mask `m = offs < D` (line {line}) admits lanes 40-63; 3 accesses leave their tensors; "
        f"{races} races follow"
    )


def test_two_wrong_masks_are_two_causes() -> None:
    groups = grouped(
        two_masks, (4,), torch.ones(100), torch.ones(100), torch.ones(100), 100, 55, BLOCK=32
    )
    assert names(groups) == [("m1", 2), ("m2", 1)]
    assert [group[0].cause.lanes for group in groups if group[0].cause] == [((4, 11),), ((4, 13),)]
    assert groups[0][0].cause is not None
    assert groups[0][0].cause.program == (3, 0, 0)


def test_the_condition_at_fault_is_found_in_a_conjunction() -> None:
    x, y, o = (torch.ones(20, 40) for _ in range(3))
    groups = grouped(conjunctions, (2, 2), x, y, o, 20, 40, 40, BM=16, BN=32)
    accesses = [group for group in groups if group[0].kind.startswith("oob")]
    assert names(accesses) == [("columns", 2), ("r[:, None] < M + 1", 1)]


def test_a_mask_that_is_passed_to_functions_is_one_cause() -> None:
    x, y, o = torch.ones(50), torch.ones(50), torch.ones(64)
    groups = grouped(through_helpers, (1,), x, y, o, 60, BLOCK=64)
    assert names(groups) == [("m", 2), ("inside", 1), ("inside", 1)]
    assert all(finding.location and finding.location.callers for g in groups for finding in g)


def test_without_masks_the_index_is_the_cause() -> None:
    tensors = [torch.ones(100) for _ in range(3)]
    (group,) = grouped(unmasked, (4,), *tensors, BLOCK=32)
    assert [finding.kind for finding in group] == ["oob_load", "oob_load", "oob_store"]
    assert group[0].cause is not None
    assert (group[0].cause.kind, group[0].cause.name) == ("index", "offs")
    assert "is not bounded; 3 accesses leave their tensors" in cause_text(group)


def test_an_index_that_the_mask_does_not_bound_is_the_cause() -> None:
    with sanitize() as checked:
        multiply(300, 257, 500)
    (group,) = by_cause(checked.findings)
    assert [finding.argument and finding.argument.name for finding in group] == ["a_ptr", "b_ptr"]
    for finding in group:
        assert finding.cause is not None
        assert (finding.cause.kind, finding.cause.name) == ("index", "rk")
        assert [name for name, _ in finding.variables[:3]] == ["rk", "k", "K"]
        assert len(finding.variables) <= 8
        assert "does not bound `rk`" in str(finding.help)


def test_a_loop_with_too_many_iterations_is_the_cause_of_its_races() -> None:
    values, indices = torch.empty(8, 4), torch.empty(8, 4, dtype=torch.int32)
    (group,) = grouped(top_k, (8,), torch.randn(8, 100), values, indices, 100, K=4, BLOCK=128)
    line = top_k.starting_line_number + 5
    assert cause_text(group) == (
        f"loop `for k in range(K + 1)` (line {line}) runs too far; 2 accesses leave their tensors; "
        "2 races follow"
    )
    advice = f"let `for k in range(K + 1)` (line {line}) end before `k` leaves the tensor"
    masked = "perform the store only if its index is in range, for example with `mask=k < n`"
    assert [finding.help for finding in group] == [
        *[f"{advice}, or {masked}"] * 2,
        *[f"{advice}; without these iterations, the accesses do not conflict"] * 2,
    ]


def test_races_of_other_iterations_are_not_caused_by_the_loop() -> None:
    out = torch.empty(8, 4)
    groups = grouped(overlapping_rows, (8,), out, K=5)
    kinds = [(finding.kind, finding.cause is None) for group in groups for finding in group]
    assert kinds == [("oob_store", False), ("overlapping_store", True)]


_SWAPPED = "the mask compares the index along axis 0 of `o_ptr` with `N` = 40, the extent of axis 1"


@pytest.mark.parametrize(
    ("limits", "advice"),
    [
        (
            (40, 20),
            ", and the index along axis 1 with `M` = 20: did you swap `N` and `M`?",
        ),
        ((40, 40), ": compare it with the extent of axis 0, which is 20"),
    ],
)
def test_swapped_limits_of_two_axes_are_named(limits: tuple[int, int], advice: str) -> None:
    out = torch.empty(20, 40)
    (group,) = grouped(fill, (2, 2), out, *limits, *out.stride(), BLOCK=32)
    (finding,) = [finding for finding in group if finding.kind == "oob_store"]
    assert finding.help == f"{_SWAPPED}{advice}"


def test_limits_of_a_square_tensor_are_not_swapped() -> None:
    out = torch.empty(40, 40)
    (group,) = grouped(fill, (2, 2), out, 42, 40, *out.stride(), BLOCK=32)
    assert "axis" not in str(group[0].help)


@pytest.mark.parametrize(("rows", "stride"), [(1, 50), (4, 50), (4, 64)])
def test_undefined_lanes_have_the_cause_of_the_store_that_lacks_the_mask(
    rows: int, stride: int
) -> None:
    x, o = torch.ones(rows * stride), torch.zeros(rows * stride - stride + 50)
    groups = grouped(store_without_mask, (rows,), x, o, 50, stride, BLOCK=64)
    group = groups[0]
    assert {"oob_store", "uninit_read"} <= {finding.kind for finding in group}
    assert group[0].cause is not None
    assert (group[0].cause.kind, group[0].cause.name) == ("index", "offs")
    assert "1 access leaves its tensor" in cause_text(group)
    assert cause_text(group).endswith("1 use of undefined lanes follows")
    (undefined,) = (finding for finding in group if finding.kind == "uninit_read")
    line = store_without_mask.starting_line_number + 5
    assert undefined.help == f"give the access in line {line} the mask of this load"


def test_undefined_lanes_inside_the_tensor_have_another_cause() -> None:
    groups = grouped(every_other_lane, (1,), torch.ones(64), torch.zeros(50), BLOCK=64)
    kinds = [[finding.kind for finding in group] for group in groups]
    assert sorted(kinds) == [["oob_store"], ["uninit_read"]]


def test_a_race_that_does_not_depend_on_the_mask_is_a_group_of_its_own() -> None:
    x, o, p = torch.ones(40), torch.zeros(64), torch.zeros(4 * 40)
    groups = grouped(independent_race, (4,), x, o, p, 40, BLOCK=64)
    of_mask = next(group for group in groups if group[0].cause and group[0].cause.name == "m")
    stores = [f for f in of_mask if f.kind == "overlapping_store"]
    assert [f.argument.name for f in stores if f.argument] == ["p_ptr"]
    (alone,) = [g for g in groups if g[0].kind == "overlapping_store"]
    assert alone[0].argument is not None
    assert (alone[0].argument.name, alone[0].cause) == ("o_ptr", None)


def test_an_index_that_is_loaded_is_the_cause() -> None:
    x, y, index, o = torch.ones(50), torch.ones(50), torch.arange(60), torch.ones(60)
    (group,) = grouped(gathered, (1,), x, y, index, o, 60, BLOCK=64)
    assert group[0].cause is not None
    assert (group[0].cause.kind, len(group)) == ("index", 2)
    assert group[0].cause.source.startswith("i = tl.load(index_ptr")


def test_indices_with_quotients_are_followed() -> None:
    groups = grouped(
        swizzled, (4,), torch.ones(20, 40), torch.ones(4 * 512), 20, 40, 40, BM=16, BN=32
    )
    assert names(groups) == [("m", 1)]
    assert groups[0][0].cause is not None
    assert groups[0][0].cause.lanes == ((8, 11),)


@pytest.mark.parametrize("rows", [1003, 1000])
def test_a_tensor_that_is_treated_as_one_row(rows: int) -> None:
    n = rows * 64
    (group,) = grouped(
        flat, (n // 256 + 1,), torch.ones(rows, 64), torch.ones(rows, 64), n, BLOCK=256
    )
    assert group[0].cause is not None
    first = n % 256
    assert group[0].cause.lanes == ((first, first + 7),)
    assert len(group) == 2


def test_a_mask_without_a_lower_bound() -> None:
    (group,) = grouped(negative, (1,), torch.ones(50), torch.ones(50), 50, BLOCK=64)
    assert group[0].cause is not None
    assert (group[0].cause.name, group[0].cause.lanes) == ("m", ((0, 0),))


def test_one_missing_barrier_is_one_cause() -> None:
    (group,) = grouped(reversed_in_place, (1,), torch.ones(64), torch.ones(64), BLOCK=64)
    assert [finding.kind for finding in group] == ["intra_program_race"] * 2
    assert group[0].cause is not None
    assert group[0].cause.kind == "barrier"
    line = reversed_in_place.starting_line_number + 5
    assert f"(line {line}); 2 races follow" in cause_text(group)


def test_two_missing_barriers_are_two_causes() -> None:
    groups = grouped(reversed_twice, (1,), torch.ones(64), torch.ones(64), BLOCK=64)
    assert [len(group) for group in groups] == [1, 1]


def test_kernels_have_causes_of_their_own(tmp_path: Path) -> None:
    with sanitize() as checked:
        unmasked[(4,)](*(torch.ones(100) for _ in range(3)), BLOCK=32)
        two_masks[(4,)](*(torch.ones(100) for _ in range(3)), 100, 50, BLOCK=32)
    assert names(by_cause(checked.findings)) == [("offs", 3), ("m1", 2)]
    text = checked.to("text")
    assert "5 errors of 2 causes in 2 kernels, 2 launches" in text
    assert text.count("further finding") == 2
    assert "further finding" not in checked.to("text", verbose=True)
    path = tmp_path / "report.json"
    path.write_text(checked.to("json"))
    read = read_findings(path)
    assert [f.cause and f.cause.id for f in read] == [
        f.cause.id for f in checked.findings if f.cause
    ]
    identities = [finding["cause"]["id"] for finding in json.loads(path.read_text())["findings"]]
    assert len(identities) == 5
    assert len(set(identities)) == 2
    results = json.loads(checked.to("sarif"))["runs"][0]["results"]
    assert [result["properties"]["cause"]["id"] for result in results] == identities


def test_an_index_that_depends_on_memory_is_the_cause_if_no_condition_compares_its_axis() -> None:
    x, o = torch.ones(40, 16), torch.zeros(40, 16)
    ends = torch.tensor([0, 10, 40], dtype=torch.int32)
    with sanitize(checks="memcheck") as checked:
        grouped_rows[(2,)](x, o, ends, 16, BM=32, BN=16)
    (finding,) = checked.findings
    assert finding.cause is not None
    assert (finding.cause.kind, finding.cause.name) == ("index", "rows")
    assert "the mask does not bound `rows`" in str(finding.help)
    # `rows[:, None] * N` begins at the position of `rows`, but is a different value.
    assert {"rows": "40", "at": "640", "N": "16"}.items() <= dict(finding.variables).items()


@pytest.mark.parametrize("segments", [4, 100])
def test_an_update_without_an_atomic_is_one_cause(segments: int) -> None:
    torch.manual_seed(0)
    x, sums = torch.rand(200), torch.zeros(segments)
    segment = torch.randint(0, segments, (200,), dtype=torch.int32)
    with sanitize() as checked:
        add_to_segments[(4,)](x, segment, sums, 200, BLOCK=64)
    assert {"overlapping_store", "race"} <= {finding.kind for finding in checked.findings}
    for finding in checked.findings:
        assert finding.cause is not None
        assert (finding.cause.kind, finding.cause.name) == ("update", "sum_ptr")
        assert "tl.atomic_add" in str(finding.help)
        notes = " ".join(finding.notes)
        assert finding.kind == "overlapping_store" or "both access `sum_ptr[" in notes
    text = checked.to("text")
    assert text.startswith("`sum_ptr` is updated (line ")
    assert text.count("\n  help: ") == 1


def test_duplicates_within_a_program_belong_to_the_cause_of_an_update() -> None:
    segment, counts = torch.arange(200, dtype=torch.int32) % 4, torch.zeros(4, dtype=torch.int32)
    with sanitize() as checked:
        count_segments[(4,)](segment, counts, 200, BLOCK=64)
    (group,) = by_cause(checked.findings)
    assert (group[0].severity, group[0].cause and group[0].cause.kind) == ("error", "update")


def test_errors_of_a_cause_come_before_notes() -> None:
    cause = Cause(kind="update", kernel="k", name="p")
    made = [
        Finding(kind="race", check="racecheck", severity=s, message=s, kernel="k", cause=cause)
        for s in ("note", "error", "warning", "error")
    ]
    (group,) = by_cause(made)
    assert group == (made[1], made[3], made[2], made[0])
